"""Find the variables that people expect in hooks, and that no hook receives.

Without its variable, a guard that compares ``$CLAUDE_FILE_PATH`` lets everything pass.
"""

from __future__ import annotations

import re
from pathlib import Path

from hilum.config_files import read_regular_file

from hilum_hooks_claude.approvals import JudgedHook

_MAX_BYTES = 100_000
# What the variables stand for, in the input of a hook.
_FIELDS = {
    "CLAUDE_FILE_PATH": ".tool_input.file_path",
    "CLAUDE_FILE_PATHS": ".tool_input.file_path",
    "CLAUDE_TOOL_INPUT": ".tool_input",
    "CLAUDE_TOOL_INPUT_FILE_PATH": ".tool_input.file_path",
    "CLAUDE_TOOL_NAME": ".tool_name",
    "CLAUDE_TOOL_OUTPUT": ".tool_response",
    "CLAUDE_EVENT_TYPE": ".hook_event_name",
    "CLAUDE_NOTIFICATION": ".message",
    "TOOL_INPUT": ".tool_input",
    "TOOL_NAME": ".tool_name",
    "TOOL_OUTPUT": ".tool_response",
}
_USED = re.compile(r"(?<!\\)\$\{?(\w+)")
_SHELL_SCRIPTS = ("", ".sh", ".bash", ".zsh")


def find_unset_variables(root: Path, judged: JudgedHook) -> list[str]:
    """Return the variables without a value that a hook uses. Blocks.

    Args:
        root: The project.
        judged: The hook, with the files of the project that it executes.
    """
    hook = judged.hook
    texts = [" ".join((hook.command, *(hook.arguments or ())))]
    for name in judged.files:
        path = root / name
        if path.suffix in _SHELL_SCRIPTS:
            texts.append(_read(path))
    found: dict[str, None] = {}
    for text in texts:
        for name in _USED.findall(text):
            # A script may set a variable of this name itself.
            is_set = re.search(rf"\b{name}=|\bread\b[^\n]*\b{name}\b", text)
            if name in _FIELDS and not is_set:
                found[name] = None
    return list(found)


def explain_unset(name: str) -> str:
    """Return what to use in place of a variable that hooks do not receive."""
    return f"hilum does not set ${name}; the standard input of a hook contains {_FIELDS[name]}"


def _read(path: Path) -> str:
    try:
        return read_regular_file(path, _MAX_BYTES).decode(errors="replace")
    except (OSError, ValueError):
        return ""
