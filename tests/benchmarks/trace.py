"""What traces cost: reading them, and what the log has to record for them.

``python tests/benchmarks/trace.py`` prints a table with the bars. It writes a session of 5,000 turns
through the real store: runs of twenty turns, in each a call, some with an approval, a retry or a slow
hook. Then it measures the command `hilum trace` as a process, the size of the page,
and, if Chromium is installed, how soon the page can be used and how long its frames take. The share
of a turn that the timing of hooks takes is measured in a session with all plugins.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import hilum_store
import trio
from hilum import events as ev
from hilum.messages import AssistantMessage, Layer, Text, ToolCall, ToolResult, Usage, UserMessage
from hilum.store import SessionInfo
from hilum_store import SqliteStore
from msgspec.structs import replace

TURNS = 5_000
RUN_TURNS = 20
SESSION = "20260101-0000-bench"
BEGAN = 1_767_225_600.0


def make_turns(count: int) -> Iterator[tuple[float, ev.Event]]:
    """Yield the events of so many turns, each with the seconds since the one before."""
    yield 0.0, ev.SessionOpened(session=SESSION, workspace="/work", version="0.1.0")
    yield 0.0, ev.AgentStarted()
    for number in range(count):
        turn = number % RUN_TURNS + 1
        if turn == 1:
            yield 5.0, ev.PromptQueued(text=f"Prompt {number}: change the shop.")
            message = UserMessage((Text("Change the shop."),))
            yield 0.01, ev.RunStarted(text=f"Prompt {number}", message=message, model="a/b")
            layers = (Layer(0, "meta", "You are hilum. " * 400),)
            yield 0.01, ev.PromptFrozen(layers=layers, tools=(), changed=("layer meta",))
        yield 0.01, ev.ModelStarted(turn=turn, model="a/b", estimate=9_000)
        if number % 50 == 7:
            yield (
                1.0,
                ev.ModelFailed(
                    attempt=1,
                    model="a/b",
                    kind="server",
                    code="E_MODEL",
                    message="503",
                    action="retry",
                    wait=1.0,
                ),
            )
            yield 1.0, ev.ModelStarted(attempt=2, turn=turn, model="a/b", estimate=9_000)
        call = ToolCall(f"c{number}", "read_file", f'{{"path": "part{number}.py"}}')
        answer = AssistantMessage((Text("I look at it. " * 20), call), "a/b", "calls")
        usage = Usage(9_000, 8_500, output=120, cost=0.004)
        yield 2.5, ev.ModelAnswered(message=answer, usage=usage, first=0.8, seconds=2.5)
        if number % 25 == 3:
            yield 0.01, ev.ApprovalAsked(id=f"a{number}", call=call, risk="write")
            yield 4.0, ev.ApprovalAnswered(id=f"a{number}", accepted=True)
        if number % 40 == 11:
            yield (
                0.08,
                ev.HookCalled(plugin="lint", hook="check_result", seconds=0.08, call=call.id),
            )
        yield 0.01, ev.CallStarted(call=call, risk="read", effect="pure", plugin="files")
        result = ToolResult(call.id, call.name, (Text("x = 1\n" * 340),))
        yield 0.2, ev.CallDone(result=result, seconds=0.2)
        yield 0.01, ev.RoundEnded()
        if turn == RUN_TURNS:
            yield 0.01, ev.RunEnded(state="completed", text="Done.", turns=turn)


def make_events(count: int = TURNS) -> list[ev.Event]:
    """Return the numbered events of a session of so many turns."""
    events: list[ev.Event] = []
    at = BEGAN
    run = 0
    for wait, event in make_turns(count):
        at += wait
        run += isinstance(event, ev.PromptQueued)
        agent = "" if isinstance(event, ev.SessionOpened) else "main"
        name = f"r{run}" if run else ""
        events.append(replace(event, seq=len(events) + 1, at=at, agent=agent, run=name))
    return events


async def write_session(path: Path, workspace: str, events: list[ev.Event]) -> None:
    """Write a session into a new session file."""
    store = SqliteStore(path)
    log = await store.create(SessionInfo(SESSION, workspace, created=BEGAN))
    for first in range(0, len(events), 1000):
        log.append(events[first : first + 1000])
    await log.close()
    await store.close()


# --- the command and the page ---------------------------------------------------------------------


def run_command(data: str, *arguments: str) -> tuple[float, bytes]:
    """Return the seconds that the command takes as a process, and its output."""
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environ |= {"HILUM_DATA": data, "HILUM_CONFIG": data}
    argv = [sys.executable, "-m", "hilum", "trace", SESSION, *arguments]
    began = time.perf_counter()
    done = subprocess.run(argv, capture_output=True, check=True, env=environ)
    return time.perf_counter() - began, done.stdout


def measure_command(data: str, rounds: int) -> Path:
    """Print the times of the views, and return the page."""
    page = Path(data) / "trace.html"
    for label, arguments, bar in (
        ("tree, last run", (), "1 s"),
        ("tree, all turns", ("--all",), "1 s"),
        ("flame view", ("--flame",), "1 s"),
        ("page", ("--html", str(page), "--force"), ""),
        ("speedscope", ("--speedscope", str(Path(data) / "p.json"), "--force"), ""),
    ):
        seconds = [run_command(data, *arguments)[0] for _ in range(rounds)]
        print(
            f"{label:22} {min(seconds):6.2f} s best {statistics.median(seconds):6.2f} s median   {bar}"
        )
    print(f"{'size of the page':22} {page.stat().st_size / 1e6:6.2f} MB                      5 MB")
    return page


START = """() => {
    window.frameTimes = [];
    window.measuring = true;
    let last = performance.now();
    const tick = (now) => {
        window.frameTimes.push(now - last);
        last = now;
        if (window.measuring) requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
}"""
STOP = "() => { window.measuring = false; return window.frameTimes.slice(2); }"


def measure_page(path: Path) -> None:
    """Print how soon the page can be used, and the frames while a user zooms, scrolls and steps."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("page in a browser: Playwright is not installed")
        return
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=arguments)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        began = time.perf_counter()
        page.goto(path.as_uri())
        page.wait_for_selector(".vis-item")
        print(f"{'page ready':22} {time.perf_counter() - began:6.2f} s")
        box = page.locator("#timeline").bounding_box()
        page.mouse.move(box["x"] + 600, box["y"] + 60)
        for label in ("zooming", "scrolling", "stepping"):
            page.evaluate(START)
            for count in range(40):
                if label == "zooming":
                    page.keyboard.down("Control")
                    page.mouse.wheel(0, -150 if count < 20 else 150)
                    page.keyboard.up("Control")
                elif label == "scrolling":
                    page.mouse.wheel(200, 0)
                else:
                    page.get_by_role("button", name="Next run").click()
                page.wait_for_timeout(50)
            frames = page.evaluate(STOP)
            median = statistics.median(frames)
            print(f"{label:22} frames: median {median:.0f} ms, longest {max(frames):.0f} ms")
        browser.close()


