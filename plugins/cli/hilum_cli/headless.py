"""Runs one task from the command line.

The run opens a kernel and a session, shows events as they arrive, and stops on a signal.
"""

from __future__ import annotations

import gc
import os
import stat
import sys
import traceback
from collections.abc import Collection, Sequence
from contextlib import redirect_stdout
from os import fstat
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
import trio
from hilum import (
    BackgroundCommands,
    HilumError,
    UsageError,
    calls_left_behind,
    open_standard_session,
)
from hilum.command import output_error, say
from hilum.errors import E_INTERNAL, E_STOPPED, letting_run
from hilum.events import Delta, ErrorRaised, PluginEvent, RunEnded, StopAsked
from hilum.hooks import PLUGIN_EXCEPTIONS, describe_error, find_first_error
from hilum.journal import report_delays
from hilum.module_archive import end_start
from hilum.sharing import share_session
from hilum.store import MemoryStore
from hilum_agents.runs import Runs
from hilum_view import Totals

from hilum_cli import agents, exits, plans, signals
from hilum_cli.approvals import Approver, can_ask
from hilum_cli.faces import Face, TextFace
from hilum_cli.output import ServiceSummary
from hilum_cli.result import Record, cut_off_runs, without_effect
from hilum_cli.run_options import RunOptions
from hilum_cli.stopping import Stopping
from hilum_cli.terminal import line, quiet_exit

if TYPE_CHECKING:
    from hilum import Run, Session, StoreError
    from hilum.events import AnyEvent
    from hilum.services import BackgroundCommand
    from hilum_replay import Recorder


def run(options: RunOptions, face: Face) -> int:
    """Run the task described by the options and return the exit code."""
    work = Headless(options, face)
    code = exits.FAILED
    try:
        # Output printed by plugins must not corrupt standard output.
        with redirect_stdout(sys.stderr):
            code = trio.run(_main, work)
    finally:
        # The work is finished. From here on, a signal must neither print a traceback nor change the
        # exit code.
        signals.end_with(code)
        face.close()
        quiet_exit()
    return code


async def _main(work: Headless) -> int:
    """Run the task and return the exit code.

    If a tool call was abandoned and is still running, exit without waiting for it.
    """
    code = await work.main()
    if calls_left_behind():
        work.face.close()
        sys.stderr.flush()
        os._exit(code)
    return code


