"""What follows a command that failed although it should have succeeded."""

from __future__ import annotations

from collections.abc import Sequence

from hilum_eval.case import Edit
from hilum_eval.simulation.plan import (
    Place,
    PlannedStep,
    list_edits,
)
from hilum_eval.simulation.purposes import TRIES, Purpose
from hilum_eval.simulation.recoveries import Recoveries
from hilum_eval.simulation.step_history import (
    Entry,
    Finished,
    NextCall,
    as_next,
)
from hilum_eval.simulation.toolbox import PlannedCall


class Repairs(Recoveries):
    """Repairs the model's own mistakes. See ``StepHistory`` for the arguments."""

    def _repair(self, planned: PlannedStep, entries: Sequence[Entry]) -> NextCall | Finished:
        """Return what follows a command that failed although it should have succeeded.

        The model looks for a mistake of its own, repairs it, and runs the command again.
        """
        repairs = self._list_repairs(planned.place)
        made = sum(entry.purpose == Purpose.REPAIR for entry in entries)
        runs = sum(entry.purpose in TRIES for entry in entries)
        if runs > 1 or not repairs:
            return self._rerun(planned, entries)
        if not self._draws.happens(self._profile.recovery.recheck, *planned.place, "recheck"):
            return Finished("given_up")
        if made < len(repairs):
            return as_next(Purpose.REPAIR, repairs[made])
        return self._make_right(planned)

    def _rerun(self, planned: PlannedStep, entries: Sequence[Entry]) -> NextCall | Finished:
        """Return the command once more, or nothing: the model cannot find the cause."""
        runs = sum(entry.purpose in TRIES for entry in entries)
        last = entries[-1]
        if last.purpose in TRIES and not last.outcome.failed:
            return Finished("done")
        repeat = self._profile.recovery.repeat * (1 - self._profile.recovery.recheck)
        if runs < 3 and self._draws.happens(repeat, *planned.place, "rerun", runs):
            return NextCall(Purpose.REPEATED, last.made.tool, last.made.arguments)
        return Finished("given_up")

    def _list_repairs(self, before: Place) -> list[PlannedCall]:
        """Return the calls that repair the model's mistakes in earlier steps."""
        calls: list[PlannedCall | None] = []
        for group in self.groups:
            for planned in group:
                leaf = planned.leaf
                if planned.place >= before or not isinstance(leaf, Edit):
                    continue
                problem = self._find_problem(planned, leaf)
                if problem == "missing":
                    calls += [self._tools.read(leaf.path), self._build(leaf)]
                elif problem == "damaged":
                    calls += self._restore(leaf, before)
        return [call for call in calls if call is not None]

    def _find_problem(self, planned: PlannedStep, leaf: Edit) -> str:
        """Return whether an edit is ``missing``, or ``damaged`` the file; empty if it is right."""
        entries = self._history.get(planned.place, [])
        accepted = [
            entry for entry in entries if entry.purpose in TRIES and not entry.outcome.failed
        ]
        if not accepted:
            return "missing" if planned.place not in self._history or entries else ""
        return "" if accepted[-1].purpose in (Purpose.RIGHT, Purpose.DEFY) else "damaged"

    def _restore(self, leaf: Edit, before: Place) -> list[PlannedCall | None]:
        """Return the calls that restore a file and repeat all edits of it."""
        restore = self._tools.run(f"git checkout -- {leaf.path}")
        calls = [restore, self._tools.read(leaf.path)]
        calls += [self._build(edit) for edit in list_edits(self._case, leaf.path, before)]
        return calls
