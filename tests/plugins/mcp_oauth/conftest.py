"""A user, a server that wants a log-in, and a browser."""

import io
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from hilum.testing import Bench, open_bench, plugin
from hilum_mcp import login, reaching, sources, tokens
from hilum_mcp.managing import Desk
from hilum_mcp.server import Server
from hilum_mcp.settings import McpSettings

from .authority import Authority, described, open_authority


class Place:
    """A project of a user who has the server in a file."""

    def __init__(self, it: Authority, kit: Bench) -> None:
        self.it, self.kit, self.folder, self.shown = it, kit, kit.workspace, list[str]()

    def describe(self, **oauth: Any) -> None:
        """Write the server down."""
        sources.user_file().parent.mkdir(parents=True, exist_ok=True)
        sources.user_file().write_text(described(self.it, **oauth))

    @property
    def server(self) -> Server:
        """The server."""
        entry = sources.look(self.folder).get("docs")
        assert entry is not None
        return entry.server

    @property
    def kept(self) -> tokens.Kept:
        """What is kept of it."""
        return tokens.Kept(tokens.file_of(self.server))

    async def browse(self, url: str) -> None:
        """Do what a browser does."""
        self.shown.append(url)
        async with httpx.AsyncClient(follow_redirects=True, trust_env=False) as browser:
            await browser.get(url)

    async def use(self, tool: str = "look", auth: Any = None) -> str:
        """Connect as a session does, and call a tool."""
        desk = Desk(self.folder, io.StringIO(), session=self.kit.session)
        entry = await desk.entry("docs")

        async def job(client: Any) -> str:
            return str((await client.call_tool(tool, {})).content[0].text)

        return str(await reaching.once(desk, entry, job, auth))

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
    """A user who has the server and is not logged in; a session that starts none by itself."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    settings = plugin("settings", McpSettings=McpSettings)
    async with open_bench(settings, folder=tmp_path / "bench") as kit, open_authority() as it:
        found = Place(it, kit)
        found.describe()
        yield found
