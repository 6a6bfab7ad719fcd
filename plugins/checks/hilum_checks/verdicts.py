"""Judges calls by the rules' checks.

The strictest rule wins. A call that may break a rule, but does not certainly do so, needs approval.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Protocol

import attrs
from hilum import Agent, Tool, ToolCall, Verdict, ask, deny
from hilum_guard import UNKNOWN, FileAccess, is_new_file, resolve_links, search, server_tools

from hilum_checks import code_reads, code_texts, command_matcher, host_matcher
from hilum_checks.call_facts import CallFacts
from hilum_checks.call_history import CallHistory
from hilum_checks.command_facts import CommandFacts
from hilum_checks.file_names import match_names
from hilum_checks.lasting_commands import select_lasting
from hilum_checks.model import (
    EVERYTHING,
    Accompanied,
    Check,
    Commands,
    Constraint,
    Content,
    Effect,
    Hosts,
    Messages,
    Names,
    Paths,
    Preceded,
    ReadFirst,
    RunFirst,
    Tools,
)
from hilum_checks.path_matcher import Fit
from hilum_checks.written_texts import match_content, match_messages

MAX_QUOTED = 300
"""Maximum number of characters to quote from a rule in a denial."""


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


_NEXT_STEPS: dict[type[Any], str] = {
    Paths: "Leave those files unchanged, or tell the user what should be changed in them.",
    Commands: "Do without this command; if it is needed, ask the user to run it.",
    Tools: "Do without this tool.",
    Hosts: "Do without this host; if it is needed, tell the user.",
    Content: "Write the file without this text.",
    Names: "Give the file another name.",
    Messages: "Write another text.",
    ReadFirst: "Read that file first; then this call is allowed.",
    Accompanied: "Make the change that belongs to it first.",
    Preceded: "Run the required command first until it succeeds: as a call of its own, or with `&&` before"
    " this one, with nothing between them that writes files.",
    RunFirst: "Run the required command first, as a call of its own; then this call is allowed.",
}


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
    facts = CallFacts.parse(tool, arguments, root)
    question: Verdict | None = None
    for rule, effect, constraint in parts_of(rules):
        if isinstance(constraint, Preceded | Accompanied):
            if constraint.before is None or not _must_wait(constraint, history, facts):
                continue
            kind: type[Any] = type(constraint)
            constraint = constraint.before
        elif isinstance(constraint, ReadFirst):
            if history is not None and history.has_read(constraint.needed, root):
                continue
            kind = ReadFirst
            constraint = constraint.before
        elif isinstance(constraint, RunFirst):
            if history is not None and history.has_run(constraint.needed, root):
                continue
            kind = RunFirst
            constraint = constraint.before
        else:
            kind = type(constraint)
        fit, action = _match(constraint, facts)
        if fit != "yes" and isinstance(constraint, Commands):
            fit, action = _match_recipes(constraint, facts, rule, (fit, action))
        # A command that only has to run once protects nothing, so that nobody is asked about a doubt.
        if not fit or (fit == "maybe" and kind is RunFirst):
            continue
        # To read a file costs nothing, so that nobody needs to be asked about a doubt.
        if effect == "deny" and (fit == "yes" or kind is ReadFirst):
            next_step = _find_next_step(kind, constraint)
            # Nothing is stricter than a denial, so the other rules need not be checked.
            return deny(f"{quote_rule(rule)} forbids it: {action}. {next_step}")
        # An approval question is best explained by a rule that requires approval and certainly
        # matches.
        if question is None or (effect == "ask" and fit == "yes"):
            question = _question(rule, effect, action)
    return question


def _find_next_step(kind: type[Any], constraint: Constraint) -> str:
    """Return what the model should do after a denial."""
    if isinstance(constraint, Messages) and constraint.kind == "commit message":
        return "Commit with another message."
    if isinstance(constraint, Content) and constraint.wanted:
        return "Write the file with this text."
    return _NEXT_STEPS[kind]


def _must_wait(
    constraint: Preceded | Accompanied, history: CallHistory | None, facts: CallFacts
) -> bool:
    """Return whether something must be done before other commands may run."""
    return history is None or history.must_wait(constraint, facts)


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


def need_history(rules: Iterable[EnforcedRule]) -> bool:
    """Return whether one of the rules requires that something has been done before."""
    return any(
        isinstance(constraint, Preceded | Accompanied | ReadFirst | RunFirst)
        for _, _, constraint in parts_of(rules)
    )


def need_reads(rules: Iterable[EnforcedRule]) -> bool:
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
    # A rules file may be called ``[a].mdc``, which would be a pattern.
    escaped = [re.sub(r"([\\*?\[\] ])", r"\\\1", path) for path in paths]
    constraint = Paths(tuple(f"/{path}" for path in escaped))
    facts = CallFacts.parse(tool, call.arguments, agent.session.workspace.root)
    fit, action = _match_paths(constraint, facts)
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
    for fit, access, path in _matching_accesses(constraint, facts):
        if fit == "yes":
            return f"{_describe_access(access)} {path[:200]}"
    return ""


def quote_rule(rule: EnforcedRule) -> str:
    """Quote a rule with its file and line."""
    text = rule.sentence
    if len(text) > MAX_QUOTED:
        text = f"{text[: MAX_QUOTED - 1]}…"
    place = f"{rule.path}:{rule.line}" if rule.line else rule.path
    return f"The rule “{text}” ({place})"


def _match(constraint: Constraint, facts: CallFacts) -> tuple[Fit, str]:
    match = _MATCHERS.get(type(constraint))
    return match(constraint, facts) if match else ("", "")


# --- paths ----------------------------------------------------------------------------------------


def _match_paths(constraint: Paths, facts: CallFacts) -> tuple[Fit, str]:
    doubt = ""
    for fit, access, path in _matching_accesses(constraint, facts):
        action = f"{_describe_access(access)} {path[:200]}"
        if fit == "yes":
            return "yes", action
        doubt = doubt or action
    if not constraint.outside and constraint.patterns != EVERYTHING:
        action = _find_in_code(constraint, facts)
        if action:
            return "yes", action
        fit, action = _find_in_loaded(constraint, facts)
        if fit == "yes":
            return fit, action
        doubt = doubt or action
    if not doubt and facts.tool.risk == "execute":
        doubt = (
            facts.unknown_command
            or _find_object_reader(constraint, facts)
            or _find_hidden_paths(constraint, facts)
        )
    return ("maybe", doubt) if doubt else ("", "")


def _matching_accesses(
    constraint: Paths, facts: CallFacts
) -> Iterator[tuple[Fit, FileAccess, str]]:
    """Yield the accesses that a constraint covers or may cover, each with the covered path."""
    for access in facts.accesses:
        fit = facts.matcher.match(constraint, access)
        fit = fit or facts.matcher.match_stored(constraint, access)
        if fit:
            yield fit, access, access.path
    for access, findings in facts.found_files:
        fit, path = facts.matcher.match_found(constraint, access, findings)
        if fit:
            yield fit, access, path


def _describe_access(access: FileAccess) -> str:
    if access.kind == "link" or (access.kind == "write" and access.existing):
        return "it changes"
    return _ACCESSES[access.kind]


_ACCESSES = {
    "read": "it reads",
    "any": "it reads",
    "write": "it writes",
    "delete": "it deletes or moves",
}


def _find_in_code(constraint: Paths, facts: CallFacts) -> str:
    """Return the forbidden path that is named in code that may write it.

    Paths that code does not name are covered by the sandbox.
    """
    for command in facts.commands:
        for text in facts.texts_of(command):
            path = _find_path_in_text(constraint, facts, command, text)
            # A rule about writing does not forbid code that reads the file and writes another.
            if path and "read" not in constraint.actions:
                reduced = code_reads.remove_reads(text)
                path = _find_path_in_text(constraint, facts, command, reduced)
            if path:
                return f"the code that it runs contains {path[:200]}"
    return ""


def _find_in_loaded(constraint: Paths, facts: CallFacts) -> tuple[Fit, str]:
    """Return whether a new module or test that a command loads may access a forbidden path."""
    for command in facts.commands:
        for text in command.loaded_texts:
            reduced = text if "read" in constraint.actions else code_reads.remove_reads(text)
            path = _find_path_in_text(constraint, facts, command, reduced, with_words=False)
            if path:
                # A test may only pretend to write the file.
                fit: Fit = "maybe" if _PRETENDS.search(text) else "yes"
                return fit, f"the code that it loads contains {path[:200]}"
            # A path that code assembles names at least a folder, except if the code decodes it.
            is_hidden = code_texts.decodes_paths(text) and _access_of_code(constraint, text)
            if is_hidden and not facts.matcher.is_kept_by_sandbox(constraint):
                shown = command.source[:80]
                return "maybe", f"the path that `{shown}` uses is known only at run time"
    return "", ""


_PRETENDS = re.compile(r"\btmp_path|\btmpdir|tempfile|\bmock|monkeypatch|\bfake", re.IGNORECASE)


def _find_path_in_text(
    constraint: Paths,
    facts: CallFacts,
    command: CommandFacts,
    text: str,
    *,
    with_words: bool = True,
) -> str:
    """Return the forbidden path that a text names, if it may write such a file.

    Args:
        constraint: The constraint.
        facts: The call.
        command: The command that runs the text as code.
        text: The text.
        with_words: Whether the code may use the words of the command as paths.
    """
    access = _access_of_code(constraint, text)
    if access is None:
        return ""
    # Code may resolve a relative path against the working directory or the workspace.
    access = attrs.evolve(access, cwds=(command.cwd, str(facts.matcher.root)), deep="some")
    # Code may use the arguments of its command as paths.
    words = [word.rpartition("=")[2] for word in command.words[1:] if with_words]
    for path in (*code_texts.find_paths(text), *words):
        named = attrs.evolve(access, path=path)
        # Possible matches are ignored, because nearly every word in a program could be a
        # path.
        for each in (named, *facts.accesses_by_links((named,))):
            # Only the shell resolves patterns, and code may contain `*` for other reasons.
            is_pattern = path in words and any(char in path for char in "*?[")
            is_path = is_pattern or _may_be_path(each)
            if is_path and facts.matcher.match(constraint, each) == "yes":
                return path
    return ""


def _find_hidden_paths(constraint: Paths, facts: CallFacts) -> str:
    """Return what a command does if its code assembles a path that the sandbox would not protect.

    The sandbox protects files that exist, and folders in which nothing may change.
    """
    # A name says nothing secret: what may rename a file unseen needs no approval.
    if constraint.outside or constraint.actions == {"move"}:
        return ""
    # The sandbox protects the files of the workspace's own working tree only.
    if facts.matcher.is_kept_by_sandbox(constraint) and not facts.enters_linked_tree:
        return ""
    for access in facts.accesses:
        if access.certain and access.kind in ("write", "delete") and not access.path.strip(UNKNOWN):
            return "a path that it writes is known only at run time"
    line = "\n".join(facts.command_texts)
    for command in facts.commands:
        # Code is judged by what it says.
        for access in () if command.texts else command.effects.files:
            # A program may create a file that must only not be edited by hand.
            if not constraint.by_hand and _may_create(constraint, access, facts):
                return f"it may create {access.path[:200]}"
    for command in facts.commands:
        for text in facts.texts_of(command):
            # Quotes may make the code differ from its spelling on the line.
            is_written = text in line or text in command.effects.code or text == facts.written_code
            is_new = is_written or _runs_new_script(command, facts)
            is_hidden = any(UNKNOWN in word for word in command.words[1:])
            is_hidden = is_hidden or code_texts.hides_paths(text, is_new=is_new)
            if is_hidden and _access_of_code(constraint, text):
                return f"the path that `{command.source[:80]}` uses is known only at run time"
    return ""


def _may_create(constraint: Paths, access: FileAccess, facts: CallFacts) -> bool:
    """Return whether a program receives the name of a new file, which it probably creates."""
    if (access.kind != "any" and access.certain) or UNKNOWN in access.path:
        return False
    paths = [os.path.join(cwd or "/", access.path) for cwd in access.cwds]
    created = attrs.evolve(access, kind="write", certain=True)
    is_new = not any(map(os.path.lexists, paths))
    return is_new and facts.matcher.match(constraint, created) != ""


_OBJECTS = re.compile(r"(?:.*/)?\.git(?:/+objects(?:/.*)?|/*)", re.DOTALL)


def _find_object_reader(constraint: Paths, facts: CallFacts) -> str:
    """Return the command that may read the files of Git's object database itself."""
    if "read" not in constraint.actions:
        return ""
    for command in facts.commands:
        accesses = [
            access
            for access in command.effects.files
            if access.kind == "read" and not access.stored and _OBJECTS.fullmatch(access.path)
        ]
        if not accesses and not _reads_objects(command, facts):
            continue
        everything = FileAccess("read", ".", deep="some", stored=True, cwds=command.cwds)
        if facts.matcher.match_stored(constraint, everything):
            return f"`{command.source[:80]}` may read what Git has stored of such a file"
    return ""


