"""Nothing is left of a browser, however it or hilum ends; and the next call has one that works."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from hilum.events import CallStarted
from hilum.testing import open_bench, say, use

from .conftest import PLUGINS, SETTINGS, Site, needs_browser

pytestmark = needs_browser


def browsers() -> dict[int, str]:
    """The processes of browsers of this machine: what drives them, and what Chromium starts."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                command = Path(f"/proc/{name}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if "inside.worker" in command or "playwright" in command:
                found[int(name)] = command
    return found


def ours(before: dict[int, str]) -> dict[int, str]:
    """Those that descend from this process or from one it started, and were not there before."""
    return {pid: command for pid, command in browsers().items() if pid not in before and MARK in _environment(pid)}


MARK = f"hilum-test-{os.getpid()}"
ENVIRONMENT = {"BROWSER_TEST_MARK": MARK}


def _environment(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return ""


@pytest.fixture
def processes() -> Callable[[], dict[int, str]]:
    """Lists the browser's processes of this test; none of them may be there when it starts."""
    before = browsers()
    return lambda: ours(before)


async def test_close_and_the_end_of_a_session_leave_nothing(site: Site, processes, tmp_path: Path) -> None:
    site.pages["/"] = "<title>Here</title>"
    async with open_bench(*PLUGINS, settings=SETTINGS, environ=ENVIRONMENT, patience=90) as bench:
        assert not processes()  # it starts with the first page
        assert "Here" in (await bench.call("browser_use", action="navigate", url=site.url())).text
        folder = Path((await bench.call("browser_use", action="screenshot")).data["path"]).parent
        assert processes()
        await bench.call("browser_use", action="close")
        assert not processes()
        await bench.call("browser_use", action="navigate", url=site.url())
        assert processes()
    assert not processes()
    assert not folder.exists()


async def test_a_stop_ends_the_browser_and_the_next_call_has_a_new_one(site: Site, processes) -> None:
    """In the middle of an action."""
    site.pages["/"] = "<title>Here</title>"
    async with open_bench(*PLUGINS, settings=SETTINGS, environ=ENVIRONMENT, patience=90) as bench:
        await bench.call("browser_use", action="navigate", url=site.url())
        bench.model.then(use("browser_use", action="wait", waitMs=10_000), say("done"))
        run = await bench.start("wait")
        await bench.wait_for(CallStarted, lambda event: "10000" in event.call.arguments)
        await trio.testing.wait_all_tasks_blocked()
        bench.session.stop()
        await run.wait()
        assert not processes()
        result = await bench.call("browser_use", action="get_text")
        assert (result.code, "Navigate first" in result.text) == ("E_BAD_ARGS", True)
        assert "Here" in (await bench.call("browser_use", action="navigate", url=site.url())).text


async def test_a_crash_is_told_and_mended_by_the_next_call(site: Site, processes) -> None:
    """Of the browser between two calls, and during one; of what drives it; of a page."""
    site.pages["/"] = "<title>Here</title>"
    async with open_bench(*PLUGINS, settings=SETTINGS, environ=ENVIRONMENT, patience=90) as bench:
        for mark in ("--remote-debugging-pipe", "run-driver", "inside.worker"):
            await bench.call("browser_use", action="navigate", url=site.url())
            bench.model.then(use("browser_use", action="wait", waitMs=10_000), say("done"))
            run = await bench.start("wait")
            await bench.wait_for(CallStarted, lambda event: "10000" in event.call.arguments, after=run_seq(bench))
            [pid, *_] = [pid for pid, command in processes().items() if mark in command and "--type" not in command][::-1]
            os.kill(pid, signal.SIGKILL)
            await run.wait()
            assert "navigate again" in bench.results[-1].parts[0].text
            assert not processes()
        assert "Here" in (await bench.call("browser_use", action="navigate", url=site.url())).text
        [pid] = [pid for pid, command in processes().items() if "--type=renderer" in command][:1]
        os.kill(pid, signal.SIGKILL)
        result = await bench.call("browser_use", action="get_text")
        assert "crashed" in result.text or "Navigate first" in result.text
        assert "Here" in (await bench.call("browser_use", action="navigate", url=site.url())).text


def run_seq(bench) -> int:
    return bench.session.journal.last - 1


async def test_a_browser_that_hangs_is_ended(site: Site, processes, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is stopped by a signal, as if it were busy for ever."""
    monkeypatch.setattr("hilum_browser.tool.MORE", 1.0)
    site.pages["/"] = "<title>Here</title>"
    async with open_bench(*PLUGINS, settings=SETTINGS, environ=ENVIRONMENT, patience=90) as bench:
        await bench.call("browser_use", action="navigate", url=site.url())
        for pid, command in processes().items():
            if "run-driver" in command:
                os.kill(pid, signal.SIGSTOP)
        result = await bench.call("browser_use", action="get_text")
        assert result.code == "E_TIMEOUT"
        assert "did not finish get_text" in result.text
        assert not processes()
        assert "Here" in (await bench.call("browser_use", action="navigate", url=site.url())).text


def test_the_death_of_hilum_leaves_nothing(site: Site, processes, tmp_path: Path) -> None:
    """By a signal that nobody can catch."""
    site.pages["/"] = "<title>Here</title>"
    code = f"""
        import hilum_browser, hilum_files, hilum_guard, trio
        from hilum.testing import open_bench

        async def main():
            async with open_bench(hilum_files, hilum_guard, hilum_browser, folder={str(tmp_path)!r}, environ={ENVIRONMENT!r}, patience=90) as bench:
                print((await bench.call("browser_use", action="navigate", url={site.url()!r})).text, flush=True)
                await trio.sleep_forever()

        trio.run(main)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True) as hilum:
        assert hilum.stdout is not None
        assert "Loaded" in hilum.stdout.readline()
        assert processes()
        hilum.kill()
    until = time.monotonic() + 10
    while processes() and time.monotonic() < until:
        time.sleep(0.01)
    assert not processes()


async def test_actions_of_one_answer_are_done_in_its_order(site: Site) -> None:
    """Though calls run in parallel: typed before it is sent, sent before it is read."""
    site.pages["/"] = """<input id=i><button onclick="document.body.textContent = 'got ' + i.value">Go</button>"""
    steps = [
        {"action": "navigate", "url": site.url()},
        {"action": "type", "selector": "#i", "text": "all of it"},
        {"action": "click", "selector": "button"},
        {"action": "get_text"},
    ]
    answer = use("browser_use", **steps[0])
    for step in steps[1:]:
        answer = answer + use("browser_use", **step)
    async with open_bench(*PLUGINS, answers=[answer, say("done")], settings=SETTINGS, environ=ENVIRONMENT, patience=90) as bench:
        await bench.run("go")
        texts = {json.dumps(result.data): result.parts[0].text for result in bench.results}
        assert "got all of it" in texts.values() or "got all of it" in [r.parts[0].text for r in bench.results]
