"""Requests to the providers that the user has set up, and what is said when one fails."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
from hilum import ToolError, errors

from hilum_image.picture import Picture, look
from hilum_image.wish import Failed

if TYPE_CHECKING:
    import httpx

MOST_BYTES = 80_000_000
MOST_IMAGE = 50_000_000


def open_client(
    url: str, headers: Mapping[str, str], auth: tuple[str, str] | None = None
) -> httpx.AsyncClient:
    """Open a client for the server at an address, through the proxy that the environment names for
    it.
    """
    import httpx
    from hilum_models import proxy_for
    from hilum_web import ENCODINGS

    secure = url.startswith("https://")
    return httpx.AsyncClient(
        headers={**headers, "accept-encoding": ENCODINGS},
        auth=auth,
        proxy=proxy_for(url) or None,
        trust_env=False,
        follow_redirects=False,
        verify=httpx.create_ssl_context() if secure else False,
        timeout=httpx.Timeout(None, connect=10.0),
    )


class Answer(msgspec.Struct, frozen=True):
    """What a provider answered.

    Args:
        status: The status of HTTP.
        data: The JSON; what is no mapping becomes an empty one.
        retry: The header ``Retry-After``.
    """

    status: int
    data: dict[str, Any]
    retry: str = ""

    @property
    def advice(self) -> str:
        """What to do about a status that is no success."""
        from hilum_web import later

        if self.status == 402:
            return "The user must add credit there."
        if self.status >= 500 or self.status == 429:
            return f"Try again {later(self.retry)}."
        return "Describe it otherwise, or tell the user what it says."


async def ask(client: httpx.AsyncClient, who: str, method: str, url: str, **options: Any) -> Answer:
    """Send a request and read the answer, within bounds.

    Raises:
        Failed: The server cannot be reached, breaks off, sends too much; or the answer is no JSON
            although it is a success.
    """
    import httpx
    from hilum_web import line, read_body

    host = shown(url)
    try:
        async with client.stream(method, url, **options) as response:
            body = await read_body(response, url, MOST_BYTES)
            status = response.status_code
            elsewhere = response.headers.get("location", "")
            retry = response.headers.get("retry-after", "")
    except ToolError as error:
        raise Failed(
            f"{who}: {error.message}", code=error.code, hint="Is this the address of its API?"
        ) from None
    except httpx.ConnectTimeout:
        raise Failed(
            f"{who} at {host} did not accept a connection within 10 s.",
            code=errors.E_UNREACHABLE,
            hint="Check the address and the network.",
        ) from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        why = line(str(error), 300).rstrip(".") or type(error).__name__
        raise Failed(
            f"{who} at {host} cannot be reached: {why}.",
            code=errors.E_UNREACHABLE,
            hint="Is the server running, and is its address in the settings right?",
        ) from None
    if 300 <= status < 400:
        where = f"{shown(elsewhere)}" if "://" in elsewhere else "another path"
        raise Failed(
            f"{who} at {host} answered {status}: it is at {where}.",
            code=errors.E_HTTP,
            hint="Put the address at which its API is into the settings.",
        )
    try:
        answer = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        if status < 300:
            raise Failed(
                f"{who} at {host} answered with something that is not JSON.",
                code=errors.E_CONTENT,
                hint="Is this the address of its API?",
            ) from None
        answer = None
    return Answer(status, answer if isinstance(answer, dict) else {}, retry)


def decode(text: object, who: str) -> Picture:
    """Create an image of base64 text, with or without a ``data:`` URL around it.

    Raises:
        Failed: It is no image.
    """
    if isinstance(text, str) and text:
        try:
            data = base64.b64decode(
                text.partition(",")[2] if text.startswith("data:") else text, validate=False
            )
        except (binascii.Error, ValueError):
            data = b""
        picture = look(data)
        if picture:
            return finished(picture, who)
    raise Failed(
        f"{who} answered without an image.",
        code=errors.E_CONTENT,
        hint="Try again, or with another description.",
    )


def finished(picture: Picture, who: str) -> Picture:
    """Return the image if it is there to its end.

    Raises:
        Failed: It is cut off.
    """
    if not picture.whole:
        raise Failed(
            f"{who} gave an image that is cut off.", code=errors.E_CONTENT, hint="Try again."
        )
    return picture


def shown(url: str) -> str:
    """Scheme, host and port of an address: what a message may show."""
    from hilum_web import line

    try:
        parts = urlsplit(url)
        return line(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", 200)
    except ValueError:
        return "an address that is none"


def said(text: str, status: int) -> str:
    """What a provider says of a failure, as one sentence of visible characters."""
    from hilum_web import line

    return f"{line(text, 500).rstrip('.') or f'it answered {status}'}."
