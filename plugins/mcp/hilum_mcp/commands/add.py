"""The actions ``add`` and ``remove``.

Both actions change only hilum's own files; ``add`` can import servers from the files of other
clients.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from hilum import UsageError, errors
from hilum.command import Parser
from hilum.trust import TrustedFolders, is_trusted
from trio.to_thread import run_sync as in_thread

from hilum_mcp import approvals
from hilum_mcp.commands.context import CommandContext
from hilum_mcp.config_reader import read_config
from hilum_mcp.own_file import add_servers, remove_server
from hilum_mcp.paths import PROJECT_FILE, user_file
from hilum_mcp.server_config import ConfigFile, ConfigInput, ServerConfig

EPILOG = """\
  hilum mcp add tickets -- npx -y @example/tickets-mcp
  hilum mcp add tickets --env TOKEN='${TICKETS_TOKEN}' -- uvx tickets-mcp --read-only
  hilum mcp add docs https://docs.example.com/mcp
  hilum mcp add docs https://docs.example.com/mcp --header 'Authorization: Bearer ${DOCS_TOKEN}'
  hilum mcp add --from ~/.cursor/mcp.json          all servers of a file of another client
  hilum mcp add --from ~/.codex/config.toml docs   one of them

hilum expands variables such as ${NAME} when it starts the server, and stores no values."""

_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,63}")


async def add(options: argparse.Namespace, context: CommandContext) -> int:
    """Run ``add``."""
    inputs: Mapping[str, ConfigInput] = {}
    if options.source:
        details = (options.command, options.env, options.header, options.transport, options.cwd)
        if any(details):
            raise UsageError(
                "With --from, only names are allowed; the file contains everything else.",
                code=errors.E_BAD_ARGS,
            )
        config = await in_thread(_read_source, options.source)
        servers = _select_servers(config, options.names, context)
        inputs = config.inputs
    else:
        servers = [_make_server(options)]
    file = context.workspace / PROJECT_FILE if options.project else user_file()

    def write() -> None:
        add_servers(file, servers, inputs, replace=options.replace)

    if options.project:
        await in_thread(_add_to_project, context.root, file, servers, write)
    else:
        await in_thread(write)
    for server in servers:
        await _report_added(server, file, context)
    return 0


def _read_source(path: str) -> ConfigFile:
    return read_config(Path(os.path.expanduser(path)).absolute())


def add_options(parser: Parser) -> None:
    """Add the options of ``add``."""
    parser.epilog = EPILOG
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="its name, followed by its URL or by -- COMMAND …",
    )
    parser.add_argument(
        "--from",
        dest="source",
        default="",
        metavar="FILE",
        help="import from this file",
    )
    parser.add_argument(
        "--project",
        action="store_true",
        help="add the server to the project's .hilum/mcp.json instead of your own file",
    )
    parser.add_argument(
        "--transport",
        choices=("http", "sse"),
        default="",
        help="transport of the URL; detected if not given",
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an environment variable for the program",
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
        help="working directory of the program; the workspace if not given",
    )
    parser.add_argument("--replace", action="store_true", help="replace a server with this name")


def _select_servers(
    config: ConfigFile,
    names: list[str],
    context: CommandContext,
) -> list[ServerConfig]:
    """Return the named servers in a file, or all its servers, and report unreadable parts."""
    for mistake in config.mistakes:
        context.say(f"⚠ {mistake}")
    for name in names:
        if name not in config.servers:
            known = ", ".join(config.servers) or "none"
            raise UsageError(
                f"{config.file} has no server {name!r} that can be used.", hint=f"It has: {known}."
            )
    if not config.servers:
        raise UsageError(
            f"{config.file} has no server that can be used.",
            hint="Specify another file, or fix this one.",
        )
    return [config.servers[name] for name in names or config.servers]


def _make_server(options: argparse.Namespace) -> ServerConfig:
    """Return the server that the arguments describe."""
    if not options.names:
        raise UsageError(
            "A server needs a name.",
            code=errors.E_BAD_ARGS,
            hint="`hilum mcp add --help` shows the form.",
        )
    name, *rest = options.names
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid server name.",
            code=errors.E_BAD_ARGS,
            hint="Letters, digits, _, - and . are allowed.",
        )
    if options.command and not rest:
        return _make_program(name, options)
    if len(rest) == 1 and not options.command and re.match(r"https?://", rest[0]):
        return _make_address(name, options, rest[0])
    raise UsageError(
        "The name must be followed by -- and a command, or by one URL.",
        code=errors.E_BAD_ARGS,
        hint=f"hilum mcp add {name} -- COMMAND …, or hilum mcp add {name} https://…",
    )


def _make_program(name: str, options: argparse.Namespace) -> ServerConfig:
    if options.header or options.transport:
        raise UsageError("A program has neither headers nor a transport.", code=errors.E_BAD_ARGS)
    program, *args = options.command
    return ServerConfig(
        name,
        "stdio",
        program,
        tuple(args),
        env=_parse_pairs(options.env, "=", "--env"),
        # The path is relative to the current folder, but the server is started in the workspace.
        cwd=os.path.abspath(os.path.expanduser(options.cwd)) if options.cwd else "",
    )


def _make_address(name: str, options: argparse.Namespace, url: str) -> ServerConfig:
    if options.env or options.cwd:
        raise UsageError(
            "A URL has neither variables nor a working directory.", code=errors.E_BAD_ARGS
        )
    return ServerConfig(
        name,
        options.transport or "http",
        url=url,
        headers=_parse_pairs(options.header, ":", "--header"),
        kind_guessed=not options.transport,
    )


def _parse_pairs(given: list[str], separator: str, option: str) -> dict[str, str]:
    pairs = {}
    for text in given:
        name, found, value = text.partition(separator)
        if not found or not name.strip():
            raise UsageError(
                f"{option} requires NAME{separator}VALUE, not {text!r}.", code=errors.E_BAD_ARGS
            )
        pairs[name.strip()] = value.strip() if separator == ":" else value
    return pairs


def _add_to_project(
    root: str,
    file: Path,
    servers: list[ServerConfig],
    write: Callable[[], None],
) -> None:
    """Add servers to the project's own file, and approve them, because the user added them."""
    # A link in a repository must not make hilum write outside the project.
    if not Path(os.path.realpath(file)).is_relative_to(root):
        raise UsageError(
            f"{file} is a link to a target outside the project.",
            code=errors.E_DENIED,
            hint="Remove the link, or omit --project to write your own file.",
        )
    _change_trusted(root, file, write)
    # The server is read back before it is approved, because its digest depends on the file.
    written = read_config(file).servers
    for server in servers:
        approvals.approve(root, written[server.name])


