"""A server over a test bench, and real clients of both protocol versions."""

from contextlib import asynccontextmanager

import attrs
import pytest
import trio
from hilum import ToolFilter
from hilum.testing import Bench, open_bench
from hilum_mcp.serving.notifications import Notifications
from hilum_mcp.serving.protocol import Protocol
from hilum_mcp.serving.request_runner import RequestRunner
from mcp import Client
from mcp.server import Server

ERAS = {"legacy": "2025-11-25", "modern": "2026-07-28"}


@attrs.define
class Served:
    """A server and the session behind it."""

    bench: Bench
    runner: RequestRunner
    server: Server
    mode: str
    notifications: Notifications

    def client(self, **callbacks) -> Client:
        """Create a client of the tested protocol version."""
        return Client(self.server, mode="legacy" if self.mode == "legacy" else "auto", **callbacks)

    async def polled(self, times=2):
        """Wait until the server has polled for changes some more times."""
        look, done, left = self.notifications._poll, trio.Event(), times

        async def counted():
            nonlocal left
            left -= 1
            if not left:
                done.set()
            return await look()

        self.notifications._poll = counted
        await done.wait()
        self.notifications._poll = look

    def of(self, kind):
        """Return the events of a type."""
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
        runner = RequestRunner(
            bench.session, ToolFilter(allow=allowed, deny=("ask_question",)), nursery
        )
        nursery.start_soon(runner.follow_events)
        protocol = Protocol(runner, agents, sessions=sessions)
        nursery.start_soon(protocol.notifications.watch)
        with trio.fail_after(30):
            yield Served(bench, runner, protocol.make_server(), mode, protocol.notifications)
        nursery.cancel_scope.cancel()


@pytest.fixture(params=["legacy", "modern"])
def serve(request):
    """Open a server for clients of either protocol version.

    Takes the arguments of ``open_bench``, and ``tools``, ``agents``, ``sessions``.
    """
    return lambda *plugins, **options: open_served(*plugins, mode=request.param, **options)


@pytest.fixture
def serve_modern():
    """Open a server like ``serve``, for the newer protocol version only."""
    return lambda *plugins, **options: open_served(*plugins, **options)


def text(result) -> str:
    """Return the texts of a result."""
    return "\n".join(part.text for part in result.content if part.type == "text")


@pytest.fixture(name="text")
def _text():
    return text
