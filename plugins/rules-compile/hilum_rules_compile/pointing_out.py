"""Points out binding sentences that are not enforced, and locks that are not as they were signed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from hilum_rules.binding import is_conspicuous
from hilum_rules.counting import count, is_or_are
from hilum_rules.rule import LockChange
from hilum_rules.signed_rules import hash_rule
from hilum_rules.source import digest_text

from hilum_rules_compile.project_data import data_file, read_data, write_data
from hilum_rules_compile.proposal_cache import read_proposals
from hilum_rules_compile.signed_here import find_lost

if TYPE_CHECKING:
    from hilum_rules.rule_store import RuleStore

FILE = "pointed-out.json"


def point_out(store: RuleStore, *, attended: bool) -> Iterator[tuple[str, str]]:
    """Yield the events with what a session says at its start, each by name and line. Blocks.

    Args:
        store: The rules.
        attended: Whether a user is present, who can sign checks for new sentences.
    """
    changes = describe_lock_changes(store)
    if changes:
        yield "rules.changed_lock", changes
    sentences = find_new_sentences(store) if attended else ""
    if sentences:
        yield "rules.undecided", sentences


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
    if undecided:
        kept = read_proposals(store.paths.top)
        advice = {digest for digest, proposal in kept.items() if proposal.advice}
        undecided = [rule for rule in undecided if hash_rule(rule) not in advice]
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
    """Return a line about changes of the locks that nobody has signed. Blocks.

    Args:
        store: The rules.

    Returns:
        The line; empty if there are no changes.
    """
    snapshot = store.snapshot
    # A session reports locks that cannot be read at all in a line of their own.
    unreadable = {rule.path for rule in snapshot.bundle.rules if rule.is_passing}
    changes = [
        problem
        for problem in (*snapshot.problems, *find_lost(store))
        if isinstance(problem, LockChange) and problem.path not in unreadable
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
