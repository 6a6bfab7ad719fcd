"""Judge a tool call by the user's rules, its command, protected files and the approval policy.

The checks run in this order: destructive commands, deny rules, mistakes in the rules, hilum's own
folders, calls that always need approval, calls that a rule allows or that are harmless, and finally
the approval policy. Before the gate, the kernel denies what the policy ``readonly`` excludes, and
``call_judge`` checks the arguments.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import attrs
from hilum import Verdict, allow, ask, deny, errors

from hilum_guard import protected_files
from hilum_guard.call_reader import CheckedCall
from hilum_guard.commands import judge_command
from hilum_guard.effects.resolved_effects import (
    Effect,
    ResolvedEffects,
    resolve_effects,
    shown_path,
)
from hilum_guard.file_names import is_below, resolve_links
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
from hilum_guard.rules.patterns import exact_path, pattern_words
from hilum_guard.rules.rule_files import Rules
from hilum_guard.rules.tool_names import STANDARD
from hilum_guard.rules.tool_names import Effect as RuleEffect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hilum_guard.commands.verdicts import CommandVerdict, SimpleCommand

Judged = tuple[Verdict | None, str]
"""A verdict (None for no opinion), and the rule or check that produced it."""
POLICY = "Calls that change something need approval (approve = ask_first)."
UNCONFINED = (
    "No sandbox keeps it from writing files that Git, editors and shells execute later (see hilum"
    " doctor). To run such commands anyway, for example in a disposable container, use --set"
    " guard.unsandboxed=run, or add a rule: hilum permissions allow {scope}."
)
_STORED = (
    " Git may show any file of the repository; name the files that you mean (`git diff -- src`)."
)
# These tools reject URLs without a host themselves, so no approval is needed.
_WEB_TOOLS = ("web_fetch", "browser_use")
MAX_SOURCE = 200
"""Maximum length, in characters, of a command that is quoted in a reason."""
_READ_RULES = ("read_file", "read")
"""Names that a rule about reading a file may begin with."""


class _Danger(NamedTuple):
    """Something that a command does and that needs approval under every policy.

    Attributes:
        scope: The rule that a lasting approval would create.
        reason: The reason, as a sentence.
        source: The name of the check.
    """

    scope: str
    reason: str
    source: str


@attrs.frozen
class Gate:
    """A judge of tool calls, with all the data that its verdicts depend on.

    Attributes:
        rules: The rules that apply.
        approve: The approval policy.
        files_confined: Whether a sandbox keeps commands from writing outside the workspace, and
            from writing files that are executed later.
        changes_prevented: Whether a sandbox keeps commands from changing protected files.
        denied_paths_enforced: Whether the sandbox protects denied paths from commands whose effects
            are unknown.
        network_blocked: Whether the sandbox denies network access to commands whose effects are
            unknown.
        known_hosts: The hosts that the user or a search result mentioned.
        catalog: The permission categories of the session's tools, by name.
        executed: The resolved paths of workspace files that are executed although their names do
            not suggest it, or of folders with such files, each with the program that executes them.
        run_unsandboxed: Whether the user allows commands to run without a sandbox that protects
            files.
        grants: The scopes of the lasting approvals in the session. The kernel applies them; the
            gate knows them only to ask first about what they do not cover.
        once_only: Whether the user can approve only this call, because it is dangerous.
    """

    rules: Rules
    approve: str
    files_confined: bool
    changes_prevented: bool = False
    denied_paths_enforced: bool = False
    network_blocked: bool = False
    known_hosts: frozenset[str] = frozenset()
    catalog: Mapping[str, str] = STANDARD
    executed: tuple[tuple[str, str], ...] = ()
    run_unsandboxed: bool = False
    grants: frozenset[str] = frozenset()
    once_only: bool = False

    def judge(self, call: CheckedCall) -> Judged:
        """Return the verdict on a call (None for no opinion), and the deciding rule or check."""
        command_verdict = call.facts.command
        # Destructive commands are checked before the rules, because no rule may allow them.
        if command_verdict is not None and command_verdict.kind == "block":
            verdict = deny(f"{command_verdict.reason} {errors.UNAPPROVABLE}", code=errors.E_BLOCKED)
            return verdict, "destructive command"
        # Deny rules are checked before anything that could ask or allow.
        rule = self._find_rule("deny", call.facts)
        if rule:
            return deny(_explain_denial(rule, call.facts)), _name_source(rule)
        if self.rules.is_unread or (self.rules.mistakes and call.changes):
            return self._deny_for_mistakes(), "mistakes in the rules"
        if command_verdict is not None:
            return self._judge_command(call, command_verdict)
        if call.facts.paths:
            return self._judge_paths(call)
        return self._judge_other(call)

    def _deny_for_mistakes(self) -> Verdict:
        # A rule with a mistake may have been meant to deny this call.
        count = len(self.rules.mistakes)
        mistakes = "1 mistake" if count == 1 else f"{count} mistakes"
        return deny(
            f"The rules have {mistakes}. Until the user corrects them (hilum permissions list),"
            f" {self.rules.consequence}: {self.rules.mistakes[0]}."
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

    def _find_unenforced_denial(self, facts: CallFacts) -> Rule | None:
        """Return a deny rule for an effect that a call may have and that no sandbox prevents."""
        for rule in self.rules.of("deny"):
            if fit(rule, facts, self.catalog) != "unread":
                continue
            about_network = rule.about_hosts or rule.tool == "network"
            if rule.about_paths:
                is_enforced = self.denied_paths_enforced
            else:
                is_enforced = self.network_blocked and about_network
            if not is_enforced:
                return rule
        return None

    def _find_question(self, facts: CallFacts) -> tuple[str, Rule] | None:
        """Return why a rule requires approval for a call, and the rule.

        The rule is either an ask rule, or a deny rule for something that the call may do.
        """
        # Deny rules come first, because they are stricter than ask rules.
        rule = self._find_rule("deny", facts, ("maybe",)) or self._find_unenforced_denial(facts)
        if rule:
            is_stored = rule.about_paths and any(effect.stored for effect in facts.resolved.effects)
            hint = _STORED if is_stored else ""
            reason = f"A rule may deny it: {_locate(rule)}.{hint}"
            asking = self._find_rule("ask", facts)
            if asking and not unresolved_reason(asking, facts):
                reason = f"A rule requires approval: {_locate(asking)}. {reason}"
            return reason, rule
        rule = self._find_rule("ask", facts)
        why = unresolved_reason(rule, facts) if rule else ""
        if rule and why:
            return f"A rule may require approval: {_locate(rule)}; {why}.", rule
        rule = self._find_rule("ask", facts, ("yes", "maybe"))
        if rule:
            return f"A rule requires approval: {_locate(rule)}.", rule
        return self._find_doubt(facts)

    def _find_doubt(self, facts: CallFacts) -> tuple[str, Rule] | None:
        """Return the question about a change that an unreadable rule of another agent may deny."""
        is_harmless = facts.command is not None and facts.command.kind == "auto"
        if not self.rules.doubts or facts.category == "read" or is_harmless:
            return None
        rule = self.rules.doubts[0]
        reason = (
            f"The settings of {rule.agent} may deny it, and hilum cannot read all of them:"
            f" {rule.written} ({rule.source})."
        )
        return reason, rule

    def _find_possible_question(self, facts: CallFacts) -> Rule | None:
        """Return an ask rule for paths that a command may read without naming them."""
        for rule in self.rules.of("ask"):
            # A harmless command such as `grep -r` reads paths that its words do not name.
            if rule.about_paths and fit(rule, facts, self.catalog) == "unread":
                return rule
        return None

    def _is_named(self, tool: str, path: str) -> bool:
        """Return whether one of the user's rules allows exactly this file."""
        wanted = {path, exact_path(path)}
        of_tool = [rule for rule in self.rules.of("allow") if rule.tool == tool]
        return any(rule.pattern in wanted for rule in of_tool)

    # --- tools with paths, and others -------------------------------------------------------------

    def _judge_paths(self, call: CheckedCall) -> Judged:
        for path, shown in call.paths:
            # hilum's own folders contain the rules: with a tool that writes to them, the model
            # could give itself every permission.
            if protected_files.own(path):
                verdict = deny(f"{shown} is in hilum's own folders, which tools may not use.")
                return verdict, "self-protection"
        link_note = f" ({call.differing})" if call.differing else ""
        tool = call.facts.tool
        for _, shown in call.paths:
            why = protected_files.restricting(shown) if call.changes else ""
            if why:
                return ask(f"{shown}: {why}.{link_note}"), protected_files.RESTRICTING_FILE
        for path, shown in call.paths:
            why = self._explain_execution(path, shown) if call.changes else ""
            why = why or protected_files.secret(shown) or protected_files.linked_secret(path, shown)
            if why and not self._is_named(tool, shown):
                scope = f"{tool}({exact_path(shown)})"
                return ask(f"{shown}: {why}.{link_note}", scope=scope), "protected file"
        return self._judge_other(call, link_note)

    def _explain_execution(self, path: Path, shown: str) -> str:
        """Return what executes a file or takes commands from it; empty if nothing does."""
        for executed, by in self.executed:
            if path.is_relative_to(executed):
                return f"it is executed by {by}"
        return protected_files.governing(shown) or protected_files.metadata(str(path))

    def _judge_other(self, call: CheckedCall, link_note: str = "") -> Judged:
        facts = call.facts
        scope = _make_scope(facts)
        question = self._find_question(facts)
        if question:
            return ask(question[0] + link_note, scope=scope), _name_source(question[1])
        leak = self._find_leak(facts)
        if leak:
            # A rule for the tool or the host does not cover the data in this URL, so only a rule
            # for the exact URL replaces the approval.
            url_rule = self._find_url_rule(facts)
            if url_rule:
                return _allow_by(url_rule)
            return ask(leak, scope=_make_url_scope(facts)), "address"
        rule = self._find_rule("allow", facts)
        if rule:
            return _allow_by(rule)
        unknown_host = self._find_unknown_host(facts)
        if unknown_host is not None:
            return ask(_explain_unknown_host(facts, unknown_host), scope=scope), "address"
        if call.changes and self.approve == "ask_first":
            return ask(POLICY + link_note, scope=scope), "policy"
        return None, "policy"

    def _find_leak(self, facts: CallFacts) -> str:
        """Return why a call's URL may leak data; empty if nothing suggests a leak."""
        if not _fetches_address(facts):
            return ""
        why = carried_data(str(facts.arguments["url"]))
        if not why:
            return ""
        reason = f"The address may leak data: {why}."
        host = self._find_unknown_host(facts)
        return reason if host is None else f"{reason} {_explain_unknown_host(facts, host)}"

    def _find_url_rule(self, facts: CallFacts) -> Rule | None:
        """Return the rule that allows exactly a call's URL."""
        wanted = f"url={facts.arguments['url']}"
        for rule in self.rules.of("allow"):
            # The URL is compared as text, because `?` in a pattern is a wildcard.
            if rule.tool == facts.tool and rule.pattern == wanted:
                return rule
        return None

    def _find_unknown_host(self, facts: CallFacts) -> str | None:
        """Return a host in a call's URL that nobody mentioned, or None if there is none.

        The host is empty if the URL has no host that hilum can read.
        """
        if not _fetches_address(facts):
            return None
        # A prompt injection may make the model choose a host that receives leaked data. A URL may
        # also contain another URL, to which the first server forwards the request.
        for host in (facts.host, *hosts_within(str(facts.arguments["url"]))):
            if not is_known(host, self.known_hosts):
                return host
        return None

    # --- commands ---------------------------------------------------------------------------------

    def _judge_command(self, call: CheckedCall, command_verdict: CommandVerdict) -> Judged:
        facts = call.facts
        for command in command_verdict.all_commands:
            # A command must not change the rules that judge it, under any policy.
            why = protected_files.governs_hilum(command.words + command.writes, command.cwd)
            if why:
                verdict = deny(f"{why}. No tool may change what governs hilum.")
                return verdict, "self-protection"
        # The scope of an approval for the whole command. For grave commands and secrets, the scope
        # is the exact text instead.
        scope = suggest_rule(facts.tool, str(facts.arguments["command"]), command_verdict)
        if self.once_only:
            scope = _make_exact_scope(facts)
        exact_rule = self._find_exact_rule(facts)
        question = self._question_dangers(call, command_verdict, scope, exact_rule)
        if question:
            return question
        asked = self._find_question(facts)
        if asked:
            return ask(asked[0], scope=scope), _name_source(asked[1])
        rule = exact_rule or self._find_allowing_rule(call, command_verdict)
        unshown = ""
        if exact_rule is None and (rule is None or _is_limited(rule)):
            unshown = self._find_unshown(call, command_verdict)
        if rule and not unshown:
            return _allow_by(rule)
        if unshown:
            scope = _make_exact_scope(facts)
        if unshown and rule:
            reason = _explain_unshown(rule, unshown)
            command_verdict = attrs.evolve(command_verdict, reason=reason)
        if command_verdict.kind != "auto":
            return self._judge_by_policy(command_verdict, scope)
        possible = self._find_possible_question(facts)
        if possible:
            reason = f"It may read what needs approval: {_locate(possible)}."
            return ask(reason, scope=scope), _name_source(possible)
        return self._judge_harmless(call, command_verdict, scope)

    def _question_dangers(
        self,
        call: CheckedCall,
        command_verdict: CommandVerdict,
        scope: str,
        exact_rule: Rule | None,
    ) -> Judged | None:
        """Return the question about protected files, secrets and grave commands, if any.

        The content of a script or an alias may change after an approval. Therefore no approval of
        the command line covers what such content does; only an approval of the exact text of the
        dangerous command in it does.
        """
        typed = self._find_typed_dangers(call, command_verdict, scope, exact_rule)
        dangers = [*typed, *self._find_implied_dangers(call, command_verdict)]
        left = [danger for danger in dangers if danger.scope not in self.grants]
        if not left:
            # The kernel finds that the user has approved this exact command line.
            left = typed
        if not left:
            return None
        reasons = dict.fromkeys(danger.reason for danger in left)
        return ask(" ".join(reasons), scope=left[0].scope), left[0].source

    def _find_typed_dangers(
        self,
        call: CheckedCall,
        command_verdict: CommandVerdict,
        scope: str,
        exact_rule: Rule | None,
    ) -> list[_Danger]:
        """Return the dangers of the commands in the text itself."""
        found = []
        for path in self._find_changed(call, command_verdict):
            why = protected_files.restricting(path)
            if why:
                found.append(
                    _Danger("", f"It changes {path}: {why}.", protected_files.RESTRICTING_FILE)
                )
        exact_scope = _make_exact_scope(call.facts)
        written = self._find_protected_writes(call, command_verdict)
        if written and exact_rule is None:
            found.append(_Danger(scope, next(iter(written.values())), "protected file"))
        secrets = self._find_secrets_of(call, command_verdict.commands)
        # A rule for this exact text covers a secret file that the command writes, but no other
        # secret.
        approved = exact_rule is not None and not (written and secrets.keys() - written.keys())
        if secrets and not approved:
            found.append(_Danger(exact_scope, _explain_secrets(secrets), "secret file"))
        for command in command_verdict.commands:
            if command.grave and exact_rule is None:
                found.append(_Danger(exact_scope, _explain_grave(command), "grave command"))
        return found

    def _find_changed(self, call: CheckedCall, command_verdict: CommandVerdict) -> set[str]:
        """Return the paths that a command changes, where no sandbox prevents it."""
        if not self.changes_prevented:
            effects = call.facts.resolved.effects
            return {each.path for each in effects if each.kind in ("write", "delete")}
        # The sandbox permits what the user approves, and the user approves redirections.
        written = chain.from_iterable(each.writes for each in command_verdict.commands)
        return {shown_path(os.path.join(call.root, path), str(call.root)) for path in written}

    def _find_implied_dangers(
        self, call: CheckedCall, command_verdict: CommandVerdict
    ) -> list[_Danger]:
        """Return the dangers of the commands that the text runs without naming them."""
        found = []
        uses_secrets = bool(self.find_secrets(call))
        for command in dict.fromkeys(command_verdict.implied):
            if not (command.grave or uses_secrets) or self._allows_text(call, command):
                continue
            scope = f"{call.facts.tool}({EXACT}{command.source})"
            secrets = self._find_secrets_of(call, (command,)) if uses_secrets else {}
            if secrets:
                found.append(_Danger(scope, _explain_secrets(secrets), "secret file"))
            if command.grave:
                found.append(_Danger(scope, _explain_grave(command), "grave command"))
        return found

    def _allows_text(self, call: CheckedCall, command: SimpleCommand) -> bool:
        """Return whether a rule allows exactly the text of a command that a script contains."""
        facts = attrs.evolve(call.facts, arguments={"command": command.source})
        return self._find_exact_rule(facts) is not None

    def _judge_by_policy(self, command_verdict: CommandVerdict, scope: str) -> Judged:
        """Return the verdict on a command that is not harmless and not covered by a rule."""
        if self.approve == "ask_first":
            return ask(command_verdict.reason, scope=scope), "policy"
        if self.files_confined:
            return allow("The sandbox confines it."), "policy, sandbox"
        if self.run_unsandboxed:
            reason = "No sandbox confines it, and you allow commands to run without one."
            return allow(reason), "guard.unsandboxed = run"
        return ask(
            f"{command_verdict.reason} {UNCONFINED.format(scope=shlex.quote(scope))}", scope=scope
        ), "no sandbox"

    def find_secrets(self, call: CheckedCall) -> dict[str, str]:
        """Return the secret files that a command names, each with the reason.

        Files that a rule allows by name are omitted.
        """
        return self._select_secrets(call, call.facts.resolved)

    def _find_secrets_of(
        self, call: CheckedCall, commands: Sequence[SimpleCommand]
    ) -> dict[str, str]:
        """Return the secret files that some of a call's commands name, each with the reason."""
        resolved = resolve_effects(commands, str(call.root), complete=True)
        return self._select_secrets(call, resolved)

    def _select_secrets(self, call: CheckedCall, resolved: ResolvedEffects) -> dict[str, str]:
        found: dict[str, str] = {}
        for effect in resolved.effects:
            full = os.path.join(call.root, effect.path)
            if not _touches_content(effect, full):
                continue
            why = protected_files.secret(effect.path) or protected_files.linked_secret(
                Path(full), effect.path
            )
            if why and not any(self._is_named(tool, effect.path) for tool in _READ_RULES):
                found[effect.path] = why
        return found

    def _find_protected_writes(
        self, call: CheckedCall, command_verdict: CommandVerdict
    ) -> dict[str, str]:
        """Return the protected files that redirections write, each with a sentence about it."""
        found: dict[str, str] = {}
        for command in command_verdict.commands:
            for written in command.writes:
                path = resolve_links(os.path.join(command.cwd or call.root, written))
                shown = shown_path(path, str(call.root))
                if shown.startswith("/") and not is_below(path, map(str, call.extra_roots)):
                    continue
                why = self._explain_execution(Path(path), shown)
                if why:
                    found[shown] = f"It writes {shown}: {why}."
        return found

    def _judge_harmless(
        self, call: CheckedCall, command_verdict: CommandVerdict, scope: str
    ) -> Judged:
        """Return the verdict on a harmless command; its redirections are judged as writes."""
        if not command_verdict.writes:
            return allow(command_verdict.reason, settled=True), "harmless command"
        shown = tuple(shown_path(path, str(call.root)) for path in command_verdict.writes)
        paths = tuple(zip(map(Path, command_verdict.writes), shown, strict=True))
        resolved = ResolvedEffects(tuple(Effect("write", path) for path in shown))
        facts = CallFacts("write_file", {}, shown, category="write", resolved=resolved)
        verdict, source = self.judge(CheckedCall(facts, "write", call.root, paths))
        if verdict is not None and verdict.kind == "ask":
            return ask(verdict.reason, scope=scope), source
        return verdict, source

    # --- rules that allow commands ----------------------------------------------------------------

    def _find_exact_rule(self, facts: CallFacts) -> Rule | None:
        """Return the rule that allows exactly this command line."""
        for rule in self.rules.of("allow"):
            if (rule.pattern or "").startswith(EXACT) and fit(rule, facts) == "yes":
                return rule
        return None

    def _find_allowing_rule(
        self, call: CheckedCall, command_verdict: CommandVerdict
    ) -> Rule | None:
        """Return one of the rules that together allow the whole command line; None if they do not.

        Rules allow a command line if each simple command matches a rule or is harmless alone, and
        nothing is redirected to a file. A rule such as `git checkout *` allows no dangerous command,
        because the user may have stored it when approving a harmless one.
        """
        rule = self._find_rule_by_effects(call, command_verdict)
        if rule:
            return rule
        # A rule without its pattern matches all calls of its tools, so this comparison selects the
        # rules about this tool.
        rules = self.rules.of("allow")
        fitting = [
            each for each in rules if fit(attrs.evolve(each, pattern=None), call.facts) == "yes"
        ]
        if self.once_only:
            fitting = [each for each in fitting if not each.about_program]
        about_all = next((each for each in fitting if each.about_all), None)
        if about_all or not fitting or not command_verdict.complete:
            return about_all
        written = chain.from_iterable(command.writes for command in command_verdict.commands)
        # A rule that allows a command does not allow redirecting its output to a file.
        if any(path != "/dev/null" for path in written):
            return None
        return _find_rule_of_parts(fitting, call, command_verdict)

    def _find_unshown(self, call: CheckedCall, command_verdict: CommandVerdict) -> str:
        """Return what a command does that a rule such as `npm run x` does not show.

        The result is an option, or a phrase about the script that the command runs.
        """
        from hilum_guard.dangers.unshown import find_unshown_effect, find_unshown_option

        if command_verdict.kind == "auto":
            return ""
        patterns = [
            pattern_words(rule.pattern or "")
            for rule in self.rules.of("allow")
            if not rule.about_all and fit(attrs.evolve(rule, pattern=None), call.facts) == "yes"
        ]
        for command in command_verdict.commands:
            fitting = [each for each in patterns if allowed([each], [command])]
            # Without a rule, the question is which lasting approval it may create.
            known = fitting or [(*command.words[:1], "", "*")]
            options = [find_unshown_option(each, command.words) for each in known]
            if all(options):
                return f"has the option {options[0]}"
        implied = [each for each in command_verdict.implied if not allowed(patterns, [each])]
        effect = find_unshown_effect(command_verdict, implied, str(call.root))
        return f"runs a script that {effect}" if effect else ""

    def _find_rule_by_effects(
        self, call: CheckedCall, command_verdict: CommandVerdict
    ) -> Rule | None:
        """Return a ``write(…)`` rule if such rules allow all effects of a command."""
        resolved = call.facts.resolved
        if resolved.unread or resolved.network or resolved.hosts:
            return None
        if not command_verdict.complete or not all(map(_is_plain, command_verdict.commands)):
            return None
        of_writing = [rule for rule in self.rules.of("allow") if rule.tool == "write"]
        return _find_rule_of_effects([rule for rule in of_writing if rule.about_paths], resolved)