class Headless:
    """A run that was started on the command line, and its result.

    Args:
        options: The task and how to run it.
        face: Shows the run.

    Attributes:
        end: The event that ended the run; ``None`` until then.
        session: Id of the session; empty if the session is not stored.
    """

    def __init__(self, options: RunOptions, face: Face) -> None:
        self.options = options
        self.face = face
        self.stopping = Stopping(lambda: None, self._leave)
        self.record = Record(face.view, workspace=options.workspace)
        self.end: RunEnded | None = None
        self.session = ""
        self._end_shown = False
        self._result_written = False
        self._code: int | None = None
        self._cut_short = False
        self._shown = 0
        self._recorded = 0

    async def main(self) -> int:
        """Run the task, show the result and return the exit code."""
        async with trio.open_nursery() as nursery:
            # ``start`` returns when the handlers are installed, so no signal is missed.
            await nursery.start(self.stopping.listen)
            nursery.start_soon(self._watch_reader)
            error = await self._work_until_stopped()
            code = await self._finish(error)
            nursery.cancel_scope.cancel()
        return code

    async def _work_until_stopped(self) -> HilumError | None:
        """Run the task and return the error that interrupted it, if any."""
        error: HilumError | None = None
        # The errors are caught outside the cancel scope: a task that fails while others are being
        # cancelled raises its error in one group with theirs, and the scope removes theirs.
        try:
            with trio.CancelScope() as scope:
                # Until there is a run to stop, a signal only cancels the work.
                self.stopping.stop = scope.cancel
                await self._work()
        except HilumError as raised:
            error = raised
        except Exception as raised:
            error = self._explain(raised)
        if self.stopping.signal and self.end is None:
            self.end = RunEnded(
                state="stopped", code=E_STOPPED, error="The run was stopped before it began."
            )
            error = None
        elif self.face.out.gone and self.end is None:
            # The reader closed the pipe before the run began. This is not an error, so no message
            # is shown.
            self.end = RunEnded(
                state="stopped", code=E_STOPPED, error="The reader closed standard output."
            )
            self._end_shown = True
            error = None
        elif error is None and self.end is None:
            error = HilumError("The run ended without a result.", code=E_INTERNAL)
        return error

    def _explain(self, error: Exception) -> HilumError | None:
        """Return the only error in an exception group if it is one of hilum's errors.

        An unexpected error is shown with its traceback.
        """
        if isinstance(error, ExceptionGroup):
            # Nurseries wrap errors in exception groups. An exception group with any other error is
            # a bug and is shown in full.
            ours, rest = error.split(HilumError)
            if ours is not None and rest is None:
                return _first(ours)
        if self.stopping.signal:
            # The plugin failed while it was being cancelled, which is not an error for a user who
            # stopped the run.
            return None
        self.face.close()
        traceback.print_exception(error, file=sys.stderr)
        message = f"hilum failed: {type(error).__name__}: {error}"
        return HilumError(
            message,
            code=E_INTERNAL,
            hint="This is a bug in hilum: please report it with the traceback.",
        )

    async def _finish(self, error: HilumError | None) -> int:
        """Show the remaining output and return the exit code."""
        if error is not None:
            self.face.failed(error)
        elif self.end is not None:
            await self._show_end(self.end)
        if self.face.out.error is not None:
            error = output_error(self.face.out.error)
            self.face.failed(error)
        code = self._exit_code(error)
        await self._write_result(error, code)
        if not self.face.out.gone:
            return code
        # A closed terminal sends SIGHUP; a closed pipe sends SIGPIPE, which Python ignores.
        if self.face.out.terminal:
            return exits.HUNG_UP
        return exits.BROKEN_PIPE

    def _exit_code(self, error: HilumError | None) -> int:
        if self._code is not None:
            return self._code
        if error is not None:
            return error.exit_code
        # The run itself completed, so its state would not show that the user stopped the rest.
        if self._cut_short:
            return 128 + self.stopping.signal
        assert self.end is not None
        return exits.of_run(self.end, self.stopping.signal)

    async def _show_end(self, end: RunEnded) -> None:
        """Show the end of the run, at most once.

        A run that was stopped because its reader closed the pipe ends silently.
        """
        if self._end_shown:
            return
        self._end_shown = True
        if not self.face.out.gone or self.stopping.signal:
            await self.face.ended(end, self.session)

    async def _write_result(self, error: HilumError | None, code: int) -> None:
        """Write the result line at most once, if the face has one."""
        if not self._result_written:
            self._result_written = True
            self._code = code
            await self.face.out.write(self.face.result(self.record.result(self.end, error, code)))

    def _leave(self, code: int) -> None:
        """Write the result line for a run that ends without cleanup."""
        if not self._result_written:
            self._result_written = True
            end = self.end or RunEnded(
                state="stopped", code=E_STOPPED, error="The run was stopped without cleanup."
            )
            self.face.out.put(self.face.result(self.record.result(end, None, code)))

    # --- kernel and session -----------------------------------------------------------------------

    async def _work(self) -> None:
        """Run the task in a new or resumed session.

        The answer is shown before the session closes, which may take time.
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
            # A prompt that may be a command needs no model; any other prompt requires one.
            needs_model=options.piped or not options.prompt.startswith("/"),
            prepare=self.record.note_kernel,
            expects_prompt=True,
        )
        # The nursery is outside the session, so that its task can still show events while the
        # session closes.
        async with trio.open_nursery() as late, opened as session, share_session(session):
            # Exclude the objects loaded so far from garbage collection, because traversing them
            # would block every agent for 50 ms. Cyclic garbage of the turns is collected early: it
            # would take 12 MB in 300 turns, and a small collection takes less than a millisecond.
            gc.freeze()
            gc.set_threshold(5_000, 10, 10)
            end_start()
            await self._open(session, resumed=bool(options.resume))
            await self._run_all(session, recorder)
            if self.face.lingers:
                late.start_soon(self._show_late, session, self._shown)

    async def _watch_reader(self) -> None:
        """Stop when the reader closes standard output (``hilum run … | head``).

        Otherwise, the user would pay for output that nobody reads.
        """
        if sys.platform != "linux" or not _is_pipe(self.face.out.fd):
            return
        # The write end of a pipe never becomes readable; the system only reports that the reader
        # has closed it.
        await trio.lowlevel.wait_readable(self.face.out.fd)
        if not self._end_shown:
            self.face.out.gone = True
            self.stopping.stop()

    async def _open(self, session: Session, *, resumed: bool) -> None:
        """Record the session, and show that it is open."""
        self.session = "" if isinstance(session.kernel.store, MemoryStore) else session.id
        self.record.note_session(session, kept=bool(self.session))
        # Events from opening the session, such as plugins that failed to load, are also shown.
        self._shown = session.began_at
        if resumed:
            self.record.before = await _used_before(session, self._shown)
        await self.face.opened(session, resumed=resumed)

    async def _run_all(self, session: Session, recorder: Recorder | None) -> None:
        """Run the prompt, then the resulting plan if there is one, and show the next steps."""
        approver = Approver(session, self.face) if session.attended else None
        unwind = self.stopping.stop
        runs = await self._start(session)
        while True:
            # A signal now ends the runs cleanly instead of cancelling the work, so that calls are
            # recorded.
            self.stopping.stop = session.stop
            await self._run(session, runs, recorder, approver)
            self.stopping.stop = unwind
            if self.end is not None:
                self.end = without_effect(
                    plans.with_left(session, self.end), self.face.view, session.approve
                )
                await self._show_end(self.end)
            await self._end_rest(session)
            runs = await self._decide(session)
            if not runs:
                break
        await self._advise(session)
        await self._end_services(session)

    async def _end_rest(self, session: Session) -> None:
        """After a stop, end the runs that have begun since.

        Otherwise, a run that reports an agent's end would remain incomplete.
        """
        if not self.stopping.signal:
            return
        agents_of_session = session.plugin(Runs)
        if agents_of_session is not None:
            await agents_of_session.fall_silent()
        for run in list(session.runs.values()):
            run.stop()
            await run.wait()

    async def _advise(self, session: Session) -> None:
        """Show the user's possible next steps."""
        if self.end is not None:
            step = plans.next_step(session, self.end, bool(self.session))
            if step:
                await self.face.advise(step)
        again = agents.again(self.face.view.agents.ended())
        if self.session and again:
            await self.face.advise(again)
        totals = self.record.totals()
        if totals.runs > 1:
            await self.face.total(totals)
        unattended = self.face.view.unattended
        if unattended and self.face.view.effects:
            view = self.face.view
            advice = letting_run(
                session.approve, view.denied_rules, by_policy=view.denied_by_policy
            )
            calls = "1 call was" if unattended == 1 else f"{unattended} calls were"
            await self.face.advise(
                f"{calls} denied because nobody could approve them. To continue, {advice}"
            )

    async def _end_services(self, session: Session) -> None:
        """Report the background commands that end with the run, or wait for those that are kept."""
        try:
            await self._end_background_commands(session)
        except PLUGIN_EXCEPTIONS as error:
            # The answer must be shown even if the plugin cannot list its commands.
            await self.face.advise(
                f"The plugin that runs background commands failed: {describe_error(error)}."
            )

    async def _end_background_commands(self, session: Session) -> None:
        running, keep = _running_services(session)
        if not running or self.stopping.signal or self.end is None:
            return
        state: Literal["ended", "running"] = "running" if keep else "ended"
        for service in running:
            self.record.services.append(
                ServiceSummary(id=service.id, command=service.command, state=state)
            )
        titles = ", ".join(line(service.title, 120) for service in running)
        if not keep:
            await self.face.advise(
                f"Ended with the run: {titles}. To keep such commands running: --keep-services"
            )
            return
        await self.face.advise(f"Still running: {titles}. Press Ctrl-C to end them.")
        # The result is written before the wait, because a program that reads the output needs the
        # result, not the end of a background command.
        await self._write_result(None, self._exit_code(None))
        for service in running:
            await service.ended.wait()

    async def _decide(self, session: Session) -> list[Run]:
        """Ask the user to decide on a plan if there is a terminal, and return the resulting run."""
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
        """Show plugins' reports and errors since the end of the run and while the session closes."""
        async for item in session.events(shown):
            if isinstance(item, PluginEvent | ErrorRaised):
                await self.face.show(item)

    # --- runs -------------------------------------------------------------------------------------

    async def _start(self, session: Session) -> list[Run]:
        try:
            return await self._started(session)
        except UsageError:
            if not self.options.resume and session.agents["main"].conversation.state == "idle":
                session.discard()  # the session is still empty
            raise

    async def _started(self, session: Session) -> list[Run]:
        """Start the requested work.

        Nothing is started if only a plan is awaiting a decision or if only queued agents remain.
        """
        options = self.options
        if options.accept:
            texts = [options.prompt, options.attached]
            return [await plans.accept(session, "\n\n".join(filter(None, texts)))]
        if options.prompt:
            await self._note_cut_off(session)
            state = dict(options.state) if options.state else None
            run = await session.prompt(
                options.prompt,
                state=state,
                piped=options.piped,
                attached=options.attached,
                images=options.images,
            )
            return [run]
        if not session.kernel.router.resolve(session.model):
            await session.kernel.router.default()
        runs = session.resume()
        if runs:
            return runs
        scheduler = session.plugin(Runs)
        if scheduler is not None and scheduler.busy():
            scheduler.resume()
            return []
        proposal = plans.waits(session)
        if proposal:
            self.end = RunEnded(agent="main", state="completed", text=proposal.text)
            return []
        if session.agents["main"].conversation.retryable:
            return [await session.retry()]
        hint = f'Pass a prompt to continue: hilum run --resume {session.id} "…".'
        raise UsageError("No run in this session was interrupted.", hint=hint)

    async def _note_cut_off(self, session: Session) -> None:
        """Report the interrupted runs that a new prompt ends."""
        self.record.interrupted = cut_off_runs(session)
        for cut in self.record.interrupted:
            calls = f" It was cut off in {', '.join(cut.calls)}." if cut.calls else ""
            await self.face.advise(
                "The previous run was interrupted and is not resumed:"
                f" {line(cut.prompt, 80)!r}.{calls} Its finished work is kept."
            )

    async def _run(
        self,
        session: Session,
        runs: list[Run],
        recorder: Recorder | None,
        approver: Approver | None,
    ) -> None:
        """Show runs until they and all agents that they started have ended."""
        if self.stopping.signal:
            session.stop()
        lead = _leading(runs)
        if lead:
            self.face.lead(session, lead.agent)
        if not busy(session) and not any(run.reply is None for run in runs):
            self.end = runs[0].result if runs else self.end
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.face.tick)
            nursery.start_soon(report_delays, session.journal, _tell_of_delay)
            if approver:
                nursery.start_soon(approver.run)
            ends = await self._follow(session, runs, recorder, approver)
            nursery.cancel_scope.cancel()
        if lead:
            self.end = await lead.wait()  # wait() raises the error that broke the session
        else:
            self.end = RunEnded(state="completed")
        # The lead agent has finished, but the user stopped agents that were still running.
        self._cut_short = bool(self.stopping.signal) and self.end.state == "completed"
        self.end = _with_later(self.end, ends, {run.id for run in runs})

    async def _follow(
        self,
        session: Session,
        runs: Sequence[Run],
        recorder: Recorder | None,
        approver: Approver | None,
    ) -> list[RunEnded]:
        """Show events until everything has ended, and return the lead agent's run ends."""
        ends: list[RunEnded] = []
        # A recording needs the events from opening the session, which have already been shown.
        after = self._recorded if recorder else self._shown
        async for item in session.events(after, deltas=self.face.deltas):
            if isinstance(item, Delta):
                await self._show(session, item, approver)
                continue
            await self._record_and_show(session, item, recorder, approver)
            if isinstance(item, RunEnded) and item.agent == self.face.view.lead:
                ends.append(item)
                await self._show_aside(session, item)
            if all(run.result for run in runs) and self._all_over(session):
                await self._show_rest(session)
                break
        return ends

    async def _record_and_show(
        self,
        session: Session,
        event: AnyEvent,
        recorder: Recorder | None,
        approver: Approver | None,
    ) -> None:
        """Record an event, and show it if it has not been shown yet."""
        if recorder:
            recorder.feed(event)
            self._recorded = event.seq
        if event.seq > self._shown:
            self._shown = event.seq
            await self._show(session, event, approver)

    async def _show_aside(self, session: Session, end: RunEnded) -> None:
        """Show the answer of a run while agents that it started are still running."""
        if end.text and not self.stopping.signal and busy(session, beside=end.agent):
            await self.face.aside(end.text)

    async def _show_rest(self, session: Session) -> None:
        """Show the state change that was written together with the last event."""
        for event in session.journal.durable_since(self._shown):
            self._shown = event.seq
            await self.face.show(event)

    def _all_over(self, session: Session) -> bool:
        """Return whether no more events will follow."""
        # Only runs of this process count, because a run that was killed and is not resumed never
        # ends.
        at_work = bool(session.runs)
        return not at_work and (bool(self.stopping.signal) or not busy(session))

    async def _show(
        self, session: Session, item: AnyEvent | Delta, approver: Approver | None
    ) -> None:
        if approver and not isinstance(item, Delta):
            approver.note(item)
        await self.face.show(item)
        is_unread = self.face.out.gone or self.face.out.error is not None
        # The stop itself writes an event, which must not cause another stop.
        if is_unread and not isinstance(item, StopAsked):
            session.stop()


