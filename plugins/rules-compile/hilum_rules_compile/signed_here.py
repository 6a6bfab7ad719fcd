"""Remembers what this user has signed, so that hilum notices when a lock has lost it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from hilum_rules.rule import LockChange

from hilum_rules_compile.project_data import data_file, read_data, write_data

if TYPE_CHECKING:
    from hilum_rules.lock_file import Entry, LockFile
    from hilum_rules.rule import RulesFile
    from hilum_rules.rule_store import RuleStore
    from hilum_rules.signed_rules import Locks

FILE = "signed.json"
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
    write_data(data_file(top, FILE), msgspec.json.encode(kept))


def find_lost(store: RuleStore) -> Iterator[LockChange]:
    """Yield the checks that this user has signed and that are not in the locks any more. Blocks.

    A lock with mistakes is left out, because each mistake is a problem of its own.

    Args:
        store: The rules.
    """
    paths = store.paths
    tops = (paths.top, paths.config)
    # Most users have signed nothing, and need no look at the locks, whose modules take a while.
    if not any(data_file(top, FILE).exists() for top in tops):
        return
    from hilum_rules.signed_rules import Locks

    locks = store.locks or Locks.read(paths)
    for lock, top in zip((locks.project, locks.user), tops, strict=True):
        signed = {} if lock.mistakes else _read(top)
        if signed:
            files = [file for file in store.loaded if locks.of(file.origin) is lock]
            yield from _find_lost_in(files, locks, lock, signed)


def _find_lost_in(
    files: Iterable[RulesFile], locks: Locks, lock: LockFile, signed: Mapping[str, Sequence[str]]
) -> Iterator[LockChange]:
    from hilum_rules.signed_rules import hash_rule

    # An entry that was edited by hand is in the lock, and is reported as such.
    present = {(entry.file, entry.sentence) for entry in lock.entries}
    for file in files:
        for rule in file.rules:
            name = locks.name_file(rule.path, file.origin)
            checks = signed.get(_make_key(name, hash_rule(rule)))
            if checks and not rule.is_decided and (name, rule.sentence) not in present:
                message = (
                    f"The check that you signed for {rule.path}:{rule.line} is not in this file any"
                    f" more: {'; '.join(checks)}. Restore the file, for example with Git, or sign"
                    " again with `hilum rules compile`."
                )
                yield LockChange(lock.shown, 0, message)


def _make_key(file: str, digest: str) -> str:
    return f"{digest} {file}"


def _read(top: Path) -> dict[str, tuple[str, ...]]:
    try:
        data = read_data(data_file(top, FILE)) or b"{}"
        return msgspec.json.decode(data, type=dict[str, tuple[str, ...]])
    except ValueError:
        return {}
