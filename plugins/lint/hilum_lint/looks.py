"""What the half of a session does: looks at files when asked, after edits and for prompts.

Loaded at first use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import trio
from hilum import Agent, Block, Call, HilumError, Output, ToolResult

from hilum_lint import report
from hilum_lint.checkers import known
from hilum_lint.diagnostics import Diagnostic, Key, counted, listed, new_ones
from hilum_lint.edits import LARGEST, Edit, of_round
from hilum_lint.later import Later
from hilum_lint.project import Project, Use
from hilum_lint.running import Outcome, check
from hilum_lint.settings import LintSettings
from hilum_lint.trust import is_trusted

if TYPE_CHECKING:
    from hilum import Session

AT_ONCE = 2
"""Checkers that run at the same time."""
QUICK = 3.5
"""Seconds that an answer after an edit may take; the hook's deadline is five."""
GLANCE = 2.0
"""Seconds that the errors for a prompt may take."""
NAMED = 5
"""Files named in a prompt that are looked at."""
SPARE = 7.5
"""Seconds before its deadline in which a call has to have its answer."""


@attrs.define(eq=False)
class Looks:
    """The looks of a session, and what they have in common.

    Args:
        session: The session.
        nursery: Owns the tasks, and ends with the session.
        settings: The settings.
    """

    session: Session
    nursery: trio.Nursery
    settings: LintSettings
    _slots: trio.CapacityLimiter = attrs.Factory(lambda: trio.CapacityLimiter(AT_ONCE))
    _slow: set[str] = attrs.Factory(set)  # quick checkers that were late once
    later: Later = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.later = Later(
            self.session, self.nursery, self.settings, lambda files: self._plan(files, quick=False)
        )

    # --- the tool ---------------------------------------------------------------------------------

    async def read(self, call: Call, paths: list[str]) -> Output:
        """Run all checkers of files and folders, and say what they found.

        See ``Lint.read_lints``.
        """
        place = call.workspace
        targets = list(dict.fromkeys(place.resolve(path, must_exist=True) for path in paths))
        plan = await self._plan(targets)
        outcomes = await self._run_all(plan, self.settings.timeout, call.deadline - SPARE)
        self.later.told([(outcome, plan[outcome.use]) for outcome in outcomes])
        parts = {part for planned in plan.values() for part in planned}
        unchecked = [
            place.relative(each)
            for each in targets
            if not any(part.is_relative_to(each) for part in parts)
        ]
        return await trio.to_thread.run_sync(
            report.answer, outcomes, unchecked, self.settings.limit
        )

    async def _plan(
        self, targets: Iterable[Path], *, quick: bool | None = None
    ) -> dict[Use, list[Path]]:
        """Find the checkers for files, as the project, the settings and the folder's trust are
        now.
        """
        checkers = [
            attrs.evolve(each, quick=False) if each.name in self._slow else each
            for each in known(self.settings)
        ]

        def plan() -> dict[Use, list[Path]]:
            project = Project(self.session.workspace, checkers, is_trusted(self.session))
            return project.plan(targets, quick=quick)

        return await trio.to_thread.run_sync(plan, abandon_on_cancel=True)

    async def _run_all(
        self, plan: dict[Use, list[Path]], seconds: float, until: float = inf
    ) -> list[Outcome]:
        """Run all checkers of a plan, some at once, for so many seconds each.

        The outcomes are in the plan's order.
        """
        outcomes: dict[Use, Outcome] = {}

        async def one(use: Use, targets: list[Path]) -> None:
            async with self._slots:
                left = max(until - trio.current_time(), 0)
                outcomes[use] = await check(self.session, use, targets, min(seconds, left))

        async with trio.open_nursery() as nursery:
            for use, targets in plan.items():
                nursery.start_soon(one, use, targets)
        return [outcomes[use] for use in plan]

    # --- after an edit ----------------------------------------------------------------------------

    async def remind(self, agent: Agent, results: Sequence[ToolResult]) -> str | None:
        """Tell of what is new since the files that this round has written were written, or what
        slow checkers found.
        """
        edits = of_round(self.session, results)
        if not edits:
            return await self.later.news(agent.name)
        self.later.edited(agent.name, edits.values())
        new: list[Diagnostic] = []
        old = 0
        with trio.move_on_after(QUICK):
            for edit in edits.values():
                more, same = await self._compare(edit)
                new = new + more
                old = old + same
        if new:
            return report.news(new, old, "since these edits")
        return None

    async def _compare(self, edit: Edit) -> tuple[list[Diagnostic], int]:
        """Return what quick checkers find in a file and did not find before the round, and how much
        they did.
        """
        plan = await self._plan([edit.path], quick=True)
        outcomes = [
            each for each in await self._run_all(plan, QUICK / 2) if not each.problem or each.late
        ]
        self._slow |= {each.use.checker.name for each in outcomes if each.late}
        new = []
        old = 0
        for outcome in (each for each in outcomes if each.found):
            known_before = await self._before(edit, outcome)
            fresh = [
                each
                for each in new_ones(outcome.found, known_before or Counter())
                if known_before is not None or each.line in edit.lines
            ]
            new += fresh
            old += len(outcome.found) - len(fresh)
        return new, old

    async def _before(self, edit: Edit, outcome: Outcome) -> Counter[Key] | None:
        """Count what a checker finds in a file as it was before the round.

        ``None`` if that cannot be known.
        """
        if edit.created:
            return Counter()
        with_text = outcome.use.checker.text
        try:
            data = await self.session.workspace.read_bytes(edit.path, LARGEST)
            text = edit.before(data.decode()) if with_text else None
        except (HilumError, UnicodeDecodeError):
            return None
        if not text:
            return None if text is None else Counter()
        was = await check(self.session, outcome.use, [edit.path], QUICK / 2, text=text.encode())
        return None if was.problem else counted(was.found)

    # --- with a prompt ----------------------------------------------------------------------------

    async def context(self, agent: Agent, names: Sequence[str]) -> list[Block]:
        """Return what slow checkers found since the last run, and the errors of those names that
        are files.
        """
        blocks = []
        late = await self.later.news(agent.name)
        if late:
            blocks.append(Block("lint", late, priority=1))
        errors = await self.errors(names, GLANCE) if names else []
        if errors:
            blocks.append(Block("lint", listed(errors, report.SHOWN)))
        return blocks

    async def errors(self, paths: Sequence[str | Path], seconds: float) -> list[Diagnostic]:
        """Return the errors that quick checkers find in files. See ``Lint.errors``."""
        with trio.move_on_after(seconds):
            files = await trio.to_thread.run_sync(self._existing, paths, abandon_on_cancel=True)
            if files:
                outcomes = await self._run_all(await self._plan(files, quick=True), seconds)
            else:
                outcomes = []
            return [
                each for outcome in outcomes for each in outcome.found if each.severity == "error"
            ]
        return []

    def _existing(self, names: Iterable[str | Path]) -> list[Path]:
        found: dict[Path, Any] = {}
        for name in names:
            try:
                path = self.session.workspace.resolve(str(name).rstrip("."), must_exist=True)
            except HilumError:
                continue
            if path.is_file() and path.stat().st_size <= LARGEST:
                found[path] = None
        return list(found)[:NAMED]
