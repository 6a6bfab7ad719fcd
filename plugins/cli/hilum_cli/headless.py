"""One run from a command line: opens kernel and session, shows events as they come, and stops when told to."""

from __future__ import annotations

import gc
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

import msgspec
import trio
from hilum import HilumError, UsageError, open_kernel
from hilum.errors import E_STOPPED, E_UNKNOWN
from hilum.events import Delta, PluginEvent, RunEnded, StopAsked
from hilum.store import MemoryStore
from hilum_agents.runs import Runs

from hilum_cli import agents, exits, plans
from hilum_cli.approvals import Approver, can_ask
from hilum_cli.faces import Face, TextFace
from hilum_cli.run import LAST
from hilum_cli.stopping import Stopping
from hilum_cli.terminal import quiet_exit

if TYPE_CHECKING:
    from hilum import Kernel, Run, Session
    from hilum.events import AnyEvent
    from hilum_replay import Recorder

GUARD = "guard"


def run(options: Namespace, face: Face) -> int:
    """Do what the options say; gives the exit code."""
    work = Headless(options, face)
    try:
        # A plugin that prints must not spoil what is written to standard output.
        with redirect_stdout(sys.stderr):
            code = trio.run(work.main)
    finally:
        face.close()
    if face.out.gone:
        quiet_exit()
        return exits.BROKEN_PIPE
    return code


