"""The table ``runner`` of an agent's file: the program that does the agent's work."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import attrs
from hilum.errors import similar_names

DEFAULT_TURNS = 200
"""Turns of a run if the file sets no limit: each request that a program sends is a turn."""
_KEYS = ("command", "env", "network")


@attrs.frozen
class Runner:
    """A program that speaks the Agent Client Protocol and does the work of an agent.

    Attributes:
        command: The program and its arguments; no shell is involved.
        env: Environment variables to add.
        network: Whether the program may use the network. Without it, the program reaches only the
            models, through hilum.
    """

    command: tuple[str, ...]
    env: dict[str, str] = attrs.field(factory=dict, repr=False)
    network: bool = False


def read_runner(value: object) -> Runner:
    """Return the runner that a table describes.

    Raises:
        ValueError: The table is not valid; the message is worded to follow the key.
    """
    if not isinstance(value, Mapping):
        raise ValueError("must be a mapping with command, env and network")
    for key in value:
        if key not in _KEYS:
            similar = similar_names(str(key), _KEYS, 1)
            hint = f"did you mean {similar[0]}?" if similar else f"known: {', '.join(_KEYS)}"
            raise ValueError(f"has an unknown key {key!r} ({hint})")
    command = _read_command(value.get("command"))
    return Runner(command, _read_env(value.get("env")), _read_network(value.get("network")))


def _read_network(value: object) -> bool:
    if value is None or isinstance(value, bool):
        return bool(value)
    # The reader of front matter returns every scalar as text.
    if value not in ("true", "false"):
        raise ValueError(f"needs true or false for network, not {value!r}")
    return value == "true"


def _read_command(value: object) -> tuple[str, ...]:
    words: list[str] = []
    if isinstance(value, str):
        try:
            words = shlex.split(value)
        except ValueError as error:
            raise ValueError(f"has a command that cannot be split into words: {error}") from None
    elif isinstance(value, list) and all(isinstance(word, str) for word in value):
        words = value
    if not words or not words[0] or any("\0" in word for word in words):
        raise ValueError("needs a command: a text or a list of texts")
    return tuple(words)


def _read_env(value: object) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError("needs a mapping for env")
    env: dict[str, str] = {}
    for name, text in value.items():
        is_plain = isinstance(text, str | int | float) and not isinstance(text, bool)
        if not isinstance(name, str) or not name or "=" in name or not is_plain:
            raise ValueError(f"has an invalid entry {name!r} in env; write NAME: text")
        env[name] = str(text)
    return env
