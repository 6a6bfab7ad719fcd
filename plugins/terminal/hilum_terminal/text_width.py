"""Measures, truncates and wraps text in terminal columns, and escapes untrusted text.

A *row* is a string for one line of the terminal. A row may contain color sequences (SGR), but
nothing else that a terminal would interpret.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator

import wcwidth
from hilum.command import escape_terminal
from wcwidth.table_zero import ZERO_WIDTH

ELLIPSIS = "…"
RESET = "\x1b[0m"
TAB_SIZE = 4
# Narrower texts are truncated at the end only.
MIN_CUT_MIDDLE = 20
# No script stacks more combining marks on one letter. More marks would be drawn over the rows above
# and below, and some terminals need seconds for a letter with thousands of marks.
MAX_MARKS = 8

_COLOR = re.compile(r"\x1b\[[0-9;:]*m")
_RESET_COLOR = re.compile(r"\x1b\[0*m")
_LINE_END = re.compile(r"\r\n|\r(?=\n)")

# A zero-width joiner between two pictographs forms one emoji, such as a family. Persian words need
# the non-joiner between their letters. Anywhere else, both joiners are escaped, because they could
# hide or change text.
_PICTOGRAPH = "\u2194\u2195\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff"
_JOINED_EMOJI = re.compile(f"(?<=[\ufe0f{_PICTOGRAPH}])\u200d(?=[{_PICTOGRAPH}])")
_ARABIC_LETTER = "\u0620-\u064a\u066e-\u06d3\u06d5\u06ee\u06ef\u06fa-\u06fc\u0750-\u077f"
_ARABIC_NON_JOINER = re.compile(f"(?<=[{_ARABIC_LETTER}])\u200c(?=[{_ARABIC_LETTER}])")
_JOINER_MARK = "\ue000"
_NON_JOINER_MARK = "\ue001"

# Invisible format characters that ``escape_terminal`` does not escape.
_INVISIBLE = re.compile("[\U0001bca0-\U0001bca3\U0001d173-\U0001d17a]")
# A cheap search for possible sequences of marks, which excludes Chinese, Japanese and Korean text,
# because the exact search would take 0.5 µs per character.
_MAYBE_MARKS = re.compile(
    "[\u0300-\u20ff\u2c00-\u2dff\u302a-\u302f\u3099\u309a\ua66f-\uabff\ud7b0-\ud7ff\ufb1e\ufe00-\ufe2f"
    f"\U00010000-\U0001efff]{{{MAX_MARKS + 1},}}"
)

# Lines must not begin with closing punctuation or end with opening punctuation.
_NOT_AT_START = frozenset(
    "、。，．・：；？！）］｝〕〉》」』】〗〙〛’”…‥ー々ぁぃぅぇぉっゃゅょァィゥェォッャュョ%％°,.:;!?)]}"
)
_NOT_AT_END = frozenset("（［｛〔〈《「『【〖〘〚‘“([{")


def escape_text(text: str) -> str:
    """Escape untrusted text, so that a terminal only displays it.

    Color sequences are removed. All other control characters, and characters that change the text
    direction or are invisible, are escaped. Newlines and tabs are kept. At most eight combining
    marks on one letter are kept; further marks are escaped.
    """
    if text.isascii() and text.isprintable():
        return text
    plain = _COLOR.sub("", _LINE_END.sub("\n", text))
    if plain.isascii():
        return escape_terminal(plain)
    plain = _MAYBE_MARKS.sub(_escape_marks, _INVISIBLE.sub(_escape_match, plain))
    if "\u200d" not in plain and "\u200c" not in plain:
        return escape_terminal(plain)
    # The placeholders are private code points; occurrences in the text itself are escaped first.
    plain = plain.replace(_JOINER_MARK, "\\ue000").replace(_NON_JOINER_MARK, "\\ue001")
    marked = _JOINED_EMOJI.sub(_JOINER_MARK, plain)
    marked = _ARABIC_NON_JOINER.sub(_NON_JOINER_MARK, marked)
    escaped = escape_terminal(marked)
    return escaped.replace(_JOINER_MARK, "\u200d").replace(_NON_JOINER_MARK, "\u200c")


def one_line(text: str, width: int = 0) -> str:
    """Return the first nonblank line, escaped, with spaces instead of tabs.

    Args:
        text: Any text.
        width: Maximum number of columns, 0 for no limit.
    """
    first = next((part for part in text.splitlines() if part.strip()), "").strip()
    shown = escape_text(first).replace("\t", " ")
    return cut(shown, width) if width else shown


def only_colors(row: str, width: int) -> str:
    """Reduce a row to text and color sequences, truncated to a number of columns.

    This is the last check of rows that another library has rendered.
    """
    plain = _COLOR.sub("", row)
    if not (plain.isascii() and plain.isprintable()):
        parts = [
            part if _COLOR.fullmatch(part) else escape_text(part).translate(_BLANKS)
            for part in re.split(f"({_COLOR.pattern})", row)
        ]
        row = "".join(parts)
    return cut(row, width)


_BLANKS = str.maketrans({"\t": " ", "\n": " "})


def without_colors(row: str) -> str:
    """Return the text of a row, without color sequences."""
    return _COLOR.sub("", row) if "\x1b" in row else row


def cells(row: str) -> int:
    """Return the number of columns that a row occupies, not counting color sequences."""
    plain = without_colors(row)
    if plain.isascii() and plain.isprintable():
        return len(plain)
    return wcwidth.width(plain, tabsize=1)


def cut(row: str, width: int, ellipsis: str = ELLIPSIS) -> str:
    """Truncate a row to a number of columns, between graphemes (user-perceived characters).

    Args:
        row: The row.
        width: Maximum number of columns.
        ellipsis: Text that replaces the part that was cut off.
    """
    if width <= 0:
        return ""
    if cells(row) <= width:
        return row
    if cells(ellipsis) > width:
        ellipsis = ""
    return _beginning(row, width - cells(ellipsis)) + ellipsis


def cut_middle(text: str, width: int) -> str:
    """Truncate a text without colors to a number of columns, but keep its end.

    The end of a command says as much as its beginning: what it deletes, or where it writes.

    Args:
        text: Escaped text on one line, without color sequences.
        width: Maximum number of columns.
    """
    if cells(text) <= width or width < MIN_CUT_MIDDLE:
        return cut(text, width)
    end_width = width // 3
    kept: list[str] = []
    # No grapheme that fits needs more characters, unless it is full of zero-width marks.
    for grapheme in reversed(list(wcwidth.iter_graphemes(text[-8 * end_width :]))):
        if cells("".join([grapheme, *kept])) > end_width:
            break
        kept.insert(0, grapheme)
    end = "".join(kept)
    return cut(text, width - cells(end)) + end


def pad(row: str, width: int) -> str:
    """Pad a row with spaces to a number of columns."""
    return row + " " * max(width - cells(row), 0)


def wrap(row: str, width: int, indent: str = "") -> list[str]:
    """Wrap a row between words, and between Chinese characters.

    Each row begins with its colors and ends with a reset.

    Args:
        row: The row, without newlines. Tabs are replaced with spaces.
        width: Maximum number of columns; at least two are used.
        indent: Prefix of all rows except the first. The indent is left out if it would take up most
            of the width.
    """
    row = row.expandtabs(TAB_SIZE) if "\t" in row else row
    if cells(row) <= width:
        return [row]
    plain = without_colors(row)
    spans = line_spans(plain, width, _fitting_indent(indent, width))
    parts = [plain[start:end] for start, end in spans]
    if plain is not row:
        parts = _color_parts(row, spans)
    before = indent[: _fitting_indent(indent, width)]
    if before:
        parts[1:] = [before + part for part in parts[1:]]
    return parts


def wrap_text(text: str, width: int, indent: str = "") -> list[str]:
    """Wrap text with several lines, keeping blank lines."""
    rows: list[str] = []
    for part in text.split("\n"):
        rows += wrap(part.rstrip(), width, indent)
    return rows


def split_columns(text: str, room: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of characters in escaped text, each of which fits in a number of columns.

    A character that is too wide has its own range, which the caller truncates.
    """
    if text.isascii():
        for begin in range(0, len(text), max(room, 1)):
            yield begin, min(begin + room, len(text))
        return
    begin = 0
    place = 0
    used = 0
    for grapheme in wcwidth.iter_graphemes(text):
        size = _columns(grapheme)
        if used + size > room and place > begin:
            yield begin, place
            begin = place
            used = 0
        used += size
        place += len(grapheme)
    yield begin, place


