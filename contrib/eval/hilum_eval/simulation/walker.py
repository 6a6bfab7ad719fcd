"""Decides what the simulated model does next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from hilum_eval.case import Edit, Read, Run, Search, Write
from hilum_eval.simulation.conversation import MadeCall, Tag
from hilum_eval.simulation.outcomes import (
    REPETITION,
    Outcome,
    is_incomplete,
)
from hilum_eval.simulation.plan import (
    Place,
    PlannedStep,
)
from hilum_eval.simulation.purposes import TRIES, Purpose
from hilum_eval.simulation.recoveries import MAX_FAILURES
from hilum_eval.simulation.repairs import Repairs
from hilum_eval.simulation.step_history import (
    Entry,
    Finished,
    NextCall,
    as_next,
    shows_normalized,
)

MAX_LOOP = 40
MAX_SEARCHES = 3


class Walker(Repairs):
    """Walks the steps of one prompt, as far as a conversation shows them. See ``StepHistory``."""

    def find_next(self) -> tuple[int, list[tuple[Place, NextCall]]]:
        """Return the number of finished steps, and the calls to make next.

        Returns:
            No calls if the model is done, or stops although it is not.
        """
        skipped = self._seen.progress.get(self.turn, 0)
        for number, group in enumerate(self.groups):
            if number < skipped and not self._has_calls(group):
                continue
            calls = []
            for planned in group:
                step = self._step(planned)
                if isinstance(step, NextCall):
                    calls.append((planned.place, step))
            if not calls:
                continue
            begins = not self._has_calls(group)
            if begins and self._stops_early(number):
                return number, []
            return number, calls
        return len(self.groups), []

    def _has_calls(self, group: Sequence[PlannedStep]) -> bool:
        return any(planned.place in self._history for planned in group)

    def _stops_early(self, number: int) -> bool:
        rate = self._profile.slips.stop
        # After an objection, the model thinks again.
        return self._draws.happens(rate, self.turn, number, "stop", self._seen.messages)

    def make_tag(self, place: Place, purpose: str) -> Tag:
        """Return the tag of a new call."""
        return Tag(*place, len(self._history.get(place, [])), purpose)

    def count_given_up(self) -> int:
        """Return the number of steps that the model gave up after failures."""
        count = 0
        for group in self.groups:
            for planned in group:
                step = self._step(planned)
                if isinstance(step, Finished) and step.how == "given_up":
                    count += 1
        return count

    def get_last_result(self) -> str:
        """Return the text of the last result of this turn; empty if there is none."""
        for made in reversed(self._seen.calls):
            if made.result is not None:
                return self._judge(made).text
        return ""

    def _step(self, planned: PlannedStep) -> NextCall | Finished:
        entries = self._history.get(planned.place, [])
        complaints = self._count_complaints(planned)
        if not entries and not complaints:
            return self._try_first(planned)
        if complaints:
            # The program did not accept the call at all, so that it is not in the conversation.
            text = self._seen.last_user_text
            outcome = Outcome("bad_arguments", text)
            failures = self._count_failures(entries) + complaints
            return self._recover(planned, entries, outcome, failures, "")
        last = entries[-1]
        if last.purpose == Purpose.LONG_OUTPUT:
            return self._make_right(planned)
        if last.purpose in (Purpose.READ, Purpose.FIND):
            return self._after_looking(planned, entries)
        if last.purpose in (Purpose.SEARCH_AGAIN, Purpose.LOOP):
            return self._after_success(planned, entries)
        if last.purpose == Purpose.REPAIR:
            return self._repair(planned, entries)
        if self._is_success(planned, last.outcome):
            return self._after_success(planned, entries)
        if last.outcome.kind in ("rejected", "outside"):
            return self._after_refusal(planned, entries)
        if isinstance(planned.leaf, Run) and last.outcome.kind == "command":
            return self._repair(planned, entries)
        failures = self._count_failures(entries)
        return self._recover(planned, entries, last.outcome, failures, last.made.noted)

    def _count_complaints(self, planned: PlannedStep) -> int:
        """Return the number of complaints that are about a step: the first unfinished one."""
        if not self._seen.complaints:
            return 0
        if any(made.last and made.result is None for made in self._seen.calls):
            return 0
        for group in self.groups:
            for each in group:
                entries = self._history.get(each.place, [])
                is_over = bool(entries) and self._is_success(each, entries[-1].outcome)
                if not is_over and not each.skipped:
                    return self._seen.complaints if each.place == planned.place else 0
        return 0

    def _after_looking(self, planned: PlannedStep, entries: Sequence[Entry]) -> NextCall | Finished:
        """Return what follows the reading of a file or a search for its name."""
        last = entries[-1]
        if self._count_failures(entries) >= MAX_FAILURES:
            return Finished("given_up")
        if last.outcome.kind in ("rejected", "outside"):
            return Finished("refused")
        leaf = planned.leaf
        if (
            isinstance(leaf, Edit)
            and last.purpose == Purpose.FIND
            and not self._seen.shows(leaf.old)
        ):
            look = self._tools.read(leaf.path)
            if look is not None:
                return as_next(Purpose.READ, look)
        if isinstance(leaf, Edit) and last.purpose == Purpose.READ and self._is_applied(leaf, last):
            return Finished("done")
        return self._make_right(planned)

    def _is_applied(self, leaf: Edit, last: Entry) -> bool:
        """Return whether a file that was just read has the new text, and not the old one."""
        text = last.outcome.text
        return (
            bool(leaf.new.strip())
            and shows_normalized(text, leaf.new)
            and not shows_normalized(text, leaf.old)
        )

    def _after_success(self, planned: PlannedStep, entries: Sequence[Entry]) -> NextCall | Finished:
        if planned.slip == "loop" and not isinstance(planned.leaf, Edit | Write):
            again = self._loop(planned, entries)
            if again is not None:
                return again
        if isinstance(planned.leaf, Search):
            again = self._search_again(planned, planned.leaf, entries)
            if again is not None:
                return again
        return Finished("done")

    def _loop(self, planned: PlannedStep, entries: Sequence[Entry]) -> NextCall | None:
        """Return the next call of a loop; ``None`` if the model gets out of it."""
        count = sum(entry.purpose == Purpose.LOOP for entry in entries)
        last = entries[-1]
        chance = self._profile.recovery.keep_looping
        # A loop that a case prescribes goes on until something stops it.
        if planned.leaf.slip == "loop":
            chance = max(chance, 0.9)
        noticed = count > 0 and (
            last.outcome.kind == "repeated"
            or bool(REPETITION.search(last.made.noted))
            or bool(REPETITION.search(last.outcome.text[-400:]))
        )
        if noticed:
            odds = chance / (1 - chance) if chance < 1 else 100.0
            odds /= self._profile.recovery.note**2
            chance = odds / (1 + odds)
        if count >= MAX_LOOP or not self._draws.happens(chance, *planned.place, "loop", count):
            return None
        made = self._choose_repeated(planned, entries, count)
        return NextCall(Purpose.LOOP, made.tool, made.arguments)

    def _choose_repeated(
        self, planned: PlannedStep, entries: Sequence[Entry], count: int
    ) -> MadeCall:
        """Return the call that a loop repeats: the last one, or two calls in turn."""
        tries = [entry.made for entry in entries if entry.purpose in TRIES]
        # After a compaction, only the repetitions may be left.
        own = tries[0] if tries else entries[-1].made
        before = [made for made in self._seen.calls if made.tag[:3] < planned.place]
        alternates = self._draws.happens(0.3, *planned.place, "period")
        readers = [made for made in before if self._role_of(made) in ("read", "search")]
        if alternates and readers and count % 2 == 0:
            return readers[-1]
        return own

    def _search_again(
        self, planned: PlannedStep, leaf: Search, entries: Sequence[Entry]
    ) -> NextCall | None:
        """Return a narrower search if the last one did not show what the model looks for."""
        if not is_incomplete(entries[-1].outcome):
            return None
        missing = self._list_unseen_paths(planned.place)
        count = sum(entry.purpose == Purpose.SEARCH_AGAIN for entry in entries)
        if not missing or count >= MAX_SEARCHES:
            return None
        chance = self._profile.recovery.search_again
        if not self._draws.happens(chance, *planned.place, "search_again", count):
            return None
        folder = str(PurePosixPath(missing[0]).parent)
        # A model that knows the layout of projects tries their folders.
        narrower = self._tools.search(leaf.pattern, folder if count == 0 else leaf.path)
        if count == 1:
            narrower = self._tools.find(PurePosixPath(missing[0]).name)
        if count == 2:
            narrower = self._tools.search(leaf.pattern, missing[0])
        return None if narrower is None else as_next(Purpose.SEARCH_AGAIN, narrower)

    def _list_unseen_paths(self, place: Place) -> list[str]:
        paths: dict[str, None] = {}
        for group in self.groups:
            for planned in group:
                leaf = planned.leaf
                if planned.place > place and isinstance(leaf, Read | Edit):
                    paths[leaf.path] = None
        return [path for path in paths if path not in self._seen.text]
