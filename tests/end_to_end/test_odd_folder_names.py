"""A workspace, and files in it, whose names are not UTF-8: everything works, and names are shown
with escapes.
"""

import json
import os
import sqlite3
import subprocess
from pathlib import Path

import attrs
import pytest

from .conftest import call

ODD = b"caf\xe9-\xff"
ESCAPED = "caf\\xe9-\\xff"
URI = "caf%E9-%FF"


@pytest.fixture
def odd(cli):
    """The command line in a folder whose name is not UTF-8, with files of such names."""
    folder = os.path.join(os.fsencode(cli.workspace), ODD)
    try:
        os.makedirs(folder + b"/sub\xfe")
    except OSError:
        pytest.skip("the file system takes only UTF-8 names")
    for name, content in (
        (b"a.txt", "one\n"),
        (b"b\xff.txt", "one two\n"),
        (b"sub\xfe/c.py", "one = 1\n"),
    ):
        with open(os.path.join(folder, name), "w") as file:
            file.write(content)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return attrs.evolve(cli, workspace=Path(os.fsdecode(folder)))


def read(cli, name: bytes) -> str:
    with open(os.path.join(os.fsencode(cli.workspace), name)) as file:
        return file.read()


async def test_a_run_in_such_a_folder(odd, tmp_path):
    """Every tool works there, the journal has it, and no half character leaves the program."""
    answers = [
        call("list_directory", id="c1", path="."),
        call("search_files", id="c2", pattern="one"),
        call("glob_search", id="c3", pattern="**/*"),
        call("read_file", id="c4", path="a.txt"),
        call("edit_file", id="c5", path="a.txt", old_string="one", new_string="two"),
        call(
            "run_terminal_cmd",
            id="c6",
            command="pwd; ls; echo three >> b*.txt; echo new > new*.txt",
        ),
        call("read_lints", id="c7"),
        "Done.",
    ]
    async with odd.model(*answers) as server:
        done = await odd("run", "Work.", "--approve", "auto", "--output-format", "json")
        system = server.requests[0].system
        asked = [[str(message) for message in request.messages] for request in server.requests]
    assert (done.code, done.err) == (0, ""), done
    assert done.result["text"] == "Done."
    assert [call["code"] for call in done.result["calls"]] == [""] * 7
    assert URI in done.result["workspace"]
    assert read(odd, b"a.txt") == "two\n"
    assert read(odd, b"b\xff.txt") == "one two\nthree\n"
    assert len(asked) == 8
    assert ESCAPED in system
    for message in asked[-1]:
        message.encode()  # no half characters
    shown = await odd("sessions", "show", done.result["session"])
    assert shown.code == 0
    assert "E_" not in shown.out.replace("E_CMD", ""), shown.out
    assert "a.txt" in shown.out

    diff = await odd("diff")
    assert diff.code == 0, diff
    assert "+two" in diff.out
    assert "b\\udcff.txt" in diff.out or "b\\xff.txt" in diff.out
    listed = await odd("sessions", "list")
    assert done.result["session"][:15] in listed.out
    everything = await odd("sessions", "list", "--all", "--json")
    assert URI in json.loads(everything.out)[0]["workspace"]
    again = await odd(
        "run", "--resume", done.result["session"], "--output-format", "json", "Go on."
    )
    assert (
        again.code != 2 or "E_" in again.out
    )  # the model has no answer left; the session was found and opened
    undone = await odd("undo")
    assert undone.code == 0, undone
    assert read(odd, b"a.txt") == "one\n"
    assert read(odd, b"b\xff.txt") == "one two\n"
    for database in tmp_path.rglob("*.db"):
        connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table'"
        ).fetchall():
            connection.execute(f"SELECT * FROM {name}").fetchall()  # every text decodes
        connection.close()


@pytest.mark.slow(cases=4)
@pytest.mark.parametrize(
    "words", [["diff"], ["undo"], ["sessions", "list"], ["doctor"], ["config"], ["rules"], ["mcp", "list"],
              ["skills", "list"], ["agents", "list"], ["permissions", "list"], ["trust"], ["context"], ["plugins"]],
    ids=" ".join,
)  # fmt: skip
async def test_commands_in_such_a_folder(odd, words):
    """None ends with a traceback, whatever it has to say."""
    done = await odd(*words)
    assert done.code in (0, 1, 2)
    assert "Traceback" not in done.err
    assert "surrogate" not in done.err + done.out


async def test_such_a_folder_is_named_with_escapes(odd):
    """In a message of an error, too."""
    done = await odd("diff")
    assert ESCAPED in done.err or "udce9" in done.err
    assert "No session has changed files" in done.err
