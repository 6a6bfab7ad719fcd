"""Hundreds of spellings, each with the verdict it must get.

The tables stand in `command_tables`.
"""

import os
from pathlib import Path

import pytest
from hilum_guard import judge_command

TABLES = Path(__file__).parent / "command_tables"


def table(name):
    """The commands of a table."""
    lines = (TABLES / f"{name}.txt").read_text().splitlines()
    return [
        line.replace("⏎", "\n")
        for line in lines
        if line.strip() and not line.startswith(("# ", "## "))
    ]


def judged(line, workspace):
    """The verdict for a line of a table, with its names put in."""
    home = os.path.expanduser("~")
    text = line.replace("WORKSPACE", str(workspace))
    text = (
        text.replace("HOME/", f"{home}/") if "$HOME" not in text and "{HOME" not in text else text
    )
    return judge_command(
        f"{text[:-4]}{home}" if text.endswith(" HOME") else text, workspace=workspace
    )


def find_wrong(name, workspace, kind, *, grave=None):
    """Return the reasons of the lines of a table that do not get a verdict, by line."""
    wrong = {}
    for line in table(name):
        verdict = judged(line, workspace)
        if verdict.kind != kind or grave not in (None, bool(verdict.grave)):
            wrong[line] = f"{verdict.kind}: {verdict.reason}"
    return wrong


def test_destructive_commands_are_blocked(judged_workspace):
    """They are also blocked inside other commands, and however they are disguised."""
    assert find_wrong("destructive", judged_workspace, "block") == {}


def test_ambiguous_commands_need_approval_and_are_not_grave(judged_workspace):
    """They are neither blocked nor harmless, and the policy may let them run."""
    assert find_wrong("ambiguous", judged_workspace, "ask", grave=False) == {}


def test_commands_that_cannot_be_undone_are_grave(judged_workspace):
    """They are not blocked, because they may be wanted, but no policy lets them run unasked."""
    assert find_wrong("grave", judged_workspace, "ask", grave=True) == {}


PADDED = [
    ":" + " " * 20_000 + "; rm -rf /",
    "true; " * 600 + "rm -rf /",
    "# " + "x" * 20_000 + "\nrm -rf /",
    "cat > f <<'EOF'\n" + "text\n" * 5_000 + "EOF\nrm -rf /",
    "(" * 60 + "true" + ")" * 60 + "; rm -rf ~",
    "echo '" + "x" * 20_000 + "' && mkfs.ext4 /dev/sda1",
]
LONG = [
    "cat > f <<'EOF'\n" + "never run rm -rf /\nrm -rf /\n" * 2_000 + "EOF\n",
    "echo '" + "x" * 20_000 + "; rm -rf /'",
    "# rm -rf / " + "x" * 20_000 + "\nls",
]


@pytest.mark.parametrize("text", PADDED, ids=range(len(PADDED)))
def test_padding_hides_nothing(text, judged_workspace):
    """A text that is too long or too deep to be read whole is read statement by statement."""
    assert judge_command(text, workspace=judged_workspace).kind == "block"


@pytest.mark.parametrize("text", LONG, ids=range(len(LONG)))
def test_a_long_text_that_only_speaks_of_destruction_is_asked(text, judged_workspace):
    """What stands in quotes, comments and here-documents is not run."""
    assert judge_command(text, workspace=judged_workspace).kind == "ask"


def test_harmless_commands_need_no_approval(judged_workspace):
    """These are the commands with which people and agents look around all day."""
    assert find_wrong("harmless", judged_workspace, "auto") == {}
