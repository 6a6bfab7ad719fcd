"""Recognise scripts that only activate a virtual environment: ``source .venv/bin/activate``.

After any other script, a name may run something else than before: ``make`` may be a function. The
scripts of ``venv``, ``virtualenv`` and ``uv`` differ by version, so that not their texts are compared,
but what they do: which commands they run, and which variables they set.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from hilum.program_start import find_start
from hilum_guard import UNKNOWN, ShellSource, UnreadableShell

from hilum_checks.command_facts import CommandFacts
from hilum_checks.command_kinds import only_shows

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_BYTES = 20_000
"""Maximum size of an activation script. Those of ``uv`` have 4 KB, with their licence."""
_FUNCTION = re.compile(r"(?:deactivate|pydoc|_virtualenv\w*)\s*\(\)")
# Commands that change nothing, or only what the name `pydoc` means. With `exit 0`, what follows would
# not run, and the call would succeed.
_COMMAND = re.compile(
    r"(?:deactivate|unset|export|local|true|false|:|echo|command -v|cygpath|basename|dirname|realpath"
    r"|uname|return|exit [1-9]\d*|(?:un)?alias pydoc|python -m pydoc|_virtualenv\w*|\[\[?)(?:\s.*)?"
    r"|hash -r|\$\(command -v cygpath &> /dev/null\)",
    re.DOTALL,
)
_REDIRECTION = re.compile(r"\d?>{1,2}\s*(?:/dev/null|&\d)|&>\s*/dev/null")
_VARIABLE = re.compile(
    r"(?:_\w+|PS1|psvar\[\d\]|PYTHONHOME|SCRIPT_PATH|VIRTUAL_ENV_PROMPT|TCL_LIBRARY|TK_LIBRARY|LC_ALL"
    r"|PKG_CONFIG_PATH)\+?=.*",
    re.DOTALL,
)
_PATH = re.compile(
    r"PATH=(?:\"?\$\{?_OLD_VIRTUAL_PATH(?::-)?\}?\"?"
    r"|\"\$\{?VIRTUAL_ENV\}?/\"?bin\"?(?::\$\{?PATH\}?|\$\{PATH:\+:\$PATH\})\")"
)
# The folder of the script, found when it runs.
_FOUND_FOLDER = frozenset(
    (
        'VIRTUAL_ENV=$(cygpath -u "$VIRTUAL_ENV")',
        'VIRTUAL_ENV=$(cygpath "$VIRTUAL_ENV")',
        'CURRENT_PATH=$(realpath "${BASH_SOURCE[0]}")',
        'CURRENT_DIR=$(dirname "${CURRENT_PATH}")',
        'CURRENT_ENV="$(realpath "${CURRENT_DIR}/../")"',
        'VIRTUAL_ENV="$CURRENT_ENV"',
    )
)
_ENVIRONMENT = re.compile(r"VIRTUAL_ENV=(['\"]?)([^'\"$`\\\n]*)\1")
# What only zsh and the Korn shell can read.
_OTHER_SHELLS = re.compile(r"\"\$\{(?:\(%\):-%x|\.sh\.file)\}\"")


# Scripts with which version managers and installers put their programs in `PATH`.
_MANAGERS = frozenset(
    """
    .nvm/nvm.sh .cargo/env .asdf/asdf.sh .sdkman/bin/sdkman-init.sh .ghcup/env .deno/env
    .local/bin/env
    """.split()
)


def list_activations(commands: Sequence[CommandFacts], root: Path) -> Iterator[str]:
    """Yield the texts of the commands that only activate an environment or a version manager. Blocks.

    Args:
        commands: The commands of a call.
        root: The root of the workspace.
    """
    for command in commands:
        if _activates(command) or _loads_manager(command, root):
            yield command.source.strip()
        elif _may_write(command):
            # It may write what a later command reads as a script.
            return


def _activates(command: CommandFacts) -> bool:
    """Return whether a command only activates a virtual environment."""
    if command.words[:1] not in (("source",), (".",)) or len(command.words) != 2:
        return False
    path = command.words[1]
    if command.cwd is None or UNKNOWN in path or os.path.basename(path) != "activate":
        return False
    return _is_activation(os.path.realpath(os.path.join(command.cwd, os.path.expanduser(path))))


def _loads_manager(command: CommandFacts, root: Path) -> bool:
    """Return whether a command loads a version manager that the user has installed at home."""
    if command.words[:1] not in (("source",), (".",)) or len(command.words) != 2:
        return False
    home = os.path.expanduser("~")
    path = os.path.expanduser(command.words[1])
    if not path.startswith(f"{home}/") or path[len(home) + 1 :] not in _MANAGERS:
        return False
    found = os.path.realpath(path)
    # What an agent may have written is no such script.
    if f"{found}/".startswith(f"{os.path.realpath(root)}/"):
        return False
    try:
        status = os.stat(found)
    except OSError:
        return False
    return status.st_mtime < find_start()


def _may_write(command: CommandFacts) -> bool:
    is_unknown = command.effects.unknown == "all" and not only_shows(command.words)
    return is_unknown or any(access.kind != "read" for access in command.effects.files)


def _is_activation(path: str) -> bool:
    """Return whether a script only activates the environment that it is in."""
    folder, name = os.path.split(os.path.dirname(path))
    if name != "bin":
        return False
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(MAX_BYTES + 1)
    except (OSError, ValueError):
        return False
    return len(text) <= MAX_BYTES and _only_activates(text, folder)


@lru_cache(8)
def _only_activates(text: str, folder: str) -> bool:
    """Return whether a text does nothing but activate an environment.

    Args:
        text: The text of the script.
        folder: The resolved path of the environment.
    """
    try:
        source = ShellSource(_OTHER_SHELLS.sub('""', text))
    except UnreadableShell:
        return False
    encoded = source.text
    return all(
        _is_usual(node, encoded[node.start_byte : node.end_byte].strip(), folder)
        for node in _walk(source.root)
    )


def _is_usual(node: Node, text: str, folder: str) -> bool:
    """Return whether a part of an activation script is one that such scripts have."""
    if node.type == "ERROR":
        return False
    if node.type == "function_definition":
        return _FUNCTION.match(text) is not None
    if node.type in ("command", "declaration_command", "unset_command", "test_command"):
        return _COMMAND.fullmatch(text) is not None
    if node.type == "file_redirect":
        return _REDIRECTION.fullmatch(text) is not None
    if node.type != "variable_assignment":
        return True
    if _VARIABLE.fullmatch(text) or _PATH.fullmatch(text) or text in _FOUND_FOLDER:
        return True
    found = _ENVIRONMENT.fullmatch(text)
    # The text is in Latin-1, byte by byte.
    return found is not None and os.path.realpath(found[2].encode("latin-1")) == os.fsencode(folder)


def _walk(node: Node) -> Iterator[Node]:
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node.children
