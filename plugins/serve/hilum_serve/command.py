"""The command ``hilum serve``, and ``hilum serve token``."""

from __future__ import annotations

import math
import os
import sys
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

import trio
from hilum import HilumError, UsageError, open_kernel, read_session_options
from hilum.command import Parser, add_session_options, say, say_json
from hilum.errors import E_BAD_ARGS, E_UNKNOWN
from hilum.hooks import find_first_error
from hilum.listening import (
    EVERY_ADDRESS,
    LOOPBACK,
    format_host,
    parse_port,
    receive_stop_signals,
)
from hilum.settings import load
from hilum.store import storage_plugins
from hilum.workspace import check_workspace

from hilum_serve import server
from hilum_serve.door import check_user_header
from hilum_serve.listening import (
    find_running_servers,
    listen_or_explain,
    remove_server_file,
    write_server_file,
)
from hilum_serve.peer_group import PeerGroup
from hilum_serve.settings import ServeSettings
from hilum_serve.tokens import (
    StoredToken,
    Tokens,
    add_token,
    has_expired,
    read_tokens,
    remove_token,
    tokens_path,
)
from hilum_serve.users import RIGHTS

EPILOG = """\
The address that it prints logs your browser in. Only this machine can connect, unless you name
another address with --host. Then the server accepts only named tokens, or the users that a reverse
proxy names, and the connection is not encrypted: put a proxy with TLS or a tunnel in front.

  hilum serve token add NAME --rights watch|prompt|approve|administer
  hilum serve token list
  hilum serve token remove NAME

A token runs commands on this machine with the rights that you give it.
"""
MAX_DAYS = 3_650
"""Most days for which a token can be valid. Longer than anybody plans, and a date can show it."""
MAX_DIGITS = 12
_UNITS = {"m": 60, "h": 3600, "d": 86_400}


def make_parser() -> Parser:
    """Create the parser of the options."""
    parser = Parser(
        "hilum serve", "Show your sessions in a browser, and offer them to programs.", EPILOG
    )
    add = parser.add_argument
    add(
        "--workspace",
        "-C",
        action="append",
        default=[],
        metavar="DIR",
        help="folder whose sessions are served; may be repeated (default: the current folder)",
    )
    add("--port", type=parse_port, metavar="PORT", help="port (default: the setting serve.port)")
    add(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="address to listen on; other than this machine's own only with --token-name or"
        " --proxy-user-header",
    )
    add(
        "--token-name",
        action="append",
        default=[],
        metavar="NAME",
        help="accept only this named token; may be repeated (default: all named tokens, but none"
        " over the network)",
    )
    add(
        "--proxy-user-header",
        default="",
        type=check_user_header,
        metavar="HEADER",
        help="header in which your reverse proxy names the user, who needs a token of that name;"
        " whoever can connect to the port directly can name any user",
    )
    add(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME[:PORT]",
        help="another allowed value of the Host header, for a tunnel or a proxy",
    )
    add(
        "--peer-url",
        default="",
        metavar="URL",
        help="address at which other servers with the same database reach this one (default: the"
        " setting serve.peer_url)",
    )
    add_session_options(parser)
    return parser


def main(argv: Sequence[str]) -> int:
    """Serve sessions in a browser and over HTTP.

    Returns:
        The exit code: 128 and the number of the signal that ended the server.
    """
    if argv[:1] == ["token"]:
        return run_token_command(argv[1:])
    try:
        options = make_parser().parse_args(list(argv))
    except SystemExit as error:  # --help
        return int(error.code or 0)
    program = ServeProgram(options)
    failure: HilumError | None = None
    try:
        trio.run(program.main)
    except* HilumError as group:
        failure = _first(group)
    # Raised outside the block, which would wrap the error in a group again.
    if failure is not None:
        raise failure
    return 128 + program.signal if program.signal else 0


def _first(group: BaseException) -> HilumError:
    error = find_first_error(group)
    assert isinstance(error, HilumError)
    return error


def find_workspaces(folders: Sequence[str]) -> list[Path]:
    """Return the real paths of the folders that the user named.

    Raises:
        UsageError: A folder does not exist, or is the whole file system.
    """
    found: dict[Path, None] = {}
    for folder in folders or ["."]:
        path = Path(os.path.realpath(os.path.expanduser(folder)))
        if not path.is_dir():
            hint = "Specify an existing folder."
            raise UsageError(f"The folder {folder} does not exist.", hint=hint)
        check_workspace(path)
        found[path] = None
    return list(found)


