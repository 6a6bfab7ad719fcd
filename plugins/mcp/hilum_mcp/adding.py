"""Servers added and removed: written down by the user, or imported from a file of another
client.
"""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path

import trio
from hilum import UsageError, errors

from hilum_mcp import approving, places, saving, sources
from hilum_mcp.managing import Action, Desk, make_parser, parse
from hilum_mcp.server import Config, Input, Server

EPILOG = """\
  hilum mcp add tickets -- npx -y @example/tickets-mcp
  hilum mcp add tickets --env TOKEN='${TICKETS_TOKEN}' -- uvx tickets-mcp --read-only
  hilum mcp add docs https://docs.example.com/mcp
  hilum mcp add docs https://docs.example.com/mcp --header 'Authorization: Bearer ${DOCS_TOKEN}'
  hilum mcp add --from ~/.cursor/mcp.json          all servers of a file of another client
  hilum mcp add --from ~/.codex/config.toml docs   one of them

Variables stay variables: ${NAME} is filled in when the server is started, and its value stands in no file."""


async def _add(argv: list[str], desk: Desk) -> int:
    words, command = (
        (argv[: argv.index("--")], argv[argv.index("--") + 1 :]) if "--" in argv else (argv, [])
    )
    parser = make_parser(desk, "add", ACTIONS["add"][1], EPILOG)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="what it is called; behind it its URL, or -- COMMAND …",
    )
    parser.add_argument(
        "--from", dest="source", default="", metavar="FILE", help="import from this file"
    )
    parser.add_argument(
        "--project",
        action="store_true",
        help="into .hilum/mcp.json of the project, not into your own file",
    )
    parser.add_argument(
        "--transport", choices=("http", "sse"), default="", help="of a URL; found out if not given"
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a variable for the program",
    )
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="'NAME: VALUE'",
        help="a header of each request",
    )
    parser.add_argument(
        "--cwd",
        default="",
        metavar="DIR",
        help="the folder a program runs in; the workspace if not given",
    )
    parser.add_argument("--replace", action="store_true", help="replace one of that name")
    options = parse(parser, words, desk)
    inputs: dict[str, Input] = {}
    if options.source:
        if command or options.env or options.header or options.transport or options.cwd:
            raise UsageError(
                "With --from only names are given: the file says the rest.", code=errors.E_BAD_ARGS
            )
        config = await trio.to_thread.run_sync(_config, options.source)
        servers = _chosen(config, options.names, desk)
        inputs = config.inputs
    else:
        servers = [_described(options, command)]
    file = desk.workspace / places.OWN if options.project else sources.user_file()
    await trio.to_thread.run_sync(_write, desk, file, servers, inputs, options)
    for server in servers:
        await _tell(server, file, desk)
    return 0


def _config(name: str) -> Config:
    from hilum_mcp.dialects import read_config

    return read_config(Path(os.path.expanduser(name)).absolute())


def _chosen(config: Config, names: list[str], desk: Desk) -> list[Server]:
    """Take servers of a file, and say what of it could not be read."""
    for mistake in config.mistakes:
        desk.say(f"⚠ {mistake}")
    missing = [name for name in names if name not in config.servers]
    if missing:
        known = ", ".join(config.servers) or "none"
        raise UsageError(
            f"{config.file} has no server {missing[0]!r} that can be used.",
            hint=f"It has: {known}.",
        )
    if not config.servers:
        raise UsageError(
            f"{config.file} has no server that can be used.", hint="Name another file, or mend it."
        )
    return [config.servers[name] for name in names or config.servers]


def _described(options: argparse.Namespace, command: list[str]) -> Server:
    """Create a server of what was typed."""
    if not options.names:
        raise UsageError(
            "A server needs a name.", code=errors.E_BAD_ARGS, hint="hilum mcp add --help shows how."
        )
    name, *rest = options.names
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,63}", name):
        raise UsageError(
            f"{name!r} is no name for a server: letters, digits, _, - and . are.",
            code=errors.E_BAD_ARGS,
        )
    address = rest[0] if len(rest) == 1 and re.match(r"https?://", rest[0]) else ""
    if command and not rest:
        if options.header or options.transport:
            raise UsageError(
                "A program has neither headers nor a transport.", code=errors.E_BAD_ARGS
            )
        cwd = os.path.abspath(os.path.expanduser(options.cwd)) if options.cwd else ""
        return Server(
            name,
            "stdio",
            command[0],
            tuple(command[1:]),
            _pairs(options.env, "=", "--env"),
            cwd=cwd,
        )
    if address and not command:
        if options.env or options.cwd:
            raise UsageError("A URL has neither variables nor a folder.", code=errors.E_BAD_ARGS)
        headers = _pairs(options.header, ":", "--header")
        return Server(
            name,
            options.transport or "http",
            url=address,
            headers=headers,
            bare=not options.transport,
        )
    hint = f"hilum mcp add {name} -- COMMAND …, or hilum mcp add {name} https://…"
    raise UsageError(
        "Behind the name there must be -- and a command, or one URL.",
        code=errors.E_BAD_ARGS,
        hint=hint,
    )


