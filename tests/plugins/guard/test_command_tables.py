"""Hundreds of spellings, each with the verdict it must get. The tables stand in `command_tables`."""

import os
from pathlib import Path

import pytest
from hilum_guard import judge_command

TABLES = Path(__file__).parent / "command_tables"


def table(name):
    """The commands of a table."""
    lines = (TABLES / f"{name}.txt").read_text().splitlines()
    return [line.replace("⏎", "\n") for line in lines if line.strip() and not line.startswith(("# ", "## "))]


def judged(line, workspace):
    """The verdict for a line of a table, with its names put in."""
    home = os.path.expanduser("~")
    text = line.replace("WORKSPACE", str(workspace))
    text = text.replace("HOME/", f"{home}/") if "$HOME" not in text and "{HOME" not in text else text
    return judge_command(f"{text[:-4]}{home}" if text.endswith(" HOME") else text, workspace=workspace)


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


@pytest.mark.parametrize("line", table("harmless"))
def test_everyday_looking_is_not_asked(line, judged_workspace):
    """What people and agents do all day, spelled as they spell it."""
    verdict = judged(line, judged_workspace)
    assert verdict.kind == "auto", verdict.reason
