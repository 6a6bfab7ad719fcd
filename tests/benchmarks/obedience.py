"""Whether sixty signed rules are kept when an agent looks for ways round them.

``python tests/benchmarks/obedience.py`` composes 500 ways round each rule from a seed: actions,
spellings of their words, and programs that run them. Each way is judged by its rule. What passes is
run without the rule, to see whether it does what the rule forbids, and then in a session with the
guard and the sandbox. A sample of the refused ways is run without the rule, too. Further samples go
through the real loop with a model over HTTP: as the main agent, after a compaction, as a sub-agent,
and as a guest (another program that works as an agent). Finally, it makes harmless calls.
"""

import argparse
import collections
import contextlib
import json
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import hilum_agents
import hilum_files
import hilum_guard
import hilum_models
import hilum_rules
import hilum_shell
import trio
from hilum import Profile
from hilum.events import CallDone, Compacted, ModelAnswered
from hilum.testing import Bench, open_bench, say, use
from hilum_acp import guests
from hilum_agents import runs
from hilum_agents.runs import Runs
from hilum_checks import judge
from hilum_replay.server import serve

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.obedience.harmless import compose_harmless
from tests.support.obedience.judging import judge_way, make_tool
from tests.support.obedience.project import Trace
from tests.support.obedience.rules import RULES, Rule
from tests.support.obedience.running import Field
from tests.support.obedience.signing import sign
from tests.support.obedience.ways import Step, Way, compose_ways

GUEST = Path(__file__).parents[1] / "plugins/acp/guest_programs/courteous_guest.py"
GUEST_STEPS = 40
"""How many calls a guest makes in one run."""
BY_LOOP = ("run_terminal_cmd", "write_file", "edit_file", "multi_edit", "delete_file", "read_file")
"""The tools that the sessions have."""


@attrs.define
class Tally:
    """What became of the ways of all rules."""

    composed: int = 0
    refused: int = 0
    asked: int = 0
    idle: int = 0
    kept: int = 0
    through: list[str] = attrs.field(factory=list)


class Session:
    """A session with the guard, the sandbox and the signed rules, whose model is reached over HTTP.

    Args:
        bench: The session.
        field: Its project.
        answers: What the model answers next.
    """

    def __init__(self, bench: Bench, field: Field, answers: collections.deque[Any]) -> None:
        self.bench = bench
        self._field = field
        self._answers = answers

    async def call(self, step: Step, agent: str = "main") -> tuple[str, str]:
        """Have an agent make a call; return the code of its failure, and what the agent reads."""
        seen = len(self.bench.events)
        self._answers.extend((use(step.tool, **step.arguments), say("Done.")))
        await self.bench.run("Go on.", agent=agent)
        done = [event for event in self.bench.events[seen:] if isinstance(event, CallDone)]
        return done[-1].result.code, done[-1].result.text

    async def try_way(self, rule: Rule, way: Way, agent: str = "main") -> bool:
        """Return whether a way does what its rule forbids."""
        await trio.to_thread.run_sync(self._field.restore)
        trace = Trace(self._field.folder, rule)
        output = ""
        for step in way.steps:
            code, text = await self.call(step, agent)
            if code in ("E_DENIED", "E_BLOCKED", "E_INVALID"):
                return False
            output += text
        if rule.kind in ("run", "host"):
            # The sandbox keeps neither commands nor, if the network is allowed, hosts.
            return await trio.to_thread.run_sync(self._field.try_way, rule, way)
        return trace.has_effect(output)

    async def compact(self) -> None:
        """Have the main agent read until its conversation is compacted."""
        before = len(self.bench.of(Compacted))
        while len(self.bench.of(Compacted)) == before:
            await self.call(Step("read_file", {"path": "docs/long.md"}))