def line_spans(text: str, width: int, indent: int = 0) -> list[tuple[int, int]]:
    """Return the start and end of each row of a wrapped text, which has at least one row.

    Blanks between two rows belong to neither row. Words wider than a row are broken.

    Args:
        text: The text, without color sequences, newlines and tabs.
        width: Maximum number of columns of a row; at least two are used.
        indent: Number of columns by which all rows except the first are narrower.
    """
    width = max(width, 2)
    if text.isascii() and text.isprintable():
        return _ascii_spans(text, width, max(width - indent, 2))
    return _grapheme_spans(text, width, max(width - indent, 2))


def _ascii_spans(text: str, first_width: int, width: int) -> list[tuple[int, int]]:
    """Return the spans of the rows of a text whose characters all occupy one column.

    This is a hundred times faster than measuring each character.
    """
    spans: list[tuple[int, int]] = []
    end_of_text = len(text.rstrip(" "))
    start = 0
    room = first_width
    while end_of_text - start > room:
        end = text.rfind(" ", start, start + room + 1)
        next_start = end
        is_only_indentation = not text[start : max(end, start)].strip(" ")
        if end <= start or is_only_indentation:
            end = start + room
            next_start = end
        spans.append((start, start + len(text[start:end].rstrip(" "))))
        while next_start < end_of_text and text[next_start] == " ":
            next_start += 1
        start = next_start
        room = width
    if start < end_of_text or not spans:
        spans.append((start, max(end_of_text, start)))
    return spans


