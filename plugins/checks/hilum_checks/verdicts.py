"""Judge calls by the rules' checks.

The strictest rule wins. A call that may break a rule, but does not certainly do so, needs approval.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

from hilum import Agent, Tool, ToolCall, Verdict, ask, deny

from hilum_checks.call_facts import CallFacts
from hilum_checks.call_history import CallHistory
from hilum_checks.command_verdicts import match_commands, match_hosts, match_recipes, match_tools
from hilum_checks.file_names import match_names
from hilum_checks.model import (
    ORDERS,
    Check,
    CommandBefore,
    Commands,
    Constraint,
    Content,
    Effect,
    Hosts,
    Messages,
    Names,
    Paths,
    ReadFirst,
    RunFirst,
    Tools,
)
from hilum_checks.next_steps import find_next_step
from hilum_checks.path_matcher import Fit
from hilum_checks.path_verdicts import describe_access, find_accesses, match_paths
from hilum_checks.step_limit import TooManySteps, limit_steps
from hilum_checks.written_texts import match_content, match_messages

MAX_QUOTED = 300
"""Maximum number of characters to quote from a rule in a denial."""
TOO_MUCH = (
    "The call does too much at once to be compared with the rules; split it into several calls."
)


class EnforcedRule(Protocol):
    """The parts of a rule that are needed to judge calls."""

    @property
    def sentence(self) -> str:
        """The text of the rule, as quoted in messages."""

    @property
    def path(self) -> str:
        """The file of the rule."""

    @property
    def line(self) -> int:
        """The line of the rule in its file; 0 if ``path`` says it all."""

    @property
    def check(self) -> Check | None:
        """The check that enforces the rule."""


def judge_call(
    rules: Iterable[EnforcedRule],
    agent: Agent,
    call: ToolCall,
    tool: Tool,
    history: CallHistory | None = None,
) -> Verdict | None:
    """Judge a call by all enforced rules; return ``None`` if no rule objects. Blocks.

    Args:
        rules: The rules.
        agent: The agent that makes the call.
        call: The call.
        tool: The tool.
        history: The session's earlier calls; without it, no command counts as run.
    """
    return judge(rules, call.arguments, tool, agent.session.workspace.root, history)


def judge(
    rules: Iterable[EnforcedRule],
    arguments: str,
    tool: Tool,
    root: Path,
    history: CallHistory | None = None,
) -> Verdict | None:
    """Judge a call by its arguments. See ``judge_call``."""
    try:
        with limit_steps():
            return _judge_facts(rules, CallFacts.parse(tool, arguments, root), history)
    except (TooManySteps, RecursionError):
        # The question has no scope, so that no lasting approval covers such a call.
        return ask(TOO_MUCH)


def _judge_facts(
    rules: Iterable[EnforcedRule], facts: CallFacts, history: CallHistory | None
) -> Verdict | None:
    question: Verdict | None = None
    parts = list(parts_of(rules))
    required = [each.needed for _, _, each in parts if isinstance(each, CommandBefore)]
    for rule, effect, constraint in parts:
        forbidden = constraint
        if isinstance(constraint, ORDERS):
            is_met = history is not None and history.is_met(constraint, facts, required)
            # A final answer is judged elsewhere.
            if constraint.before is None or is_met:
                continue
            forbidden = constraint.before
        if isinstance(constraint, ReadFirst) and isinstance(forbidden, Paths):
            # A formatter keeps the meaning of a file, so that nobody needs to have read it.
            fit, action = match_paths(
                forbidden, facts, is_denied=effect == "deny", with_formats=False
            )
        else:
            fit, action = _match(forbidden, facts, effect, rule.sentence)
        if fit != "yes" and isinstance(forbidden, Commands):
            fit, action = match_recipes(forbidden, facts, rule.sentence, (fit, action))
        # A command that only has to run once protects nothing, so that nobody is asked about a doubt.
        if not fit or (fit == "maybe" and isinstance(constraint, RunFirst)):
            continue
        # To read a file costs nothing, so that nobody needs to be asked about a doubt.
        if effect == "deny" and (fit == "yes" or isinstance(constraint, ReadFirst)):
            covered = None
            if isinstance(constraint, CommandBefore) and history is not None:
                covered = history.find_covered(constraint.needed, facts.matcher.root)
            next_step = find_next_step(constraint, action, rule.sentence, covered)
            # Nothing is stricter than a denial, so the other rules need not be checked.
            return deny(f"{quote_rule(rule)} forbids it: {action}. {next_step}")
        # An approval question is best explained by a rule that requires approval and certainly
        # matches.
        if question is None or (effect == "ask" and fit == "yes"):
            question = _question(rule, effect, action)
    return question


def _question(rule: EnforcedRule, effect: Effect, action: str) -> Verdict:
    reason = "may forbid it, which is known only at run time"
    if effect == "ask":
        reason = "requires approval"
    scope = f"rule {rule.path}:{rule.line}"
    return ask(f"{quote_rule(rule)} {reason}: {action}.", scope=scope)


def parts_of(
    rules: Iterable[EnforcedRule],
) -> Iterator[tuple[EnforcedRule, Effect, Constraint]]:
    """Yield the constraints of rules with their effects."""
    for rule in rules:
        if rule.check is not None:
            for effect, constraint in rule.check.parts:
                yield rule, effect, constraint


def needs_history(rules: Iterable[EnforcedRule]) -> bool:
    """Return whether one of the rules requires that something has been done before."""
    return any(isinstance(constraint, ORDERS) for _, _, constraint in parts_of(rules))


def needs_reads(rules: Iterable[EnforcedRule]) -> bool:
    """Return whether one of the rules requires that a file has been read before."""
    return any(isinstance(constraint, ReadFirst) for _, _, constraint in parts_of(rules))


def describe_rewrite(paths: Iterable[str], agent: Agent, call: ToolCall, tool: Tool) -> str:
    """Return how a call certainly writes, deletes or moves one of the given files.

    Args:
        paths: The files, relative to the workspace.
        agent: The agent that makes the call.
        call: The call.
        tool: The tool.

    Returns:
        A description, or an empty string if the call changes none of the files.
    """
    try:
        with limit_steps():
            return _describe_rewrite(paths, agent, call, tool)
    except (TooManySteps, RecursionError):
        return "it does too much at once to be compared with them"


def _describe_rewrite(paths: Iterable[str], agent: Agent, call: ToolCall, tool: Tool) -> str:
    # A rules file may be called ``[a].mdc``, which would be a pattern.
    patterns = {path: "/" + re.sub(r"([\\*?\[\] ])", r"\\\1", path) for path in paths}
    constraint = Paths(tuple(patterns.values()))
    facts = CallFacts.parse(tool, call.arguments, agent.session.workspace.root)
    for access in facts.accesses:
        # A pattern of a formatter also matches other files, but a rules file is among them.
        if not (access.generated and access.existing and re.search(r"[*?\[]", access.path)):
            continue
        for path, pattern in patterns.items():
            if facts.matcher.match(Paths((pattern,)), access) == "yes":
                return f"{describe_access(access)} {path[:200]}"
    fit, action = match_paths(constraint, facts)
    if fit == "yes":
        return action
    # A search that may find one of the files is sufficient.
    for access, findings in facts.found_files:
        path = facts.matcher.match_found(constraint, access, findings)[1]
        if path:
            return f"it may change or delete {path[:200]}"
    return ""


def describe_creation(patterns: Iterable[str], agent: Agent, call: ToolCall, tool: Tool) -> str:
    """Return how a call certainly creates one of the files that patterns describe.

    Args:
        patterns: Patterns as in ``.gitignore``, relative to the workspace.
        agent: The agent that makes the call.
        call: The call.
        tool: The tool.

    Returns:
        A description, or an empty string if the call creates no such file.
    """
    constraint = Paths(tuple(patterns), frozenset(("create",)))
    facts = CallFacts.parse(tool, call.arguments, agent.session.workspace.root)
    try:
        with limit_steps():
            for fit, access, path in find_accesses(constraint, facts):
                if fit == "yes":
                    return f"{describe_access(access)} {path[:200]}"
    except (TooManySteps, RecursionError):
        return "it does too much at once to be compared with them"
    return ""


def quote_rule(rule: EnforcedRule) -> str:
    """Quote a rule with its file and line."""
    text = rule.sentence
    if len(text) > MAX_QUOTED:
        text = f"{text[: MAX_QUOTED - 1]}…"
    place = f"{rule.path}:{rule.line}" if rule.line else rule.path
    return f"The rule “{text}” ({place})"


def _match(
    constraint: Constraint, facts: CallFacts, effect: Effect, sentence: str
) -> tuple[Fit, str]:
    if isinstance(constraint, Commands):
        return match_commands(constraint, facts, sentence)
    if isinstance(constraint, Paths):
        return match_paths(constraint, facts, is_denied=effect == "deny")
    match = _MATCHERS.get(type(constraint))
    return match(constraint, facts) if match else ("", "")


_MATCHERS: dict[type[Any], Callable[[Any, CallFacts], tuple[Fit, str]]] = {
    Tools: match_tools,
    Hosts: match_hosts,
    Content: match_content,
    Names: match_names,
    Messages: match_messages,
}