# Code that opens Git's objects itself, or by a library.
_OF_OBJECTS = re.compile(
    r"\.git[/\\]+(?:objects|[a-z]*[*?\[])|['\"]\.git['\"]\s*[,/]\s*['\"]objects|\b(?:dulwich|pygit2)\b"
    r"|\bgit\.Repo\b|isomorphic-git|nodegit"
)
# Code that unpacks what it reads; Git stores its objects in this form.
_UNPACKS = re.compile(r"\b(?:zlib|Zlib|inflate\w*|decompress\w*|unpigz|pigz)\b")
_SEARCHES = re.compile(
    r"\b(?:walk|i?glob|rglob|iterdir|scandir|listdir|readdir\w*|find|stdin|argv|environ|open|Dir)\b"
)
_UNPACKERS = frozenset(
    "pigz unpigz zlib-flate openssl gzip gunzip zcat python python3 perl ruby node cp tar rsync".split()
)


def _reads_objects(command: CommandFacts, facts: CallFacts) -> bool:
    """Return whether code, or a program that a `find` runs, may read Git's objects."""
    if any(_OF_OBJECTS.search(text) for text in (*command.texts, *command.loaded_texts)):
        return True
    texts = [*command.effects.code, *command.loaded_texts]
    if _runs_new_script(command, facts):
        texts += command.texts
    # What the program reads, it may also receive from its input.
    if any(_UNPACKS.search(text) and _SEARCHES.search(text) for text in texts):
        return True
    if command.effects.program not in _UNPACKERS:
        return False
    for found in command.effects.found:
        findings = search(found.query)
        entries = () if findings is None else findings.entries
        if any("/.git/objects/" in entry.path for entry, _ in entries):
            return True
    return False


