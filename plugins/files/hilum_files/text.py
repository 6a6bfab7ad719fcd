"""Decodes and compares file text: encodings, line endings, similar lines and diffs."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from heapq import nlargest
from itertools import islice
from operator import itemgetter

from hilum import ToolError

BOM = "\ufeff"
MAX_DIFF_LINES = 2000
"""Maximum number of changed lines that a diff compares one by one."""
MAX_SEARCHED_LINES = 1000
MAX_COMPARED_LINES = 20_000
# A line that occurs this often, such as a closing bracket, does not show where the text begins.
MAX_OCCURRENCES = 200
MAX_CHARACTERS = 500
"""Maximum number of characters to compare in a line."""
MIN_LIKENESS = 0.6
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_WORD = re.compile(r"\w+")
_NUMBERED = re.compile(r"\s*\d+ \| ")


def show(name: str) -> str:
    """Return a file name as one encodable line, with unusual characters escaped."""
    return name if name.isprintable() else repr(name)


def quote(name: str) -> str:
    """Return a quoted file name as one line, with unusual characters escaped."""
    return f"'{name}'" if name.isprintable() else repr(name)


def check_text(data: bytes, path: str, size: int) -> None:
    """Check that a file is neither binary nor UTF-16 text, as far as its beginning shows.

    Args:
        data: The first bytes of the file.
        path: The file's name, for the message.
        size: The file's size in bytes, for the message.

    Raises:
        ToolError: The file contains UTF-16 text or is binary.
    """
    # UTF-16 text contains null bytes, so the check below would treat it as binary.
    if data.startswith(_UTF16):
        raise ToolError(
            f"{show(path)} is UTF-16 text, not UTF-8.", hint="Convert it with a command (iconv)."
        )
    if b"\0" in data:
        raise ToolError(
            f"{show(path)} is a binary file of {size:,} bytes.",
            hint="It contains no text to read or edit.",
        )


def encoding_error(path: str, line: int, byte: int) -> ToolError:
    """Create the error for text in another encoding; ``line`` is 1-based."""
    return ToolError(
        f"{show(path)} is not UTF-8 text: line {line} has the byte 0x{byte:02x}.",
        hint=(
            "It may be Latin-1 or Windows-1252; convert it with a command (iconv) if its text is"
            " needed."
        ),
    )


def decode(data: bytes, path: str) -> str:
    """Decode a whole file, keeping a byte order mark as the first character.

    Raises:
        ToolError: The file is binary, or in another encoding.
    """
    check_text(data[:8192], path, len(data))
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise encoding_error(path, line, data[error.start]) from None


def encode(text: str, parameter: str) -> bytes:
    """Encode text from a model as UTF-8.

    Args:
        text: The text.
        parameter: The parameter that contains the text, for the message.

    Raises:
        ToolError: The text contains a lone surrogate.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ToolError(
            f"{parameter} contains an invalid character at {error.start}:"
            f" {error.object[error.start]!r}."
        ) from None


def with_newlines(text: str, newline: str) -> str:
    """Return the text with the given line endings."""
    text = text.replace("\r\n", "\n")
    if newline == "\n":
        return text
    return text.replace("\n", newline)


# --- similar lines --------------------------------------------------------------------------------


def find_nearest(text: str, wanted: str, limit: int = 12) -> tuple[list[str], bool]:
    """Find the lines of a text that are most similar to the wanted lines.

    Args:
        text: The text.
        wanted: The lines that were not found.
        limit: Maximum number of lines to return.

    Returns:
        The numbered lines, and whether they differ from the wanted ones only in whitespace.
    """
    lines = text.split("\n")
    stripped = [line.strip() for line in lines]
    wanted_lines = [line.strip() for line in wanted.strip("\n").split("\n")]
    begin = _find_begin(stripped, wanted_lines)
    if begin is None:
        return [], False
    end = min(begin + len(wanted_lines), len(lines))
    shown: list[str] = []
    for index in range(begin, min(end, begin + limit)):
        # Trailing whitespace is kept, because it may be the only difference.
        line = lines[index].removesuffix("\r")
        shown.append(f"{index + 1} | {line[:200]}")
    return shown, stripped[begin:end] == wanted_lines


