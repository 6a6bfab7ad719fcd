"""Values that a server's description asks the user for (``${input:ID}``): asked once, kept for the
user only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from hilum import UsageError, data_folder, errors

from hilum_mcp.server import Input, Server

_INPUT = re.compile(r"\$\{input:([^{}]+)\}")
Ask = Callable[[Input], str]


def file() -> Path:
    """Return where answers are kept."""
    return data_folder() / "mcp" / "inputs.json"


def inputs_of(server: Server) -> dict[str, str]:
    """Return what the user has answered for the inputs that a server asks for. Blocks."""
    if not wanted(server):
        return {}
    known = _kept().get(str(server.file), {})
    return {name: known[name] for name in wanted(server) if name in known}


def wanted(server: Server) -> list[str]:
    """Return the inputs that a server's texts name."""
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
    return list(dict.fromkeys(name for text in texts for name in _INPUT.findall(text)))


def ask(server: Server, inputs: Mapping[str, Input], ask: Ask | None) -> None:
    """Ask for what is not answered yet, and keep it. Blocks.

    Args:
        server: The server.
        inputs: What its file says of them.
        ask: Asks the user; ``None`` where nobody can be asked.

    Raises:
        UsageError: Nobody can be asked, or nothing was answered.
    """
    missing = [name for name in wanted(server) if name not in inputs_of(server)]
    for name in missing:
        asked = inputs.get(name, Input(name))
        answer = (ask(asked) if ask else "") or asked.default
        if not answer:
            raise UsageError(
                f"The MCP server {server.name} asks for {asked.description or name}, and has no"
                " answer.",
                code=errors.E_NOT_CONFIGURED,
                hint=f"hilum mcp test {server.name} asks for it, at a terminal.",
            )
        if asked.options and answer not in asked.options:
            raise UsageError(
                f"{answer!r} is none of {', '.join(asked.options)}.", hint="Choose one of them."
            )
        keep(server, {name: answer})


def keep(server: Server, answers: Mapping[str, str]) -> None:
    """Keep answers for the servers of a file. Blocks."""
    from hilum_mcp.saving import write_private

    kept = _kept()
    kept.setdefault(str(server.file), {}).update(answers)
    write_private(file(), json.dumps(kept, indent=1, ensure_ascii=False))


def _kept() -> dict[str, dict[str, str]]:
    try:
        data = json.loads(file().read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}  # they are asked for again
    return {
        str(name): {key: value for key, value in each.items() if isinstance(value, str)}
        for name, each in (data.items() if isinstance(data, dict) else ())
        if isinstance(each, dict)
    }
