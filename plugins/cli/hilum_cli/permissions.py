"""``hilum permissions``: every rule with its source and meaning.

Change them; ask what would happen to a call.
"""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hilum import UsageError, config_folder
from hilum.errors import E_BAD_ARGS
from hilum_commandline import Parser
from hilum_guard import (
    Explained,
    add_rule,
    explain_rule,
    load_rules,
    parse_rule,
    remove_rule,
    unknown_tool,
)

from hilum_cli import exits
from hilum_cli.options import check_folder, check_text, run_command
from hilum_cli.terminal import Out, neutral

ACTIONS = ("list", "allow", "ask", "deny", "remove", "test")
EFFECTS = ("allow", "ask", "deny")
EPILOG = """\
A rule is TOOL or TOOL(PATTERN); deny wins over ask, and ask over allow.

  hilum permissions                                          all rules that hold here
  hilum permissions allow "run_terminal_cmd(git commit *)"   in every folder; with --workspace in this one only
  hilum permissions deny "write_file(migrations/**)"         a path, as in .gitignore
  hilum permissions ask "github__*"                          all tools of an MCP server
  hilum permissions deny network                             a category: read, write, execute or network
  hilum permissions remove "write_file(migrations/**)"       wherever it is yours; with --workspace for this folder only
  hilum permissions test run_terminal_cmd "git push --force" what would happen, and why

Rules stand in permissions.toml beside your settings; a project can add its own, that ask or deny, in
.hilum/permissions.toml.
"""


def main(argv: list[str]) -> int:
    """Show, change and test the rules for tool calls.

    Returns:
        The exit code (see ``exits``).
    """
    return run_command(lambda: _run(argv))


def _run(argv: Sequence[str]) -> int:
    check_text(argv)
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
        help="a rule; for test: a tool and what it is called with",
    )
    add("--workspace", action="store_true", help="for this folder only")
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
        help="for test: under this policy",
    )
    add("--json", action="store_true", help="for list and test: JSON")
    options = parser.parse_intermixed_args(argv)
    folder = Path(check_folder(options.folder))
    if options.action == "list":
        return _list(options, folder)
    if options.action == "test":
        return _test(options, folder)
    if len(options.words) != 1:
        hint = (
            f'Put it in quotes: hilum permissions {options.action} "run_terminal_cmd(git push *)".'
        )
        raise UsageError(f"{options.action} takes one rule.", code=E_BAD_ARGS, hint=hint)
    return _change(options, folder)


def _list(options: Namespace, folder: Path) -> int:
    out = Out(1)
    rules = load_rules(config_folder(), folder)
    rules = load_rules(config_folder(), folder, _tools(folder, [rule.tool for rule in rules.rules]))
    rows = [
        {
            "effect": rule.effect,
            "rule": rule.text,
            "means": explain_rule(rule),
            "source": rule.source,
            "everywhere": rule.everywhere,
        }
        for effect in ("deny", "ask", "allow")
        for rule in rules.of(effect)  # type: ignore[arg-type]
    ]
    if options.json:
        out.say(
            json.dumps({"rules": rows, "mistakes": rules.mistakes}, ensure_ascii=False, indent=1)
        )
        return exits.FAILED if rules.mistakes else exits.COMPLETED
    for row in rows:
        where = row["source"] if row["everywhere"] else f"{row['source']}, for this folder"
        out.say(neutral(f"{row['effect']:5}  {row['rule']}\n       {row['means']}\n       {where}"))
    if not rows:
        out.say(
            "There are no rules: the approval policy decides (approve = ask_first, auto, readonly)."
        )
    for mistake in rules.mistakes:
        out.say(neutral(f"MISTAKE  {mistake}"))
    if rules.mistakes:
        out.say("Until the mistakes are mended, nothing that changes something runs.")
    return exits.FAILED if rules.mistakes else exits.COMPLETED


