"""What the tools know of text: decoding, line ends, near lines, diffs.

Nothing here touches a file.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from heapq import nlargest
from itertools import islice
from operator import itemgetter

from hilum import ToolError

BOM = "\ufeff"
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_WORD = re.compile(r"\w+")
_NUMBERED = re.compile(r"\s*\d+ \| ")


def show(name: str) -> str:
    """Write a file name so that it stays on one line and can be encoded: odd characters become
    escapes.
    """
    return name if name.isprintable() else repr(name)


def check_text(data: bytes, path: str, size: int) -> None:
    """Refuse what is plainly not UTF-8 text.

    Args:
        data: The beginning of the file.
        path: Its name, to show.
        size: Its size in bytes, to tell.

    Raises:
        ToolError: It is UTF-16, or binary.
    """
    if data.startswith(_UTF16):
        raise ToolError(
            f"{show(path)} is UTF-16 text, not UTF-8.", hint="Convert it with a command (iconv)."
        )
    if b"\0" in data:
        raise ToolError(
            f"{show(path)} is a binary file of {size:,} bytes.",
            hint="It has no text to read or edit.",
        )


def not_utf8(path: str, line: int, byte: int) -> ToolError:
    """Build the error for text in another encoding; ``line`` counts from 1."""
    return ToolError(
        f"{show(path)} is not UTF-8 text: line {line} has the byte 0x{byte:02x}.",
        hint=(
            "It may be Latin-1 or Windows-1252; convert it with a command (iconv) if its text is"
            " needed."
        ),
    )


def decode(data: bytes, path: str) -> str:
    """Decode a whole file; a byte order mark stays as its first character.

    Raises:
        ToolError: It is binary, or in another encoding.
    """
    check_text(data[:8192], path, len(data))
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise not_utf8(path, data.count(b"\n", 0, error.start) + 1, data[error.start]) from None


def encode(text: str, parameter: str) -> bytes:
    """Encode text that a model wrote.

    ``parameter`` is named when it holds half of a surrogate pair.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ToolError(
            f"{parameter} has an invalid character at {error.start}: {error.object[error.start]!r}."
        ) from None


def with_newlines(text: str, newline: str) -> str:
    """Return a text with other line ends."""
    text = text.replace("\r\n", "\n")
    if newline == "\n":
        return text
    return text.replace("\n", newline)


def nearest(text: str, wanted: str, most: int = 12) -> tuple[list[str], bool]:
    """Find the lines of a text that look most like some wanted lines.

    Args:
        text: Where to look.
        wanted: What was not found.
        most: Most lines to give.

    Returns:
        The lines, numbered, and whether they differ from what was wanted in white space only.
    """
    lines = text.split("\n")
    bare = [line.strip() for line in lines]
    looked_for = [line.strip() for line in wanted.strip("\n").split("\n")]
    where: dict[str, list[int]] = {}
    for number, line in enumerate(bare):
        where.setdefault(line, []).append(number)
    votes: Counter[int] = Counter()  # for the line at which the wanted text would begin
    for index, line in enumerate(looked_for[:1000]):
        for number in where.get(line, ())[:200] if line else ():
            votes[number - index] += len(line)
    anchor = max(looked_for, key=lambda line: 0 if line in where else len(line))
    for near, weight in _alike_lines(anchor, islice(where, 20_000)) if anchor not in where else ():
        for number in where[near][:200]:
            votes[number - looked_for.index(anchor)] += weight
    if not votes:
        return [], False
    begin = max(votes.most_common(1)[0][0], 0)
    end = min(begin + len(looked_for), len(lines))
    # With the white space at their ends: it may be all that differs.
    shown = [
        f"{n + 1} | {lines[n].removesuffix(chr(13))[:200]}"
        for n in range(begin, min(end, begin + most))
    ]
    return shown, bare[begin:end] == looked_for


def _alike_lines(wanted: str, lines: Iterable[str]) -> list[tuple[str, int]]:
    """Return the lines most like a wanted one, best first, and what each counts: words that it
    shares, then its letters.
    """
    from difflib import SequenceMatcher  # 2 ms, only where something is missing

    words = set(_WORD.findall(wanted[:500]))
    shared = [(len(words.intersection(_WORD.findall(line[:500]))), line) for line in lines]
    matcher = SequenceMatcher(None, "", wanted[:500])
    found: list[tuple[float, str]] = []
    for count, line in nlargest(8, (pair for pair in shared if pair[0]), key=itemgetter(0)):
        matcher.set_seq1(line[:500])
        ratio = matcher.ratio()
        if ratio >= 0.6:
            found.append((ratio + count / len(words), line))
    found.sort(key=itemgetter(0), reverse=True)
    return [(line, round(len(wanted) * likeness)) for likeness, line in found[:3]]


def is_numbered(text: str) -> bool:
    """Return whether every line begins like ``12 | ``, as ``read_file`` shows it."""
    return all(_NUMBERED.match(line) for line in text.strip("\n").split("\n"))


def unified_diff(path: str, before: str, after: str, context: int = 3) -> str:
    """Write a unified diff of one file; ``before`` is empty for a new one.

    What begins and ends alike is cut off first, so that the cost is that of the change and not of
    the file. A change of more than two thousand lines is shown as one block.
    """
    from difflib import SequenceMatcher  # 2 ms, with the first file that is changed

    old = _lines(before)
    new = _lines(after)
    head = _alike(old, new)
    tail = _alike(old[head:][::-1], new[head:][::-1])
    skip = max(head - context, 0)
    keep = max(tail - context, 0)
    a = old[skip : len(old) - keep]
    b = new[skip : len(new) - keep]
    if len(a) + len(b) > 2000:
        begin = head - skip
        left = tail - keep
        same = [("equal", 0, begin, 0, begin)] if begin else []
        last = [("equal", len(a) - left, len(a), len(b) - left, len(b))] if left else []
        groups = [[*same, ("replace", begin, len(a) - left, begin, len(b) - left), *last]]
    else:
        groups = list(SequenceMatcher(None, a, b).get_grouped_opcodes(context))
    body = "".join(line for group in groups for line in _hunk(a, b, group, skip))
    if body:
        return f"--- {'a/' + path if before else '/dev/null'}\n+++ b/{path}\n{body}"
    return ""


def _lines(text: str) -> list[str]:
    lines = [line + "\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    if last:
        return [*lines, last + "\n\\ No newline at end of file\n"]
    return lines


def _alike(a: Sequence[str], b: Sequence[str]) -> int:
    return next(
        (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )


def _hunk(
    a: list[str], b: list[str], group: Sequence[tuple[str, int, int, int, int]], skip: int
) -> Iterator[str]:
    a1 = group[0][1]
    a2 = group[-1][2]
    b1 = group[0][3]
    b2 = group[-1][4]
    yield f"@@ -{_range(a1 + skip, a2 - a1)} +{_range(b1 + skip, b2 - b1)} @@\n"
    for kind, i1, i2, j1, j2 in group:
        if kind == "equal":
            yield from (" " + line for line in a[i1:i2])
        else:
            yield from ("-" + line for line in a[i1:i2])
            yield from ("+" + line for line in b[j1:j2])


def _range(start: int, length: int) -> str:
    return f"{start + 1 if length else start},{length}"