def _find_begin(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    """Return the index of the line at which the wanted lines most likely begin.

    Each shared line votes for a start index, weighted by its number of characters.
    """
    indexes: dict[str, list[int]] = {}
    for index, line in enumerate(lines):
        indexes.setdefault(line, []).append(index)
    votes: Counter[int] = Counter()
    # Long lines are rarer than short ones, so they count more.
    for offset, line in enumerate(wanted[:MAX_SEARCHED_LINES]):
        if line:
            for index in indexes.get(line, ())[:MAX_OCCURRENCES]:
                votes[index - offset] += len(line)
    # The lines that are similar to the longest missing line vote in its place.
    missing = [line for line in wanted if line not in indexes]
    if missing:
        anchor = max(missing, key=len)
        offset = wanted.index(anchor)
        for line, weight in _find_similar_lines(anchor, islice(indexes, MAX_COMPARED_LINES)):
            for index in indexes[line][:MAX_OCCURRENCES]:
                votes[index - offset] += weight
    if not votes:
        return None
    [(start, _)] = votes.most_common(1)
    return max(start, 0)


def _find_similar_lines(wanted: str, lines: Iterable[str]) -> list[tuple[str, int]]:
    """Return the lines most similar to a wanted one and their weights, best first.

    Only lines that share words are compared character by character, which takes much longer.
    """
    from difflib import SequenceMatcher  # the import takes 2 ms

    words = _words_of(wanted)
    common_words = ((len(words & _words_of(line)), line) for line in lines)
    candidates = [candidate for candidate in common_words if candidate[0]]
    matcher = SequenceMatcher(None, "", wanted[:MAX_CHARACTERS])
    found: list[tuple[float, str]] = []
    for common, line in nlargest(8, candidates, key=itemgetter(0)):
        matcher.set_seq1(line[:MAX_CHARACTERS])
        ratio = matcher.ratio()
        if ratio >= MIN_LIKENESS:
            found.append((ratio + common / len(words), line))
    found.sort(key=itemgetter(0), reverse=True)
    return [(line, round(len(wanted) * likeness)) for likeness, line in found[:3]]


def _words_of(line: str) -> set[str]:
    return set(_WORD.findall(line[:MAX_CHARACTERS]))


def is_numbered(text: str) -> bool:
    """Return whether every line begins like ``12 | ``, as in the output of ``read_file``."""
    return all(_NUMBERED.match(line) for line in text.strip("\n").split("\n"))


# --- diffs ----------------------------------------------------------------------------------------

_Group = Sequence[tuple[str, int, int, int, int]]
"""The opcodes of one hunk, as in ``difflib``."""


def unified_diff(path: str, before: str, after: str, context: int = 3) -> str:
    """Return a unified diff of one file; ``before`` is empty for a new file.

    A change to more than 2,000 lines is shown as one block.
    """
    old = _diff_lines(before)
    new = _diff_lines(after)
    # Equal leading and trailing lines are removed first, so that the cost depends on the size of
    # the change and not on that of the file.
    head, tail = count_equal_ends(old, new)
    skip = max(head - context, 0)
    keep = max(tail - context, 0)
    old = old[skip : len(old) - keep]
    new = new[skip : len(new) - keep]
    hunks: list[str] = []
    for group in _group_changes(old, new, head - skip, tail - keep, context):
        hunks += _format_hunk(old, new, group, skip)
    if not hunks:
        return ""
    source = f"a/{path}" if before else "/dev/null"
    return f"--- {source}\n+++ b/{path}\n{''.join(hunks)}"


def _group_changes(
    old: list[str], new: list[str], head: int, tail: int, context: int
) -> Iterable[_Group]:
    """Return the opcodes of each hunk.

    Args:
        old: The old lines around the change.
        new: The new lines around the change.
        head: Number of equal leading lines.
        tail: Number of equal trailing lines.
        context: Number of lines around each change.
    """
    from difflib import SequenceMatcher  # the import takes 2 ms

    # difflib may take quadratic time.
    if len(old) + len(new) <= MAX_DIFF_LINES:
        return SequenceMatcher(None, old, new).get_grouped_opcodes(context)
    old_stop = len(old) - tail
    new_stop = len(new) - tail
    group = [("replace", head, old_stop, head, new_stop)]
    if head:
        group.insert(0, ("equal", 0, head, 0, head))
    if tail:
        group.append(("equal", old_stop, len(old), new_stop, len(new)))
    return [group]


def _diff_lines(text: str) -> list[str]:
    lines = text.split("\n")
    last = lines.pop()
    ended = [f"{line}\n" for line in lines]
    if last:
        ended.append(f"{last}\n\\ No newline at end of file\n")
    return ended


def count_equal_ends(a: Sequence[Hashable], b: Sequence[Hashable]) -> tuple[int, int]:
    """Return the number of equal items at the beginning and at the end of two sequences.

    No item is counted twice.
    """
    head = _count_equal(a, b)
    tail = _count_equal(a[head:][::-1], b[head:][::-1])
    return head, tail


def _count_equal(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    count = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        count += 1
    return count


def _format_hunk(old: list[str], new: list[str], group: _Group, skip: int) -> Iterator[str]:
    """Yield the lines of a hunk.

    Args:
        old: The old lines.
        new: The new lines.
        group: The opcodes of the hunk.
        skip: Number of lines in the file before ``old`` and ``new``.
    """
    _, old_start, _, new_start, _ = group[0]
    _, _, old_stop, _, new_stop = group[-1]
    old_range = _format_range(old_start + skip, old_stop - old_start)
    new_range = _format_range(new_start + skip, new_stop - new_start)
    yield f"@@ -{old_range} +{new_range} @@\n"
    for kind, i1, i2, j1, j2 in group:
        if kind == "equal":
            yield from (f" {line}" for line in old[i1:i2])
        else:
            yield from (f"-{line}" for line in old[i1:i2])
            yield from (f"+{line}" for line in new[j1:j2])


def _format_range(start: int, length: int) -> str:
    # In the unified format, an empty range contains the number of the preceding line.
    return f"{start + 1 if length else start},{length}"
