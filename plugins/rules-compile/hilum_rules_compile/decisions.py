"""Stores what users decide about sentences, in the locks of the rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from hilum import StoreError
from hilum.settings import lock_folder
from hilum_rules.lock_file import Entry, LockFile
from hilum_rules.rule import Problem, Rule, RulesFile
from hilum_rules.signed_rules import Locks, hash_rule

from hilum_rules_compile.lock_writing import find_stale, make_entry, replace_entries, write_lock
from hilum_rules_compile.past_calls import Trial
from hilum_rules_compile.proposal import Proposal, Verified
from hilum_rules_compile.proposal_cache import forget_proposals
from hilum_rules_compile.signed_here import remember
from hilum_rules_compile.undecided import find_undecided

if TYPE_CHECKING:
    from hilum_rules.rule_store import RuleStore

REFUSED = "a user decided that it stays advice"
CLOSED = "no longer open: it was changed or decided about in the meantime"


@attrs.frozen
class Item:
    """A sentence about which the user has to decide.

    Attributes:
        number: The number of the rule.
        file: Its file.
        rule: The rule.
        verified: What the model proposes.
        trial: What the proposed check would have done in the past.
    """

    number: str
    file: RulesFile
    rule: Rule
    verified: Verified = Verified(Proposal(""), rejected="there is no proposal")
    trial: Trial = Trial()


@attrs.frozen
class Decision:
    """What a user decides about a sentence.

    Attributes:
        item: The sentence.
        enforce: The checks that enforce it; empty for advice.
        advice: Why it stays advice; empty if it is enforced.
        withdraws: Whether the decision takes back a check that was signed.
    """

    item: Item
    enforce: Sequence[str] = ()
    advice: str = ""
    withdraws: bool = False

    def __str__(self) -> str:
        if self.withdraws:
            return "withdrawn: sessions that are open enforce it until they end, or /reload-rules"
        if self.advice == REFUSED:
            return "stays advice"
        if self.advice:
            return f"stays advice: {self.advice}"
        return f"enforced: {'; '.join(self.enforce)}"


def find_open(store: RuleStore) -> set[tuple[str, str]]:
    """Return the sentences that need a decision: the file of each one, and its hash."""
    return {(rule.path, hash_rule(rule)) for rule in find_undecided(store.snapshot.files)}


def find_signed(store: RuleStore) -> Iterator[Item]:
    """Yield the sentences for which somebody has signed a check. Blocks."""
    locks = Locks.read(store.paths)
    for number, file, rule in store.snapshot.numbered():
        if any(entry.enforce for entry in _find_entries(rule, file.origin, locks)):
            yield Item(number, file, rule)


def _find_entries(rule: Rule, origin: str, locks: Locks) -> list[Entry]:
    """Return the entries of a sentence, also those that were edited by hand."""
    name = locks.name_file(rule.path, origin)
    place = (rule.section, rule.sentence)
    return [
        entry
        for entry in locks.of(origin).entries
        if entry.file == name
        and (entry.hash == hash_rule(rule) or (entry.section, entry.sentence) == place)
    ]


def sign(store: RuleStore, decisions: Sequence[Decision]) -> list[Decision]:
    """Store decisions in the locks, and load the rules again. Blocks.

    Args:
        store: The rules.
        decisions: The decisions.

    Returns:
        The decisions that are stored. Others are about sentences that somebody has changed or
        decided about since the rules were loaded; earlier decisions are kept.

    Raises:
        StoreError: A lock has mistakes, or cannot be written.
    """
    stored: list[Decision] = []
    for is_project, top in ((True, store.paths.top), (False, store.paths.config)):
        of_lock = [each for each in decisions if (each.item.file.origin == "project") is is_project]
        if of_lock:
            stored += _sign_in(store, top, of_lock)
    forget_proposals(store.paths.top, {hash_rule(each.item.rule) for each in decisions})
    store.load()
    return stored


def _sign_in(store: RuleStore, top: Path, decisions: Sequence[Decision]) -> list[Decision]:
    """Store decisions in one lock, while no other process changes it."""
    origin = decisions[0].item.file.origin
    project, user = store.paths.locks
    path = project if origin == "project" else user
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with lock_folder(path.parent):
            # Another process may have signed something since the rules were loaded.
            store.load()
            still_open = find_open(store)
            locks = Locks.read(store.paths)
            lock = locks.of(origin)
            _check_lock(lock)
            entries = {}
            stale = find_stale(store.snapshot.files, locks, lock)
            for each in decisions:
                rule = each.item.rule
                signed = _find_entries(rule, origin, locks) if each.withdraws else []
                stale += signed
                if signed or (rule.path, hash_rule(rule)) in still_open:
                    name = locks.name_file(rule.path, origin)
                    entries[make_entry(rule, name, each.enforce, each.advice)] = each
            if entries:
                write_lock(replace_entries(lock, entries, stale), top)
                remember(top, entries)
    except OSError as error:
        raise StoreError(
            f"{store.paths.display(path)} cannot be written: {error.strerror or error}.",
            hint="Nothing was signed. Check the permissions of the folder.",
        ) from None
    return list(entries.values())


def _check_lock(lock: LockFile) -> None:
    """Reject a lock with mistakes, because writing it would lose what cannot be read."""
    if lock.mistakes:
        line, message = lock.mistakes[0]
        hint = (
            "Correct or remove these lines first." if line else "Restore or delete the file first."
        )
        raise StoreError(
            str(Problem(lock.shown, line, message)), hint=f"Nothing was signed. {hint}"
        )
