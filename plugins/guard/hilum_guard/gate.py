"""Judges a tool call: the user's rules, what reading a command says, protected files, and the approval policy.

The order: what must never run, what a rule denies, what is always asked, what a rule or its harmlessness settles, and then
what the policy says of the rest.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import msgspec
from hilum import ToolError, Verdict, allow, ask, deny, errors

from hilum_guard.rule_files import Rules
from hilum_guard.rules import DOMAIN, EXACT, Case, Rule, allowed, exact_path, fit, pattern_words

if TYPE_CHECKING:
    from hilum import Tool, Workspace

    from hilum_guard.commands import CommandVerdict

# Parameters that hold a path in tools that read or write files.
PATHS = frozenset("path paths file files file_path folder directory source destination target".split())
POLICY = "Calls that change something are confirmed (approve = ask_first)."
UNHELD = (
    "No sandbox holds what it could write here (hilum doctor says why). To let commands run all the same, as in a container"
    ' that is thrown away: --set guard.unsandboxed=run, or a rule for it: hilum permissions allow "{scope}".'
)


@attrs.frozen
class Call:
    """A call that is judged.

    Attributes:
        case: The call as rules see it.
        risk: What the tool touches.
        reached: Of a tool with paths: the resolved ones, with how they are shown.
        shown: How it names paths, where that is not where they lead.
        folder: Of a command: where it starts.
    """

    case: Case
    risk: str
    root: Path
    reached: tuple[tuple[Path, str], ...] = ()
    shown: str = ""
    folder: Path | None = None

    @property
    def changes(self) -> bool:
        """Whether it may do anything but read."""
        return self.risk != "read"


def read_call(tool: Tool, text: str, workspace: Workspace) -> Call:
    """Make of a call what is judged: arguments checked as they will be, paths resolved, the command read.

    Args:
        tool: The tool.
        text: The arguments, as JSON.
        workspace: Where paths lead.

    Raises:
        ToolError: The arguments do not fit; or a path to be written leads out of the workspace.
    """
    checked = tool.check(text)
    arguments: dict[str, Any] = msgspec.to_builtins(checked)
    if tool.risk == "execute" and isinstance(command := arguments.get("command"), str):
        from hilum_guard.commands import judge_command

        folder = workspace.resolve(str(arguments.get("working_directory") or "."))
        read = judge_command(command, workspace=workspace.root, folder=folder)
        return Call(Case(tool.name, arguments, command=read), tool.risk, workspace.root, folder=folder)
    host = _host(arguments.get("url")) if tool.risk == "network" else ""
    named = PATHS & arguments.keys() if tool.risk in ("read", "write") else frozenset[str]()
    if tool.schema is not None or not (tool.writes or named):
        return Call(Case(tool.name, arguments, host=host), tool.risk, workspace.root)
    reached: dict[Path, str] = {}
    shown = []
    for name in dict.fromkeys((*tool.writes, *named)):
        for given in _texts(arguments.get(name)):
            places = _places(workspace, given, must=name in tool.writes)
            reached |= {place: workspace.relative(place) for place in places}
            shown += [f"{given} is {workspace.relative(p)}" for p in places[:1] if _differs(workspace, given, p)]
    case = Case(tool.name, arguments, tuple(dict.fromkeys(reached.values())), host=host)
    return Call(case, tool.risk, workspace.root, tuple(reached.items()), "; ".join(shown))


def _host(url: object) -> str:
    """Give the host of an address, in lower case; empty where it is not written plainly, so that no rule allows it."""
    from urllib.parse import urlsplit

    if not isinstance(url, str) or not re.fullmatch(r"https?://[a-z0-9.:\[\]-]+([/?#][\x21-\x7e]*)?", url, re.I):
        return ""
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


def _texts(value: object) -> list[str]:
    values = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return [each for each in values if isinstance(each, str)]


def _places(workspace: Workspace, given: str, must: bool) -> list[Path]:
    """Give where a path leads, links followed, and where it stands itself: a tool may delete a link, or write through it."""
    found: list[Path] = []
    failed: ToolError | None = None
    for follow in (True, False):
        try:
            found.append(workspace.resolve(given, follow=follow))
        except ToolError as error:
            failed = error
    if must and not found and failed is not None:
        raise failed
    return list(dict.fromkeys(found))


def _differs(workspace: Workspace, given: str, place: Path) -> bool:
    return os.path.normpath(os.path.join(workspace.root, os.path.expanduser(given))) != str(place)


@attrs.frozen
class Gate:
    """Judges calls.

    Attributes:
        rules: The rules that hold.
        approve: The approval policy.
        held: Whether a sandbox really holds the files that commands write; or the user lets them run without.
    """

    rules: Rules
    approve: str
    held: bool

    def judge(self, call: Call) -> tuple[Verdict | None, str]:
        """Judge a call; gives the verdict, none for no opinion, and what it comes from: a rule with its file, or a word."""
        read = call.case.command
        if read is not None and read.kind == "block":
            hint = "It is not asked for. Do without it, or tell the user what to run themselves."
            return deny(f"{read.reason} {hint}", code=errors.E_BLOCKED), "destructive command"
        if rule := self._first("deny", call.case):
            return deny(f"A rule of the user's denies it: {rule.text} ({rule.source})."), _where(rule)
        if self.rules.mistakes and call.changes:
            count = len(self.rules.mistakes)
            text = f"The rules have {count} mistake{'s' * (count > 1)}, so nothing is changed until the user mends them"
            return deny(f"{text} (hilum permissions list): {self.rules.mistakes[0]}."), "mistakes in the rules"
        if read is None:
            return self._paths(call) if call.case.paths else self._other(call)
        return self._command(call, read)

    def _first(self, effect: Any, case: Case, fits: tuple[str, ...] = ("yes",)) -> Rule | None:
        return next((rule for rule in self.rules.of(effect) if fit(rule, case) in fits), None)

    def _asked(self, case: Case) -> tuple[str, Rule] | None:
        """Give why a rule has the call asked: it says so, or it denies what the call may turn out to be."""
        if rule := self._first("deny", case, ("maybe",)):
            return f"It may be what a rule denies: {rule.text}.", rule
        if rule := self._first("ask", case, ("yes", "maybe")):
            return f"A rule has it asked: {rule.text}.", rule
        return None

    def _settled(self, case: Case) -> Rule | None:
        return self._first("allow", case)

    # --- tools with paths, and others ---------------------------------------------------------------------------------

    def _paths(self, call: Call) -> tuple[Verdict | None, str]:
        from hilum_guard import protected

        for place, shown in call.reached:
            if protected.own(place):
                return deny(f"{shown} is in hilum's own folders, which no tool touches."), "self-protection"
        also = f" ({call.shown})" if call.shown else ""
        for _, shown in call.reached:
            why = (protected.governing(shown) if call.changes else "") or protected.secret(shown)
            if why and not self._names(call.case.tool, shown):
                scope = f"{call.case.tool}({exact_path(shown)})"
                return ask(f"{shown}: {why}.{also}", scope=scope), "protected file"
        return self._other(call, also)

    def _names(self, tool: str, path: str) -> bool:
        """Whether the user has allowed this very file by its name."""
        wanted = {path, exact_path(path)}
        return any(rule.tool == tool and rule.pattern in wanted for rule in self.rules.of("allow"))

    def _other(self, call: Call, also: str = "") -> tuple[Verdict | None, str]:
        case = call.case
        scope = f"{case.tool}({DOMAIN}{case.host})" if case.host else case.tool
        if asked := self._asked(case):
            return ask(asked[0] + also, scope=scope), _where(asked[1])
        if rule := self._settled(call.case):
            return allow(f"A rule allows it: {rule.text}.", settled=True), _where(rule)
        if call.changes and self.approve == "ask_first":
            return ask(POLICY + also, scope=scope), "policy"
        return None, "policy"

    # --- commands -----------------------------------------------------------------------------------------------------

    def _command(self, call: Call, read: CommandVerdict) -> tuple[Verdict | None, str]:
        from hilum_guard import protected
        from hilum_guard.narrow import scope

        case = call.case
        for command in read.commands:
            if why := protected.governs_hilum(command.words + command.writes, command.cwd):
                return deny(f"{why}: no tool may change what governs hilum."), "self-protection"
        wide = scope(case.tool, str(case.arguments["command"]), read)
        if why := self._protected(call, read):
            exact = self._exact(case)
            return (allow(settled=True), _where(exact)) if exact else (ask(why, scope=wide), "protected file")
        if asked := self._asked(case):
            return ask(asked[0], scope=wide), _where(asked[1])
        if rule := self._exact(case) or self._allowing(call, read):
            return allow(f"A rule allows it: {rule.text}.", settled=True), _where(rule)
        if read.kind == "auto":
            return self._harmless(call, read, wide)
        if self.approve == "ask_first":
            return ask(read.reason, scope=wide), "policy"
        if not self.held:
            return ask(f"{read.reason} {UNHELD.format(scope=wide)}", scope=wide), "no sandbox"
        return allow("The sandbox holds it."), "policy, sandbox"

    def _protected(self, call: Call, read: CommandVerdict) -> str:
        """Say which protected file a redirection writes."""
        from hilum_guard.protected import governing

        for command in read.commands:
            for path in command.writes:
                place = os.path.realpath(os.path.join(command.cwd or call.root, path))
                shown = os.path.relpath(place, call.root)
                if not shown.startswith("..") and (why := governing(shown)):
                    return f"It writes {shown}: {why}."
        return ""

    def _harmless(self, call: Call, read: CommandVerdict, wide: str) -> tuple[Verdict | None, str]:
        """A harmless command runs; what it writes by redirection is judged as a file that is written."""
        if not read.writes:
            return allow(read.reason, settled=True), "harmless command"
        places = tuple((Path(path), os.path.relpath(path, call.root)) for path in read.writes)
        case = Case("write_file", {}, tuple(shown for _, shown in places))
        verdict, source = self.judge(Call(case, "write", call.root, places))
        if verdict is not None and verdict.kind == "ask":
            return ask(verdict.reason, scope=wide), source
        return verdict, source

    def _exact(self, case: Case) -> Rule | None:
        """The rule that allows this very text, as the user saw it."""
        return next((r for r in self.rules.of("allow") if (r.pattern or "").startswith(EXACT) and fit(r, case)), None)

    def _allowing(self, call: Call, read: CommandVerdict) -> Rule | None:
        """A rule, where rules allow every simple command: each fits one, or is harmless alone; and nothing is redirected."""
        fitting = [rule for rule in self.rules.of("allow") if fit(attrs.evolve(rule, pattern=None), call.case)]
        if any(rule.pattern in (None, "*", "**") for rule in fitting):
            return next(rule for rule in fitting if rule.pattern in (None, "*", "**"))
        if not fitting or not read.complete or any(_redirected(command.writes) for command in read.commands):
            return None
        patterns = [pattern_words(rule.pattern or "") for rule in fitting]
        by = [
            next((r for r, p in zip(fitting, patterns, strict=True) if allowed([p], [command])), None)
            for command in read.commands
        ]
        used = [rule for rule in by if rule is not None]
        rest = [command for command, rule in zip(read.commands, by, strict=True) if rule is None]
        return used[0] if used and all(_harmless_alone(command, call) for command in rest) else None


def _redirected(writes: Iterable[str]) -> bool:
    return any(not (path == "/dev/null" or path.isdigit()) for path in writes)


def _harmless_alone(command: Any, call: Call) -> bool:
    from hilum_guard.commands import judge_command
    from hilum_guard.rules import harmless_wrapper

    if harmless_wrapper(command):
        return True
    if not command.literal or command.assigned or command.cwd is None:
        return False
    read = judge_command(command.source, workspace=call.root, folder=Path(command.cwd))
    return read.kind == "auto" and not read.writes


def _where(rule: Rule) -> str:
    return f"{rule.effect} {rule.text} ({rule.source})"
