"""Explains Chromium's network errors and Playwright's messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

SNAPSHOT_HINT = "Take a snapshot to see the page's elements."
_HTTP_HINT = "Is this the right port, and does the server speak HTTP?"
# Error names from Chromium's net_error_list.h, with an explanation and advice.
_NETWORK_ERRORS = {
    "CONNECTION_REFUSED": ("refused the connection", "Is the server running?"),
    "TUNNEL_CONNECTION_FAILED": (
        "cannot be reached",
        "Is the server running, and is the address correct?",
    ),
    "CONNECTION_RESET": ("reset the connection", "Try again, or check the server's log."),
    "CONNECTION_CLOSED": ("closed the connection without a response", _HTTP_HINT),
    "EMPTY_RESPONSE": ("closed the connection without a response", _HTTP_HINT),
    "INVALID_HTTP_RESPONSE": (
        "sent a response that is not HTTP",
        "Is this the right port?",
    ),
    "TOO_MANY_REDIRECTS": ("redirects in a loop", "Try another address."),
    "UNSAFE_PORT": ("uses a port that browsers block", "Use another port."),
    "SSL_PROTOCOL_ERROR": ("does not speak TLS correctly", "Should the URL begin with http://?"),
    "SSL_VERSION_OR_CIPHER_MISMATCH": (
        "supports only outdated versions of TLS",
        "The server requires a newer TLS version.",
    ),
    "TIMED_OUT": ("did not respond in time", "Try again."),
}
_CERTIFICATE_HINT = (
    "Fix the certificate. For their own server, the user can set browser.any_certificate."
)
# Lines in Playwright's log of an action that timed out, and their meanings.
_ELEMENT_STATES = {
    "intercepts pointer events": "is covered by another element",
    "element is not visible": "is not visible",
    "element is not enabled": "is disabled",
    "element is not editable": "cannot be edited",
    "element is outside of the viewport": "is outside of the viewport",
    "element is not stable": "keeps moving",
}
# Playwright uses one class for most errors, so only their messages distinguish them.
_SEVERAL = re.compile(r"strict mode violation.*? resolved to (\d+) elements", re.DOTALL)
_NONE = re.compile(r"No element found|[Rr]ef\b.{0,40}not found")
_BAD_SELECTOR = re.compile(
    r"not a valid selector|while parsing|Unknown engine|Unexpected token|Malformed"
)
_WRONG_ELEMENT = re.compile(r"Element is not an? <|not a <|<input> of type|cannot be filled")


class ActionError(Exception):
    """An action failed.

    Args:
        code: One of hilum's codes.
        text: What happened, in one sentence.
        hint: What to do next, in one sentence.
        url: The page that could not be loaded, if that is the reason for the error.
    """

    def __init__(self, code: str, text: str, hint: str = "", url: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.hint = hint
        self.url = url


def format_site(url: str) -> str:
    """Return the scheme, host and port of a URL."""
    if url.startswith("chrome-error:"):
        return "the error page of the browser"
    try:
        parts = urlsplit(url)
    except ValueError:
        return url[:200]
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else url[:200]


def explain_network_error(url: str, message: str) -> ActionError:
    """Return the error for a page that could not be loaded.

    Args:
        url: The page.
        message: Chromium's message, which contains ``net::ERR_…``.
    """
    found = re.search(r"net::ERR_(\w+)", message)
    name = found[1] if found else ""
    site = format_site(url)
    if name.startswith("CERT_"):
        text = f"The TLS certificate of {site} is not valid ({name})."
        return ActionError("E_UNREACHABLE", text, _CERTIFICATE_HINT, url)
    unknown = (f"cannot be loaded: {name or first_line(message)}", "Is the address correct?")
    problem, hint = _NETWORK_ERRORS.get(name, unknown)
    code = "E_TIMEOUT" if name == "TIMED_OUT" else "E_UNREACHABLE"
    return ActionError(code, f"{site} {problem}.", hint, url)


def first_line(message: str) -> str:
    """Return the first line of a Playwright message, without the name of the function."""
    line = message.strip().partition("\n")[0]
    return re.sub(r"^[A-Z]\w+\.\w+: ", "", line)[:300].rstrip(".?! ")


def explain_slow_page(page: str, action: str) -> ActionError:
    """Return the error for a page that responds, but did not finish an action in time."""
    return ActionError(
        "E_TIMEOUT",
        f"{page} did not finish {action} in time: it is too large or too busy.",
        "Pass selector to use only a part of the page, or wait for the page.",
    )


def explain_element_error(
    message: str,
    selector: str,
    page: str,
    seconds: float,
    found: int = -1,
    suggestions: Sequence[str] = (),
) -> ActionError:
    """Return the error for a failed action on an element.

    Args:
        message: Playwright's message.
        selector: The selector.
        page: The page.
        seconds: The time limit.
        found: The number of matching elements after a timeout; otherwise -1.
        suggestions: Selectors of elements with similar names.
    """
    several = _SEVERAL.search(message)
    if several:
        return ActionError(
            "E_MULTIPLE_MATCHES",
            f"{selector!r} matches {several[1]} elements on {page}.",
            "Select one of them by a ref from a snapshot, or append >> nth=0.",
        )
    if found == 0 or _NONE.search(message):
        hint = f"Similar: {', '.join(suggestions)}." if suggestions else SNAPSHOT_HINT
        return ActionError("E_NOT_FOUND", f"{page} has no element {selector!r}.", hint)
    if found > 0:
        states = [state for mark, state in _ELEMENT_STATES.items() if mark in message]
        state = states[0] if states else "cannot be used"
        return ActionError(
            "E_TIMEOUT",
            f"{selector!r} on {page} {state}, for {seconds:g} s.",
            "Wait for the element, or first remove what is in the way.",
        )
    return _explain_wrong_arguments(message, selector, page)


def _explain_wrong_arguments(message: str, selector: str, page: str) -> ActionError:
    """Return the error for arguments that Playwright rejects, or for any other message."""
    reason = first_line(message)
    if "Unknown key" in message:
        hint = "Key names are, for example, Enter, Escape, ArrowDown, Control+A."
        return ActionError("E_BAD_ARGS", f"{reason}.", hint)
    if _BAD_SELECTOR.search(message):
        text = f"{selector!r} is not a valid selector: {reason}."
        return ActionError("E_BAD_ARGS", text, "Use CSS, or a ref like e12.")
    if _WRONG_ELEMENT.search(message):
        text = f"{selector!r} on {page} does not support this action: {reason}."
        return ActionError("E_BAD_ARGS", text, SNAPSHOT_HINT)
    return ActionError("E_FAILED", f"The action failed on {page}: {reason}.", SNAPSHOT_HINT)