class Headless:
    """A run and its end.

    Args:
        options: See ``run.make_parser``.
        face: What shows it.
    """

    def __init__(self, options: Namespace, face: Face) -> None:
        self.options, self.face = options, face
        self.stopping = Stopping(lambda: None)
        self.end: RunEnded | None = None
        self.ended = False
        self.session = ""
        self.shown = self.fed = 0
        self.cut_short = False

    async def main(self) -> int:
        """Do everything; gives the exit code."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.stopping.listen)
            with trio.CancelScope() as scope:
                # Until there is a run to stop, a signal just unwinds.
                self.stopping.stop = scope.cancel
                error = await self._guarded()
            nursery.cancel_scope.cancel()
        if scope.cancelled_caught and not self.ended:
            self.end, error = RunEnded(state="stopped", code=E_STOPPED, error="Stopped before the run began."), None
        if error is not None:
            self.face.failed(error)
            return error.exit_code
        assert self.end is not None
        await self._end()
        if self.face.out.error is not None:
            self.face.failed(
                HilumError(f"Standard output cannot be written: {self.face.out.error.strerror}.", code="E_FAILED")
            )
            return exits.FAILED
        return 128 + self.stopping.signal if self.cut_short else exits.of_run(self.end, self.stopping.signal)

    async def _end(self) -> None:
        """Show the end, once."""
        if not self.ended and self.end is not None:
            self.ended = True
            await self.face.ended(self.end, self.session)

    async def _guarded(self) -> HilumError | None:
        try:
            await self._work()
        except HilumError as error:
            return error
        except BaseExceptionGroup as group:
            ours, rest = group.split(HilumError)
            if rest is not None or ours is None:
                raise
            return _first(ours)
        return None

    async def _work(self) -> None:
        options = self.options
        async with open_kernel(
            options.plugins,
            without=options.no_plugin,
            settings=options.settings,
            workspace=options.workspace,
            environ=options.environ,
        ) as kernel:
            require_guard(kernel, options.plugins)
            recorder = make_recorder(options.record) if options.record else None
            resume = await find_session(kernel, options.resume, options.workspace) if options.resume else ""
            # Before the session is made, so that a mistake leaves no empty session behind. What may be a command needs no
            # model; the session asks for one if it is none.
            if options.model:
                kernel.router.model(options.model)
                kernel.router.roles["default"] = options.model
            elif not resume and not options.prompt.startswith("/"):
                kernel.router.model(await kernel.router.default())
            async with trio.open_nursery() as late:
                await self._in_session(kernel, resume, recorder, late)

    async def _in_session(self, kernel: Kernel, resume: str, recorder: Recorder | None, late: trio.Nursery) -> None:
        """Run in a session of its own, or in one that is resumed. The answer is given before what closes takes its time."""
        options, stop, session = self.options, self.stopping.stop, None
        try:
            async with kernel.open_session(
                options.workspace,
                resume=resume,
                kind="main" if can_ask() else "headless",
                model=options.model or None,
            ) as session:
                # What is loaded stays: a collection that went through it would hold up every agent for 50 ms.
                gc.freeze()
                session.set(mode=options.mode, approve=options.approve)
                self.session = "" if isinstance(kernel.store, MemoryStore) else session.id
                await self.face.opened(session)
                approver = Approver(session, self.face) if session.kind != "headless" else None
                self.shown = session.journal.last if resume else 0
                runs, plan = await self._start(session), True
                while plan:
                    self.stopping.stop = session.stop
                    await self._run(session, runs, recorder, approver)
                    self.stopping.stop = stop
                    if self.end is not None:
                        self.end = plans.with_left(session, self.end)
                        await self._end()
                    plan = bool(runs := await self._decide(session))
                if self.end is not None and (text := plans.next_step(session, self.end, bool(self.session))):
                    await self.face.advise(text)
                if self.session and (text := agents.again(self.face.progress.agents.ended())):
                    await self.face.advise(text)
                if self.face.lingers:
                    late.start_soon(self._show_late, session, session.journal.last)
        except UsageError:
            if session and not resume and session.agents["main"].conversation.state == "idle":
                await kernel.store.delete(session.id)  # nothing was ever said in it
            raise

    async def _decide(self, session: Session) -> list[Run]:
        """Ask what is to become of a plan, where somebody sees it; gives the run that follows."""
        seen = can_ask() and self.face.out.terminal and isinstance(self.face, TextFace)
        if not seen or self.stopping.signal or not plans.waits(session):
            return []
        run = await plans.decide(session, self.stopping)
        if run is None:
            return []
        self.end, self.ended = None, False
        self.face.reopen()
        return [run]

    async def _show_late(self, session: Session, shown: int) -> None:
        """Show what plugins tell while the session closes, until it is closed."""
        async for item in session.events(shown):
            if isinstance(item, PluginEvent):
                await self.face.show(item)

    async def _run(
        self, session: Session, runs: list[Run], recorder: Recorder | None, approver: Approver | None
    ) -> None:
        """Show runs to their end, and to that of all agents that they have started."""
        face, over = self.face, list[RunEnded]()
        if self.stopping.signal:
            session.stop()
        leads = [run for run in runs if run.agent == "main"] or runs
        if leads:
            face.lead(session, leads[-1].agent)
        if not busy(session) and not any(run.reply is None for run in runs):
            self.end = runs[0].result if runs else self.end
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(face.tick)
            if approver:
                nursery.start_soon(approver.run)
            async for item in session.events(self.fed if recorder else self.shown, deltas=face.deltas):
                if recorder and not isinstance(item, Delta):
                    recorder.feed(item)
                    self.fed = item.seq
                if isinstance(item, Delta):
                    await self._show(session, item, approver)
                    continue
                if item.seq > self.shown:
                    self.shown = item.seq
                    await self._show(session, item, approver)
                if isinstance(item, RunEnded) and item.agent == face.progress.lead:
                    over += [] if any(run.id == item.run for run in runs) else [item]
                    if item.text and not self.stopping.signal and busy(session, beside=item.agent):
                        await face.aside(item.text)
                if all(run.result for run in runs) and self._all_over(session):
                    for rest in session.journal.since(self.shown):  # written with it: the change of state
                        self.shown = rest.seq
                        await face.show(rest)
                    break
            nursery.cancel_scope.cancel()
        # Of several the main agent's last one counts. This raises what broke the session.
        self.end = await leads[-1].wait() if leads else RunEnded(state="completed")
        # What the user has stopped is what had gone on behind an agent that was done.
        self.cut_short = bool(self.stopping.signal) and self.end.state == "completed"
        for later in over:  # it was told of the end of what it had started
            self.end = _joined(self.end, later)

    def _all_over(self, session: Session) -> bool:
        """Whether nothing more comes. After a stop nobody is told of anything any more."""
        at_work = any(agent.conversation.pending for agent in session.agents.values())
        return not at_work and (bool(self.stopping.signal) or not busy(session))

    async def _show(self, session: Session, item: AnyEvent | Delta, approver: Approver | None) -> None:
        if approver and not isinstance(item, Delta):
            approver.note(item)
        await self.face.show(item)
        if (self.face.out.gone or self.face.out.error) and not isinstance(item, StopAsked):  # itself what a stop writes
            session.stop()  # nobody reads what it finds

    async def _start(self, session: Session) -> list[Run]:
        """Start what is to be done; nothing where only a plan waits for a decision, or agents for their turn."""
        options = self.options
        if options.accept:
            return [await plans.accept(session, options.prompt)]
        if options.prompt:
            state = dict(options.state) if options.state else None
            return [await session.prompt(options.prompt, state=state)]
        if not session.kernel.router.resolve(session.model):
            await session.kernel.router.default()
        if runs := session.resume():
            return runs
        half = session.half(Runs)
        if half is not None and half.busy():
            half.resume()
            return []
        if proposal := plans.waits(session):
            self.end = RunEnded(agent="main", state="completed", text=proposal.text)
            return []
        hint = f'Say what to do next: hilum run --resume {session.id} "…".'
        raise UsageError("Nothing was cut off in this session.", hint=hint)


def busy(session: Session, beside: str = "") -> bool:
    """Whether agents run, wait, or are still to be told of in a session, ``beside`` one that does not count."""
    half = session.half(Runs)
    return half is not None and half.busy(beside)


def _joined(first: RunEnded, later: RunEnded) -> RunEnded:
    """Give the end of two runs of an agent: the later one's, with what both have used."""
    used = {"usage": first.usage + later.usage, "turns": first.turns + later.turns}
    return msgspec.structs.replace(later, seconds=first.seconds + later.seconds, **used)


