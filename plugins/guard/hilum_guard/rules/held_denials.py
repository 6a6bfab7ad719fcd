"""Keep the rules that deny or ask in force until the session ends, whatever happens to their files.

This concerns the files in a project: those of other agents, and hilum's own. An agent that may change
one of them once, or a branch without it, must not end what it forbids. The user's own files are not in
the project, and their changes apply at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from hilum_guard.foreign.files import find_project_folder

if TYPE_CHECKING:
    from hilum_guard.rules.matching import Rule
    from hilum_guard.rules.rule_files import Rules

MAX_HELD = 2_000
"""Maximum number of rules that are kept in force."""
MAX_SHOWN = 5
_GONE = ", no longer in the file"


def find_project_denials(rules: Rules, config: Path, workspace: Path) -> Iterator[Rule]:
    """Yield the rules in files of a project that deny or ask.

    Args:
        rules: All rules.
        config: The user's configuration folder.
        workspace: Root of the workspace.
    """
    project = f"{find_project_folder(workspace)}/"
    own = f"{config}/"
    for rule in rules.rules:
        is_in_project = rule.source.startswith(project) and not rule.source.startswith(own)
        if is_in_project and rule.effect != "allow":
            yield rule


def keep_denials(before: Rules, now: Rules, config: Path, workspace: Path) -> Rules:
    """Return rules with those that were in force before and are in no file any more.

    Args:
        before: The rules that were in force.
        now: The rules in the files.
        config: The user's configuration folder.
        workspace: Root of the workspace.
    """
    present = {identify(rule) for rule in now.rules}
    held: list[Rule] = []
    for rule in find_project_denials(before, config, workspace):
        if identify(rule) not in present and len(held) < MAX_HELD:
            source = rule.source.removesuffix(_GONE)
            held.append(attrs.evolve(rule, source=f"{source}{_GONE}"))
    if not held:
        return now
    return now._replace(rules=(*now.rules, *held), held=tuple(held))


def identify(rule: Rule) -> Rule:
    """Return a rule without its place, which changes with other lines of its file."""
    return attrs.evolve(rule, source="", written="")


def describe_held(rules: Sequence[Rule]) -> str:
    """Return what the user is told about rules that stay in force."""
    rows = list_rules(rules)
    what = "This rule is no longer in its file and stays"
    if len(rows) > 1:
        what = f"These {len(rows)} rules are no longer in their files and stay"
    listed = "".join(f"\n  {row}" for row in rows[:MAX_SHOWN])
    if len(rows) > MAX_SHOWN:
        listed += f"\n  and {len(rows) - MAX_SHOWN} more"
    return (
        f"{what} in force until the session ends. To end that, enter /reload-rules, or start a new"
        f" session:{listed}"
    )


def list_rules(rules: Iterable[Rule]) -> list[str]:
    """Return rules with their files as lines; one entry of a file may have become several rules."""
    rows = (f"{rule.effect} {rule.shown} ({rule.source.removesuffix(_GONE)})" for rule in rules)
    return list(dict.fromkeys(rows))


def write_rules(rules: Iterable[Rule]) -> list[dict[str, Any]]:
    """Return rules as plain data, for the log."""
    return [attrs.asdict(rule) for rule in rules]


def read_rules(data: Iterable[Mapping[str, Any]]) -> Iterator[Rule]:
    """Yield the rules in the log of a session."""
    from hilum_guard.rules.matching import Rule

    for each in data:
        texts = {name: tuple(each.get(name, ())) for name in ("unless", "later")}
        yield Rule(**{**each, **texts})
