"""The form in which a call is edited before it runs."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from contextlib import nullcontext
from pathlib import Path

import pytest
import trio
from hilum import UsageError
from hilum_terminal.call_editing import (
    MAX_CHARACTERS,
    CallForm,
    read_form,
    write_again,
    write_form,
)
from hilum_terminal.text_editor import edit_text
from hypothesis import example, given, settings
from hypothesis import strategies as st

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.text(
    '=ab (text)\n\r\t\x1b\x85\u2028\\"#', max_size=60
)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    TEXTS | NUMBERS | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


def encode(**arguments: object) -> str:
    return json.dumps(arguments, ensure_ascii=False)


def body(form: CallForm) -> str:
    """Return a form without the lines that explain it."""
    return form.text[form.text.index("=" * form.mark) :]


def test_texts_are_written_as_they_are_and_the_rest_as_json() -> None:
    form = write_form(
        "edit_file",
        encode(path="a.py", old_string='print("\\n")\n', new_string="", count=[1, {"a": 2}]),
    )
    assert (
        body(form)
        == """\
========== path (text) ==========
a.py
========== old_string (text) ==========
print("\\n")

========== new_string (text) ==========

========== count (JSON) ==========
[
  1,
  {
    "a": 2
  }
]
========== end ==========
"""
    )


@given(st.dictionaries(TEXTS, VALUES, max_size=4))
@example({"a": "x\r\ny\r\n", "b": "x\ry", "c": "\r\n\n", "d": "\x00\x1b[31m\x7f\x9b"})
@example({"a": "========== end ==========\n=========== b (text) ===========", "end": ""})
@example({"": "", "a b": "\n", "x (text)": "\ufeff", "é\n": 1e300, "n": 2**70})
@settings(deadline=None)
def test_an_unchanged_form_gives_back_the_same_arguments(arguments: dict[str, object]) -> None:
    text = json.dumps(arguments, ensure_ascii=False)
    form = write_form("tool", text)
    assert json.loads(read_form(form.text, form)) == arguments
    # No control character reaches the editor, except line breaks and tabs.
    assert not {mark for mark in form.text if ord(mark) < 32 or 127 <= ord(mark) < 160} - {
        "\n",
        "\t",
    }


async def test_the_file_of_the_editor_changes_no_line_break() -> None:
    text = encode(content="a\r\nb\r\n", other="\u2028\x0b\x0c x\u00a0")
    form = write_form("write_file", text)
    edited = await edit_text(
        form.text,
        ".txt",
        nullcontext(),
        {**os.environ, "VISUAL": "true"},
        is_exact=True,
    )  # type: ignore[arg-type]
    assert json.loads(read_form(edited, form)) == json.loads(text)


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("printf 'typed' > $1; exit 3", "exited with 3"),
        ("printf '\\377' > $1", "wrote a file that is not UTF-8"),
    ],
)
def test_what_was_typed_into_a_failing_editor_is_kept(tmp_path, script, problem) -> None:
    editor = tmp_path / "editor"
    editor.write_text(f"#!/bin/sh\n{script}\n")
    editor.chmod(0o755)
    environ = {**os.environ, "VISUAL": "", "EDITOR": str(editor)}
    with pytest.raises(UsageError, match=problem) as caught:
        trio.run(edit_text, "draft", ".md", nullcontext(), environ)
    file = Path(caught.value.message.rpartition("What you typed is in ")[2].removesuffix("."))
    assert file.read_bytes() in (b"typed", b"\xff")
    assert file.parent.stat().st_mode & 0o777 == 0o700
    shutil.rmtree(file.parent)


async def test_an_editor_that_fails_without_a_change_leaves_no_file(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    environ = {**os.environ, "VISUAL": "false"}
    with pytest.raises(UsageError, match="exited with 1") as caught:
        await edit_text("draft", ".md", nullcontext(), environ)  # type: ignore[arg-type]
    assert "What you typed" not in str(caught.value)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ('rm "$1"; mkfifo "$1"', "left no regular file"),
        ('rm "$1"; mkdir "$1"', "left no regular file"),
        ('rm "$1"', "deleted the file"),
    ],
)
async def test_an_editor_that_leaves_no_file_does_not_block(tmp_path, script, problem) -> None:
    editor = tmp_path / "editor"
    editor.write_text(f"#!/bin/sh\n{script}\n")
    editor.chmod(0o755)
    environ = {**os.environ, "VISUAL": str(editor)}
    with trio.fail_after(30), pytest.raises(UsageError, match=problem) as caught:
        await edit_text("draft", ".md", nullcontext(), environ)  # type: ignore[arg-type]
    assert "save the text" in caught.value.hint


def test_numbers_keep_their_spelling() -> None:
    form = write_form("tool", '{"a":1.10,"b":[100000000000000000000000,1E5],"c":"x"}')
    edited = form.text.replace("\nx\n", "\ny\n")
    assert read_form(edited, form).replace("\n", "").replace(" ", "") == (
        '{"a":1.10,"b":[100000000000000000000000,1E5],"c":"y"}'
    )


def test_arguments_can_be_changed_added_and_removed() -> None:
    form = write_form("tool", encode(path="a", content="one\ntwo", limit=3))
    edited = (
        form.text.replace("two", "zwei\n")
        .replace("limit (JSON) ==========\n3\n", "limit (remove) ==========\n")
        .replace("========== end", "========== more (JSON) ==========\n[true]\n========== end")
    )
    assert json.loads(read_form(edited, form)) == {
        "path": "a",
        "content": "one\nzwei\n",
        "more": [True],
    }


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("========== end ==========", "", "The last line is missing"),
        ("========== path (text)", "======== path (text)", "The section of path is missing"),
        ("========== content (text)", "== content (text)", "The section of content is missing"),
        ("content (text)", "path (text)", "The argument path occurs twice"),
        ("limit (JSON)", "limit (YAML)", "The section of limit is missing"),
        ("3\n", "3,\n", "The argument limit is not valid JSON"),
        ("3\n", '{"a": 1, "a": 2}\n', "a key occurs twice"),
        ("3\n", "[" * 5000 + "\n", "The argument limit is not valid JSON"),
        ("limit (JSON)", "limit (remove)", "The removed argument limit still has content"),
        ("limit (JSON)", '"lim (JSON)', "is not the name of an argument"),
        ("end ==========\n", "end ==========\nmore\n", "There is text after the end"),
    ],
)
def test_an_invalid_form_is_an_error_and_the_text_is_kept(
    before: str, after: str, problem: str
) -> None:
    form = write_form("tool", encode(path="a", content="# note\ntext", limit=3))
    edited = form.text.replace(before, after)
    with pytest.raises(UsageError) as caught:
        read_form(edited, form)
    assert problem in caught.value.message
    assert caught.value.hint
    again = write_again(edited, caught.value, form)
    assert again.startswith("# The edited call cannot be read.")
    own = edited.removeprefix(form.text[: form.text.index("=" * form.mark)])
    assert again.endswith(own)
    assert "# note\ntext" in again
    # The corrected text is read, and a second error replaces the first one.
    twice = write_again(again, caught.value, form)
    assert twice == again
    if after and edited.count(after) == 1:
        corrected = again.replace(after, before)
        assert json.loads(read_form(corrected, form))["content"] == "# note\ntext"


def test_what_is_too_long_or_no_object_is_not_opened() -> None:
    with pytest.raises(UsageError, match="too long") as caught:
        write_form("tool", encode(content="x" * MAX_CHARACTERS))
    assert "4,000,000" in caught.value.message
    assert caught.value.hint
    for arguments in ("[1]", "{", '"x"'):
        with pytest.raises(UsageError, match="not a JSON object"):
            write_form("tool", arguments)
    form = write_form("tool", encode(content="x"))
    with pytest.raises(UsageError, match="more than 4,000,000"):
        read_form(form.text.replace("\nx\n", f"\n{'x' * MAX_CHARACTERS}\n"), form)
