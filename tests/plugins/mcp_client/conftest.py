"""Sessions with MCP servers: a test bench, configurations, and checks for remaining processes."""

import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import hilum_mcp
import pytest
import trio
import trustme
from hilum.testing import Bench, open_bench
from hilum_mcp import SessionServers
from hilum_mcp.client import ServerClient

HERE = Path(__file__).parent
Opened = Callable[..., AbstractAsyncContextManager[Bench]]


def plain(*words: str) -> dict[str, Any]:
    """Return the configuration of a test server that behaves as the words say."""
    return {"command": sys.executable, "args": ["-S", str(HERE / "plain_server.py"), *words]}


def mcp_of(kit: Bench) -> SessionServers:
    """Return the plugin instance of a session."""
    found = kit.session.plugin(SessionServers)
    assert found is not None
    return found


def client(kit: Bench, name: str = "plain") -> ServerClient:
    """Return a server of the session."""
    return mcp_of(kit).clients[name]


async def until(condition: Callable[[], object], seconds: float = 20.0) -> bool:
    """Wait until a condition holds that no event reports, such as an action of another process."""
    for _ in range(int(seconds / 0.01)):
        if condition():
            return True
        await trio.sleep(0.01)
    return bool(condition())


async def known(kit: Bench, name: str = "plain") -> ServerClient:
    """Wait until the offer of a server is known, and return the server."""
    found = client(kit, name)
    up = await until(
        lambda: (
            found.offer is not None and any(tool.name in kit.session.tools for tool in found.tools)
        )
    )
    assert up, f"it did not come up: {mcp_of(kit).statuses()} {found._log.last_lines()}"
    return found


async def gone(pids: list[int], seconds: float = 5) -> bool:
    """Return whether processes end soon."""
    return await until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), seconds)


def server_pids(count: Path) -> list[int]:
    """Return the process ids of a server that records its starts."""
    return [int(line) for line in count.read_text().split()] if count.exists() else []


def marked(mark: str) -> list[int]:
    """Return the processes with ``MARK=mark`` and their children, in any namespace."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"MARK={mark}".encode() in (
                entry / "environ"
            ).read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:  # it has just ended, or is another user's
            continue
    return found


@pytest.fixture
def servers(tmp_path: Path) -> Opened:
    """Open a session with servers, by name."""

    @asynccontextmanager
    async def opened(
        described: dict[str, Any] | None = None, *plugins: object, **options: Any
    ) -> AsyncIterator[Bench]:
        config = tmp_path / "bench" / "config"
        config.mkdir(parents=True, exist_ok=True)
        wanted = {"plain": plain()} if described is None else described
        (config / "mcp.json").write_text(json.dumps({"mcpServers": wanted}))
        async with open_bench(hilum_mcp, *plugins, folder=tmp_path / "bench", **options) as kit:
            yield kit

    return opened


@pytest.fixture(scope="session")
def certificate_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a file with one certificate."""
    path = tmp_path_factory.mktemp("certificates") / "authority.pem"
    trustme.CA().cert_pem.write_to_path(str(path))
    return path


@pytest.fixture(autouse=True)
def few_certificates(certificate_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each HTTP client load one certificate, because loading the usual ones takes 70 ms."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate_file))
