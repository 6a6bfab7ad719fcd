"""Prompts of servers as commands: ``/server:prompt first second name=third``."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hilum_mcp.client import ServerClient
    from hilum_mcp.offer import Prompted

    Known = Iterable[tuple[ServerClient, Prompted]]


class Meant(NamedTuple):
    """What a command means: which prompt, with what.

    Or what is wrong with it, and what is missing.
    """

    client: ServerClient
    prompt: str
    arguments: dict[str, str]
    problem: str = ""
    missing: tuple[str, ...] = ()


def command(text: str, known: Known) -> Meant | None:
    """Read a command; ``None`` where it names no prompt.

    Args:
        text: What the user wrote.
        known: The prompts there are, each with its server.
    """
    named = {
        f"{name}:{prompt.name}": (client, prompt)
        for client, prompt in known
        for name in (client.prefix, client.name)
    }
    for name in sorted(
        named, key=len, reverse=True
    ):  # a name may have spaces, and be the beginning of another
        if text[1:] == name or text[1:].startswith((f"{name} ", f"{name}\n")):
            return _with_arguments(*named[name], text[1 + len(name) :].strip())
    return None


def _with_arguments(client: ServerClient, prompt: Prompted, rest: str) -> Meant:
    names = [argument.name for argument in prompt.arguments]
    found: dict[str, str] = {}
    try:
        words = shlex.split(rest) if len(names) > 1 or "=" in rest else [rest] if rest else []
    except ValueError as error:
        return Meant(
            client,
            prompt.name,
            {},
            f"The arguments cannot be read: {error}. {usage(client, prompt)}",
        )
    plain = []
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name in names:
            found[name] = value
        else:
            plain.append(word)
    free = [name for name in names if name not in found]
    if len(plain) > len(free):
        # The last one takes the rest, as a sentence is written without quotes.
        if free:
            plain = [*plain[: len(free) - 1], " ".join(plain[len(free) - 1 :])]
        else:
            plain = plain
        if not free:
            return Meant(client, prompt.name, {}, f"It takes less. {usage(client, prompt)}")
    found |= dict(zip(free, plain, strict=False))
    missing = [a.name for a in prompt.arguments if a.required and a.name not in found]
    if missing:
        said = f"It needs {', '.join(missing)}. {usage(client, prompt)}"
        return Meant(client, prompt.name, found, said, tuple(missing))
    return Meant(client, prompt.name, found)


def usage(client: ServerClient, prompt: Prompted) -> str:
    """Return how a prompt is written."""
    words = [f"{a.name}" if a.required else f"[{a.name}]" for a in prompt.arguments]
    return " ".join([f"/{client.name}:{prompt.name}", *words])


def listed(known: Known) -> str:
    """List the prompts, for the user."""
    rows = [f"{usage(client, prompt)}  {prompt.description}".rstrip() for client, prompt in known]
    return "\n".join(rows) or "The MCP servers of this session have no prompts."
