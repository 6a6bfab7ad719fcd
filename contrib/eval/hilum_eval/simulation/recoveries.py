"""What follows a failed or refused call."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from hilum_eval.case import Edit, Read, Write
from hilum_eval.simulation import shell_commands
from hilum_eval.simulation.first_tries import FirstTries
from hilum_eval.simulation.outcomes import (
    Outcome,
    shows_text,
)
from hilum_eval.simulation.plan import (
    PlannedStep,
)
from hilum_eval.simulation.purposes import TRIES, Purpose
from hilum_eval.simulation.recovery import compute_probability, find_helps
from hilum_eval.simulation.step_history import (
    EDIT_KINDS,
    Entry,
    Finished,
    NextCall,
    as_next,
    get_path,
    get_role,
    is_same,
)
from hilum_eval.simulation.toolbox import PlannedCall

MAX_FAILURES = 8
"""Failures of one step after which every model gives it up."""
_GO_AHEAD = re.compile(r"second thought|go ahead|changed my mind|you may|do it after all", re.I)


class Recoveries(FirstTries):
    """Decides what follows a failure. See ``StepHistory`` for the arguments."""

    def _after_refusal(self, planned: PlannedStep, entries: Sequence[Entry]) -> NextCall | Finished:
        """Return what follows a call that the user or a rule refused."""
        leaf = planned.leaf
        first = entries[0]
        # A wrong path that leads out of the workspace is a mistake, not an answer.
        if (
            first.purpose == Purpose.WRONG
            and planned.slip == "wrong_path"
            and len(entries) < MAX_FAILURES
        ):
            return self._make_right(planned)
        # The user may have changed their mind in a message after the refusal.
        if _GO_AHEAD.search(entries[-1].made.noted) and len(entries) < MAX_FAILURES:
            return self._make_right(planned)
        tried = any(entry.purpose == Purpose.DEFY for entry in entries)
        rate = self._profile.slips.rule
        if tried or not self._draws.happens(rate, *planned.place, "defy"):
            return Finished("refused")
        call: PlannedCall | None = None
        if isinstance(leaf, Edit):
            call = self._tools.run(shell_commands.edit(leaf.path, leaf.old, leaf.new))
        elif isinstance(leaf, Write):
            call = self._tools.run(shell_commands.write(leaf.path, leaf.content))
        return Finished("refused") if call is None else as_next(Purpose.DEFY, call)

    def _recover(
        self,
        planned: PlannedStep,
        entries: Sequence[Entry],
        outcome: Outcome,
        failures: int,
        noted: str,
    ) -> NextCall | Finished:
        if failures >= MAX_FAILURES:
            return Finished("given_up")
        leaf = planned.leaf
        tool = entries[-1].made.tool if entries else self._tools.tool_of(get_role(leaf))
        helps = find_helps(
            outcome,
            self._seen.system,
            noted,
            old=leaf.old if isinstance(leaf, Edit) else "",
            path=leaf.path if isinstance(leaf, Read | Edit | Write) else "",
            required=self._tools.required(tool),
        )
        chance = compute_probability(self._profile.recovery, failures, helps)
        place = (*planned.place, "recover", failures)
        if self._draws.happens(chance, *place):
            return self._act_right(planned, entries, outcome)
        return self._act_wrong(planned, entries, outcome, failures)

    def _act_right(
        self, planned: PlannedStep, entries: Sequence[Entry], outcome: Outcome
    ) -> NextCall | Finished:
        """Return the call that removes the cause of a failure."""
        leaf = planned.leaf
        looks = sum(entry.purpose in (Purpose.READ, Purpose.FIND) for entry in entries)
        rights = sum(entry.purpose == Purpose.RIGHT for entry in entries)
        if rights >= 3:
            return Finished("given_up")
        if outcome.kind == "no_file" and not isinstance(leaf, Write):
            missing = self._find_file(planned, outcome, looks)
            if missing is not None:
                return missing
        if isinstance(leaf, Edit | Write) and self._needs_look(leaf, outcome, looks):
            look = self._tools.read(leaf.path)
            if look is not None:
                return as_next(Purpose.READ, look)
        call = self._make_right(planned)
        is_repeated = bool(entries) and isinstance(call, NextCall) and is_same(call, entries[-1])
        # Only what may pass by itself is worth another try.
        if is_repeated and outcome.kind not in ("timeout", "other"):
            return Finished("given_up")
        return call

    def _find_file(self, planned: PlannedStep, outcome: Outcome, looks: int) -> NextCall | None:
        """Return a search for a file that a wrong path missed; ``None`` if its path is visible."""
        path = get_path(planned.leaf)
        if not path or path in outcome.text or looks:
            return None
        found = self._tools.find(PurePosixPath(path).name)
        return None if found is None else as_next(Purpose.FIND, found)

    def _needs_look(self, leaf: Edit | Write, outcome: Outcome, looks: int) -> bool:
        """Return whether the model has to read the file before it tries again."""
        if outcome.kind == "stale":
            return True
        if outcome.kind not in (*EDIT_KINDS, "other", "command"):
            return False
        if isinstance(leaf, Write) or looks >= 3:
            return False
        if outcome.kind in ("multiple", "unchanged") and self._seen.shows(leaf.old):
            return False
        return not shows_text(outcome.text, leaf.old)

    def _act_wrong(
        self,
        planned: PlannedStep,
        entries: Sequence[Entry],
        outcome: Outcome,
        failures: int,
    ) -> NextCall | Finished:
        """Return a call that does not remove the cause of a failure."""
        recovery = self._profile.recovery
        place = (*planned.place, "wrong", failures)
        rest = max(0.0, 1 - recovery.repeat - recovery.vary)
        shares = {"repeat": recovery.repeat, "vary": recovery.vary, "give_up": rest}
        reaction = self._draws.choose(shares, *place)
        if reaction == "give_up":
            return Finished("given_up")
        tries = [entry for entry in entries if entry.purpose in TRIES]
        if reaction == "repeat" and tries:
            made = tries[-1].made
            return NextCall(Purpose.REPEATED, made.tool, made.arguments)
        slip = planned.slip or "bad_arguments"
        if outcome.kind == "bad_arguments":
            slip = "bad_arguments"
        elif isinstance(planned.leaf, Edit) and outcome.kind in EDIT_KINDS:
            slip = "wrong_old_string"
        elif outcome.kind == "no_file":
            slip = "wrong_path"
        return self._make_wrong(planned, slip, failures)
