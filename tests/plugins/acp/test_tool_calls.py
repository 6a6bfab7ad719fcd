"""How calls are described: nothing in a text of a model can pass for Markdown of hilum."""

import json
from pathlib import Path

import pytest
from hilum.errors import E_APPROVAL_TIMEOUT, E_DENIED, E_REJECTED, E_STALE
from hilum.messages import Text, ToolCall, ToolResult
from hilum.workspace import Workspace
from hilum_acp.tool_calls import (
    MAX_DIFF_HUNKS,
    MAX_TITLE,
    escape_markdown,
    fence,
    find_kind,
    find_locations,
    is_shown_as_written,
    make_absolute,
    make_content,
    make_diffs,
    make_title,
    preview_change,
    split_hunks,
)
from hilum_files.text import unified_diff
from hilum_view import Card
from hypothesis import example, given
from hypothesis import strategies as st
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


@given(st.text("ab12 _*~`<>[]()!&#;$\\|+=-.:/\"'", max_size=12))
@example("touch _x_")
@example("rm -rf build && make")
@example("cat *.py | wc -l")
@example("src/my_file.py")
@example("1. one")
@example("a &amp; b")
def test_a_line_that_is_shown_as_written_has_no_markup(line):
    if is_shown_as_written(line) and line:
        assert read_text(line) == line
        assert find_types(line) <= {"paragraph_open", "inline", "text", "paragraph_close"}


@pytest.mark.parametrize(
    "line", ["rm -rf build && make", "cat *.py | wc -l", "Read src/my_file.py", "make -j4 > log"]
)
def test_ordinary_titles_are_shown_as_written(line):
    assert is_shown_as_written(line)


def test_a_result_cannot_leave_its_fence():
    for text in [*HOSTILE, "`````\nx\n```", "\r```\r"]:
        call = ToolCall("c1", "web_fetch", "{}")
        result = ToolResult("c1", "web_fetch", (Text(text, "tool"),))
        card = Card(id=1, call=call, state="completed", risk="network", result=result)
        [content] = make_content(card, root=None)
        assert find_types(content["content"]["text"]) == {"fence"}, text
        assert content["content"]["text"] == fence(text)


@pytest.mark.parametrize("path", ["a.txt", "~nosuchuser/x", "~root/x", "~", "~/a", "a/~/b", ""])
def test_the_editor_shows_the_file_that_the_tool_uses(tmp_path, monkeypatch, path):
    """Also if a path looks like the home folder of a user, who may not exist."""
    monkeypatch.setenv("HOME", str(tmp_path))
    root = tmp_path / "project"
    root.mkdir()
    shown = make_absolute(path, root)
    assert Path(shown) == Workspace(root, [tmp_path]).resolve(path)
    call = ToolCall("c1", "read_file", json.dumps({"path": path, "start_line": 2**70}))
    assert find_locations(Card(id=1, call=call), root) == ([{"path": shown}] if path else [])


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
    assert "\u202e" not in title_of("run_terminal_cmd", command="rm \u202e x")


def card_of(tool, arguments, **facts):
    call = ToolCall("c1", tool, json.dumps(arguments))
    return Card(id=1, call=call, **facts)


def title_of(tool, agent="", **arguments):
    return make_title(card_of(tool, arguments), agent, Path("/w"))


