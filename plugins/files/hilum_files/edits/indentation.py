"""Converts the indentation of a model's text to that of the file.

The indentation is equal, shifted, or uses tabs instead of spaces. All matched lines must agree on
one rule. An ambiguous edit is refused, because a wrong guess would change the behavior of a
program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import gcd
from typing import NamedTuple

Rule = Callable[[str], str | None]
"""A function that converts the model's indentation to the file's, or returns ``None`` if unsure."""
# Tab widths in columns, in the order in which they are tried: the most common first.
_WIDTHS = (4, 8, 2, 3)


class SharedIndent(NamedTuple):
    """The indentation of a line that the old and the new text share.

    Attributes:
        old: The indentation in the old text.
        new: The indentation in the new text.
        file: The indentation in the file.
    """

    old: str
    new: str
    file: str


def find_rule(
    pairs: Sequence[tuple[str, str]], new: Sequence[str], around: Callable[[], Sequence[str]]
) -> Rule | None:
    """Find the rule that converts the model's indentation to the file's.

    Args:
        pairs: The indentation of each non-blank line in the model's text and in the file.
        new: The indentations of the new lines, as the model wrote them.
        around: A function that returns the indentations of the lines around the match in the file.

    Returns:
        The rule, or ``None`` if none applies.
    """
    table = dict(pairs)
    if len(set(pairs)) != len(table) or len(set(table.values())) != len(table):
        return None  # not a one-to-one mapping
    if all(old == file for old, file in table.items()):
        return keep_indent
    # Indentations in the matched lines are converted exactly; the rule is used only for other
    # indentations.
    rule = _find_shift(table, new) or _find_retyping(table, new, around)
    if rule is None:
        return None
    return lambda indent: table[indent] if indent in table else rule(indent)


def keep_indent(indent: str) -> str:
    """Return an indentation unchanged."""
    return indent


def _have_tabs(indents: Iterable[str]) -> bool:
    return any("\t" in indent for indent in indents)


# --- shifted --------------------------------------------------------------------------------------


def _find_shift(table: dict[str, str], new: Iterable[str]) -> Rule | None:
    """Find the rule if all matched lines lack, or add, the same leading whitespace."""
    old, file = next(iter(table.items()))
    least = min(table, key=len)
    if file.endswith(old):
        more = file.removesuffix(old)
        if all(file == more + old for old, file in table.items()):
            return _shift_in(table, new, more, least)
    if old.endswith(file):
        less = old.removesuffix(file)
        if all(old == less + file for old, file in table.items()):
            return lambda indent: indent.removeprefix(less) if indent.startswith(least) else None
    return None


def _shift_in(table: dict[str, str], new: Iterable[str], more: str, least: str) -> Rule | None:
    """Return the rule for lines that begin with the additional indentation ``more`` in the file."""
    inner = {indent.removeprefix(least) for indent in new if indent.startswith(least)}
    is_unindented = not any(table)
    has_tabs = _have_tabs([*table, *inner])
    if "\t" in more and not has_tabs and is_unindented and any(inner):
        # The model wrote unindented lines with spaces for a file with tabs, so each of its
        # indentation steps is a tab.
        step = gcd(*map(len, inner))
        if step in _WIDTHS:
            return lambda indent: more + "\t" * (len(indent) // step)
        return None
    file_has_tabs = _have_tabs(table.values())

    def shift(indent: str) -> str | None:
        # The indentation of a line that is indented less than all matched lines may be intentional.
        if indent.startswith(least) and (file_has_tabs or "\t" not in indent):
            return more + indent
        return None

    return shift


# --- tabs and spaces ------------------------------------------------------------------------------


def _find_retyping(
    table: dict[str, str], new: Sequence[str], around: Callable[[], Sequence[str]]
) -> Rule | None:
    """Find the rule if tabs on one side are spaces on the other, possibly with a shift."""
    file_has_tabs = _have_tabs(table.values())
    if _have_tabs(table) == file_has_tabs:
        return None
    with_spaces = [*table, *new] if file_has_tabs else [*table.values(), *around()]
    spaces = [indent for indent in with_spaces if "\t" not in indent]
    rules: list[Rule] = []
    for width in _WIDTHS:
        shift = _find_width_shift(table, width)
        if shift is None:
            continue
        least = min(_width(old, width) for old in table)
        rule = _make_retyping(width, shift, file_has_tabs, least)
        if shift == 0 and _is_step(width, spaces):
            return rule
        rules.append(rule)
    return _combine(rules)


def _find_width_shift(table: dict[str, str], width: int) -> int | None:
    """Return how many columns further the file is indented than the text, if all lines agree."""
    shifts = {_width(file, width) - _width(old, width) for old, file in table.items()}
    return shifts.pop() if len(shifts) == 1 else None


def _combine(rules: list[Rule]) -> Rule | None:
    """Return a rule that yields the result on which all rules agree."""
    if not rules:
        return None

    def combined(indent: str) -> str | None:
        # Several tab widths may match the lines; a new indentation is accepted if all widths agree.
        results = {rule(indent) for rule in rules}
        return results.pop() if len(results) == 1 else None

    return combined


def _make_retyping(width: int, shift: int, tabs: bool, least: int) -> Rule:
    """Return the rule for one tab width.

    Args:
        width: Columns of a tab.
        shift: Number of columns by which the file is indented more than the model's text.
        tabs: Whether the file has tabs instead of spaces.
        least: Indentation of the least indented matched line, in columns.
    """

    def retype(indent: str) -> str | None:
        old_depth = _width(indent, width)
        depth = old_depth + shift
        if depth < 0 or (shift and old_depth < least):
            return None
        if tabs:
            return "\t" * (depth // width) + " " * (depth % width)
        return " " * depth

    return retype


def _is_step(width: int, indents: Sequence[str]) -> bool:
    """Return whether most lines are indented in steps of this width.

    Comments and continuation lines may be indented differently.
    """
    depths = [len(indent) for indent in indents if indent]
    if gcd(*depths) == width:
        return True
    fitting = [depth for depth in depths if depth % width == 0]
    has_single_step = any(depth % (2 * width) for depth in fitting)
    # Exceptions are accepted only for the most common width, because 2 or 3 would match by chance
    # too often.
    return width == _WIDTHS[0] and len(fitting) >= 0.75 * len(depths) and has_single_step


def _width(indent: str, tab: int) -> int:
    return len(indent.expandtabs(tab))


# --- whose indentation the new text has -----------------------------------------------------------


def follows_file(
    pairs: Sequence[tuple[str, str]],
    new: Sequence[str],
    shared: Sequence[SharedIndent],
    closes: bool,
) -> bool | None:
    """Return whether the new text is indented like the file although the old text is not.

    Args:
        pairs: As for ``find_rule``.
        new: The indentations of the non-blank new lines, in order.
        shared: The lines that the old and the new text share.
        closes: Whether the first new line closes a block, so that it may be indented less than the
            lines it replaces.

    Returns:
        Whether the new text is indented like the file, or ``None`` if that is unclear.
    """
    table = dict(pairs)
    if all(table.get(indent) == indent for indent in new):
        return False  # the old text and the file have the same indentation
    differing = [line for line in shared if line.old != line.file]
    is_like_old = any(line.new == line.old for line in differing)
    is_like_file = any(line.new == line.file for line in differing)
    old, file = pairs[0]
    first = new[0]
    if is_like_old and is_like_file:
        return None
    if is_like_old:
        return None if first == file != old else False
    if is_like_file:
        return None if first == old != file or _is_further_out(first, pairs) else True
    if old == file:
        return _compare_all_depths(pairs, new)
    return _compare_first_depth(pairs, new, shared, closes)


def _is_further_out(indent: str, pairs: Sequence[tuple[str, str]]) -> bool:
    """Return whether a line is indented less than the matched lines.

    A line that is indented less may open a block into which lines of both texts were moved.
    """
    return len(indent) < min(len(file) for _, file in pairs)


def _compare_all_depths(pairs: Sequence[tuple[str, str]], new: Sequence[str]) -> bool | None:
    """Decide by all indentations if the first matched line is indented as in the file."""
    old_indents = {old for old, _ in pairs}
    file_indents = {file for _, file in pairs}
    old_has_tabs = _have_tabs(old_indents)
    if any(new) and _have_tabs(file_indents) != old_has_tabs == _have_tabs(new):
        # The use of tabs or spaces shows that the new text is indented like the old text.
        return False
    if old_indents.issuperset(new):
        return False
    if file_indents.issuperset(new):
        return True
    return None


def _compare_first_depth(
    pairs: Sequence[tuple[str, str]],
    new: Sequence[str],
    shared: Sequence[SharedIndent],
    closes: bool,
) -> bool | None:
    """Decide by the first new line if the first matched line is not indented as in the file."""
    first = new[0]
    if first != pairs[0][0]:
        return None
    if not shared:
        # Without a shared line, an indentation found in both the old text and the file is
        # ambiguous.
        in_both = {old for old, _ in pairs} & {file for _, file in pairs}
        return None if in_both.issuperset(new) else False
    # The shared lines were moved into a block that begins the new text.
    is_wrapped = not closes and all(len(line.new) > len(first) for line in shared)
    if is_wrapped and min(len(line.old) for line in shared) == len(first):
        return False
    return None
