"""Writes ``rules.lock``, where hilum-rules reads what users have decided about sentences."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

import attrs
import msgspec
from hilum import StoreError, Workspace
from hilum.errors import HilumError
from hilum_rules.hidden_characters import escape_name
from hilum_rules.lock_file import TABLE, Entry, LockFile
from hilum_rules.rule import Rule, RulesFile
from hilum_rules.signed_rules import Locks, Signer, hash_rule

from hilum_rules_compile.atomic_files import replace_file

MAX_REASON = 400
"""Maximum length of the reason why a sentence stays advice."""
_HEAD = """\
# Checks for sentences of rules files, and sentences that stay advice. `hilum rules compile` writes
# this file when somebody signs. hilum reports entries that were changed in any other way.
"""


def make_entry(rule: Rule, file: str, enforce: Iterable[str] = (), advice: str = "") -> Entry:
    """Return the entry for a decision about a rule.

    Args:
        rule: The rule.
        file: The name of its file in the lock.
        enforce: The signed checks.
        advice: Why the rule stays advice.
    """
    # The reason may come from a model: one line of visible characters of a limited length.
    reason = escape_name(" ".join(advice.split()))[:MAX_REASON]
    return Entry(file, rule.section, rule.sentence, hash_rule(rule), tuple(enforce), reason)


def find_stale(files: Iterable[RulesFile], locks: Locks, lock: LockFile) -> list[Entry]:
    """Return the entries of a lock whose sentences are not in their files any more.

    Args:
        files: The rules files.
        locks: The locks.
        lock: One of them.
    """
    signer = Signer(locks)
    for file in files:
        signer.sign_file(file)
    return [entry for entry in lock.entries if signer.is_stale(entry)]


def replace_entries(lock: LockFile, new: Iterable[Entry], stale: Iterable[Entry] = ()) -> LockFile:
    """Return a lock with new entries, which replace those for the same sentences.

    Args:
        lock: The lock.
        new: The entries to add.
        stale: Entries to remove.
    """
    signed = {_key(entry): entry.sign() for entry in new}
    gone = set(stale)
    # A merge may leave two entries for one sentence: both are kept, because both restrict.
    kept = [each for each in lock.entries if _key(each) not in signed and each not in gone]
    return attrs.evolve(lock, entries=(*kept, *signed.values()))


def _key(entry: Entry) -> tuple[str, str]:
    return entry.file, entry.hash


def format_lock(entries: Iterable[Entry]) -> str:
    """Return the text of a lock, which depends only on the entries and not on their order."""
    parts = [_HEAD]
    for entry in sorted(entries, key=_order):
        lines = ["", TABLE, f"file = {_quote(entry.file)}"]
        if entry.section:
            lines.append(f"section = {_quote(entry.section)}")
        lines.append(f"sentence = {_quote(entry.sentence)}")
        if entry.enforce:
            lines += ["enforce = [", *(f"  {_quote(line)}," for line in entry.enforce), "]"]
        else:
            lines.append(f"advice = {_quote(entry.advice)}")
        lines += [f"hash = {_quote(entry.hash)}", f"checksum = {_quote(entry.checksum)}", ""]
        parts.append("\n".join(lines))
    return "".join(parts)


def _order(entry: Entry) -> tuple[object, ...]:
    # All fields count, because a merge may leave two entries for one sentence.
    return (
        entry.file,
        entry.sentence,
        *msgspec.structs.astuple(msgspec.structs.replace(entry, line=0)),
    )


def _quote(text: str) -> str:
    # A TOML basic string has the escapes of JSON, but DEL must be escaped as well.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def write_lock(lock: LockFile, top: Path) -> None:
    """Write a lock atomically. Blocks.

    Args:
        lock: The lock.
        top: The folder that the file must not leave through links.

    Raises:
        StoreError: The file cannot be written.
    """
    try:
        lock.path.parent.mkdir(parents=True, exist_ok=True)
        # A link in a cloned project must not make hilum write outside the project.
        if not Workspace(top).resolve(lock.path).is_relative_to(os.path.realpath(top)):
            raise OSError("it is a link that leads out of the folder")
        # A lock is committed like other files of the project.
        replace_file(lock.path, format_lock(lock.entries).encode(), 0o644)
    except (OSError, HilumError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise StoreError(
            f"{lock.shown} cannot be written: {reason}.",
            hint="Nothing was signed. Check the permissions of the folder.",
        ) from None
