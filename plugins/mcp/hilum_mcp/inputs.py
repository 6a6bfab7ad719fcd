"""Asks the user for the values that a configuration requires as ``${input:ID}``.

Each value is requested once and stored in a file that only the user can read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from hilum import UsageError, data_folder, errors

from hilum_mcp.own_file import INPUT
from hilum_mcp.private_files import write_private
from hilum_mcp.server_config import ConfigInput, ServerConfig

Ask = Callable[[ConfigInput], str]


def inputs_file() -> Path:
    """Return the path of the file that stores the user's answers."""
    return data_folder() / "mcp" / "inputs.json"


def load_answers(server: ServerConfig) -> dict[str, str]:
    """Return the stored answers for the inputs that a server uses. Blocks."""
    wanted = list_inputs(server)
    if not wanted:
        return {}
    known = _read_answers().get(str(server.file), {})
    return {name: known[name] for name in wanted if name in known}


def list_inputs(server: ServerConfig) -> list[str]:
    """Return the IDs of the inputs that a server uses."""
    texts = (
        server.command,
        *server.args,
        *server.env.values(),
        server.cwd,
        server.env_file,
        server.url,
        *server.headers.values(),
        *(server.oauth or {}).values(),
    )
    names: list[str] = []
    for text in texts:
        names += INPUT.findall(text)
    return list(dict.fromkeys(names))


def ask_inputs(server: ServerConfig, inputs: Mapping[str, ConfigInput], ask: Ask | None) -> None:
    """Ask for inputs without a stored answer, and store the answers. Blocks.

    Args:
        server: The server.
        inputs: The inputs that the server's configuration file describes.
        ask: A function that asks the user; ``None`` if nobody can be asked.

    Raises:
        UsageError: Nobody can be asked, or the answer is empty or not allowed.
    """
    known = load_answers(server)
    for name in list_inputs(server):
        if name in known:
            continue
        wanted = inputs.get(name, ConfigInput(name))
        answer = (ask(wanted) if ask else "") or wanted.default
        if not answer:
            raise UsageError(
                f"The MCP server {server.name} requires a value that is missing: "
                f"{wanted.description or name}.",
                code=errors.E_NOT_CONFIGURED,
                hint=f"Run hilum mcp test {server.name} at a terminal to enter it.",
            )
        if wanted.options and answer not in wanted.options:
            raise UsageError(
                f"{answer!r} is not one of {', '.join(wanted.options)}.", hint="Choose one of them."
            )
        _save_answer(server, name, answer)


def _save_answer(server: ServerConfig, name: str, answer: str) -> None:
    answers = _read_answers()
    answers.setdefault(str(server.file), {})[name] = answer
    write_private(inputs_file(), json.dumps(answers, indent=1, ensure_ascii=False))


def _read_answers() -> dict[str, dict[str, str]]:
    """Return all stored answers, by configuration file. An unreadable store counts as empty."""
    try:
        data = json.loads(inputs_file().read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    answers: dict[str, dict[str, str]] = {}
    for file, given in data.items() if isinstance(data, dict) else ():
        if isinstance(given, dict):
            texts = {key: text for key, text in given.items() if isinstance(text, str)}
            answers[file] = texts
    return answers