def _tell_of_delay(reason: StoreError | None) -> None:
    """Tell the user on standard error that the run waits for its store, or goes on."""
    if reason is None:
        say("hilum: The session is being stored again; the run goes on.", to=sys.stderr)
    else:
        say(f"hilum: {reason.message} The run waits. {reason.hint}", to=sys.stderr)


def _running_services(session: Session) -> tuple[Sequence[BackgroundCommand], bool]:
    """Return the running background commands, and whether they keep running when the run ends."""
    commands = session.plugin(BackgroundCommands)
    if commands is None:
        return (), False
    return list(commands.running()), commands.keep_running


def busy(session: Session, beside: str = "") -> bool:
    """Return whether any agent in a session is running, waiting or not yet reported as ended.

    The agent with the name ``beside`` is ignored.
    """
    scheduler = session.plugin(Runs)
    return scheduler is not None and scheduler.busy(beside)


async def _used_before(session: Session, last: int) -> Totals:
    """Return a resumed session's usage before this run."""
    totals = Totals()
    seen = 0
    while seen < last:
        for event in session.journal.since(seen):
            totals.apply(event)
            seen = event.seq
        # Signals must be handled while a session with thousands of events is being read.
        await trio.lowlevel.checkpoint()
    return totals


def _is_pipe(fd: int) -> bool:
    try:
        return stat.S_ISFIFO(fstat(fd).st_mode)
    except OSError:  # closed
        return False


