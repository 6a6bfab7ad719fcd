"""Offers the prompts of servers as commands: ``/server:prompt first second name=third``."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hilum_mcp.client import ServerClient
    from hilum_mcp.offer import OfferedPrompt

    Prompts = Iterable[tuple[ServerClient, OfferedPrompt]]


class PromptCommand(NamedTuple):
    """A command that refers to a server's prompt.

    Attributes:
        client: The server that offers the prompt.
        prompt: The prompt's name.
        arguments: The given arguments.
        problem: Why the command cannot be used; empty if it can.
        missing: The required arguments that are missing from the command.
    """

    client: ServerClient
    prompt: str
    arguments: dict[str, str]
    problem: str = ""
    missing: tuple[str, ...] = ()


def parse_command(text: str, prompts: Prompts) -> PromptCommand | None:
    """Parse a command, or return ``None`` if it does not refer to a prompt.

    Args:
        text: The user's text.
        prompts: The known prompts, each with its server.
    """
    typed = text.removeprefix("/")
    named = {}
    for client, prompt in prompts:
        for server in (client.prefix, client.name):
            named[f"{server}:{prompt.name}"] = (client, prompt)
    # The longest names are tried first, because a name may contain spaces and may be a prefix of
    # another name.
    for name in sorted(named, key=len, reverse=True):
        rest = typed.removeprefix(name)
        is_match = typed.startswith(name) and rest[:1] in ("", " ", "\n")
        if is_match:
            client, prompt = named[name]
            return _parse_arguments(client, prompt, rest.strip())
    return None


def _split_named(words: Sequence[str], names: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the arguments in the form ``name=value``, and the remaining words."""
    named: dict[str, str] = {}
    positional: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name in names:
            named[name] = value
        else:
            positional.append(word)
    return named, positional


def _parse_arguments(client: ServerClient, prompt: OfferedPrompt, text: str) -> PromptCommand:
    names = [argument.name for argument in prompt.arguments]
    usage = describe_usage(client, prompt)
    try:
        words = _split_words(text, len(names))
    except ValueError as error:
        problem = f"The arguments cannot be split into words: {error}. {usage}"
        return PromptCommand(client, prompt.name, {}, problem)
    arguments, positional = _split_named(words, names)
    free = [name for name in names if name not in arguments]
    if positional and not free:
        problem = f"Too many arguments. {usage}"
        return PromptCommand(client, prompt.name, {}, problem)
    if len(positional) > len(free):
        # The last argument gets all remaining words, because users write sentences without quotes.
        last = len(free) - 1
        positional = [*positional[:last], " ".join(positional[last:])]
    arguments.update(zip(free, positional, strict=False))
    required = [argument.name for argument in prompt.arguments if argument.required]
    missing = tuple(name for name in required if name not in arguments)
    problem = f"It requires {', '.join(missing)}. {usage}" if missing else ""
    return PromptCommand(client, prompt.name, arguments, problem, missing)


def _split_words(text: str, arguments: int) -> list[str]:
    """Split a command's text into words, unless the prompt has at most one argument."""
    if arguments > 1 or "=" in text:
        return shlex.split(text)
    return [text] if text else []


def describe_usage(client: ServerClient, prompt: OfferedPrompt) -> str:
    """Return the usage of the command for a prompt."""
    return f"/{client.name}:{prompt.name} {describe_arguments(prompt)}".rstrip()


def describe_arguments(prompt: OfferedPrompt) -> str:
    """Return the arguments of a prompt; optional ones are in brackets."""
    words = []
    for argument in prompt.arguments:
        words.append(argument.name if argument.required else f"[{argument.name}]")
    return " ".join(words)


def list_prompts(prompts: Prompts) -> str:
    """Return a list of the prompts as text to show to the user."""
    rows = [
        f"{describe_usage(client, prompt)}  {prompt.description}".rstrip()
        for client, prompt in prompts
    ]
    return "\n".join(rows) or "The MCP servers of this session have no prompts."
