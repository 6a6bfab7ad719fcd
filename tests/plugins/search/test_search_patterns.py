"""Patterns in the dialects models write: what they find, the same with each engine, and what is no
pattern.
"""

import pytest
from hilum import ToolError
from hilum.errors import E_BAD_ARGS

TEXT = """def start(self):
    return self.value  # a-b [x]
class Größe:
    pass  # GRÖSSE
interface{} ${HOME} foo{1}
<div class="a">

x = "ab ab"
price: 10€ \u0661
a.b|c (d) ^e$ \\n tab\there
last"""


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        (r"def \w+\(", [1]),
        (r"self\.(?P<name>\w+)", [2]),
        (r"self\.(?<name>\w+)", [2]),
        (r"(?i)SELF", [1, 2]),
        (r"(?i:SELF)\.", [2]),
        (r"(?i)grösse", [4]),
        (r"(?i)GRÖßE", [3]),
        (r"class (?=G)", [3]),
        (r"(?<=class )G", [3]),
        (r"(?<!class )\bGR", [4]),
        (r"self(?!\.)", [1]),
        (r"(ab) \1", [8]),
        (r"(?P<w>ab) (?P=w)", [8]),
        (r"(?<w>ab) \k<w>", [8]),
        (r"a++\.b|a++b ", [8, 10]),
        (r"(?>ab) ab", [8]),
        (r"interface{}", [5]),
        (r"\${HOME}", [5]),
        (r"\$\{HOME\}", [5]),
        (r"o{2}", [5]),
        (r"o{2,}", [5]),
        (r"[[:digit:]]+", [5, 9]),
        (r"[]x]\]", [2]),
        (r"[[]x", [2]),
        (r"[a\-z]-b", [2]),
        (r"\<div", [6]),
        (r"\<div class=\"", [6]),
        (r"^$", [7]),
        (r"\Aclass", [3]),
        (r"pass.*SE\Z", [4]),
        (r"\x64iv", [6]),
        (r"\u20ac", [9]),
        (r"\u{20AC}", [9]),
        (r"\x{20ac}", [9]),
        (r"10.\s\d", [9]),
        (r"Gr\w+e", [3]),
        (r"^[^a-z]*$", [7]),
        (r"\ttab|\there", [10]),
        (r"[\t]h", [10]),
        (r"a\.b\|c", [10]),
        (r"\^e\$", [10]),
        (r"\\n", [10]),
        (r"last\s*$", [11]),
        (r"[\s,]+pass", [4]),
        (r"\W+pass", [4]),
        (r"\S+#", None),
        (r"self\):\n", [1]),
        (r"value.*\nclass", [2, 3]),
        (r"self\):\n\s+return", [1, 2]),
        (r"self\):\r\n\s+return", [1, 2]),
        (r"def[\s\S]*?value", [1, 2]),
        (r"(?s)def.*?value", [1, 2]),
        (r"(?s:def.*?value)", [1, 2]),
        (r"interface[^x]*\}", [5]),
        (r"(?#a comment)last", [11]),
        (r"(?m)^last$", [11]),
        (r"pass|last", [4, 11]),
        (r"(pass|last)$", [11]),
        (r"[^\x00-\x7f]", [3, 4, 9]),
        (r"x*", list(range(1, 12))),
        (r"\w{4,}\s+#|[a-z]{8}\{", [2, 4, 5]),
        (r"[a-z]{5,8}?\{", [5]),
        (r"[a-zß]{4}", [1, 2, 3, 4, 5, 6, 9, 10, 11]),
        (r"\d{2}€", [9]),
        (r"\w{4}e", [2, 3, 5, 9]),
        (r"[^ ]+$", [1, 2, 3, 4, 5, 6, 8, 9, 10, 11]),
    ],
)
async def test_every_dialect_means_the_same_with_each_engine(
    call, engine, write, pattern, lines
) -> None:
    """Line ends stay out of matches unless they are named."""
    write({"f": TEXT})
    output = await call("search_files", engine, pattern=pattern, context=0)
    assert [line for _, line in output.data["places"]] == (lines or []), output.text
    write({"f": TEXT.replace("\n", "\r\n")})
    output = await call("search_files", engine, pattern=pattern, context=0)
    assert [line for _, line in output.data["places"]] == (lines or []), "with CRLF"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("interface{}", [5]),
        ("[x]", [2]),
        ("a.b|c (d) ^e$ \\n", [10]),
        ("self):\n    return", [1, 2]),
        ("GRÖSSE", [4]),
        (".*", []),
    ],
)
async def test_literal_text_is_found_as_it_is(call, engine, write, text, lines) -> None:
    """No character of it is special, and it may have several lines."""
    write({"f": TEXT})
    output = await call("search_files", engine, pattern=text, literal=True, context=0)
    assert [line for _, line in output.data["places"]] == lines


async def test_case_is_ignored_on_request(call, engine, write) -> None:
    """In ASCII and beyond it."""
    write({"f": TEXT})
    for pattern, literal, lines in (
        ("DEF", False, [1]),
        ("größe", True, [3]),
        ("gr.sse", False, [4]),
        ("SELF.VALUE", True, [2]),
    ):
        output = await call(
            "search_files", engine, pattern=pattern, literal=literal, ignore_case=True, context=0
        )
        assert [line for _, line in output.data["places"]] == lines, pattern


@pytest.mark.parametrize(
    ("pattern", "position", "problem"),
    [
        ("foo(", 4, "unterminated"),
        ("foo)", 4, "unbalanced"),
        ("a[bc", 2, "not closed"),
        ("ab**", 4, "multiple repeat"),
        ("*a", 1, "nothing to repeat"),
        (r"a\p{L}", 2, "Unicode classes"),
        (r"a\qb", 2, "unknown"),
        ("[z-a]", 1, "upside down"),
        ("(?<=a+)b", 1, "look-behind"),
        ("a(?i)b", 2, "flags"),
        ("(?P<n>a)(?P<n>b)", 13, "redefinition"),
        (r"(a)\2", 4, "invalid group reference"),
        ("a\\", 2, "backslash"),
        ("(?x) a", 1, "flag"),
        ("[[:nope:]]", 2, "unknown"),
        (r"\x{110000}", 1, "no such character"),
        ("(" * 5000, 1, ""),
    ],
)
async def test_what_is_no_pattern_is_refused_with_the_place(
    call, engine, write, pattern, position, problem
) -> None:
    """The same with each engine, before any process is started; the hint is the literal search."""
    with pytest.raises(ToolError) as caught:
        await call("search_files", engine, pattern=pattern)
    assert caught.value.code == E_BAD_ARGS
    assert problem in caught.value.message
    assert f"at character {position}:" in caught.value.message
    assert "literal" in caught.value.hint


@pytest.mark.parametrize("pattern", ["", "a\0b", "x" * 10_001])
async def test_what_cannot_be_searched_is_refused(call, pattern) -> None:
    """Nothing, null bytes, and what is too long."""
    with pytest.raises(ToolError) as caught:
        await call("search_files", pattern=pattern)
    assert caught.value.code == E_BAD_ARGS
