"""The way of pages to the network: each connection is checked here, outside the sandbox, and made
to what was checked.

A page is in a browser that has no other network, so nothing that it does goes past this: no
redirect, no script, no WebSocket, no name that changes what it stands for.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import trio
from hilum import ToolError, errors
from hilum_web import AddressRefused, HostUnknown, Reach, located

from hilum_browser.inside.proxy import loopback

if TYPE_CHECKING:
    from collections.abc import Callable

    import anyio.abc

    from hilum_browser.inside.link import Channel
    from hilum_browser.settings import BrowserSettings

EACH, ALL = 5.0, 15.0
"""Seconds for one address of a host to answer, and for the host."""
MOST_CONNECTIONS = 256
REMEMBERED = 100


class Refused(Exception):
    """A connection that was not made: a code, what happened, what to do."""

    def __init__(self, code: str, text: str, hint: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.hint = hint


class Gateway:
    """Makes the connections of a session's pages.

    Args:
        settings: What may be reached.
        own_ports: Returns the ports of the loopback that commands of the session opened. Called in
            a thread.

    Attributes:
        allowed: Ports of the loopback that the user has agreed to.
    """

    def __init__(self, settings: BrowserSettings, own_ports: Callable[[], set[int]] = set) -> None:
        self._settings = settings
        self._own_ports = own_ports
        self.allowed: set[int] = set()
        self._open = 0
        self._refused: OrderedDict[tuple[str, int], Refused] = OrderedDict()

    async def dialled(self, channel: Channel, words: bytes) -> None:
        """Serve a connection, as ``Link`` wants it: to ``HOST PORT``.

        Its first byte says whether it was made.
        """
        from hilum_browser.inside.link import splice

        host, _, port = words.decode("ascii", "replace").partition(" ")
        place = (host, int(port) if port.isascii() and port.isdigit() else 0)
        self._open += 1
        try:
            stream = await self._connect(*place)
            self._refused.pop(place, None)
            async with stream:
                await channel.send(b"\0")
                await splice(channel, stream)
        except Refused as refused:
            self._refused[place] = refused
            if len(self._refused) > REMEMBERED:
                self._refused.popitem(last=False)
            await channel.send(b"\1")
        finally:
            self._open -= 1

    def reason(self, url: str) -> ToolError | None:
        """Return why a page could not be reached; ``None`` where that was not decided here."""
        try:
            parts = urlsplit(url)
            port = parts.port or {"https": 443, "wss": 443}.get(parts.scheme, 80)
        except ValueError:
            return None
        refused = self._refused.get((parts.hostname or "", port))
        if refused is None:
            return None
        return ToolError(refused.text, code=refused.code, hint=refused.hint)

    async def needs_consent(self, host: str, port: int) -> bool:
        """Return whether an address is a service of the user's on this machine, which no page
        reaches before they agree.
        """
        if (
            not loopback(host)
            or port in self.allowed
            or Reach(hosts=frozenset(self._settings.hosts)).lists(host, port)
        ):
            return False
        return port not in await trio.to_thread.run_sync(self._own_ports)

    async def _connect(self, host: str, port: int) -> anyio.abc.SocketStream:
        import anyio

        if self._open > MOST_CONNECTIONS:
            raise Refused(
                errors.E_UNREACHABLE,
                f"Pages have more than {MOST_CONNECTIONS} connections open.",
                "",
            )
        if await self.needs_consent(host, port):
            text = f"No command of this session opened port {port} of this machine."
            raise Refused(
                errors.E_ADDRESS,
                text,
                f"Navigate to it, which asks the user; they can list {host}:{port} in"
                " browser.hosts.",
            )
        addresses = loopback(host) or await self._checked(host, port)
        why = "it does not answer"
        with trio.move_on_after(ALL):
            for address in addresses:
                try:
                    with trio.fail_after(EACH):
                        return await anyio.connect_tcp(address, port)
                except trio.TooSlowError:
                    why = f"it did not answer within {EACH:g} s"
                except OSError as error:
                    if _is_refusal(error):
                        why = "the connection was refused"
                    else:
                        why = str(error.__cause__ or error).rstrip(".")
        hint = "Is its server running, and at this port?"
        raise Refused(errors.E_UNREACHABLE, f"{host}:{port} cannot be reached: {why}.", hint)

    async def _checked(self, host: str, port: int) -> tuple[str, ...]:
        """Look up and check a host that is not this machine by its own name."""
        reach = Reach(hosts=frozenset(self._settings.hosts))
        if self._settings.network == "loopback" and not reach.lists(host, port):
            text = (
                f"{host} is not on this machine, and pages may reach nothing else"
                " (browser.network)."
            )
            raise Refused(errors.E_ADDRESS, text, _LISTED)
        shown = f"[{host}]" if ":" in host else host
        try:
            _, addresses = await located(f"http://{shown}:{port}/", reach)
        except HostUnknown as error:
            raise Refused(
                errors.E_UNREACHABLE, str(error), "Is the name right, and the network up?"
            ) from None
        except AddressRefused as error:
            hint = _LISTED if error.listable else "Metadata services are never reached."
            raise Refused(errors.E_ADDRESS, str(error), hint) from None
        return addresses


_LISTED = "For a server on this machine use localhost; the user can list a host in browser.hosts."


def _is_refusal(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ConnectionRefusedError):
            return True
        error = error.__cause__
    return False
