"""What the setting ``postgres.url`` says, checked without ever showing a part of a password.

A password with an unencoded ``@``, ``/`` or ``#`` is not read as one: libpq takes a part of it for a
host, a port or the name of a database, and quotes it in its errors. Such URLs are refused before libpq
connects, and no message quotes the URL.
"""

from __future__ import annotations

import difflib
import os
import re
from typing import Any

import psycopg
from hilum import StoreError
from psycopg import conninfo, pq

PREFIXES = ("postgresql://", "postgres://")
HINT_FORM = "Write it as postgresql://USER@HOST:PORT/NAME."
HINT_ENCODE = (
    "Percent-encode special characters in the user and the password, such as @ as %40, / as %2F and"
    " # as %23, or keep the password in ~/.pgpass."
)
_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_KEYS = re.compile(r"(?:^|\s)(\w+)\s*=")
_PORTS = re.compile(r"[0-9,]*")


def read_options(url: str) -> dict[str, Any]:
    """Return the options of a URL, or of another form that libpq reads.

    Raises:
        StoreError: The URL is wrong, or a part of a password would be read as something else.
    """
    if not url.strip():
        raise _error("is blank", HINT_FORM)
    is_url = url.startswith(PREFIXES)
    if is_url:
        _check_url(url)
    try:
        options = conninfo.conninfo_to_dict(url)
    except psycopg.Error:
        if not is_url:
            for key in _KEYS.findall(url):
                _check_key(key)
        # The driver's message may quote the URL, which may contain a password.
        raise _error("is not a URL of a PostgreSQL database", HINT_FORM) from None
    if not _PORTS.fullmatch(str(options.get("port") or "")):
        raise _error("has a port that is not a number", f"{HINT_FORM} {HINT_ENCODE}")
    return options


def describe_database(options: dict[str, Any]) -> str:
    """Return the name and the host of a database, for messages."""
    host = str(options.get("host") or options.get("hostaddr") or os.environ.get("PGHOST", ""))
    name = str(options.get("dbname") or os.environ.get("PGDATABASE") or options.get("user") or "")
    described = "the database"
    if name and _is_plain(name):
        described += f" {name}"
    if host.startswith("/"):
        return f"{described} on a local socket"
    if _is_plain(host):
        return f"{described} on {host or 'localhost'}"
    return described


def _is_plain(text: str) -> bool:
    return "@" not in text and "/" not in text


def _check_url(url: str) -> None:
    rest = url.partition("://")[2]
    path = rest.partition("/")[2]
    if rest.count("@") > 1 or "@" in path:
        raise _error("has an unencoded character in the user or the password", HINT_ENCODE)
    if any(character.isspace() for character in url.strip()):
        raise _error("contains a space", "Write a space as %20. " + HINT_ENCODE)
    if _BAD_PERCENT.search(url):
        raise _error(
            "has a % that is not followed by two hexadecimal digits", "Write a % itself as %25."
        )
    # In a password, libpq reads a question mark as part of it.
    query = rest.rpartition("@")[2].partition("?")[2]
    for part in filter(None, query.split("&")):
        _check_parameter(part)


def _check_parameter(part: str) -> None:
    key, _, value = part.partition("=")
    if "=" in value:
        raise _error(
            "has an option whose value contains =",
            "Write = in a value as %3D, such as options=-c%20work_mem%3D8MB.",
        )
    _check_key(key)


def _check_key(key: str) -> None:
    known = [each.keyword.decode() for each in pq.Conninfo.get_defaults()]
    known += ["ssl"]  # the spelling of JDBC
    if key in known:
        return
    # What is there may be a part of a password, so it is not shown.
    close = difflib.get_close_matches(key, known, 1)
    guess = f"Did you mean {close[0]}? " if close else ""
    raise _error(
        "has an option that libpq does not know",
        f"{guess}The options are those of libpq, such as sslmode and connect_timeout.",
    )


def _error(problem: str, hint: str) -> StoreError:
    return StoreError(f"The setting postgres.url {problem}.", hint=hint)