# --- what the log records for traces --------------------------------------------------------------


async def measure_turns(count: int) -> tuple[float, float]:
    """Return the median seconds of a turn with all plugins, and the hook calls of a turn."""
    from hilum import tool
    from hilum.discovery import entry_points
    from hilum.testing import open_bench, plugin, use

    @tool(risk="read", effect="pure")
    async def noop() -> str:
        """Do nothing."""
        return "done"

    names = [name for name in entry_points("hilum") if name != "serve"]
    answers = [*[use("noop")] * count, "Done."]
    settings = {"slow_hook": 0.05, "turns": count + 1, "guard.sandbox": "off"}
    settings["guard.unsandboxed"] = "run"
    tools = plugin("tools", noop)
    with tempfile.TemporaryDirectory() as folder:
        bench = open_bench(
            *names, tools, answers=answers, settings=settings, folder=folder, faults=True
        )
        async with bench as kit:
            began = time.perf_counter()
            await kit.run("Work.")
            seconds = (time.perf_counter() - began) / count
            hooks = sum(call.kind == "hook" for call in kit.observed) / count
    return seconds, hooks


def measure_overhead(turns: int = 100) -> None:
    """Print the share of a turn that is spent for traces: comparing times, and timing waits."""
    seconds, hooks = trio.run(measure_turns, turns)
    limit = 0.05
    report = print
    count = 200_000
    began = time.perf_counter()
    for _ in range(count):
        took = 0.001
        if took > limit and report is not None:
            raise AssertionError
    compared = (time.perf_counter() - began) / count

    async def read_clock() -> float:
        begun = time.perf_counter()
        for _ in range(count):
            trio.current_time()
        return (time.perf_counter() - begun) / count

    timed = trio.run(read_clock)
    # Each call reads trio's clock four times.
    added = hooks * compared + 4 * timed
    print(f"a turn takes {seconds * 1000:.2f} ms, with {hooks:.0f} hook calls")
    print(f"of which for traces    {added * 1e6:6.2f} us = {added / seconds:.3%}             1 %")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--turns", type=int, default=TURNS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as data:
        events = make_events(options.turns)
        path = hilum_store.database_path(str(Path(data) / "sessions.db"))
        trio.run(write_session, path, "/work", events)
        print(f"{options.turns:,} turns, {len(events):,} events{'':24} bar")
        page = measure_command(data, options.rounds)
        measure_page(page)
    measure_overhead()


if __name__ == "__main__":
    main()
