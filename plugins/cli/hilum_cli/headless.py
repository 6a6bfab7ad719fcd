"""One run from a command line: opens kernel and session, shows events as they come, and stops when
told to.
"""

from __future__ import annotations

import gc
import os
import stat
import sys
import traceback
from contextlib import redirect_stdout
from os import fstat
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import trio
from hilum import HilumError, UsageError, calls_left_behind, open_standard_session
from hilum.errors import E_INTERNAL, E_STOPPED, letting_run
from hilum.events import Delta, PluginEvent, RunEnded, StopAsked
from hilum.store import MemoryStore
from hilum_agents.runs import Runs

from hilum_cli import agents, exits, plans, signals
from hilum_cli.approvals import Approver, can_ask
from hilum_cli.faces import Face, TextFace
from hilum_cli.output import ServiceSummary
from hilum_cli.result import Record, cut_off_runs, exit_code_of, without_effect
from hilum_cli.run_options import RunOptions
from hilum_cli.stopping import Stopping
from hilum_cli.terminal import line, quiet_exit
from hilum_cli.totals import Totals

if TYPE_CHECKING:
    from hilum import Run, Session
    from hilum.events import AnyEvent
    from hilum_replay import Recorder


def run(options: RunOptions, face: Face) -> int:
    """Do what the options say and return the exit code."""
    work = Headless(options, face)
    code = exits.FAILED
    try:
        # A plugin that prints must not spoil what is written to standard output.
        with redirect_stdout(sys.stderr):
            code = trio.run(_main, work)
    finally:
        signals.end_with(code)
        face.close()
        quiet_exit()
    return code


async def _main(work: Headless) -> int:
    """Run it.

    Where a tool's call was left behind and still runs, end the process instead of waiting for it.
    """
    code = await work.main()
    if calls_left_behind():
        work.face.close()
        sys.stderr.flush()
        os._exit(code)
    return code


