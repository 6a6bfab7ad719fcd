"""Remembers what this user has signed, so that hilum notices when a lock has lost it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from hilum_rules.lock_file import LOST, Entry, LockFile
from hilum_rules.project_data import SIGNED, data_file, read_data, write_data
from hilum_rules.rule import Problem, RulesFile
from hilum_rules.signed_rules import Locks, hash_rule

MAX_KEPT = 5_000
"""Maximum number of remembered signatures in each lock; the newest are kept."""


def remember(top: Path, entries: Iterable[Entry]) -> None:
    """Remember the decisions that a user has just signed in a lock. Blocks.

    Args:
        top: The folder of the lock's rules.
        entries: The decisions; one for advice makes hilum forget the check that it withdraws.
    """
    signed = _read(top)
    for entry in entries:
        key = _make_key(entry.file, entry.hash)
        signed.pop(key, None)
        if entry.enforce:
            signed[key] = entry.enforce
    kept = dict(list(signed.items())[-MAX_KEPT:])
    write_data(data_file(top, SIGNED), msgspec.json.encode(kept))


def find_lost(files: Iterable[RulesFile], locks: Locks) -> Iterator[Problem]:
    """Yield the checks that this user has signed and that are not in the locks any more. Blocks.

    A lock with mistakes is left out, because each mistake is a problem of its own.

    Args:
        files: The rules files, with the decisions in the locks.
        locks: The locks.
    """
    paths = locks.paths
    for lock, top, is_project in (
        (locks.project, paths.top, True),
        (locks.user, paths.config, False),
    ):
        signed = {} if lock.mistakes else _read(top)
        if signed:
            of_lock = [file for file in files if (file.origin == "project") is is_project]
            yield from _find_lost_in(of_lock, locks, lock, signed)


def _find_lost_in(
    files: Collection[RulesFile], locks: Locks, lock: LockFile, signed: Mapping[str, Sequence[str]]
) -> Iterator[Problem]:
    # An entry that was edited by hand is in the lock, and is reported as such.
    present = {(entry.file, entry.sentence) for entry in lock.entries}
    for file in files:
        for rule in file.rules:
            name = locks.name_file(rule.path, file.origin)
            checks = signed.get(_make_key(name, hash_rule(rule)))
            if checks and not rule.is_decided and (name, rule.sentence) not in present:
                message = (
                    f"{LOST} {rule.path}:{rule.line} is not in this file any"
                    f" more: {'; '.join(checks)}. Restore the file, for example with Git, or sign"
                    " again with `hilum rules compile`."
                )
                yield Problem(lock.shown, 0, message)


def _make_key(file: str, digest: str) -> str:
    return f"{digest} {file}"


def _read(top: Path) -> dict[str, tuple[str, ...]]:
    try:
        data = read_data(data_file(top, SIGNED)) or b"{}"
        return msgspec.json.decode(data, type=dict[str, tuple[str, ...]])
    except ValueError:
        return {}
