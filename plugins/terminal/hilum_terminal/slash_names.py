"""Names commands as they are entered in a conversation: ``/trust``, not ``hilum trust``."""

from __future__ import annotations

import re

from hilum.errors import E_LLM_AUTH, E_NO_MODEL

# The sub-commands of hilum that are commands in a conversation, too. The others, such as
# ``hilum run``, start a program that needs the terminal.
_NAMES = (
    "agents",
    "commands",
    "config",
    "diff",
    "doctor",
    "hooks",
    "index",
    "init",
    "mcp",
    "memory",
    "models",
    "permissions",
    "plugins",
    "rules",
    "sessions",
    "skills",
    "trace",
    "trust",
    "undo",
)
# ``hilum mcp serve`` is a program, too, ``hilum models key`` asks for a key, and hooks are approved
# after a look at them.
_COMMAND = re.compile(
    rf"\bhilum (?!hooks (?:approve|refuse)\b)({'|'.join(_NAMES)})\b(?! serve| key)"
)


def name_slash_commands(text: str) -> str:
    """Return hilum's own message with the commands as they are entered in a conversation."""
    return _COMMAND.sub(r"/\1", text)


def name_next_step(code: str, text: str) -> str:
    """Return the hint of an error as it is shown in a conversation.

    Args:
        code: The error's code.
        text: The error's own hint.
    """
    text = name_slash_commands(text)
    if code in (E_LLM_AUTH, E_NO_MODEL) and "/setup" not in text:
        return f"{text}\n/setup sets up a model: it asks for a key or for a server.".strip()
    return text