def _runs_new_script(command: CommandFacts, facts: CallFacts) -> bool:
    script = command.effects.script
    if script is None or UNKNOWN in script.path:
        return False
    path = os.path.join(command.cwd or "/", os.path.expanduser(script.path))
    twin = facts.matcher.find_twin(path)
    # Git writes the project's scripts anew when it adds a working tree.
    if twin and code_texts.read_text(path) == code_texts.read_text(twin):
        path = twin
    return is_new_file(path, facts.matcher.real_root)


def _access_of_code(constraint: Paths, text: str) -> FileAccess | None:
    """Return the forbidden action that code may perform on a path that it names."""
    actions = constraint.actions
    text = code_texts.join_literals(text)
    if "delete" in actions and code_texts.may_delete(text):
        return FileAccess("delete", "")
    if "move" in actions and code_texts.may_move(text):
        return FileAccess("delete", "", moved=True)
    if {"create", "change"} & actions and code_texts.may_write(text):
        return FileAccess("write", "", existing="change" in actions)
    if "read" in actions and code_texts.may_read(text):
        return FileAccess("read", "")
    return None


def _may_be_path(access: FileAccess) -> bool:
    """Return whether a word in code is probably a path and not another name."""
    if "." in access.path or "/" in access.path:
        return True
    paths = [os.path.join(cwd or "/", access.path) for cwd in access.cwds]
    return any(map(os.path.lexists, paths))