class Headless:
    """A run and its end.

    Args:
        options: What to do, and how.
        face: What shows it.

    Attributes:
        end: How the run ended, once it has.
        session: Id of the session; empty where it is not kept.
    """

    def __init__(self, options: RunOptions, face: Face) -> None:
        self.options = options
        self.face = face
        self.stopping = Stopping(lambda: None, self._leave)
        self.record = Record(face.progress, workspace=options.workspace)
        self.end: RunEnded | None = None
        self.session = ""
        self._end_shown = False
        self._result_written = False
        self._code: int | None = None
        self._cut_short = False
        self._shown = 0
        self._recorded = 0

    async def main(self) -> int:
        """Do everything and return the exit code."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.stopping.listen)
            nursery.start_soon(self._watch_reader)
            error = await self._work_until_stopped()
            code = await self._finish(error)
            nursery.cancel_scope.cancel()
        return code

    async def _work_until_stopped(self) -> HilumError | None:
        """Do the work; return what broke it off."""
        error: HilumError | None = None
        with trio.CancelScope() as scope:
            # Until there is a run to stop, a signal just unwinds.
            self.stopping.stop = scope.cancel
            try:
                await self._work()
            except HilumError as raised:
                error = raised
            except Exception as raised:
                error = self._explain(raised)
        if self.stopping.signal and self.end is None:
            self.end = RunEnded(
                state="stopped", code=E_STOPPED, error="Stopped before the run began."
            )
            error = None
        elif self.face.out.gone and self.end is None:
            # The reader left before the run began. A pipe that ends is no error, and nobody asked
            # for a message.
            self.end = RunEnded(
                state="stopped", code=E_STOPPED, error="Nobody reads standard output."
            )
            self._end_shown = True
            error = None
        elif error is None and self.end is None:
            error = HilumError("The run ended without a result.", code=E_INTERNAL)
        return error

    def _explain(self, error: Exception) -> HilumError | None:
        """Return the error of hilum's in a group of errors.

        One that nobody foresaw is shown with its traceback.
        """
        if isinstance(error, ExceptionGroup):
            ours, rest = error.split(HilumError)
            if ours is not None and rest is None:
                return _first(ours)
        if self.stopping.signal:
            # A plugin failed while it was being cancelled: the user wanted it to end, and it did
            return None
        self.face.close()
        traceback.print_exception(error, file=sys.stderr)
        message = f"hilum failed: {type(error).__name__}: {error}"
        return HilumError(
            message,
            code=E_INTERNAL,
            hint="This is a fault of hilum: please report it with the traceback.",
        )

    async def _finish(self, error: HilumError | None) -> int:
        """Show what is left to show, and return the exit code."""
        if error is not None:
            self.face.failed(error)
        elif self.end is not None:
            await self._show_end(self.end)
        if self.face.out.error is not None:
            reason = self.face.out.error.strerror
            error = HilumError(f"Standard output cannot be written: {reason}.", code="E_FAILED")
            self.face.failed(error)
        code = self._exit_code(error)
        await self._write_result(error, code)
        if not self.face.out.gone:
            return code
        if self.face.out.terminal:
            return exits.HUNG_UP
        return exits.BROKEN_PIPE

    def _exit_code(self, error: HilumError | None) -> int:
        if self._code is not None:
            return self._code
        if error is not None:
            return error.exit_code
        assert self.end is not None
        return exit_code_of(self.end, self.stopping.signal, cut_short=self._cut_short)

    async def _show_end(self, end: RunEnded) -> None:
        """Show the end, once."""
        if not self._end_shown:
            self._end_shown = True
            await self.face.ended(end, self.session)

    async def _write_result(self, error: HilumError | None, code: int) -> None:
        """Write the result line where the face has one, once."""
        if not self._result_written:
            self._result_written = True
            self._code = code
            await self.face.out.write(self.face.result(self.record.result(self.end, error, code)))

    def _leave(self, code: int) -> None:
        """Write the result line of a run that is ended without unwinding."""
        if not self._result_written:
            self._result_written = True
            end = self.end or RunEnded(
                state="stopped", code=E_STOPPED, error="The run was ended at once."
            )
            self.face.out.put(self.face.result(self.record.result(end, None, code)))

    # --- kernel and session -----------------------------------------------------------------------

    async def _work(self) -> None:
        """Run in a new session, or in one that is resumed.

        The answer is shown before what closes takes its time.
        """
        options = self.options
        recorder = make_recorder(options.record) if options.record else None
        opened = open_standard_session(
            options.workspace,
            resume=options.resume,
            kind=options.kind,
            attended=can_ask(),
            mode=options.mode,
            model=options.model,
            approve=options.approve,
            plugins=options.plugins,
            extra_plugins=[Path(path) for path in options.plugin],
            without=options.no_plugin,
            settings=options.settings,
            environ=options.environ,
            # What may be a command needs no model; the session asks for one if it is none.
            needs_model=not options.prompt.startswith("/"),
            prepare=self.record.note_kernel,
        )
        async with trio.open_nursery() as late, opened as session:
            # What is loaded stays: a collection that went through it would hold up every agent for
            # 50 ms.
            gc.freeze()
            await self._open(session, resumed=bool(options.resume))
            await self._run_all(session, recorder)
            if self.face.lingers:
                late.start_soon(self._show_late, session, session.journal.last)

    async def _watch_reader(self) -> None:
        """Stop when the reader of standard output goes away (``hilum run … | head``): nobody reads
        what would be paid for.
        """
        if sys.platform != "linux" or not _is_pipe(self.face.out.fd):
            return
        # The end of a pipe that is written to never becomes readable; the system reports only that
        # its reader is gone.
        await trio.lowlevel.wait_readable(self.face.out.fd)
        if not self._end_shown:
            self.face.out.gone = True
            self.stopping.stop()

    async def _open(self, session: Session, *, resumed: bool) -> None:
        """Note which session it is, and show it."""
        self.session = "" if isinstance(session.kernel.store, MemoryStore) else session.id
        self.record.note_session(session)
        # What was noted while the session opened, plugins that did not load above all, is shown.
        self._shown = session.began_at
        if resumed:
            self.record.before = await _used_before(session, self._shown)
        await self.face.opened(session, resumed=resumed)

    async def _run_all(self, session: Session, recorder: Recorder | None) -> None:
        """Work on the prompt, and on the plan that it may end with.

        Then say what the user can do next.
        """
        approver = Approver(session, self.face) if session.attended else None
        unwind = self.stopping.stop
        runs = await self._start(session)
        while True:
            self.stopping.stop = session.stop
            await self._run(session, runs, recorder, approver)
            self.stopping.stop = unwind
            if self.end is not None:
                self.end = without_effect(
                    plans.with_left(session, self.end), self.face.progress, session.approve
                )
                await self._show_end(self.end)
            await self._end_rest(session)
            runs = await self._decide(session)
            if not runs:
                break
        await self._advise(session)
        await self._end_services(session)

    async def _end_rest(self, session: Session) -> None:
        """After a stop, end what began meanwhile: a run that was to tell of an agent's end would be
        left half done.
        """
        if not self.stopping.signal:
            return
        half = session.half(Runs)
        if half is not None:
            await half.fall_silent()
        for run in list(session.runs.values()):
            run.stop()
            await run.wait()

    async def _advise(self, session: Session) -> None:
        """Say what the user can do next."""
        if self.end is not None:
            step = plans.next_step(session, self.end, bool(self.session))
            if step:
                await self.face.advise(step)
        again = agents.again(self.face.progress.agents.ended())
        if self.session and again:
            await self.face.advise(again)
        unattended = self.face.progress.unattended
        if unattended and self.face.progress.effects:
            calls = "1 call was" if unattended == 1 else f"{unattended} calls were"
            await self.face.advise(
                f"{calls} denied because nobody was there to approve. To go on,"
                f" {letting_run(session.approve)}"
            )
        totals = self.record.totals()
        if totals.runs > 1:
            await self.face.total(totals)

    async def _end_services(self, session: Session) -> None:
        """Say which background commands end with the run.

        Or wait for their end, where they are to be kept.
        """
        shell = session.kernel.host.plugins.get("shell")
        if shell is None or shell.state != "ready":
            return
        from hilum_shell import (
            Services,
            ShellSettings,
        )  # a plugin that does not load must not keep hilum from running

        half = session.half(Services)
        running = list(half.running()) if half is not None else []
        if not running or self.stopping.signal or self.end is None:
            return
        keep = session.settings(ShellSettings).keep_services
        for service in running:
            summary = ServiceSummary(
                id=service.id, command=service.command, state="running" if keep else "ended"
            )
            self.record.services.append(summary)
        titles = ", ".join(line(service.title, 120) for service in running)
        if not keep:
            await self.face.advise(
                f"Ended with the run: {titles}. To keep such commands running: --keep-services"
            )
            return
        await self.face.advise(f"Still running: {titles}. Press Ctrl-C to end them.")
        await self._write_result(None, self._exit_code(None))
        for service in running:
            await service.over.wait()

    async def _decide(self, session: Session) -> list[Run]:
        """Ask what is to become of a plan, where somebody sees it; return the run that follows."""
        seen = can_ask() and self.face.out.terminal and isinstance(self.face, TextFace)
        if not seen or self.stopping.signal or not plans.waits(session):
            return []
        run = await plans.decide(session, self.stopping)
        if run is None:
            return []
        self.end = None
        self._end_shown = False
        self.face.reopen()
        return [run]

    async def _show_late(self, session: Session, shown: int) -> None:
        """Show what plugins report while the session closes, until it is closed."""
        async for item in session.events(shown):
            if isinstance(item, PluginEvent):
                await self.face.show(item)

    # --- runs -------------------------------------------------------------------------------------

    async def _start(self, session: Session) -> list[Run]:
        try:
            return await self._started(session)
        except UsageError:
            if not self.options.resume and session.agents["main"].conversation.state == "idle":
                session.discard()  # nothing was ever said in it
            raise

    async def _started(self, session: Session) -> list[Run]:
        """Start what is to be done.

        Nothing where only a plan waits for a decision, or agents for their turn.
        """
        options = self.options
        if options.accept:
            return [await plans.accept(session, options.prompt)]
        if options.prompt:
            await self._note_cut_off(session)
            state = dict(options.state) if options.state else None
            return [await session.prompt(options.prompt, state=state, piped=options.piped)]
        if not session.kernel.router.resolve(session.model):
            await session.kernel.router.default()
        runs = session.resume()
        if runs:
            return runs
        half = session.half(Runs)
        if half is not None and half.busy():
            half.resume()
            return []
        proposal = plans.waits(session)
        if proposal:
            self.end = RunEnded(agent="main", state="completed", text=proposal.text)
            return []
        if session.agents["main"].conversation.retryable:
            return [await session.retry()]
        hint = f'Say what to do next: hilum run --resume {session.id} "…".'
        raise UsageError("Nothing was cut off in this session.", hint=hint)

    async def _note_cut_off(self, session: Session) -> None:
        """Say which runs end unfinished because the user says something else."""
        self.record.interrupted = cut_off_runs(session)
        for cut in self.record.interrupted:
            calls = f" It was cut off in {', '.join(cut.calls)}." if cut.calls else ""
            await self.face.advise(
                "The run before this one was cut off and is not resumed:"
                f" {line(cut.prompt, 80)!r}.{calls} What it had finished is kept."
            )

    async def _run(
        self,
        session: Session,
        runs: list[Run],
        recorder: Recorder | None,
        approver: Approver | None,
    ) -> None:
        """Show runs to their end, and to that of all agents that they have started."""
        face = self.face
        ends: list[RunEnded] = []
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
            async for item in session.events(
                self._recorded if recorder else self._shown, deltas=face.deltas
            ):
                if isinstance(item, Delta):
                    await self._show(session, item, approver)
                    continue
                if recorder:
                    recorder.feed(item)
                    self._recorded = item.seq
                if item.seq > self._shown:
                    self._shown = item.seq
                    await self._show(session, item, approver)
                if isinstance(item, RunEnded) and item.agent == face.progress.lead:
                    ends.append(item)
                    if item.text and not self.stopping.signal and busy(session, beside=item.agent):
                        await face.aside(item.text)
                if all(run.result for run in runs) and self._all_over(session):
                    for rest in session.journal.since(
                        self._shown
                    ):  # written with it: the change of state
                        self._shown = rest.seq
                        await face.show(rest)
                    break
            nursery.cancel_scope.cancel()
        # Of several the main agent's last one counts. This raises what broke the session.
        if leads:
            self.end = await leads[-1].wait()
        else:
            self.end = RunEnded(state="completed")
        # What the user has stopped is what had gone on behind an agent that was done.
        self._cut_short = bool(self.stopping.signal) and self.end.state == "completed"
        own = {run.id for run in runs}
        first = self.end.seq
        for later in ends:
            # The agent was woken again by what it had started. An end before its own is that of a
            # run that was cut off.
            if later.run not in own and later.seq > first:
                self.end = _joined(self.end, later)

    def _all_over(self, session: Session) -> bool:
        """Return whether nothing more comes. After a stop nobody is told of anything any more."""
        # Only runs of this process count: one that a kill has cut off and nobody resumes never
        # ends.
        at_work = bool(session.runs)
        return not at_work and (bool(self.stopping.signal) or not busy(session))

    async def _show(
        self, session: Session, item: AnyEvent | Delta, approver: Approver | None
    ) -> None:
        if approver and not isinstance(item, Delta):
            approver.note(item)
        await self.face.show(item)
        if (self.face.out.gone or self.face.out.error) and not isinstance(
            item, StopAsked
        ):  # itself what a stop writes
            session.stop()  # nobody reads what it finds


def busy(session: Session, beside: str = "") -> bool:
    """Return whether agents run, wait, or are still to be told of in a session, ``beside`` one that
    does not count.
    """
    half = session.half(Runs)
    return half is not None and half.busy(beside)


async def _used_before(session: Session, last: int) -> Totals:
    """Return what a resumed session has used so far."""
    totals = Totals()
    seen = 0
    while seen < last:
        for event in session.journal.since(seen):
            totals.apply(event)
            seen = event.seq
        await trio.lowlevel.checkpoint()
    return totals


def _is_pipe(fd: int) -> bool:
    try:
        return stat.S_ISFIFO(fstat(fd).st_mode)
    except OSError:  # closed
        return False


def _joined(first: RunEnded, later: RunEnded) -> RunEnded:
    """Return the end of two runs of an agent: the later one's, with what both have used."""
    used = {"usage": first.usage + later.usage, "turns": first.turns + later.turns}
    return msgspec.structs.replace(later, seconds=first.seconds + later.seconds, **used)


def _first(error: BaseException) -> HilumError:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, HilumError)
    return error


def make_recorder(path: str) -> Recorder:
    """Create a recorder that writes a cassette.

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
        raise UsageError(
            f"The cassette {path} cannot be written: {error.strerror}.", hint=hint
        ) from None
    if head and not head.startswith(b"format ="):
        raise UsageError(
            f"{path} is no cassette, so nothing is recorded over it.", hint="Give a new file."
        )
    return Recorder(path=path)
