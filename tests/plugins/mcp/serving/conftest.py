"""A server over a bench, and real clients of both eras of the protocol."""

from contextlib import asynccontextmanager

import attrs
import pytest
import trio
from hilum import ToolFilter
from hilum.testing import Bench, open_bench
from hilum_mcp.serving.notices import Notices
from hilum_mcp.serving.protocol import Protocol
from hilum_mcp.serving.work import Desk
from mcp import Client
from mcp.server import Server

ERAS = {"legacy": "2025-11-25", "modern": "2026-07-28"}


@attrs.define
class Served:
    """A server and the session behind it."""

    bench: Bench
    desk: Desk
    server: Server
    mode: str
    notices: Notices

    def client(self, **callbacks) -> Client:
        """Make a client of the era under test."""
        return Client(self.server, mode="legacy" if self.mode == "legacy" else "auto", **callbacks)

    async def looked(self, times=2):
        """Wait until the server has looked for changes some times more."""
        look, done, left = self.notices._look, trio.Event(), times

        async def counted():
            nonlocal left
            left -= 1
            if not left:
                done.set()
            return await look()

        self.notices._look = counted
        await done.wait()
        self.notices._look = look

    def of(self, kind):
        """The events of a type."""
        return self.bench.of(kind)


@asynccontextmanager
async def open_served(
    *plugins, mode="modern", approve="ask_first", tools=None, agents=(), sessions=True, **options
):
    """Serve the session of a bench."""
    async with (
        open_bench(*plugins, approve=approve, **options) as bench,
        trio.open_nursery() as nursery,
    ):
        allowed = None if tools is None else tuple(tools)
        desk = Desk(bench.session, ToolFilter(allow=allowed, deny=("ask_question",)), nursery)
        nursery.start_soon(desk.follow)
        protocol = Protocol(desk, agents, sessions=sessions)
        nursery.start_soon(protocol.notices.watch)
        with trio.fail_after(30):
            yield Served(bench, desk, protocol.server(), mode, protocol.notices)
        nursery.cancel_scope.cancel()


@pytest.fixture(params=["legacy", "modern"])
def serve(request):
    """Open a server for clients of either era.

    Takes what ``open_bench`` takes, and ``tools``, ``agents``, ``sessions``.
    """
    return lambda *plugins, **options: open_served(*plugins, mode=request.param, **options)


@pytest.fixture
def serve_modern():
    """As ``serve``, for the newer era alone."""
    return lambda *plugins, **options: open_served(*plugins, **options)


def text(result) -> str:
    """The texts of a result."""
    return "\n".join(part.text for part in result.content if part.type == "text")


@pytest.fixture(name="text")
def _text():
    return text