# --- commands, hosts and tools --------------------------------------------------------------------


def _match_commands(constraint: Commands, facts: CallFacts) -> tuple[Fit, str]:
    commands = [command for command in facts.commands if _runs_in(constraint, facts, command)]
    return _match_each(
        commands, lambda command: command_matcher.match_command(constraint, command), facts
    )


def _match_recipes(
    constraint: Commands, facts: CallFacts, rule: EnforcedRule, otherwise: tuple[Fit, str]
) -> tuple[Fit, str]:
    """Return whether a recipe or npm script of the project runs a forbidden command.

    Args:
        constraint: The constraint.
        facts: The call.
        rule: The rule, which may recommend a target: "never run `pip publish`, use `make publish`".
        otherwise: The result without recipes.
    """
    lasting = select_lasting(constraint) if facts.recipes else None
    if lasting is None:
        return otherwise
    best = otherwise
    for command in facts.recipes:
        if not _runs_in(constraint, facts, command) or _is_recommended(rule, command):
            continue
        fit = command_matcher.match_command(lasting, command)
        runner = " ".join(command.command.runners[-1]) if command.command.runners else "the script"
        action = f"`{runner[:100]}` runs `{command.source[:200]}`"
        # `make $TARGET` may run any recipe.
        if fit and any(UNKNOWN in word for words in command.command.runners for word in words):
            fit = "maybe"
        if fit == "yes":
            return "yes", action
        if fit and not best[0]:
            best = fit, action
    return best


