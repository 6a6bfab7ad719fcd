"""Nothing is left of a browser, however it or hilum ends; and the next call has one that works."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import trio
from hilum.events import CallStarted
from hilum.testing import open_bench, say, use

from .conftest import PLUGINS, SETTINGS, Site, needs_browser

pytestmark = needs_browser


MARK = f"{os.getpid()}-{time.time()}"
ENVIRONMENT = {"BROWSER_TEST_MARK": MARK}


class Processes:
    """The processes of this test's browsers: those that have the mark, and what descends from them."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, str], str] = {}

    def __call__(self) -> dict[int, str]:
        parents, marked = {}, set()
        for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
            try:
                stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if stat[0] != "Z":
                    parents[pid] = (int(stat[1]), stat[19], command)
                    if MARK.encode() in Path(f"/proc/{pid}/environ").read_bytes() and "hilum_browser" in command:
                        marked.add(pid)
            except OSError:
                continue
        for pid, (_, began, command) in parents.items():
            above = pid
            while above in parents and above not in marked:
                above = parents[above][0]
            if above in marked:
                self._seen[pid, began] = command
        alive = {(pid, began) for pid, (_, began, _) in parents.items()}
        return {key[0]: command for key, command in self._seen.items() if key in alive}


@pytest.fixture
def processes() -> Processes:
    """Lists the browser's processes of this test."""
    return Processes()


async def test_close_and_the_end_of_a_session_leave_nothing(site: Site, processes: Processes, tmp_path: Path) -> None:
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


async def test_a_stop_ends_the_browser_and_the_next_call_has_a_new_one(site: Site, processes: Processes) -> None:
    """In the middle of an action."""
    site.pages["/"] = "<title>Here</title>"
    async with open_bench(*PLUGINS, settings=SETTINGS, environ=ENVIRONMENT, patience=90) as bench:
        await bench.call("browser_use", action="navigate", url=site.url())
        bench.model.then(use("browser_use", action="wait", waitMs=3_000), say("done"))
        run = await bench.start("wait")
        await bench.wait_for(CallStarted, lambda event: "3000" in event.call.arguments)
        await trio.testing.wait_all_tasks_blocked()
        bench.session.stop()
        await run.wait()
        assert not processes()
        result = await bench.call("browser_use", action="get_text")
        assert (result.code, "Navigate first" in result.text) == ("E_BAD_ARGS", True)
        assert "Here" in (await bench.call("browser_use", action="navigate", url=site.url())).text


async def test_a_crash_is_told_and_mended_by_the_next_call(site: Site, processes: Processes) -> None:
    """Of the browser between two calls, and during one; of what drives it; of a page."""
    site.pages["/"] = "<title>Here</title>"
    async with open_bench(*PLUGINS, settings=SETTINGS, environ=ENVIRONMENT, patience=90) as bench:
        for mark in ("--remote-debugging-pipe", "run-driver", "inside.worker"):
            await bench.call("browser_use", action="navigate", url=site.url())
            bench.model.then(use("browser_use", action="wait", waitMs=3_000), say("done"))
            run = await bench.start("wait")
            await bench.wait_for(CallStarted, lambda event: "3000" in event.call.arguments, after=run_seq(bench))
            [pid, *_] = [pid for pid, command in processes().items() if mark in command and "--type" not in command][
                ::-1
            ]
            os.kill(pid, signal.SIGKILL)
            await run.wait()
            assert "navigate again" in bench.results[-1].parts[0].text
            assert not processes()
        assert "Here" in (await bench.call("browser_use", action="navigate", url=site.url())).text
        for pid in [pid for pid, command in processes().items() if "--type=renderer" in command]:
            os.kill(pid, signal.SIGKILL)
        result = await bench.call("browser_use", action="get_text")
        assert "crashed" in result.text or "Navigate first" in result.text
        assert "Here" in (await bench.call("browser_use", action="navigate", url=site.url())).text


def run_seq(bench) -> int:
    return bench.session.journal.last - 1


async def test_a_browser_that_hangs_is_ended(site: Site, processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_death_of_hilum_leaves_nothing(site: Site, processes: Processes, tmp_path: Path) -> None:
    """By a signal that nobody can catch."""
    site.pages["/"] = "<title>Here</title>"
    code = f"""
        import hilum_browser, hilum_files, hilum_guard, trio
        from hilum.testing import open_bench

        async def main():
            plugins = (hilum_files, hilum_guard, hilum_browser)
            async with open_bench(*plugins, folder={str(tmp_path)!r}, environ={ENVIRONMENT!r}, patience=90) as bench:
                done = await bench.call("browser_use", action="navigate", url={site.url()!r})
                print(done.text, flush=True)
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
    async with open_bench(
        *PLUGINS, answers=[answer, say("done")], settings=SETTINGS, environ=ENVIRONMENT, patience=90
    ) as bench:
        await bench.run("go")
        assert bench.results[-1].parts[0].text == "got all of it"
