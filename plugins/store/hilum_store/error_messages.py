"""Converts SQLite errors into user messages: what happened to which file, and what to do."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from hilum import StoreError, errors
from hilum.store import UnreadableLog

_NOT_UTF8 = "Could not decode to UTF-8"
OTHER_FILE = "or set store.path to another file"


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether an SQLite error means that the file is damaged, or is no SQLite file."""
    primary = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return primary in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)


def explain_error(error: sqlite3.Error, path: Path) -> StoreError:
    """Return the error to raise for an SQLite error.

    Args:
        error: The SQLite error.
        path: The database file.
    """
    # The low byte is the primary result code; extended codes add details above it.
    primary = getattr(error, "sqlite_errorcode", 0) & 0xFF
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    if primary == sqlite3.SQLITE_NOTADB:
        return foreign_file_error(path, "it is not an SQLite file")
    # Python's own error for a text with damaged bytes has no result code.
    if primary == sqlite3.SQLITE_CORRUPT or _NOT_UTF8 in str(error):
        return damaged_file_error(path, str(error))
    if primary == sqlite3.SQLITE_FULL:
        return StoreError(
            f"There is no space left for the session file {path}; nothing was written.",
            hint="Free some space on that disk and try again; what was written before is safe.",
        )
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreError(
            f"Another program keeps the session file {path} locked.",
            code=errors.E_BUSY,
            hint=(
                "Close the program that has it open (a database browser, a backup), then try again."
            ),
        )
    if primary in (
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_AUTH,
    ):
        return unusable_file_error(path, str(error))
    if primary == sqlite3.SQLITE_IOERR:
        return StoreError(
            f"The session file {path} could not be read or written ({name}); nothing was written.",
            hint=(
                "Check that the disk is available and has free space, and that no quota is exceeded,"
                " then try again."
            ),
        )
    return StoreError(
        f"The session file {path} failed: {error} ({name}).", hint=f"Try again, {OTHER_FILE}."
    )


def foreign_file_error(path: Path, why: str) -> StoreError:
    """Return the error for a file that belongs to another program."""
    return StoreError(
        f"{path} is not a hilum session file: {why}.",
        hint=f"It was not changed. Move it away, {OTHER_FILE}.",
    )


def damaged_file_error(path: Path, why: str) -> StoreError:
    """Return the error for a damaged session file."""
    return UnreadableLog(
        f"The session file {path} is damaged: {why}.",
        hint=(
            f"It was not changed. Move it away together with {path.name}-wal and begin a new one,"
            f" {OTHER_FILE}; what can still be read is saved by: sqlite3 {path.name} .recover"
        ),
    )


def unusable_file_error(path: Path, why: str) -> StoreError:
    """Return the error for a file or folder that cannot be used."""
    return StoreError(
        f"The session file {path} cannot be used: {why}.",
        hint=f"Make the file and its folder readable and writable for you, {OTHER_FILE}.",
    )
