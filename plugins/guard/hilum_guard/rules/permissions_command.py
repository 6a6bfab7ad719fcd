"""Run ``hilum permissions``, which lists every rule with its source and meaning.

``hilum permissions`` can also change rules and show what would happen to a call.
"""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import hilum
import trio
from hilum import UsageError, config_folder
from hilum.command import Parser, check_folder, check_text, say, say_json
from hilum.errors import E_BAD_ARGS, unknown_name_error
from hilum.settings import load as load_settings
from hilum.store import MemoryStore

from hilum_guard.protected_files import restricting
from hilum_guard.rules.matching import Rule, explain, parse
from hilum_guard.rules.rule_files import add, explain_unknown_names, load, remove
from hilum_guard.rules.tool_names import (
    EFFECTS,
    KINDS,
    KnownTool,
    describe_tools,
    explain_unknown_tool,
    named_parameters,
)
from hilum_guard.session_guard import CallExplanation, Guard
from hilum_guard.settings import GuardSettings

COMPLETED = 0
FAILED = 1
ACTIONS = ("list", "allow", "ask", "deny", "remove", "test")
EPILOG = """\
A rule is TOOL or TOOL(PATTERN); deny wins over ask, and ask over allow.

  hilum permissions                                          all rules that apply here
  hilum permissions allow "run_terminal_cmd(git commit *)"   in every folder; with --workspace in this one only
  hilum permissions deny "write_file(migrations/**)"         a path, as in .gitignore
  hilum permissions ask "github__*"                          all tools of an MCP server
  hilum permissions deny network                             a category: read, write, execute or network
  hilum permissions deny network --session shared            in sessions of this kind only: main, shared or headless
  hilum permissions list --session shared                    the rules that apply in such a session
  hilum permissions remove "write_file(migrations/**)"       wherever you added it; with --workspace or --session only there
  hilum permissions test run_terminal_cmd "git push --force" what would happen, and why

Your rules are in permissions.toml, next to your settings. A project can add rules that ask or deny, in
.hilum/permissions.toml. The deny and ask rules of other agents, such as those in .claude/settings.json, apply, too; the
setting guard.denials_from chooses the agents.
"""


def main(argv: list[str]) -> int:
    """Show, change and test the rules for tool calls.

    Returns:
        The exit code (see ``exits``).
    """
    check_text(argv)
    # `parse_args` would reject an option between the action and the rule.
    options = _make_parser().parse_intermixed_args(argv)
    folder = Path(check_folder(options.folder))
    _check_options(options)
    if options.action == "list":
        return _list(options, folder)
    if options.action == "test":
        return _test(options, folder)
    return _change(options, folder)


def _make_parser() -> Parser:
    parser = Parser("hilum permissions", "Show, change and test the rules for tool calls.", EPILOG)
    add = parser.add_argument
    add(
        "action",
        nargs="?",
        default="list",
        choices=ACTIONS,
        metavar="ACTION",
        help=", ".join(ACTIONS),
    )
    add(
        "words",
        nargs="*",
        metavar="RULE",
        help="a rule; for test: a tool and its arguments",
    )
    add("--workspace", action="store_true", help="for this folder only")
    add(
        "--session",
        default="",
        choices=KINDS,
        metavar="KIND",
        help=f"for sessions of this kind only: {', '.join(KINDS)}",
    )
    add(
        "--in",
        "-C",
        dest="folder",
        default=".",
        metavar="DIR",
        help="the folder (default: the current one)",
    )
    add(
        "--approve",
        default=None,
        choices=("ask_first", "auto", "readonly"),
        help="for test: assume this policy",
    )
    add("--json", action="store_true", help="for list and test: print JSON")
    return parser


def _check_options(options: Namespace) -> None:
    """Check that options fit together.

    Raises:
        UsageError: They do not.
    """
    if options.workspace and options.session:
        hint = (
            "A rule applies to a folder or to a kind of session; a project's own"
            " .hilum/permissions.toml can deny and ask for a kind in that folder."
        )
        raise UsageError(
            "--workspace and --session exclude each other.", code=E_BAD_ARGS, hint=hint
        )
    if options.action not in ("list", "test") and len(options.words) != 1:
        hint = (
            f'Put it in quotes: hilum permissions {options.action} "run_terminal_cmd(git push *)".'
        )
        raise UsageError(f"{options.action} takes exactly one rule.", code=E_BAD_ARGS, hint=hint)


