"""Adds servers whose address the user enters, and checks them with one request."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

import msgspec
from hilum import UsageError, is_loopback
from hilum.errors import E_BAD_ARGS, ModelError
from hilum.models import Provider

from hilum_models.addresses import format_origin
from hilum_models.api_loading import load_api
from hilum_models.discovery import read_model_names
from hilum_models.failures import is_page
from hilum_models.providers import LIST_TIMEOUT, HttpProvider
from hilum_models.transport import Transport

EXAMPLE = "Enter its base URL, for example http://gpu:8000/v1."
MAX_NAME = 40
ENTERED = "your answer"
"""Where the key of an added server is until it is kept."""
# Ends of paths that people copy together with the base URL.
_COPIED_ENDS = (
    "/chat/completions",
    "/completions",
    "/responses",
    "/messages",
    "/embeddings",
    "/models",
)
# Ends of host names that are not on the public network.
_PRIVATE_ENDS = (".local", ".lan", ".internal", ".home.arpa", ".localhost")
_PATH_HINT = "Check the path of the base URL: for most servers, it ends in /v1."


# --- addresses ------------------------------------------------------------------------------------


def parse_base_url(text: str) -> str:
    """Return the base URL in a text that the user typed or pasted.

    A missing scheme is ``http`` for hosts on this machine or in a private network, and otherwise
    ``https``. A missing path is ``/v1``, where nearly all servers have their API.

    Raises:
        UsageError: The text is not the address of a server, or it contains a password.
    """
    text = text.strip().strip("\"'`<>").strip()
    if not text or not text.isprintable() or " " in text:
        raise _address_error("This is not the address of a server.")
    if "://" not in text:
        text = f"{_guess_scheme(text)}://{text}"
    try:
        parts = urlsplit(text)
        host = parts.hostname
        is_odd = parts.port is None and parts.netloc.endswith(":")
    except ValueError:
        raise _address_error("This is not the address of a server.") from None
    if parts.scheme not in ("http", "https") or not host:
        raise _address_error("The address of a server begins with http:// or https://.")
    if "@" in parts.netloc or parts.query:
        # Addresses are shown and stored in the settings, where a secret must not be.
        message = "The address must not contain a user name, a password or a query."
        raise _address_error(message, "hilum asks for a key if the server requires one.")
    if is_odd:
        raise _address_error("This is not the address of a server.")
    return f"{parts.scheme}://{parts.netloc.lower()}{_clean_path(parts)}"


def _guess_scheme(text: str) -> str:
    try:
        parts = urlsplit(f"http://{text}")
        host = parts.hostname or ""
        port = parts.port
    except ValueError:
        return "http"
    if port == 443:
        return "https"
    is_private = "." not in host or host.endswith(_PRIVATE_ENDS) or _is_ip_address(host)
    return "http" if is_private or port is not None else "https"


def _is_ip_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _clean_path(parts: SplitResult) -> str:
    path = parts.path.rstrip("/")
    for end in _COPIED_ENDS:
        if path.endswith(end):
            path = path.removesuffix(end)
            break
    return path or "/v1"


def _address_error(message: str, hint: str = EXAMPLE) -> UsageError:
    return UsageError(message, code=E_BAD_ARGS, hint=hint)


def make_provider_name(base_url: str, taken: Collection[str]) -> str:
    """Return a new provider's name, which is derived from the host of its server."""
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    if is_loopback(base_url):
        # Several servers often run on this machine.
        host = f"localhost-{parts.port}" if parts.port else "localhost"
    name = re.sub(r"[^a-z0-9]+", "-", host.lower()).strip("-")
    name = name.removeprefix("www-").removeprefix("api-")[:MAX_NAME].strip("-") or "server"
    if name not in taken:
        return name
    number = 2
    while f"{name}-{number}" in taken:
        number += 1
    return f"{name}-{number}"


# --- servers --------------------------------------------------------------------------------------


def make_server(
    base_url: str, key: str, providers: Mapping[str, Provider], transport: Transport
) -> HttpProvider:
    """Return the provider for a server: an existing one at this address, or a new one.

    Args:
        base_url: The base URL, as ``parse_base_url`` returns it.
        key: The key; if it is empty, an existing provider's key is used.
        providers: The existing providers by name.
        transport: The connections.
    """
    for provider in providers.values():
        if isinstance(provider, HttpProvider) and provider.base_url == base_url:
            if not key:
                return provider
            return msgspec.structs.replace(provider, key=key, key_place=ENTERED, key_problem="")
    return HttpProvider(
        make_provider_name(base_url, providers),
        base_url,
        "chat",
        transport,
        key=key,
        key_place=ENTERED if key else "",
        local=is_loopback(base_url),
        given=True,
    )


async def list_server_models(server: HttpProvider) -> list[str]:
    """Return the names of a server's models, or say exactly why there are none.

    Raises:
        ModelError: The server cannot be reached, requires another key, has no list of models at
            this address, or lists no model.
    """
    origin = format_origin(server.base_url)
    url = server.base_url + load_api(server.api).models_path
    endpoint = server.endpoint()
    try:
        document = await server.transport.fetch(url, server.list_headers(), endpoint, LIST_TIMEOUT)
    except ModelError as error:
        raise _explain(error, server, origin, url) from None
    if not document.strip():
        message = f"The server answered {url} with nothing."
        raise ModelError(message, kind="request", hint=_PATH_HINT)
    if is_page(document):
        message = f"There is a web page at {url}, not the API of a model server."
        raise ModelError(message, kind="request", hint=_PATH_HINT)
    names = read_model_names(document)
    if names is None:
        message = f"The server did not answer {url} with a list of models."
        raise ModelError(message, kind="request", hint=_PATH_HINT)
    if not names:
        message = f"The server at {origin} lists no model for conversations."
        raise ModelError(message, kind="request", hint="Load a model in it, and try again.")
    return names


def _explain(error: ModelError, server: HttpProvider, origin: str, url: str) -> ModelError:
    """Return an error that says what the user can do about it."""
    if error.status in (401, 403):
        problem = "rejected the key" if server.key else "requires a key"
        message = f"The server at {origin} {problem} (it answered {error.status})."
        return ModelError(
            message, kind="auth", status=error.status, hint="Enter a key that it accepts."
        )
    if error.status in (404, 405):
        message = f"There is no list of models at {url} (the server answered {error.status})."
        return ModelError(message, kind="request", status=error.status, hint=_PATH_HINT)
    return error
