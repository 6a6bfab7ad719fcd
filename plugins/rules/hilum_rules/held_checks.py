"""Keeps the checks of a session in force when their files change.

Otherwise, an agent could remove a check with any program that changes or deletes a rules file, or by
switching to a branch without it, also while the session is closed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import msgspec
from hilum_checks import Check
from hilum_checks.model import CONSTRAINTS, CheckPart, Commands, Effect, Paths, ReadFirst

from hilum_rules.rule import Rule, RulesFile, RuleType

MAX_HELD = 20_000
"""Maximum number of checks to keep in force. Beyond it, every change needs approval."""
MAX_LOGGED = 200
"""Maximum number of checks in one event."""
MAX_SENTENCE = 300

# Logs of earlier versions have these names.
_EARLIER_KINDS = {
    "Contexts": "ExcludedFiles",
    "Preceded": "CommandBefore",
    "Accompanied": "ChangedTogether",
}


class HeldCheck(msgspec.Struct, frozen=True):
    """A check in the log of a session.

    Attributes:
        path: The displayed path of the file that contained the rule.
        line: The line number of the rule in that file.
        sentence: The rule's text, as quoted in denials.
        effect: What the check does.
        kind: The name of the constraint's class.
        constraint: The fields of the constraint.
    """

    path: str
    line: int
    sentence: str
    effect: Effect
    kind: str
    constraint: dict[str, Any]


class HeldChecks:
    """The checks that were in force in a session and are in no rules file any more.

    Attributes:
        rules: The rules of these checks, one for each check. Their paths tell that they are in no
            file.
        is_full: Whether more checks were in force than can be kept.
    """

    def __init__(self) -> None:
        self.rules: tuple[Rule, ...] = ()
        self.is_full = False
        self._known: dict[CheckPart, Rule] = {}
        self._gone: dict[CheckPart, Rule] = {}
        self._source: Sequence[RulesFile] | None = None
        self._reported: set[CheckPart] = set()
        self._logged: set[CheckPart] = set()

    def take(self, active: Sequence[RulesFile]) -> None:
        """Store the checks in force, and keep those in force that are in no file any more.

        Args:
            active: The active rules files. The same object means that nothing has changed.
        """
        if active is self._source:
            return
        self._source = active
        present = {
            part: rule
            for file in active
            for rule in file.rules
            if rule.check is not None
            for part in rule.check.parts
        }
        self._known |= {part: rule for part, rule in present.items() if not rule.is_passing}
        self.is_full = len(self._known) > MAX_HELD
        # The first checks stay in force: those added later may be an agent's.
        self._known = dict(islice(self._known.items(), MAX_HELD))
        self._gone = {part: rule for part, rule in self._known.items() if part not in present}
        self.rules = tuple(_mark_gone(rule, part) for part, rule in self._gone.items())
        self._reported -= present.keys()

    def take_unreported(self) -> list[HeldCheck]:
        """Return the checks that are in no file any more and were not returned before."""
        return _take_new(self._gone, self._reported)

    def take_unlogged(self) -> list[list[HeldCheck]]:
        """Return the checks in force that the log does not contain yet, in lists of some length.

        A resumed session finds them in the log, so that a change of their files while no session
        runs does not lift them either.
        """
        checks = _take_new(self._known, self._logged)
        return [checks[at : at + MAX_LOGGED] for at in range(0, len(checks), MAX_LOGGED)]

    def restore(self, data: Mapping[str, Any], *, is_reported: bool) -> list[str]:
        """Keep the checks of an event in force, from the log of a resumed session.

        Args:
            data: The data of the event. Data of another shape is ignored.
            is_reported: Whether the user knows that they are no longer in their files.

        Returns:
            The files that contained the checks.
        """
        try:
            checks = msgspec.convert(data.get("checks"), list[HeldCheck])
        except msgspec.ValidationError:
            return []
        for each in checks:
            # One that a later version has written does not lift the others.
            with suppress(msgspec.ValidationError, KeyError):
                part = _read_part(each)
                self._known[part] = _make_rule(each, part)
                self._logged.add(part)
                if is_reported:
                    self._reported.add(part)
        return list(dict.fromkeys(each.path for each in checks))

    def list_gone(self) -> list[Rule]:
        """Return the rules, as they were in their files, whose checks stay in force without a file."""
        return list(self._gone.values())

    @staticmethod
    def describe(checks: Sequence[HeldCheck]) -> str:
        """Return a line for the user about checks that stay in force without a file.

        Args:
            checks: The checks, at least one.
        """
        files = ", ".join(dict.fromkeys(each.path for each in checks))
        what = "An enforced rule is" if len(checks) == 1 else f"{len(checks)} enforced rules are"
        it = "It stays" if len(checks) == 1 else "They stay"
        return (
            f"{what} no longer in {files}. {it} in force until this session ends, or until you"
            " enter /reload-rules."
        )


def _take_new(rules: Mapping[CheckPart, Rule], known: set[CheckPart]) -> list[HeldCheck]:
    """Return the checks that are not known yet, and add them to those known."""
    new = {part: rule for part, rule in rules.items() if part not in known}
    known.update(new)
    return [_to_data(rule, part) for part, rule in new.items()]


def _mark_gone(rule: Rule, part: CheckPart) -> Rule:
    # Otherwise, nobody would understand why a rule is enforced that is in no file.
    place = (
        f"no longer in {rule.path}, but enforced until the session ends or the user enters"
        " /reload-rules"
    )
    return msgspec.structs.replace(rule, check=Check((part,)), path=place, line=0)


def _to_data(rule: Rule, part: CheckPart) -> HeldCheck:
    effect, constraint = part
    sentence = rule.sentence[:MAX_SENTENCE]
    fields = msgspec.to_builtins(constraint)
    return HeldCheck(rule.path, rule.line, sentence, effect, type(constraint).__name__, fields)


def _read_part(held: HeldCheck) -> CheckPart:
    fields = held.constraint
    kind = _EARLIER_KINDS.get(held.kind, held.kind)
    if kind != "ReadFirst":
        return held.effect, msgspec.convert(fields, CONSTRAINTS[kind])
    # msgspec cannot tell which of two classes is meant.
    before_kind: type[Commands | Paths] = Commands if "branches" in fields["before"] else Paths
    needed = msgspec.convert(fields["needed"], Paths)
    return held.effect, ReadFirst(needed, msgspec.convert(fields["before"], before_kind))


def _make_rule(held: HeldCheck, part: CheckPart) -> Rule:
    return Rule(
        "",
        RuleType.HARD_CONSTRAINT,
        "",
        held.sentence,
        held.path,
        held.line,
        check=Check((part,)),
    )
