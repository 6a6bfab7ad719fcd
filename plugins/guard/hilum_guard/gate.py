"""Judges a tool call by the user's rules, its command, protected files and the approval policy.

The checks run in this order: calls that must never run, rules that deny, calls that always need
approval, calls that a rule allows or that are harmless, and finally the policy for other calls.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from hilum import Verdict, allow, ask, deny, errors

from hilum_guard import protected_files
from hilum_guard.call_reader import CheckedCall
from hilum_guard.commands import judge_command
from hilum_guard.effects.resolved_effects import Effect, Reach
from hilum_guard.file_names import resolve_links
from hilum_guard.hosts.addresses import carried_data, hosts_within, is_known, is_loopback
from hilum_guard.rules.approval_scopes import suggest_rule
from hilum_guard.rules.matching import (
    DOMAIN,
    EXACT,
    CallFacts,
    Rule,
    allowed,
    fit,
    harmless_wrapper,
    unresolved_reason,
)
from hilum_guard.rules.patterns import exact_path, fit_path, pattern_words
from hilum_guard.rules.rule_files import Rules
from hilum_guard.rules.tool_names import STANDARD
from hilum_guard.rules.tool_names import Effect as RuleEffect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hilum_guard.commands.verdicts import CommandVerdict, SimpleCommand

Judged = tuple[Verdict | None, str]
"""A verdict, None for no opinion, and the rule or check that it comes from."""
POLICY = "Calls that change something need approval (approve = ask_first)."
UNHELD = (
    "No sandbox keeps it from writing files that Git, editors and shells execute later (see hilum"
    " doctor). To run such commands anyway, for example in a disposable container, use --set"
    ' guard.unsandboxed=run, or add a rule: hilum permissions allow "{scope}".'
)
_BLOCKED = "It cannot be approved. Continue without it, or tell the user what to run themselves."
_STORED = (
    " Git may show any file of the repository; name the files that you mean (`git diff -- src`)."
)
# These tools reject addresses without a host themselves, so no approval is needed.
_WEB_TOOLS = ("web_fetch", "browser_use")
_READING = ("read_file", "read")


@attrs.frozen
class Gate:
    """Judges tool calls.

    Attributes:
        rules: The rules that apply.
        approve: The approval policy.
        held: Whether a sandbox actually keeps commands from writing outside the workspace, and from
            writing files that are executed later.
        paths_held: Whether the sandbox protects the paths that rules deny from commands that cannot
            be read.
        network_held: Whether the sandbox blocks network access by such commands.
        known_hosts: The hosts that the user or a search named.
        catalog: The permission categories of the session's tools, by name.
        executed: Workspace files and folders that are executed although their names do not indicate
            it, resolved, each with the program that executes it.
        run_unsandboxed: Whether the user allows commands to run without such a sandbox.
    """

    rules: Rules
    approve: str
    held: bool
    paths_held: bool = False
    network_held: bool = False
    known_hosts: frozenset[str] = frozenset()
    catalog: Mapping[str, str] = STANDARD
    executed: tuple[tuple[str, str], ...] = ()
    run_unsandboxed: bool = False

    def judge(self, call: CheckedCall) -> Judged:
        """Return the verdict on a call, None for no opinion, and the rule or check behind it."""
        read = call.facts.command
        # Destructive commands are checked before the rules, because no rule may allow them.
        if read is not None and read.kind == "block":
            verdict = deny(f"{read.reason} {_BLOCKED}", code=errors.E_BLOCKED)
            return verdict, "destructive command"
        # Rules that deny are checked before anything that could ask or allow.
        rule = self._find_rule("deny", call.facts)
        if rule:
            return deny(_explain_denial(rule, call.facts)), _name_source(rule)
        if self.rules.mistakes and call.changes:
            return self._deny_for_mistakes(), "mistakes in the rules"
        if read is not None:
            return self._judge_command(call, read)
        if call.facts.paths:
            return self._judge_paths(call)
        return self._judge_other(call)

    def _deny_for_mistakes(self) -> Verdict:
        # A rule with a mistake may have been meant to deny this call.
        count = len(self.rules.mistakes)
        mistakes = "1 mistake" if count == 1 else f"{count} mistakes"
        return deny(
            f"The rules have {mistakes}, so no call may change anything until the user corrects"
            f" them (hilum permissions list): {self.rules.mistakes[0]}."
        )

    # --- rules ------------------------------------------------------------------------------------

    def _find_rule(
        self, effect: RuleEffect, facts: CallFacts, fits: Collection[str] = ("yes",)
    ) -> Rule | None:
        """Return the first rule with the given effect that matches a call."""
        for rule in self.rules.of(effect):
            if fit(rule, facts, self.catalog) in fits:
                return rule
        return None

    def _find_unheld_denial(self, facts: CallFacts) -> Rule | None:
        """Return a rule that denies a possible hidden effect that the sandbox does not prevent."""
        for rule in self.rules.of("deny"):
            if fit(rule, facts, self.catalog) != "unread":
                continue
            about_network = rule.about_hosts or rule.tool == "network"
            if rule.about_paths:
                held = self.paths_held
            else:
                held = self.network_held and about_network
            if not held:
                return rule
        return None

    def _find_question(self, facts: CallFacts) -> tuple[str, Rule] | None:
        """Return why a rule requires approval of a call, and the rule.

        Either the rule asks, or it denies something that the call may do.
        """
        # A rule that denies is examined first, because it is stricter than one that asks.
        rule = self._find_rule("deny", facts, ("maybe",)) or self._find_unheld_denial(facts)
        if rule:
            is_stored = rule.about_paths and any(effect.stored for effect in facts.reach.effects)
            hint = _STORED if is_stored else ""
            return f"A rule may deny it: {rule.text}.{hint}", rule
        rule = self._find_rule("ask", facts)
        why = unresolved_reason(rule, facts) if rule else ""
        if rule and why:
            return f"A rule may require approval: {rule.text}; {why}.", rule
        rule = self._find_rule("ask", facts, ("yes", "maybe"))
        if rule:
            return f"A rule requires approval: {rule.text}.", rule
        return None

    def _find_possible_question(self, facts: CallFacts) -> Rule | None:
        """Return a rule that requires approval for paths that a command may read without naming them."""
        for rule in self.rules.of("ask"):
            # A harmless command such as `grep -r` reads paths that its words do not name.
            if rule.about_paths and fit(rule, facts, self.catalog) == "unread":
                return rule
        return None

    def _is_named(self, tool: str, path: str) -> bool:
        """Return whether the user has allowed this exact file by name."""
        wanted = {path, exact_path(path)}
        of_tool = [rule for rule in self.rules.of("allow") if rule.tool == tool]
        return any(rule.pattern in wanted for rule in of_tool)

    # --- tools with paths, and others -------------------------------------------------------------

    def _judge_paths(self, call: CheckedCall) -> Judged:
        for path, shown in call.reached:
            # hilum's own folders contain the rules: a tool that writes there could give itself
            # every permission.
            if protected_files.own(path):
                verdict = deny(f"{shown} is in hilum's own folders, which tools may not use.")
                return verdict, "self-protection"
        also = f" ({call.shown})" if call.shown else ""
        tool = call.facts.tool
        for path, shown in call.reached:
            why = self._explain_execution(path, shown) if call.changes else ""
            why = why or protected_files.secret(shown) or protected_files.linked_secret(path, shown)
            if why and not self._is_named(tool, shown):
                scope = f"{tool}({exact_path(shown)})"
                return ask(f"{shown}: {why}.{also}", scope=scope), "protected file"
        return self._judge_other(call, also)

    def _explain_execution(self, path: Path, shown: str) -> str:
        """Return what executes a file, or takes commands from it; empty if nothing does."""
        for executed, by in self.executed:
            if path.is_relative_to(executed):
                return f"it is executed by {by}"
        return protected_files.governing(shown) or protected_files.metadata(str(path))

    def _judge_other(self, call: CheckedCall, also: str = "") -> Judged:
        facts = call.facts
        wide = _make_scope(facts)
        question = self._find_question(facts)
        if question:
            return ask(question[0] + also, scope=wide), _name_source(question[1])
        rule = self._find_rule("allow", facts)
        if rule:
            return _allow_by(rule)
        why = self._doubt_address(facts)
        if why:
            return ask(why, scope=wide), "address"
        if call.changes and self.approve == "ask_first":
            return ask(POLICY + also, scope=wide), "policy"
        return None, "policy"

    def _doubt_address(self, facts: CallFacts) -> str:
        """Return why fetching an address requires approval; empty if it does not."""
        url = facts.arguments.get("url")
        if facts.category != "network" or not isinstance(url, str) or not url.strip():
            return ""
        if not facts.host and facts.tool in _WEB_TOOLS:
            return ""
        if is_loopback(facts.host):
            return ""  # the tool's settings decide about servers on this machine
        # A prompt injection may make the model choose a host to leak data to. An address may also
        # contain another one, to which the first server passes the request on.
        for host in (facts.host, *hosts_within(url)):
            if not is_known(host, self.known_hosts):
                allowing = f'hilum permissions allow "{facts.tool}({DOMAIN}{host})"'
                return (
                    f"Neither you nor a search named the host {host}. To always allow it:"
                    f" {allowing}."
                )
        why = carried_data(url)
        return f"The address may leak data: {why}." if why else ""

    # --- commands ---------------------------------------------------------------------------------

    def _judge_command(self, call: CheckedCall, read: CommandVerdict) -> Judged:
        facts = call.facts
        for command in read.all_commands:
            # Under every policy and rule: a command must not change the rules that judge it.
            why = protected_files.governs_hilum(command.words + command.writes, command.cwd)
            if why:
                verdict = deny(f"{why}: no tool may change what governs hilum.")
                return verdict, "self-protection"
        # The scope of an approval request for the whole command. For grave commands and secrets, the
        # scope is the exact text instead.
        wide = suggest_rule(facts.tool, str(facts.arguments["command"]), read)
        exact = self._find_exact_rule(facts)
        question = self._question_files(call, read, wide, exact)
        if question:
            return question
        asked = self._find_question(facts)
        if asked:
            return ask(asked[0], scope=wide), _name_source(asked[1])
        if read.grave and exact is None:
            return ask(read.grave, scope=_make_exact_scope(facts)), "grave command"
        rule = exact or self._find_allowing_rule(call, read)
        if rule:
            return _allow_by(rule)
        if read.kind != "auto":
            return self._judge_by_policy(read, wide)
        possible = self._find_possible_question(facts)
        if possible:
            reason = f"It may read what needs approval: {possible.text}."
            return ask(reason, scope=wide), _name_source(possible)
        return self._judge_harmless(call, read, wide)

    def _question_files(
        self, call: CheckedCall, read: CommandVerdict, wide: str, exact: Rule | None
    ) -> Judged | None:
        """Return the question about protected files and secrets that a command uses, if any."""
        written = self._find_protected_writes(call, read)
        if written and exact is None:
            return ask(next(iter(written.values())), scope=wide), "protected file"
        secrets = self.find_secrets(call)
        # If this exact text writes a protected file, its approval covered that file, but no other
        # secret.
        approved = exact is not None and not (written and secrets.keys() - written.keys())
        if secrets and not approved:
            listed = ", ".join(f"{path} ({why})" for path, why in secrets.items())
            verdict = ask(f"It uses {listed}.", scope=_make_exact_scope(call.facts))
            return verdict, "secret file"
        return None

    def _judge_by_policy(self, read: CommandVerdict, wide: str) -> Judged:
        """Return the verdict on a command that no rule and no list settles."""
        if self.approve == "ask_first":
            return ask(read.reason, scope=wide), "policy"
        if self.held:
            return allow("The sandbox confines it."), "policy, sandbox"
        if self.run_unsandboxed:
            reason = "No sandbox confines it, and you allow commands to run without one."
            return allow(reason), "guard.unsandboxed = run"
        return ask(f"{read.reason} {UNHELD.format(scope=wide)}", scope=wide), "no sandbox"

    def find_secrets(self, call: CheckedCall) -> dict[str, str]:
        """Return the secret files that a command names, each with the reason.

        Files that a rule allows by name are omitted.
        """
        found: dict[str, str] = {}
        for effect in call.facts.reach.effects:
            full = os.path.join(call.root, effect.path)
            if not _touches_content(effect, full):
                continue
            why = protected_files.secret(effect.path) or protected_files.linked_secret(
                Path(full), effect.path
            )
            if why and not any(self._is_named(tool, effect.path) for tool in _READING):
                found[effect.path] = why
        return found

    def _find_protected_writes(self, call: CheckedCall, read: CommandVerdict) -> dict[str, str]:
        """Return the protected files that redirections write, each with a sentence about it."""
        found: dict[str, str] = {}
        for command in read.commands:
            for written in command.writes:
                path = resolve_links(os.path.join(command.cwd or call.root, written))
                shown = os.path.relpath(path, call.root)
                if shown.startswith(".."):
                    continue
                why = self._explain_execution(Path(path), shown)
                if why:
                    found[shown] = f"It writes {shown}: {why}."
        return found

    def _judge_harmless(self, call: CheckedCall, read: CommandVerdict, wide: str) -> Judged:
        """Return the verdict on a harmless command, whose redirections are judged as file writes."""
        if not read.writes:
            return allow(read.reason, settled=True), "harmless command"
        shown = tuple(os.path.relpath(path, call.root) for path in read.writes)
        reached = tuple(zip(map(Path, read.writes), shown, strict=True))
        reach = Reach(tuple(Effect("write", path) for path in shown))
        facts = CallFacts("write_file", {}, shown, category="write", reach=reach)
        verdict, source = self.judge(CheckedCall(facts, "write", call.root, reached))
        if verdict is not None and verdict.kind == "ask":
            return ask(verdict.reason, scope=wide), source
        return verdict, source

    # --- rules that allow commands ----------------------------------------------------------------

    def _find_exact_rule(self, facts: CallFacts) -> Rule | None:
        """Return the rule that allows this exact text, as the user saw it."""
        for rule in self.rules.of("allow"):
            if (rule.pattern or "").startswith(EXACT) and fit(rule, facts):
                return rule
        return None

    def _find_allowing_rule(self, call: CheckedCall, read: CommandVerdict) -> Rule | None:
        """Return a rule if rules allow the whole command line.

        Each simple command matches a rule or is harmless alone, and nothing is redirected to a
        file.
        """
        rule = self._find_rule_by_effects(call, read)
        if rule:
            return rule
        # A rule without its pattern matches all calls of its tools, so this selects rules about
        # this tool.
        rules = self.rules.of("allow")
        fitting = [each for each in rules if fit(attrs.evolve(each, pattern=None), call.facts)]
        about_all = next((each for each in fitting if each.about_all), None)
        if about_all or not fitting or not read.complete:
            return about_all
        written = chain.from_iterable(command.writes for command in read.commands)
        # A rule that allows a command does not allow redirecting its output to a file.
        if any(path != "/dev/null" for path in written):
            return None
        return _find_rule_of_parts(fitting, call, read)

    def _find_rule_by_effects(self, call: CheckedCall, read: CommandVerdict) -> Rule | None:
        """Return a rule of the category ``write`` if such rules allow all effects of a command."""
        reach = call.facts.reach
        if reach.unread or reach.network or reach.hosts:
            return None
        if not read.complete or not all(map(_is_plain, read.commands)):
            return None
        of_writing = [rule for rule in self.rules.of("allow") if rule.tool == "write"]
        return _find_rule_of_effects([rule for rule in of_writing if rule.about_paths], reach)


def _find_rule_of_effects(rules: Sequence[Rule], reach: Reach) -> Rule | None:
    """Return a rule if rules allow every write, and every read is harmless."""
    reads = [effect for effect in reach.effects if effect.kind == "read"]
    if not all(map(_is_harmless_read, reads)):
        return None
    used: list[Rule] = []
    for effect in reach.effects:
        if effect.kind == "read":
            continue
        by = _find_rule_of_path(rules, effect.path)
        if by is None or not effect.certain:
            return None
        used.append(by)
    return used[0] if used else None


def _find_rule_of_parts(
    rules: Sequence[Rule], call: CheckedCall, read: CommandVerdict
) -> Rule | None:
    """Return a rule if each simple command matches a rule or is harmless alone."""
    used: list[Rule] = []
    for command in read.commands:
        by = _find_rule_of_command(rules, command)
        if by is not None:
            used.append(by)
        elif not _is_harmless_alone(command, call):
            return None
    return used[0] if used else None


def _is_harmless_read(effect: Effect) -> bool:
    return not (effect.path.startswith("/") or protected_files.secret(effect.path))


def _find_rule_of_command(rules: Sequence[Rule], command: SimpleCommand) -> Rule | None:
    for rule in rules:
        if allowed([pattern_words(rule.pattern or "")], [command]):
            return rule
    return None


def _find_rule_of_path(rules: Sequence[Rule], path: str) -> Rule | None:
    for rule in rules:
        if fit_path(rule.pattern or "", path, strict=True):
            return rule
    return None


def _touches_content(effect: Effect, full: str) -> bool:
    """Return whether an effect on a path is about the content of a file."""
    if effect.kind == "delete":
        return False
    if effect.kind == "read":
        return not os.path.isdir(full)
    return effect.kind != "any" or os.path.isfile(full)


def _allow_by(rule: Rule) -> Judged:
    return allow(f"A rule allows it: {rule.text}.", settled=True), _name_source(rule)


def _make_exact_scope(facts: CallFacts) -> str:
    """Return the rule for exactly this command."""
    return f"{facts.tool}({EXACT}{facts.arguments['command']})"


def _make_scope(facts: CallFacts) -> str:
    """Return the rule that a lasting approval of a call would create."""
    if facts.host:
        return f"{facts.tool}({DOMAIN}{facts.host})"
    url = facts.arguments.get("url")
    if facts.category == "network" and isinstance(url, str) and url:
        return f"{facts.tool}(url={url})"  # never all hosts
    return facts.tool


def _explain_denial(rule: Rule, facts: CallFacts) -> str:
    """Return the text that the model reads about a call that a rule denies."""
    why = unresolved_reason(rule, facts)
    if why:
        return (
            f"A user rule may deny it: {rule.text} ({rule.source}); {why}. Run the command itself."
        )
    return f"A user rule denies it: {rule.text} ({rule.source})."


def _is_plain(command: SimpleCommand) -> bool:
    return command.literal and not command.assigned and not command.wrapper


def _is_harmless_alone(command: SimpleCommand, call: CheckedCall) -> bool:
    """Return whether a simple command would run without approval by itself."""
    if harmless_wrapper(command):
        return True
    if not command.literal or command.assigned or command.cwd is None:
        return False
    # The command is judged alone, because another part of the line may be why the whole line needs
    # approval.
    read = judge_command(command.source, workspace=call.root, folder=Path(command.cwd))
    return read.kind == "auto" and not read.writes


def _name_source(rule: Rule) -> str:
    return f"{rule.effect} {rule.text} ({rule.source})"
