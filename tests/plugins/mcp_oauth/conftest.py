"""A user, a server that requires a login, and a browser."""

import io
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
import trustme
from hilum.testing import Bench, open_bench, plugin
from hilum_mcp import login, token_store
from hilum_mcp.catalog import load_catalog
from hilum_mcp.commands import CommandContext
from hilum_mcp.commands.probe import connect_once
from hilum_mcp.paths import user_file
from hilum_mcp.server_config import ServerConfig
from hilum_mcp.settings import McpSettings

from .authority import Authority, described, open_authority


class Place:
    """A project of a user who has configured the server."""

    def __init__(self, it: Authority, kit: Bench) -> None:
        self.it, self.kit, self.folder, self.shown = it, kit, kit.workspace, list[str]()

    def describe(self, **oauth: Any) -> None:
        """Write the configuration of the server."""
        user_file().parent.mkdir(parents=True, exist_ok=True)
        user_file().write_text(described(self.it, **oauth))

    @property
    def server(self) -> ServerConfig:
        """Return the server."""
        entry = load_catalog(self.folder).get("docs")
        assert entry is not None
        return entry.server

    @property
    def kept(self) -> token_store.TokenStore:
        """Return the stored login."""
        return token_store.TokenStore(token_store.token_file(self.server))

    async def browse(self, url: str) -> None:
        """Open an address as a browser does."""
        self.shown.append(url)
        async with httpx.AsyncClient(follow_redirects=True, trust_env=False) as browser:
            await browser.get(url)

    async def use(self, tool: str = "look", auth: Any = None) -> str:
        """Connect as a session does, and call a tool."""
        desk = CommandContext(self.folder, io.StringIO(), session=self.kit.session)
        entry = await desk.find_entry("docs")

        async def job(client: Any) -> str:
            return str((await client.call_tool(tool, {})).content[0].text)

        return str(await connect_once(desk, entry, job, auth))

    async def log_in(
        self,
        browse: Callable[[str], Awaitable[None]] | None = None,
        typed: Callable[[Callable[[str], bool]], Awaitable[None]] | None = None,
        **more: Any,
    ) -> str:
        """Log in as ``hilum mcp login`` does."""
        said: list[str] = []

        async def connect(auth: Any) -> None:
            said.append(await self.use(auth=auth))

        with trio.fail_after(20):
            await login.log_in(self.server, connect, browse or self.browse, typed, **more)
        return said[0]


@pytest.fixture
async def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    """Create a user who has configured the server and is not logged in."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    settings = plugin("settings", McpSettings=McpSettings)
    async with open_bench(settings, folder=tmp_path / "bench") as kit, open_authority() as it:
        found = Place(it, kit)
        found.describe()
        yield found


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
