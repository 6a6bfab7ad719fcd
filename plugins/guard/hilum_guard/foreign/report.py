"""Report the permissions of other agents for ``hilum import``, with the rules to take over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from hilum import config_folder
from hilum.foreign_files import ForeignFile, Offer
from msgspec.structs import replace

from hilum_guard.foreign.allow_dangers import explain_refusal, find_danger
from hilum_guard.foreign.files import AGENTS
from hilum_guard.foreign.loading import load_foreign_rules
from hilum_guard.foreign.rule_list import AllowedRule, RuleList, is_valid
from hilum_guard.rules import rule_files
from hilum_guard.rules.permissions_command import denials_from


def find_foreign_files(folder: Path) -> Iterator[ForeignFile]:
    """Yield the files with permissions of other agents. Blocks.

    Args:
        folder: The workspace.
    """
    applied = denials_from(folder)
    own = rule_files.load(config_folder(), folder)
    known = {rule.text for rule in own.of("allow")}
    for rules in load_foreign_rules(folder, tuple(AGENTS)):
        file = _describe(rules, folder, applied, known)
        if file.works or file.offers or file.left or file.problems:
            yield file
        elif _has_only_rules(file.path):
            yield replace(file, left=("it contains no rule",))


def _has_only_rules(path: Path) -> bool:
    """Return whether a file is for rules alone; others often have settings for something else."""
    return path.suffix == ".rules" or path.parent.name == "policies"


def _describe(
    rules: RuleList, folder: Path, applied: tuple[str, ...], known: set[str]
) -> ForeignFile:
    place = rules.place
    works = []
    left = [*rules.left, *rules.unapplied]
    entries = {(rule.source, rule.written, rule.effect): rule for rule in rules.rules}
    counts = Counter(rule.effect for rule in entries.values())
    is_applied = place.agent in [AGENTS[key] for key in applied]
    for effect in ("deny", "ask"):
        number = counts[effect]
        if number and is_applied:
            works.append(f"{number} {effect} rule{'s apply' if number > 1 else ' applies'}")
        elif number:
            left.append(f"{number} {effect} rules: the setting guard.denials_from excludes them")
    offers = []
    taken = 0
    for allowed in _join_equal(rules.allowed):
        valid = tuple(rule for rule in allowed.rules if is_valid(rule))
        refusal = allowed.refusal or next(filter(None, map(explain_refusal, valid)), "")
        if refusal:
            left.append(f"{allowed.written} (line {allowed.line}): {refusal}")
        elif not valid:
            left.append(
                f"{allowed.written} (line {allowed.line}): hilum has no rule that allows just this"
            )
        elif known.issuperset(valid):
            taken += 1
        else:
            offers.append(_make_offer(allowed, valid, folder))
    if taken:
        works.append(
            f"{taken} allow rule{'s are' if taken > 1 else ' is'} in your permissions.toml"
        )
    return ForeignFile(
        place.path,
        place.agent,
        "permissions",
        user=place.user,
        works=tuple(works),
        offers=tuple(offers),
        # One entry may have become several, as a rule about Claude Code's agents does.
        left=tuple(dict.fromkeys(left)),
        problems=tuple(rules.problems),
    )


def _join_equal(allowed: list[AllowedRule]) -> list[AllowedRule]:
    """Return the entries with those joined that become the same rules, such as two for reading."""
    joined: dict[object, AllowedRule] = {}
    for number, each in enumerate(allowed):
        key = each.rules or number
        before = joined.get(key)
        if before is None:
            joined[key] = each
        elif each.written not in before.written.split(", "):
            joined[key] = before._replace(written=f"{before.written}, {each.written}")
    return list(joined.values())


def _make_offer(allowed: AllowedRule, valid: tuple[str, ...], folder: Path) -> Offer:
    found = [find_danger(rule, folder) for rule in valid]
    dangers = [danger for danger in found if danger]
    return Offer(
        allowed.written,
        ", ".join(f"allow {rule}" for rule in valid),
        partial(_take, valid, folder),
        dangers[0] if dangers else "",
        allowed.line,
    )


def _take(rules: tuple[str, ...], folder: Path, user: bool) -> str:
    """Store rules that allow, for one folder or for all; return where."""
    config = config_folder()
    for rule in rules:
        rule_files.add(config, None if user else folder, "allow", rule)
    return str(rule_files.user_file(config))
