"""The actions ``login`` and ``logout``."""

from __future__ import annotations

import webbrowser
from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING

from hilum import UsageError, errors
from hilum.command import Parser
from trio.to_thread import run_sync as in_thread

from hilum_mcp import lazy, login, token_store
from hilum_mcp.commands.context import CommandContext, add_name
from hilum_mcp.commands.probe import check_startable, connect_once, read_settings

if TYPE_CHECKING:
    import httpx2

    from hilum_mcp.catalog import CatalogEntry
    from hilum_mcp.server_config import ServerConfig

# Time limit in seconds for the whole login. Waiting for the browser has its own, shorter limit.
LOGIN_TIMEOUT = 3_600


def add_login_options(parser: Parser) -> None:
    """Add the options of ``login``."""
    add_name(parser)
    parser.add_argument(
        "--no-browser",
        action="store_true",
        help="print the URL instead of opening a browser",
    )


async def log_in(options: Namespace, context: CommandContext) -> int:
    """Run ``login``."""
    entry = await context.find_entry(options.name)
    check_startable(entry)
    if context.session is not None:
        raise UsageError(
            "Logging in requires a separate terminal.", hint=f"hilum mcp login {options.name}"
        )
    reason = _why_no_login(entry.server)
    if reason:
        raise UsageError(
            f"{options.name} {reason}, so there is nothing to log in to.", code=errors.E_FAILED
        )
    await context.ask_inputs(entry.server)
    server = await _expand(entry.server, context)
    mine, web = await in_thread(read_settings, context)
    store = token_store.TokenStore(token_store.token_file(server))
    before = await in_thread(store.read)
    dialog = _LoginDialog(context, entry, opens_browser=not options.no_browser)
    await login.log_in(
        server,
        dialog.connect,
        dialog.show,
        dialog.read_input,
        mine.client_metadata_url,
        frozenset(web.hosts),
    )
    after = await in_thread(store.read)
    if not after.get("tokens"):
        context.say("The server does not require a login.")
    elif after == before:
        context.say("You are already logged in.")
    return 0


async def _expand(server: ServerConfig, context: CommandContext) -> ServerConfig:
    """Return the server's configuration with variables expanded. The first call imports the SDK."""
    return await in_thread(lambda: lazy.connector.expand_server(server, context.workspace))


class _LoginDialog:
    """The dialog with the user during a login.

    Args:
        context: The context of the action.
        entry: The server.
        opens_browser: Whether to open a browser.
    """

    def __init__(
        self,
        context: CommandContext,
        entry: CatalogEntry,
        *,
        opens_browser: bool,
    ) -> None:
        self._context = context
        self._entry = entry
        self._opens_browser = opens_browser

    async def show(self, url: str) -> None:
        """Show the URL of the login page, and open it in the browser."""
        say = self._context.say
        say(f"Open this URL and log in:\n  {url}")
        if self._opens_browser and self._context.ask is not None:
            # The browser belongs to the user and outlives hilum, so it is not started through the
            # warden. No shell is involved.
            is_open = await in_thread(webbrowser.open, url)
            if not is_open:
                say("No browser could be started.")
        if self._context.read_line is not None:
            say("If the browser cannot show the last page, paste the URL of that page here.")
        say("Waiting for you to log in …")

    async def connect(self, auth: httpx2.Auth) -> None:
        """Connect to the server to start the login."""
        offer = await connect_once(
            self._context,
            self._entry,
            lazy.discovery.fetch_offer,
            auth,
            time_limit=LOGIN_TIMEOUT,
        )
        self._context.say(f"{self._entry.server.name} accepts the login: {len(offer.tools)} tools.")

    async def read_input(self, accept: Callable[[str], bool]) -> None:
        """Read pasted URLs until end-of-file."""
        read_line = self._context.read_line
        while read_line is not None and (text := await read_line()):
            if accept(text):
                self._context.say("Thank you.")
            else:
                self._context.say("This URL does not belong to this login. Waiting …")


def _why_no_login(server: ServerConfig) -> str:
    """Return why a user cannot log in to a server, or an empty string if they can."""
    if server.kind == "stdio":
        return "is a program"
    if not server.login_allowed:
        return "disables logins in its configuration"
    if not login.accepts_login(server):
        return "uses a key from its configuration"
    if login.is_machine_login(server):
        return "logs in automatically with the credentials in its configuration"
    return ""


async def log_out(options: Namespace, context: CommandContext) -> int:
    """Run ``logout``."""
    name = options.name
    entry = await context.find_entry(name)
    server = await _expand(entry.server, context)
    if await in_thread(token_store.forget_login, server):
        context.say(f"{name}: you are now logged out.")
    else:
        context.say(f"You are not logged in to {name}.")
    return 0
