"""One run from a command line: opens kernel and session, shows events as they come, and stops when told to."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

import trio
from hilum import HilumError, UsageError, open_kernel
from hilum.errors import E_STOPPED, E_UNKNOWN
from hilum.events import Delta, PluginEvent, RunEnded, StopAsked
from hilum.store import MemoryStore

from hilum_cli import exits, plans
from hilum_cli.approvals import Approver, can_ask
from hilum_cli.faces import Face
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
        return exits.of_run(self.end, self.stopping.signal)

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
                session.set(mode=options.mode, approve=options.approve)
                self.session = "" if isinstance(kernel.store, MemoryStore) else session.id
                self.stopping.stop = session.stop
                await self._run(session, recorder)
                self.stopping.stop = stop
                if self.end is not None:
                    self.end = plans.with_left(session, self.end)
                    await self._end()
                    if text := plans.next_step(session, self.end, bool(self.session)):
                        await self.face.advise(text)
                if self.face.lingers:
                    late.start_soon(self._show_late, session, session.journal.last)
        except UsageError:
            if session and not resume and session.agents["main"].conversation.state == "idle":
                await kernel.store.delete(session.id)  # nothing was ever said in it
            raise

    async def _show_late(self, session: Session, shown: int) -> None:
        """Show what plugins tell while the session closes, until it is closed."""
        async for item in session.events(shown):
            if isinstance(item, PluginEvent):
                await self.face.show(item)

    async def _run(self, session: Session, recorder: Recorder | None) -> None:
        """Start the run, and show it to its end."""
        face = self.face
        await face.opened(session)
        shown = session.journal.last if self.options.resume else 0
        runs = await self._start(session)
        if self.stopping.signal:
            session.stop()
        if runs[0].reply is not None:
            self.end = runs[0].result
            return
        approver = Approver(session, face) if session.kind != "headless" else None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(face.tick)
            if approver:
                nursery.start_soon(approver.run)
            async for item in session.events(0 if recorder else shown, deltas=face.deltas):
                if recorder and not isinstance(item, Delta):
                    recorder.feed(item)
                if isinstance(item, Delta) or item.seq > shown:
                    await self._show(session, item, approver)
                if isinstance(item, RunEnded) and all(run.result for run in runs):
                    for rest in session.journal.since(item.seq):  # written with it: the change of state
                        await face.show(rest)
                    break
            nursery.cancel_scope.cancel()
        # Of several the main agent's last one counts. This raises what broke the session.
        self.end = await ([run for run in runs if run.agent == "main"] or runs)[-1].wait()

    async def _show(self, session: Session, item: AnyEvent | Delta, approver: Approver | None) -> None:
        if approver and not isinstance(item, Delta):
            approver.note(item)
        await self.face.show(item)
        if (self.face.out.gone or self.face.out.error) and not isinstance(item, StopAsked):  # itself what a stop writes
            session.stop()  # nobody reads what it finds

    async def _start(self, session: Session) -> list[Run]:
        if self.options.prompt:
            state = dict(self.options.state) if self.options.state else None
            return [await session.prompt(self.options.prompt, state=state)]
        if not session.kernel.router.resolve(session.model):
            await session.kernel.router.default()
        if runs := session.resume():
            return runs
        hint = f'Say what to do next: hilum run --resume {session.id} "…".'
        raise UsageError("Nothing was cut off in this session.", hint=hint)


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
