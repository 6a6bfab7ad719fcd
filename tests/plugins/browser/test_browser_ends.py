"""Nothing is left of a browser, however it or hilum ends; and the next call has one that works."""

import os
import select
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import pytest
from hilum.errors import E_TIMEOUT
from hilum.messages import ToolResult
from hilum.testing import say, use

from .conftest import MARK, PLUGINS, SETTINGS, Browser, Site, browsing, needs_browser
from .processes import Processes

pytestmark = needs_browser


@pytest.fixture
def processes() -> Processes:
    """Lists the browsers' processes."""
    return Processes(MARK)


@pytest.fixture
def running(browser: Browser, site: Site) -> Browser:
    """A browser with a page."""
    site.pages["/"] = "<title>Here</title><p>here"
    browser.text("navigate", url=site.url())
    return browser


@contextmanager
def in_action(browser: Browser, site: Site) -> Iterator[Future[ToolResult]]:
    """A browser that waits for an answer of the server."""
    asked, go_on = threading.Event(), threading.Event()

    def slow(_: Site) -> tuple[int, dict[str, str], bytes]:
        asked.set()
        go_on.wait(60)
        return 200, {}, b""

    site.pages["/slow"] = slow
    try:
        result = browser.begin("navigate", url=site.url("/slow"))
        assert asked.wait(60)
        yield result
    finally:
        go_on.set()


def test_close_leaves_nothing(running: Browser, processes: Processes) -> None:
    """Neither processes nor cookies."""
    assert processes()
    assert "closed" in running.text("close")
    assert not processes()
    assert running.text("close") == "No browser was open."
    result = running("get_text")
    assert (result.code, "Navigate first" in result.text) == ("E_BAD_ARGS", True)


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("mark", ["--remote-debugging-pipe", "run-driver", "driver.main"])
def test_a_crash_is_told_and_mended_by_the_next_call(
    running: Browser, site: Site, processes: Processes, mark: str
) -> None:
    """Of the browser, of what drives it, and of what speaks for it, in the middle of an action."""
    with in_action(running, site) as result:
        os.kill(processes.one(mark), signal.SIGKILL)
        assert "navigate again" in result.result(60).text
    assert not processes()


def test_a_page_that_crashes(running: Browser, site: Site, processes: Processes) -> None:
    for pid in [pid for pid, command in processes().items() if "--type=renderer" in command]:
        os.kill(pid, signal.SIGKILL)
    assert "crashed, and its tab was closed" in running("get_text").text
    # On a busy machine, the next renderer starts more slowly than the time limit of these tests.
    result = running("navigate", url=site.url())
    if result.code == E_TIMEOUT:
        result = running("navigate", url=site.url())
    assert "Here" in result.text
    assert "Chromium" not in running.text("reload")  # the browser is the same one


def test_a_stop_ends_the_browser(running: Browser, site: Site, processes: Processes) -> None:
    """In the middle of an action; the next call has a new one."""
    with in_action(running, site) as result:
        running.do(running.bench.session.stop)
        result.exception(60)
    assert not processes()
    result = running("get_text")
    assert (result.code, "Navigate first" in result.text) == ("E_BAD_ARGS", True)


@pytest.mark.slow(cases=1)
@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("mark", ["--remote-debugging-pipe", "run-driver"])
def test_a_browser_that_hangs_is_ended(
    running: Browser, processes: Processes, monkeypatch: pytest.MonkeyPatch, mark: str
) -> None:
    """It is stopped by a signal, as if it were busy for ever."""
    monkeypatch.setattr("hilum_browser.tool.Browsers._time_limit", lambda *_: 0.5)
    os.kill(processes.one(mark), signal.SIGSTOP)
    result = running("get_text")
    assert result.code == "E_TIMEOUT"
    assert "did not finish get_text" in result.text
    assert not processes()


def test_two_sessions_share_nothing(
    running: Browser, site: Site, processes: Processes, tmp_path: Path
) -> None:
    """Neither cookies nor files.

    And the end of one leaves the other one alone, and nothing of its own.
    """
    site.pages["/in"] = lambda _: (200, {"set-cookie": "login=yes"}, b"in")
    site.pages["/who"] = "<script>document.write('cookie: ' + document.cookie)</script>"
    running.text("navigate", url=site.url("/in"))
    running.text("navigate", url=site.url("/who"))
    assert running.text("get_text") == "cookie: login=yes"
    others = Processes(f"{MARK}-other")
    environ = {"BROWSER_TEST_MARK": f"{MARK}-other"}
    with browsing(tmp_path, *PLUGINS, settings=SETTINGS, environ=environ) as other:
        assert not others()  # it starts with the first page
        other.text("navigate", url=site.url("/who"))
        assert other.text("get_text") == "cookie:"
        folder = Path(other("screenshot").data["path"]).parent
        assert others()
    assert not others()
    assert not folder.exists()
    assert running.text("get_text") == "cookie: login=yes"


def test_the_death_of_hilum_leaves_nothing(site: Site, tmp_path: Path) -> None:
    """By a signal that nobody can catch."""
    site.pages["/"] = "<title>Here</title>"
    environ = {"BROWSER_TEST_MARK": f"{MARK}-killed"}
    code = f"""
        import hilum_browser, hilum_files, hilum_guard, trio
        from hilum.testing import open_bench

        async def main():
            plugins = (hilum_files, hilum_guard, hilum_browser)
            options = dict(folder={str(tmp_path)!r}, environ={environ!r}, settings={SETTINGS!r}, patience=90)
            async with open_bench(*plugins, **options) as bench:
                done = await bench.call("browser_use", action="navigate", url={site.url()!r})
                print(done.text, flush=True)
                await trio.sleep_forever()

        trio.run(main)
    """
    processes = Processes(environ["BROWSER_TEST_MARK"])
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
    ) as hilum:
        try:
            assert hilum.stdout is not None
            assert select.select([hilum.stdout], [], [], 100)[0]
            assert "Loaded" in hilum.stdout.readline()
            assert processes()
        finally:
            hilum.kill()
    until = time.monotonic() + 20
    while processes() and time.monotonic() < until:
        time.sleep(0.01)
    assert not processes()


def test_actions_of_one_answer_are_done_in_its_order(browser: Browser, site: Site) -> None:
    """Though calls run in parallel: typed before it is sent, sent before it is read."""
    site.pages["/"] = (
        """<input id=i><button onclick="document.body.textContent = 'got ' + i.value">Go</button>"""
    )
    answer = use("browser_use", action="navigate", url=site.url())
    for step in (
        {"action": "type", "selector": "#i", "text": "all of it"},
        {"action": "click", "selector": "button"},
        {"action": "get_text"},
    ):
        answer = answer + use("browser_use", **step)
    browser.do(lambda: browser.bench.model.next(answer, say("done")))
    browser.run(browser.bench.run, "go")
    assert browser.bench.results[-1].parts[0].text == "got all of it"
