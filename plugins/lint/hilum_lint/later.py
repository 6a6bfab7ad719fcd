"""Slow checkers: run beside the work when nothing is edited for a while, and what is new is told at
the end of a round.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import trio

from hilum_lint import report
from hilum_lint.diagnostics import Diagnostic, Key, counted, new_ones
from hilum_lint.edits import Edit
from hilum_lint.project import Use
from hilum_lint.running import Outcome, check, is_whole
from hilum_lint.settings import LintSettings

if TYPE_CHECKING:
    from hilum import Session

PAUSE = 1.0
"""Seconds without an edit before slow checkers start."""

Checked = list[tuple[Outcome, list[Path]]]
"""What came of checkers, with the files and folders they looked at.

None stands for all that a configuration names.
"""


@attrs.define
class _Known:
    """What a checker found last: in some files and folders, or everywhere in its folder."""

    places: set[Path] = attrs.Factory(set)
    counts: Counter[Key] = attrs.Factory(Counter)

    def covers(self, path: Path) -> bool:
        return any(path.is_relative_to(place) for place in self.places)


@attrs.define
class _News:
    """What slow checkers found that is new, and whom to tell."""

    agents: set[str]
    new: list[Diagnostic]
    old: int
    began: float
    checked: Checked


@attrs.define(eq=False)
class Later:
    """The slow checkers of a session.

    Args:
        session: The session.
        nursery: Owns the task.
        settings: The settings.
        plan: Finds the slow checkers for files.
    """

    session: Session
    nursery: trio.Nursery
    settings: LintSettings
    plan: Callable[[list[Path]], Awaitable[dict[Use, list[Path]]]]
    _known: dict[tuple[str, Path], _Known] = attrs.Factory(dict)
    _lines: dict[Path, set[int]] = attrs.Factory(dict)  # written since the last news
    _agents: set[str] = attrs.Factory(set)
    _news: _News | None = None
    _scope: trio.CancelScope = attrs.Factory(trio.CancelScope)

    def edited(self, agent: str, edits: Iterable[Edit]) -> None:
        """Take note of edits: what was found is out of date, what runs ends, and begins again after
        a pause.
        """
        if not self.settings.background:
            return
        for edit in edits:
            self._lines[edit.path] = self._lines.get(edit.path, set()) | edit.lines
        self._agents |= {agent, *(self._news.agents if self._news else ())}
        self._news = None
        self._scope.cancel()
        self._scope = trio.CancelScope()
        self.nursery.start_soon(self._check, self._scope, name="slow checkers")

    def told(self, checked: Checked) -> None:
        """Take note of what the model has been told: it is new no more."""
        self._keep(checked)
        if self._news:
            found = {each for outcome, _ in checked for each in outcome.found}
            self._news.new = [each for each in self._news.new if each not in found]

    async def news(self, agent: str) -> str | None:
        """Return what there is to tell an agent, once; nothing of files that have changed since."""
        news = self._news
        if news is None or agent not in news.agents:
            return None
        news.agents.discard(agent)
        paths = {each.path for each in news.new}
        same = await trio.to_thread.run_sync(
            lambda: {path for path in paths if self._is_older(path, news.began)}
        )
        if same == paths and self._news is news:
            self._keep(news.checked)
            self._lines.clear()
        new = [each for each in news.new if each.path in same]
        if new:
            return report.news(new, news.old, "after your last edits")
        return None

    def _is_older(self, path: str, moment: float) -> bool:
        try:
            return (self.session.workspace.root / path).stat().st_mtime < moment
        except OSError:
            return False

    async def _check(self, scope: trio.CancelScope) -> None:
        with scope:
            await trio.sleep(PAUSE)
            news = _News(set(self._agents), [], 0, time.time(), [])
            for use, files in (
                await self.plan(list(self._lines))
            ).items():  # one by one: the work has the machine
                places = [] if is_whole(use, [use.folder]) else files
                outcome = await check(self.session, use, places, self.settings.timeout)
                if not outcome.problem:
                    new = self._new(outcome)
                    news.new += new
                    news.old += len(outcome.found) - len(new)
                    news.checked.append((outcome, places))
            self._agents.clear()
            self._news = news

    def _new(self, outcome: Outcome) -> list[Diagnostic]:
        """Return what was not there last time.

        Where a checker has not looked yet, that is what stands in edited lines.
        """
        known = self._known.get((outcome.use.checker.name, outcome.use.folder), _Known())
        root = self.session.workspace.root
        seen = [each for each in outcome.found if known.covers(root / each.path)]
        first = [each for each in outcome.found if not known.covers(root / each.path)]
        return [
            *new_ones(seen, known.counts),
            *(each for each in first if each.line in self._lines.get(root / each.path, ())),
        ]

    def _keep(self, checked: Checked) -> None:
        root = self.session.workspace.root
        for outcome, places in checked:
            if (
                not outcome.problem and not outcome.use.checker.quick
            ):  # those are compared with the file before
                known = self._known.setdefault(
                    (outcome.use.checker.name, outcome.use.folder), _Known()
                )
                looked_at = places or [outcome.use.folder]
                for key in [
                    key
                    for key in known.counts
                    if any((root / key[1]).is_relative_to(p) for p in looked_at)
                ]:
                    del known.counts[key]
                known.counts += counted(outcome.found)
                known.places |= set(looked_at)
