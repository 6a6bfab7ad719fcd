"""Runs slow checkers in the background after a pause in editing.

New diagnostics are reported at the end of a round.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import trio

from hilum_lint import report
from hilum_lint.diagnostics import Diagnostic, Key, count_by_key, find_new
from hilum_lint.edits import Edit
from hilum_lint.project import CheckerUse
from hilum_lint.running import CheckOutcome, checks_everything
from hilum_lint.settings import LintSettings
from hilum_lint.unsaved import check_files, find_unsaved

if TYPE_CHECKING:
    from hilum import Session

# Seconds without an edit before slow checkers start.
PAUSE_SECONDS = 1.0

# The outcomes of checkers, each with the checked files and folders; an empty list means everything
# named in the configuration.
Checked = list[tuple[CheckOutcome, list[Path]]]


@attrs.define
class _Known:
    """The latest diagnostics of a checker, and the files and folders that it checked."""

    places: set[Path] = attrs.Factory(set)
    counts: Counter[Key] = attrs.Factory(Counter)

    def covers(self, path: Path) -> bool:
        return any(path.is_relative_to(place) for place in self.places)


@attrs.define
class _News:
    """New diagnostics of slow checkers, and the agents that have not read them."""

    agents: set[str]
    new: list[Diagnostic]
    old: int
    began: float
    checked: Checked
    as_saved: list[str] = attrs.Factory(list)


@attrs.define(eq=False)
class BackgroundCheckers:
    """The slow checkers of a session.

    Args:
        session: The session.
        nursery: The nursery for the task.
        settings: The settings.
        plan: A function that returns the slow checkers for files.
        note_ended: A function that reports a checker that had to be stopped.
    """

    session: Session
    nursery: trio.Nursery
    settings: LintSettings
    plan: Callable[[list[Path]], Awaitable[dict[CheckerUse, list[Path]]]]
    note_ended: Callable[[CheckOutcome], None]
    _known: dict[tuple[str, Path], _Known] = attrs.Factory(dict)
    _lines: dict[Path, set[int]] = attrs.Factory(dict)  # files written since the last report
    _agents: set[str] = attrs.Factory(set)
    _news: _News | None = None
    _scope: trio.CancelScope = attrs.Factory(trio.CancelScope)

    def note_edits(self, agent: str, edits: Iterable[Edit]) -> None:
        """Discard diagnostics that edits have made obsolete, and restart the checkers."""
        if not self.settings.background:
            return
        for edit in edits:
            self._lines[edit.path] = self._lines.get(edit.path, set()) | edit.lines
        self._agents.add(agent)
        if self._news is not None:
            self._agents |= self._news.agents
        self._news = None
        # The running checkers have read files that have since changed.
        self._scope.cancel()
        self._scope = trio.CancelScope()
        self.nursery.start_soon(self._check, self._scope, name="slow checkers")

    def mark_reported(self, checked: Checked) -> None:
        """Mark as known the diagnostics that the model has read."""
        self._keep(checked)
        if self._news:
            found: set[Diagnostic] = set()
            for outcome, _ in checked:
                found.update(outcome.found)
            self._news.new = [each for each in self._news.new if each not in found]

    async def take_news(self, agent: str) -> str | None:
        """Return a note for an agent once, without diagnostics in files that have changed since."""
        news = self._news
        if news is None or agent not in news.agents:
            return None
        news.agents.discard(agent)
        paths = {each.path for each in news.new}
        unchanged = await trio.to_thread.run_sync(self._find_unchanged, paths, news.began)
        # Files may have been edited while the thread ran.
        if unchanged == paths and self._news is news:
            self._keep(news.checked)
            self._lines.clear()
        new = [each for each in news.new if each.path in unchanged]
        return report.format_news(new, news.old, news.as_saved) if new else None

    def _find_unchanged(self, paths: Iterable[str], since: float) -> set[str]:
        """Return the files that were not modified after a given time. Blocks."""
        found = set()
        for path in paths:
            with suppress(OSError):
                status = (self.session.workspace.root / path).stat()
                if status.st_mtime < since:
                    found.add(path)
        return found

    async def _check(self, scope: trio.CancelScope) -> None:
        with scope:
            # A model often edits several files in a row; each edit starts this wait again.
            await trio.sleep(PAUSE_SECONDS)
            # Use the wall clock, because the time is compared with the modification times of files.
            news = _News(set(self._agents), [], 0, time.time(), [])
            # Run the checkers one after another, so that the agent's commands keep most of the
            # processor time.
            plan = await self.plan(list(self._lines))
            for use, files in plan.items():
                places = [] if checks_everything(use, [use.folder]) else files
                unsaved = await find_unsaved(self.session, files)
                limit = self.settings.timeout
                outcome = await check_files(self.session, use, places, limit, unsaved)
                self.note_ended(outcome)
                if not outcome.problem:
                    new = self._find_new(outcome)
                    news.new += new
                    news.old += len(outcome.found) - len(new)
                    news.checked.append((outcome, places))
                    news.as_saved += report.list_read_as_saved(outcome)
            self._agents.clear()
            self._news = news

    def _find_new(self, outcome: CheckOutcome) -> list[Diagnostic]:
        """Return the diagnostics that a checker did not report in its previous run.

        In files that are checked for the first time, only diagnostics in edited lines count as new.
        """
        known = self._known.get((outcome.use.checker.name, outcome.use.folder), _Known())
        root = self.session.workspace.root
        seen: list[Diagnostic] = []
        in_edited_lines: list[Diagnostic] = []
        for each in outcome.found:
            path = root / each.path
            if known.covers(path):
                seen.append(each)
            elif each.line in self._lines.get(path, ()):
                in_edited_lines.append(each)
        return [*find_new(seen, known.counts), *in_edited_lines]

    def _keep(self, checked: Checked) -> None:
        """Store the diagnostics of slow checkers as known.

        The diagnostics of quick checkers are instead compared with those before the edit.
        """
        for outcome, places in checked:
            if not outcome.problem and not outcome.use.checker.quick:
                self._replace_known(outcome, places or [outcome.use.folder])

    def _replace_known(self, outcome: CheckOutcome, places: list[Path]) -> None:
        root = self.session.workspace.root
        key = (outcome.use.checker.name, outcome.use.folder)
        known = self._known.setdefault(key, _Known())
        # Keep the counts for files that the checker did not check this time.
        for old in list(known.counts):
            path = root / old[1]
            if any(path.is_relative_to(place) for place in places):
                del known.counts[old]
        known.counts += count_by_key(outcome.found)
        known.places |= set(places)