class ServeProgram:
    """One invocation of ``hilum serve``.

    Args:
        options: The options of ``make_parser``.

    Attributes:
        signal: The signal that ended the server; 0 for none.
    """

    def __init__(self, options: Namespace) -> None:
        self.signal = 0
        self._options = options
        self._stop = trio.Event()
        self._is_local = options.host in LOOPBACK

    async def main(self) -> None:
        """Serve until a signal arrives. A second signal ends the process immediately."""
        async with trio.open_nursery() as nursery:
            # Signals are handled before anything is opened that a signal would have to close.
            await nursery.start(receive_stop_signals, self._note_signal)
            await self._serve()
            nursery.cancel_scope.cancel()

    def _note_signal(self, number: int) -> None:
        self.signal = number
        self._stop.set()

    async def _serve(self) -> None:
        options = self._options
        session_options = read_session_options(options)
        workspaces = find_workspaces(options.workspace)
        async with open_kernel(storage_plugins()) as kernel:
            settings = _read_settings(session_options["settings"])
            token = server.make_token() if self._is_local else ""
            group = make_group(settings, options.peer_url)
            if group is not None:
                server.require_shared_store(kernel.store)
            tokens = Tokens(
                tokens_path(),
                token,
                names=options.token_name,
                cookie_key=group.cookie_key if group is not None else b"",
            )
            self._check_access(tokens)
            port = settings.port if options.port is None else options.port
            listeners = listen_or_explain(options.host, port)
            port = listeners[0].getsockname()[1]
            about = server.ServerOptions(
                listeners=listeners,
                host=options.host,
                port=port,
                workspaces=workspaces,
                tokens=tokens,
                hosts=options.allow_host,
                user_header=options.proxy_user_header,
                settings=settings,
                session_options={**session_options},
                group=group,
            )
            async with server.run_server(kernel.store, about) as running:
                url = running.make_url(token) if token else self._make_url(port)
                file = write_server_file(port, url, token, [str(each) for each in workspaces])
                try:
                    self._announce(url, workspaces)
                    # A program that started the server may wait for these lines.
                    sys.stdout.flush()
                    await self._stop.wait()
                finally:
                    remove_server_file(file)

    def _check_access(self, tokens: Tokens) -> None:
        """Check that a server on the network accepts somebody, and whom.

        Raises:
            UsageError: It would accept nobody.
        """
        options = self._options
        missing = [name for name in options.token_name if tokens.find_named(name) is None]
        if missing:
            one = len(missing) == 1
            names = ", ".join(map(repr, missing))
            text = (
                f"There {'is' if one else 'are'} no valid token{'' if one else 's'} named {names}."
            )
            hint = f"Create {'it' if one else 'them'}: hilum serve token add NAME --rights watch"
            if len(missing) == len(options.token_name):
                raise UsageError(text, code=E_UNKNOWN, hint=hint)
            # A token that was removed or has expired must not keep a server from starting again.
            server.print_note(f"{text} {hint}")
        if self._is_local or options.token_name or options.proxy_user_header:
            return
        raise UsageError(
            f"With --host {options.host}, everyone on the network could connect, without"
            " encryption.",
            code=E_BAD_ARGS,
            hint="Name who may: hilum serve token add NAME --rights watch, then --token-name NAME;"
            " or leave --host out and use a tunnel: ssh -L 8722:127.0.0.1:8722 HOST",
        )

    def _make_url(self, port: int) -> str:
        """Return the address for people on the network, as far as it is known."""
        host = self._options.host
        if host not in EVERY_ADDRESS:
            return f"http://{format_host(host)}:{port}/"
        # A server that listens on every address does not know by which one it is reached.
        name = next(iter(self._options.allow_host), "")
        return f"http://{name or f'NAME:{port}'}/"

    def _announce(self, url: str, workspaces: Sequence[Path]) -> None:
        """Print the address once."""
        folders = ", ".join(str(each) for each in workspaces)
        say(f"hilum serves {folders}")
        if self._is_local:
            say(f"Open {url}")
            return
        say(f"People with a named token open {url}login?token=TOKEN")
        if self._options.host in EVERY_ADDRESS and not self._options.allow_host:
            say("NAME is an address of this machine that you allow: --allow-host NAME:PORT")
        say(
            "The connection is not encrypted: everyone between you and this machine can read and"
            " use the tokens. Put a proxy with TLS in front."
        )


def make_group(settings: ServeSettings, url: str = "") -> PeerGroup | None:
    """Return the group of servers that this one belongs to; ``None`` if it is alone.

    Args:
        settings: The settings of the server.
        url: The address at which the others reach this server, instead of that in the settings.

    Raises:
        UsageError: The address or the key cannot be used.
    """
    address = url or settings.peer_url
    if not address:
        return None
    return PeerGroup(address, settings.peer_key, plain_http=settings.peer_plain_http)


