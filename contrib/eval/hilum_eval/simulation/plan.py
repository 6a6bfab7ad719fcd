"""The slips that a simulated model makes in an attempt, decided before it sees anything.

They depend only on the case, the profile and the seed, so that all agents meet the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

import attrs

from hilum_eval.case import Case, Edit, Read, Run, Say, Search, Step, Together, Write
from hilum_eval.simulation.draws import Draws
from hilum_eval.simulation.profile import Profile

Leaf: TypeAlias = Read | Edit | Write | Search | Run


class Place(NamedTuple):
    """Where a step is in a case: numbers of the prompt, the step and the parallel call, from 0."""

    turn: int
    step: int
    part: int


@attrs.frozen
class PlannedStep:
    """A step with the slip that its first try has.

    Args:
        place: Where the step is.
        leaf: The step.
        slip: ``wrong_old_string``, ``bad_arguments``, ``wrong_path``, ``loop``, ``ignored_rule``,
            ``long_output``, or empty.
        skipped: Whether the model leaves the step out: it edits the file later without reading it.
    """

    place: Place
    leaf: Leaf
    slip: str = ""
    skipped: bool = False


def get_leaves(step: Step) -> tuple[Leaf, ...]:
    """Return the calls of a step; none for an answer."""
    if isinstance(step, Together):
        return step.steps
    if isinstance(step, Say):
        return ()
    return (step,)


def plan_turn(case: Case, profile: Profile, draws: Draws, turn: int) -> list[list[PlannedStep]]:
    """Return the steps of a turn, each as a list of parallel calls, with their slips."""
    groups: list[list[PlannedStep]] = []
    for number, step in enumerate(case.turns[turn].steps):
        group = []
        for part, leaf in enumerate(get_leaves(step)):
            place = Place(turn, number, part)
            group.append(PlannedStep(place, leaf, _choose_slip(leaf, profile, draws, place)))
        groups.append(group)
    return _skip_reads(groups)


def _choose_slip(leaf: Leaf, profile: Profile, draws: Draws, place: Place) -> str:
    if leaf.slip:
        return leaf.slip
    rates = profile.slips
    chances: dict[str, float] = {"bad_arguments": rates.arguments}
    if isinstance(leaf, Edit):
        chances["wrong_old_string"] = rates.edit
        chances["ignored_rule"] = rates.rule
    if isinstance(leaf, Read | Edit):
        chances["wrong_path"] = rates.path
    if isinstance(leaf, Read | Search | Run):
        chances["loop"] = rates.loop
        chances["long_output"] = rates.long_output
    # Each slip has a draw of its own, so that another rate of one hardly changes the others. A draw is
    # reached only without an earlier slip, so its chance is divided by the probability of that: then
    # each slip is made as often as the profile says.
    left = 1.0
    for name, chance in chances.items():
        if draws.happens(chance / left, *place, "slip", name):
            return name
        left -= chance
        if left <= 0:
            break
    return ""


def _skip_reads(groups: list[list[PlannedStep]]) -> list[list[PlannedStep]]:
    """Mark the reads that a model leaves out which edits the file without reading it."""
    unread: set[str] = set()
    marked: list[list[PlannedStep]] = []
    for group in reversed(groups):
        changed = []
        for planned in group:
            leaf = planned.leaf
            if isinstance(leaf, Read) and leaf.path in unread and not leaf.slip:
                planned = attrs.evolve(planned, skipped=True, slip="")
            changed.append(planned)
        for planned in group:
            if isinstance(planned.leaf, Edit) and planned.slip == "ignored_rule":
                unread.add(planned.leaf.path)
        marked.append(changed)
    marked.reverse()
    return marked


def list_edits(case: Case, path: str, before: Place) -> Iterator[Edit]:
    """Yield the edits of a file up to and including a place, in order."""
    for turn, each in enumerate(case.turns):
        for number, step in enumerate(each.steps):
            for part, leaf in enumerate(get_leaves(step)):
                is_before = Place(turn, number, part) <= before
                if is_before and isinstance(leaf, Edit) and leaf.path == path:
                    yield leaf


def read_original(case: Case, path: str) -> str:
    """Return a file as the case has it; empty if it is not one of the files of the case."""
    root = (case.folder / "files").resolve()
    file: Path = (root / path).resolve()
    if not file.is_relative_to(root):
        return ""
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def widen_edit(edit: Edit, original: str) -> Edit:
    """Return an edit whose old text consists of whole lines.

    Args:
        edit: The edit.
        original: The file; the edit is returned unchanged if its text is not there exactly once.
    """
    if original.count(edit.old) != 1:
        return edit
    start = original.index(edit.old)
    end = start + len(edit.old)
    before = original[original.rfind("\n", 0, start) + 1 : start]
    after = "" if edit.old.endswith("\n") else original[end:].partition("\n")[0]
    return attrs.evolve(edit, old=f"{before}{edit.old}{after}", new=f"{before}{edit.new}{after}")