def _find_rule_of_effects(rules: Sequence[Rule], resolved: ResolvedEffects) -> Rule | None:
    """Return one of the rules if they allow every write and every read is harmless."""
    reads = [effect for effect in resolved.effects if effect.kind == "read"]
    if not all(map(_is_harmless_read, reads)):
        return None
    used: list[Rule] = []
    for effect in resolved.effects:
        if effect.kind == "read":
            continue
        by = _find_rule_of_path(rules, effect.path)
        if by is None or not effect.certain:
            return None
        used.append(by)
    return used[0] if used else None


def _find_rule_of_parts(
    rules: Sequence[Rule], call: CheckedCall, command_verdict: CommandVerdict
) -> Rule | None:
    """Return one of the rules if each simple command matches a rule or is harmless alone."""
    used: list[Rule] = []
    for command in command_verdict.commands:
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
        if rule.fits_path(path):
            return rule
    return None


def _touches_content(effect: Effect, full: str) -> bool:
    """Return whether an effect on a path concerns a file's content."""
    if effect.kind == "delete":
        return False
    if effect.kind == "read":
        return not os.path.isdir(full)
    return effect.kind != "any" or os.path.isfile(full)


def _explain_grave(command: SimpleCommand) -> str:
    return f"{command.grave} ({command.source[:MAX_SOURCE]})"