def _list(options: Namespace, folder: Path) -> int:
    kind = options.session or None
    rules = load(config_folder(), folder)
    known = find_tools(folder, rules.rules)
    # Load the rules again, now with the tools: a rule that matches no tool is a mistake.
    rules = load(config_folder(), folder, known, kind, denials_from(folder))
    rows = [
        {
            "effect": rule.effect,
            "rule": rule.shown,
            "agent": rule.agent,
            "means": explain(rule),
            "source": rule.source,
            "everywhere": rule.everywhere,
            "session": rule.kind,
        }
        for effect in reversed(EFFECTS)
        for rule in rules.of(effect)
    ]
    if options.json:
        problems = rules.foreign_problems
        say_json({"rules": rows, "mistakes": rules.mistakes, "problems": problems})
        return FAILED if rules.mistakes else COMPLETED
    for row in rows:
        where = str(row["source"])
        if row["session"]:
            where += f", for sessions of the kind {row['session']}"
        if row["agent"]:
            where += f", for {row['agent']}"
        if not row["everywhere"]:
            where += ", for this folder"
        say(f"{row['effect']:5}  {row['rule']}")
        say(f"       {row['means']}")
        say(f"       {where}")
    if not rows:
        say(
            "No rules are stored. The approval policy decides about all calls that you have not"
            " approved yet (approve = ask_first, auto, readonly)."
        )
    for problem in rules.foreign_problems:
        say(f"PROBLEM  {problem}")
    if rules.doubts:
        say("Until these problems are corrected, every change needs approval.")
    for mistake in rules.mistakes:
        say(f"MISTAKE  {mistake}")
    if rules.mistakes:
        say(f"Until the mistakes are corrected, {rules.consequence}.")
    return FAILED if rules.mistakes else COMPLETED


def _change(options: Namespace, folder: Path) -> int:
    config = config_folder()
    try:
        rule = parse(options.words[0], "deny").text
    except ValueError as error:
        raise UsageError(f"{error}.".capitalize(), code=E_BAD_ARGS) from None
    if options.action == "remove":
        gone = _removed(config, _places(options, folder), rule)
        if not gone:
            raise UsageError(f"You have no rule {rule!r} here.", hint=_elsewhere(rule, folder))
        say("\n".join(f"Removed: {each}" for each in gone))
        return COMPLETED
    made = parse(rule, options.action)
    why = explain_unknown_names(made, find_tools(folder, [made]))
    if why:
        raise UsageError(
            f"{rule!r} is not a rule: {why}.",
            code=E_BAD_ARGS,
            hint="hilum permissions --help shows examples.",
        )
    where = _Place(folder if options.workspace else None, options.session)
    new = add(config, where.folder, options.action, rule, kind=where.kind)
    already = "" if new else " (it already existed)"
    say(f"{options.action} {rule}, {where}{already}")
    say(explain(made))
    path = (made.pattern or "").lstrip("/")
    if options.action == "allow" and restricting(path):
        say("Each change of this file still needs approval, because it may restrict the agent.")
    return COMPLETED


class _Place(NamedTuple):
    """A table of rules in the user's rule file."""

    folder: Path | None = None
    kind: str = ""

    def __str__(self) -> str:
        if self.kind:
            return f"in sessions of the kind {self.kind}"
        return f"in {self.folder}" if self.folder else "in every folder"


def _places(options: Namespace, folder: Path) -> list[_Place]:
    """Return the tables to remove a rule from.

    The result is the table that the options name, or all tables that apply in the folder.
    """
    if options.session:
        return [_Place(kind=options.session)]
    if options.workspace:
        return [_Place(folder)]
    return [_Place(), _Place(folder), *(_Place(kind=kind) for kind in KINDS)]


def _removed(config: Path, places: Sequence[_Place], rule: str) -> list[str]:
    """Remove a rule from tables; return the removed entries, each with its table."""
    gone = []
    for effect in EFFECTS:
        for place in places:
            if remove(config, place.folder, effect, rule, kind=place.kind):
                gone.append(f"{effect} {rule}, {place}")
    return gone