def _pairs(given: list[str], sign: str, option: str) -> dict[str, str]:
    found = {}
    for text in given:
        name, there, value = text.partition(sign)
        if not there or not name.strip():
            raise UsageError(
                f"{option} takes NAME{sign}VALUE, not {text!r}.", code=errors.E_BAD_ARGS
            )
        found[name.strip()] = value.strip() if sign == ":" else value
    return found


def _write(
    desk: Desk,
    file: Path,
    servers: list[Server],
    inputs: dict[str, Input],
    options: argparse.Namespace,
) -> None:
    """Write them down.

    What the user wrote into the project just now is approved, and a project that is trusted stays
    so.
    """
    if not options.project:
        saving.add(file, servers, inputs, replace=options.replace)
        return
    _in_the_project(desk.root, file)
    _keeping_trust(
        desk.root, file, lambda: saving.add(file, servers, inputs, replace=options.replace)
    )
    from hilum_mcp.dialects import read_config

    written = read_config(file).servers
    for server in servers:
        approving.approve(desk.root, written[server.name])


def _in_the_project(root: str, file: Path) -> None:
    """Refuse to write where a link of the project leads out of it."""
    if not Path(os.path.realpath(file)).is_relative_to(root):
        hint = "Remove the link, or leave out --project to write your own file."
        raise UsageError(
            f"{file} is a link that leads out of the project.", code=errors.E_DENIED, hint=hint
        )


def _keeping_trust(root: str, file: Path, change: object) -> bool:
    """Change a file of the project; the project stays trusted if this is all that changed."""
    from hilum_guard import Trust, trusted

    was = trusted(root)
    done = bool(change())  # type: ignore[operator]
    if was and [each.partition(" ")[2] for each in Trust().changes(root)] == [
        os.path.relpath(file, root)
    ]:
        Trust().add(root)
    return done


async def _tell(server: Server, file: Path, desk: Desk) -> None:
    entry = await desk.entry(server.name)
    if entry.server.file != file:
        desk.say(
            f"{server.name} is written to {file}, but {entry.server.file} has one of that name,"
            " which comes first."
        )
    elif entry.state != "on":
        desk.say(f"{server.name} is written to {file}. It is {entry.state}: {entry.reason}")
    else:
        desk.say(f"{server.name} is written to {file}. {desk.prog} test {server.name} tries it.")


async def _remove(argv: list[str], desk: Desk) -> int:
    parser = make_parser(desk, "remove", ACTIONS["remove"][1])
    parser.add_argument("name", metavar="NAME")
    options = parse(parser, argv, desk)
    entry = await desk.entry(options.name)
    file = entry.server.file
    own = desk.workspace / places.OWN
    if file == sources.user_file():
        await trio.to_thread.run_sync(saving.remove, file, options.name)
    elif file == own:
        await trio.to_thread.run_sync(
            _keeping_trust, desk.root, file, lambda: saving.remove(file, options.name)
        )
    else:
        hint = f"{desk.prog} disable {options.name} switches it off for you."
        raise UsageError(
            f"{options.name} stands in {file}, which is another client's.",
            code=errors.E_DENIED,
            hint=hint,
        )
    root = desk.root if entry.scope == "project" else ""
    await trio.to_thread.run_sync(approving.switch, root, options.name, None)
    if root:
        await trio.to_thread.run_sync(approving.revoke, root, options.name)
    desk.say(f"{options.name} is taken out of {file}.")
    return 0


ACTIONS: dict[str, tuple[Action, str]] = {
    "add": (_add, "add a server, or import servers from a file of another client"),
    "remove": (_remove, "take a server out of your file, or out of .hilum/mcp.json"),
}
