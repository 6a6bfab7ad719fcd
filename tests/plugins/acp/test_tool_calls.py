"""How calls are described: nothing in a text of a model can pass for Markdown of hilum."""

from hilum.messages import Text, ToolCall, ToolResult
from hilum_acp.tool_calls import (
    MAX_DIFF_HUNKS,
    escape_markdown,
    fence,
    make_content,
    make_diffs,
    make_title,
    preview_change,
)
from hilum_view import Card
from markdown_it import MarkdownIt

PARSER = MarkdownIt("gfm-like", {"linkify": False})
HOSTILE = [
    "![x](http://127.0.0.1/steal?q=1)",
    "[click](http://127.0.0.1)",
    "a **bold** _word_ and `code`",
    "<img src=x> <!-- hidden -->",
    "one\n\n# Heading\n\n- item\n1. item\n    code\n===",
    "```\nout of the fence\n```",
    "~~~\nstruck ~~out~~\n~~~",
    "| a | b |\n|---|---|\n| 1 | 2 |",
    "&#91;entity&#93; \\ backslash",
    "[x]: http://127.0.0.1\n[x]",
    "> quoted",
]


def find_types(text):
    """Return the types of all tokens of a text in Markdown."""
    found = set()
    for token in PARSER.parse(text):
        found.add(token.type)
        found |= {child.type for child in token.children or ()}
    return found


def read_text(text):
    """Return the characters that Markdown shows."""
    shown = []
    for token in PARSER.parse(text):
        for child in token.children or ():
            shown.append("\n" if child.type == "hardbreak" else child.content)
    return "".join(shown)


def test_escaped_text_shows_its_characters_and_has_no_markup():
    plain = {"paragraph_open", "inline", "text", "text_special", "hardbreak", "paragraph_close"}
    for text in HOSTILE:
        escaped = escape_markdown(text)
        assert find_types(escaped) <= plain, text
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        assert read_text(escaped).replace("\n", "") == "".join(lines)


def test_a_result_cannot_leave_its_fence():
    for text in [*HOSTILE, "`````\nx\n```", "\r```\r"]:
        call = ToolCall("c1", "web_fetch", "{}")
        result = ToolResult("c1", "web_fetch", (Text(text, "tool"),))
        card = Card(id=1, call=call, state="completed", risk="network", result=result)
        [content] = make_content(card, root=None)
        assert find_types(content["content"]["text"]) == {"fence"}, text
        assert content["content"]["text"] == fence(text)


def test_a_change_with_many_parts_says_how_many_more_there_are():
    hunk = "@@ -{0},1 +{0},1 @@\n-a\n+b\n"
    diff = "--- a\n+++ b\n" + "".join(hunk.format(10 * number) for number in range(205))
    *diffs, last = make_diffs(diff, "/w/a.txt")
    assert len(diffs) == MAX_DIFF_HUNKS
    assert last["content"]["text"] == "5 more parts of the file were changed."


def preview(tool, **arguments):
    return preview_change(tool, {"path": "a.txt", **arguments}, "/w/a.txt", "one\n")


def test_a_preview_knows_what_it_does_not_show():
    edit = {"old_string": "one", "new_string": "two"}
    assert preview("edit_file", **edit).missing == ""
    assert preview("edit_file", **edit, replace_all=True).missing == "replace_all"
    assert preview("multi_edit", edits=[edit, edit]).missing == ""
    assert preview("multi_edit", edits=[edit, {**edit, "replace_all": True}]).missing == (
        "replace_all"
    )
    assert preview("multi_edit", edits=[edit, "x"]).missing == "an edit that has no text to replace"
    many = preview("multi_edit", edits=[edit] * 203)
    assert (len(many.diffs), many.missing) == (MAX_DIFF_HUNKS, "3 more edits")
    assert preview("write_file", content="x").missing == ""
    assert preview("write_file", content="x", mode="append").missing == "mode"
    assert preview("delete_file").diffs == []
    invisible = "characters that are invisible or change how text looks"
    for text in ("a\u202eb", "a\u200bb", "a\x1b[2Jb", "a\rb"):
        assert preview("write_file", content=text).missing == invisible
        hidden = {"old_string": "one", "new_string": text}
        assert preview("edit_file", **hidden).missing == invisible
    assert preview("write_file", content="a\r\n\tb\n").missing == ""


def test_a_title_has_no_characters_that_change_how_it_looks():
    call = ToolCall("c1", "run_terminal_cmd", '{"command": "rm \\u202e x"}')
    assert "\u202e" not in make_title(Card(id=1, call=call, risk="execute"), "")