def _change(options: Namespace, folder: Path) -> int:
    out = Out(1)
    config = config_folder()
    try:
        rule = parse_rule(options.words[0], "deny").text
    except ValueError as error:
        raise UsageError(f"{error}.".capitalize(), code=E_BAD_ARGS) from None
    if options.action == "remove":
        places: list[Path | None] = [folder] if options.workspace else [None, folder]
        gone = [
            f"{effect} {rule}, {_scope(place)}"
            for effect in EFFECTS
            for place in places
            if remove_rule(config, place, effect, rule)  # type: ignore[arg-type]
        ]
        if not gone:
            raise UsageError(
                f"There is no rule {rule!r} of yours here.", hint=_elsewhere(rule, folder)
            )
        out.say(neutral("\n".join(f"Removed: {each}" for each in gone)))
        return exits.COMPLETED
    made = parse_rule(rule, options.action)
    why = unknown_tool(made.tool, _tools(folder, [made.tool]))
    if why:
        raise UsageError(
            f"{rule!r} is no rule: {why}.",
            code=E_BAD_ARGS,
            hint="hilum permissions --help shows examples.",
        )
    where = folder if options.workspace else None
    new = add_rule(config, where, options.action, rule)
    already = "" if new else " (it was there already)"
    out.say(neutral(f"{options.action} {rule}, {_scope(where)}{already}\n{explain_rule(made)}"))
    return exits.COMPLETED


def _scope(place: Path | None) -> str:
    return f"in {place}" if place else "in every folder"


def _elsewhere(rule: str, folder: Path) -> str:
    """Return where a rule is that was not found here."""
    rules = load_rules(config_folder(), folder)
    for other in rules.rules:
        if other.text == rule and not other.everywhere:
            return f"It is in the project's own file, {other.source}: take it out there."
        if other.text == rule:
            return "It holds in every folder: remove it without --workspace."
    return (
        "hilum permissions lists the rules. One for another folder is removed there: --in FOLDER."
    )


def _tools(folder: Path, wanted: Sequence[str]) -> Sequence[str]:
    """Return the names of the tools there are.

    Those of other plugins only where a rule names one.
    """
    if not any(unknown_tool(each, ()) for each in wanted):
        return ()
    import trio

    return trio.run(_session_tools, folder)


async def _session_tools(folder: Path) -> list[str]:
    from hilum import open_kernel
    from hilum.store import MemoryStore

    async with (
        open_kernel(workspace=folder, store=MemoryStore()) as kernel,
        kernel.open_session(folder) as session,
    ):
        return list(session.tools)


# --- what would happen ----------------------------------------------------------------------------


def _test(options: Namespace, folder: Path) -> int:
    if not options.words:
        hint = "For example: hilum permissions test run_terminal_cmd 'git push --force'."
        raise UsageError(
            "test takes a tool, and what it is called with.", code=E_BAD_ARGS, hint=hint
        )
    import trio

    name, *given = options.words
    found: Explained = trio.run(_explain, folder, name, given, options.approve)
    out = Out(1)
    if options.json:
        out.say(json.dumps(found._asdict(), ensure_ascii=False, indent=1))
    else:
        lines = [found.outcome, f"  because: {found.reason}", f"  by: {found.source}"]
        lines += [f"  a lasting yes would be: {found.scope}"] if found.scope else []
        lines += [f"  reads as: {command}" for command in found.commands]
        out.say(neutral("\n".join(lines)))
    return exits.COMPLETED


async def _explain(folder: Path, name: str, given: Sequence[str], approve: str | None) -> Explained:
    """Open a session that is not kept, and ask its guard."""
    from hilum import open_kernel
    from hilum.errors import unknown
    from hilum.store import MemoryStore
    from hilum_guard import Guard

    async with (
        open_kernel(workspace=folder, store=MemoryStore()) as kernel,
        kernel.open_session(folder, approve=approve) as session,
    ):
        guard = session.half(Guard)
        if guard is None:
            raise UsageError(
                "The guard is not there.", hint="hilum plugins tells why; hilum doctor shows more."
            )
        if name not in session.tools:
            raise unknown("tool", name, session.tools)
        tool = session.tools[name]
        return await guard.explain(tool, _arguments(tool, given))


def _arguments(tool: Any, given: Sequence[str]) -> str:
    """Make arguments of what was typed: a JSON object.

    ``name=value`` pairs; or a text for the first parameter.
    """
    parameters = tool.spec.parameters.get("properties", {})
    required = tool.spec.parameters.get("required", ())
    if len(given) == 1 and given[0].lstrip().startswith("{"):
        return given[0]
    texts = {
        name: "" for name in required if parameters[name].get("type") == "string"
    }  # what does not matter here
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
            f"It cannot be told what {tool.name} is called with.", code=E_BAD_ARGS, hint=hint
        )
    return json.dumps(texts | ({str(first): given[0]} if given else {}))


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text