def _grapheme_spans(text: str, first_width: int, width: int) -> list[tuple[int, int]]:
    """Return the spans of the rows of any text."""
    graphemes: list[str] = []
    for grapheme in wcwidth.iter_graphemes(text):
        # A letter followed by a skin tone is too wide for the narrowest row, so the two are
        # separated.
        graphemes += [grapheme] if _columns(grapheme) <= 2 else grapheme
    offsets = [0, *itertools.accumulate(map(len, graphemes))]
    spans: list[tuple[int, int]] = []
    start = 0
    room = first_width
    while start < len(graphemes):
        next_start = _find_row_end(graphemes, start, room)
        end = next_start
        while end > start and graphemes[end - 1] == " ":
            end -= 1
        spans.append((offsets[start], offsets[end]))
        start = next_start
        room = width
    return spans or [(0, 0)]


def _find_row_end(graphemes: list[str], start: int, room: int) -> int:
    """Return the index of the first grapheme of the row after the row that begins at ``start``."""
    used = 0
    break_at = 0
    has_text = False
    previous = ""
    was_wide = False
    for index in range(start, len(graphemes)):
        grapheme = graphemes[index]
        if grapheme == " ":
            used += 1
            previous = grapheme
            was_wide = False
            continue
        columns = _columns(grapheme)
        # Korean text has spaces between words, so it is not broken between characters.
        is_wide = columns == 2 and not _is_hangul(grapheme)
        is_beside_wide = (is_wide or was_wide) and index > start
        is_after_blank = has_text and previous == " "
        if is_after_blank or (is_beside_wide and _may_separate(previous, grapheme)):
            break_at = index
        if used + columns > room and index > start:
            return break_at or index
        used += columns
        has_text = True
        previous = grapheme
        was_wide = is_wide
    return len(graphemes)


