"""``hilum memory``: without a session, in words and in JSON, and harmless for a terminal."""

import io
import json
import os
import pty
import stat
import sys

import pytest
from hilum.__main__ import main as hilum
from hilum_memory.longterm.memories import Memories
from hilum_memory.longterm.memory import USER, Memory


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder to be in, and a user of whom nothing is known."""
    for name in ("HILUM_DATA", "HILUM_CONFIG", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    for name in ("EDITOR", "VISUAL"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    return folder


@pytest.fixture
def memories(tmp_path):
    """The memories that the command sees."""
    return Memories(tmp_path / "hilum_data" / "memory.db")


@pytest.fixture
def run(capfd):
    """Run ``hilum memory``; gives exit code, output, and errors."""

    def call(*arguments: str) -> tuple[int, str, str]:
        code = hilum(["memory", *arguments])
        return (code, *capfd.readouterr())

    return call


def test_help_tells_the_commands(run) -> None:
    """And how they are used."""
    code, out, _ = run("--help")
    assert code == 0
    assert all(f"    {name} " in out for name in "list search show add edit forget off on".split())
    assert run("forget", "--help")[0] == 0


def test_a_memory_from_its_adding_to_its_forgetting(run, here) -> None:
    """Each step says what it did."""
    assert run() == (0, f"Nothing is remembered for {here}.\n", "")
    added = run("add", "Run the tests with", "uv run pytest.")
    assert added == (
        0,
        f"Remembered as [1], fact, in {here}: Run the tests with uv run pytest.\n",
        "",
    )
    assert run("add", "run the tests with uv run pytest")[1].startswith("Already known as [1]")
    assert run("add", "I prefer short answers.")[1].startswith(
        "Remembered as [2], preference, everywhere:"
    )
    assert "    1  " in run("list", "--workspace")[1]
    assert "    1  " not in run("list", "--user")[1]
    assert "uv run pytest" in run("search", "testing")[1]
    assert run("search", "zebra")[1] == "Nothing was found.\n"
    assert run("edit", "1", "Run the tests with nox.")[1] == "[1] Run the tests with nox.\n"
    shown = run("show", "1")[1]
    assert "Run the tests with nox." in shown
    assert f"applies:   in {here}" in shown
    assert run("forget", "1")[1].startswith("Forgot [1] Run the tests with nox.\n")
    assert "There is no memory 1." in run("show", "1")[2]


def test_what_was_replaced_is_shown(run) -> None:
    """With the memory, and in the whole list."""
    run("add", "Python 3.11 is used.")
    assert ", in place of 1: Python 3.12" in run("add", "Python 3.12 is used.")[1]
    assert "before:    [1]" in run("show", "2")[1]
    assert "3.11" not in run("list")[1]
    assert "(replaced by 2)" in run("list", "--all")[1]


def test_everything_in_json(run, here) -> None:
    """Errors, too."""
    added = json.loads(run("add", "缓存目录是 .cache", "--json")[1])
    assert (added["what"], added["memory"]["scope"], added["memory"]["workspace"]) == (
        "new",
        "workspace",
        str(here),
    )
    listed = json.loads(run("--json")[1])
    assert listed["off"] is False
    assert listed["memories"][0]["text"] == "缓存目录是 .cache"
    assert json.loads(run("search", "缓存", "--json")[1])[0]["score"] > 0
    assert json.loads(run("show", "1", "--json")[1])["history"] == []
    code, out, _ = run("show", "9", "--json")
    assert (code, json.loads(out)["error"]["code"]) == (2, "E_NOT_FOUND")
    assert json.loads(run("off", "--json")[1]) == {"off": True}
    assert json.loads(run("forget", "1", "--json")[1]) == {"forgotten": 1}


def test_off_and_on_everywhere_and_here(run, memories, here) -> None:
    """What is off says so in the list, and nothing is deleted."""
    run("add", "Keep me.")
    assert run("off", "--workspace")[1].startswith(f"Memory is off in {here}.")
    assert "Keep me." in run()[1]
    assert "Memory is off" in run()[1]
    assert memories.is_off(str(here))
    assert not memories.is_off("/elsewhere")
    run("off")
    assert memories.is_off("/elsewhere")
    assert "still off in this folder" in run("on")[1]
    assert run("on", "--workspace")[1] == f"Memory is on in {here}.\n"
    assert not memories.is_off(str(here))


def test_forgetting_all_asks(run, memories, monkeypatch) -> None:
    """Where nobody is there to ask, ``--yes`` is needed.

    The user's are kept with ``--workspace``.
    """
    run("add", "One.")
    run("add", "--user", "Two.")
    code, _, errors = run("forget", "--all")
    assert (code, "Confirm with --yes." in errors) == (2, True)
    terminal = io.StringIO("n\ny\n")
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", terminal)
    code, out, errors = run("forget", "--all", "--workspace")
    assert (code, out, "Delete 1 memories permanently?" in errors) == (
        1,
        "Nothing was deleted.\n",
        True,
    )
    assert run("forget", "--all", "--workspace")[1].startswith("Forgot 1 memories.")
    assert [memory.text for memory in memories.all([USER, os.getcwd()])] == ["Two."]
    assert run("forget", "--all", "--yes")[0] == 0
    assert memories.all([USER]) == []


def test_an_editor_changes_a_memory(run, tmp_path, monkeypatch) -> None:
    """On a terminal only."""
    run("add", "Old text.")
    assert "no editor" in run("edit", "1")[2]
    editor = tmp_path / "my editor"
    editor.write_text('#!/bin/sh\necho "New text." > "$2"\n')
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("EDITOR", f"'{editor}' --wait")
    main, other = pty.openpty()
    with os.fdopen(main), open(other) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        assert run("edit", "1") == (0, "[1] New text.\n", "")
        monkeypatch.setenv("EDITOR", "false")
        assert "nothing was changed" in run("edit", "1")[2]
        monkeypatch.setenv("EDITOR", "/no/such/editor")
        assert "cannot be started" in run("edit", "1")[2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["add", "my password is hunter2"], "seems to contain a secret"),
        (["add", "   "], "nothing to remember"),
        (["add", "x" * 2_000], "more than the 500"),
        (
            ["add", "--user", "--workspace", "x"],
            "Argument --workspace: not allowed with argument --user.",
        ),
        (["forget"], "Pass the numbers of memories, or --all."),
        (["forget", "1", "--all"], "Pass the numbers of memories, or --all."),
        (["forget", "x"], "invalid int value"),
        (["frobnicate"], "invalid choice"),
        (["add", "x", "--kind", "order"], "invalid choice"),
    ],
)
def test_mistakes_are_told_in_a_sentence(run, memories, arguments, said) -> None:
    """And nothing is written."""
    code, _, errors = run(*arguments)
    assert code
    assert said in errors
    assert "Traceback" not in errors
    assert memories.all([USER, os.getcwd()]) == []


def test_what_a_terminal_would_obey_is_shown_as_text(run, memories) -> None:
    """A memory is data; an older file may hold anything."""
    memories.add(Memory(scope=USER, text="evil \x1b]0;title\x07 \u202e text"))
    assert "\x1b" not in run()[1]
    assert "\\x1b]0;title\\x07 \\u202e text" in run()[1]


def test_a_foreign_file_is_told(run, tmp_path) -> None:
    """With the exit code of the store."""
    path = tmp_path / "hilum_data" / "memory.db"
    path.parent.mkdir()
    path.write_text("dear diary")
    code, _, errors = run()
    assert code == 5
    assert "is not a memory file" in errors
    assert path.read_text() == "dear diary"
