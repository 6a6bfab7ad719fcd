"""Names commands as they are entered in a conversation: ``/trust``, not ``hilum trust``."""

from __future__ import annotations

import re

# The sub-commands of hilum that are commands in a conversation, too. The others, such as
# ``hilum run``, start a program that needs the terminal.
_NAMES = (
    "agents",
    "config",
    "diff",
    "doctor",
    "init",
    "mcp",
    "memory",
    "models",
    "permissions",
    "plugins",
    "rules",
    "sessions",
    "skills",
    "trust",
    "undo",
)
# ``hilum mcp serve`` is a program, too.
_COMMAND = re.compile(rf"\bhilum ({'|'.join(_NAMES)})\b(?! serve)")


def name_slash_commands(text: str) -> str:
    """Return hilum's own message with the commands as they are entered in a conversation."""
    return _COMMAND.sub(r"/\1", text)
