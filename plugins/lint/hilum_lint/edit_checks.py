"""Runs quick checkers on edited files during the agent's next step.

No step waits for a checker. The agent reads the diagnostics at the end of its next round, with its
next prompt, or before its answer is accepted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from pathlib import Path

import attrs
import trio

from hilum_lint import report
from hilum_lint.diagnostics import Diagnostic
from hilum_lint.edits import Edit

# Maximum time, in seconds, for checking one round's edits, and for delaying an answer.
EDIT_CHECK_TIMEOUT = 3.5
# Delay in seconds before the checkers start, so that the next step has the processor to itself. Edits
# that follow within this time are checked together, and do not postpone the start.
START_DELAY = 0.05


@attrs.frozen
class Comparison:
    """The diagnostics of a file, compared with those before an edit.

    Args:
        new: The new diagnostics.
        old: The number of diagnostics that existed before.
        as_saved: Sentences about files that a checker could only read as they are saved, although
            the user's editor has other text.
    """

    new: list[Diagnostic]
    old: int
    as_saved: tuple[str, ...] = ()


@attrs.define(eq=False)
class _Check:
    """A check of an agent's edits, kept until the agent has read the result.

    Attributes:
        edits: The edits.
        due: When the check begins, on trio's clock, unless it is wanted earlier.
        has_begun: Whether it has begun.
        found: The results.
        failure: The exception that ended the check.
        wanted: Set to begin the check at once.
        done: Set at its end.
        scope: Cancelled if another edit makes the check obsolete.
    """

    edits: dict[Path, Edit]
    due: float
    has_begun: bool = False
    found: dict[Path, Comparison] = attrs.Factory(dict)
    failure: Exception | None = None
    wanted: trio.Event = attrs.Factory(trio.Event)
    done: trio.Event = attrs.Factory(trio.Event)
    scope: trio.CancelScope = attrs.Factory(trio.CancelScope)


@attrs.define(eq=False)
class EditChecks:
    """The checks of edits in a session.

    Args:
        nursery: The nursery for the tasks.
        compare: A function that runs quick checkers on an edited file.
    """

    nursery: trio.Nursery
    compare: Callable[[Edit], Awaitable[Comparison]]
    _checks: dict[str, _Check] = attrs.Factory(dict)

    def start(self, agent: str, edits: Mapping[Path, Edit], *, at_once: bool = False) -> None:
        """Start checking a round's edits, and earlier edits whose results were not yet read.

        Args:
            agent: Name of the agent.
            edits: The edits of the round.
            at_once: Whether to check without a delay, because no process is started for it.
        """
        merged = dict(edits)
        due = trio.current_time() + START_DELAY
        earlier = self._checks.pop(agent, None)
        if earlier is not None and not earlier.has_begun:
            due = earlier.due
        if earlier is not None:
            # The earlier check is obsolete, because its checkers read files that have changed.
            earlier.scope.cancel()
            for path, edit in earlier.edits.items():
                merged[path] = edit.followed_by(merged.get(path))
        check = self._checks[agent] = _Check(merged, due)
        if at_once:
            check.wanted.set()
        self.nursery.start_soon(self._run, check, name="quick checkers")

    async def _run(self, check: _Check) -> None:
        try:
            with check.scope:
                with trio.move_on_at(check.due):
                    await check.wanted.wait()
                check.has_begun = True
                with trio.move_on_after(EDIT_CHECK_TIMEOUT):
                    for path, edit in check.edits.items():
                        check.found[path] = await self.compare(edit)
        except Exception as error:
            # Raising the exception here would end the session. The next hook raises it instead, and
            # the kernel treats it like any other plugin failure.
            check.failure = error
        finally:
            check.done.set()

    def take_note(self, agent: str, edited: Collection[Path] = ()) -> str | None:
        """Return a note about new diagnostics for an agent once.

        Args:
            agent: Name of the agent.
            edited: Files that were edited again. Their results are obsolete, and ``start`` checks
                these files again.
        """
        check = self._checks.get(agent)
        if check is None or not check.done.is_set():
            return None
        if check.failure is not None:
            del self._checks[agent]
            raise check.failure
        new: list[Diagnostic] = []
        old = 0
        as_saved: dict[str, None] = {}
        for path in list(check.edits):
            comparison = check.found.get(path)
            # Keep files that were edited again, so that ``start`` merges their edits. If an edit
            # caused nothing, the next one is checked on its own.
            if path in edited and not _is_clean(comparison):
                continue
            del check.edits[path]
            check.found.pop(path, None)
            if comparison is not None:
                new += comparison.new
                old += comparison.old
                as_saved.update(dict.fromkeys(comparison.as_saved))
        if not check.edits:
            del self._checks[agent]
        return report.format_news(new, old, list(as_saved)) if new else None

    async def wait(self, agent: str, seconds: float) -> None:
        """Wait until the running check of an agent's edits has ended, at most for some seconds."""
        check = self._checks.get(agent)
        if check is not None:
            with trio.move_on_after(seconds):
                await check.done.wait()

    def covers(self, path: Path) -> bool:
        """Return whether an edited file is being checked, or its diagnostics were not yet read."""
        unread = [check for check in self._checks.values() if path in check.edits]
        return any(not _is_clean(check.found.get(path)) for check in unread)

    async def wait_for_all(self) -> None:
        """Wait until the running checks have ended."""
        for check in list(self._checks.values()):
            await check.done.wait()

    async def wait_for_note(self, agent: str) -> str | None:
        """Wait for the running check to end, then return what ``take_note`` returns.

        If the check failed, there is no note, because a failure must not prevent an agent from
        answering.
        """
        check = self._checks.get(agent)
        if check is None:
            return None
        check.wanted.set()
        await check.done.wait()
        return self.take_note(agent) if check.failure is None else None

    def mark_reported(self, agent: str, diagnostics: Iterable[Diagnostic]) -> None:
        """Remove diagnostics that an agent has already read from its next note."""
        check = self._checks.get(agent)
        if check is None:
            return
        read = set(diagnostics)
        for path, comparison in check.found.items():
            unread = [each for each in comparison.new if each not in read]
            check.found[path] = attrs.evolve(comparison, new=unread)


def _is_clean(comparison: Comparison | None) -> bool:
    """Return whether a file was checked, and there is nothing to report."""
    return comparison is not None and not comparison.new
