"""Converts connection, proxy and certificate failures into ``ModelError``.

httpx's own messages are often empty, and never suggest what to do.
"""

from __future__ import annotations

import ssl
import zlib

import httpx
from hilum import find_proxy, is_loopback
from hilum.errors import ModelError

from hilum_models.addresses import format_origin
from hilum_models.failures import Endpoint, clean_message

CONNECT_TIMEOUT = 10.0  # seconds
_NETWORK_HINT = "Check the network, the proxy and the base URL."
# OpenSSL reports one of these errors when the server responds without TLS.
_PLAIN_HTTP = ("wrong version number", "record layer failure", "http request")


def connection_error(error: Exception, endpoint: Endpoint, url: str) -> ModelError:
    """Return the error for an exception from httpx, the operating system or decompression."""
    server = f"{endpoint.provider} at {format_origin(url)}"
    text = str(error) or type(error).__name__
    reason = clean_message(text, endpoint).rstrip(".")
    tls_error = _find_tls_error(error)
    if isinstance(error, ImportError):
        return _missing_package(server, reason, url)
    if isinstance(error, OSError):
        problem = error.strerror or reason
        return ModelError(
            f"The certificates for checking {server} cannot be loaded: {problem}.",
            kind="request",
            hint="Check SSL_CERT_FILE and SSL_CERT_DIR.",
        )
    if isinstance(tls_error, ssl.SSLCertVerificationError):
        return _certificate_error(tls_error, server)
    if tls_error is not None:
        return _tls_error(tls_error, server, url)
    if isinstance(error, httpx.LocalProtocolError | UnicodeError):
        return _header_error(server, endpoint)
    return _transport_error(error, server, reason, url)


def _transport_error(error: Exception, server: str, reason: str, url: str) -> ModelError:
    if isinstance(error, httpx.ConnectTimeout):
        message = f"{server} did not accept a connection within {CONNECT_TIMEOUT:g} s."
        return ModelError(message, kind="connect", hint=_NETWORK_HINT)
    if isinstance(error, httpx.ConnectError | httpx.ProxyError):
        hint = _NETWORK_HINT
        if is_loopback(url):
            hint = "Is the server running?"
        return ModelError(f"{server} cannot be reached: {reason}.", kind="connect", hint=hint)
    if isinstance(error, httpx.TimeoutException):
        return ModelError(f"{server} did not respond in time.", kind="timeout")
    if isinstance(error, httpx.UnsupportedProtocol):
        return _address_error(server, reason)
    if isinstance(error, httpx.TransportError | httpx.StreamError | zlib.error):
        return ModelError(f"The connection to {server} was lost: {reason}.", kind="broken")
    return _address_error(server, reason)


def _address_error(server: str, reason: str) -> ModelError:
    hint = "Check the base URL: it must begin with http:// or https://."
    return ModelError(
        f"The request to {server} cannot be sent: {reason}.", kind="request", hint=hint
    )


def _missing_package(server: str, reason: str, url: str) -> ModelError:
    # Of the features that hilum uses, only SOCKS proxies require an additional package in httpx.
    proxy = format_origin(find_proxy(url))
    return ModelError(
        f"{server} cannot be reached through the proxy {proxy}: {reason}.",
        kind="request",
        hint="Install httpx[socks] in hilum's environment, or unset ALL_PROXY.",
    )


def _header_error(server: str, endpoint: Endpoint) -> ModelError:
    # The original message may quote the header, and with it the key.
    hint = ""
    if endpoint.key_env:
        hint = f"Look for line breaks and unusual characters in {endpoint.key_env}."
    message = f"The request to {server} cannot be sent: a header has an invalid value."
    return ModelError(message, kind="request", hint=hint)


# --- TLS: a retry would not help ------------------------------------------------------------------


def _find_tls_error(error: BaseException) -> ssl.SSLError | None:
    """Return the TLS error that caused an httpx error, whose own text is only a type name."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return cause
        cause = cause.__cause__ or cause.__context__
    return None


def _tls_error(error: ssl.SSLError, server: str, url: str) -> ModelError:
    reason = (error.reason or str(error)).replace("_", " ").lower()
    if any(phrase in reason for phrase in _PLAIN_HTTP):
        address = format_origin(url)
        hint = f"The server seems to use plain HTTP: use http:// instead of https:// ({address})."
    else:
        hint = "Check the base URL and any proxies that inspect TLS."
    message = f"{server} cannot be reached over TLS: {reason}."
    return ModelError(message, kind="request", hint=hint)


def _certificate_error(error: ssl.SSLCertVerificationError, server: str) -> ModelError:
    reason = error.verify_message.rstrip(".")
    if "expired" in reason or "not yet valid" in reason:
        hint = "Check this machine's clock; if it is right, the server needs a new certificate."
    elif "mismatch" in reason.lower() or "not valid for" in reason:
        hint = "The certificate is for another name: check the host in the base URL."
    else:
        hint = "If you trust the server, set SSL_CERT_FILE to a file with its CA certificate."
    message = f"The certificate of {server} is not accepted: {reason}."
    return ModelError(message, kind="request", hint=hint)
