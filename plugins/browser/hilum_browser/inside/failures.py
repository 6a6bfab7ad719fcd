"""What went wrong, in words: of Chromium's network errors, and of Playwright's messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

SNAPSHOT = "Take a snapshot to see what is there."
# Chromium's net_error_list.h: what is said of a site, and what to do.
_NET = {
    "CONNECTION_REFUSED": ("refused the connection", "Is its server running?"),
    "TUNNEL_CONNECTION_FAILED": (
        "cannot be reached",
        "Is its server running, and is the address right?",
    ),
    "CONNECTION_RESET": ("broke the connection off", "Try again; is its server well?"),
    "CONNECTION_CLOSED": (
        "closed the connection without an answer",
        "Is this its port, and does it speak HTTP?",
    ),
    "EMPTY_RESPONSE": (
        "closed the connection without an answer",
        "Is this its port, and does it speak HTTP?",
    ),
    "INVALID_HTTP_RESPONSE": (
        "answered with something that is not HTTP",
        "Is this the right port?",
    ),
    "TOO_MANY_REDIRECTS": ("redirects in a circle", "Try another address."),
    "UNSAFE_PORT": ("is at a port that browsers refuse", "Use another port."),
    "SSL_PROTOCOL_ERROR": ("does not speak TLS as it should", "Is it meant to be http://?"),
    "SSL_VERSION_OR_CIPHER_MISMATCH": (
        "speaks only an outdated TLS",
        "Its server has to be mended.",
    ),
    "TIMED_OUT": ("did not answer in time", "Try again."),
}
_CERTIFICATE = (
    "Mend the certificate; for a server of the user's own there is the setting"
    " browser.any_certificate."
)
_STATES = {
    "intercepts pointer events": "is covered by another element",
    "element is not visible": "is not visible",
    "element is not enabled": "is disabled",
    "element is not editable": "cannot be edited",
    "element is outside of the viewport": "is outside of the viewport",
    "element is not stable": "keeps moving",
}


class Failed(Exception):
    """An action could not be done.

    Args:
        code: One of hilum's codes.
        text: What happened, one sentence.
        hint: What to do next, one sentence.
        url: What could not be loaded, if that is it.
    """

    def __init__(self, code: str, text: str, hint: str = "", url: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.hint = hint
        self.url = url


def site(url: str) -> str:
    """Scheme, host and port of a URL."""
    if url.startswith("chrome-error:"):
        return "the error page of the browser"
    try:
        parts = urlsplit(url)
    except ValueError:
        return url[:200]
    if parts.netloc:
        return f"{parts.scheme}://{parts.netloc}"
    return url[:200]


def network(url: str, message: str) -> Failed:
    """Return why a page could not be loaded.

    Args:
        url: The page.
        message: What Chromium says, with ``net::ERR_…`` in it.
    """
    found = re.search(r"net::ERR_(\w+)", message)
    name = found[1] if found else ""
    if name.startswith("CERT_"):
        return Failed(
            "E_UNREACHABLE",
            f"The TLS certificate of {site(url)} is not valid ({name}).",
            _CERTIFICATE,
            url,
        )
    what, hint = _NET.get(
        name, (f"cannot be loaded: {name or first_line(message)}", "Is the address right?")
    )
    code = "E_TIMEOUT" if name == "TIMED_OUT" else "E_UNREACHABLE"
    return Failed(code, f"{site(url)} {what}.", hint, url)


def first_line(message: str) -> str:
    """The first line of a message of Playwright's, without the name of its function."""
    line = message.strip().partition("\n")[0]
    return re.sub(r"^[A-Z]\w+\.\w+: ", "", line)[:300].rstrip(".?! ")


def too_much(where: str, action: str) -> Failed:
    """Say that a page was not done with an action in time, though it answers.

    Args:
        where: The page.
        action: What it was to do.
    """
    text = f"{where} did not finish {action} in time: it is too large, or has too much to do."
    return Failed("E_TIMEOUT", text, "Name a part of it with selector, or wait for it.")


def of_element(
    message: str, selector: str, found: int, where: str, seconds: float, names: Sequence[str] = ()
) -> Failed:
    """Return why nothing could be done with an element.

    Args:
        message: What Playwright says.
        selector: The element, as the model named it.
        found: How many elements are there, if it was a time limit; else -1.
        where: The page.
        seconds: How long was waited.
        names: Selectors of elements with names near to it.
    """
    many = re.search(r"strict mode violation.*? resolved to (\d+) elements", message, re.DOTALL)
    if many:
        text = f"{selector!r} matches {many[1]} elements on {where}."
        return Failed(
            "E_MULTIPLE_MATCHES",
            text,
            "Name one: by a ref of a snapshot, or with >> nth=0 after it.",
        )
    if (
        found == 0
        or "No element found" in message
        or re.search(r"[Rr]ef\b.{0,40}not found", message)
    ):
        hint = f"Near to it: {', '.join(names)}." if names else SNAPSHOT
        return Failed("E_NOT_FOUND", f"No element {selector!r} is on {where}.", hint)
    if found > 0:
        why = next((said for mark, said in _STATES.items() if mark in message), "cannot be used")
        hint = "Wait for it, or deal with what is in the way first."
        return Failed("E_TIMEOUT", f"{selector!r} on {where} {why}, for {seconds:g} s.", hint)
    if re.search(
        r"not a valid selector|while parsing|Unknown engine|Unexpected token|Malformed", message
    ):
        return Failed(
            "E_BAD_ARGS",
            f"{selector!r} is no selector: {first_line(message)}.",
            "Use CSS, or a ref like e12.",
        )
    if re.search(r"Element is not an? <|not a <|<input> of type|cannot be filled", message):
        return Failed(
            "E_BAD_ARGS",
            f"{selector!r} on {where} does not take that: {first_line(message)}.",
            SNAPSHOT,
        )
    return Failed("E_FAILED", f"It failed on {where}: {first_line(message)}.", SNAPSHOT)
