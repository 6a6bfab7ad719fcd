"""Widths of text, and foreign text that is made harmless."""

from __future__ import annotations

import re
import unicodedata

import hypothesis
import pyte
import wcwidth
from hilum_terminal.text_width import (
    RESET,
    cells,
    cut,
    cut_middle,
    escape_text,
    line_spans,
    one_line,
    only_colors,
    pad,
    without_colors,
    wrap,
    wrap_text,
)
from hypothesis import strategies as st

COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
ODD = [
    "👨‍👩‍👧", "🇩🇪", "🇩", "❤️", "1️⃣", "👍🏽", "🙂‍↔️", "é", "e\u0301", "각", "\u1100\u1161\u11a8",
    "กำ", "นี้", "क्षि", "你好", "，", "「", "」", "。", "ｶﾞ", "\u0301", "\ufe0f", "\u200d", "\u200b",
    "می‌خواهم", "\u202e", "\u2066", "\x1b", "\x1b[31m", "\x1b[0m", "\x1b]0;title\x07",
    "\x1b]52;c;eA==\x1b\\", "\x9b", "\x9d", "\x07", "\r", "\r\n", "\n", "\t", " ", "  ", "a", "word ",
    "http://example.com/a-long-path", "\ue000", "\ue001", "\u0378", "\U000e0041", "\ud800", "½", "─",
]  # fmt: skip
TEXTS = st.lists(
    st.one_of(st.sampled_from(ODD), st.text(max_size=4), st.text("abc  ", max_size=12)), max_size=25
).map("".join)
COLORED = st.lists(
    st.one_of(
        st.sampled_from(["\x1b[1m", "\x1b[38;5;80m", RESET, "\x1b[m"]),
        TEXTS.map(lambda text: escape_text(text).replace("\n", " ")),
    ),
    max_size=8,
).map("".join)
WIDTHS = st.integers(0, 30)
MANY = hypothesis.settings(max_examples=max(150, hypothesis.settings().max_examples))


@MANY
@hypothesis.given(TEXTS)
def test_neutral_text_has_no_control_characters(text: str) -> None:
    shown = escape_text(text)
    controls = [character for character in shown if unicodedata.category(character) in ("Cc", "Cs")]
    assert set(controls) <= {"\n", "\t"}
    assert not set(shown) & set(
        "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200b\ufeff"
    )
    assert escape_text(shown) == shown