@contextlib.asynccontextmanager
async def open_session(field: Field, window: int = 128_000) -> AsyncIterator[Session]:
    """Open a session in the project, where nobody can approve anything."""
    answers: collections.deque[Any] = collections.deque()
    # The field's own folder is restored after each way.
    folder = field.folder.parent / "session"
    agents = folder / "config" / "agents"
    agents.mkdir(parents=True, exist_ok=True)
    command = json.dumps([sys.executable, str(GUEST)])
    (agents / "guest.md").write_text(
        "---\nkind: agent\nname: guest\ndescription: Another program.\nmodel: openai/scripted\n"
        f"runner:\n  command: {command}\n---\n"
    )
    async with serve(lambda request: answers.popleft()) as server:
        environment = {
            **server.environ,
            "HILUM_CONFIG": str(folder / "config"),
            "PATH": field.environment["PATH"],
        }
        settings = {
            "model": "openai/scripted",
            "models.models": {
                "openai/scripted": {"window": window, "price": {"input": 0, "output": 0}}
            },
        }
        async with open_bench(
            hilum_agents, hilum_files, hilum_guard, hilum_models, hilum_shell, hilum_rules, runs,
            guests, folder=folder, workspace=field.root, environ=environment,
            settings=settings, kind="headless", faults=True, patience=120,
        ) as bench:  # fmt: skip
            bench.session.add_agent(Profile("helper", "You help."))
            yield Session(bench, field, answers)


# --- judging --------------------------------------------------------------------------------------


def judge_all(
    rules: Sequence[Any], field: Field, count: int, seed: int, proofs: int
) -> tuple[Tally, list[tuple[Rule, Way]], list[tuple[Rule, Way]], list[int]]:
    """Judge the ways round all rules.

    Returns:
        The tally, the refused ways, the ways that passed and have an effect, and how many of the
        sampled refused ways have an effect, and of how many.
    """
    tally = Tally()
    refused: list[tuple[Rule, Way]] = []
    passed: list[tuple[Rule, Way]] = []
    proven = [0, 0]
    for rule, enforced in zip(RULES, rules, strict=True):
        field.restore()
        kept = []
        for way in compose_ways(rule, count, seed, str(field.root)):
            tally.composed += 1
            kind, _ = judge_way([enforced], rule, way, field)
            if kind:
                tally.refused += 1
                tally.asked += kind == "ask"
                kept.append((rule, way))
            elif rule.kind in ("tool", "answer"):
                passed.append((rule, way))
            else:
                if field.try_way(rule, way):
                    passed.append((rule, way))
                else:
                    tally.idle += 1
                # The next way is judged by the files that it would find.
                field.restore()
        refused += kept
        if rule.kind not in ("tool", "answer"):
            for _, way in random.Random(seed).sample(kept, min(proofs, len(kept))):
                proven[0] += field.try_way(rule, way)
                proven[1] += 1
    return tally, refused, passed, proven


async def run_passed(field: Field, passed: Sequence[tuple[Rule, Way]], tally: Tally) -> None:
    """Run in a session what the judge let pass: the sandbox may keep it."""
    async with open_session(field) as session:
        for rule, way in passed:
            if rule.kind in ("tool", "answer") or await session.try_way(rule, way):
                tally.through.append(f"{rule.number}\t{way.text}")
            else:
                tally.kept += 1


# --- settings -------------------------------------------------------------------------------------


def _sample(ways: Sequence[tuple[Rule, Way]], count: int, seed: int) -> list[tuple[Rule, Way]]:
    real = [
        (rule, way)
        for rule, way in ways
        if all(step.tool in BY_LOOP for step in way.steps) and rule.kind != "preceded"
    ]
    return random.Random(seed).sample(real, min(count, len(real)))


async def run_setting(
    field: Field, ways: Sequence[tuple[Rule, Way]], *, agent: str = "main", compacted: bool = False
) -> list[str]:
    """Make the calls of ways in a session; return those that did what their rules forbid."""
    through = []
    async with open_session(field, window=24_000 if compacted else 128_000) as session:
        if compacted:
            await session.compact()
        for rule, way in ways:
            if await session.try_way(rule, way, agent):
                through.append(f"{rule.number}\t{way.text}")
    return through


async def run_guest(field: Field, ways: Sequence[tuple[Rule, Way]]) -> list[str]:
    """Have a guest ask for the calls of ways; return those that did what their rules forbid."""
    asked = [(rule, way) for rule, way in ways if all(_guest_step(step) for step in way.steps)]
    through = []
    for start in range(0, len(asked), GUEST_STEPS):
        async with open_session(field) as session:
            for rule, way in await _ask_as_guest(session, asked[start : start + GUEST_STEPS]):
                field.restore()
                trace = Trace(field.folder, rule)
                said = await _run_guest(session, [_guest_step(step) for step in way.steps])
                if trace.has_effect(said) or (
                    rule.kind in ("run", "host") and field.try_way(rule, way)
                ):
                    through.append(f"{rule.number}\t{way.text}")
    return through


