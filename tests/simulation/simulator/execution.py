"""Carries out a scenario: opens the real kernel on the simulated parts, life after life, and checks
everything on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from math import inf
from types import ModuleType
from typing import Any

import msgspec
import trio
from hilum import HilumError, Kernel, Run, Session, open_kernel
from hilum import events as ev
from hilum.errors import StoreError, UsageError
from hilum.testing import plugin
from hilum_agents.runs import Runs

from simulator.determinism import (
    Folders,
    Watchdog,
    deterministic,
    isolated_environment,
    unshield_everything,
    virtual_clock,
)
from simulator.invariants import Checker, Violation
from simulator.plugins import faulty_plugin, redactor_plugin, sentry_plugin
from simulator.probes import probe
from simulator.provider import SimulatedModel, SimulatedProvider
from simulator.scenario import SECRET, Act, Life, Prompt, Scenario
from simulator.storage import SimulatedStore
from simulator.terminal import Terminal
from simulator.world import World, world_plugin

# Virtual seconds and steps of tasks after which a run counts as one that never ends.
MAX_SECONDS = 20_000.0
MAX_STEPS = 400_000
APPROVAL_TIMEOUT = 300.0
REAL_PLUGINS = ("files", "memory", "plan", "agents", "scheduler", "guard")
ACTS = ("stop", "stop_run", "edit", "compact", "mode", "approve", "model", "prompt", "stop_agents")
FILES = {"a.txt": "alpha 0\nbeta 0\ngamma 0\n", "b.txt": "one\ntwo\nthree\n"}


class Outcome(msgspec.Struct):
    """What came of a scenario.

    Attributes:
        log: The events as they were written, without the folders of this process.
        seconds: Virtual time that it took.
        steps: Steps of all tasks.
        requests: Number of requests to the model.
        bodies: The requests, without the folders of this process.
    """

    violations: list[Violation]
    events: list[ev.AnyEvent]
    log: bytes
    seconds: float
    steps: int
    requests: int
    bodies: list[bytes]

    @property
    def fingerprint(self) -> str:
        """A digest of all that happened: log, requests, violations, virtual time and the number of
        steps.
        """
        parts = [
            self.log,
            *self.bodies,
            *(str(violation).encode() for violation in self.violations),
        ]
        parts.append(f"{self.seconds!r} {self.steps}".encode())
        return sha256(b"\0".join(parts)).hexdigest()


def execute(scenario: Scenario, folders: Folders) -> Outcome:
    """Carry out a scenario."""
    folders.clear()
    simulation = Simulation(scenario, folders)
    with isolated_environment(folders), deterministic(scenario.seed):
        simulation.run()
        if not simulation.checker.violations and scenario.probe_at >= 0:
            probe(scenario, folders, simulation.checker, simulation.options)
    base = str(folders.base).encode()
    log = b"\n".join(map(_written, simulation.checker.events)).replace(base, b"BASE")
    return Outcome(
        simulation.checker.violations,
        simulation.checker.events,
        log,
        simulation.seconds,
        simulation.watchdog.steps,
        len(simulation.checker.requests),
        [body.replace(base, b"BASE") for _, _, body in simulation.checker.requests],
    )


def _written(event: ev.AnyEvent) -> bytes:
    try:
        return ev.encode(event)
    except Exception as error:
        return repr(error).encode()


class Simulation:
    """One scenario while it is carried out.

    Args:
        scenario: The scenario.
        folders: Where its files are.
    """

    def __init__(self, scenario: Scenario, folders: Folders) -> None:
        self.scenario = scenario
        self.folders = folders
        self.checker = Checker(guarded="sentry" in scenario.plugins, serial_limit=APPROVAL_TIMEOUT)
        self.world = World(self.checker, folders.workspace)
        self.store = SimulatedStore(self.checker)
        self.model = SimulatedModel(scenario, self.checker)
        self.checker.too_much = self._give_up
        self.watchdog = Watchdog(MAX_STEPS, self._expired)
        self.seconds = 0.0
        self.replies = 0
        self._scope = trio.CancelScope()
        self._given_up = False
        for name, text in FILES.items():
            (folders.workspace / name).write_text(text)

    def run(self) -> None:
        """Carry out all lives."""
        for number, life in enumerate(self.scenario.lives):
            if self._given_up:
                break
            last = number == len(self.scenario.lives) - 1
            trio.run(
                self._life,
                life,
                number > 0,
                last,
                clock=virtual_clock(),
                instruments=[self.watchdog],
            )

    @property
    def options(self) -> dict[str, Any]:
        """Settings of the kernel."""
        scenario = self.scenario
        options: dict[str, Any] = {
            # How long a hook takes depends on the machine.
            "slow_hook": 0,
            "model": "simulated/model",
            "turns": scenario.turns,
            "approval_timeout": APPROVAL_TIMEOUT,
        }
        if scenario.timeout is not None:
            options["timeout"] = scenario.timeout
        return options

    def plugins(self) -> list[object]:
        """Plugins of one life."""
        chosen: list[object] = [name for name in self.scenario.plugins if name in REAL_PLUGINS]
        chosen += [world_plugin(self.world), self._models()]
        if "sentry" in self.scenario.plugins:
            chosen.append(sentry_plugin(self.scenario, self.checker))
        if "faulty" in self.scenario.plugins:
            chosen.append(faulty_plugin(self.scenario, self.checker))
        if "redactor" in self.scenario.plugins:
            chosen.append(redactor_plugin())
        return chosen

    def _models(self) -> ModuleType:
        return plugin("simulation", provide_models=lambda: [SimulatedProvider(self.model)])

    # --- one life ---------------------------------------------------------------------------------

    async def _life(self, life: Life, again: bool, last: bool) -> None:
        began = trio.current_time()
        if self.store.dead:
            self.store.revive()
            self.folders.restore()
            self.world.restore()
            self.checker.life_begins()
            self.checker.expect_same_requests()
        elif again:
            self.checker.life_begins()
        self.world.left = trio.Event()
        self._scope = trio.CancelScope()
        known = len(self.checker.events)
        self.store.fails_at = None if life.store_fails_at is None else known + life.store_fails_at
        self.store.kill_at = None if life.kill_at is None else known + life.kill_at
        self.store.killed = self._killed
        if life.cancel_open_at is not None:
            self.watchdog.plan(life.cancel_open_at, self._scope.cancel)
        self.checker.opened = self._scope_closer(life.cancel_open_of)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_time)
            with self._scope:
                await self._guarded(life, again)
            nursery.cancel_scope.cancel()
        self.checker.life_ends(dead=self.store.dead)
        undisturbed = (
            not self._given_up and not self._scope.cancel_called and life.store_fails_at is None
        )
        # A program that is interrupted before it has gone on with anything leaves everything for
        # the next one.
        untouched = life.terminal and bool(life.acts) and len(self.checker.events) == known
        if last and undisturbed and life.resume == "resume" and not untouched:
            self.checker.all_over()
        self.seconds += trio.current_time() - began

    def _scope_closer(self, cancels: str) -> Callable[[str], None]:
        scope = self._scope

        def opened(plugin: str) -> None:
            if plugin == cancels:
                scope.cancel()

        return opened

    def _killed(self) -> None:
        """Cut the process off at this moment: everything that happens from now on happens in no
        world.
        """
        self.world.save()
        self.folders.save()
        self.world.dead = True
        self.world.left.set()
        self.checker.dead = True
        self._scope.cancel()

    def _expired(self) -> None:
        self.checker.violated(
            "every run ends", f"it takes more than {MAX_STEPS} steps:\n{unshield_everything()}"
        )
        self._give_up()

    def _give_up(self) -> None:
        self._given_up = True
        self.world.left.set()
        self._scope.cancel()

    async def _watch_time(self) -> None:
        """End a run that does not end by itself."""
        await trio.sleep(MAX_SECONDS)
        self.checker.violated(
            "every run ends",
            f"it takes more than {MAX_SECONDS:g} seconds:\n{unshield_everything()}",
        )
        self._give_up()

    async def _guarded(self, life: Life, again: bool) -> None:
        """Open kernel and session and do what the user does.

        What comes out of that is an error of the store or a bug.
        """
        try:
            if life.terminal:
                await self._in_terminal(life, again)
            else:
                await self._session(life, again)
        except BaseException as error:
            if isinstance(error, trio.Cancelled):
                raise
            _, rest = _split(error, (StoreError, trio.Cancelled))
            if rest is not None and not self.store.dead:
                self.checker.violated("the program does not crash", _describe(rest))
                self._given_up = True
            if (
                isinstance(error, BaseExceptionGroup)
                and (cancelled := error.subgroup(trio.Cancelled)) is not None
            ):
                raise cancelled from None

    async def _session(self, life: Life, again: bool) -> None:
        scenario = self.scenario
        async with open_kernel(
            self.plugins(),
            settings=self.options,
            workspace=self.folders.workspace,
            store=self.store,
            environ=self.folders.environ,
        ) as kernel:
            resume = self.store.session
            opened = kernel.open_session(
                self.folders.workspace,
                resume=resume,
                kind="main",
                approve=None if resume else scenario.approve,
            )
            async with opened as session, trio.open_nursery() as nursery:
                nursery.start_soon(self._answer_questions, session)
                nursery.start_soon(self._act_all, session, life.acts)
                await self._work(kernel, session, life, again)
                nursery.cancel_scope.cancel()

    async def _in_terminal(self, life: Life, again: bool) -> None:
        """Let the command line do all of it."""
        resumes = again and life.resume == "resume"
        prompt = self._text(life.prompts[0]) if life.prompts and not resumes else ""
        terminal = Terminal(
            self.plugins(),
            self.store,
            self.options,
            self.folders.environ,
            str(self.folders.workspace),
            prompt or ("" if self.store.session else "job-number-0 is what you must do."),
            None if self.store.session else self.scenario.approve,
        )
        async with trio.open_nursery() as nursery:
            for act in life.acts:
                if act.kind == "stop":
                    nursery.start_soon(self._interrupt, terminal, act.at)
            code = await terminal.run()
            nursery.cancel_scope.cancel()
        if life.store_fails_at is None:
            terminal.check(self.checker, code)

    async def _interrupt(self, terminal: Terminal, at: float) -> None:
        await trio.sleep(at)
        terminal.stop()

    async def _work(self, kernel: Kernel, session: Session, life: Life, again: bool) -> None:
        """Resume, give the prompts, and wait for the ends of all runs."""
        half = session.plugin(Runs)
        runs: list[Run] = []
        if again and life.resume == "resume":
            if half is not None:
                half.resume()
                runs += session.runs.values()
            else:
                runs += session.resume()
        async with trio.open_nursery() as nursery:
            for prompt in life.prompts:
                nursery.start_soon(self._prompt, session, prompt)
            for run in runs:
                nursery.start_soon(_ended, run)
        if session.journal.broken is not None:
            return
        while any(agent.conversation.pending for agent in session.agents.values()) or (
            half and half.busy()
        ):
            if again and life.resume != "resume" and not session.runs:
                break  # what was cut off and not resumed stays as it is
            await trio.sleep(2.0)
            if session.journal.broken is not None:
                return

    async def _prompt(self, session: Session, prompt: Prompt) -> None:
        await trio.sleep(prompt.at)
        try:
            await _ended(await session.prompt(self._text(prompt)))
        except StoreError:
            self.checker.log_failed()

    def _text(self, prompt: Prompt) -> str:
        secret = f"The key is {SECRET}. " if prompt.secret else ""
        return f"{prompt.name} is what you must do. {secret}{'Mind every detail. ' * prompt.padding}".strip()

    # --- the user and others ----------------------------------------------------------------------

    async def _act_all(self, session: Session, acts: list[Act]) -> None:
        async with trio.open_nursery() as nursery:
            for act in acts:
                nursery.start_soon(self._act, session, act)

    async def _act(self, session: Session, act: Act) -> None:
        await trio.sleep(act.at)
        try:
            self._do(session, act)
        except (StoreError, UsageError):
            return

    def _do(self, session: Session, act: Act) -> None:
        match act.kind:
            case "stop":
                session.stop()
            case "stop_run":
                for run in list(session.runs.values())[:1]:
                    run.stop()
            case "stop_agents":
                if (half := session.plugin(Runs)) is not None:
                    half.stop()
            case "edit":
                self.world.change_file(
                    act.value or "a.txt",
                    f"alpha {trio.current_time():g}\nbeta 0\nchanged outside\n",
                )
            case "compact":
                session.compact(focus=act.value)
            case "mode":
                session.set(mode=act.value or "agent")
            case "approve":
                session.set(approve=act.value or "auto")

    async def _answer_questions(self, session: Session) -> None:
        """Answer the questions of approval as the scenario says, one after another or all at
        once.
        """
        async with trio.open_nursery() as nursery:
            # As faces do: a question of a process that was killed is nobody's to answer, and is
            # asked anew on resume.
            async for event in session.events(session.began_at):
                if not isinstance(event, ev.ApprovalAsked):
                    continue
                if event.id in self._settled(session):
                    continue
                if self.scenario.serial:
                    await self._answer(session, event)
                else:
                    nursery.start_soon(self._answer, session, event)

    def _settled(self, session: Session) -> set[str]:
        return {event.id for event in self.checker.events if isinstance(event, ev.ApprovalAnswered)}

    async def _question_over(self, session: Session, asked: ev.ApprovalAsked) -> None:
        """Wait until a question is answered, has run out, or its run has ended."""
        async for event in session.events(asked.seq):
            if isinstance(event, ev.ApprovalAnswered) and event.id == asked.id:
                return
            if isinstance(event, ev.RunEnded) and event.run == asked.run:
                return

    async def _answer(self, session: Session, asked: ev.ApprovalAsked) -> None:
        replies = self.scenario.replies
        reply = replies[self.replies % len(replies)] if replies else None
        self.replies += 1
        self.checker.question_shown(asked.id)
        answers = reply is None or reply.accepted is not None
        delay = reply.delay if reply is not None else 1.0
        # A face takes a question away that nobody waits for any more, and shows the next one.
        with trio.move_on_after(delay if answers else inf) as looking:
            await self._question_over(session, asked)
        if not looking.cancelled_caught:
            return
        accepted = reply is None or bool(reply.accepted)
        remember = reply.remember if reply is not None and accepted else "once"
        try:
            session.answer(
                asked.id,
                accepted,
                reason="" if accepted else "I do not want it.",
                remember=remember,
            )
        except (UsageError, StoreError):
            return


async def _ended(run: Run) -> None:
    try:
        await run.wait()
    except HilumError:
        return


def _split(
    error: BaseException, kinds: tuple[type[BaseException], ...]
) -> tuple[BaseException | None, BaseException | None]:
    if isinstance(error, BaseExceptionGroup):
        return error.split(kinds)
    return (error, None) if isinstance(error, kinds) else (None, error)


def _describe(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    where: list[str] = []
    trace = error.__traceback__
    while trace is not None:
        where.append(f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}")
        trace = trace.tb_next
    return f"{type(error).__name__}: {error} ({' > '.join(where[-6:])})"


Progress = Callable[[str], None]
