"""The page of ``/share``: it opens the session, and says when sharing has ended."""

import threading
from collections.abc import Iterator

import hilum_serve
import pytest
import trio
from hilum.testing import open_bench

from .conftest import keep_screenshot


class Terminal:
    """A process with an open session, in a thread."""

    def __init__(self):
        self.url = ""
        self._ready = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._run,), daemon=True)

    async def _run(self):
        self._token = trio.lowlevel.current_trio_token()
        self._end = trio.Event()
        async with open_bench("store", hilum_serve) as bench:
            self._session = bench.session
            reply = (await bench.session.prompt("/share")).reply
            self.url = next(word for word in reply.split() if word.startswith("http"))
            self._ready.set()
            await self._end.wait()

    def start(self):
        self._thread.start()
        assert self._ready.wait(20)

    def enter(self, text):
        """Enter a command, and return the reply."""

        async def enter():
            return (await self._session.prompt(text)).reply

        return trio.from_thread.run(enter, trio_token=self._token)

    def end(self):
        """Leave the conversation."""
        if self._thread.is_alive():
            trio.from_thread.run_sync(self._end.set, trio_token=self._token)
            self._thread.join(20)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    terminal = Terminal()
    terminal.start()
    yield terminal
    terminal.end()


def test_the_address_of_share_opens_the_session(terminal, open_page):
    page = open_page(terminal.url)
    page.locator(".connection.open").wait_for(state="attached")
    assert "#/s/" in page.url
    assert "token" not in page.url


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize("size", ["phone", "tablet"])
@pytest.mark.parametrize("how", ["stop", "leave"])
def test_the_page_says_that_sharing_has_ended(terminal, open_page, size, how):
    page = open_page(terminal.url, size, expected="ERR_|WebSocket")
    page.locator(".connection.open").wait_for(state="attached")
    if how == "stop":
        assert "no longer shared" in terminal.enter("/share stop")
    else:
        terminal.end()
    page.get_by_role("heading", name="Sharing has ended.").wait_for()
    page.get_by_text("hilum serve", exact=True).wait_for()
    assert page.locator(".composer textarea").is_visible() is False
    page.get_by_role("button", name="Try again").click()
    page.get_by_role("heading", name="Sharing has ended.").wait_for()
    keep_screenshot(page, f"unshared-{size}-{how}")


def test_the_page_notices_a_terminal_that_was_killed(server, open_session):
    me = {"name": "owner", "rights": "administer", "instance": "i1", "shared": True}
    server.replies["GET /me"] = (200, me)
    page = open_session(expected="ERR_|WebSocket")
    page.route("**/api/me", lambda route: route.abort())
    server.refuses_streams = True
    server.disconnect()
    page.get_by_role("heading", name="Sharing has ended.").wait_for()
