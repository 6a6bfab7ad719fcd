"""Draws the prompt that asks the user about waiting items.

If there is little room, the choices are abbreviated, and what the user needs for a decision comes
first: the head, a row of choices, a row of the body, and the marks. The beginning and end of the
body, the folder and sandbox, all choices, and the reason follow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from hilum_terminal.approval_items import Item, WaitingCall, WaitingQuestion
from hilum_terminal.approval_options import CONFIRM_STEPS, FIELD_STEPS, Option, Step
from hilum_terminal.approval_rules import EDITED_NOTE, describe_covered, inline
from hilum_terminal.approval_texts import count_calls, describe_item, title_of
from hilum_terminal.prompts import LineField
from hilum_terminal.row_layout import choice_rows, exact_rows, fit_rows, fold_rows, paragraph
from hilum_terminal.styles import PLAIN, Style, Theme
from hilum_terminal.text_width import ELLIPSIS, cells, cut, one_line

MAX_CONFIRM = 20_000
"""Number of characters and rows that fit no window."""
COUNTDOWN = 60.0
"""Seconds before the deadline at which the countdown starts."""
MIN_LABELED = 40
"""Minimum width, in columns, of a text field with a label."""
MIN_CHANGED_ROWS = 6
"""Rows of a change that are more important than the reason for the question."""


@attrs.frozen
class ShownItem:
    """An item as the prompt shows it, and how far the user is in answering it.

    Attributes:
        item: The item.
        position: Number of the item among the waiting ones, from 1.
        count: Number of the waiting items.
        step: What the prompt shows.
        options: The choices.
        selected: Index of the selected choice.
        marked: Index of the choice that Enter would choose; -1 if Enter does not choose yet.
        focused: Whether keys go to the prompt.
        focus_label: Name of the key that gives the prompt the focus.
        listed: The calls that "all" would allow.
        also: The other calls that a lasting approval would cover.
        field: What the user has begun to write about the item.
    """

    item: Item
    position: int
    count: int
    step: Step
    options: Sequence[Option]
    selected: int
    marked: int
    focused: bool
    focus_label: str
    listed: Sequence[WaitingCall]
    also: Sequence[WaitingCall]
    field: LineField

    @property
    def is_writing(self) -> bool:
        """Whether the user is writing a reason or an answer."""
        return self.focused and self.step in FIELD_STEPS


class ApprovalRows:
    """Returns the rows of the prompt. The rows of the last description are kept.

    Attributes:
        cursor: Row and column of the text cursor in the rows that were returned last, if the user
            is writing a reason or an answer.
        shows_labels: Whether the rows that were returned last contain all choices with their full
            labels.
        shows_all: Whether the rows that were returned last contain the whole description.
    """

    def __init__(self) -> None:
        self.shows_labels = True
        self.shows_all = False
        self.cursor: tuple[int, int] | None = None
        self._bodies: dict[bool, list[str]] = {}
        self._body_of: tuple[Item, int, Theme] | None = None

    def draw(
        self, shown: ShownItem, width: int, max_rows: int, theme: Theme, now: float
    ) -> list[str]:
        """Return the rows of the shown item, at most ``max_rows``."""
        self.cursor = None
        self.shows_labels = False
        self.shows_all = False
        item = shown.item
        # With three rows, the head says what is dangerous, because there is no row for the marks.
        head = _head(shown, width, theme, now, names_danger=max_rows <= 3)
        body = self._body(shown, width, theme)
        if max_rows == 2 and shown.step not in FIELD_STEPS:
            # In a tiny window, the command or change is more useful than the head, which also says
            # what a dangerous call does.
            is_dangerous = isinstance(item, WaitingCall) and item.dangerous
            first = [head] if is_dangerous else body or [head]
            return [
                *fold_rows(first, 1, width, theme, ""),
                *_option_rows(shown, width, 1, theme)[:1],
            ]
        marks, place, why = _facts(shown, width, theme)
        choices = _option_rows(shown, width, max(max_rows - 2, 1), theme)
        room = max(max_rows - 2, 0)
        body_room = min(len(body), 1, room)
        room -= body_room
        marks = fit_rows(marks, min(len(marks), room), width)
        room -= len(marks)
        is_change = isinstance(item, WaitingCall) and item.make_brief_rows is not None
        more_body = min(len(body) - body_room, 2, room)
        body_room += more_body
        room -= more_body
        place = place[:room]
        room -= len(place)
        choice_room = 1 + min(len(choices) - 1, room)
        room -= choice_room - 1
        choices = _option_rows(shown, width, choice_room, theme)
        self.shows_labels = choice_room >= _count_label_rows(shown, width)
        if is_change and len(body) + min(len(why), 2) > body_room + room:
            # In the rows that there are, the changed lines are shown before the unchanged ones.
            body = self._brief_body(shown, width, theme)
            body_room = min(body_room, len(body))
            more_body = min(len(body), MIN_CHANGED_ROWS) - body_room
            more_body = max(min(more_body, room), 0)
            body_room += more_body
            room -= more_body
        why = fit_rows(why, min(len(why), 2, room), width)
        room -= len(why)
        hint = "w shows all" if shown.step in CONFIRM_STEPS else "v shows all"
        self.shows_all = len(body) <= body_room + room
        body = fold_rows(body, body_room + room, width, theme, hint)
        rows = [head, *why, *marks, *body, *place]
        if shown.is_writing:
            label = _field_label(shown, width)
            row, column = shown.field.row(max(width - cells(label), 1))
            choices[0] = cut(f"{label}{row}", width)
            self.cursor = (len(rows), min(cells(label) + column, width - 1))
        return [*rows, *choices]

    def _body(
        self, shown: ShownItem, width: int, theme: Theme, *, is_brief: bool = False
    ) -> list[str]:
        """Return the rows that describe the item, marked as untrusted text."""
        # A screen reader would read a vertical line aloud.
        bar = theme.paint("│ ", "dim") if theme.attributes else "  "
        if width < 30:
            bar = ""
        inner = width - cells(bar)
        if shown.step in CONFIRM_STEPS and isinstance(shown.item, WaitingCall):
            rows = _confirm_rows(shown, shown.item, inner, theme)
        else:
            rows = self._describe(shown.item, inner, theme, is_brief=is_brief)
        return [bar + row for row in rows]

    def _brief_body(self, shown: ShownItem, width: int, theme: Theme) -> list[str]:
        """Return the rows that describe a change without its unchanged lines."""
        if shown.step in CONFIRM_STEPS:
            return self._body(shown, width, theme)
        return self._body(shown, width, theme, is_brief=True)

    def _describe(self, item: Item, width: int, theme: Theme, *, is_brief: bool) -> list[str]:
        wanted = (item, width, theme)
        if self._body_of != wanted:
            self._body_of = wanted
            # Both forms are kept, because a frame may need both.
            self._bodies = {}
        if is_brief not in self._bodies:
            self._bodies[is_brief] = describe_item(item, width, theme, is_brief=is_brief)
        return self._bodies[is_brief]


def folded_row(
    count: int, width: int, theme: Theme, *, is_too_small: bool, focus_label: str
) -> str:
    """Return the row of a prompt that is collapsed because the user types, or for lack of room.

    Args:
        count: Number of waiting items.
        width: Available width in columns.
        theme: The colors.
        is_too_small: Whether the window is too small for an answer.
        focus_label: Name of the key that gives the prompt the focus.
    """
    text = f"● {count} waiting"
    if is_too_small:
        return theme.paint(cut(f"{text} · enlarge the window to answer", width), "warning")
    row = f"{theme.paint(text, 'warning')} · {focus_label} to answer"
    return cut(row, width)


def _head(
    shown: ShownItem, width: int, theme: Theme, now: float, *, names_danger: bool = False
) -> str:
    """Return the first row.

    Args:
        shown: The item.
        width: Available width in columns.
        theme: The colors.
        now: Time in seconds.
        names_danger: Whether the row says what is dangerous instead of which tool is called.
    """
    item = shown.item
    parts = []
    is_batch = shown.step == "all"
    if shown.count > 1 and not is_batch:
        parts.append(f"{shown.position} of {shown.count}")
    dangerous = isinstance(item, WaitingCall) and item.dangerous
    if dangerous:
        parts.append("dangerous")
    left = item.deadline - now
    if item.deadline and left <= COUNTDOWN:
        parts.append(f"{math.ceil(left)} s left" if left > 0 else "time is up")
    if item.agent:
        parts.append(f"agent {one_line(item.agent, 30)}")
    if names_danger and isinstance(item, WaitingCall) and item.dangerous and item.marks:
        parts.append(one_line(item.marks[0]))
    elif is_batch:
        parts.append(f"{count_calls(len(shown.listed))} of this response")
    else:
        parts.append(title_of(item))
    style: Style = "bad" if dangerous else "warning"
    return theme.paint(cut("● " + " · ".join(parts), width), style)


def _facts(shown: ShownItem, width: int, theme: Theme) -> tuple[list[str], list[str], list[str]]:
    """Return the rows for the marks, for the folder and sandbox, and for the reason."""
    item = shown.item
    if not isinstance(item, WaitingCall) or shown.step in CONFIRM_STEPS:
        return [], [], []
    marks: list[str] = []
    for mark in item.marks:
        style: Style = "bad" if item.dangerous else "warning"
        marks += [theme.paint(row, style) for row in paragraph(f"! {mark}", width)]
    places = []
    if item.folder:
        places.append(f"in {inline(item.folder)}")
    if item.sandbox:
        places.append(inline(item.sandbox))
    joined = " · ".join(places)
    if cells(joined) <= width:
        places = [joined] if joined else []
    place = [theme.paint(cut(row, width), "dim") for row in places]
    if item.arguments is not None:
        marks.append(theme.paint(cut(EDITED_NOTE, width), "accent"))
    why = []
    if item.why:
        why = [theme.paint(row, "dim") for row in paragraph(f"Why: {item.why}", width)]
    return marks, place, why


def confirm_text(shown: ShownItem, item: WaitingCall) -> str:
    """Return everything that the answer in a second step would allow, for ``ShowWhole``."""
    return "\n".join(text for text, _ in _confirm_parts(shown, item))


def _confirm_parts(shown: ShownItem, item: WaitingCall) -> list[tuple[str, Style]]:
    """Return the paragraphs of a second step, each with its style."""
    if shown.step == "all":
        return [
            (f"{number}. {call.description or title_of(call)}", "plain")
            for number, call in enumerate(shown.listed, 1)
        ]
    covered = describe_covered(item)
    if shown.step == "always":
        parts: list[tuple[str, Style]] = [
            ("This rule is stored:", "plain"),
            (item.scope, "code"),
            (
                f"It allows {covered} in this folder, also in later sessions,"
                " until you remove it with /permissions.",
                "plain",
            ),
        ]
    else:
        parts = [(f"This allows {covered} until the session ends.", "plain")]
    if shown.also:
        parts.append((f"It also allows {count_calls(len(shown.also))} waiting now:", "plain"))
        parts += [(call.description or title_of(call), "plain") for call in shown.also]
    return parts


def _confirm_rows(shown: ShownItem, item: WaitingCall, width: int, theme: Theme) -> list[str]:
    """Return the rows that say what the answer in a second step would allow, all of them.

    Only of a text that fits no window, the end is left out; an additional row makes sure that the
    rows do not fit, so that nothing is allowed without the whole text.
    """
    rows: list[str] = []
    for text, style in _confirm_parts(shown, item):
        exact = exact_rows(text[:MAX_CONFIRM], width)
        rows += [theme.paint(row, style) for row in exact]
        if len(text) > MAX_CONFIRM:
            rows += [ELLIPSIS] * MAX_CONFIRM
            break
    return rows


def _field_label(shown: ShownItem, width: int) -> str:
    """Return the text before a text field: what the text is, and whether it may be empty."""
    word = {"own": "answer", "comment": "comment"}.get(shown.step, "reason")
    if width < MIN_LABELED:
        return "> "
    # The agent cannot do anything with an empty answer.
    optional = "" if shown.step == "own" else " (may be empty)"
    return f"{word}{optional}> "


def _option_rows(shown: ShownItem, width: int, max_rows: int, theme: Theme) -> list[str]:
    """Return the rows with the choices, or the rows of the text field."""
    if shown.is_writing:
        verb = {"own": "answer", "comment": "allow"}.get(shown.step, "deny")
        hint = theme.paint(cut(f"Enter: {verb} · Esc: back", width), "dim")
        return ["", hint][:max_rows]
    if isinstance(shown.item, WaitingQuestion):
        return _question_rows(shown, shown.item, width, max_rows, theme)
    if not shown.focused:
        return [_focus_hint(shown, width, theme)]
    return _fit_options(shown.options, shown.marked, width, max_rows, theme)


def _fit_options(
    options: Sequence[Option], marked: int, width: int, max_rows: int, theme: Theme
) -> list[str]:
    """Return the rows with choices, abbreviated as far as necessary so that all of them fit."""
    rows: list[str] = []
    for labels in _abbreviate(options):
        rows = choice_rows(labels, marked, width, len(options), theme)
        if len(rows) <= max_rows:
            return rows
    # In 20 columns, one row has room for nine keys.
    return choice_rows(_abbreviate(options)[-1], marked, width, max_rows, theme, is_tight=True)


def _abbreviate(options: Sequence[Option]) -> list[list[str]]:
    """Return the labels of choices, from the full ones to the shortest ones."""
    brief = []
    for option in options:
        # The two most important answers keep their words longest.
        word = f" {option.short}" if option.short in ("yes", "no") else ""
        brief.append(f"[{option.key}]{word}")
    return [
        [f"[{option.key}] {option.label}" for option in options],
        [f"[{option.key}] {option.short}" for option in options],
        brief,
        [option.key for option in options],
    ]


def _count_label_rows(shown: ShownItem, width: int) -> int:
    """Return how many rows the choices need with their full labels."""
    labels = [f"[{option.key}] {option.label}" for option in shown.options]
    return len(choice_rows(labels, shown.marked, width, len(labels), PLAIN))


def _question_rows(
    shown: ShownItem, item: WaitingQuestion, width: int, max_rows: int, theme: Theme
) -> list[str]:
    """Return the rows for a question: one per option, then the other choices."""
    count = len(item.options)
    listed = []
    for index, option in enumerate(shown.options[:count]):
        selected = shown.focused and index == shown.marked
        mark = "▸" if selected else " "
        number = f"{option.key}." if option.key else "-"
        row = cut(f"{mark}{number} {option.label}", width)
        listed.append(theme.paint(row, "selected") if selected else row)
    if not shown.focused:
        return [*fit_rows(listed, max_rows - 1, width), _focus_hint(shown, width, theme)]
    options = list(shown.options[count:])
    marked = shown.marked - count if shown.marked >= count else -1
    if item.multiple and listed:
        options.insert(0, Option("Space", "check", "check", "check"))
        options.insert(1, _send_option(shown, item))
        # The choices of a list are marked in the list itself.
        marked = marked + 2 if marked >= 0 else -1
    # The selected choice is always visible, even if there is little room.
    others_room = max_rows if shown.selected >= count else max_rows - 1
    others = _fit_options(options, marked, width, max(min(others_room, 2), 1), theme)
    room = max_rows - len(others)
    start = min(max(shown.selected - room + 1, 0), max(count - room, 0))
    return [*listed[start : start + room], *others]


def _send_option(shown: ShownItem, item: WaitingQuestion) -> Option:
    """Return the choice that says what Enter does at a question with several answers."""
    checked = sum(option.label.startswith("[x]") for option in shown.options[: len(item.options)])
    if checked:
        label = "send this answer" if checked == 1 else f"send these {checked} answers"
    else:
        label = "send the selected answer"
    return Option("Enter", "send", label, "send")


def _focus_hint(shown: ShownItem, width: int, theme: Theme) -> str:
    return theme.paint(cut(f"{shown.focus_label} to answer · your draft stays", width), "dim")
