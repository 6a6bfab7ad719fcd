"""The network gateway for pages, which checks every connection outside the sandbox.

The browser has no other network access. Nothing can bypass the check: no redirect, no script, no
WebSocket, and no name whose address changes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
import anyio.abc
import trio
from hilum import AddressRefused, ToolError, errors, find_address_policy

from hilum_browser.driver.link import Channel, splice
from hilum_browser.driver.loopback import loopback_addresses

if TYPE_CHECKING:
    from hilum_browser.settings import BrowserSettings

# Seconds to wait for one address of a host.
ADDRESS_TIMEOUT = 5.0
# Seconds to wait for all addresses of a host in total.
HOST_TIMEOUT = 15.0
MAX_CONNECTIONS = 256
MAX_REMEMBERED = 100
_PORTS = {"https": 443, "wss": 443}
_LIST_HINT = (
    "For a server on this machine, use localhost; the user can list a host in browser.hosts."
)


class Gateway:
    """A gateway that opens connections for the pages of one session.

    Args:
        settings: The allowed hosts.
        find_own_ports: Function that returns the loopback ports that commands of the session
            opened. This function is called in a thread.

    Attributes:
        approved: The loopback ports that the user approved.
    """

    def __init__(
        self, settings: BrowserSettings, find_own_ports: Callable[[], set[int]] = set
    ) -> None:
        self._settings = settings
        self._find_own_ports = find_own_ports
        self.approved: set[int] = set()
        self._open_count = 0
        self._refused: OrderedDict[tuple[str, int], ToolError] = OrderedDict()

    async def serve_channel(self, channel: Channel, request: bytes) -> None:
        """Connect a channel of the link to ``HOST PORT``.

        The first byte on the channel indicates whether the connection was opened.
        """
        # The request comes from the sandbox and may contain anything.
        host, _, digits = request.decode("ascii", "replace").partition(" ")
        # `isdigit` alone also accepts characters such as "²", which `int` rejects.
        port = int(digits) if digits.isascii() and digits.isdigit() else 0
        self._open_count += 1
        try:
            stream = await self._connect(host, port)
            self._refused.pop((host, port), None)
            async with stream:
                await channel.send(b"\0")
                await splice(channel, stream)
        except ToolError as error:
            # The browser learns only that the connection failed. The tool reports the reason.
            self._refused[host, port] = error
            if len(self._refused) > MAX_REMEMBERED:
                self._refused.popitem(last=False)
            await channel.send(b"\1")
        finally:
            self._open_count -= 1

    def find_refusal(self, url: str) -> ToolError | None:
        """Return why the gateway refused the connection to a page, or ``None`` if it did not."""
        try:
            parts = urlsplit(url)
            port = parts.port or _PORTS.get(parts.scheme, 80)
        except ValueError:
            return None
        return self._refused.get((parts.hostname or "", port))

    async def needs_approval(self, host: str, port: int) -> bool:
        """Return whether the user must approve a connection to one of their services."""
        if not loopback_addresses(host) or port in self.approved:
            return False
        # A host in the user's list is permanently approved.
        if find_address_policy().is_listed(host, port, self._settings.hosts):
            return False
        return port not in await trio.to_thread.run_sync(self._find_own_ports)

    async def _connect(self, host: str, port: int) -> anyio.abc.SocketStream:
        # The limit prevents pages from using up hilum's file descriptors.
        if self._open_count > MAX_CONNECTIONS:
            raise ToolError(
                f"Pages have more than {MAX_CONNECTIONS} connections open.",
                code=errors.E_UNREACHABLE,
            )
        if await self.needs_approval(host, port):
            raise ToolError(
                f"No command of this session opened port {port} on this machine.",
                code=errors.E_ADDRESS,
                hint=(
                    f"Navigate to it to ask the user, who can also list {host}:{port} in"
                    " browser.hosts."
                ),
            )
        # Loopback names are not looked up, because a name server could return any other address.
        addresses = loopback_addresses(host) or await self._resolve(host, port)
        reason = "it does not respond"
        with trio.move_on_after(HOST_TIMEOUT):
            for address in addresses:
                try:
                    with trio.fail_after(ADDRESS_TIMEOUT):
                        return await anyio.connect_tcp(address, port)
                except trio.TooSlowError:
                    reason = f"it did not respond within {ADDRESS_TIMEOUT:g} s"
                except OSError as error:
                    reason = _describe(error)
        raise ToolError(
            f"{host}:{port} cannot be reached: {reason}.",
            code=errors.E_UNREACHABLE,
            hint="Is its server running on this port?",
        )

    async def _resolve(self, host: str, port: int) -> tuple[str, ...]:
        """Return the addresses of a host other than this machine, after checking them."""
        policy = find_address_policy()
        hosts = self._settings.hosts
        if self._settings.network == "loopback" and not policy.is_listed(host, port, hosts):
            raise ToolError(
                f"{host} is not on this machine, and pages may contact nothing else"
                " (browser.network).",
                code=errors.E_ADDRESS,
                hint=_LIST_HINT,
            )
        shown = f"[{host}]" if ":" in host else host
        try:
            _, addresses = await policy.resolve_url(f"http://{shown}:{port}/", hosts=hosts)
        except AddressRefused as error:
            if error.code == errors.E_UNREACHABLE:
                hint = "Is the name correct, and is the network up?"
            elif error.listable:
                hint = _LIST_HINT
            else:
                hint = "Metadata services are never contacted."
            raise ToolError(error.message, code=error.code, hint=hint) from None
        return addresses


def _describe(error: OSError) -> str:
    # anyio wraps the errors of all attempts in one error.
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ConnectionRefusedError):
            return "the connection was refused"
        cause = cause.__cause__
    return str(error.__cause__ or error).rstrip(".")
