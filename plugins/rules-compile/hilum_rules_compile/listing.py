"""Adds what concerns signing to the list of ``hilum rules``."""

from __future__ import annotations

import attrs
import msgspec
from hilum_rules.rule_list import RuleList
from hilum_rules.rule_store import RuleStore
from hilum_rules.signed_rules import hash_rule

from hilum_rules_compile.proposal_cache import read_cache
from hilum_rules_compile.signed_here import find_lost
from hilum_rules_compile.undecided import find_undecided


def add_signing(rules: RuleList, store: RuleStore) -> RuleList:
    """Return a list with the proposed checks, and with the signed ones that are lost. Blocks.

    Args:
        rules: The list.
        store: The rules.
    """
    snapshot = rules.snapshot
    problems = (*snapshot.problems, *find_lost(store))
    snapshot = msgspec.structs.replace(snapshot, problems=problems)
    return attrs.evolve(rules, snapshot=snapshot, proposed=_find_proposed(store))


def _find_proposed(store: RuleStore) -> dict[str, tuple[str, ...]]:
    """Return what a model has proposed, by the id of the rule; for advice, no checks."""
    # A proposal that was rejected is none.
    proposed = {
        name: each.proposal.enforce
        for name, each in read_cache(store.paths.top).items()
        if each.is_open or each.proposal.advice
    }
    # Most projects have no proposals.
    if not proposed:
        return {}
    hashes = {rule.id: hash_rule(rule) for rule in find_undecided(store.snapshot.files)}
    return {name: proposed[digest] for name, digest in hashes.items() if digest in proposed}
