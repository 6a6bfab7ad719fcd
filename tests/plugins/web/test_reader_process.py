"""The process that reads a page: when it starts, when there is none, and that it never outlives the
call.
"""

import threading
import uuid
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import attrs
import hilum_web
import pytest
import trio
import trio.testing
from hilum import ToolDenied, hookimpl
from hilum.testing import open_bench
from hilum_web.reader_process import _FOLDER, open_reader

PAGE = "<title>T</title><main><p>words of it</p></main>"
WAIT = 20.0

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="needs /proc to look for processes"
)


class Watch:
    """A plugin that sees each process before it starts.

    Attributes:
        readers: How many were readers of pages.
        begun: Set when the first one starts.
        refuses: Whether none may start.
    """

    def __init__(self):
        self.readers, self.begun, self.refuses = 0, threading.Event(), False
        self.mark = uuid.uuid4().hex

    @hookimpl
    async def wrap_process(self, command):
        self.readers += _FOLDER in command.argv
        self.begun.set()
        if self.refuses:
            raise ToolDenied("It is not wanted.")
        return attrs.evolve(command, env={**command.env, "MARK": self.mark})

    def left(self):
        """The processes that are there, of those that it saw."""
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                found += [path.parent.name] * (self.mark.encode() in path.read_bytes())
        return found


@pytest.fixture
def opened(site, tmp_path):
    """Open a session in which readers are counted; leaving it checks that no process is left."""

    @asynccontextmanager
    async def opened(**settings):
        watch = Watch()
        settings = {"hosts": [site.host], "robots": False, **settings}
        async with open_bench(
            hilum_web, watch, folder=tmp_path / "bench", settings={"web": settings}
        ) as bench:
            yield bench, watch

    return opened


async def test_it_starts_while_the_site_is_awaited(site, opened):
    """A site that answers only once it has: what takes a while is ready when the page comes."""
    async with opened() as (bench, watch):

        def slow(handler):
            handler.send_response(200 if watch.begun.wait(WAIT) else 504)
            handler.send_header("content-type", "text/html")
            handler.send_header("content-length", str(len(PAGE)))
            handler.end_headers()
            handler.wfile.write(PAGE.encode())

        site.pages["/page"] = slow
        result = await bench.call("web_fetch", url=f"{site.url}/page")
        assert "words of it" in result.text
        assert watch.readers == 1


async def test_redirects_start_one(site, opened):
    site.redirect("/old", "/new")
    site.page("/new", PAGE)
    async with opened() as (bench, watch):
        assert "words of it" in (await bench.call("web_fetch", url=f"{site.url}/old")).text
        assert watch.readers == 1


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://169.254.169.254/", "E_ADDRESS"),
        ("http://127.0.0.1:1/", "E_ADDRESS"),
        ("http://no-such-host.invalid/", "E_UNREACHABLE"),
        ("nonsense", "E_ADDRESS"),
        ("/private", "E_DENIED"),
    ],
)
async def test_where_no_site_is_asked_there_is_none(site, opened, url, code):
    site.page("/robots.txt", "User-agent: *\nDisallow: /private", "text/plain")
    async with opened(robots=True) as (bench, watch):
        result = await bench.call("web_fetch", url=site.url + url if url[0] == "/" else url)
        assert result.code == code
        assert watch.readers == 0


async def test_who_reads_on_needs_one_only_for_what_was_not_made_yet(site, opened):
    """Nobody is asked for the page again, and several parts are made at once."""
    url = site.page("/page", f"<main>{'<p>words of it</p>' * 9_000}</main>")
    async with opened(limit=20_000) as (bench, watch):
        seen = []
        for start in (0, 50_000, 70_000):
            assert "words of it" in (await bench.call("web_fetch", url=url, start=start)).text
            seen.append(watch.readers)
        assert seen == [1, 2, 2]
        assert len(site.at("/page")) == 1


@pytest.mark.parametrize(
    ("path", "code", "words"),
    [
        ("/a.json", "", '"a"'), ("/missing", "E_HTTP", "404"), ("/large", "E_TOO_LARGE", "larger"),
        ("/cut", "E_UNREACHABLE", "interrupted"),
    ],
)  # fmt: skip
async def test_where_it_is_not_needed_after_all_it_is_gone_with_the_call(
    site, opened, path, code, words
):
    """What the site did wrong is told as ever."""
    site.page("/a.json", '{"a": 1}', "application/json")
    site.page("/large", "", content_length="99999999")
    site.page("/cut", "<p>", content_length="1000", connection="close")
    async with opened() as (bench, watch):
        result = await bench.call("web_fetch", url=site.url + path)
        assert result.code == code
        assert words in result.text
        assert watch.readers == 1
        assert not watch.left()


async def test_a_call_that_is_stopped_takes_it_along(site, opened):
    """While the site is awaited."""
    running, over = threading.Event(), threading.Event()
    async with opened() as (bench, watch), trio.open_nursery() as nursery:

        def hanging(_):
            while not watch.left() and not over.wait(0.01):
                pass
            running.set()
            over.wait(WAIT)

        site.pages["/page"] = hanging
        nursery.start_soon(partial(bench.call, "web_fetch", url=f"{site.url}/page"))
        assert await trio.to_thread.run_sync(running.wait, WAIT)
        nursery.cancel_scope.cancel()
    assert not watch.left()
    over.set()


async def test_that_it_may_not_start_is_told_where_it_is_needed(site, opened):
    """A page of HTML cannot be read then, a text can."""
    site.page("/page", PAGE)
    site.page("/text", "just text", "text/plain")
    async with opened() as (bench, watch):
        watch.refuses = True
        result = await bench.call("web_fetch", url=f"{site.url}/page")
        assert result.code == "E_DENIED"
        assert "It is not wanted." in result.text
        assert "just text" in (await bench.call("web_fetch", url=f"{site.url}/text")).text


async def test_one_that_ends_while_the_site_is_awaited_is_told(site, opened, monkeypatch):
    monkeypatch.setattr("hilum_web.reader_process._START", "raise SystemExit(3)")
    over = threading.Event()
    async with opened() as (bench, watch):

        def slow(handler):
            watch.begun.wait(WAIT)
            while watch.left() and not over.wait(0.01):
                pass
            handler.send_response(200)
            handler.send_header("content-type", "text/html")
            handler.send_header("content-length", str(len(PAGE)))
            handler.end_headers()
            handler.wfile.write(PAGE.encode())

        site.pages["/page"] = slow
        result = await bench.call("web_fetch", url=f"{site.url}/page")
        assert result.code == "E_CONTENT"
        assert "the process that was reading it exited (exit code 3)" in result.text
        over.set()


@pytest.mark.parametrize("late", [False, True], ids=["fails", "fails-too-late"])
async def test_what_fails_beside_it_comes_out_as_it_is(opened, late):
    """Also when the time is up just then: never as a group, which nobody tells in words."""
    async with opened() as (bench, watch):
        with trio.CancelScope() as scope:
            try:
                async with open_reader(bench.session.processes) as reader:
                    reader.start()
                    await trio.testing.wait_all_tasks_blocked()
                    if late:
                        scope.cancel()
                    raise ToolDenied("It is not wanted.")
            except ToolDenied:
                assert not late
        assert scope.cancelled_caught == late
        assert not watch.left()
