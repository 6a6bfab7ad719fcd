"""Agents that run side by side, against their bars. Run: ``python tests/benchmarks/scheduler.py``.

Start, stop from each state, 500 queued with 50 at once, 10,000 scripted runs with faults, three
agents at once, and SIGKILL.
"""

import argparse
import gc
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import hilum
import trio
from hilum import hookimpl, tool
from hilum.events import ApprovalAsked, CallStarted, Delta, ModelStarted, PluginEvent
from hilum.testing import ScriptedModel, open_bench, pause, say, use

sys.path.insert(0, str(Path(__file__).parents[1] / "end_to_end"))

STATES = ("queue", "model", "tool", "approval")


def rss() -> float:
    """Resident memory of this process in MB, as it is now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def processor_time(pid: int) -> float:
    """Seconds that all threads of a process have used (Linux)."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def row(name: str, figures: str, bar: str) -> None:
    """Print a line of the table."""
    print(f"{name:34}{figures:74}{bar}", flush=True)


@tool(risk="read", effect="pure")
async def linger() -> None:
    """Never end."""
    await trio.sleep_forever()


@tool(risk="execute")
async def act() -> str:
    """Act."""
    await trio.lowlevel.checkpoint()
    return "acted"


@tool(risk="execute")
async def fail() -> str:
    """Fail."""
    raise hilum.ToolError("It does not work.", code="E_CMD_FAIL")


class Tools:
    """A plugin with the tools."""

    @hookimpl
    def provide_tools(self):  # type: ignore[no-untyped-def]
        return [linger, act, fail]


def bench(model: Any = None, *, at_once: int = 3, approve: Any = "auto", **settings: object) -> Any:
    """A bench with the scheduler."""
    from hilum_agents import runs

    chosen = {"scheduler.at_once": at_once, "silence": 1e6, **settings}
    return open_bench(
        runs, Tools(), model=model, settings=chosen, approve=approve, faults=True, patience=600
    )


def agent_runs_of(kit: Any) -> Any:
    """Return the plugin under test."""
    from hilum_agents.runs import Runs

    return kit.session.plugin(Runs)


async def starts(count: int) -> None:
    """From the call to the id and the first status event, in a running session."""
    seconds = []
    async with bench(ScriptedModel(["ok"] * count)) as kit:
        agent_runs = agent_runs_of(kit)
        for _ in range(count):
            began = time.perf_counter()
            identity = agent_runs.begin(hilum.Profile("review"), "Look.")
            assert agent_runs.status(identity)["status"] == "queued"
            seconds.append(time.perf_counter() - began)
            await agent_runs.wait(identity)
    seconds.sort()
    figures = f"median {seconds[count // 2] * 1e3:.2f} ms, worst {seconds[-1] * 1e3:.2f} ms"
    row("start in a running session", figures, "id and first status < 100 ms")


def cold() -> None:
    """From the start of Python to the first status event, with all plugins that are installed and
    compiled bytecode.
    """
    code = (
        "import hilum, trio\n"
        "async def main():\n"
        "    async with hilum.open_kernel(settings={'model': 'openai/m'}) as kernel:\n"
        "        async with kernel.open_session('.') as session:\n"
        "            from hilum_agents.runs import Runs\n"
        "            agent_runs = session.plugin(Runs)\n"
        "            print(agent_runs.status(agent_runs.begin(hilum.Profile('x'), 'Look.'))['status'], flush=True)\n"
        "            input()\n"
        "trio.run(main)\n"
    )
    best, used = [], []
    with tempfile.TemporaryDirectory() as folder:
        kept = {
            name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
        }
        environ = kept | {
            "HILUM_DATA": folder,
            "HILUM_CONFIG": folder,
            "OPENAI_BASE_URL": "http://127.0.0.1:9",
        }
        for _ in range(6):  # the first one compiles
            began = time.perf_counter()
            with subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environ,
                cwd=folder,
            ) as process:
                assert process.stdout
                assert process.stdout.readline() == b"queued\n"
                best.append(time.perf_counter() - began)
                used.append(processor_time(process.pid))
                process.communicate(b"\n")
    seconds, cpu = sorted(best[1:]), sorted(used[1:])
    figures = f"median {seconds[2]:.2f} s, worst {seconds[-1]:.2f} s; processor time {cpu[2]:.2f}, {cpu[-1]:.2f} s"
    row("start from a cold process", figures, "< 1 s")