def _leading(runs: Sequence[Run]) -> Run | None:
    """Return the run that determines the result: the main agent's last run, if it has one."""
    leads = [run for run in runs if run.agent == "main"] or runs
    return leads[-1] if leads else None


def _with_later(end: RunEnded, ends: Sequence[RunEnded], own: Collection[str]) -> RunEnded:
    """Return the end of a run, merged with the ends of its agent's later runs.

    Later runs begin when agents that the run's agent started have ended.

    Args:
        end: The end of the run.
        ends: All ends of the agent's runs that were shown, in order.
        own: Ids of the runs that this command waited for.
    """
    first = end.seq
    for later in ends:
        # An earlier end belongs to a run that was cut off.
        if later.run not in own and later.seq > first:
            end = _joined(end, later)
    return end


def _joined(first: RunEnded, later: RunEnded) -> RunEnded:
    """Return the end of an agent's later run, with the combined usage of both runs."""
    used = {"usage": first.usage + later.usage, "turns": first.turns + later.turns}
    return msgspec.structs.replace(later, seconds=first.seconds + later.seconds, **used)


def _first(group: BaseException) -> HilumError:
    error = find_first_error(group)
    assert isinstance(error, HilumError)
    return error


def make_recorder(path: str) -> Recorder:
    """Create a recorder that writes a cassette.

    Raises:
        UsageError: The file cannot be written or is not a cassette.
    """
    # Imported here, so that a run without a recording works even if the recording plugin does not
    # load.
    from hilum_replay import Recorder

    try:
        # Opened in append mode, so that an existing file is not truncated before it is checked.
        with open(path, "a+b") as file:
            file.seek(0)
            head = file.read(8)
    except OSError as error:
        hint = "Choose another file."
        raise UsageError(
            f"The cassette {path} cannot be written: {error.strerror}.", hint=hint
        ) from None
    if head and not head.startswith(b"format ="):
        raise UsageError(
            f"{path} exists and is not a cassette; it was not overwritten.",
            hint="Choose a new file.",
        )
    return Recorder(path=path)