def _change_trusted(root: str, file: Path, change: Callable[[], None]) -> None:
    """Change a project's file. The project remains trusted if nothing else has changed."""
    was_trusted = is_trusted(root)
    change()
    if was_trusted:
        TrustedFolders().add_if_only_changed(root, file)


async def _report_added(server: ServerConfig, file: Path, context: CommandContext) -> None:
    entry = await context.find_entry(server.name)
    written = f"{server.name} was written to {file}"
    if entry.server.file != file:
        context.say(
            f"{written}, but {entry.server.file} has a server with this name, which takes"
            " precedence."
        )
    elif entry.state != "on":
        context.say(f"{written}. It is {entry.state}: {entry.reason}")
    else:
        context.say(f"{written}. Test it with {context.prog} test {server.name}.")


async def remove(options: argparse.Namespace, context: CommandContext) -> int:
    """Run ``remove``."""
    name = options.name
    entry = await context.find_entry(name)
    file = entry.server.file
    if file == user_file():
        await in_thread(remove_server, file, name)
    elif file == context.workspace / PROJECT_FILE:
        await in_thread(_change_trusted, context.root, file, lambda: remove_server(file, name))
    elif entry.server.is_offered:
        raise UsageError(
            f"{name} is configured in your editor.",
            code=errors.E_DENIED,
            hint=f"Remove it there, or switch it off: {context.prog} disable {name}.",
        )
    else:
        raise UsageError(
            f"{name} is configured in {file}. hilum does not change files of other clients.",
            code=errors.E_DENIED,
            hint=f"Edit that file, or switch the server off: {context.prog} disable {name}.",
        )
    root = context.root if entry.scope == "project" else ""
    await in_thread(approvals.switch, root, name, None)
    if root:
        await in_thread(approvals.revoke, root, name)
    context.say(f"{name} was removed from {file}.")
    return 0
