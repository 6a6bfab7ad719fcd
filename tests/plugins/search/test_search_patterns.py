"""Patterns in the dialects that models write: what they find, and which ones are refused."""

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


PATTERNS: list[tuple[str, list[int]]] = [
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
    (r"\S+#", []),
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
    (r"class \p{Lu}r[\u00f6]ße", [3]),
    (r"\U000020ac", [9]),
    (r"(?<= )10[\u{20ac}]", [9]),
    (r"[a-z&&[^a-y]]", []),
    (r"(?x) l a s t", [11]),
    (r"pass(?=  )|(?-s:la.t)", [4, 11]),
    (r"[\n#]", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
    (r"arr[[]|\[[^[]\]", [2]),
    (r"[^\n]+tab", [10]),
    (r"[^ ]+$", [1, 2, 3, 4, 5, 6, 8, 9, 10, 11]),
]
"""Patterns, each with the numbers of the lines of ``TEXT`` that it matches."""


async def test_patterns_of_every_dialect(call, write) -> None:
    """Line ends, LF or CRLF, stay out of matches unless they are named.

    All patterns are tried in one session, because opening one takes longer than a search.
    """
    write({"crlf": TEXT.replace("\n", "\r\n"), "lf": TEXT})
    for pattern, lines in PATTERNS:
        output = await call("search_files", pattern=pattern, context=0)
        expected = [(name, line) for name in ("crlf", "lf") for line in lines]
        assert output.data["places"] == expected, (pattern, output.text)


async def test_literal_text_is_found_as_it_is(call, write) -> None:
    """No character of it is special, and it may have several lines."""
    write({"f": TEXT})
    for text, lines in (
        ("interface{}", [5]),
        ("[x]", [2]),
        ("a.b|c (d) ^e$ \\n", [10]),
        ("self):\n    return", [1, 2]),
        ("GRÖSSE", [4]),
        (".*", []),
    ):
        output = await call("search_files", pattern=text, literal=True, context=0)
        assert [line for _, line in output.data["places"]] == lines, text


async def test_case_is_ignored_on_request(call, write) -> None:
    """In ASCII and beyond it."""
    write({"f": TEXT})
    for pattern, literal, lines in (
        ("DEF", False, [1]),
        ("größe", True, [3]),
        ("gr.sse", False, [4]),
        ("SELF.VALUE", True, [2]),
    ):
        output = await call(
            "search_files", pattern=pattern, literal=literal, ignore_case=True, context=0
        )
        assert [line for _, line in output.data["places"]] == lines, pattern


INVALID = [
    ("foo(", 5, "missing closing parenthesis"),
    ("foo)", 5, "unmatched closing parenthesis"),
    ("a[bc", 5, "missing terminating ]"),
    ("*a", 1, "quantifier"),
    (r"a\qb", 3, "unrecognized character"),
    (r"é\n\qb", 5, "unrecognized character"),
    ("[z-a]", 4, "range out of order"),
    ("(?<=a+)b", 1, "lookbehind"),
    ("a{5,2}", 6, "numbers out of order"),
    ("(?P<n>a)(?P<n>b)", 15, "same name"),
    (r"(a)\2", 5, "reference to non-existent"),
    ("a\\", 2, "backslash"),
    ("(?z) a", 3, "unrecognized character"),
    (r"\x{110000}", 10, "too large"),
    (r"\u{110000}", 1, "too large"),
    ("(" * 5000, 251, "too deeply nested"),
    ("x" * 9990 + "(", 9992, "missing closing parenthesis"),
]
"""Invalid patterns, each with the position of the problem and a part of the message."""


async def test_an_invalid_pattern_is_refused_with_the_place(call) -> None:
    """In ripgrep's words; the hint is the literal search."""
    for pattern, position, problem in INVALID:
        with pytest.raises(ToolError) as caught:
            await call("search_files", pattern=pattern)
        assert caught.value.code == E_BAD_ARGS, pattern
        assert problem in caught.value.message
        assert f"at character {position}:" in caught.value.message
        assert len(caught.value.message) < 300
        assert "literal" in caught.value.hint


@pytest.mark.parametrize("pattern", ["", "a\0b", "x" * 10_001])
async def test_what_cannot_be_searched_is_refused(call, pattern) -> None:
    """Nothing, null bytes, and what is too long."""
    with pytest.raises(ToolError) as caught:
        await call("search_files", pattern=pattern)
    assert caught.value.code == E_BAD_ARGS
