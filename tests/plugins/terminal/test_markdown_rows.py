"""How blocks of Markdown look on the terminal."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import unicodedata

import pytest
from hilum_terminal import markdown_rows
from hilum_terminal.markdown_blocks import Block, MarkdownBlocks, PieceSizes
from hilum_terminal.markdown_rows import render_markdown, render_tail
from hilum_terminal.styles import PLAIN, Theme
from hilum_terminal.text_width import cells, without_colors

NO_COLOR = Theme("none")
SIXTEEN = Theme("16")
MANY_COLORS = Theme("256")
LIGHT = Theme("256", dark=False)
TRUECOLOR = Theme("truecolor")
THEMES = [PLAIN, NO_COLOR, SIXTEEN, MANY_COLORS, LIGHT, TRUECOLOR]
SGR = re.compile(r"\x1b\[([0-9;]*)m")


def shown(source: str, width: int = 60, theme: Theme = MANY_COLORS) -> list[str]:
    return [without_colors(row) for row in render_markdown(source, width, theme)]


def test_what_each_element_looks_like() -> None:
    cases = [
        ("# Title", ["Title"]),
        ("Title\n=====\ntext", ["Title", "", "text"]),
        ("one\ntwo", ["one", "two"]),
        ("*a* **b** ~~c~~ `d`", ["a b c d"]),
        ("- a\n- b\n  - c\n    - d\n", ["• a", "• b", "  • c", "    • d"]),
        ("- a\n\n- b\n", ["• a", "", "• b"]),
        ("- a\n\n  more\n", ["• a", "", "  more"]),
        ("9. a\n9. b\n", [" 9. a", "10. b"]),
        ("- [ ] a\n- [x] b\n- [X] c\n- [y] d\n", ["☐ a", "☑ b", "☑ c", "• [y] d"]),
        ("1. [x] a\n", ["1. ☑ a"]),
        ("- text\n  ```\n  code\n  ```\n", ["• text", "    code"]),
        ("-\n- a\n", ["•", "• a"]),
        ("> a\n> b\n>\n> - c\n", ["│ a", "│ b", "│", "│ • c"]),
        ("> > a\n", ["│ │ a"]),
        ("```py\nx = 1\n\n  y\n```\n", ["  x = 1", "", "    y"]),
        ("```\n\ta\n```\n", ["      a"]),
        ("```\n```\n", []),
        ("    code\n", ["  code"]),
        ("***\n", ["─" * 40]),
        ("<div>\n <b>x</b>\n</div>\n", ["<div>", " <b>x</b>", "</div>"]),
        ("a <b>c</b> <!-- d -->", ["a <b>c</b> <!-- d -->"]),
        ("a<br>b<br/>c", ["a", "b", "c"]),
        ("![a *b*](c/d.png)", ["[image: a b]"]),
        ("![](c/d.png)", ["[image: d.png]"]),
        ("![](data:image/png;base64,AAAA)", ["[image]"]),
        ("[a](http://b.c/d)", ["a (http://b.c/d)"]),
        ("[**a** `b`](http://b.c)", ["a b (http://b.c)"]),
        ("[http://b.c](http://b.c)", ["http://b.c"]),
        ("[http://bank.com](http://evil.com)", ["http://bank.com (http://evil.com)"]),
        ("<http://b.c> <d@e.f>", ["http://b.c d@e.f"]),
        ("[![alt](i.png)](http://b.c)", ["[image: alt] (http://b.c)"]),
        ("[](http://b.c)", ["(http://b.c)"]),
        ("[a]\n\n[a]: http://b.c", ["a (http://b.c)"]),
        ("[a](javascript:x)", ["[a](javascript:x)"]),
        ("&lt;b&gt; &amp;", ["<b> &"]),
        ("a&#10;b &#x202e;", ["a b \\u202e"]),
        ("x " * 28 + "&#x202e; y", ["x " * 27 + "x", "\\u202e y"]),
        ("", []),
        ("\n\n", []),
        ("one two three", ["one two three"]),
    ]
    wrong = [(source, shown(source)) for source, rows in cases if shown(source) != rows]
    assert not wrong


def test_without_attributes_markers_replace_colors() -> None:
    """A screen reader reads no lines aloud, and knows headings and code by their markers."""
    cases = [
        ("## Title", ["## Title"]),
        ("a `b` ~~c~~", ["a `b` ~~c~~"]),
        ("- a\n- [x] b", ["- a", "- [x] b"]),
        ("> a", ["> a"]),
        ("***", ["---"]),
        ("| a | b |\n|---|---|\n| c | d |", ["a | b", "--+--", "c | d"]),
    ]
    assert [(source, render_markdown(source, 60, PLAIN)) for source, _ in cases] == cases


def test_colors_of_each_theme() -> None:
    source = (
        "# T\n**b** *i* ~~s~~ `c` [l](http://x)\n> q\n\n```py\ndef f(): return 'x'\n```\n- x\n\n***"
    )
    parameters = {
        theme: {
            parameter
            for row in render_markdown(source, 60, theme)
            for sequence in SGR.findall(row)
            for parameter in (sequence or "0").split(";")
        }
        for theme in THEMES
    }
    assert parameters[PLAIN] == set()
    assert parameters[NO_COLOR] == {"0", "1", "4"}
    # No white, black or yellow, and no background: the user's palette may have it.
    assert parameters[SIXTEEN] <= {"0", "1", "2", "3", "4", "9", *"31 32 34 35 36".split()}
    assert "36" in parameters[SIXTEEN]
    for theme in (MANY_COLORS, LIGHT, TRUECOLOR):
        assert {"38", "5", "1"} <= parameters[theme]
        assert "48" not in parameters[theme]
    assert parameters[MANY_COLORS] != parameters[LIGHT]
    assert render_markdown("# T", 60, SIXTEEN) == ["\x1b[1;4;36mT\x1b[0m"]
    assert render_markdown("*i*", 60, NO_COLOR) == ["\x1b[4mi\x1b[0m"]
    assert render_markdown("`c`", 60, NO_COLOR) == ["`c`"]


def test_text_is_wrapped_with_hanging_indents() -> None:
    cases = [
        ("one two three four", 10, ["one two", "three four"]),
        ("- one two three four five\n", 16, ["• one two three", "  four five"]),
        ("你好世界你好世界，你好", 16, ["你好世界你好世", "界，你好"]),
        ("> one two three four", 16, ["│ one two three", "│ four"]),
        ("10. one two three four", 20, ["10. one two three", "    four"]),
        ("```\nabcdefghij klm nopq\n```", 16, ["  abcdefghij klm", "   nopq"]),
    ]
    assert [(*call, shown(*call)) for *call, _ in cases] == cases


def test_narrow_nested_blocks_keep_room_for_their_text() -> None:
    rows = shown("- a\n" + "".join("  " * level + "- deep text\n" for level in range(1, 12)), 20)
    assert max(map(cells, rows)) <= 20
    assert sum("deep text" in row for row in rows) == 11


TABLE = """\
| Name | Count | Mid |
|------|------:|:---:|
| 中文字 | 1 | a |
| 👨‍👩‍👧🇩🇪 | 1,000 | bcd |
| é️x | 10<br>20 | |
"""


def test_tables_are_aligned() -> None:
    assert shown(TABLE) == [
        "Name   │ Count │ Mid",
        "───────┼───────┼────",
        "中文字 │     1 │  a",
        "👨‍👩‍👧🇩🇪   │ 1,000 │ bcd",
        "é️x     │    10 │",
        "       │    20 │",
    ]


def columns_of_lines(rows: list[str]) -> set[tuple[int, ...]]:
    return {
        tuple(cells(row[: match.start()]) for match in re.finditer("[│┼]", row)) for row in rows
    }


def test_wide_tables_shrink_by_wrapping_cells() -> None:
    source = "| Key | Text |\n|---|---|\n" + f"| a | {'some words ' * 12}|\n| b | {'中文' * 30} |\n"
    for width in (40, 61, 80):
        rows = shown(source, width)
        assert max(map(cells, rows)) <= width
        assert columns_of_lines(rows) == {(4,)}
        # Rules separate the rows.
        assert sum("┼" in row for row in rows) == 2
        assert "".join(rows).count("words") == 12
        assert "".join(rows).count("中") == 30


def test_tables_become_lists_on_narrow_terminals() -> None:
    source = "| Name | Value |\n|---|--:|\n| one | a long value |\n| two | **b** |\n"
    assert shown(source, 16) == [
        "Name: one",
        "Value: a long",
        "  value",
        "",
        "Name: two",
        "Value: b",
    ]
    # A table that fits is a table.
    assert shown("| a | b |\n|---|---|\n| c | d |", 16) == ["a │ b", "──┼──", "c │ d"]
    many = "|" + " column |" * 12 + "\n|" + "---|" * 12 + "\n|" + " value |" * 12 + "\n"
    assert shown(many, 60) == ["column: value"] * 12


def render_all(source: str, width: int, theme: Theme, sizes: PieceSizes | None = None) -> list[str]:
    """Return the rows of a whole answer, as the terminal commits them."""
    splitter = MarkdownBlocks(sizes)
    rows: list[str] = []
    blocks = [*splitter.feed(source), *splitter.finish()]
    for block in blocks:
        assert isinstance(block, Block)
        new = render_markdown(block, width, theme)
        if rows and new and not block.continued:
            rows.append("")
        rows += new
    return rows


def test_pieces_look_like_one_block() -> None:
    small = PieceSizes(fence=60, html=60, list=60, quote=60, indented=60, table=100)
    table = "| key | text |\n|---|--:|\n" + "".join(f"| k{n} | {n} |\n" for n in range(60))
    cases = {
        "fence": "```text\n\n" + "".join(f"line {n}\n\n" for n in range(60)) + "```\n",
        "python": "```py\n" + "".join(f"x = {n}\n" for n in range(60)) + "```\n",
        "comment": "<!--\n" + "".join(f"line {n}\n" for n in range(60)) + "-->\n",
        "numbers": "7. a\n" + "".join(f"1. item {n}\n" for n in range(9)),
        "bullets": "".join(f"- item {n}\n" for n in range(60)),
        "table": table,
        "indented": "".join(f"    line {n}\n" for n in range(60)),
    }
    wrong = []
    for name, source in cases.items():
        for width in (60, 100):
            # A single feed would be cut into pieces only where it ends.
            splitter = MarkdownBlocks(small)
            blocks = [block for line in source.splitlines(True) for block in splitter.feed(line)]
            blocks += splitter.finish()
            assert len(blocks) > 1, name
            rows = [row for block in blocks for row in shown(block, width)]
            whole = shown(source, width)
            if [row.strip() for row in rows] != [row.strip() for row in whole]:
                wrong.append((name, rows, whole))
    assert not wrong


def test_pieces_of_a_table_have_the_columns_of_the_first_piece() -> None:
    rows = ["| name | text |", "|---|---|", "| a | " + "word " * 4 + "|"]
    rows += ["| a long key | " + "word " * 12 + "|"] * 30
    source = "\n".join(rows) + "\n"
    splitter = MarkdownBlocks(PieceSizes(table=120))
    blocks = [block for line in source.splitlines(True) for block in splitter.feed(line)]
    blocks += splitter.finish()
    assert len(blocks) > 5
    for width in (44, 80):
        shown_rows = [row for block in blocks for row in shown(block, width)]
        assert len(columns_of_lines(shown_rows)) == 1
        assert sum(row.startswith("name") for row in shown_rows) == 1
        assert max(map(cells, shown_rows)) <= width
        assert "".join(shown_rows).count("word") == 4 + 12 * 30
    narrow = [row for block in blocks for row in shown(block, 24)]
    assert sum(row.startswith("name: ") for row in narrow) == 31
    assert sum(row == "" for row in narrow) == 30


def test_the_rest_of_a_long_paragraph_looks_like_text() -> None:
    for rest in ("# a", "- b", " word", "a\n===", "```"):
        block = Block(rest, kind="paragraph", continued=True, opening="\ue000")
        assert "\ue000" not in "".join(shown(block))
    block = Block("# a", kind="paragraph", continued=True, opening="\ue000")
    assert shown(block) == ["# a"]


HOSTILE = [
    "\x1b]0;title\x07", "\x1b]52;c;eA==\x07", "\x1b[2J", "\x1b[31mred\x1b[0m", "\x9b31m", "\x90q\x9c",
    "\x1bP1$q\x1b\\", "\x1b]8;;http://evil\x1b\\text\x1b]8;;\x1b\\", "\x07", "\x08", "\r", "\x00", "\x7f",
    "\u202e", "\u2066", "\u200b", "\u200f", "\ufeff", "\U000e0041", "e" + "\u0301" * 40, "\ud800",
    "&#x202e;", "&#27;[2J", "&#x9b;31m", "&#10;", "&#13;", "&#9;", "&ZeroWidthSpace;", "&shy;", "\t",
    "[x](http://a.b/%1b[31m)", "[x](<http://a\x1b.b>)", "![\x1b[2J](x)", "[x](http://a.b '\x1b')",
    "`\x1b[2J`", "<b \x1b>", "<!-- \x1b[2J -->", "```\x1b]0;x\x07", "\\\x1b", "[\u202e](\u202e)",
    "👨‍👩‍👧", "🇩🇪", "中文", "한국어", "é️", "**", "*", "~~", "`", "[", "](", "<", "|", "\n|---|\n", "\n",
    "\n\n", "\n> ", "\n- ", "\n1. ", "\n# ", "\n```\n", "\n    ", "word ", "x" * 90, "\n***\n", "<br>",
]  # fmt: skip


def test_hostile_text_does_not_drive_the_terminal() -> None:
    wrong = []
    for seed in range(500):
        rng = random.Random(seed)
        source = "".join(rng.choice(HOSTILE) for _ in range(rng.randint(1, 25)))
        width = rng.choice([1, 2, 5, 12, 20, 40, 80, 200])
        theme = rng.choice(THEMES)
        opening = rng.choice(["", "", "", "\ue000"])
        block = Block(source, continued=bool(opening), opening=opening)
        for row in render_markdown(block, width, theme):
            plain = SGR.sub("", row)
            bad = {
                character
                for character in plain
                if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
                or character in "\u202e\u2066\u200b\u200f\ufeff\U000e0041\u00ad"
            }
            if bad or cells(row) > max(width, 2) or re.search("\u0301{9}", plain):
                wrong.append((seed, row))
            if theme is PLAIN and "\x1b" in row:
                wrong.append((seed, row))
    assert not wrong[:3]


def test_no_text_is_lost() -> None:
    fragments = [
        "```", "~~~ py", "- item", "  - nested", "1. one", "> quote", ">> deep", "# head", "===", "---",
        "    code", "| a | b |", "|---|--:|", "<div>", "<!--", "-->", "**bold", "`code", "", "", "\ttab",
        "[link](x", "![image](", "***", "a*b_c~~d", "<script>", "\\", "&amp", "* * a", "[ ]", "- [ ] t",
    ]  # fmt: skip
    wrong = []
    small = PieceSizes(fence=40, html=40, list=40, quote=40, indented=40, table=60, paragraph=60)
    for seed in range(250):
        rng = random.Random(seed)
        lines = []
        for number in range(rng.randint(1, 25)):
            lines.append(rng.choice(fragments))
            lines.append(rng.choice(["", "  ", "    ", "> ", "- ", "| "]) + f"w{number:03}")
        rows = render_all("\n".join(lines), rng.choice([20, 50, 90]), NO_COLOR, small)
        words = re.findall(r"w\d{3}", " ".join(map(without_colors, rows)))
        expected = re.findall(r"w\d{3}", " ".join(lines))
        if words != expected:
            wrong.append((seed, sorted(set(expected) - set(words)), lines))
    assert not wrong[:3]


def test_deeply_nested_text_is_shown_plain() -> None:
    """The parser drops what is nested too deeply."""
    for source in (">" * 500 + " end", "- " * 500 + "end", "> - " * 40 + "end"):
        assert "end" in "".join(shown(source, 80))


def test_a_fault_of_the_renderer_shows_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    from hilum_terminal import rich_markdown

    def fail(*_: object, **__: object) -> list[str]:
        raise RecursionError

    monkeypatch.setattr(rich_markdown, "render", fail)
    assert render_markdown("# a **b**\n\x1b[2J- c d e\n", 8, TRUECOLOR) == [
        "# a",
        "**b**",
        "\\x1b[2J-",
        "c d e",
    ]


def test_code_is_colored_by_language_up_to_a_size() -> None:
    line = "def f(): return 'x'\n"
    cases = [
        (f"```python\n{line}```", True),
        (f"```Python title=x\n{line}```", True),
        (f"```\n{line}```", False),
        (f"```text\n{line}```", False),
        (f"```no-such-language\n{line}```", False),
        (f"```{{.python}}\n{line}```", False),
        ("```python\n" + line * 2000 + "```", False),
    ]
    colored = [
        (source, any("\x1b" in row for row in render_markdown(source, 80, SIXTEEN)))
        for source, _ in cases
    ]
    assert colored == cases
    diff = render_markdown("```diff\n+ a\n- b\n```", 80, SIXTEEN)
    assert diff == ["  \x1b[32m+ a\x1b[0m", "  \x1b[31m- b\x1b[0m"]


def test_code_keeps_its_text_in_any_language() -> None:
    code = '\n  x = \'a\n\n#!/usr/bin\n<a b="c">&amp; {%% d %%}\n\\e $f @g\n\n$ ls\n>>> 1\n  '
    expected = ["  " + line if line.strip() else "" for line in code.split("\n")]
    for language in (
        "python",
        "pycon",
        "console",
        "html",
        "json",
        "yaml",
        "bash",
        "c",
        "diff",
        "js",
    ):
        rows = shown(f"~~~{language}\n{code}\n~~~\n")
        assert [row.rstrip() for row in rows] == [row.rstrip() for row in expected], language


def test_rows_have_no_blanks_at_their_end() -> None:
    source = "```py\nx   \n   \n```\n| a | b |\n|---|---|\n| c | |\n\ntext  \n"
    rows = render_markdown(source, 40, MANY_COLORS)
    assert [row for row in rows if re.search(r" (\x1b\[0m)?$", row)] == []


def test_the_tail_is_the_end_of_the_source() -> None:
    assert render_tail("", 10, SIXTEEN, 3) == []
    assert render_tail("a\nb\n", 10, SIXTEEN, 0) == []
    assert render_tail("one\ntwo\nthree\n", 10, SIXTEEN, 2) == [
        "\x1b[2mtwo\x1b[0m",
        "\x1b[2mthree\x1b[0m",
    ]
    assert render_tail("\x1b[2Ja", 10, PLAIN, 2) == ["\\x1b[2Ja"]
    rows = render_tail("x" * 1_000_000 + " end", 40, PLAIN, 8)
    assert len(rows) == 8
    assert rows[-1].endswith("end")


def test_long_hostile_blocks_are_rendered_at_all() -> None:
    for source in (
        "[" * 20_000,
        "e" + "\u0301" * 50_000,
        "x" * 1_000_000,
        "*a_ " * 5_000,
        "\t" * 9_999,
    ):
        rows = render_markdown(source, 100, MANY_COLORS)
        assert max(map(cells, rows), default=0) <= 100


def test_nothing_heavy_is_imported_before_the_first_block() -> None:
    code = (
        "import sys, hilum_terminal.markdown_rows, hilum_terminal.markdown_blocks\n"
        "print(*sorted({'rich', 'markdown_it', 'pygments'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == ""
    assert PieceSizes().paragraph < markdown_rows.MAX_SOURCE
