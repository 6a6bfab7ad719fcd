"""Runs a session's checkers for the tool, after edits and for prompts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from itertools import chain
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import trio
from hilum import Agent, Block, Call, EditorFiles, HilumError, Output, ToolResult

from hilum_lint import report
from hilum_lint.background import BackgroundCheckers
from hilum_lint.checkers import Checker, list_checkers
from hilum_lint.diagnostics import Diagnostic, Key, count_by_key, find_new, format_diagnostics
from hilum_lint.edit_checks import EDIT_CHECK_TIMEOUT, Comparison, EditChecks
from hilum_lint.edits import MAX_FILE_BYTES, Edit, find_edits
from hilum_lint.project import CheckerUse, LintProject
from hilum_lint.running import CheckOutcome, run_checker
from hilum_lint.settings import LintSettings
from hilum_lint.trust import may_run_code
from hilum_lint.unsaved import check_files, find_unsaved
from hilum_lint.warm import WarmRunner

if TYPE_CHECKING:
    from hilum import Session

# Maximum number of concurrent checkers. The agent's commands run at the same time and need
# processor time.
MAX_PARALLEL = 2
# Time limit, in seconds, for a checker on an edited file; the same limit applies to the file's
# earlier content.
QUICK_TIMEOUT = EDIT_CHECK_TIMEOUT / 2
# Time limit, in seconds, for the checks of a prompt.
PROMPT_TIMEOUT = 2.0
# Maximum number of files named in a prompt to check.
MAX_NAMED = 5
# Maximum number of seconds to wait for the server of a slow checker to start, after the first edits.
START_TIMEOUT = 1.5
# Number of seconds before the call's deadline at which all checkers are stopped.
DEADLINE_MARGIN = 7.5


@attrs.define(eq=False)
class LintRunner:
    """A runner of one session's checkers.

    Args:
        session: The session.
        nursery: The nursery for the background tasks, which end with the session.
        settings: The settings.
    """

    session: Session
    nursery: trio.Nursery
    settings: LintSettings
    _slots: trio.CapacityLimiter = attrs.Factory(lambda: trio.CapacityLimiter(MAX_PARALLEL))
    _slow: set[str] = attrs.Factory(set)  # quick checkers that have once taken too long
    # Checkers that had to be stopped, with their folders. Only the tool still runs these checkers.
    _ended: set[tuple[str, Path]] = attrs.Factory(set)
    edit_checks: EditChecks = attrs.field(init=False)
    # The checks of slow checkers whose servers were not running at the time of the edit.
    first_checks: EditChecks = attrs.field(init=False)
    background: BackgroundCheckers = attrs.field(init=False)
    _warm: WarmRunner = attrs.field(init=False)
    # Suffixes of files that running checkers have checked without any other checker.
    _warm_suffixes: set[str] = attrs.Factory(set)
    # Suffixes of files whose slow checkers' servers had time to start.
    _started_suffixes: set[str] = attrs.Factory(set)
    # Slow checkers and files that they have checked as they were last written.
    _checked: set[tuple[CheckerUse, Path]] = attrs.Factory(set)

    def __attrs_post_init__(self) -> None:
        self._warm = WarmRunner(self.session, self.nursery)
        self.edit_checks = EditChecks(self.nursery, self._compare)
        self.first_checks = EditChecks(self.nursery, self._compare_first)
        self.background = BackgroundCheckers(
            self.session,
            self.nursery,
            self.settings,
            self._plan_background,
            self._note_ended,
        )

    # --- the tool ---------------------------------------------------------------------------------

    async def read(self, call: Call, paths: list[str]) -> Output:
        """Run all checkers for files and folders. See ``Lint.read_lints``."""
        place = call.workspace
        targets = list(dict.fromkeys(place.resolve(path, must_exist=True) for path in paths))
        plan = await self._plan(targets)
        until = call.deadline - DEADLINE_MARGIN
        outcomes = await self._run_all(plan, self.settings.timeout, until)
        self.background.mark_reported([(outcome, plan[outcome.use]) for outcome in outcomes])
        self._note_outcomes(outcomes)
        found = list(chain.from_iterable(outcome.found for outcome in outcomes))
        self.edit_checks.mark_reported(call.agent.name, found)
        self.first_checks.mark_reported(call.agent.name, found)
        checked = set(chain.from_iterable(plan.values()))
        unchecked = []
        for target in targets:
            if not any(part.is_relative_to(target) for part in checked):
                unchecked.append(place.relative(target))
        has_folders = False
        if self.session.plugin(EditorFiles) is not None:
            has_folders = await trio.to_thread.run_sync(_has_folder, targets)
        return await trio.to_thread.run_sync(
            report.make_output, outcomes, unchecked, self.settings.limit, has_folders
        )

    def _note_outcomes(self, outcomes: Iterable[CheckOutcome]) -> None:
        """Record checkers that had to be stopped, and forget those that succeeded."""
        for outcome in outcomes:
            key = (outcome.use.checker.name, outcome.use.folder)
            if outcome.excessive:
                self._ended.add(key)
            elif not outcome.problem:
                self._ended.discard(key)

    async def _plan(
        self, targets: Iterable[Path], *, quick: bool | None = None
    ) -> dict[CheckerUse, list[Path]]:
        """Return the checkers for files, reading the project, settings and trust again.

        Args:
            targets: Files and folders.
            quick: ``True`` for the quick checkers that run automatically, ``False`` for the slow
                checkers, ``None`` for all.
        """
        plan = partial(self._make_plan, self._list_checkers(), targets, quick)
        planned = await trio.to_thread.run_sync(plan, abandon_on_cancel=True)
        if quick is None:
            return planned
        return {
            use: files
            for use, files in planned.items()
            if (use.checker.name, use.folder) not in self._ended
        }

    def _list_checkers(self) -> list[Checker]:
        return [self._with_speed(checker) for checker in list_checkers(self.settings)]

    def _make_plan(
        self, checkers: Sequence[Checker], targets: Iterable[Path], quick: bool | None = None
    ) -> dict[CheckerUse, list[Path]]:
        """Return the checkers for files; see ``_plan``. Blocks."""
        project = LintProject(self.session.workspace, checkers, may_run_code(self.session))
        return project.plan(targets, quick=quick)

    async def _plan_background(self, files: list[Path]) -> dict[CheckerUse, list[Path]]:
        """Return the slow checkers for files, without the files that they have checked."""
        for checks in (self.edit_checks, self.first_checks):
            await checks.wait_for_all()
        plan = {}
        for use, part in (await self._plan(files, quick=False)).items():
            left = [path for path in part if (use, path) not in self._checked]
            if left:
                plan[use] = left
        return plan

    def _note_ended(self, outcome: CheckOutcome) -> None:
        """Report once that a checker had to be stopped, and stop running it after edits."""
        key = (outcome.use.checker.name, outcome.use.folder)
        if not outcome.excessive or key in self._ended:
            return
        self._ended.add(key)
        config = f" ({outcome.use.config})" if outcome.use.config else ""
        say = (
            f"{outcome.use.checker.name}{config} failed: {outcome.problem}. It no longer runs after"
            " edits, only for read_lints."
        )
        self.session.note("lint.ended", say=say, checker=outcome.use.checker.name)

    def _with_speed(self, checker: Checker) -> Checker:
        """Return a checker, marked as slow if it has ever taken too long."""
        return attrs.evolve(checker, quick=False) if checker.name in self._slow else checker

    async def _run_all(
        self, plan: dict[CheckerUse, list[Path]], seconds: float, until: float = inf
    ) -> list[CheckOutcome]:
        """Run the checkers in a plan, some in parallel, and return the outcomes in plan order.

        They check the text that the user's editor has, where that is not saved.

        Args:
            plan: The checkers and their files.
            seconds: Time limit for each checker, in seconds.
            until: Time, on trio's clock, at which all checkers are stopped.
        """
        outcomes: dict[CheckerUse, CheckOutcome] = {}
        everything = dict.fromkeys(chain.from_iterable(plan.values()))
        unsaved = await find_unsaved(self.session, everything)

        async def one(use: CheckerUse, targets: list[Path]) -> None:
            async with self._slots:
                # The remaining time is computed only now, because the wait for a slot uses some of
                # it.
                left = max(until - trio.current_time(), 0)
                limit = min(seconds, left)
                outcomes[use] = await check_files(self.session, use, targets, limit, unsaved)

        async with trio.open_nursery() as nursery:
            for use, targets in plan.items():
                nursery.start_soon(one, use, targets)
        return [outcomes[use] for use in plan]

    # --- after an edit ----------------------------------------------------------------------------

    async def remind(self, agent: Agent, results: Sequence[ToolResult]) -> str | None:
        """Start checking the round's edits, and return a note about edits of earlier rounds."""
        edits = find_edits(self.session, results)
        # This must precede `start`, which discards the results of the previous check.
        note = self._take_note(agent.name, edits)
        if not edits:
            late = await self.background.take_news(agent.name)
            return _join(note, late)
        self._checked = {each for each in self._checked if each[1] not in edits}
        is_warm = all(path.suffix in self._warm_suffixes for path in edits)
        first = {path: edit for path, edit in edits.items() if self._is_first(path)}
        if first:
            self.first_checks.start(agent.name, first)
        self.edit_checks.start(agent.name, edits, at_once=is_warm)
        self.background.note_edits(agent.name, edits.values())
        if is_warm and self.settings.wait:
            await self.edit_checks.wait(agent.name, self.settings.wait)
            note = _join(note, self.edit_checks.take_note(agent.name))
        return note

    def _is_first(self, path: Path) -> bool:
        """Return whether servers may still be starting that have not checked a file's edits."""
        if not self.settings.background:
            return False
        return path.suffix not in self._started_suffixes or self.first_checks.covers(path)

    def _take_note(self, agent: str, edited: Collection[Path] = ()) -> str | None:
        """Return a note about new diagnostics of edits once. See ``EditChecks.take_note``."""
        note = self.edit_checks.take_note(agent, edited)
        return _join(note, self.first_checks.take_note(agent, edited))

    async def wait_for_note(self, agent: str) -> str | None:
        """Wait for the running checks of edits, and return a note about them."""
        note = await self.edit_checks.wait_for_note(agent)
        return _join(note, await self.first_checks.wait_for_note(agent))

    async def _compare(self, edit: Edit) -> Comparison:
        """Run quick checkers on an edited file, and compare the results with earlier results.

        Checkers that are already running count as quick.
        """
        every, text = await self._plan_and_read(edit.path)
        uses = [use for use in every if self._runs_after_edits(use)]
        if self.first_checks.covers(edit.path):
            uses = [use for use in uses if use.checker.quick]
        compared: list[Comparison] = []
        plan: dict[CheckerUse, list[Path]] = {}
        if uses and all(map(self._warm.is_warm, uses)):
            # Known at once, because the next edit may end this comparison.
            self._warm_suffixes.add(edit.path.suffix)
        for use in uses:
            warm = await self._compare_warm(use, edit, text) if text is not None else None
            if warm is not None:
                compared.append(warm)
            elif use.checker.quick:
                plan[use] = every[use]
        if compared and not plan:
            self._warm_suffixes.add(edit.path.suffix)
        else:
            self._warm_suffixes.discard(edit.path.suffix)
        for use in uses:
            # The next edit finds them running.
            await self._warm.warm_up(use)
        compared.append(await self._compare_cold(edit, plan))
        return _merge(compared)

    async def _compare_first(self, edit: Edit) -> Comparison:
        """Compare an edited file by slow checkers' servers, as soon as these have started.

        If a server is not ready in time, its checker runs. Slow checkers without a server run in
        the background.
        """
        every = await self._plan([edit.path], quick=False)
        text = await self._read_text(edit.path)
        compared: list[Comparison] = []
        for use in every:
            if text is None or not self._runs_after_edits(use):
                continue
            is_ready = await self._warm.wait_warm(use, START_TIMEOUT)
            if is_ready is None:
                continue
            warm = await self._compare_warm(use, edit, text)
            if warm is not None:
                compared.append(warm)
            elif not is_ready:
                compared.append(await self._compare_cold(edit, {use: every[use]}))
        # A server that starts later checks later edits; until then, its checker runs.
        self._started_suffixes.add(edit.path.suffix)
        return _merge(compared)

    def _runs_after_edits(self, use: CheckerUse) -> bool:
        """Return whether a checker may run after edits, quick or in the background."""
        if (use.checker.name, use.folder) in self._ended:
            return False
        return use.checker.quick or self.settings.background

    async def _plan_and_read(self, path: Path) -> tuple[dict[CheckerUse, list[Path]], str | None]:
        """Return the checkers for a file and its text, as ``_plan`` and ``_read_text`` do."""
        if self.session.plugin(EditorFiles) is not None:
            return await self._plan([path]), await self._read_text(path)
        # The agent waits for this after each edit, so it takes one thread instead of two.
        checkers = self._list_checkers()

        def look() -> tuple[dict[CheckerUse, list[Path]], str | None]:
            return self._make_plan(checkers, [path]), self._read_saved_text(path)

        return await trio.to_thread.run_sync(look, abandon_on_cancel=True)

    def _read_saved_text(self, path: Path) -> str | None:
        """Return the text of a file; ``None`` if it has none, or too much. Blocks."""
        try:
            with self.session.workspace.at(path) as place, place.open() as file:
                data = file.read(MAX_FILE_BYTES + 1)
            return data.decode() if len(data) <= MAX_FILE_BYTES else None
        except (HilumError, UnicodeDecodeError):
            return None

    async def _read_text(self, path: Path) -> str | None:
        """Return the text of a file, as the editor or the disk has it; ``None`` if it has none."""
        try:
            unsaved = await find_unsaved(self.session, [path])
            data = unsaved.get(path)
            if data is None:
                data = await self.session.workspace.read_bytes(path, MAX_FILE_BYTES)
            return data.decode()
        except (HilumError, UnicodeDecodeError):
            return None

    async def _compare_warm(self, use: CheckerUse, edit: Edit, text: str) -> Comparison | None:
        """Compare a file with its earlier content by a checker that is already running.

        The result is ``None`` if the checker does not run or does not answer.
        """
        if not self._warm.is_warm(use):
            return None
        found = await self._warm.check(use, edit.path, text, QUICK_TIMEOUT)
        if found is None:
            return None
        if not use.checker.quick:
            self._checked.add((use, edit.path))
        # Most edits leave nothing to compare.
        if not found:
            return Comparison([], 0)
        before = edit.before(text)
        if before is None:
            new = [each for each in found if each.line in edit.lines]
            return Comparison(new, len(found) - len(new))
        old: Sequence[Diagnostic] | None = ()
        if before:
            old = await self._warm.check(use, edit.path, before, QUICK_TIMEOUT)
            # Other questions to the checker must be about the present text.
            await self._warm.check(use, edit.path, text, QUICK_TIMEOUT)
        if old is None:
            return None
        new = find_new(found, count_by_key(old))
        return Comparison(new, len(found) - len(new))

    async def _compare_cold(self, edit: Edit, plan: dict[CheckerUse, list[Path]]) -> Comparison:
        """Run checkers on an edited file, each as a process of its own."""
        if not plan:
            return Comparison([], 0)
        outcomes = await self._run_all(plan, QUICK_TIMEOUT)
        # A checker that exceeded the time limit once would probably exceed it again, so it runs in
        # the background from now on.
        self._slow |= {each.use.checker.name for each in outcomes if each.late}
        for outcome in outcomes:
            if not outcome.late:
                self._note_ended(outcome)
            if not outcome.problem and not outcome.use.checker.quick:
                # It need not run again in the background.
                self._checked.add((outcome.use, edit.path))
        new: list[Diagnostic] = []
        old = 0
        as_saved: dict[str, None] = {}
        for outcome in outcomes:
            if outcome.found:
                fresh = await self._find_new(edit, outcome)
                new += fresh
                old += len(outcome.found) - len(fresh)
                as_saved.update(dict.fromkeys(report.list_read_as_saved(outcome)))
        return Comparison(new, old, tuple(as_saved))

    async def _find_new(self, edit: Edit, outcome: CheckOutcome) -> list[Diagnostic]:
        """Return the diagnostics that an edit caused.

        If the earlier content is unknown, these are the diagnostics in the edited lines.
        """
        before = await self._count_before(edit, outcome)
        if before is not None:
            return find_new(outcome.found, before)
        return [each for each in outcome.found if each.line in edit.lines]

    async def _count_before(self, edit: Edit, outcome: CheckOutcome) -> Counter[Key] | None:
        """Count a checker's diagnostics in a file as it was before the round.

        The result is ``None`` if the earlier content is unknown.
        """
        if edit.created:
            return Counter()
        with_text = outcome.use.checker.text
        try:
            unsaved = await find_unsaved(self.session, [edit.path])
            data = unsaved.get(edit.path)
            if data is None:
                data = await self.session.workspace.read_bytes(edit.path, MAX_FILE_BYTES)
            text = edit.before(data.decode()) if with_text else None
        except (HilumError, UnicodeDecodeError):
            return None
        if text is None:
            return None
        if not text:
            return Counter()
        was = await run_checker(
            self.session, outcome.use, [edit.path], QUICK_TIMEOUT, text=text.encode()
        )
        return None if was.problem else count_by_key(was.found)

    # --- with a prompt ----------------------------------------------------------------------------

    async def context(self, agent: Agent, names: Sequence[str]) -> list[Block]:
        """Return new diagnostics since the last run, and errors in files that the prompt names."""
        blocks = []
        note = self._take_note(agent.name)
        late = await self.background.take_news(agent.name)
        news = _join(note, late)
        if news:
            blocks.append(Block("lint", news, priority=1))
        errors = await self.errors(names, PROMPT_TIMEOUT) if names else []
        if errors:
            blocks.append(Block("lint", format_diagnostics(errors, report.MAX_SHOWN)))
        return blocks

    async def errors(self, paths: Sequence[str | Path], seconds: float) -> list[Diagnostic]:
        """Return the errors that quick checkers find in files. See ``Lint.errors``."""
        with trio.move_on_after(seconds):
            find = partial(self._find_existing, paths)
            files = await trio.to_thread.run_sync(find, abandon_on_cancel=True)
            if not files:
                return []
            plan = await self._plan(files, quick=True)
            outcomes = await self._run_all(plan, seconds)
            found = chain.from_iterable(outcome.found for outcome in outcomes)
            return [each for each in found if each.severity == "error"]
        return []

    def _find_existing(self, names: Iterable[str | Path]) -> list[Path]:
        found: dict[Path, None] = {}
        for name in names:
            try:
                path = self.session.workspace.resolve(str(name).rstrip("."), must_exist=True)
            except HilumError:
                continue
            if path.is_file() and path.stat().st_size <= MAX_FILE_BYTES:
                found[path] = None
        return list(found)[:MAX_NAMED]


def _has_folder(targets: Sequence[Path]) -> bool:
    return any(path.is_dir() for path in targets)


def _merge(compared: Sequence[Comparison]) -> Comparison:
    """Return the results of several checkers as one."""
    return Comparison(
        list(chain.from_iterable(each.new for each in compared)),
        sum(each.old for each in compared),
        tuple(dict.fromkeys(chain.from_iterable(each.as_saved for each in compared))),
    )


def _join(*notes: str | None) -> str | None:
    return "\n".join(note for note in notes if note) or None
