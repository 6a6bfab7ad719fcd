"""One judgement: everything that it needs of the disk is read in one thread, and the verdict uses
exactly that.

The event loop only gathers what it owns (``Question``) and takes the result (``Judged``). Nothing
here changes the state of the session, so a judgement whose disk does not answer can be abandoned.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from hilum import ToolError, Verdict, ask, deny
from hilum.errors import E_ADDRESS

from hilum_guard import rule_files

if TYPE_CHECKING:
    from hilum import Tool, Workspace

    from hilum_guard.gate import Call
    from hilum_guard.sandbox import Enforced

SECRET_ADDRESS = "a secret in an address"


@attrs.frozen
class Question:
    """What the event loop knows of a call that is to be judged.

    Attributes:
        tool: The tool; None where only the rules are read.
        arguments: Its arguments, as JSON.
        workspace: Where paths lead.
        config: The user's folder of configuration.
        rules: The rules as they were read last.
        tools: The names of the session's tools when these rules were read.
        names: The names of the session's tools now; None while there are none yet.
        catalog: The permission categories of the tools, by name.
        approve: The approval policy.
        kind: The kind of the session, for rules about one kind.
        enforced: What the sandbox enforces; None while nobody has looked.
        offline: Whether commands get no network from the sandbox.
        unheld: Whether the user lets commands run that no sandbox holds.
        known_hosts: The hosts that the user or a search named.
        named: Returns what is executed though its name does not say so. Blocks.
        placeholder: Returns why a write would destroy a secret; empty if it would not.
        carries_secret: Returns whether an address has a secret in it.
    """

    tool: Tool | None
    arguments: str
    workspace: Workspace
    config: Path
    rules: rule_files.Rules
    tools: frozenset[str] | None
    names: frozenset[str] | None
    catalog: Mapping[str, str]
    approve: str
    kind: str
    enforced: Enforced | None
    offline: bool
    unheld: bool
    known_hosts: frozenset[str]
    named: Callable[[], tuple[tuple[str, str], ...]]
    placeholder: Callable[[Call], str]
    carries_secret: Callable[[Call], bool]


@attrs.frozen
class Judged:
    """What judging a call gave.

    Attributes:
        rules: The rules that were used.
        verdict: The verdict; None for no opinion.
        source: What it comes from: a rule with its file, or a word.
        call: The call as it was read; None where its arguments do not fit.
        uses: The files of secrets that a command names, resolved.
        undecided: Whether what the sandbox enforces must be known first; then the rest says
            nothing.
    """

    rules: rule_files.Rules
    verdict: Verdict | None = None
    source: str = ""
    call: Call | None = None
    uses: frozenset[str] = frozenset()
    undecided: bool = False


def read_rules(question: Question) -> rule_files.Rules:
    """Return the rules, read again if their files or the tools changed. Blocks."""
    root = question.workspace.root
    if (
        question.rules.stamp == rule_files.stamp(question.config, root)
        and question.tools == question.names
    ):
        return question.rules
    return rule_files.load(question.config, root, question.names, question.kind)


def judge(question: Question) -> Judged:
    """Judge a call. Blocks; belongs in a thread, and may be abandoned there."""
    from hilum_guard.gate import Gate, read_call
    from hilum_guard.held_rules import denied_paths

    rules = read_rules(question)
    assert question.tool is not None
    try:
        call = read_call(question.tool, question.arguments, question.workspace)
    except ToolError as error:
        return Judged(rules, deny(str(error), code=error.code), "arguments")
    placed = question.placeholder(call)
    if placed:
        return Judged(rules, deny(placed), "a hidden secret", call)
    is_command = call.case.command is not None
    denied = tuple(rules.of("deny"))
    enforced = question.enforced
    if is_command and enforced is None and (question.approve == "auto" or denied):
        return Judged(rules, undecided=True)
    held = (
        not is_command
        or question.approve != "auto"
        or (enforced is not None and enforced.files and enforced.protected)
    )
    gate = Gate(
        rules, question.approve, bool(held), catalog=question.catalog, unheld=question.unheld
    )
    if (call.reached and call.changes) or is_command:
        gate = attrs.evolve(gate, named=question.named())
    if is_command and denied and enforced is not None:
        paths = denied_paths(denied, question.workspace.root, question.catalog)
        network_held = bool(enforced.network) and question.offline
        gate = attrs.evolve(
            gate, paths_held=enforced.protected and paths.complete, network_held=network_held
        )
    if call.case.category == "network":
        from hilum_guard.addresses import is_web_address

        url = call.case.arguments.get("url")
        if not call.case.host and is_web_address(url):
            verdict = deny(f"{url!a:.300} does not name its host plainly.", code=E_ADDRESS)
            return Judged(rules, verdict, "address", call)
        gate = attrs.evolve(gate, known_hosts=question.known_hosts)
    verdict_found, source = gate.judge(call)
    if (verdict_found is None or verdict_found.kind != "deny") and question.carries_secret(call):
        # For exactly this address: a yes to it answers for no other one, and so no wider yes
        # answers for it.
        scope = f"{call.case.tool}(url={call.case.arguments['url']})"
        return Judged(
            rules,
            ask("The address has a secret of yours in it.", scope=scope),
            SECRET_ADDRESS,
            call,
        )
    uses: frozenset[str] = frozenset()
    if is_command:
        root = question.workspace.root
        uses = frozenset(os.path.realpath(os.path.join(root, path)) for path in gate.secrets(call))
    return Judged(rules, verdict_found, source, call, uses)
