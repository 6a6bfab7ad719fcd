"""A user, a server that wants a log-in, and a browser."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from hilum_mcp import login, reaching, sources, tokens
from hilum_mcp.managing import Desk
from hilum_mcp.server import Server

from .authority import Authority, described, open_authority


class Place:
    """A project of a user who has the server in a file."""

    def __init__(self, it: Authority, folder: Path) -> None:
        self.it, self.folder, self.shown = it, folder, list[str]()

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
        import io

        desk = Desk(self.folder, io.StringIO())
        entry = await desk.entry("docs")

        async def job(client: Any) -> str:
            return str((await client.call_tool(tool, {})).content[0].text)

        return str(await reaching.once(desk, entry, job, auth))

    async def log_in(
        self,
        browse: Callable[[str], Awaitable[None]] | None = None,
        typed: Callable[[], Awaitable[str]] | None = None,
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
    """A user who has the server and is not logged in."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in (
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
        "HILUM_CONFIG",
        "HILUM_DATA",
        "http_proxy",
        "HTTP_PROXY",
    ):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "project").mkdir()
    async with open_authority() as it:
        found = Place(it, tmp_path / "project")
        found.describe()
        yield found