def test_neutral_text() -> None:
    cases = [
        ("plain", "plain"),
        ("a\tb\r\nc\rd", "a\tb\nc\\rd"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b2J", "\\x9b2J"),
        ("\x1b[3\x1b[31m1m", "\\x1b[31m"),
        ("👨‍👩‍👧", "👨‍👩‍👧"),
        ("🙂‍↔️", "🙂‍↔️"),
        ("a\u200db", "a\\u200db"),
        ("می‌خواهم", "می‌خواهم"),
        ("rm\u200c -rf", "rm\\u200c -rf"),
        ("\ue000\u200d", "\\ue000\\u200d"),
        ("e" + "\u0301" * 8, "e" + "\u0301" * 8),
        ("e" + "\u0301" * 10, "e" + "\u0301" * 8 + "\\u0301\\u0301"),
        ("\U0001d173", "\\U0001d173"),
        ("你好世界你好世界你好世界", "你好世界你好世界你好世界"),
    ]
    assert [(text, escape_text(text)) for text, _ in cases] == cases


@MANY
@hypothesis.given(st.text(max_size=80), st.integers(0, 60))
def test_a_text_cut_in_the_middle_fits_and_keeps_both_ends(text: str, width: int) -> None:
    line = one_line(text)
    shown = cut_middle(line, width)
    assert cells(shown) <= width
    if shown != line and width >= 20:
        beginning, _, end = shown.rpartition("…")
        assert line.startswith(beginning)
        assert line.endswith(end)


@MANY
@hypothesis.given(COLORED, WIDTHS)
def test_cut_rows_fit(row: str, width: int) -> None:
    shown = cut(row, width)
    assert cells(shown) <= width
    assert cells(cut(row, width, "...")) <= width
    if cells(row) <= width and width:
        assert shown == row
    # Colors do not continue after the row.
    if shown != row:
        assert not COLOUR.findall(shown) or COLOUR.findall(shown)[-1] in (RESET, "\x1b[m")
        kept = without_colors(shown).removesuffix("…")
        assert without_colors(row).startswith(kept)


@MANY
@hypothesis.given(COLORED, WIDTHS, st.sampled_from(["", "  ", "    - "]))
def test_wrapped_rows_fit_and_lose_nothing(row: str, width: int, indent: str) -> None:
    rows = wrap(row, width, indent)
    assert rows
    assert max(map(cells, rows)) <= max(width, 2)
    shown = "".join(without_colors(part) for part in rows)
    if len(rows) > 1:
        shown = without_colors(rows[0]) + "".join(
            without_colors(part).removeprefix(indent) for part in rows[1:]
        )
    assert "".join(shown.split()) == "".join(without_colors(row).split())


@MANY
@hypothesis.given(COLORED, st.integers(2, 30))
def test_wrapped_rows_keep_the_colors_of_each_character(row: str, width: int) -> None:
    expected = colored_characters(row)
    shown = [pair for part in wrap(row, width) for pair in colored_characters(part)]
    assert shown == expected


def colored_characters(row: str) -> list[tuple[str, str]]:
    colors = ""
    characters: list[tuple[str, str]] = []
    for part in re.split(f"({COLOUR.pattern})", row):
        if COLOUR.fullmatch(part):
            colors = "" if part in (RESET, "\x1b[m") else colors + part
        else:
            characters += [(character, colors) for character in part if not character.isspace()]
    return characters


@MANY
@hypothesis.given(st.text("ab  ", max_size=60), st.integers(2, 12), st.integers(0, 6))
def test_plain_rows_are_wrapped_as_any_rows(text: str, width: int, indent: int) -> None:
    """The fast way for ASCII gives the same rows as the way that measures each character."""
    fast = [text[start:end] for start, end in line_spans(text, width, indent)]
    # Instead of "b", a letter of one column that is not ASCII.
    other = text.replace("b", "é")
    slow = [other[start:end] for start, end in line_spans(other, width, indent)]
    if not other.isascii():
        assert [part.replace("é", "b") for part in slow] == fast


@hypothesis.given(st.text(min_size=1, max_size=20))
def test_widths_are_those_of_a_terminal(text: str) -> None:
    """pyte measures each character by itself, so marks and flags are left out."""
    shown = escape_text(text).replace("\n", " ").replace("\t", " ")
    is_simple = all(
        wcwidth.wcwidth(character) > 0 and not 0x1F1E6 <= ord(character) <= 0x1F3FF
        for character in shown
    )
    hypothesis.assume(is_simple)
    hypothesis.assume(cells(shown) == sum(map(wcwidth.wcwidth, shown)))
    screen = pyte.Screen(80, 2)
    pyte.Stream(screen).feed(shown)
    assert screen.cursor.x == cells(shown)


def test_widths() -> None:
    cases = {
        "": 0, "abc": 3, "你好": 4, "👨‍👩‍👧": 2, "🇩🇪": 2, "❤️": 2, "e\u0301": 1, "각": 2,
        "\u1100\u1161\u11a8": 2, "นี้": 1, "\x1b[1mbold\x1b[0m": 4, "👍🏽": 2, "1️⃣": 2,
    }  # fmt: skip
    assert {text: cells(text) for text in cases} == cases


def test_rows_are_broken_at_words() -> None:
    cases = [
        (("one two three", 7, ""), ["one two", "three"]),
        (("one two three", 8, "  "), ["one two", "  three"]),
        (("  indented text", 11, ""), ["  indented", "text"]),
        (("abcdefghij", 4, ""), ["abcd", "efgh", "ij"]),
        (("a abcdefghij", 4, ""), ["a", "abcd", "efgh", "ij"]),
        (("你好世界，你好", 8, ""), ["你好世", "界，你好"]),
        (("「你好」世界", 9, ""), ["「你好」", "世界"]),
        (("word你好 word", 7, ""), ["word你", "好 word"]),
        (("é🏻", 2, ""), ["é", "🏻"]),
        (("한국어 문장", 8, ""), ["한국어", "문장"]),
        (("a\tb", 20, ""), ["a   b"]),
        (("", 5, ""), [""]),
        (("     ", 3, ""), [""]),
        (("\x1b[1mone two\x1b[0m x", 4, ""), ["\x1b[1mone\x1b[0m", "\x1b[1mtwo\x1b[0m", "x"]),
        (("long words", 4, "          "), ["long", "word", "s"]),
    ]
    assert [(call, wrap(*call)) for call, _ in cases] == cases


def test_text_of_several_lines() -> None:
    assert wrap_text("one two\n\nthree  ", 4) == ["one", "two", "", "thre", "e"]


def test_one_line() -> None:
    assert one_line("\n  \n a\tb \x1b[31mred\x1b[0m\nnext") == "a b red"
    assert one_line("abcdef", 4) == "abc…"
    assert one_line("") == ""


def test_padding() -> None:
    assert [pad("你", 4), pad("abc", 2)] == ["你  ", "abc"]


def test_only_colors_remain() -> None:
    cases = [
        ("\x1b[1mbold\x1b[0m", "\x1b[1mbold\x1b[0m"),
        (
            "\x1b]8;;http://x\x1b\\text\x1b]8;;\x1b\\",
            "\\x1b]8;;http://x\\x1b\\text\\x1b]8;;\\x1b\\",
        ),
        ("\x1b[2Jtext\t\x1b[31mred", "\\x1b[2Jtext \x1b[31mred"),
        ("你\u202e好", "你\\u202e好"),
    ]
    assert [(row, only_colors(row, 80)) for row, _ in cases] == cases
    assert only_colors("\x1b[1mabcdef", 4) == "\x1b[1mabc\x1b[0m…"


def test_long_lines_are_measured_in_linear_time() -> None:
    """A line of 1 MB with nothing to break at, of wide characters and of blanks."""
    for line in ("x" * 1_000_000, "你" * 100_000, " " * 300_000 + "é", "word " * 100_000 + "é"):
        assert cells(wrap(line, 80)[0]) <= 80
