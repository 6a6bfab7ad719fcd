"""Carries out a task with a standard session, in which no user is present."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio
from hilum import HilumError, Kernel, Session, Usage, UsageError, open_standard_session, parse_pair
from hilum.errors import E_BUDGET, E_NOT_CONFIGURED, E_TIMEOUT
from hilum.events import FINAL, ModelStarted, RunEnded
from hilum.processes import CommandError
from hilum.store import MemoryStore
from hilum_agents.runs import Runs
from hilum_store import SqliteStore
from hilum_trace.bill.charges import ChargeFold, RequestCharge

from hilum_dask.records import TIMEOUT_HINT, Assignment, Record, Task, Verification

if TYPE_CHECKING:
    from hilum.events import AnyEvent

MAX_TEXT = 100_000
"""Maximum number of characters of an answer in the table of results."""
MAX_OUTPUT = 4_000
"""Maximum number of characters of a verify command's output in the table of results."""
STOP_SECONDS = 5.0
"""Seconds in which a run that was stopped has to end."""
VERIFY_SECONDS = 1800.0
"""Time limit of a verify command of a task without a time limit."""
CONTINUE = "Continue the task where you stopped."
_BUDGETS = "budgets"


class SessionRunner:
    """A session that works on one task.

    Args:
        assignment: The attempt at the task.
        folder: The workspace.
        store: The file that stores the session.
        record: The record of the attempt, which is filled in while the session works.
    """

    def __init__(self, assignment: Assignment, folder: Path, store: Path, record: Record) -> None:
        self._assignment = assignment
        self._folder = folder
        self._store = store
        self._record = record
        self._charges = ChargeFold(divided=False)
        self._usage = Usage()
        self._end: RunEnded | None = None

    async def work(self) -> None:
        """Open the session, send the prompt, wait for the end and verify the result.

        The record has the usage so far even if this method is cancelled.

        Raises:
            HilumError: The session cannot be opened, or its log cannot be written.
        """
        began = trio.current_time()
        settings = _read_settings(self._assignment)
        if self._assignment.dollars is not None:
            settings["budgets.session.dollars"] = self._assignment.dollars
        opened = _open_session(
            self._assignment,
            self._folder,
            resume=self._assignment.session,
            model=self._assignment.task.model,
            settings=settings,
            # Not the user's store, which may be a database that all sessions share.
            store=SqliteStore(self._store),
            prepare=self._check_budgets,
        )
        try:
            async with opened as session:
                self._record.session = session.id
                await self._run(session)
                if self._record.code != E_BUDGET and self._record.state != "timed_out":
                    await _verify(session, self._assignment.task, self._record)
        finally:
            self._record.session_seconds = round(trio.current_time() - began, 4)

    def _check_budgets(self, kernel: Kernel) -> None:
        """Refuse to start if the limit on the cost would not be kept.

        Raises:
            UsageError: The plugin that keeps budgets does not work.
        """
        if self._assignment.dollars is None:
            return
        plugin = kernel.host.plugins.get(_BUDGETS)
        if plugin is None or plugin.state != "ready":
            raise UsageError(
                "The limit on the cost cannot be kept: the plugin budgets is not loaded.",
                code=E_NOT_CONFIGURED,
                hint="Do not leave out the plugin budgets, or leave out the limit on the cost.",
            )

    async def _run(self, session: Session) -> None:
        """Send the prompt, and follow the session until all its agents are idle."""
        limit = self._assignment.task.timeout or float("inf")
        text = CONTINUE if self._assignment.session else self._assignment.task.prompt
        with trio.move_on_after(limit) as scope:
            run = await session.prompt(text, piped=True)
            await self._follow(session, run.after)
        if scope.cancelled_caught:
            session.stop()
            with trio.move_on_after(STOP_SECONDS):
                await run.wait()
            record_timeout(self._record, limit)
            return
        # This raises the error if the log can no longer be written.
        end = self._end or await run.wait()
        self._take_end(end)

    async def _follow(self, session: Session, after: int) -> None:
        scheduler = session.plugin(Runs)
        async for event in session.events(after):
            assert not isinstance(event, tuple)
            self._apply(event)  # type: ignore[arg-type]
            is_busy = scheduler is not None and scheduler.busy()
            if self._end is not None and not session.runs and not is_busy:
                return

    def _apply(self, event: AnyEvent) -> None:
        record = self._record
        charge = self._charges.apply(event)
        if isinstance(charge, RequestCharge):
            self._usage += charge.usage
            record.input = self._usage.input
            record.cached = self._usage.cached
            record.output = self._usage.output
            record.cost = self._usage.cost
        if isinstance(event, ModelStarted):
            record.model = event.model
        if isinstance(event, RunEnded) and event.agent == "main":
            self._end = event
            record.turns += event.turns

    def _take_end(self, end: RunEnded) -> None:
        record = self._record
        record.text = end.text[:MAX_TEXT]
        record.code = end.code
        record.error = end.error
        record.hint = end.hint
        if end.state in ("completed", "partial_success", "timed_out"):
            record.state = end.state  # type: ignore[assignment]
        else:
            record.state = "failed"
        assert end.state in FINAL or record.state == "failed"


