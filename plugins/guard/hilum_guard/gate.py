"""Judges a tool call: the user's rules, what reading a command says, protected files, and the
approval policy.

The order: what must never run, what a rule denies, what is always asked, what a rule or its
harmlessness settles, and then what the policy says of the rest.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import msgspec
from hilum import ToolError, Verdict, allow, ask, deny, errors

from hilum_guard.addresses import carried_data, host_of, hosts_within, is_known, is_loopback
from hilum_guard.effects import Effect, Kind, Reach, reach, shown_path
from hilum_guard.rule_files import Rules
from hilum_guard.rules import (
    DOMAIN,
    EXACT,
    Case,
    Rule,
    allowed,
    exact_path,
    fit,
    fit_path,
    pattern_words,
    unresolved_reason,
)
from hilum_guard.tool_names import STANDARD

if TYPE_CHECKING:
    from hilum import Tool, Workspace

    from hilum_guard.commands import CommandVerdict

# Parameters that hold a path in tools that read or write files.
PATHS = frozenset(
    "path paths file files file_path folder directory source destination target".split()
)
POLICY = "Calls that change something are confirmed (approve = ask_first)."
UNHELD = (
    "No sandbox here keeps it from writing what Git, editors and shells execute later (hilum doctor"
    " says why). To let commands run all the same, as in a container that is thrown away: --set"
    ' guard.unsandboxed=run, or a rule for it: hilum permissions allow "{scope}".'
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
    """Make of a call what is judged: arguments checked as they will be, paths resolved, the command
    read.

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
        reached = reach(read.all_commands, str(workspace.root), complete=read.complete)
        case = Case(tool.name, arguments, command=read, category=tool.risk, reach=reached)
        return Call(case, tool.risk, workspace.root, folder=folder)
    host = host_of(arguments.get("url")) if tool.risk == "network" else ""
    if tool.risk in ("read", "write"):
        named = PATHS & arguments.keys()
    else:
        named = frozenset[str]()
    if tool.schema is not None or not (tool.writes or named):
        mentioned = tuple(_mentioned(workspace, arguments)) if tool.schema is not None else ()
        case = Case(tool.name, arguments, host=host, category=tool.risk, reach=Reach(mentioned))
        return Call(case, tool.risk, workspace.root)
    places: dict[Path, str] = {}
    effects: list[Effect] = []
    differing: list[str] = []
    for name in dict.fromkeys((*tool.writes, *named)):
        kind = _kind(tool, name)
        for given in _texts(arguments.get(name)):
            found = _places(workspace, given, must=name in tool.writes)
            for place in found:
                places[place] = workspace.relative(place)
                if kind is not None:
                    effects.append(Effect(kind, workspace.relative(place), deep=kind == "delete"))
            if found and _differs(workspace, given, found[0]):
                differing.append(f"{given} is {workspace.relative(found[0])}")
    case = Case(
        tool.name,
        arguments,
        tuple(dict.fromkeys(places.values())),
        host=host,
        category=tool.risk,
        reach=Reach(tuple(effects)),
    )
    return Call(case, tool.risk, workspace.root, tuple(places.items()), "; ".join(differing))


def _kind(tool: Tool, parameter: str) -> Kind | None:
    """Return what a tool does to the path in a parameter, for rules about other tools.

    ``None`` where only names count.
    """
    if tool.name == "delete_file":
        return "delete"
    if parameter in tool.writes or tool.risk == "write":
        return "write"
    if tool.name in ("read_file", "search_files"):
        return "read"
    return None


def _mentioned(workspace: Workspace, arguments: Mapping[str, Any]) -> list[Effect]:
    """Return the paths that are given to a tool of an MCP server, which may do anything with
    them.
    """
    found = []
    for name in PATHS & arguments.keys():
        for given in _texts(arguments[name]):
            place = os.path.realpath(os.path.join(workspace.root, os.path.expanduser(given)))
            found.append(Effect("any", shown_path(place, str(workspace.root)), certain=False))
    return found


def _texts(value: object) -> list[str]:
    values = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return [each for each in values if isinstance(each, str)]