@pytest.mark.parametrize(
    ("tool", "arguments", "title"),
    [
        ("edit_file", {"path": "src/calc.py", "old_string": "a", "new_string": "b"}, "Edit src/calc.py"),
        ("write_file", {"path": "/w/src/a.py", "content": "a\nb\n"}, "Write src/a.py (2 lines)"),
        ("read_file", {"path": "/w/a.py", "start_line": 3, "end_line": 9}, "Read a.py (lines 3–9)"),
        ("read_file", {"path": "/other/a.py"}, "Read /other/a.py"),
        ("list_directory", {"path": "/w"}, "List ."),
        ("search_files", {"pattern": "x", "path": "/w/src"}, 'Search "x" in src'),
        ("run_terminal_cmd", {"command": "make test"}, "make test"),
        ("run_terminal_cmd", {"command": "a\nb"}, "a (+1 line)"),
        ("call_tool", {"name": "demo__double", "arguments": {"n": 4}}, "demo: double n=4"),
        ("demo__double", {"n": 4}, "demo: double n=4"),
        ("my_tool", {"n": 4}, "my_tool n=4"),
        ("read_resource", {"server": "s", "uri": "s://x"}, "Read s://x"),
        ("guest_run", {"action": "p1", "title": "push", "command": "git push"}, "git push"),
        ("guest_terminal", {"terminal": "t1", "command": "git status", "working_directory": "/w/src"}, "(in src) git status"),
        ("guest_edit", {"action": "p1", "title": "x", "paths": ["a.py", "b.py"]}, "Edit a.py, b.py"),
        ("guest_read", {"action": "p1", "title": "x", "paths": ["/etc/passwd"]}, "Read /etc/passwd"),
        ("guest_other", {"action": "p1", "title": "Think about it", "details": "{}"}, "Think about it"),
        ("guest_report", {"action": "p1", "title": "Read a.txt", "kind": "read"}, "Read a.txt"),
    ],
)  # fmt: skip
def test_a_title_says_what_a_call_does(tool, arguments, title):
    assert title_of(tool, **arguments) == title
    assert title_of(tool, "echo", **arguments) == f"echo: {title}"


def test_a_call_without_a_description_has_a_whole_title():
    assert title_of("task", description="", prompt="x") == "Start an agent"
    assert title_of("task", description="Look", prompt="x") == "Start an agent: Look"


def test_a_long_title_keeps_its_end():
    title = title_of("run_terminal_cmd", command=f"tar {'x' * 500} > /dev/sda", background=True)
    assert len(title) <= MAX_TITLE + 1
    assert title.startswith("(in the background) tar xx")
    assert title.endswith("xx > /dev/sda")


def test_the_kind_of_a_call_is_right_from_the_beginning():
    for tool, kind in [
        ("guest_run", "execute"),
        ("guest_edit", "edit"),
        ("guest_other", "other"),
        ("demo__double", "other"),
        ("my_tool", "other"),
        ("read_lints", "read"),
    ]:
        assert find_kind(card_of(tool, {})) == kind
    assert find_kind(card_of("guest_report", {"kind": "search"})) == "search"
    assert find_kind(card_of("guest_report", {"kind": ["x"]})) == "other"
    assert find_kind(card_of("call_tool", {"name": "read_file", "arguments": {}})) == "read"
    assert find_kind(card_of("my_tool", {}, risk="execute")) == "execute"
    assert find_kind(card_of("my_tool", {}, began=1.0)) == "read"


def test_a_diff_keeps_whether_the_file_ends_with_a_line_break():
    for old, new in [
        ("a\nb", "a\nc"),
        ("a\nb\n", "a\nb"),
        ("a\nb", "a\nb\n"),
        ("b\n\na", "c\n\na"),
    ]:
        [hunk] = split_hunks(unified_diff("a.txt", old, new))
        assert hunk == (old, new)


def test_a_diff_keeps_other_line_separators():
    old, new = "a\x0cb\u2028c\r\n", "a\x0cb\u2028d\r\n"
    assert list(split_hunks(unified_diff("a.txt", old, new))) == [(old, new)]


REJECTED = "The user rejected the call: {} Change your plan."


@pytest.mark.parametrize(
    ("text", "code", "shown"),
    [
        (REJECTED.format("no reason given."), E_REJECTED, "You rejected this."),
        (REJECTED.format("Use b.txt."), E_REJECTED, "You rejected this: Use b.txt."),
        ("Nobody answered.", E_APPROVAL_TIMEOUT, "Nobody answered in time, so this was not run."),
        ("A rule denies it.", E_DENIED, "A rule denies it."),
        ("Read it again.", E_STALE, "E_STALE: Read it again."),
    ],
)
def test_a_refusal_is_told_to_the_user_and_not_to_the_model(text, code, shown):
    result = ToolResult("c1", "my_tool", (Text(f"{code}: {text}", "tool"),), code=code)
    card = card_of("my_tool", {}, state="failed", result=result)
    [content] = make_content(card, Path("/w"))
    assert content["content"]["text"] == fence(shown)
