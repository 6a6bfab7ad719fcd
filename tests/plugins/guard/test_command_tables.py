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


@pytest.mark.parametrize("line", table("destructive"))
def test_what_is_certainly_destructive_is_blocked(line, judged_workspace):
    """Also inside other commands, and in every disguise that reading can take off."""
    verdict = judged(line, judged_workspace)
    assert verdict.kind == "block", verdict.reason


@pytest.mark.parametrize("line", table("ambiguous"))
def test_what_reading_cannot_decide_is_asked(line, judged_workspace):
    """Neither a wall for the user nor a free pass."""
    verdict = judged(line, judged_workspace)
    assert verdict.kind == "ask", verdict.reason


@pytest.mark.parametrize("line", table("grave"))
def test_what_cannot_be_undone_is_always_asked(line, judged_workspace):
    """Not blocked, as it may be wanted; and under no policy run without a question."""
    verdict = judged(line, judged_workspace)
    assert verdict.kind == "ask", verdict.reason
    assert verdict.grave


@pytest.mark.parametrize("line", table("ambiguous"))
def test_everyday_changes_are_not_grave(line, judged_workspace):
    """The policy decides them."""
    assert not judged(line, judged_workspace).grave


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


@pytest.mark.parametrize("line", table("harmless"))
def test_everyday_looking_is_not_asked(line, judged_workspace):
    """What people and agents do all day, spelled as they spell it."""
    verdict = judged(line, judged_workspace)
    assert verdict.kind == "auto", verdict.reason