def _explain_secrets(secrets: Mapping[str, str]) -> str:
    listed = ", ".join(f"{path} ({why})" for path, why in secrets.items())
    return f"It uses {listed}."


def _is_limited(rule: Rule) -> bool:
    """Return whether a rule allows only commands that are like the one that it names."""
    # A rule such as `write(docs/**)` allows effects, so it shows them.
    return not rule.about_all and rule.tool != "write"


def _explain_unshown(rule: Rule, unshown: str) -> str:
    return (
        f"It {unshown}, which the rule that allows it does not show: {rule.text}. Only a rule for"
        " the exact text covers it."
    )


def _allow_by(rule: Rule) -> Judged:
    return allow(f"A rule allows it: {rule.text}.", settled=True), _name_source(rule)


def _fetches_address(facts: CallFacts) -> bool:
    """Return whether a call fetches a URL that hilum has to check."""
    url = facts.arguments.get("url")
    if facts.category != "network" or not isinstance(url, str) or not url.strip():
        return False
    if not facts.host and facts.tool in _WEB_TOOLS:
        return False
    # The tool's settings determine whether it may contact servers on this machine.
    return not is_loopback(facts.host)


def _explain_unknown_host(facts: CallFacts, host: str) -> str:
    if not host:
        return "hilum cannot determine the host of the address."
    allowing = f"hilum permissions allow {shlex.quote(f'{facts.tool}({DOMAIN}{host})')}"
    return f"Neither you nor a search named the host {host}. To always allow it: {allowing}."


