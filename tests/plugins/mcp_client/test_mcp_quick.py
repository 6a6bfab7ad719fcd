"""A session starts with the cached servers of the last one, as long as the cache is valid.

The cache starts no server.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hilum_mcp
import pytest
from hilum.events import PluginEvent
from hilum.testing import open_bench, say
from hilum.trust import TrustedFolders
from hilum_mcp import approvals, catalog, session_cache
from hilum_mcp.catalog import ServerCatalog, load_catalog

from .conftest import Opened, client, known, mcp_of, plain
from .test_mcp_approval import describe, project  # noqa: F401 - a fixture

SECRET = "hunter2-hunter2"


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count files as old at once."""
    monkeypatch.setattr(session_cache, "SETTLED_NS", 0)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Path | None]:
    """Record each time that configuration files are read."""
    found: list[Path | None] = []
    look = catalog.load_catalog

    def noted(workspace: Path | None, *offered: Mapping[str, Any]) -> ServerCatalog:
        found.append(workspace)
        return look(workspace, *offered)

    monkeypatch.setattr(catalog, "load_catalog", noted)
    return found


@pytest.fixture
def again(tmp_path: Path) -> Opened:
    """Open a session without writing the configuration again."""
    return lambda **options: open_bench(hilum_mcp, folder=tmp_path / "bench", **options)


async def settle(servers: Opened, again: Opened, described: dict[str, Any] | None = None) -> None:
    """Run a session that fetches the offer of its server, and one that caches it."""
    async with servers(described) as kit:
        await known(kit)
    async with again() as kit:
        assert "plain__echo" in kit.session.tools


async def test_a_server_that_is_known_costs_no_reading_until_it_is_used(
    servers: Opened, again: Opened, tmp_path: Path, looks: list[Path | None]
) -> None:
    described = {
        "plain": {
            **plain(f"count={tmp_path}/count"),
            "env": {"KEY": SECRET},
            "excludeTools": ["slow"],
        }
    }
    await settle(servers, again, described)
    del looks[:]
    async with again(answers=[say("x")]) as kit:
        await kit.run("hi")
        names = [tool.name for tool in kit.requests[0].tools]
        assert "plain__echo" in names
        assert "plain__slow" not in names
        assert not looks
        assert client(kit).state == "idle"
        assert (await kit.call("plain__echo", call="1")).text == '{"call": "1"}'
        assert len(looks) == 1
    (kept,) = (tmp_path / "bench" / "data" / "mcp" / "sessions").iterdir()
    assert SECRET.encode() not in kept.read_bytes()
    assert kept.stat().st_mode & 0o077 == 0


async def test_changes_since_the_cache_are_noticed(
    servers: Opened,
    again: Opened,
    tmp_path: Path,
    looks: list[Path | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are noticed before a session and during one, and an outdated cache starts nothing."""
    monkeypatch.setenv("HILUM_CONFIG", str(tmp_path / "bench" / "config"))
    await settle(servers, again)
    file = tmp_path / "bench" / "config" / "mcp.json"
    async with again() as kit:
        file.write_text(json.dumps({"mcpServers": {"plain": plain(f"count={tmp_path}/count")}}))
        assert "configuration has changed since" in (await kit.call("plain__echo", call="1")).text
    async with again() as kit:
        await known(kit)
    async with again():
        pass
    async with again() as kit:
        approvals.switch("", "plain", False)
        assert "You switched it off" in (await kit.call("plain__echo", call="1")).text
    async with again() as kit:
        assert mcp_of(kit).statuses()[0].state == "off"


async def test_a_project_that_is_trusted_no_more_starts_nothing(
    servers: Opened,
    again: Opened,
    tmp_path: Path,
    project: Path,  # noqa: F811
    looks: list[Path | None],
) -> None:
    describe(project, plain())
    TrustedFolders().add(project)
    server = load_catalog(project).entries[0].server
    approvals.approve(str(project), server)
    async with servers({}, workspace=project) as kit:
        await known(kit)
    for _ in range(2):
        del looks[:]
        async with again(workspace=project) as kit:
            assert "plain__echo" in kit.session.tools
    assert not looks
    TrustedFolders().remove(project)
    async with again(workspace=project) as kit:
        assert mcp_of(kit).statuses()[0].state == "unapproved"
        assert "plain__echo" not in kit.session.tools


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"[]", b'{"seal": 1}'])
async def test_a_damaged_file_is_left_alone(
    servers: Opened, again: Opened, tmp_path: Path, text: bytes
) -> None:
    await settle(servers, again)
    (kept,) = (tmp_path / "bench" / "data" / "mcp" / "sessions").iterdir()
    kept.write_bytes(text)
    async with again() as kit:
        assert "plain__echo" in kit.session.tools


@pytest.mark.parametrize("broken", [False, True])
async def test_mcp_is_answered_in_a_session_without_servers(
    servers: Opened, tmp_path: Path, broken: bool
) -> None:
    async with servers({}, answers=[say("never")]) as kit:
        pass
    if broken:
        (tmp_path / "bench" / "config" / "mcp.toml").write_text("[")
    async with servers({}) as kit:
        reply = (await kit.session.prompt("/mcp")).reply or ""
        assert ("mcp.toml cannot be read" in reply) if broken else ("/mcp add NAME" in reply)
        if broken:
            told = [str(event.data.get("say")) for event in kit.of(PluginEvent)]
            assert any("mcp.toml cannot be read" in each for each in told)
