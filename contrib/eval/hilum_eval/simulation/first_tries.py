"""The first try of a step, with its slip, and the calls that all tries consist of."""

from __future__ import annotations

import attrs

from hilum_eval.case import Edit, Read, Search, Write
from hilum_eval.simulation.facts import replace_lost_facts
from hilum_eval.simulation.outcomes import (
    find_instructions,
    is_incomplete,
)
from hilum_eval.simulation.plan import (
    Leaf,
    Place,
    PlannedStep,
    read_original,
    widen_edit,
)
from hilum_eval.simulation.purposes import Purpose
from hilum_eval.simulation.slips import break_arguments, make_wrong_edit, make_wrong_path
from hilum_eval.simulation.step_history import (
    EDIT_KINDS,
    Finished,
    NextCall,
    StepHistory,
    as_next,
)
from hilum_eval.simulation.toolbox import PlannedCall


class FirstTries(StepHistory):
    """Decides the first call of a step. See ``StepHistory`` for the arguments."""

    def _try_first(self, planned: PlannedStep) -> NextCall | Finished:
        leaf = planned.leaf
        if planned.skipped or self._is_blind(planned):
            return Finished("left_out")
        if planned.slip == "long_output":
            wide = self._tools.search(".")
            if wide is not None:
                return as_next(Purpose.LONG_OUTPUT, wide)
        is_seen = isinstance(leaf, Edit) and self._seen.shows(leaf.old)
        is_guess = planned.slip == "ignored_rule"
        if isinstance(leaf, Edit) and not is_guess and not is_seen:
            return self._edit_unseen(planned, leaf)
        # Whoever has the text before their eyes need not guess it.
        if is_guess and is_seen:
            return self._make_right(planned)
        if planned.slip in ("", "loop", "long_output"):
            return self._make_right(planned)
        return self._make_wrong(planned, planned.slip, 0)

    def _edit_unseen(self, planned: PlannedStep, leaf: Edit) -> NextCall | Finished:
        """Return the next call for an edit of a text that the model cannot see."""
        chance = self._profile.recovery.reread
        if "read_first" in find_instructions(self._seen.system) and chance < 1:
            odds = chance / (1 - chance) * self._profile.recovery.instructions
            chance = odds / (1 + odds)
        if self._draws.happens(chance, *planned.place, "reread"):
            look = self._tools.read(leaf.path)
            if look is not None:
                return as_next(Purpose.READ, look)
        return self._make_wrong(planned, "wrong_old_string", 0, kind="stale")

    def _is_blind(self, planned: PlannedStep) -> bool:
        """Return whether the model does not know a file, because a search did not show it."""
        leaf = planned.leaf
        if not isinstance(leaf, Read | Edit) or leaf.path in self._seen.text:
            return False
        search = self._find_search_before(planned.place)
        if search is None:
            return False
        entries = self._history.get(search.place, [])
        if not entries or not is_incomplete(entries[-1].outcome):
            return False
        knows = self._profile.recovery.search_again
        return not self._draws.happens(knows, self.turn, leaf.path, "knows")

    def _find_search_before(self, place: Place) -> PlannedStep | None:
        found = None
        for group in self.groups:
            for planned in group:
                if planned.place < place and isinstance(planned.leaf, Search):
                    found = planned
        return found

    def _make_right(self, planned: PlannedStep) -> NextCall | Finished:
        leaf = planned.leaf
        failed = [
            entry
            for entry in self._history.get(planned.place, [])
            if entry.purpose == Purpose.RIGHT and entry.outcome.kind in EDIT_KINDS
        ]
        if failed and isinstance(leaf, Edit):
            # The text is right, but the agent does not accept it: whole lines are clearer.
            leaf = widen_edit(leaf, read_original(self._case, leaf.path))
        call = self._build(leaf)
        # An agent without a shell, for example, cannot run a command.
        return Finished("given_up") if call is None else as_next(Purpose.RIGHT, call)

    def _build(self, leaf: Leaf) -> PlannedCall | None:
        match leaf:
            case Read():
                return self._tools.read(leaf.path, leaf.first, leaf.last)
            case Edit():
                return self._tools.edit(leaf.path, leaf.old, self._recall(leaf.new))
            case Write():
                return self._tools.write(leaf.path, self._recall(leaf.content))
            case Search():
                return self._tools.search(leaf.pattern, leaf.path)
        return self._tools.run(self._recall(leaf.command))

    def _recall(self, text: str) -> str:
        return replace_lost_facts(text, self._case, self.turn, self._seen.text)

    def _make_wrong(
        self, planned: PlannedStep, slip: str, number: int, kind: str = ""
    ) -> NextCall | Finished:
        """Return a wrong call.

        Args:
            planned: The step.
            slip: The slip.
            number: Number of failures before.
            kind: The kind of wrong old text; chosen if empty.
        """
        leaf = planned.leaf
        place = (*planned.place, slip, number)
        call: PlannedCall | None = None
        if slip == "wrong_old_string" and isinstance(leaf, Edit):
            call = self._make_wrong_edit(planned, leaf, number, kind)
        elif slip == "wrong_path" and isinstance(leaf, Read | Edit):
            wrong = attrs.evolve(leaf, path=make_wrong_path(leaf.path, self._draws, *place))
            call = self._build(wrong)
        elif slip == "ignored_rule" and isinstance(leaf, Edit):
            call = self._make_guess(planned, leaf)
        elif slip == "bad_arguments":
            call = self._build(leaf)
            if call is not None:
                required = self._tools.required(call.tool)
                mistake = self._draws.draw(*place, "mistake")
                # These formats send arguments as objects, which cannot be torn.
                if self._seen.request.api not in ("chat", "responses"):
                    mistake *= 0.85
                return NextCall(
                    Purpose.WRONG, call.tool, break_arguments(call.arguments, required, mistake)
                )
        if call is None:
            return self._make_right(planned)
        return as_next(Purpose.WRONG, call)

    def _make_wrong_edit(
        self, planned: PlannedStep, leaf: Edit, number: int, kind: str
    ) -> PlannedCall | None:
        place = (*planned.place, "old", number)
        if not kind and leaf.slip:
            # A case that prescribes a slip is about recovery, so no tool may repair it silently.
            kind = "stale"
        if not kind:
            kind = self._draws.choose(attrs.asdict(self._profile.edit_slips), *place)
        original = read_original(self._case, leaf.path)
        new = self._recall(leaf.new)
        wrong = make_wrong_edit(kind, leaf.old, new, original, self._draws, *place)
        return self._tools.edit(leaf.path, wrong.old, wrong.new)

    def _make_guess(self, planned: PlannedStep, leaf: Edit) -> PlannedCall | None:
        """Return a change of a file that the model has not read.

        It either replaces the first line of the text, which it knows, or the whole file with what
        it believes to be its content.
        """
        lines = [line for line in leaf.old.split("\n") if line.strip()]
        new = self._recall(leaf.new)
        if len(lines) > 1 and self._draws.happens(0.6, *planned.place, "guess"):
            return self._tools.edit(leaf.path, lines[0], new)
        if self._draws.happens(0.5, *planned.place, "rewrite"):
            return self._tools.write(leaf.path, new)
        return self._make_wrong_edit(planned, leaf, 0, "stale")