def _elsewhere(rule: str, folder: Path) -> str:
    """Return a hint about the location of a rule that the searched tables do not contain."""
    rules = load(config_folder(), folder, agents=denials_from(folder))
    for other in rules.rules:
        if other.agent and rule in (other.text, other.written):
            return (
                f"It is in a file of {other.agent}, {other.source}: delete it there, or remove the"
                " agent from the setting guard.denials_from."
            )
        if other.text == rule and not other.everywhere:
            return f"It is in the project's own file, {other.source}: delete it there."
        if other.text == rule and other.kind:
            return f"It applies to sessions of one kind: remove it with --session {other.kind}."
        if other.text == rule:
            return "It applies in every folder: remove it without --workspace and --session."
    return (
        "hilum permissions lists the rules. To remove a rule for another folder, use --in FOLDER."
    )


def denials_from(folder: Path) -> tuple[str, ...]:
    """Return the other agents whose denials apply in a folder. Blocks."""
    settings = load_settings([GuardSettings], workspace=folder, strict=False)
    return tuple(settings.get(GuardSettings).denials_from)


def find_tools(folder: Path, rules: Sequence[Rule]) -> dict[str, KnownTool]:
    """Return all tools, or an empty mapping if rules can be checked without them. Blocks.

    Args:
        folder: The workspace.
        rules: The rules to be checked.
    """
    if not any(_needs_tools(rule) for rule in rules):
        return {}
    return trio.run(_session_tools, folder)


def _needs_tools(rule: Rule) -> bool:
    """Return whether a rule names a parameter, or a tool that is not part of hilum."""
    return bool(explain_unknown_tool(rule.tool, ()) or named_parameters(rule.pattern))


async def _session_tools(folder: Path) -> dict[str, KnownTool]:
    async with (
        hilum.open_kernel(workspace=folder, store=MemoryStore()) as kernel,
        kernel.open_session(folder) as session,
    ):
        return describe_tools(session.tools)


# --- what would happen ----------------------------------------------------------------------------


def _test(options: Namespace, folder: Path) -> int:
    if not options.words:
        hint = "For example: hilum permissions test run_terminal_cmd 'git push --force'."
        raise UsageError("`test` takes a tool and its arguments.", code=E_BAD_ARGS, hint=hint)
    name, *given = options.words
    found = trio.run(_explain, folder, name, given, options.approve, options.session)
    if options.json:
        say_json(found._asdict())
    else:
        reason = [f"  because: {found.reason}"] if found.reason else []
        lines = [found.outcome, *reason, f"  by: {found.source}"]
        lines += [f"  a lasting approval would be: {found.scope}"] if found.scope else []
        lines += [f"  reads as: {command}" for command in found.commands]
        say("\n".join(lines))
    return COMPLETED


async def _explain(
    folder: Path, name: str, given: Sequence[str], approve: str | None, kind: str
) -> CallExplanation:
    """Return the guard's explanation of a call, from a temporary session."""
    async with (
        hilum.open_kernel(workspace=folder, store=MemoryStore()) as kernel,
        kernel.open_session(folder, approve=approve, kind=kind) as session,
    ):
        guard = session.plugin(Guard)
        if guard is None:
            raise UsageError(
                "The guard is not loaded.",
                hint="`hilum plugins` shows why; `hilum doctor` shows more.",
            )
        if name not in session.tools:
            raise unknown_name_error("tool", name, session.tools)
        tool = session.tools[name]
        return await guard.explain(tool, _arguments(tool, given))


def _arguments(tool: Any, given: Sequence[str]) -> str:
    """Convert the typed arguments to a JSON object.

    The user may type a JSON object, ``name=value`` pairs, or text for the first parameter.
    """
    parameters = tool.spec.parameters.get("properties", {})
    required = tool.spec.parameters.get("required", ())
    if len(given) == 1 and given[0].lstrip().startswith("{"):
        return given[0]
    texts = {
        name: "" for name in required if parameters[name].get("type") == "string"
    }  # irrelevant here
    pairs = [text.partition("=") for text in given]
    if pairs and all(name in parameters and equals for name, equals, _ in pairs):
        typed = {
            name: value if parameters[name].get("type") == "string" else _value(value)
            for name, _, value in pairs
        }
        return json.dumps(texts | typed)
    first = next(iter(required or parameters), None)
    if len(given) > 1 or (given and first is None):
        hint = (
            f"Its parameters: {', '.join(parameters) or 'none'}. Write name=value, or a JSON"
            " object."
        )
        raise UsageError(
            f"The arguments of {tool.name} could not be read.", code=E_BAD_ARGS, hint=hint
        )
    return json.dumps(texts | ({str(first): given[0]} if given else {}))


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text
