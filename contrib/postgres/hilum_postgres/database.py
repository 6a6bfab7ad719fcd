"""Connections to the database, and what its errors mean for the user. All functions may block."""

from __future__ import annotations

import os
import socket
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from hilum import StoreError
from hilum.store import LeaseHolder, SessionBusy
from psycopg.pq import TransactionStatus

from hilum_postgres import schema
from hilum_postgres.connection_options import describe_database, read_options

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]

CONNECT_TIMEOUT = 3  # seconds
# A connection whose other end is gone is given up after about this time.
TCP_TIMEOUT = 10_000  # milliseconds
STATEMENT_TIMEOUT = 30_000  # milliseconds
OLDEST_SERVER = 140_000
# What libpq does to a connection; the URL takes precedence.
DEFAULTS = {
    "connect_timeout": CONNECT_TIMEOUT,
    "application_name": "hilum",
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": TCP_TIMEOUT,
}
# What the server does: a client whose machine is gone loses its locks after half a minute, and not
# after hours.
SERVER_OPTIONS = f"""
SET search_path = hilum;
SET statement_timeout = {STATEMENT_TIMEOUT};
SET tcp_keepalives_idle = 10;
SET tcp_keepalives_interval = 5;
SET tcp_keepalives_count = 3;
SET tcp_user_timeout = {TCP_TIMEOUT};
"""
HINT_AWAY = "Check the database and the network; `postgres.url` names the database."
HINT_TABLES = (
    "Another program made them, or they were changed or restored in part. Restore the whole schema from"
    " a backup, or use another database."
)
_OTHER_TABLES = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedObject,
    psycopg.errors.WrongObjectType,
    psycopg.errors.DatatypeMismatch,
    psycopg.errors.DuplicateTable,
    psycopg.errors.NotNullViolation,
    psycopg.errors.InvalidColumnReference,
)
_HINT_PASSWORD = (
    "Check the user in `postgres.url`, and the password in ~/.pgpass, PGPASSWORD or `postgres.url`."
)
# What servers answer before there is a session, which has no code that the driver passes on.
_REFUSALS = (
    ("password authentication failed", _HINT_PASSWORD),
    ("no password supplied", _HINT_PASSWORD),
    (" does not exist", "Correct the name in `postgres.url`, or have it created on the server."),
    ("pg_hba.conf", "The server must allow this user, database and address in its pg_hba.conf."),
    ("certificate", "Check `sslmode` and `sslrootcert` in `postgres.url`."),
)