def _is_recommended(rule: EnforcedRule, command: CommandFacts) -> bool:
    """Return whether a rule names a command that runs another one, as what to use instead."""
    for words in command.command.runners:
        text = " ".join((os.path.basename(words[0]), *words[1:]))
        named = rf"(?<![\w./-]){re.escape(text)}(?![\w:/-]|\.\w)"
        if len(words) > 1 and re.search(named, rule.sentence):
            return True
    return False


def _runs_in(constraint: Commands, facts: CallFacts, command: CommandFacts) -> bool:
    """Return whether a command may run in the folder of a constraint."""
    if constraint.folder == ".":
        return True
    wanted = resolve_links(os.path.join(facts.matcher.real_root, constraint.folder))
    # An unknown folder is treated as the rule's folder, so that the rule fails closed.
    folders = [wanted if cwd is None else resolve_links(cwd) for cwd in command.cwds]
    return any(f"{folder}/".startswith(f"{wanted}/") for folder in folders)


def _match_hosts(constraint: Hosts, facts: CallFacts) -> tuple[Fit, str]:
    for host in sorted(facts.hosts):
        if host_matcher.is_meant(constraint, host):
            return "yes", f"it contacts {host}"
    # A tool such as a web search uses the network although no argument names a host.
    if facts.tool.risk == "network" and "*" in constraint.names and not facts.hosts:
        return "yes", f"{facts.tool.name} uses the network"
    return _match_each(
        facts.commands, lambda command: host_matcher.match_command(constraint, command), facts
    )


def _match_each(
    commands: Iterable[CommandFacts], match: Callable[[CommandFacts], Fit], facts: CallFacts
) -> tuple[Fit, str]:
    """Return the first command that certainly matches, or else the first one that may match."""
    doubt = ""
    for command in commands:
        fit = match(command)
        action = f"it runs `{command.source[:200]}`"
        if fit == "yes":
            return "yes", action
        if fit:
            doubt = doubt or action
    doubt = doubt or facts.unknown_command
    return ("maybe", doubt) if doubt else ("", "")


def _match_tools(constraint: Tools, facts: CallFacts) -> tuple[Fit, str]:
    name = facts.tool.name
    if constraint.risk and facts.tool.risk == constraint.risk:
        return "yes", f"{name} can {constraint.risk}"
    # Tools of MCP servers also match without the server's name.
    names = {name.lower(), name.lower().removeprefix("mcp__"), name.rpartition("__")[2].lower()}
    for written in constraint.names:
        for pattern in (written.lower(), server_tools(written).lower()):
            if any(fnmatchcase(each, pattern) for each in names):
                return "yes", f"it calls {name}"
    return "", ""


_MATCHERS: dict[type[Any], Callable[[Any, CallFacts], tuple[Fit, str]]] = {
    Paths: _match_paths,
    Commands: _match_commands,
    Tools: _match_tools,
    Hosts: _match_hosts,
    Content: match_content,
    Names: match_names,
    Messages: match_messages,
}
