"""Variables that people expect in hooks, and that no hook receives, are named."""

import json

import pytest
from hilum_hooks_claude.foreign_files import find_foreign_files
from hilum_hooks_claude.listing import list_hooks
from hook_places import group

GUARD = """#!/bin/bash
if [[ "$CLAUDE_FILE_PATH" == *.env ]]; then exit 2; fi
"""
OWN = """#!/bin/bash
INPUT=$(cat)
TOOL_NAME=$(echo "$INPUT" | jq -r .tool_name)
[ "$TOOL_NAME" = Bash ] || exit 0
"""


def notes(place):
    """Return what the list of hooks says about variables."""
    return [row.strip() for row in list_hooks(place.project) if "does not set" in row]


@pytest.mark.parametrize(
    ("command", "name", "field"),
    [
        ("npx prettier --write $CLAUDE_FILE_PATH", "CLAUDE_FILE_PATH", ".tool_input.file_path"),
        ('echo "${TOOL_INPUT}" | jq .file_path', "TOOL_INPUT", ".tool_input"),
        ("bash .claude/hooks/guard.sh", "CLAUDE_FILE_PATH", ".tool_input.file_path"),
    ],
)
def test_a_variable_that_no_hook_receives_is_named(place, command, name, field):
    place.write(".claude/hooks/guard.sh", GUARD, mode=0o755)
    place.project_hooks({"PreToolUse": group(command, "Write")})
    row = f"hilum does not set ${name}; the standard input of a hook contains {field}"
    assert notes(place) == [f"! {row}"]
    (problem,) = [row for file in find_foreign_files(place.project) for row in file.problems]
    assert problem == f".claude/settings.json:7: {row}."


@pytest.mark.parametrize(
    "command",
    [
        '"$CLAUDE_PROJECT_DIR"/.claude/hooks/own.sh',
        "TOOL_NAME=Bash; echo $TOOL_NAME",
        "jq -r .tool_name | while read -r TOOL_NAME; do echo $TOOL_NAME; done",
        "echo $HOME",
    ],
)
def test_a_variable_with_a_value_is_not_named(place, command):
    place.write(".claude/hooks/own.sh", OWN, mode=0o755)
    place.project_hooks({"PreToolUse": group(command, "Bash")})
    assert notes(place) == []
    assert json.loads((place.project / ".claude/settings.json").read_text())