def require_guard(kernel: Kernel, named: Sequence[str] | None) -> None:
    """Let no call run without the guard, unless the user says otherwise: by ``required``, or by leaving it out by name.

    Args:
        kernel: The kernel, with no session yet.
        named: The plugins that are to be loaded, where they were named.
    """
    default = any(row.key == "required" and row.source == "default" for row in kernel.explain())
    if default and (named is None or GUARD in named):
        kernel.host.require([GUARD])


def _first(error: BaseException) -> HilumError:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, HilumError)
    return error


async def find_session(kernel: Kernel, wanted: str, workspace: str) -> str:
    """Give the id of a session: the one named, or the last one of this folder in which anything was said.

    Raises:
        UsageError: There is none.
    """
    if wanted != LAST:
        return (await kernel.store.info(wanted)).id
    for info in await kernel.store.list(workspace):
        if info.title or info.events > 2:
            return info.id
    hint = "hilum sessions list --all shows the sessions of all folders."
    raise UsageError(f"There is no session of {workspace} to go on with.", code=E_UNKNOWN, hint=hint)


def make_recorder(path: str) -> Recorder:
    """Make a recorder that writes a cassette.

    Raises:
        UsageError: The file cannot be written, or is something else than a cassette.
    """
    from hilum_replay import Recorder

    try:
        with open(path, "a+b") as file:
            file.seek(0)
            head = file.read(8)
    except OSError as error:
        hint = "Give another file to record to."
        raise UsageError(f"The cassette {path} cannot be written: {error.strerror}.", hint=hint) from None
    if head and not head.startswith(b"format ="):
        raise UsageError(f"{path} is no cassette, so nothing is recorded over it.", hint="Give a new file.")
    return Recorder(path=path)