def _may_separate(before: str, after: str) -> bool:
    """Return whether a row may end between two characters, one of which is Chinese."""
    return after[0] not in _NOT_AT_START and before[:1] not in _NOT_AT_END


@functools.lru_cache(maxsize=4096)
def _columns(grapheme: str) -> int:
    return wcwidth.width(grapheme, tabsize=1)


def _is_hangul(grapheme: str) -> bool:
    return "\uac00" <= grapheme[0] <= "\ud7ff" or "\u1100" <= grapheme[0] <= "\u11ff"


def _fitting_indent(indent: str, width: int) -> int:
    """Return the width of an indent in columns, 0 if it would take up most of the width."""
    columns = cells(indent)
    return columns if columns * 2 <= width else 0


def _tokens(row: str) -> Iterator[tuple[str, bool]]:
    """Yield the color sequences and texts in a row; the flag is true for a color sequence."""
    position = 0
    for match in _COLOR.finditer(row):
        if match.start() > position:
            yield row[position : match.start()], False
        yield match[0], True
        position = match.end()
    if position < len(row):
        yield row[position:], False


def _beginning(row: str, width: int) -> str:
    """Return the first columns of a row, with the colors reset at the end."""
    kept: list[str] = []
    room = width
    is_colored = False
    for token, is_color in _tokens(row):
        if is_color:
            kept.append(token)
            is_colored = not _RESET_COLOR.fullmatch(token)
            continue
        if token.isascii() and token.isprintable():
            kept.append(token[:room])
            room -= min(len(token), room)
            is_full = room == 0
        else:
            is_full = False
            for grapheme in wcwidth.iter_graphemes(token):
                columns = _columns(grapheme)
                if columns > room:
                    is_full = True
                    break
                kept.append(grapheme)
                room -= columns
        if is_full:
            break
    text = "".join(kept)
    # A few Indic sequences are wider than the sum of their graphemes' widths.
    while cells(text) > width and kept:
        kept.pop()
        text = "".join(kept)
    return text + RESET if is_colored else text


def _color_parts(row: str, spans: list[tuple[int, int]]) -> list[str]:
    """Return parts of a row, each with its colors.

    Args:
        row: The row.
        spans: Start and end of each part in the row's text, without colors.
    """
    pieces: list[tuple[int, int, str]] = []  # start, end, colors
    colors = ""
    position = 0
    for token, is_color in _tokens(row):
        if not is_color:
            pieces.append((position, position + len(token), colors))
            position += len(token)
        elif _RESET_COLOR.fullmatch(token):
            colors = ""
        else:
            colors += token
    plain = without_colors(row)
    parts: list[str] = []
    first = 0
    for start, end in spans:
        part: list[str] = []
        while first < len(pieces) and pieces[first][1] <= start:
            first += 1
        index = first
        while index < len(pieces) and pieces[index][0] < end:
            piece_start, piece_end, colors = pieces[index]
            text = plain[max(piece_start, start) : min(piece_end, end)]
            part.append(f"{colors}{text}{RESET}" if colors else text)
            index += 1
        parts.append("".join(part))
    return parts


def _escape_match(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def _escape_marks(match: re.Match[str]) -> str:
    return _many_marks().sub(_escape_surplus_marks, match[0])


def _escape_surplus_marks(match: re.Match[str]) -> str:
    surplus = match[0][MAX_MARKS:].encode("unicode_escape").decode()
    return match[0][:MAX_MARKS] + surplus


@functools.cache
def _many_marks() -> re.Pattern[str]:
    """Return a pattern for more consecutive zero-width characters than one letter can have.

    Compiling this pattern takes 2 ms, and few texts need it.
    """
    ranges = list(ZERO_WIDTH.values())[-1]
    members = "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges if first >= 0x300)
    return re.compile(f"[{members}]{{{MAX_MARKS + 1},}}")
