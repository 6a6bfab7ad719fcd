"""How the indentation of a model's text becomes that of the file: the same, moved, or with tabs for
spaces.

All lines of a place must agree on one rule; where they do not, there is none, and the edit is
refused: in a language that lives by its indentation a guess would change what the program does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import gcd

Rule = Callable[[str], str | None]
_WIDTHS = (4, 8, 2, 3)


def rule_for(
    pairs: Sequence[tuple[str, str]], new: Sequence[str], around: Callable[[], Sequence[str]]
) -> Rule | None:
    """Find the rule that turns indentation as the model wrote it into indentation as the file has
    it.

    Args:
        pairs: For each line that is not blank the indentation the model gave it, and the one it
            has.
        new: The indentations of the lines that are to be written, as the model wrote them.
        around: Gives the indentations of lines of the file around the place.

    Returns:
        A function that gives the file's indentation, or ``None`` where it cannot be told; ``None``
        where no rule fits.
    """
    table = dict(pairs)
    if len(set(pairs)) != len(table) or len(set(table.values())) != len(table):
        return None  # one depth became two, or two became one
    if all(old == file for old, file in table.items()):
        return lambda indent: indent
    rule = _moved(table, new) or _retyped(table, new, around)
    if rule:
        return lambda indent: table[indent] if indent in table else rule(indent)
    return None


def _moved(table: dict[str, str], new: Iterable[str]) -> Rule | None:
    """All lines have the same more, or the same less, in front."""
    old, file = next(iter(table.items()))
    more = file.removesuffix(old)
    less = old.removesuffix(file)
    least = min(table, key=len)
    if file.endswith(old) and all(f == more + o for o, f in table.items()):
        inner = {indent.removeprefix(least) for indent in new if indent.startswith(least)}
        step = _step(inner)
        tabs = (
            "\t" in more
            and not any("\t" in indent for indent in (*table, *inner))
            and not any(table)
        )
        if tabs and any(inner):
            # Written from the margin on, with spaces, for a file with tabs: each of the model's own
            # steps is a tab.
            if step in _WIDTHS:
                return lambda indent: more + "\t" * (len(indent) // step)
            return None
        typed = any("\t" in indent for indent in table.values())
        # A line further out than all that was matched may as well be meant as it stands.
        return lambda indent: (
            more + indent if indent.startswith(least) and (typed or "\t" not in indent) else None
        )
    if old.endswith(file) and all(o == less + f for o, f in table.items()):
        return lambda indent: indent.removeprefix(less) if indent.startswith(least) else None
    return None


def _retyped(
    table: dict[str, str], new: Sequence[str], around: Callable[[], Sequence[str]]
) -> Rule | None:
    """Tabs on one side are spaces on the other, moved as a whole perhaps."""
    old_tabs, file_tabs = (
        any("\t" in indent for indent in side) for side in (table, table.values())
    )
    if old_tabs == file_tabs:
        return None
    spaces = [
        indent
        for indent in ([*table, *new] if file_tabs else [*table.values(), *around()])
        if "\t" not in indent
    ]
    found: list[Rule] = []
    for width in _WIDTHS:
        moved = {_width(file, width) - _width(old, width) for old, file in table.items()}
        if len(moved) != 1:
            continue
        one = _typed(width, next(iter(moved)), file_tabs, min(_width(old, width) for old in table))
        if moved == {0} and _is_step(width, spaces):
            return one
        found.append(one)

    def rule(indent: str) -> str | None:
        depths = {rule(indent) for rule in found}
        return depths.pop() if len(depths) == 1 else None

    return rule if found else None


def _typed(width: int, moved: int, tabs: bool, least: int) -> Rule:
    def rule(indent: str) -> str | None:
        depth = _width(indent, width) + moved
        if depth < 0 or (moved and depth - moved < least):
            return None
        if tabs:
            return "\t" * (depth // width) + " " * (depth % width)
        return " " * depth

    return rule


def _step(indents: Iterable[str]) -> int:
    return gcd(*(len(indent) for indent in indents))


def _is_step(width: int, indents: Sequence[str]) -> bool:
    """Return whether lines are indented by steps of this width, but for some: comments and lines
    that go on are not.
    """
    depths = [len(indent) for indent in indents if indent]
    if gcd(*depths) == width:
        return True
    fitting = sum(depth % width == 0 for depth in depths)
    once = sum(depth % (2 * width) != 0 for depth in depths if depth % width == 0)
    return width == _WIDTHS[0] and fitting >= 0.75 * len(depths) and once > 0


def _width(indent: str, tab: int) -> int:
    return len(indent.expandtabs(tab))


def written_for_the_file(
    pairs: Sequence[tuple[str, str]],
    new: Sequence[str],
    common: Sequence[tuple[str, str, str]],
    closes: bool,
) -> bool | None:
    """Return whether the new text is indented as the file is, although the old text is not.

    Args:
        pairs: As for ``rule_for``.
        new: The indentations of the new lines that are not blank, in order.
        common: For each line that old and new text share: its indentation in the old text, in the
            new one, in the file.
        closes: The first new line closes something, so that it may stand further out than what it
            replaces.

    Returns:
        ``None`` where it cannot be told.
    """
    like_old = any(n == o for o, n, f in common if o != f)
    like_file = any(n == f for o, n, f in common if o != f)
    (old, file), first = pairs[0], new[0]
    table = dict(pairs)
    if all(table.get(indent) == indent for indent in new):
        return False  # both readings are the same
    if like_old and like_file:
        return None
    if like_old:
        return None if first == file != old else False
    if like_file:
        # What stands further out than the place may open a block that lines of both texts were
        # moved into.
        further = len(first) < min(len(f) for _, f in pairs)
        return None if further or first == old != file else True
    if old == file:
        olds = {o for o, _ in pairs}
        files = {f for _, f in pairs}
        tabs = [any("\t" in indent for indent in side) for side in (olds, files, new)]
        if any(new) and tabs[0] != tabs[1] and tabs[2] == tabs[0]:
            return False  # tabs or spaces tell whose indentation it is
        if all(indent in olds for indent in new):
            return False
        if all(indent in files for indent in new):
            return True
        return None
    # What they share was moved, into a block that the new text begins with.
    wrapped = not closes and all(len(n) > len(first) for _, n, _ in common)
    wrapped = wrapped and min((len(o) for o, _, _ in common), default=0) == len(first)
    if first == old and (wrapped or not common):
        return False
    return None
