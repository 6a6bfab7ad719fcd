"""Formats unified diffs for the terminal with line numbers, colors and marks on changed words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

import attrs
from hilum_view.formatting import HUNK_HEADER

from hilum_terminal.styles import Style, Theme
from hilum_terminal.text_width import cells, cut, escape_text, one_line, split_columns

LineKind = Literal["context", "added", "removed", "note", "section"]
MIN_NUMBERED_WIDTH = 60
"""Minimum width, in columns, at which rows have line numbers."""
MAX_LINE = 10_000
"""Maximum number of characters to show from one line."""
MAX_PAIRED_LINE = 500
"""Maximum length, in characters, of lines whose words are compared."""
MAX_PAIRS = 200
"""Maximum number of pairs of lines whose words are compared in one diff."""
PAIR_WINDOW = 8
"""Number of added lines to search for the counterpart of a removed line."""
MIN_SIMILARITY = 0.5
"""Minimum share of equal characters in two lines for their words to be compared."""
TAB = 4
MARKS: dict[LineKind, str] = {"added": "+", "removed": "-"}
NO_NEWLINE = "(no newline at the end of the file)"
# The parts of a name like `old_name` are compared separately.
_WORD = re.compile(r"[^\W_]+|_+|\s+|[^\w\s]")
# The first characters of the lines in a hunk; some programs remove the space before an empty line.
_SIGNS = ("+", "-", " ", "\\", "")
_TRAILING_SPACE = re.compile(r"[ \t]+\Z")
_WORD_STYLES: dict[LineKind, Style] = {"added": "added_word", "removed": "removed_word"}
_LINE_STYLES: dict[LineKind, Style] = {"added": "added", "removed": "removed"}
# Git's lines between the name of a file and its first hunk.
_GIT_STATES = (
    ("new file mode", "new file"),
    ("deleted file mode", "deleted"),
    ("GIT binary patch", "binary, not shown"),
)

Spans = list[tuple[int, int]]
"""Character ranges of the changed words in a line."""


@attrs.define
class DiffLine:
    """One line of a hunk.

    Attributes:
        kind: Kind of the line; a ``section`` begins a hunk.
        text: Text of the line as it is in the diff, without the sign.
        number: Line number in the new file or, for a removed line, in the old file; 0 for none.
    """

    kind: LineKind
    text: str
    number: int = 0


@attrs.define
class DiffFile:
    """The changes to one file.

    Attributes:
        name: Path of the file; empty if the diff does not name the file.
        state: Any change to the file itself, such as ``new file``.
        lines: The lines of all hunks.
    """

    name: str = ""
    state: str = ""
    lines: list[DiffLine] = attrs.Factory(list)

    def count(self, kind: LineKind) -> int:
        """Return the number of lines of a kind."""
        return sum(1 for line in self.lines if line.kind == kind)


def diff_rows(
    diff: str,
    *,
    width: int,
    theme: Theme,
    max_rows: int = 0,
    numbers: bool = True,
    header: bool = True,
    hint: str = "",
    context: bool = True,
) -> list[str]:
    """Return the rows for a unified diff.

    Args:
        diff: The diff, which is untrusted text from a tool.
        width: Available width in columns.
        theme: The styles.
        max_rows: Maximum number of rows, 0 for all. With a limit, each line takes one row; the last
            row says how many rows are left out; without one, long lines are wrapped.
        numbers: Whether to show line numbers if there is enough room.
        header: Whether to begin each file with its name and the numbers of changed lines.
        hint: How to see the rows that are left out, for example the name of a key.
        context: Whether to show the unchanged lines.
    """
    files = parse_diff(diff)
    if not context:
        for file in files:
            file.lines = [line for line in file.lines if line.kind != "context"]
    has_numbers = numbers and width >= MIN_NUMBERED_WIDTH
    total = sum(len(file.lines) + header for file in files)
    shown = total
    if max_rows and total > max_rows:
        shown = max(max_rows - 1, 0)
    painter = _Painter(theme, width, has_numbers, is_wrapped=not max_rows)
    rows: list[str] = []
    for file in files:
        if max_rows and len(rows) >= shown:
            break
        if header:
            rows.append(_file_row(file, width, theme))
        rows += painter.paint_lines(file, shown - len(rows) if max_rows else 0)
    left = total - shown
    if left > 0:
        rows.append(_left_row(left, hint, width, theme))
    return rows


def _left_row(left: int, hint: str, width: int, theme: Theme) -> str:
    noun = "row" if left == 1 else "rows"
    more = f"… {left:,} more {noun}"
    return theme.paint(cut(f"{more} ({hint})" if hint else more, width), "dim")


# --- reading a diff -------------------------------------------------------------------------------


def parse_diff(diff: str) -> list[DiffFile]:
    """Parse a unified diff, such as one from Git, and return its files.

    Text that is not part of a diff is kept as lines without a number.
    """
    reader = _DiffReader()
    # In a diff, only newlines end lines; other separators are part of a line.
    lines = diff.split("\n")
    if lines[-1] == "":
        lines.pop()
    for line in lines:
        reader.read(line)
    return reader.files


class _DiffReader:
    """A reader that parses a diff line by line.

    Attributes:
        files: The files so far.
    """

    def __init__(self) -> None:
        self.files: list[DiffFile] = []
        # Whether the current file has a hunk, so that the next header begins another file.
        self._has_hunk = True
        self._old = 0
        self._new = 0
        self._old_left = 0
        self._new_left = 0

    def read(self, line: str) -> None:
        """Read a line."""
        is_change = line[:1] in _SIGNS
        if is_change and (self._old_left > 0 or self._new_left > 0):
            self._read_change(line)
            return
        # Any other line ends a hunk, even a hunk that is shorter than its header says.
        self._old_left = 0
        self._new_left = 0
        if line.startswith("\\") and self.files:
            self.files[-1].lines.append(DiffLine("note", NO_NEWLINE))
        elif not self._read_header(line):
            self._file().lines.append(DiffLine("context", line))

    def _file(self) -> DiffFile:
        if not self.files:
            self.files.append(DiffFile())
        return self.files[-1]

    def _begin_file(self) -> DiffFile:
        self.files.append(DiffFile())
        self._has_hunk = False
        return self.files[-1]

    def _read_change(self, line: str) -> None:
        """Read a line of a hunk, whose end is known from the sizes in its header."""
        lines = self.files[-1].lines
        sign = line[:1]
        if sign == "+":
            lines.append(DiffLine("added", line[1:], self._new))
        elif sign == "-":
            lines.append(DiffLine("removed", line[1:], self._old))
        elif sign == "\\":
            lines.append(DiffLine("note", NO_NEWLINE))
        else:
            lines.append(DiffLine("context", line[1:], self._new))
        if sign not in ("+", "\\"):
            self._old += 1
            self._old_left -= 1
        if sign not in ("-", "\\"):
            self._new += 1
            self._new_left -= 1

    def _read_header(self, line: str) -> bool:
        """Read a line between hunks, and return whether it is part of a diff."""
        hunk = HUNK_HEADER.match(line)
        if hunk:
            self._begin_hunk(hunk)
            return True
        if line.startswith("diff --git "):
            self._begin_file().name = _clean_name(line.rpartition(" b/")[2] or line[11:])
            return True
        if line.startswith("--- "):
            file = self._begin_file() if self._has_hunk else self._file()
            if line[4:].startswith("/dev/null"):
                file.state = "new file"
            else:
                file.name = _clean_name(line[4:])
            return True
        if line.startswith("+++ "):
            self._read_new_name(line[4:])
            return True
        return self._read_git_line(line)

    def _begin_hunk(self, hunk: re.Match[str]) -> None:
        file = self._file()
        self._has_hunk = True
        self._old = int(hunk["old"])
        self._new = int(hunk["new"])
        self._old_left = int(hunk["old_size"] or 1)
        self._new_left = int(hunk["new_size"] or 1)
        section = hunk["section"].strip()
        # The first hunk needs no separator.
        if file.lines or section:
            file.lines.append(DiffLine("section", section))

    def _read_new_name(self, name: str) -> None:
        file = self._file()
        if name.startswith("/dev/null"):
            file.state = "deleted"
        else:
            file.name = _clean_name(name)

    def _read_git_line(self, line: str) -> bool:
        """Read one of the lines that Git writes before the first hunk of a file."""
        # Only a diff that begins with a line from Git contains these lines.
        if not self.files or self._has_hunk:
            return self._read_binary(line)
        file = self.files[-1]
        for start, state in _GIT_STATES:
            if line.startswith(start):
                file.state = state
                return True
        if line.startswith(("rename from ", "copy from ")):
            verb = "renamed" if line.startswith("rename") else "copied"
            file.state = f"{verb} from {_clean_name(line.partition(' from ')[2], prefix=False)}"
            return True
        if line.startswith(("rename to ", "copy to ")):
            file.name = _clean_name(line.partition(" to ")[2], prefix=False)
            return True
        if line.startswith(("index ", "similarity index ", "old mode ", "new mode ")):
            return True
        return self._read_binary(line)

    def _read_binary(self, line: str) -> bool:
        found = re.fullmatch(r"Binary files (.+) and (.+) differ", line)
        if found is None:
            return False
        file = self._begin_file() if self._has_hunk else self._file()
        name = found[1] if found[2] == "/dev/null" else found[2]
        file.name = file.name or _clean_name(name)
        file.state = "binary, not shown"
        return True


def _clean_name(name: str, *, prefix: bool = True) -> str:
    """Return the path in a header, without the timestamp, quotes and prefix."""
    path = name.partition("\t")[0].strip()
    if len(path) > 1 and path.startswith('"') and path.endswith('"'):
        path = path[1:-1]
    if prefix and path.startswith(("a/", "b/")):
        path = path[2:]
    return path


# --- words ----------------------------------------------------------------------------------------


class _Shown(NamedTuple):
    """A line in its displayed form.

    Args:
        text: The text, escaped, with tabs expanded.
        spans: The changed words.
    """

    text: str
    spans: Spans


def changed_words(old: str, new: str) -> tuple[Spans, Spans]:
    """Return the changed ranges of two similar lines; none if they are too different.

    Args:
        old: The line before the change, in its displayed form.
        new: The line after the change.
    """
    if len(old) > MAX_PAIRED_LINE or len(new) > MAX_PAIRED_LINE:
        return [], []
    old_words = _WORD.findall(old)
    new_words = _WORD.findall(new)
    matcher = SequenceMatcher(None, old_words, new_words, autojunk=False)
    old_spans: Spans = []
    new_spans: Spans = []
    equal = 0
    old_place = 0
    new_place = 0
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        old_text = "".join(old_words[start:end])
        new_text = "".join(new_words[new_start:new_end])
        if tag == "equal":
            equal += len(old_text.strip())
        else:
            _add_span(old_spans, old_place, old_place + len(old_text), old)
            _add_span(new_spans, new_place, new_place + len(new_text), new)
        old_place += len(old_text)
        new_place += len(new_text)
    longest = max(len(old.strip()), len(new.strip()))
    if longest and equal < MIN_SIMILARITY * longest:
        return [], []
    return old_spans, new_spans


def _add_span(spans: Spans, start: int, end: int, text: str) -> None:
    """Add a range, merged with the previous one if only blanks separate them."""
    if start == end:
        return
    if spans and not text[spans[-1][1] : start].strip():
        spans[-1] = (spans[-1][0], end)
    else:
        spans.append((start, end))


def _pair_lines(
    removed: Sequence[DiffLine], added: Sequence[DiffLine]
) -> Iterator[tuple[int, int]]:
    """Yield the indexes of removed lines and of the added lines that replace them.

    The cost is proportional to the number of lines: each removed line is compared with only a few
    added lines, by the words that they have in common.
    """
    if len(removed) == len(added):
        yield from zip(range(len(removed)), range(len(added)), strict=True)
        return
    added_words = [_count_words(line.text) for line in added]
    place = 0
    for number, line in enumerate(removed):
        words = _count_words(line.text)
        best = MIN_SIMILARITY
        found = -1
        for candidate in range(place, min(place + PAIR_WINDOW, len(added))):
            similarity = _similarity(words, added_words[candidate])
            if similarity > best:
                best = similarity
                found = candidate
        if found >= 0:
            yield number, found
            place = found + 1


def _count_words(text: str) -> Counter[str]:
    if len(text) > MAX_PAIRED_LINE:
        return Counter()
    return Counter(word for word in _WORD.findall(text) if not word.isspace())


def _similarity(first: Counter[str], second: Counter[str]) -> float:
    """Return the share of equal words, from 0 to 1."""
    total = first.total() + second.total()
    if not total:
        return 0.0
    return 2 * (first & second).total() / total


# --- painting -------------------------------------------------------------------------------------


@attrs.define
class _Painter:
    """A formatter that turns the lines of files into colored rows.

    Attributes:
        theme: The styles.
        width: Available width in columns.
        has_numbers: Whether rows begin with line numbers.
        is_wrapped: Whether long lines are wrapped.
        pairs_left: Number of pairs of lines that may still be compared word by word.
    """

    theme: Theme
    width: int
    has_numbers: bool
    is_wrapped: bool
    pairs_left: int = MAX_PAIRS

    def paint_lines(self, file: DiffFile, max_rows: int) -> Iterator[str]:
        """Yield the rows of a file's lines.

        Args:
            file: The file.
            max_rows: Maximum number of lines, 0 for all.
        """
        lines = file.lines[:max_rows] if max_rows else file.lines
        gutter = 0
        if self.has_numbers:
            highest = max((line.number for line in lines), default=0)
            gutter = max(len(str(highest)), 4) + 1
        # If all lines in a file end with CRLF, the carriage returns are not a change.
        changed = [line for line in file.lines if line.number]
        shows_cr = not all(line.text.endswith("\r") for line in changed)
        place = 0
        while place < len(lines):
            if lines[place].kind in ("added", "removed"):
                end = place
                while end < len(lines) and lines[end].kind in ("added", "removed", "note"):
                    end += 1
                yield from self._paint_change(lines[place:end], gutter, shows_cr=shows_cr)
                place = end
            else:
                yield from self._paint_line(lines[place], _show_line(lines[place]), gutter)
                place += 1

    def _paint_change(self, lines: list[DiffLine], gutter: int, *, shows_cr: bool) -> Iterator[str]:
        """Yield the rows for adjacent removed and added lines."""
        shown = {id(line): _show_line(line, shows_cr=shows_cr) for line in lines}
        removed = [line for line in lines if line.kind == "removed"]
        added = [line for line in lines if line.kind == "added"]
        for old_index, new_index in _pair_lines(removed, added):
            if self.pairs_left <= 0:
                break
            self.pairs_left -= 1
            old = removed[old_index]
            new = added[new_index]
            if shown[id(old)].text == shown[id(new)].text and old.text != new.text:
                # The two lines differ only in tabs and spaces.
                shown[id(old)] = _show_line(old, shows_cr=shows_cr, shows_tabs=True)
                shown[id(new)] = _show_line(new, shows_cr=shows_cr, shows_tabs=True)
            old_spans, new_spans = changed_words(shown[id(old)].text, shown[id(new)].text)
            shown[id(old)] = shown[id(old)]._replace(spans=old_spans)
            shown[id(new)] = shown[id(new)]._replace(spans=new_spans)
        for line in lines:
            yield from self._paint_line(line, shown[id(line)], gutter)

    def _paint_line(self, line: DiffLine, shown: _Shown, gutter: int) -> Iterator[str]:
        """Yield the rows of one line."""
        number = str(line.number) if line.number else ""
        prefix = self.theme.paint(f"{number:>{gutter - 1}} ", "dim") if gutter else ""
        if line.kind in ("note", "section"):
            text = shown.text if line.kind == "note" else f"⋮ {shown.text}".rstrip()
            yield prefix + self.theme.paint(cut(text, self.width - gutter), "dim")
            return
        mark = MARKS.get(line.kind, " ")
        room = max(self.width - gutter - 2, 1)
        for begin, end, ending in self._split(shown.text, room):
            painted = self._paint_part(line.kind, mark, shown, begin, end, ending)
            yield cut(prefix + painted, self.width)
            # Only the first row has the number, but all rows have the sign, because without colors
            # nothing else shows what kind of line a row belongs to.
            prefix = " " * gutter

    def _paint_part(
        self, kind: LineKind, mark: str, shown: _Shown, begin: int, end: int, ending: str
    ) -> str:
        """Return the part of a line that fits in one row, with its sign."""
        if kind == "context":
            return self.theme.paint(f"{mark} {shown.text[begin:end]}{ending}".rstrip(), "dim")
        pieces = [f"{mark} "]
        place = begin
        for start, stop in shown.spans:
            left = min(max(start, begin), end)
            right = min(max(stop, begin), end)
            if left < right:
                pieces.append(shown.text[place:left])
                pieces.append(self.theme.paint(shown.text[left:right], _WORD_STYLES[kind]))
                place = right
        pieces.append(shown.text[place:end])
        pieces.append(ending)
        return self.theme.paint("".join(pieces), _LINE_STYLES[kind])

    def _split(self, text: str, room: int) -> Iterator[tuple[int, int, str]]:
        """Yield the start and end of each displayed part of a line, and a mark for omitted text."""
        if cells(text) <= room:
            yield 0, len(text), ""
            return
        if not self.is_wrapped:
            _, end = next(split_columns(text, max(room - 1, 0)))
            yield 0, end, "…"
            return
        for begin, end in split_columns(text, room):
            yield begin, end, ""


def _show_line(line: DiffLine, *, shows_cr: bool = False, shows_tabs: bool = False) -> _Shown:
    """Return a line in its displayed form.

    Args:
        line: The line.
        shows_cr: Whether to show a carriage return at the end.
        shows_tabs: Whether to show tabs as arrows.
    """
    text = line.text
    ending = ""
    if text.endswith("\r"):
        text = text[:-1]
        ending = "␍" if shows_cr else ""
    left_out = len(text) - MAX_LINE
    if left_out > 0:
        text = text[:MAX_LINE]
        ending = f" … ({left_out:,} more characters)"
    text = escape_text(text)
    if line.kind in ("added", "removed"):
        text = _TRAILING_SPACE.sub(_show_space, text)
    if shows_tabs:
        text = text.replace("\t", "→\t")
    return _Shown(text.expandtabs(TAB) + ending, [])


def _show_space(match: re.Match[str]) -> str:
    return match[0].replace(" ", "·").replace("\t", "→")


def _file_row(file: DiffFile, width: int, theme: Theme) -> str:
    """Return the row with a file's name and the numbers of changed lines."""
    added = file.count("added")
    removed = file.count("removed")
    # A renamed or binary file may have no changed lines.
    counts = format_counts(added, removed) if added or removed else ""
    state = one_line(file.state, width)
    ending = "  ".join(filter(None, (counts, state)))
    name = one_line(file.name, 4_000) or "changes"
    room = max(width - cells(ending) - 2, width // 3)
    row = theme.paint(cut(name, room), "bold")
    if counts:
        row += "  " + paint_counts(added, removed, theme)
    if state:
        row += "  " + theme.paint(state, "dim")
    return cut(row, width)


def format_counts(added: int, removed: int) -> str:
    """Return the numbers of added and removed lines, such as ``+3 −1``."""
    return f"+{added:,} −{removed:,}"


def paint_counts(added: int, removed: int, theme: Theme) -> str:
    """Return the numbers of added and removed lines as colored text."""
    good = theme.paint(f"+{added:,}", "good")
    bad = theme.paint(f"−{removed:,}", "bad")
    return f"{good} {bad}"
