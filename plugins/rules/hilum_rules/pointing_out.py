"""Points out binding sentences that are not enforced, and locks that are not as they were signed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hilum_rules.binding import is_conspicuous
from hilum_rules.counting import count, is_or_are
from hilum_rules.lock_file import BROKEN, CONFLICT, EDITED, LOST, UNREADABLE_CHECK
from hilum_rules.project_data import data_file, read_data, write_data
from hilum_rules.source import digest_text

if TYPE_CHECKING:
    from hilum_rules.rule_store import RuleStore

FILE = "pointed-out.json"
_LOCK_CHANGES = (EDITED, UNREADABLE_CHECK, CONFLICT, BROKEN, LOST)


def find_new_sentences(store: RuleStore) -> str:
    """Return a line about undecided sentences that are new since the last one. Blocks.

    The sentences are remembered for the project, so that each one is pointed out only once.

    Args:
        store: The rules.

    Returns:
        The line; empty if there is nothing new.
    """
    # Fewer sentences than those about which a model is asked, because the user reads this line.
    undecided = list(filter(is_conspicuous, store.snapshot.bundle.rules))
    if not undecided:
        return ""
    hashes = {digest_text(rule.sentence)[:16] for rule in undecided}
    path = data_file(store.paths.top, FILE)
    if hashes <= _read(path):
        return ""
    # Sentences that are gone are forgotten, so that the list does not grow forever.
    write_data(path, msgspec.json.encode(sorted(hashes)))
    number = len(undecided)
    return (
        f"{count(number, 'binding sentence')} in your rules files {is_or_are(number)} not enforced:"
        " run hilum rules compile"
    )


def describe_lock_changes(store: RuleStore) -> str:
    """Return a line about changes of the locks that nobody has signed; empty if there are none.

    Args:
        store: The rules.
    """
    locks = set(map(store.paths.display, store.paths.locks))
    # A session reports locks that cannot be read at all in a line of their own.
    locks.difference_update(rule.path for rule in store.snapshot.bundle.rules if rule.is_passing)
    changes = [
        problem
        for problem in store.snapshot.problems
        if problem.path in locks and problem.message.startswith(_LOCK_CHANGES)
    ]
    if not changes:
        return ""
    more = f" `hilum rules` lists {len(changes) - 1} more." if len(changes) > 1 else ""
    return f"{changes[0]}{more}"


def _read(path: Path) -> set[str]:
    """Return the hashes of the sentences that were pointed out before."""
    try:
        return msgspec.json.decode(read_data(path), type=set[str])
    except ValueError:
        return set()
