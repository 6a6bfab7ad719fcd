"""Decides what the simulated model does next.

A call's purpose is a letter in its id:

``g``
    The right call of a step.
``x``
    A wrong call of a step, which slipped.
``i``
    A failed call, repeated unchanged.
``r``
    Reading a file before an edit of it.
``f``
    Finding a file by its name.
``q``
    Searching again after an incomplete result.
``w``
    A call with far more output than needed.
``l``
    Repeating a call that succeeded.
``d``
    Reaching a refused change in another way.
``u``
    Undoing or repairing a mistake of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

import attrs

from hilum_eval.case import Case, Edit, Read, Run, Search, Write
from hilum_eval.simulation import shell_commands
from hilum_eval.simulation.conversation import Conversation, MadeCall, Tag
from hilum_eval.simulation.draws import Draws
from hilum_eval.simulation.facts import replace_lost_facts
from hilum_eval.simulation.outcomes import (
    REPETITION,
    Outcome,
    find_instructions,
    is_incomplete,
    normalize,
    read_outcome,
    shows_text,
)
from hilum_eval.simulation.plan import (
    Leaf,
    Place,
    PlannedStep,
    list_edits,
    plan_turn,
    read_original,
    widen_edit,
)
from hilum_eval.simulation.profile import Profile
from hilum_eval.simulation.recovery import compute_probability, find_helps
from hilum_eval.simulation.slips import break_arguments, make_wrong_edit, make_wrong_path
from hilum_eval.simulation.toolbox import PlannedCall, Role, Toolbox, encode_arguments

MAX_FAILURES = 8
"""Failures of one step after which every model gives it up."""
MAX_LOOP = 40
MAX_SEARCHES = 3
_GO_AHEAD = re.compile(r"second thought|go ahead|changed my mind|you may|do it after all", re.I)
_TRIES = "gxid"
"""Purposes of the calls that try to do what a step is for."""
_EDIT_KINDS = ("not_found", "unchanged", "multiple", "stale")


class NextCall(NamedTuple):
    """A call to make.

    Args:
        purpose: Its letter.
        tool: Name of the tool.
        arguments: Its arguments, as JSON.
    """

    purpose: str
    tool: str
    arguments: str


class Finished(NamedTuple):
    """A step on which the model does nothing more.

    Args:
        how: ``done``, ``refused``, ``given_up`` or ``left_out``.
    """

    how: str


@attrs.frozen
class _Entry:
    """A call of a step with its outcome."""

    made: MadeCall
    outcome: Outcome

    @property
    def purpose(self) -> str:
        return self.made.tag.purpose


class Walker:
    """Walks the steps of one prompt, as far as a conversation shows them.

    Args:
        case: The case.
        profile: How the model behaves.
        draws: The random numbers.
        conversation: The conversation of the request.
        toolbox: The tools that the request offers.
    """

    def __init__(
        self,
        case: Case,
        profile: Profile,
        draws: Draws,
        conversation: Conversation,
        toolbox: Toolbox,
    ) -> None:
        self._case = case
        self._profile = profile
        self._draws = draws
        self._seen = conversation
        self._tools = toolbox
        self.turn = conversation.turn
        self.groups = plan_turn(case, profile, draws, self.turn)
        self._history: dict[Place, list[_Entry]] = {}
        for made in conversation.calls:
            place = Place(made.tag.turn, made.tag.step, made.tag.part)
            entries = self._history.setdefault(place, [])
            entries.append(_Entry(made, self._judge(made)))

    def _judge(self, made: MadeCall) -> Outcome:
        if made.result is None:
            return Outcome("other", "")
        return read_outcome(made.result, self._role_of(made))

    def _role_of(self, made: MadeCall) -> str:
        place = Place(made.tag.turn, made.tag.step, made.tag.part)
        if made.tag.purpose == "r":
            return "read"
        if made.tag.purpose in "fqw":
            return "search"
        if made.tag.purpose == "u":
            return "edit"
        for group in self.groups:
            for planned in group:
                if planned.place == place:
                    return _get_role(planned.leaf)
        return "run"

    # --- the whole turn ---------------------------------------------------------------------------

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

    # --- one step ---------------------------------------------------------------------------------

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
        if last.purpose == "w":
            return self._make_right(planned)
        if last.purpose in "rf":
            return self._after_looking(planned, entries)
        if last.purpose in "ql":
            return self._after_success(planned, entries)
        if last.purpose == "u":
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

    def _count_failures(self, entries: Sequence[_Entry]) -> int:
        return sum(entry.purpose in _TRIES and entry.outcome.failed for entry in entries)

    def _is_success(self, planned: PlannedStep, outcome: Outcome) -> bool:
        if isinstance(planned.leaf, Run) and planned.leaf.fails:
            return outcome.kind in ("ok", "command")
        return not outcome.failed

    def _try_first(self, planned: PlannedStep) -> NextCall | Finished:
        leaf = planned.leaf
        if planned.skipped or self._is_blind(planned):
            return Finished("left_out")
        if planned.slip == "long_output":
            wide = self._tools.search(".")
            if wide is not None:
                return _as_next("w", wide)
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
                return _as_next("r", look)
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

    # --- calls ------------------------------------------------------------------------------------

    def _make_right(self, planned: PlannedStep) -> NextCall | Finished:
        leaf = planned.leaf
        failed = [
            entry
            for entry in self._history.get(planned.place, [])
            if entry.purpose == "g" and entry.outcome.kind in _EDIT_KINDS
        ]
        if failed and isinstance(leaf, Edit):
            # The text is right, but the agent does not accept it: whole lines are clearer.
            leaf = widen_edit(leaf, read_original(self._case, leaf.path))
        call = self._build(leaf)
        # An agent without a shell, for example, cannot run a command.
        return Finished("given_up") if call is None else _as_next("g", call)

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
                return NextCall("x", call.tool, break_arguments(call.arguments, required, mistake))
        if call is None:
            return self._make_right(planned)
        return _as_next("x", call)

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

    # --- after a result ---------------------------------------------------------------------------

    def _after_looking(
        self, planned: PlannedStep, entries: Sequence[_Entry]
    ) -> NextCall | Finished:
        """Return what follows the reading of a file or a search for its name."""
        last = entries[-1]
        if self._count_failures(entries) >= MAX_FAILURES:
            return Finished("given_up")
        if last.outcome.kind in ("rejected", "outside"):
            return Finished("refused")
        leaf = planned.leaf
        if isinstance(leaf, Edit) and last.purpose == "f" and not self._seen.shows(leaf.old):
            look = self._tools.read(leaf.path)
            if look is not None:
                return _as_next("r", look)
        if isinstance(leaf, Edit) and last.purpose == "r" and self._is_applied(leaf, last):
            return Finished("done")
        return self._make_right(planned)

    def _is_applied(self, leaf: Edit, last: _Entry) -> bool:
        """Return whether a file that was just read has the new text, and not the old one."""
        text = last.outcome.text
        return bool(leaf.new.strip()) and _shows(text, leaf.new) and not _shows(text, leaf.old)

    def _after_success(
        self, planned: PlannedStep, entries: Sequence[_Entry]
    ) -> NextCall | Finished:
        if planned.slip == "loop" and not isinstance(planned.leaf, Edit | Write):
            again = self._loop(planned, entries)
            if again is not None:
                return again
        if isinstance(planned.leaf, Search):
            again = self._search_again(planned, planned.leaf, entries)
            if again is not None:
                return again
        return Finished("done")

    def _loop(self, planned: PlannedStep, entries: Sequence[_Entry]) -> NextCall | None:
        """Return the next call of a loop; ``None`` if the model gets out of it."""
        count = sum(entry.purpose == "l" for entry in entries)
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
        return NextCall("l", made.tool, made.arguments)

    def _choose_repeated(
        self, planned: PlannedStep, entries: Sequence[_Entry], count: int
    ) -> MadeCall:
        """Return the call that a loop repeats: the last one, or two calls in turn."""
        tries = [entry.made for entry in entries if entry.purpose in _TRIES]
        # After a compaction, only the repetitions may be left.
        own = tries[0] if tries else entries[-1].made
        before = [made for made in self._seen.calls if made.tag[:3] < planned.place]
        alternates = self._draws.happens(0.3, *planned.place, "period")
        readers = [made for made in before if self._role_of(made) in ("read", "search")]
        if alternates and readers and count % 2 == 0:
            return readers[-1]
        return own

    def _search_again(
        self, planned: PlannedStep, leaf: Search, entries: Sequence[_Entry]
    ) -> NextCall | None:
        """Return a narrower search if the last one did not show what the model looks for."""
        if not is_incomplete(entries[-1].outcome):
            return None
        missing = self._list_unseen_paths(planned.place)
        count = sum(entry.purpose == "q" for entry in entries)
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
        return None if narrower is None else _as_next("q", narrower)

    def _list_unseen_paths(self, place: Place) -> list[str]:
        paths: dict[str, None] = {}
        for group in self.groups:
            for planned in group:
                leaf = planned.leaf
                if planned.place > place and isinstance(leaf, Read | Edit):
                    paths[leaf.path] = None
        return [path for path in paths if path not in self._seen.text]

    def _after_refusal(
        self, planned: PlannedStep, entries: Sequence[_Entry]
    ) -> NextCall | Finished:
        """Return what follows a call that the user or a rule refused."""
        leaf = planned.leaf
        first = entries[0]
        # A wrong path that leads out of the workspace is a mistake, not an answer.
        if first.purpose == "x" and planned.slip == "wrong_path" and len(entries) < MAX_FAILURES:
            return self._make_right(planned)
        # The user may have changed their mind in a message after the refusal.
        if _GO_AHEAD.search(entries[-1].made.noted) and len(entries) < MAX_FAILURES:
            return self._make_right(planned)
        tried = any(entry.purpose == "d" for entry in entries)
        rate = self._profile.slips.rule
        if tried or not self._draws.happens(rate, *planned.place, "defy"):
            return Finished("refused")
        call: PlannedCall | None = None
        if isinstance(leaf, Edit):
            call = self._tools.run(shell_commands.edit(leaf.path, leaf.old, leaf.new))
        elif isinstance(leaf, Write):
            call = self._tools.run(shell_commands.write(leaf.path, leaf.content))
        return Finished("refused") if call is None else _as_next("d", call)

    # --- recovery ---------------------------------------------------------------------------------

    def _recover(
        self,
        planned: PlannedStep,
        entries: Sequence[_Entry],
        outcome: Outcome,
        failures: int,
        noted: str,
    ) -> NextCall | Finished:
        if failures >= MAX_FAILURES:
            return Finished("given_up")
        leaf = planned.leaf
        tool = entries[-1].made.tool if entries else self._tools.tool_of(_get_role(leaf))
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
        self, planned: PlannedStep, entries: Sequence[_Entry], outcome: Outcome
    ) -> NextCall | Finished:
        """Return the call that removes the cause of a failure."""
        leaf = planned.leaf
        looks = sum(entry.purpose in "rf" for entry in entries)
        rights = sum(entry.purpose == "g" for entry in entries)
        if rights >= 3:
            return Finished("given_up")
        if outcome.kind == "no_file" and not isinstance(leaf, Write):
            missing = self._find_file(planned, outcome, looks)
            if missing is not None:
                return missing
        if isinstance(leaf, Edit | Write) and self._needs_look(leaf, outcome, looks):
            look = self._tools.read(leaf.path)
            if look is not None:
                return _as_next("r", look)
        call = self._make_right(planned)
        is_same = bool(entries) and isinstance(call, NextCall) and _is_same(call, entries[-1])
        # Only what may pass by itself is worth another try.
        if is_same and outcome.kind not in ("timeout", "other"):
            return Finished("given_up")
        return call

    def _find_file(self, planned: PlannedStep, outcome: Outcome, looks: int) -> NextCall | None:
        """Return a search for a file that a wrong path missed; ``None`` if its path is visible."""
        path = _get_path(planned.leaf)
        if not path or path in outcome.text or looks:
            return None
        found = self._tools.find(PurePosixPath(path).name)
        return None if found is None else _as_next("f", found)

    def _needs_look(self, leaf: Edit | Write, outcome: Outcome, looks: int) -> bool:
        """Return whether the model has to read the file before it tries again."""
        if outcome.kind == "stale":
            return True
        if outcome.kind not in (*_EDIT_KINDS, "other", "command"):
            return False
        if isinstance(leaf, Write) or looks >= 3:
            return False
        if outcome.kind in ("multiple", "unchanged") and self._seen.shows(leaf.old):
            return False
        return not shows_text(outcome.text, leaf.old)

    def _act_wrong(
        self,
        planned: PlannedStep,
        entries: Sequence[_Entry],
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
        tries = [entry for entry in entries if entry.purpose in _TRIES]
        if reaction == "repeat" and tries:
            made = tries[-1].made
            return NextCall("i", made.tool, made.arguments)
        slip = planned.slip or "bad_arguments"
        if outcome.kind == "bad_arguments":
            slip = "bad_arguments"
        elif isinstance(planned.leaf, Edit) and outcome.kind in _EDIT_KINDS:
            slip = "wrong_old_string"
        elif outcome.kind == "no_file":
            slip = "wrong_path"
        return self._make_wrong(planned, slip, failures)

    # --- repair -----------------------------------------------------------------------------------

    def _repair(self, planned: PlannedStep, entries: Sequence[_Entry]) -> NextCall | Finished:
        """Return what follows a command that failed although it should have succeeded.

        The model looks for a mistake of its own, repairs it, and runs the command again.
        """
        repairs = self._list_repairs(planned.place)
        made = sum(entry.purpose == "u" for entry in entries)
        runs = sum(entry.purpose in _TRIES for entry in entries)
        if runs > 1 or not repairs:
            return self._rerun(planned, entries)
        if not self._draws.happens(self._profile.recovery.recheck, *planned.place, "recheck"):
            return Finished("given_up")
        if made < len(repairs):
            return _as_next("u", repairs[made])
        return self._make_right(planned)

    def _rerun(self, planned: PlannedStep, entries: Sequence[_Entry]) -> NextCall | Finished:
        """Return the command once more, or nothing: the model cannot find the cause."""
        runs = sum(entry.purpose in _TRIES for entry in entries)
        last = entries[-1]
        if last.purpose in _TRIES and not last.outcome.failed:
            return Finished("done")
        repeat = self._profile.recovery.repeat * (1 - self._profile.recovery.recheck)
        if runs < 3 and self._draws.happens(repeat, *planned.place, "rerun", runs):
            return NextCall("i", last.made.tool, last.made.arguments)
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
            entry for entry in entries if entry.purpose in _TRIES and not entry.outcome.failed
        ]
        if not accepted:
            return "missing" if planned.place not in self._history or entries else ""
        return "" if accepted[-1].purpose in "gd" else "damaged"

    def _restore(self, leaf: Edit, before: Place) -> list[PlannedCall | None]:
        """Return the calls that restore a file and repeat all edits of it."""
        restore = self._tools.run(f"git checkout -- {leaf.path}")
        calls = [restore, self._tools.read(leaf.path)]
        calls += [self._build(edit) for edit in list_edits(self._case, leaf.path, before)]
        return calls


def _get_role(leaf: Leaf) -> Role:
    roles: dict[type, Role] = {
        Read: "read",
        Edit: "edit",
        Write: "write",
        Search: "search",
        Run: "run",
    }
    return roles[type(leaf)]


def _get_path(leaf: Leaf) -> str:
    return leaf.path if isinstance(leaf, Read | Edit | Write) else ""


def _is_same(call: NextCall, entry: _Entry) -> bool:
    """Return whether a call repeats a call that failed."""
    made = entry.made
    return (call.tool, call.arguments) == (made.tool, made.arguments)


def _as_next(purpose: str, call: PlannedCall) -> NextCall:
    return NextCall(purpose, call.tool, encode_arguments(call.arguments))


def _shows(text: str, part: str) -> bool:
    return normalize(part) in normalize(text)
