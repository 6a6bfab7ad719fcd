"""Servers that misbehave: the session continues, user and model are told, and no process remains."""

import json
import os
import pwd
import socket
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import hilum_guard
import pytest
import trio
from hilum import ToolError, hookimpl
from hilum.events import PluginEvent
from hilum.testing import Bench, plugin, say
from hilum_guard import Guard
from hilum_mcp import connection, lazy, stdio_transport
from hilum_mcp.client import SDK_MODULES

from .conftest import Opened, client, gone, known, mcp_of, plain, server_pids, until


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restart servers without a delay, and shorten time limits."""
    monkeypatch.setattr(connection, "FIRST_DELAY", 0.02)
    monkeypatch.setattr(connection, "MAX_DELAY", 0.1)


async def down(kit: Bench, name: str = "plain") -> str:
    """Wait until a server is down, and return the message to the user."""
    told = await kit.wait_for(
        PluginEvent, lambda event: event.name == "mcp.down" and event.data["server"] == name
    )
    return str(told.data["say"])


async def test_a_server_that_cannot_start_is_told_of_and_the_others_go_on(
    servers: Opened, tmp_path: Path
) -> None:
    described = {"bad": plain("crash-at-start", f"count={tmp_path}/count"), "plain": plain()}
    async with servers(described, answers=[say("hello")]) as kit:
        await known(kit)
        said = await down(kit, "bad")
        assert "exited with code 1 before it responded" in said
        assert "the key is missing" in said
        assert "hilum mcp logs bad" in said
        assert (await kit.call("plain__echo", call="1")).text == '{"call": "1"}'
        # Started again, with back-off, and not for ever.
        assert await until(lambda: len(server_pids(tmp_path / "count")) == connection.MAX_STARTS)
        assert await until(lambda: client(kit, "bad").connection.state == "down")
        assert not client(kit, "bad").connection._wanted.is_set()
        assert any("it is not running" in layer.text for layer in kit.requests[-1].layers)
        assert len([event for event in kit.of(PluginEvent) if event.name == "mcp.down"]) == 1


@pytest.mark.parametrize(
    ("described", "why"),
    [
        ({"command": "no-such-program-anywhere"}, "There is no program 'no-such-program-anywhere'"),
        ({**plain(), "env": {"KEY": "${NO_SUCH_VARIABLE_HERE}"}}, "NO_SUCH_VARIABLE_HERE"),
    ],
)
async def test_a_start_that_fails_is_told_of_and_in_the_log(
    servers: Opened, tmp_path: Path, described: dict[str, object], why: str
) -> None:
    async with servers({"plain": described}) as kit:
        assert why in await down(kit)
        assert await until(lambda: client(kit).state == "down")
        assert not client(kit).connection._wanted.is_set(), "it is not tried again by itself"
        with pytest.raises(ToolError, match="is down"):
            await client(kit).get_prompt("x", {})
        assert client(kit).starts == 2, "but when it is used"
    assert f"ended: {client(kit).error}" in log_file(tmp_path)


async def test_the_log_holds_no_secret_of_the_description(servers: Opened, tmp_path: Path) -> None:
    described = {"plain": {**plain(), "args": [*plain()["args"], "key=${MY_KEY}"]}}
    async with servers(described, environ={"MY_KEY": "very-secret"}) as kit:
        await known(kit)
    assert "key=${MY_KEY}" in log_file(tmp_path)
    assert "very-secret" not in log_file(tmp_path)


def log_file(tmp_path: Path) -> str:
    return (tmp_path / "bench" / "data" / "mcp" / "logs" / "plain.log").read_text()


@pytest.mark.parametrize("how", ["hang-at-start", "deaf"])
async def test_a_server_that_hangs_at_its_start_is_ended(
    servers: Opened, tmp_path: Path, how: str
) -> None:
    count = tmp_path / "count"
    async with servers(
        {"plain": plain(how, f"count={count}")}, settings={"mcp.start_seconds": 0.5}
    ) as kit:
        assert "did not start within 0.5 seconds" in await down(kit)
    assert await gone(server_pids(count))


async def test_a_crash_in_a_call_is_told_and_the_server_starts_again(
    servers: Opened, tmp_path: Path
) -> None:
    count = tmp_path / "count"
    async with servers({"plain": plain(f"count={count}")}) as kit:
        await known(kit)
        died = await kit.call("plain__crash")
        assert died.code == "E_SERVER"
        assert (
            "died during the call. It exited with code 7; its last output: the last words"
            in died.text
        )
        assert "plain__echo" in kit.session.tools, "its tools stay listed"
        assert (await kit.call("plain__echo", call="1")).text == '{"call": "1"}'
        assert len(server_pids(count)) == 2
    assert await gone(server_pids(count))


async def test_while_a_server_is_down_its_tools_say_so(
    servers: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "FIRST_DELAY", 30.0)
    monkeypatch.setattr(connection, "MAX_DELAY", 30.0)
    async with servers() as kit:
        await known(kit)
        await kit.call("plain__crash")
        await down(kit)
        refused = await kit.call("plain__echo", call="1")
        assert refused.code == "E_SERVER"
        assert "is down. It exited with code 7" in refused.text
        assert "It restarts in" in refused.text
        assert any("it is down" in layer.text for layer in kit.requests[-2].layers)


async def test_calls_in_flight_all_end_when_the_server_dies(
    servers: Opened, tmp_path: Path
) -> None:
    async with servers() as kit:
        await known(kit)
        results = []
        async with trio.open_nursery() as nursery:

            async def one(tool: str, **arguments: str) -> None:
                try:
                    await client(kit).connection.run_job(
                        lambda found: found.call_tool(tool, arguments)
                    )
                except Exception as error:
                    results.append(str(error))

            nursery.start_soon(lambda: one("hang", path=str(tmp_path / "a")))
            nursery.start_soon(lambda: one("hang", path=str(tmp_path / "b")))
            await trio.sleep(0.1)
            nursery.start_soon(one, "crash")
        assert len(results) == 3
        assert all("died during the call" in result for result in results)


async def test_noise_on_stdout_is_skipped_and_stderr_kept_in_the_log(
    servers: Opened, tmp_path: Path
) -> None:
    async with servers({"plain": plain("noise")}) as kit:
        await known(kit)
        assert (await kit.call("plain__echo", call="1")).text == '{"call": "1"}'
    log = (tmp_path / "bench" / "data" / "mcp" / "logs" / "plain.log").read_text()
    assert "[stdout, not a message] Server is running on stdio" in log
    assert log.count("noise") > 900


@pytest.mark.parametrize(
    ("tool", "code", "why"),
    [
        ("flood", "E_SERVER", "that are not protocol messages"),
        (
            "huge",
            "E_TOO_LARGE",
            "The MCP server plain died during the call. It sent a response larger than 32 MB.",
        ),
    ],
)
async def test_a_flood_ends_the_server_and_nothing_else(
    servers: Opened, tmp_path: Path, tool: str, code: str, why: str
) -> None:
    async with servers({"plain": plain(f"count={tmp_path}/count")}) as kit:
        await known(kit)
        flooded = await kit.call(f"plain__{tool}")
        assert flooded.code == code
        assert why in flooded.text
        assert (await kit.call("plain__echo", call="1")).text == '{"call": "1"}'
    assert await gone(server_pids(tmp_path / "count"))


async def test_a_server_that_is_killed_is_said_to_be(servers: Opened) -> None:
    async with servers({"plain": plain("killed")}) as kit:
        await known(kit)
        assert "It was ended by SIGKILL" in (await kit.call("plain__crash")).text


async def test_servers_have_own_caches_and_read_existing_downloads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sandbox does not let Playwright's server write to the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("PLAYWRIGHT_BROWSERS_PATH", raising=False)
    (tmp_path / "ms-playwright").mkdir()
    given = stdio_transport.make_environment({"HF_HOME": "/mine"}, tmp_path / "own")
    assert given["XDG_CACHE_HOME"] == str(tmp_path / "own" / "cache")
    assert given["PLAYWRIGHT_BROWSERS_PATH"] == str(tmp_path / "ms-playwright")
    assert given["HF_HOME"] == "/mine"
    assert "TORCH_HOME" not in given
    assert "XDG_CACHE_HOME" not in stdio_transport.make_environment({})


async def test_a_stubborn_server_and_its_children_are_ended(
    servers: Opened, tmp_path: Path
) -> None:
    count = tmp_path / "count"
    async with servers({"plain": plain("stubborn", f"count={count}")}) as kit:
        await known(kit)
        child = int((await kit.call("plain__children")).text)
        began = time.monotonic()
    assert (
        time.monotonic() - began
        < 2
        * (
            stdio_transport.FLUSH_TIMEOUT
            + stdio_transport.EXIT_TIMEOUT
            + stdio_transport.TERM_TIMEOUT
        )
        + 2
    )
    assert await gone([child, *server_pids(count)])


@pytest.mark.parametrize("word", ["crash-at-end", ""])
async def test_a_session_closes_at_once_when_its_servers_go_by_themselves(
    servers: Opened, tmp_path: Path, word: str
) -> None:
    described = {f"s{n}": plain(*filter(None, (word, f"count={tmp_path}/count"))) for n in range(3)}
    async with servers(described) as kit:
        for name in described:
            await known(kit, name)
    assert await gone(server_pids(tmp_path / "count"))


async def test_a_session_closes_while_servers_are_starting(servers: Opened, tmp_path: Path) -> None:
    described = {f"s{n}": plain("hang-at-start", f"count={tmp_path}/count") for n in range(3)}
    async with servers(described) as kit:
        with trio.move_on_after(0.4):
            await trio.sleep_forever()
        assert all(row.state == "starting" for row in mcp_of(kit).statuses())
    assert await gone(server_pids(tmp_path / "count"))


# --- the sandbox ----------------------------------------------------------------------------------


async def held(kit: Bench) -> None:
    guard = kit.session.plugin(Guard)
    assert guard is not None
    if not (await guard.sandbox.enforced()).whole:
        pytest.skip("no whole sandbox here")
    if sys.executable.startswith("/tmp/"):
        pytest.skip("the sandbox has a /tmp of its own, and this Python is in there")


@pytest.mark.parametrize(("kind", "reaches"), [("network", True), ("closed", False), ("off", True)])
async def test_a_server_is_sandboxed_and_reaches_what_the_user_lets_it(
    servers: Opened, tmp_path: Path, kind: str, reaches: bool
) -> None:
    settings = {"mcp.sandbox": {"plain": kind}}
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = str(listening.getsockname()[1])
        environ = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "SECRET_TOKEN": "abcdefgh12345678"}
        described = {
            "plain": {
                **plain(),
                "env": {"MINE": "${SECRET_TOKEN}", "SECRET_TOKEN": "${SECRET_TOKEN}"},
            }
        }
        async with servers(described, hilum_guard, settings=settings, environ=environ) as kit:
            await held(kit)
            await known(kit)
            outside = Path(pwd.getpwuid(os.getuid()).pw_dir) / f".hilum-mcp-test-{os.getpid()}"
            try:
                wrote = await kit.call("plain__write", path=str(outside))
                assert bool(wrote.code) == (kind != "off")
            finally:
                outside.unlink(missing_ok=True)
            inside = await kit.call("plain__write", path=str(kit.session.workspace.root / "made"))
            assert inside.text == "written"
            assert (await kit.call("plain__connect", port=port)).code == (
                "" if reaches else "E_FAILED"
            )
            assert not client(kit).connection.error
            mcp_cache = tmp_path / "cache" / "hilum" / "mcp" / "plain"
            if kind != "off":
                assert (
                    await kit.call("plain__write", path=str(mcp_cache / "kept"))
                ).text == "written"
                assert (mcp_cache / "kept").exists()


async def test_no_server_starts_before_the_guard_is_there(servers: Opened, tmp_path: Path) -> None:
    lazy.load(*SDK_MODULES)  # so that the import of the SDK delays nothing
    there = []

    @hookimpl
    async def open_session() -> AsyncIterator[None]:
        with trio.move_on_after(1.0):  # longer than a server takes to start
            await trio.sleep_forever()
        there.append((tmp_path / "count").exists())
        yield None

    described = {"plain": plain(f"count={tmp_path}/count")}
    async with servers(described, plugin("slow", open_session=open_session), hilum_guard) as kit:
        assert there == [False]
        await held(kit)
        found = await until(
            lambda: client(kit).offer is not None or (tmp_path / "count").exists(), 10
        )
        assert found, "it starts then"


async def test_a_server_gets_the_secrets_it_was_given_and_no_others(servers: Opened) -> None:
    environ = {"MY_TOKEN": "abcdefgh12345678", "OTHER_TOKEN": "other-secret-9999"}
    described = {"plain": {**plain(), "env": {"MY_TOKEN": "${MY_TOKEN}"}}}
    async with servers(described, hilum_guard, environ=environ) as kit:
        await known(kit)
        found = await client(kit).connection.run_job(lambda c: c.call_tool("where", {}))
        env = json.loads(found.content[0].text)["env"]
        assert env["MY_TOKEN"] == "abcdefgh12345678"
        assert "OTHER_TOKEN" not in env


async def test_only_the_servers_own_start_is_widened(servers: Opened) -> None:
    async with servers(None, hilum_guard) as kit:
        await held(kit)
        await known(kit)
        guard = kit.session.plugin(Guard)
        assert guard is not None
        assert guard.sandbox.extra_access == {}
        with socket.create_server(("127.0.0.1", 0)) as listening:
            code = f"import socket; socket.create_connection({listening.getsockname()!r}, 2)"
            assert (await kit.session.processes.run([sys.executable, "-S", "-c", code])).returncode