def _places(workspace: Workspace, given: str, must: bool) -> list[Path]:
    """Return where a path leads, links followed, and where it stands itself: a tool may delete a
    link, or write through it.
    """
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
        held: Whether a sandbox really keeps commands from writing outside and to what is executed
            later.
        unheld: Whether the user lets commands run that no sandbox keeps from that.
        paths_held: Whether the sandbox holds the paths that rules deny against commands that cannot
            be read.
        network_held: Whether the sandbox keeps such commands from the network.
        known_hosts: The hosts that the user or a search named.
        catalog: The permission categories of the session's tools, by name.
        named: Files and folders of the workspace that are executed though their names do not say
            so, resolved, each with what executes it.
    """

    rules: Rules
    approve: str
    held: bool
    paths_held: bool = False
    network_held: bool = False
    known_hosts: frozenset[str] = frozenset()
    catalog: Mapping[str, str] = STANDARD
    named: tuple[tuple[str, str], ...] = ()
    unheld: bool = False

    def judge(self, call: Call) -> tuple[Verdict | None, str]:
        """Judge a call.

        Gives the verdict, none for no opinion, and what it comes from: a rule with its file, or a
        word.
        """
        read = call.case.command
        if read is not None and read.kind == "block":
            hint = "It is not asked for. Do without it, or tell the user what to run themselves."
            return deny(f"{read.reason} {hint}", code=errors.E_BLOCKED), "destructive command"
        rule = self._first("deny", call.case)
        if rule:
            return deny(_denied_text(rule, call.case)), _where(rule)
        if self.rules.mistakes and call.changes:
            count = len(self.rules.mistakes)
            text = (
                f"The rules have {count} mistake{'s' * (count > 1)}, so nothing is changed until"
                " the user mends them"
            )
            return (
                deny(f"{text} (hilum permissions list): {self.rules.mistakes[0]}."),
                "mistakes in the rules",
            )
        if read is None:
            if call.case.paths:
                return self._paths(call)
            return self._other(call)
        return self._command(call, read)

    def _first(self, effect: Any, case: Case, fits: tuple[str, ...] = ("yes",)) -> Rule | None:
        return next(
            (rule for rule in self.rules.of(effect) if fit(rule, case, self.catalog) in fits), None
        )

    def _unread(self, case: Case) -> Rule | None:
        """Return a rule that denies what a command may do without anybody seeing or holding it."""
        for rule in self.rules.of("deny"):
            if fit(rule, case, self.catalog) != "unread":
                continue
            if rule.about_paths:
                held = self.paths_held
            else:
                held = self.network_held and _about_network(rule)
            if not held:
                return rule
        return None

    def _asked(self, case: Case) -> tuple[str, Rule] | None:
        """Return why a rule has the call asked: it says so, or it denies what the call may turn out
        to be.
        """
        rule = self._first("deny", case, ("maybe",)) or self._unread(case)
        if rule:
            hint = ""
            if rule.about_paths and any(effect.stored for effect in case.reach.effects):
                hint = (
                    " Git may show any file of the repository here; name the files that you mean"
                    " (`git diff -- src`)."
                )
            return f"It may be what a rule denies: {rule.text}.{hint}", rule
        rule = self._first("ask", case, ("yes",))
        if rule and (why := unresolved_reason(rule, case)):
            return f"It may be what a rule has asked: {rule.text}; {why}.", rule
        rule = self._first("ask", case, ("yes", "maybe"))
        if rule:
            return f"A rule has it asked: {rule.text}.", rule
        return None

    def _may_be_asked(self, case: Case) -> Rule | None:
        """Return a rule that asks about paths which a command may read though its words do not name
        them.
        """
        rules = (rule for rule in self.rules.of("ask") if rule.about_paths)
        return next((rule for rule in rules if fit(rule, case, self.catalog) == "unread"), None)

    def _settled(self, case: Case) -> Rule | None:
        return self._first("allow", case)

    # --- tools with paths, and others -------------------------------------------------------------

    def _paths(self, call: Call) -> tuple[Verdict | None, str]:
        from hilum_guard import protected

        for place, shown in call.reached:
            if protected.own(place):
                return (
                    deny(f"{shown} is in hilum's own folders, which no tool touches."),
                    "self-protection",
                )
        also = f" ({call.shown})" if call.shown else ""
        for place, shown in call.reached:
            why = (self._governing(place, shown) if call.changes else "") or protected.secret(shown)
            why = why or protected.linked_secret(place, shown)
            if why and not self._names(call.case.tool, shown):
                scope = f"{call.case.tool}({exact_path(shown)})"
                return ask(f"{shown}: {why}.{also}", scope=scope), "protected file"
        return self._other(call, also)

    def _governing(self, place: Path, shown: str) -> str:
        from hilum_guard.protected import governing, metadata

        by = next((by for path, by in self.named if place.is_relative_to(path)), "")
        if by:
            return f"it is executed by {by}"
        return governing(shown) or metadata(str(place))

    def _names(self, tool: str, path: str) -> bool:
        """Return whether the user has allowed this very file by its name."""
        wanted = {path, exact_path(path)}
        return any(rule.tool == tool and rule.pattern in wanted for rule in self.rules.of("allow"))

    def _other(self, call: Call, also: str = "") -> tuple[Verdict | None, str]:
        case = call.case
        scope = case.tool
        if case.host:
            scope = f"{case.tool}({DOMAIN}{case.host})"
        elif (
            case.category == "network" and isinstance(url := case.arguments.get("url"), str) and url
        ):
            scope = f"{case.tool}(url={url})"  # never all hosts
        asked = self._asked(case)
        if asked:
            return ask(asked[0] + also, scope=scope), _where(asked[1])
        rule = self._settled(call.case)
        if rule:
            return allow(f"A rule allows it: {rule.text}.", settled=True), _where(rule)
        why = self._address(call)
        if why:
            return ask(why, scope=scope), "address"
        if call.changes and self.approve == "ask_first":
            return ask(POLICY + also, scope=scope), "policy"
        return None, "policy"

    def _address(self, call: Call) -> str:
        """Return why an address is not fetched without a question.

        Empty where nothing speaks against it.
        """
        url = call.case.arguments.get("url")
        if call.case.category != "network" or not isinstance(url, str) or not url.strip():
            return ""
        host = call.case.host
        if not host and call.case.tool in ("web_fetch", "browser_use"):
            return ""  # they refuse what is no address of the web: there is nothing to ask about
        if is_loopback(host):
            return ""  # whether it may be reached is not for the guard's rules to say
        unknown = [
            each for each in (host, *hosts_within(url)) if not is_known(each, self.known_hosts)
        ]
        if unknown:
            allowing = f'hilum permissions allow "{call.case.tool}({DOMAIN}{unknown[0]})"'
            return (
                f"Neither you nor a search named the host {unknown[0]}. To allow it for good:"
                f" {allowing}."
            )
        why = carried_data(url)
        if why:
            return f"The address may carry data out: {why}."
        return ""

    # --- commands ---------------------------------------------------------------------------------

    def _command(self, call: Call, read: CommandVerdict) -> tuple[Verdict | None, str]:
        from hilum_guard import protected
        from hilum_guard.narrow import scope

        case = call.case
        for command in read.all_commands:
            why = protected.governs_hilum(command.words + command.writes, command.cwd)
            if why:
                return deny(f"{why}: no tool may change what governs hilum."), "self-protection"
        wide = scope(case.tool, str(case.arguments["command"]), read)
        exact = self._exact(case)
        protects = self._protected(call, read)
        if protects and exact is None:
            return ask(next(iter(protects.values())), scope=wide), "protected file"
        secrets = self.secrets(call)
        # Who agreed to this text where it writes a protected file was asked about that file, not
        # about another secret.
        if secrets and (exact is None or (protects and secrets.keys() - protects.keys())):
            shown = ", ".join(f"{path} ({why})" for path, why in secrets.items())
            return ask(f"It uses {shown}.", scope=self._text(case)), "file of secrets"
        asked = self._asked(case)
        if asked:
            return ask(asked[0], scope=wide), _where(asked[1])
        if read.grave and exact is None:
            return ask(read.grave, scope=self._text(case)), "grave command"
        rule = exact or self._allowing(call, read)
        if rule:
            return allow(f"A rule allows it: {rule.text}.", settled=True), _where(rule)
        if read.kind == "auto" and (found := self._may_be_asked(case)):
            return ask(f"It may read what a rule has asked: {found.text}.", scope=wide), _where(
                found
            )
        if read.kind == "auto":
            return self._harmless(call, read, wide)
        if self.approve == "ask_first":
            return ask(read.reason, scope=wide), "policy"
        if self.held:
            return allow("The sandbox holds it."), "policy, sandbox"
        if self.unheld:
            return (
                allow("No sandbox holds it, and you let commands run without one."),
                "guard.unsandboxed = run",
            )
        return ask(f"{read.reason} {UNHELD.format(scope=wide)}", scope=wide), "no sandbox"

    def _text(self, case: Case) -> str:
        """Return the rule for exactly this command."""
        return f"{case.tool}({EXACT}{case.arguments['command']})"

    def secrets(self, call: Call) -> dict[str, str]:
        """Return the files of secrets that a command names, with what they are, but for those that
        a rule allows by name.
        """
        from hilum_guard.protected import linked_secret, secret

        found: dict[str, str] = {}
        for effect in call.case.reach.effects:
            full = os.path.join(call.root, effect.path)
            if effect.kind == "any" and not os.path.isfile(full):
                continue
            if effect.kind == "delete" or (effect.kind == "read" and os.path.isdir(full)):
                continue
            why = secret(effect.path) or linked_secret(Path(full), effect.path)
            if why and not any(self._names(tool, effect.path) for tool in ("read_file", "read")):
                found[effect.path] = why
        return found

    def _protected(self, call: Call, read: CommandVerdict) -> dict[str, str]:
        """Return the protected files that redirections write, each with a sentence about it."""
        found: dict[str, str] = {}
        for command in read.commands:
            for path in command.writes:
                place = os.path.realpath(os.path.join(command.cwd or call.root, path))
                shown = os.path.relpath(place, call.root)
                if not shown.startswith("..") and (why := self._governing(Path(place), shown)):
                    found[shown] = f"It writes {shown}: {why}."
        return found

    def _harmless(self, call: Call, read: CommandVerdict, wide: str) -> tuple[Verdict | None, str]:
        """A harmless command runs.

        What it writes by redirection is judged as a file that is written.
        """
        if not read.writes:
            return allow(read.reason, settled=True), "harmless command"
        places = tuple((Path(path), os.path.relpath(path, call.root)) for path in read.writes)
        effects = tuple(Effect("write", shown) for _, shown in places)
        case = Case(
            "write_file",
            {},
            tuple(shown for _, shown in places),
            category="write",
            reach=Reach(effects),
        )
        verdict, source = self.judge(Call(case, "write", call.root, places))
        if verdict is not None and verdict.kind == "ask":
            return ask(verdict.reason, scope=wide), source
        return verdict, source

    def _allowing_effects(self, call: Call, read: CommandVerdict) -> Rule | None:
        """Return a rule for the category ``write`` where such rules allow all that a command line
        does.
        """
        from hilum_guard.protected import secret

        rules = [
            rule for rule in self.rules.of("allow") if rule.tool == "write" and rule.about_paths
        ]
        found = call.case.reach
        if (
            not rules
            or not read.complete
            or found.unread
            or found.network
            or found.hosts
            or not _plain(read.commands)
        ):
            return None
        used: list[Rule] = []
        for effect in found.effects:
            if effect.kind == "read":
                if effect.path.startswith("/") or secret(effect.path):
                    return None
                continue
            by = next(
                (rule for rule in rules if fit_path(rule.pattern or "", effect.path, strict=True)),
                None,
            )
            if by is None or not effect.certain:
                return None
            used.append(by)
        return used[0] if used else None

    def _exact(self, case: Case) -> Rule | None:
        """The rule that allows this very text, as the user saw it."""
        return next(
            (
                r
                for r in self.rules.of("allow")
                if (r.pattern or "").startswith(EXACT) and fit(r, case)
            ),
            None,
        )

    def _allowing(self, call: Call, read: CommandVerdict) -> Rule | None:
        """A rule, where rules allow every simple command: each fits one, or is harmless alone.

        And nothing is redirected.
        """
        rule = self._allowing_effects(call, read)
        if rule:
            return rule
        fitting = [
            rule
            for rule in self.rules.of("allow")
            if fit(attrs.evolve(rule, pattern=None), call.case)
        ]
        if any(rule.about_all for rule in fitting):
            return next(rule for rule in fitting if rule.about_all)
        if (
            not fitting
            or not read.complete
            or any(_redirected(command.writes) for command in read.commands)
        ):
            return None
        patterns = [pattern_words(rule.pattern or "") for rule in fitting]
        by = [
            next(
                (r for r, p in zip(fitting, patterns, strict=True) if allowed([p], [command])), None
            )
            for command in read.commands
        ]
        used = [rule for rule in by if rule is not None]
        rest = [command for command, rule in zip(read.commands, by, strict=True) if rule is None]
        if used and all(_harmless_alone(command, call) for command in rest):
            return used[0]
        return None


def _denied_text(rule: Rule, case: Case) -> str:
    """Return what the model reads of a call that a rule denies."""
    why = unresolved_reason(rule, case)
    if why:
        return (
            f"It may be what a rule of the user's denies: {rule.text} ({rule.source}); {why}. Run"
            " the command itself."
        )
    return f"A rule of the user's denies it: {rule.text} ({rule.source})."


def _plain(commands: Iterable[Any]) -> bool:
    return all(
        command.literal and not command.assigned and not command.wrapper for command in commands
    )


def _about_network(rule: Rule) -> bool:
    return rule.about_hosts or rule.tool == "network"


def _redirected(writes: Iterable[str]) -> bool:
    return any(path != "/dev/null" for path in writes)


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