async def stops(where: str, count: int) -> None:
    """From the stop to the result, for agents that stand somewhere."""
    answers: dict[str, Any] = {"tool": use("linger"), "approval": use("act")}
    model = ScriptedModel([answers.get(where, pause(1e9))] * (count + 1))
    kinds = {"tool": CallStarted, "approval": ApprovalAsked}
    seconds = []
    async with bench(model, at_once=1, approve="ask_first") as kit:
        agent_runs = agent_runs_of(kit)
        if where == "queue":
            agent_runs.begin(hilum.Profile("first"), "Work.")
        for _ in range(count):
            identity, after = (
                agent_runs.begin(hilum.Profile("x"), "Work."),
                kit.session.journal.last,
            )
            if where != "queue":
                await kit.wait_for(kinds.get(where, ModelStarted), after=after)
            began = time.perf_counter()
            agent_runs.stop(identity)
            result = await agent_runs.wait(identity)
            seconds.append(time.perf_counter() - began)
            assert result["status"] == "stopped"
        agent_runs.stop()
    seconds.sort()
    p99 = seconds[max(count * 99 // 100 - 1, 0)]
    row(
        f"stop in {where}",
        f"{count} stops: p99 {p99 * 1e3:.1f} ms, worst {seconds[-1] * 1e3:.1f} ms",
        "p99 < 500 ms",
    )


STUBBORN = """trap '' TERM INT HUP
( setsid bash -c 'trap "" TERM INT HUP; echo up; while :; do sleep 30; done' & ) &
while :; do sleep 30; done
"""


async def stubborn(count: int) -> None:
    """From the stop to the result, for agents whose command ignores signals and has forked away
    from its group.
    """
    import hilum_shell
    from hilum_agents import runs

    seconds, answers = [], [use("run_terminal_cmd", command=STUBBORN)] * count
    async with open_bench(runs, hilum_shell, answers=answers, approve="auto", patience=60) as kit:
        agent_runs = agent_runs_of(kit)
        for _ in range(count):
            identity, seen = agent_runs.begin(hilum.Profile("x"), "Work."), ""
            async for item in kit.session.events(kit.session.journal.last, deltas=True):
                seen += (
                    item.text if isinstance(item, Delta) and item.agent.endswith(identity) else ""
                )
                if "up" in seen:
                    break
            began = time.perf_counter()
            agent_runs.stop(identity)
            assert (await agent_runs.wait(identity))["status"] == "stopped"
            seconds.append(time.perf_counter() - began)
    figures = f"{count} stops: median {sorted(seconds)[count // 2] * 1e3:.0f} ms, worst {max(seconds) * 1e3:.0f} ms"
    row("stop of a stubborn process tree", figures, "1 s")


async def many(count: int) -> None:
    """Many queued by five owners, 50 at once: the order, the memory, the results."""

    async def answer(request: Any) -> Any:
        await trio.sleep(0.01)
        return use("act") if len(request.messages) == 1 else say("x" * 2000)

    async with bench(ScriptedModel([answer] * count * 2), at_once=50) as kit:
        agent_runs = agent_runs_of(kit)
        gc.collect()
        before, peak, began = rss(), 0.0, time.perf_counter()
        started = [
            agent_runs.begin(hilum.Profile("x"), f"Number {n}.", owner=f"owner-{n % 5}")
            for n in range(count)
        ]
        half_way = 0.0
        for number, one in enumerate(started):
            await agent_runs.scheduler.jobs.by_id[one].ended.wait()
            peak = max(peak, rss())
            half_way = rss() if number == count // 2 else half_way
        seconds = time.perf_counter() - began
        order = [
            event.data["agent_id"] for event in kit.of(PluginEvent) if event.name == "agents.result"
        ]
        late = max(abs(place - started.index(one)) for place, one in enumerate(order))
        results = sum([(await agent_runs.result(one))["status"] == "completed" for one in started])
        memory = f"{before:.0f} → {half_way:.0f} → {rss():.0f} MB"
        figures = f"{results} results in {seconds:.1f} s; {memory}; out of place by ≤ {late}"
        row(f"{count} queued, 50 at once", figures, "all results, fair (≤ 50), memory flat")


async def faulty(count: int, seed: int = 1) -> None:
    """Scripted runs with faults of models and tools, stops and timeouts at random: no result is
    lost, none is stuck.
    """
    dice = random.Random(seed)
    faults = (
        lambda: hilum.ModelError("Gone.", kind="request"),
        lambda: RuntimeError("boom"),
        lambda: use("fail"),
        lambda: use("act"),
        lambda: use("nothing", x=1),
        lambda: say("cut", stop="length"),
        lambda: pause(1e9),
        lambda: hilum.ModelError("No.", kind="auth"),
    )

    async def answer(request: Any) -> Any:
        await trio.lowlevel.checkpoint()
        return dice.choice(faults)() if dice.random() < 0.3 else say("fine")

    states, lost, stuck, began, peaks = Counter[str](), 0, 0, time.perf_counter(), []
    for _ in range(0, count, 1000):
        async with bench(ScriptedModel([answer] * 40_000), at_once=50) as kit:
            agent_runs = agent_runs_of(kit)
            for _ in range(10):
                started = [
                    agent_runs.begin(hilum.Profile("x"), "Work.", timeout=dice.choice((0.05, 1.0)))
                    for _ in range(100)
                ]
                for one in dice.sample(started, 10):
                    await trio.sleep(dice.uniform(0, 0.005))
                    agent_runs.stop(one)
                with trio.move_on_after(60):
                    for one in started:
                        await agent_runs.scheduler.jobs.by_id[one].ended.wait()
                for one in started:
                    entry = agent_runs.scheduler.jobs.by_id[one]
                    stuck += (
                        not entry.over or entry.status != (await agent_runs.result(one))["status"]
                    )
                    lost += not entry.over
                    states[entry.status] += 1
            stuck += len(agent_runs.scheduler.queue.running)
            peaks.append(rss())
    shown = ", ".join(f"{state} {number}" for state, number in states.most_common())
    row(
        f"{sum(states.values())} runs with faults",
        f"{lost} lost, {stuck} stuck in {time.perf_counter() - began:.0f} s",
        "0 lost, 0 stuck",
    )
    print(f"    {shown}; memory {peaks[0]:.0f} → {peaks[-1]:.0f} MB")


THREE = """
import gc, resource, sys, time
import hilum, trio
from hilum.testing import ModelProvider, ScriptedModel, pause, say, use
class Rounds(trio.abc.Instrument):
    # One round of the loop is what a task that is ready waits at most. Processor time: a loaded machine is not our doing.
    def __init__(self): self.seconds, self.began = [], None
    def after_io_wait(self, timeout): self.began = time.thread_time()
    def before_io_wait(self, timeout):
        if self.began is not None: self.seconds.append(time.thread_time() - self.began)
async def main():
    loads = {"think": pause(6.0) + say("ok"), "work": None}
    async def answer(request):
        if sys.argv[1] == "think":
            return pause(6.0) + say("ok")
        await trio.sleep(0.2)
        return use("search_files", pattern="def ") if len(request.messages) < 40 else say("ok")
    settings = {"model": "scripted/m", "approve": "auto", "turns": 100}
    async with hilum.open_kernel(settings=settings, workspace=sys.argv[2]) as kernel:
        kernel.router.replace(ModelProvider({"m": ScriptedModel([answer] * 300)}))
        async with kernel.open_session(sys.argv[2]) as session:
            from hilum_agents.runs import Runs
            agent_runs = session.plugin(Runs)
            gc.freeze()  # as the commands do
            late, over = [], trio.Event()
            async def watch():
                while not over.is_set():
                    began = time.perf_counter()
                    await trio.sleep(0.01)
                    late.append(time.perf_counter() - began - 0.01)
            begun = [agent_runs.begin(hilum.Profile(n, turns=100), "Look.", timeout=6) for n in ("explore", "review", "test")]
            await trio.sleep(0.5)
            def spent():
                return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
            rounds = Rounds()
            trio.lowlevel.add_instrument(rounds)
            cpu, began = spent(), time.perf_counter()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(watch)
                for one in begun:
                    await agent_runs.wait(one)
                over.set()
            share = (spent() - cpu) / (time.perf_counter() - began) / 3
            rss = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() / 1e6
            late.sort()
            print(f"{rss:.0f} {share * 100:.1f} {late[len(late) * 99 // 100] * 1e3:.1f} {late[-1] * 1e3:.1f}", end=" ")
            rounds.seconds.sort()
            print(f"{rounds.seconds[len(rounds.seconds) * 99 // 100] * 1e3:.1f} {rounds.seconds[-1] * 1e3:.1f}")
trio.run(main)
"""


def three(which: str) -> None:
    """Explore, review and test at once over this repository: memory, processor, how long one keeps
    the others waiting.
    """
    root = str(Path(__file__).parents[2])
    with tempfile.TemporaryDirectory() as folder:
        kept = {
            name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
        }
        environ = kept | {
            "HILUM_DATA": folder,
            "HILUM_CONFIG": folder,
            "PYTHONPYCACHEPREFIX": f"{folder}/compiled",
        }
        short = [
            sys.executable,
            "-c",
            THREE.replace("6.0", "0.1"),
            "think",
            root,
        ]  # compiles what is loaded
        subprocess.run(short, stdout=subprocess.DEVNULL, check=True, env=environ)
        argv = [sys.executable, "-c", THREE, which, root]
        found = subprocess.run(
            argv, stdout=subprocess.PIPE, check=True, env=environ, text=True
        ).stdout.split()
    bar = "20" if which == "think" else "50"
    figures = (
        f"{found[0]} MB, {found[1]} % of a core each, delay p99 {found[2]} ms, worst {found[3]} ms"
    )
    row(f"three agents that {which}", figures, f"200 MB, {bar} % each, 20 ms")
    row("    the loop held, processor time", f"p99 {found[4]} ms, worst {found[5]} ms", "20 ms")


async def kills(kind: str, count: int) -> None:
    """SIGKILL at random instants while three run and five wait, or two work in the background of
    the main agent.
    """
    import test_crash_agents

    dice, states = random.Random(7), Counter[str]()
    for _ in range(count):
        states += await test_crash_agents.trial(dice, kind)
    shown = ", ".join(f"{state} {number}" for state, number in states.items())
    what = "8 agents" if kind == "queue" else "2 in background"
    row(f"SIGKILL, {count} of {what}", shown, "all end, none twice, none lost")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--stops", type=int, default=200)
    parser.add_argument("--kills", type=int, default=25)
    options = parser.parse_args()
    trio.run(starts, 200)
    cold()
    for where in STATES:
        trio.run(stops, where, options.stops)
    trio.run(stubborn, max(options.stops // 4, 1))
    trio.run(many, 500)
    for which in ("think", "work"):
        three(which)
    trio.run(faulty, options.runs)
    for kind in ("queue", "background"):
        trio.run(kills, kind, options.kills)


if __name__ == "__main__":
    main()