async def verify_alone(assignment: Assignment, folder: Path, record: Record) -> None:
    """Run the verify command of a task that was carried out without a session.

    A session is opened only for its sandbox; it is not stored.

    Args:
        assignment: The attempt at the task.
        folder: The workspace.
        record: The record of the attempt, to which the outcome is added.

    Raises:
        HilumError: The session cannot be opened.
    """
    if not assignment.task.verify:
        return
    settings = _read_settings(assignment)
    opened = _open_session(
        assignment, folder, settings=settings, store=MemoryStore(), needs_model=False
    )
    async with opened as session:
        await _verify(session, assignment.task, record)


def record_timeout(record: Record, limit: float) -> None:
    """Record that a task took longer than a number of seconds."""
    record.state = "timed_out"
    record.code = E_TIMEOUT
    record.error = f"The task took longer than {limit:g} s."
    record.hint = TIMEOUT_HINT


def _read_settings(assignment: Assignment) -> dict[str, object]:
    """Return the settings of the batch and of the task, by dotted key."""
    settings: dict[str, object] = dict(map(parse_pair, assignment.options.settings))
    return settings | assignment.task.settings


def _open_session(
    assignment: Assignment, folder: Path, **options: Any
) -> AbstractAsyncContextManager[Session]:
    """Return a standard session in a workspace, with the options of the batch and further ones."""
    return open_standard_session(
        folder,
        kind="headless",
        attended=False,
        mode=assignment.options.mode,
        approve=assignment.options.approve,
        extra_plugins=[Path(path) for path in assignment.options.plugin],
        without=assignment.options.without,
        # Nobody trusts a repository that was just cloned.
        project_settings=False,
        **options,
    )


async def _verify(session: Session, task: Task, record: Record) -> None:
    """Run the verify command in the session's sandbox, because it runs what the agent wrote."""
    if not task.verify:
        return
    limit = task.timeout or VERIFY_SECONDS
    output = bytearray()

    def add(_: str, chunk: bytes) -> None:
        output.extend(chunk)
        del output[: -4 * MAX_OUTPUT]

    code = -9
    try:
        with trio.move_on_after(limit) as scope:
            done = await session.processes.run(["/bin/sh", "-c", task.verify], on_output=add)
            code = done.returncode
        if scope.cancelled_caught:
            reason = f"The verify command took longer than {limit:g} s and was ended."
            output += f"\n{reason}".encode()
            record.code = E_TIMEOUT
            record.error = reason
            record.hint = TIMEOUT_HINT
    except (CommandError, HilumError) as error:
        output += f"\nThe verify command could not run: {error.message}".encode()
    text = output.decode(errors="replace").strip()[-MAX_OUTPUT:]
    record.verification = Verification(code == 0, code, text)
    record.passed = code == 0
