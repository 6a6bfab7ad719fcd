"""What is said when something on the network fails: the site, what happened, what to do next."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from hilum import ToolError, errors

from hilum_web.connecting import AddressRefused, HostUnknown, UrlUnread
from hilum_web.reader.unseen import line

# A user and a password in an address: a site that redirects may have put in a secret.
_LOGIN = re.compile(r"//[^/?#]*@")


def failure(error: Exception, url: str, seconds: float, before: str = "") -> ToolError:
    """Return what failed below HTTP. httpx's own messages are often empty.

    Args:
        error: What httpx, or the check of addresses, raised.
        url: What was to be fetched.
        seconds: How long it might have taken.
        before: The site that led there; empty where none did.
    """
    import ssl

    import httpx

    host = site(url)
    why = line(str(error), 300).rstrip(".")
    if isinstance(error, AddressRefused):
        if isinstance(error, HostUnknown):
            return ToolError(
                f"{why}.", code=errors.E_UNREACHABLE, hint="Check how the host is written."
            )
        hint = "Use an address of the public web."
        if error.listable:
            hint = "The user can list a host of their own network in web.hosts."
        elif isinstance(error, UrlUnread):
            why = f"{why[:1].lower()}{why[1:]}"
            hint = "Write the address plainly."
        hint = f"{before} redirects there. {hint}" if before else hint
        return ToolError(
            f"{line(_LOGIN.sub('//…@', url), 300)} is not fetched: {why}.",
            code=errors.E_ADDRESS,
            hint=hint,
        )
    if isinstance(error, httpx.TimeoutException):
        return ToolError(
            f"{host} did not answer within {seconds:g} s.",
            code=errors.E_TIMEOUT,
            hint="Try another page, or later.",
        )
    inner: BaseException | None = error
    while inner is not None and not isinstance(inner, ssl.SSLError):
        inner = inner.__cause__ or inner.__context__
    if isinstance(inner, ssl.SSLError):
        reason = getattr(inner, "verify_message", "") or inner.reason or str(inner)
        return ToolError(
            f"{host} cannot be trusted: its TLS certificate or protocol fails ({reason}).",
            code=errors.E_UNREACHABLE,
            hint="Use another source; nothing was read.",
        )
    if isinstance(error, httpx.ConnectError):
        return ToolError(
            f"{host} does not take connections: {why or type(error).__name__}.",
            code=errors.E_UNREACHABLE,
            hint="Check the address, or try another source.",
        )
    return ToolError(
        f"The connection to {host} broke off: {why or type(error).__name__}.",
        code=errors.E_UNREACHABLE,
        hint="Try again, or another source.",
    )


def later(said: str) -> str:
    """When to ask again, by a header ``Retry-After``."""
    if said.isdecimal() and len(said) < 7:
        return f"in {int(said)} s"
    return "later"


def site(url: str) -> str:
    """The host of an address, with its port, for messages."""
    try:
        return line(urlsplit(url).netloc.rpartition("@")[2] or url, 100)
    except ValueError:
        return line(url, 100)