def _read_settings(overrides: Mapping[str, object]) -> ServeSettings:
    """Return the settings of the server, from the user's file and the command line.

    Raises:
        SettingsError: They have mistakes.
    """
    own = {key: value for key, value in overrides.items() if key.startswith("serve.")}
    return load([ServeSettings], known=None, strict=False, overrides=own).get(ServeSettings)


# --- hilum serve token ----------------------------------------------------------------------------


def make_token_parser() -> Parser:
    """Create the parser of ``hilum serve token``."""
    parser = Parser(
        "hilum serve token",
        "Add, list and remove the named tokens that people and programs connect with.",
    )
    actions = parser.add_subparsers(
        dest="action", metavar="ACTION", required=True, parser_class=Parser
    )
    adding = actions.add_parser("add", help="create a token, which is shown only once")
    adding.add_argument("name", help="name of the person or program")
    adding.add_argument(
        "--rights",
        choices=RIGHTS,
        default="watch",
        help="what it may do; each right includes those before it (default: watch)",
    )
    adding.add_argument(
        "--workspace",
        "-C",
        action="append",
        default=[],
        metavar="DIR",
        help="only sessions of this folder; may be repeated (default: all that are served)",
    )
    adding.add_argument(
        "--expires", default="", metavar="TIME", help="time until it ends, such as 30m, 12h or 7d"
    )
    listing = actions.add_parser("list", help="list the tokens")
    listing.add_argument("--json", action="store_true", help="print JSON")
    removing = actions.add_parser("remove", help="remove a token; its streams end at once")
    removing.add_argument("name", help="name of the token")
    return parser


def run_token_command(argv: Sequence[str]) -> int:
    """Run ``hilum serve token``.

    Raises:
        UsageError: The name, the folder or the file has a mistake.
    """
    try:
        options = make_token_parser().parse_args(list(argv))
    except SystemExit as error:  # --help
        return int(error.code or 0)
    path = tokens_path()
    if options.action == "add":
        folders = find_workspaces(options.workspace) if options.workspace else []
        seconds = _read_duration(options.expires)
        token = add_token(path, options.name, options.rights, workspaces=folders, seconds=seconds)
        say(token)
        # Programs read the token from the standard output.
        running = find_running_servers()
        port = running[0].port if len(running) == 1 else ServeSettings().port
        say(
            f"To log a browser in, open http://127.0.0.1:{port}/login?token={token}"
            "\n(with the address of your server, if it is another one).",
            to=sys.stderr,
        )
    elif options.action == "remove":
        remove_token(path, options.name)
        say(f"Removed the token {options.name}.")
    else:
        _list_tokens(path, as_json=options.json)
    return 0


def _read_duration(text: str) -> float:
    """Return a duration such as ``12h`` in seconds; 0 for an empty text."""
    if not text:
        return 0.0
    number, unit = text[:-1], text[-1:]
    if not number.isascii() or not number.isdigit() or unit not in _UNITS or not number.strip("0"):
        shown = text if len(text) <= 40 else f"{text[:40]}…"
        raise UsageError(f"{shown!r} is not a time.", code=E_BAD_ARGS, hint="Write 30m, 12h or 7d.")
    # Python converts no texts of thousands of digits to numbers.
    seconds = int(number) * _UNITS[unit] if len(number) <= MAX_DIGITS else math.inf
    if seconds > MAX_DAYS * _UNITS["d"]:
        raise UsageError(
            f"A token can be valid for at most {MAX_DAYS:,} days.",
            code=E_BAD_ARGS,
            hint="Leave --expires out for a token that does not expire.",
        )
    return float(seconds)


def _list_tokens(path: Path, *, as_json: bool) -> None:
    tokens = read_tokens(path)
    if as_json:
        say_json(
            [
                {
                    "name": token.name,
                    "rights": token.rights,
                    "workspaces": list(token.workspaces),
                    "expires": token.expires,
                    "created": token.created,
                }
                for token in tokens
            ]
        )
        return
    if not tokens:
        say("There are no named tokens. Create one: hilum serve token add NAME --rights watch")
    for token in tokens:
        say(f"{token.name}  {token.rights}  {_describe_end(token.expires)}  {_folders(token)}")


def _folders(token: StoredToken) -> str:
    return ", ".join(token.workspaces) or "all folders"


def _describe_end(expires: float) -> str:
    if not expires:
        return "does not expire"
    if has_expired(expires):
        return "expired"
    try:
        return time.strftime("until %Y-%m-%d %H:%M", time.localtime(expires))
    except (OverflowError, ValueError, OSError):
        # Somebody wrote a time into the file that no calendar has.
        return "until a time that cannot be shown"
