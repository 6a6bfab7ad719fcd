"""Checks the arguments of ``browser_use`` before a browser starts."""

from __future__ import annotations

import msgspec
from hilum import ToolError, errors, find_address_policy

from hilum_browser.driver.loopback import loopback_addresses
from hilum_browser.driver.protocol import Arguments

SCREENSHOT_SUFFIXES = (".png", ".jpg", ".jpeg")


def find_loopback_target(action: str, url: str) -> tuple[str, int] | None:
    """Return the host and port of the loopback page that a call opens, or ``None`` for other calls.

    Raises:
        ValueError: The URL is invalid.
    """
    if action != "navigate":
        return None
    target = find_address_policy().parse_url(url)
    if loopback_addresses(target.host):
        return (target.host, target.port)
    return None


def parse_loopback_target(arguments: str) -> tuple[str, int] | None:
    """Return the host and port of the loopback page that a call opens, from its JSON arguments.

    Returns ``None`` for invalid arguments, because the call itself reports them.
    """
    # The gate receives a call before the kernel has checked the arguments.
    try:
        decoded = msgspec.json.decode(arguments or "{}")
        return find_loopback_target(decoded["action"], decoded["url"])
    except (msgspec.DecodeError, ValueError, KeyError, TypeError, ToolError):
        return None


def check_arguments(arguments: Arguments) -> None:
    """Check the arguments of a call.

    Raises:
        ToolError: ``E_ADDRESS`` if the URL does not identify a page; otherwise ``E_BAD_ARGS``.
    """
    action = arguments["action"]
    path = arguments["path"]
    if action == "navigate":
        _check_url(arguments["url"])
    elif action == "upload" and not path:
        raise ToolError(
            "upload requires a path.", code=errors.E_BAD_ARGS, hint="Pass a file in the workspace."
        )
    elif action == "screenshot" and path and not path.lower().endswith(SCREENSHOT_SUFFIXES):
        raise ToolError(
            f"{path!r} is not a valid screenshot name.",
            code=errors.E_BAD_ARGS,
            hint="The name must end with .png or .jpg.",
        )


def _check_url(url: str) -> None:
    if not url:
        raise ToolError(
            "navigate requires a url.",
            code=errors.E_BAD_ARGS,
            hint="For example http://localhost:8000/.",
        )
    try:
        find_address_policy().parse_url(url)
    except ValueError as error:
        raise ToolError(
            f"{url[:200]!r} is not opened: {error}.",
            code=errors.E_ADDRESS,
            hint="Use an http:// or https:// URL.",
        ) from None
