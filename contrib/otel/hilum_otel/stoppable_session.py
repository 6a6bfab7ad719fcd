"""The HTTP client of the exporters, whose requests end when it is closed.

The SDK cannot end a request: its threads would wait for an endpoint that does not answer, long after
the session that they belong to was closed.
"""

from __future__ import annotations

import socket
import ssl
import sys
import threading
import weakref
from contextlib import suppress
from functools import partial
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError


class StoppableSession(requests.Session):
    """A session of requests; ``close`` also ends the requests of other threads.

    Only a name that is being resolved cannot be interrupted.

    Attributes:
        failure: Why the last request failed, as a sentence; empty if it succeeded.
    """

    def __init__(self) -> None:
        super().__init__()
        self.failure = ""
        self._sockets = _Sockets()
        for prefix in ("http://", "https://"):
            self.mount(prefix, _Adapter(self._sockets))

    def request(self, *arguments: Any, **options: Any) -> requests.Response:
        """Send a request, and keep why it failed."""
        # Otherwise REQUESTS_CA_BUNDLE would override the certificate that the exporter has set.
        options.setdefault("verify", self.verify)
        try:
            response = super().request(*arguments, **options)
        except requests.RequestException as error:
            self.failure = _explain(error)
            raise
        self.failure = ""
        if not response.ok:
            self.failure = f"The endpoint answered {response.status_code} {response.reason}."
        return response

    def close(self) -> None:
        """End all requests and connections. Further requests fail immediately."""
        self._sockets.shut_down()
        super().close()


def _explain(error: requests.RequestException) -> str:
    """Return why a request failed, as a sentence for the user."""
    if isinstance(error, requests.Timeout):
        return "The endpoint does not answer."
    cause = _find_cause(error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"The endpoint's certificate is not trusted: {cause.verify_message}."
    if isinstance(cause, ssl.SSLError):
        return f"The endpoint does not speak TLS: {cause.reason}."
    if isinstance(cause, OSError) and cause.strerror:
        return f"The endpoint cannot be reached: {cause.strerror}."
    return f"The endpoint cannot be reached: {cause}."


def _find_cause(error: BaseException) -> BaseException:
    """Return the innermost exception; requests and urllib3 wrap them in several ways."""
    candidates = (getattr(error, "reason", None), error.__cause__, *error.args)
    for inner in candidates:
        if isinstance(inner, BaseException):
            return _find_cause(inner)
    return error


class _Sockets:
    """Second handles of the sockets that are in use.

    A TLS socket replaces the socket that it wraps, so the first handle does not last.
    """

    def __init__(self) -> None:
        # The garbage collector may remove a handle while the same thread adds another.
        self._lock = threading.RLock()
        # Each with the directions that are shut down at the end.
        self._handles: dict[socket.socket, int] = {}
        self._is_shut_down = False

    def add(self, sock: socket.socket, directions: int) -> socket.socket:
        """Return a handle of a socket, which will end with the session.

        Args:
            directions: Which directions will be shut down, such as ``socket.SHUT_RDWR``.

        Raises:
            OSError: The session is closed.
        """
        with self._lock:
            if self._is_shut_down:
                raise ConnectionAbortedError("The exporter was shut down.")
            handle = sock.dup()
            self._handles[handle] = directions
        return handle

    def set_directions(self, handle: socket.socket, directions: int) -> None:
        """Change which directions will be shut down."""
        with self._lock:
            self._handles[handle] = directions
            if self._is_shut_down:
                _shut_down(handle, directions)

    def remove(self, handle: socket.socket) -> None:
        """Close a handle."""
        with self._lock:
            self._handles.pop(handle, None)
            handle.close()

    def shut_down(self) -> None:
        """End what other threads do with the sockets, and refuse new ones."""
        with self._lock:
            self._is_shut_down = True
            for handle, directions in list(self._handles.items()):
                _shut_down(handle, directions)


def _shut_down(handle: socket.socket, directions: int) -> None:
    # A connection that the peer has ended needs nothing.
    with suppress(OSError):
        handle.shutdown(directions)


class _Connection(HTTPConnection):
    """A connection whose socket is known to the session even while it connects."""

    _first_directions = socket.SHUT_RDWR

    def __init__(self, *args: Any, sockets: _Sockets, **options: Any) -> None:
        super().__init__(*args, **options)
        self._sockets = sockets
        self._release: weakref.finalize[..., Any] | None = None

    def _new_conn(self) -> socket.socket:
        # This is the method of urllib3, which SOCKS connections replace, too. The original creates
        # the socket and connects it in one step.
        try:
            host = self._dns_host.strip("[]")  # an IPv6 address has brackets
            found = socket.getaddrinfo(host, self.port, type=socket.SOCK_STREAM)
        except socket.gaierror as error:
            raise NameResolutionError(self.host, self, error) from error
        failure = OSError("The name has no address.")
        for family, kind, protocol, _, address in found:
            try:
                sock = self._connect(socket.socket(family, kind, protocol), address)
            except OSError as error:
                failure = error
            else:
                sys.audit("http.client.connect", self, self.host, self.port)
                return sock
        if isinstance(failure, TimeoutError):
            raise ConnectTimeoutError(self, f"Connection to {self.host} timed out.") from failure
        problem = f"Failed to establish a new connection: {failure}"
        raise NewConnectionError(self, problem) from failure

    def _connect(self, sock: socket.socket, address: Any) -> socket.socket:
        # The handle of the last connection is kept until now: http.client "closes" a connection
        # before it reads a response after which the server closes it.
        if self._release is not None:
            self._release()
        try:
            handle = self._sockets.add(sock, self._first_directions)
            self._release = weakref.finalize(self, self._sockets.remove, handle)
            self._handle = handle
            for option in self.socket_options or ():
                sock.setsockopt(*option)
            sock.settimeout(self.timeout)
            sock.connect(address)
        except OSError:
            sock.close()
            raise
        return sock


class _SecureConnection(_Connection, HTTPSConnection):
    """A connection with TLS."""

    # Before the handshake, the end of what is read ends it. A server could answer the end of what is
    # written with a reset, after which Python's ``wrap_socket`` leaves a socket open.
    _first_directions = socket.SHUT_RD

    def connect(self) -> None:
        """Connect, with the handshake."""
        super().connect()
        self._sockets.set_directions(self._handle, socket.SHUT_RDWR)


class _Adapter(HTTPAdapter):
    """Makes the pools of connections create those of this module."""

    def __init__(self, sockets: _Sockets) -> None:
        self._sockets = sockets
        super().__init__()

    def get_connection_with_tls_context(self, *args: Any, **options: Any) -> HTTPConnectionPool:
        pool = super().get_connection_with_tls_context(*args, **options)
        # A proxy's pool is the same, except that of a SOCKS proxy, which stays as it is.
        if pool.ConnectionCls is HTTPConnection:
            pool.ConnectionCls = partial(_Connection, sockets=self._sockets)  # type: ignore[assignment]
        elif pool.ConnectionCls is HTTPSConnection:
            pool.ConnectionCls = partial(_SecureConnection, sockets=self._sockets)  # type: ignore[assignment]
        return pool
