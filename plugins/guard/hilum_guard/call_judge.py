"""Judge one call in a single thread, which does all the disk reads for that call.

The event loop only gathers the data that it owns (``JudgeRequest``) and receives the result
(``Judgement``). Nothing in this module changes the session's state, so the session can abandon a
judgement if the disk does not respond.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from hilum import ToolError, Verdict, ask, deny
from hilum.errors import E_ADDRESS
from msgspec.structs import replace

from hilum_guard.command_paths import as_seen_by_commands
from hilum_guard.hosts.addresses import is_web_address
from hilum_guard.rules import rule_files
from hilum_guard.rules.held_denials import keep_denials
from hilum_guard.sandbox.enforcement import Enforcement

if TYPE_CHECKING:
    from hilum import Tool, Workspace

    from hilum_guard.call_reader import CheckedCall
    from hilum_guard.gate import Gate
    from hilum_guard.rules.tool_names import KnownTool

SECRET_ADDRESS = "a secret in an address"


@attrs.frozen
class JudgeRequest:
    """A call to judge, with everything that the event loop knows about it.

    Attributes:
        tool: The tool, or None to read only the rules.
        arguments: The tool's arguments, as JSON.
        workspace: Resolves paths.
        config: The user's configuration folder.
        rules: The rules found by the most recent read.
        tools: The names that the session's tools had when ``rules`` were read.
        names: The current names of the session's tools, or None if the session has no tools yet.
        describe_tools: Returns the tools that rules can be checked against, by name.
        catalog: The permission categories of the tools, by name.
        approve: The approval policy.
        grants: The scopes of the lasting approvals in the session.
        once_only: Whether the user can approve only this call, because it is dangerous.
        kind: The kind of session, for rules that apply to one kind only.
        agents: The other agents whose denials apply.
        enforced: What the sandbox enforces, or None if not determined yet.
        offline: Whether the sandbox denies network access to commands.
        find_temporary_folder: Returns the folder that commands see as `/tmp`; empty if they see this
            machine's. Blocks.
        run_unsandboxed: Whether the user lets commands run without a sandbox that protects files.
        known_hosts: The hosts that the user or a search result mentioned.
        find_executed: Returns the files that are executed although their names do not suggest it,
            each with the program that executes it. Blocks.
        explain_placeholder: Returns why a call that contains a placeholder must not run; empty if
            it may run.
        carries_secret: Returns whether a URL contains a secret.
    """

    tool: Tool | None
    arguments: str
    workspace: Workspace
    config: Path
    rules: rule_files.Rules
    tools: frozenset[str] | None
    names: frozenset[str] | None
    describe_tools: Callable[[], Mapping[str, KnownTool]]
    catalog: Mapping[str, str]
    approve: str
    grants: frozenset[str]
    once_only: bool
    kind: str
    agents: tuple[str, ...]
    enforced: Enforcement | None
    offline: bool
    find_temporary_folder: Callable[[], str]
    run_unsandboxed: bool
    known_hosts: frozenset[str]
    find_executed: Callable[[], tuple[tuple[str, str], ...]]
    explain_placeholder: Callable[[CheckedCall], str]
    carries_secret: Callable[[CheckedCall], bool]


@attrs.frozen
class Judgement:
    """The result of judging a call.

    Attributes:
        rules: The rules that were used.
        verdict: The verdict, or None if the guard has no opinion.
        source: The origin of the verdict: the rule with its file, or the name of the check.
        call: The parsed call; None if its arguments are invalid.
        secrets: The resolved paths of the secret files that a command names.
        effects: What the call does although its arguments do not say so (see ``Verdict.effects``).
        dangers: The dangerous ones of such effects.
        undecided: Whether the verdict must wait until it is known what the sandbox enforces. If
            true, ``verdict`` is None.
    """

    rules: rule_files.Rules
    verdict: Verdict | None = None
    source: str = ""
    call: CheckedCall | None = None
    secrets: frozenset[str] = frozenset()
    effects: frozenset[str] = frozenset()
    dangers: frozenset[str] = frozenset()
    undecided: bool = False


def read_rules(request: JudgeRequest) -> rule_files.Rules:
    """Return the rules, reloaded if their files or the tools changed. Blocks."""
    root = request.workspace.root
    is_same = request.rules.stamp == rule_files.stamp(request.config, root, request.agents)
    if is_same and request.tools == request.names:
        return request.rules
    tools = None if request.names is None else request.describe_tools()
    rules = rule_files.load(request.config, root, tools, request.kind, request.agents)
    if is_same:
        # A tool that a rule names may have gone, so that the rule is a mistake now.
        held = request.rules.held
        return rules._replace(rules=(*rules.rules, *held), held=held)
    return keep_denials(request.rules, rules, request.config, root)


def judge(request: JudgeRequest) -> Judgement:
    """Judge a call. This function blocks, so run it in a thread that can be abandoned."""
    # The rules are read in the same thread as the call, so a new rule applies to the next call. They
    # are never read where commands may write.
    rules = read_rules(request)
    with as_seen_by_commands(request.find_temporary_folder(), str(request.workspace.root)):
        return _judge(request, rules)


def _judge(request: JudgeRequest, rules: rule_files.Rules) -> Judgement:
    from hilum_guard.call_reader import read_call  # with the first call
    from hilum_guard.hidden_effects import find_hidden_effects

    assert request.tool is not None
    try:
        call = read_call(request.tool, request.arguments, request.workspace)
    except ToolError as error:
        return Judgement(rules, deny(str(error), code=error.code), "arguments")
    # Checks that no rule can replace.
    early = _judge_early(request, rules, call)
    if early is not None:
        return early
    gate = _make_gate(request, rules, call)
    found, source = gate.judge(call)
    is_denied = found is not None and found.kind == "deny"
    if not is_denied and request.carries_secret(call):
        # An approval for this URL covers no other URL, and no wider approval covers this URL.
        scope = f"{call.facts.tool}(url={call.facts.arguments['url']})"
        question = ask("The address contains one of your secrets.", scope=scope)
        return Judgement(rules, question, SECRET_ADDRESS, call)
    if found is not None and found.kind == "ask" and _lets_run(found.scope, gate, call):
        found = replace(found, rule=found.scope)
    secrets: frozenset[str] = frozenset()
    if call.facts.command is not None:
        root = request.workspace.root
        paths = (os.path.join(root, path) for path in gate.find_secrets(call))
        secrets = frozenset(map(os.path.realpath, paths))
    effects, dangers = find_hidden_effects(call, is_asked=found is not None and found.kind == "ask")
    return Judgement(rules, found, source, call, secrets, effects, dangers)


def _lets_run(scope: str, gate: Gate, call: CheckedCall) -> bool:
    """Return whether a call would run without approval if the user allowed its scope by a rule."""
    from hilum_guard.rules.matching import parse

    if not scope:
        return False
    try:
        rule = parse(scope, "allow")
    except ValueError:
        return False  # for example, a name with a line break
    rules = gate.rules._replace(rules=(*gate.rules.rules, rule))
    verdict, _ = attrs.evolve(gate, rules=rules).judge(call)
    return verdict is None or verdict.kind == "allow"


def _judge_early(
    request: JudgeRequest, rules: rule_files.Rules, call: CheckedCall
) -> Judgement | None:
    """Return the judgement of a call that needs no gate, or None if the call needs one."""
    reason = request.explain_placeholder(call)
    if reason:
        return Judgement(rules, deny(reason), "a hidden secret", call)
    needs_sandbox = request.approve == "auto" or any(rules.of("deny"))
    if call.facts.command is not None and request.enforced is None and needs_sandbox:
        return Judgement(rules, undecided=True)
    # Programs disagree about how to parse URLs without a plain host, so rules about hosts could not
    # judge such URLs.
    url = call.facts.arguments.get("url")
    is_address = call.facts.category == "network" and is_web_address(url)
    if is_address and not call.facts.host:
        verdict = deny(f"{url!a:.300} does not name its host plainly.", code=E_ADDRESS)
        return Judgement(rules, verdict, "address", call)
    return None


def _make_gate(request: JudgeRequest, rules: rule_files.Rules, call: CheckedCall) -> Gate:
    """Return the gate for a call."""
    from hilum_guard.gate import Gate
    from hilum_guard.rules.denied_paths import find_denied_paths  # with the first call

    is_command = call.facts.command is not None
    # Without a sandbox, no files are protected.
    enforced = request.enforced or Enforcement()
    holds_files = enforced.files and enforced.protected
    denied_paths_enforced = False
    denied = tuple(rules.of("deny"))
    if is_command and denied and enforced.protected:
        paths = find_denied_paths(denied, request.workspace.roots, request.catalog)
        denied_paths_enforced = paths.complete
    executed: tuple[tuple[str, str], ...] = ()
    if is_command or (call.paths and call.changes):
        executed = request.find_executed()
    is_network = call.facts.category == "network"
    return Gate(
        rules,
        request.approve,
        files_confined=holds_files or not is_command or request.approve != "auto",
        changes_prevented=holds_files,
        denied_paths_enforced=denied_paths_enforced,
        network_blocked=bool(enforced.network) and request.offline,
        known_hosts=request.known_hosts if is_network else frozenset(),
        catalog=request.catalog,
        executed=executed,
        run_unsandboxed=request.run_unsandboxed,
        grants=request.grants,
        once_only=request.once_only,
    )