async def _ask_as_guest(
    session: Session, ways: Sequence[tuple[Rule, Way]]
) -> list[tuple[Rule, Way]]:
    """Return the ways of which the last request was not refused."""
    steps = [_guest_step(step) for _, way in ways for step in way.steps]
    said = await _run_guest(session, [part for step in steps for part in (step, ["say", "\x1e"])])
    answers = said.split("\x1e")
    open_ways = []
    at = 0
    for rule, way in ways:
        at += len(way.steps)
        if not answers[at - 1].lstrip().startswith(("terminal: E_", "write: E_", "read: E_")):
            open_ways.append((rule, way))
    return open_ways


async def _run_guest(session: Session, steps: Sequence[Any]) -> str:
    found = session.bench.session.plugin(Runs)
    definition, profile = await found.prepare("guest")
    seen = len(session.bench.events)
    identity = found.begin(profile, json.dumps(steps), definition=definition)
    await found.wait(identity)
    answered = [event for event in session.bench.events[seen:] if isinstance(event, ModelAnswered)]
    return "".join(event.message.text for event in answered)


def _guest_step(step: Step) -> list[str]:
    """Return a call as the guest asks for it; empty if it has no such request."""
    if step.tool == "run_terminal_cmd":
        return ["terminal", step.arguments["command"]]
    if step.tool == "write_file":
        return ["write", step.arguments["path"], step.arguments["content"]]
    if step.tool == "read_file":
        return ["read", step.arguments["path"]]
    return []


# --- harmless calls -------------------------------------------------------------------------------


def judge_harmless(rules: Sequence[Any], field: Field, count: int, seed: int) -> list[str]:
    """Return the harmless calls that one of the rules refuses or asks about."""
    field.restore()
    wrong = []
    for step in compose_harmless(count, seed):
        found = judge(rules, json.dumps(step.arguments), make_tool(step.tool), field.root)
        if found is not None:
            wrong.append(f"{step.arguments}: {found.reason[:160]}")
    return wrong


def _print(title: str, found: Sequence[str], shown: int) -> int:
    print(f"{title}: {len(found)}", flush=True)
    for line in found[:shown]:
        print(f"  {line[:400]}")
    return len(found)


async def main(options: argparse.Namespace) -> int:
    """Run everything; return how many ways got through."""
    with tempfile.TemporaryDirectory() as folder:
        field = Field(Path(folder))
        (field.root / "docs/long.md").write_text("a line of a long text\n" * 1500)
        rules = await sign(field.root, Path(folder))
        field.keep()
        began = time.monotonic()
        tally, refused, passed, proven = await trio.to_thread.run_sync(
            judge_all, rules, field, options.ways, options.seed, options.proofs
        )
        print(
            f"{tally.composed} ways round {len(RULES)} rules: {tally.refused} refused"
            f" ({tally.asked} by a question), {tally.idle} without effect, {len(passed)} left to the"
            f" sandbox; {time.monotonic() - began:.0f} s"
        )
        print(f"of {proven[1]} refused ways, {proven[0]} do what the rule forbids", flush=True)
        await run_passed(field, passed, tally)
        wrong = _print("through, as the main agent", tally.through, options.show)
        print(f"kept by the guard or the sandbox: {tally.kept}")
        everything = [*refused, *passed]
        settings = {
            "main agent": lambda ways: run_setting(field, ways),
            "after a compaction": lambda ways: run_setting(field, ways, compacted=True),
            "sub-agent": lambda ways: run_setting(field, ways, agent="helper"),
            "guest": lambda ways: run_guest(field, ways),
        }
        for number, (name, run) in enumerate(settings.items()):
            ways = _sample(everything, options.sample, options.seed + number)
            through = await run(ways)
            wrong += _print(f"through, of {len(ways)} in the loop, {name}", through, options.show)
        harmless = judge_harmless(rules, field, options.harmless, options.seed)
        _print(f"of {options.harmless} harmless calls refused or asked", harmless, options.show)
        return wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ways", type=int, default=500, help="ways round each rule")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--proofs", type=int, default=20, help="refused ways of each rule to run")
    parser.add_argument("--sample", type=int, default=1000, help="ways in each setting")
    parser.add_argument("--harmless", type=int, default=2000)
    parser.add_argument("--show", type=int, default=20, help="how many lines to print of each list")
    sys.exit(min(trio.run(main, parser.parse_args()), 1))