def _make_exact_scope(facts: CallFacts) -> str:
    """Return the rule that matches exactly this command."""
    return f"{facts.tool}({EXACT}{facts.arguments['command']})"


def _make_url_scope(facts: CallFacts) -> str:
    """Return the rule that matches exactly a call's URL."""
    return f"{facts.tool}(url={facts.arguments['url']})"


def _make_scope(facts: CallFacts) -> str:
    """Return the rule that a lasting approval of a call would create."""
    if facts.host:
        return f"{facts.tool}({DOMAIN}{facts.host})"
    url = facts.arguments.get("url")
    if facts.category == "network" and isinstance(url, str) and url:
        return _make_url_scope(facts)  # never all hosts
    return facts.tool


def _explain_denial(rule: Rule, facts: CallFacts) -> str:
    """Return the message to the model about a call that a rule denies."""
    why = unresolved_reason(rule, facts)
    shown = f"{rule.shown} of {rule.agent}" if rule.agent else rule.text
    if why:
        return f"A user rule may deny it: {shown} ({rule.source}); {why}. Run the command itself."
    return f"A user rule denies it: {shown} ({rule.source})."


def _locate(rule: Rule) -> str:
    """Return a rule as written, with its place if it is in the file of another agent."""
    return f"{rule.shown} of {rule.agent} ({rule.source})" if rule.agent else rule.text


def _is_plain(command: SimpleCommand) -> bool:
    return command.literal and not command.assigned and not command.wrapper


def _is_harmless_alone(command: SimpleCommand, call: CheckedCall) -> bool:
    """Return whether a simple command alone would run without approval."""
    if harmless_wrapper(command):
        return True
    if not command.literal or command.assigned or command.cwd is None:
        return False
    # The command is judged alone, because the whole line may need approval for another reason.
    command_verdict = judge_command(
        command.source,
        workspace=call.root,
        folder=Path(command.cwd),
        extra_roots=call.extra_roots,
    )
    return command_verdict.kind == "auto" and not command_verdict.writes


def _name_source(rule: Rule) -> str:
    # Some agents write the effect into the rule.
    shown = rule.shown.removeprefix(f"{rule.effect} ")
    return f"{rule.effect} {shown} ({rule.source})"