class Database:
    """A database, and the connection for everything but leases and appends.

    Args:
        url: Its URL.

    Attributes:
        name: Host, port and name of the database, for messages.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._shared_connection: Connection | None = None
        self._is_checked = False
        given = read_options(url)
        self._password = str(given.pop("password", "") or os.environ.get("PGPASSWORD", ""))
        self.name = describe_database(given)
        self._options = {key: value for key, value in DEFAULTS.items() if key not in given}

    @property
    def _subject(self) -> str:
        return self.name[:1].upper() + self.name[1:]

    def connect(self) -> Connection:
        """Open a connection, and create or update the tables if necessary.

        Raises:
            psycopg.Error: The database cannot be reached or used.
            StoreError: The database cannot be used by this version.
        """
        connection = psycopg.connect(self._url, autocommit=True, **self._options)  # type: ignore[arg-type]
        try:
            _connections.add(connection)
            self._set_up(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def check(self) -> str:
        """Return a sentence about the database, which is not changed.

        Raises:
            StoreError: The database cannot be used.
        """
        try:
            connection = psycopg.connect(self._url, autocommit=True, **self._options)  # type: ignore[arg-type]
            try:
                self._check_server(connection)
                version = self._read_version(connection)
                if not version and not _fetch(connection, schema.MAY_CREATE):
                    raise StoreError(
                        f"hilum may not create its tables in {self.name}.",
                        hint="Give the user the right to create the schema `hilum`.",
                    )
                if version:
                    _fetch(connection, schema.READ_ALL_TABLES)
            finally:
                connection.close()
        except psycopg.Error as error:
            raise self.explain(error) from None
        return f"are in {self.name}" + ("" if version else ", which has no tables of hilum yet")

    def _set_up(self, connection: Connection) -> None:
        self._check_server(connection)
        connection.execute(SERVER_OPTIONS)
        with suppress(psycopg.errors.InvalidParameterValue):  # not on each server's system
            connection.execute("SET client_connection_check_interval = 5000")
        if not self._is_checked:
            self._update_tables(connection)
            self._is_checked = True

    def _check_server(self, connection: Connection) -> None:
        if connection.info.server_version < OLDEST_SERVER:
            raise StoreError(
                f"{self._subject} is PostgreSQL {connection.info.server_version // 10_000},"
                " which is too old.",
                hint="Use PostgreSQL 14 or newer.",
            )

    def _update_tables(self, connection: Connection) -> None:
        if self._read_version(connection) == schema.VERSION:
            return
        with connection.transaction():
            connection.execute(schema.LOCK_TABLES)
            connection.execute(schema.CREATE_VERSIONS)
            # Another process may have done it meanwhile.
            version = _fetch(connection, schema.READ_VERSION) or 0
            for number, statements in enumerate(schema.MIGRATIONS[version:], version + 1):
                try:
                    connection.execute(statements.encode())
                except psycopg.errors.DuplicateTable as error:
                    raise StoreError(
                        f"The schema `hilum` of {self.name} already has tables, but its table"
                        f" `versions` does not say of which format: {error.diag.message_primary}.",
                        hint=HINT_TABLES,
                    ) from None
                connection.execute("INSERT INTO versions (version) VALUES (%s)", (number,))

    def _read_version(self, connection: Connection) -> int:
        """Return the format of the tables; 0 if there are none.

        Raises:
            StoreError: A newer hilum made them.
        """
        if not _fetch(connection, schema.FIND_VERSIONS):
            return 0
        version: int = _fetch(connection, schema.READ_VERSION) or 0
        if version > schema.VERSION:
            raise StoreError(
                f"{self._subject} was set up by a newer hilum (format {version}, this"
                f" one knows {schema.VERSION}).",
                hint="Update hilum.",
            )
        return version

    def run(self, work: Callable[[Connection], T]) -> T:
        """Do work that may be repeated, on the connection that all threads share.

        If the connection turns out to be lost, the work is done again on a new one.

        Raises:
            StoreError: The database cannot be reached or used.
        """
        with self._lock:
            for attempt in (1, 2):
                connection = self._shared_connection
                is_new = connection is None
                try:
                    if connection is None:
                        connection = self._shared_connection = self.connect()
                    return work(connection)
                except psycopg.Error as error:
                    if connection is not None and is_lost(error, connection):
                        self._close_shared()
                        if not is_new and attempt == 1:
                            continue
                    raise self.explain(error) from None
                except BaseException:
                    # An interrupt may leave the connection in the middle of a command.
                    if connection is not None and not _is_idle(connection):
                        self._close_shared()
                    raise
        raise AssertionError

    def close(self) -> None:
        """Close the shared connection."""
        with self._lock:
            self._close_shared()

    def _close_shared(self) -> None:
        if self._shared_connection is not None:
            self._shared_connection.close()
        self._shared_connection = None

    def explain(self, error: psycopg.Error) -> StoreError:
        """Return the error to raise for an error of the driver. It never contains the password."""
        text = " ".join(str(error).split())
        if text and text[-1] not in ".?!":
            text += "."
        if self._password:
            text = text.replace(self._password, "…")
        if isinstance(error, psycopg.errors.InsufficientPrivilege):
            return StoreError(
                f"hilum may not use {self.name}: {text}",
                hint="Give the user the right to create the schema `hilum`, or to use it.",
            )
        if isinstance(error, psycopg.errors.DiskFull):
            return StoreError(
                f"There is no space left for {self.name}; nothing was written.",
                hint="Free some space there. What was written before is safe.",
            )
        if isinstance(error, _OTHER_TABLES):
            return StoreError(
                f"The tables in the schema `hilum` of {self.name} are not those of hilum: {text}",
                hint=HINT_TABLES,
            )
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            for sign, hint in _REFUSALS:
                if sign in text:
                    return StoreError(f"{self._subject} refuses hilum: {text}", hint=hint)
            return StoreError(f"hilum cannot reach {self.name}: {text}", hint=HINT_AWAY)
        return StoreError(f"{self._subject} failed: {text}", hint=HINT_AWAY)


def _fetch(connection: Connection, statement: str) -> Any:
    row = connection.execute(statement.encode()).fetchone()
    return row[0] if row else None


def _is_idle(connection: Connection) -> bool:
    return connection.pgconn.transaction_status == TransactionStatus.IDLE


def is_lost(error: BaseException, connection: Connection) -> bool:
    """Return whether a statement may succeed on another connection."""
    if connection.closed or connection.broken:
        return True
    return isinstance(
        error,
        psycopg.OperationalError
        | psycopg.InterfaceError
        | psycopg.errors.ReadOnlySqlTransaction
        | psycopg.errors.DuplicatePreparedStatement
        | psycopg.errors.InvalidSqlStatementName,
    )


def session_busy_error(session: str, holder: tuple[Any, ...] | None) -> SessionBusy:
    """Return the error for a session to which a process is writing.

    Args:
        session: Its id.
        holder: Id, host and process of the holder, the seconds since its last sign of life, and
            what it announced.
    """
    known: LeaseHolder | None = None
    if holder is None or holder[1] is None:
        who = "by another process"
    elif holder[1:3] == (socket.gethostname(), os.getpid()):
        who = f"in this process ({os.getpid()})"
    else:
        who = f"by process {holder[2]} on {holder[1]}"
        known = LeaseHolder(host=holder[1], pid=holder[2], address=holder[4])
    return SessionBusy(
        f"Session {session} is in use {who}.",
        hint="Close the session there first, or fork it.",
        holder=known,
    )


def is_dead(pid: int) -> bool:
    """Return whether a process of this machine has certainly ended."""
    if sys.platform == "win32":
        return False  # there, signal 0 would end the process
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False  # macOS has no such folder
    return state == "Z"


_connections: weakref.WeakSet[Connection] = weakref.WeakSet()


def _after_fork() -> None:
    # A forked child shares the sockets. When it ends, the driver would say goodbye to the server on
    # them, and the parent would lose its leases: in the child they lead nowhere.
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_RDWR)
        for connection in list(_connections):
            with suppress(psycopg.Error, OSError):
                os.dup2(nowhere, connection.fileno())
        os.close(nowhere)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
