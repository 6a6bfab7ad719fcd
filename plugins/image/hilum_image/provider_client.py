"""Sends requests to providers and fetches images. This is the only module that imports httpx."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec
from hilum import AddressRefused, errors, find_address_policy, find_proxy

from hilum_image.image_file import ImageFile, parse_image
from hilum_image.provider import ProviderError

# A 50 MB image takes 67 MB in base64.
MAX_ANSWER = 80_000_000
MAX_IMAGE = 50_000_000
CONNECT_TIMEOUT = 10.0
FETCH_TIMEOUT = 60.0
# httpx also decodes other encodings if packages for them are installed. Such an encoding can turn a
# few bytes into gigabytes in one step; gzip and deflate yield at most a thousand times the input.
_ENCODINGS = ("", "identity", "gzip", "deflate")

Client = httpx.AsyncClient


def open_client(
    url: str, headers: Mapping[str, str], auth: tuple[str, str] | None = None
) -> Client:
    """Open a client for a provider, with the proxy that is configured in the environment."""
    # Loading certificates takes 20 ms, and plain HTTP requires none.
    verify = httpx.create_ssl_context() if url.startswith("https://") else False
    return httpx.AsyncClient(
        headers={**headers, "accept-encoding": "gzip, deflate"},
        auth=auth,
        proxy=find_proxy(url) or None,
        trust_env=False,  # find_proxy() finds the proxy; credentials in .netrc are not used
        follow_redirects=False,  # a redirect would send the key elsewhere
        verify=verify,
        # Reading has no time limit: a provider may compute for minutes before it sends the first
        # byte, and the caller limits the whole request.
        timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT),
    )


class Answer(msgspec.Struct, frozen=True):
    """A response from a provider.

    Args:
        status: The HTTP status.
        data: The JSON object; empty if the response is another JSON value.
        retry_after: The header ``Retry-After``.
    """

    status: int
    data: dict[str, Any]
    retry_after: str = ""

    @property
    def advice(self) -> str:
        """Advice for the user or the model about an unsuccessful response."""
        if self.status == httpx.codes.PAYMENT_REQUIRED:
            return "The user must add credit to the account at this provider."
        if self.status >= 500 or self.status == httpx.codes.TOO_MANY_REQUESTS:
            # The header may also contain a date (RFC 9110, section 10.2.3), or any text from a
            # broken server.
            is_short = self.retry_after.isdecimal() and len(self.retry_after) < 7
            return f"Try again in {self.retry_after} s." if is_short else "Try again later."
        return "Change the description, or tell the user the reason."


async def request(client: Client, who: str, method: str, url: str, **options: Any) -> Answer:
    """Send a request and read the response within limits.

    Args:
        client: The client.
        who: The provider's name, for messages.
        method: The HTTP method.
        url: The URL.
        options: Arguments of ``httpx.AsyncClient.stream``.

    Raises:
        ProviderError: The server cannot be reached, or its response is too large or not JSON.
    """
    where = f"{who} at {format_origin(url)}"
    try:
        async with client.stream(method, url, **options) as response:
            body = await _read_body(response, where, MAX_ANSWER)
    except httpx.ConnectTimeout:
        raise ProviderError(
            f"{where} did not accept a connection within {CONNECT_TIMEOUT:g} s.",
            code=errors.E_UNREACHABLE,
            hint="Check the address and the network.",
        ) from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise ProviderError(
            f"{where} cannot be reached: {describe_error(error)}.",
            code=errors.E_UNREACHABLE,
            hint="Is the server running, and is its URL in the settings correct?",
        ) from None
    # The new URL is reported but not requested: a server could redirect to the user's own network.
    if 300 <= response.status_code < 400:
        location = response.headers.get("location", "")
        new_place = format_origin(location) if "://" in location else "another path"
        raise ProviderError(
            f"{where} responded with {response.status_code}: it has moved to {new_place}.",
            code=errors.E_HTTP,
            hint="The user must set the URL of its API in the settings.",
        )
    try:
        data = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        if response.is_success:
            raise ProviderError(
                f"{where} did not return JSON.",
                code=errors.E_CONTENT,
                hint="Is this the URL of its API?",
            ) from None
        data = None
    retry_after = response.headers.get("retry-after", "")
    return Answer(response.status_code, data if isinstance(data, dict) else {}, retry_after)


def get_first(data: dict[str, Any], key: str) -> Any:
    """Return the first element of a list in a response, or ``None`` if there is none."""
    values = data.get(key)
    return values[0] if isinstance(values, list) and values else None


async def _read_body(response: httpx.Response, where: str, limit: int) -> bytes:
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in _ENCODINGS:
        raise ProviderError(
            f"{where} compressed its response with {to_line(encoding, 40)}, which was not "
            "requested.",
            code=errors.E_CONTENT,
            hint="Is this the URL of its API?",
        )
    body = bytearray()
    try:
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > limit:
                # The next read fails, which closes httpx's nested generators. A ``break`` would
                # leave the generators open.
                await response.aclose()
    except httpx.HTTPError:
        if len(body) <= limit:
            raise
    if len(body) > limit:
        raise ProviderError(
            f"The response from {where} is larger than {limit / 1e6:g} MB; it was not read "
            "completely.",
            code=errors.E_TOO_LARGE,
            hint="Is this the URL of its API?",
        )
    return bytes(body)


async def fetch_image(url: str, server: str, who: str) -> ImageFile:
    """Fetch an image that a provider returned as a URL.

    Args:
        url: The URL. The provider could return a URL on the user's network, so only the public
            network and the provider's own server are allowed.
        server: The URL of the provider's API.
        who: The provider's name, for messages.

    Raises:
        ProviderError: hilum must not fetch the URL, or the response contains no complete image.
    """
    policy = find_address_policy()
    origin = format_origin(url)
    try:
        # A local provider returns URLs with its own host and port, which the address check would
        # refuse.
        own = policy.parse_url(server)
        # An IPv6 address needs brackets before a port (RFC 3986, section 3.2.2).
        host = f"[{own.host}]" if ":" in own.host else own.host
        place = f"{host}:{own.port}"
        headers = {"accept-encoding": "gzip, deflate"}
        async with (
            # The policy checks every address to which a name resolves, to prevent server-side
            # request forgery.
            policy.open_client(hosts={place}, timeout=FETCH_TIMEOUT, headers=headers) as client,
            client.stream("GET", url) as response,
        ):
            body = await _read_body(response, f"{who} at {origin}", MAX_IMAGE)
    except AddressRefused as error:
        raise ProviderError(
            f"{who} returned a URL that is not fetched: {to_line(error.message, 300)}",
            code=errors.E_ADDRESS,
            hint="Check image.openai_url.",
        ) from None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise ProviderError(
            f"The image could not be fetched from {origin}: {describe_error(error)}.",
            code=errors.E_UNREACHABLE,
            hint="Try again.",
        ) from None
    image = parse_image(body)
    if response.status_code != httpx.codes.OK or image is None:
        raise ProviderError(
            f"{origin} responded with {response.status_code} and no image.",
            code=errors.E_CONTENT,
            hint="Try again.",
        )
    return check_complete(image, who)


def decode_image(text: object, who: str) -> ImageFile:
    """Return the image in a base64 string, which may be wrapped in a ``data:`` URL.

    Raises:
        ProviderError: The string contains no complete image.
    """
    # Stable Diffusion web UIs differ in whether they send the prefix of a data URL.
    data = b""
    if isinstance(text, str):
        encoded = text.partition(",")[2] if text.startswith("data:") else text
        try:
            data = base64.b64decode(encoded)
        except (binascii.Error, ValueError):
            pass
    image = parse_image(data)
    if image is None:
        raise ProviderError(
            f"{who} returned no image.",
            code=errors.E_CONTENT,
            hint="Try again, or use another description.",
        )
    return check_complete(image, who)


def check_complete(image: ImageFile, who: str) -> ImageFile:
    """Return an image if it is complete.

    Raises:
        ProviderError: The image is truncated.
    """
    if not image.is_complete:
        raise ProviderError(
            f"{who} returned a truncated image.", code=errors.E_CONTENT, hint="Try again."
        )
    return image


def format_origin(url: str) -> str:
    """Return the scheme, host and port of a URL, the only parts that a message may show."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an invalid URL"
    # The user name, the password, the path and the query are omitted: they may contain a key.
    host = parts.netloc.rpartition("@")[2]
    return to_line(f"{parts.scheme}://{host}", 200)


def format_reason(text: str, status: int) -> str:
    """Return a provider's reason for a failure as one sentence."""
    reason = to_line(text, 500).rstrip(".")
    return f"{reason or f'it responded with {status}'}."


def describe_error(error: Exception) -> str:
    """Return an error's message without the final period. The messages of httpx are often empty."""
    return to_line(str(error), 300).rstrip(".") or type(error).__name__


def to_line(text: str, limit: int) -> str:
    """Return a server's text as one line of at most ``limit`` visible characters.

    Invisible characters could hide instructions for the model, or change what a terminal shows.
    """
    # The text is truncated first, because a server may send megabytes.
    words = text[: 4 * limit].split()
    visible = ["".join(filter(str.isprintable, word)) for word in words]
    line = " ".join(filter(None, visible))
    if len(line) > limit:
        line = f"{line[: limit - 1]}…"
    return line
