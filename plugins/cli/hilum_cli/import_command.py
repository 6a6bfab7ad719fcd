"""``hilum import``: shows what other agents left, and takes over what the user chooses."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hilum import HilumError, UsageError, home_folder
from hilum.command import Parser, check_folder, check_text
from hilum.config_files import UnreadableFile, load_file
from hilum.errors import E_BAD_ARGS
from hilum.foreign_files import ForeignFile, Offer, find_foreign_files

from hilum_cli import exits
from hilum_cli.terminal import Out, escape_terminal, is_terminal

EPILOG = """\
Deny and ask rules, rules files, skills and agents of other agents work without an import. What is
taken over from a file of the project applies in this folder only; what is taken over from your home
folder applies everywhere. Without a terminal, hilum only shows what it found; with --yes, it takes
over everything except what it marks as dangerous.

  hilum import --dry-run     only show what there is
  hilum import --project     only the files of the project
  hilum import --yes         do not ask
"""
MAX_SHOWN = 40
"""Maximum number of rows that one part of a file's report may have."""
MAX_ROW = 300


class _Leftover(NamedTuple):
    """Files of another agent that only a plugin can read.

    Attributes:
        path: The path, relative to the project or the home folder.
        agent: The agent.
        kind: What the files contain.
    """

    path: str
    agent: str
    kind: str


_LEFTOVERS = (
    _Leftover(".claude/commands", "Claude Code", "commands"),
    _Leftover(".gemini/commands", "Gemini CLI", "commands"),
    _Leftover(".opencode/command", "opencode", "commands"),
    _Leftover(".opencode/commands", "opencode", "commands"),
    _Leftover(".github/prompts", "Copilot", "commands"),
    _Leftover(".cursor/commands", "Cursor", "commands"),
    _Leftover(".codex/prompts", "Codex", "commands"),
    _Leftover(".windsurf/workflows", "Windsurf", "commands"),
    _Leftover(".clinerules/workflows", "Cline", "commands"),
    _Leftover(".claude/hooks", "Claude Code", "hooks"),
    _Leftover(".cursor/hooks.json", "Cursor", "hooks"),
    _Leftover(".github/hooks", "Copilot", "hooks"),
    _Leftover(".clinerules/hooks", "Cline", "hooks"),
    _Leftover(".kiro/hooks", "Kiro", "hooks"),
    _Leftover(".claude/output-styles", "Claude Code", "output styles"),
    _Leftover(".opencode/plugin", "opencode", "plugins"),
    _Leftover(".opencode/plugins", "opencode", "plugins"),
    _Leftover(".aider.conf.yml", "aider", "settings"),
    _Leftover(".continue", "Continue", "settings"),
    _Leftover(".junie", "Junie", "settings"),
    _Leftover(".amazonq", "Amazon Q", "settings"),
)


# Settings files that may also contain hooks.
_WITH_HOOKS = (
    (".claude/settings.json", "Claude Code"),
    (".claude/settings.local.json", "Claude Code"),
    (".gemini/settings.json", "Gemini CLI"),
)


def main(argv: list[str]) -> int:
    """Show what other agents left in the project and the home folder, and take it over.

    Returns:
        The exit code: 1 if something could not be taken over.
    """
    check_text(argv)
    options = _parse(argv)
    folder = Path(check_folder(options.workspace))
    found = [file for file in _find(folder) if _is_wanted(file, options)]
    is_asked = is_terminal(0) and is_terminal(1) and not options.json
    out = Out(1)
    if not options.json:
        out.say(escape_terminal("\n".join(_describe_all(found, folder))))
    results: list[dict[str, Any]] = []
    if not options.dry_run:
        results = [
            _take(file, offer, out, options) for file, offer in _choose(found, options, is_asked)
        ]
    if options.json:
        data = {"files": [_encode(file) for file in found], "taken": results}
        out.say_json(data)
    elif not options.dry_run:
        _say_rest(found, results, out, is_asked=is_asked, yes=options.yes)
    failed = any(result["error"] for result in results)
    return out.finish(exits.FAILED if failed else exits.COMPLETED)


def _parse(argv: list[str]) -> argparse.Namespace:
    text = "Show what other agents left in the project and the home folder, and take it over."
    parser = Parser("hilum import", text, EPILOG)
    add = parser.add_argument
    add("--dry-run", "-n", action="store_true", help="only show what would be taken over")
    add("--yes", "-y", action="store_true", help="take over what is not dangerous, without asking")
    add("--user", action="store_true", help="only the files in your home folder")
    add("--project", action="store_true", help="only the files of the project")
    add("--json", action="store_true", help="print one JSON object")
    add("--workspace", "-C", default=".", metavar="DIR", help="the project")
    options = parser.parse_intermixed_args(argv)
    if options.user and options.project:
        raise UsageError(
            "--user and --project exclude each other.",
            code=E_BAD_ARGS,
            hint="Without them, both are searched.",
        )
    if options.dry_run and options.yes:
        raise UsageError("--dry-run and --yes exclude each other.", code=E_BAD_ARGS)
    return options


def _is_wanted(file: ForeignFile, options: argparse.Namespace) -> bool:
    return not (options.user and not file.user) and not (options.project and file.user)


# --- finding --------------------------------------------------------------------------------------


def _find(folder: Path) -> list[ForeignFile]:
    """Return all files, the project's first, each with its user or agent."""
    found = list(find_foreign_files(folder))
    found += _find_leftovers(folder, found)
    return sorted(found, key=lambda file: (file.user, file.agent, file.kind, str(file.path)))


def _find_leftovers(folder: Path, found: Sequence[ForeignFile]) -> Iterator[ForeignFile]:
    """Yield the known files that no plugin has reported."""
    reported = [(file.path, file.kind) for file in found]
    bases = {False: folder, True: home_folder()}
    for leftover in _LEFTOVERS:
        for is_user, base in bases.items():
            path = base / leftover.path
            if is_user and os.path.realpath(base) == os.path.realpath(folder):
                continue
            is_reported = any(
                kind == leftover.kind and each.is_relative_to(path) for each, kind in reported
            )
            if os.path.lexists(path) and not is_reported:
                reason = f"no installed plugin reads the {leftover.kind} of {leftover.agent}"
                yield ForeignFile(path, leftover.agent, leftover.kind, is_user, left=(reason,))
    for name, agent in _WITH_HOOKS:
        for is_user, base in bases.items():
            path = base / name
            if (path, "hooks") not in reported and _has_hooks(path):
                reason = f"no installed plugin runs the hooks of {agent}"
                yield ForeignFile(path, agent, "hooks", is_user, left=(reason,))


def _has_hooks(path: Path) -> bool:
    try:
        return os.path.isfile(path) and bool(load_file(path).data.get("hooks"))
    except UnreadableFile:
        return False  # the guard reports the file


# --- showing --------------------------------------------------------------------------------------


def _describe_all(found: Sequence[ForeignFile], folder: Path) -> Iterator[str]:
    if not found:
        yield "No files of other agents were found."
        return
    for is_user, title in ((False, f"In {folder}:"), (True, "In your home folder:")):
        files = [file for file in found if file.user is is_user]
        if files:
            yield title
        for file in files:
            yield ""
            yield f"  {_shorten(file, folder)}  ({file.kind} of {file.agent})"
            yield from _describe_rows("works", file.works)
            yield from _describe_rows("can be taken over", map(_describe_offer, file.offers))
            yield from _describe_rows("not used", file.left)
            yield from _describe_rows("problem", file.problems)
        if files:
            yield ""


def _shorten(file: ForeignFile, folder: Path) -> str:
    if file.user and file.path.is_relative_to(home_folder()):
        return f"~/{file.path.relative_to(home_folder())}"
    real = Path(os.path.realpath(folder))
    for base in (folder, real):
        if file.path.is_relative_to(base):
            return str(file.path.relative_to(base))
    return str(file.path)


def _describe_offer(offer: Offer) -> str:
    danger = f"  (dangerous: {offer.danger})" if offer.danger else ""
    return f"{offer.text} -> {offer.becomes}{danger}"


def _describe_rows(title: str, rows: Iterable[str]) -> Iterator[str]:
    shown = [" ".join(row.split())[:MAX_ROW] for row in rows]
    for row in shown[:MAX_SHOWN]:
        yield f"    {title}: {row}"
    if len(shown) > MAX_SHOWN:
        yield f"    {title}: and {len(shown) - MAX_SHOWN} more (see --json)"


def _encode(file: ForeignFile) -> dict[str, Any]:
    return {
        "path": str(file.path),
        "agent": file.agent,
        "kind": file.kind,
        "scope": "user" if file.user else "project",
        "works": list(file.works),
        "offers": [_encode_offer(offer) for offer in file.offers],
        "left": list(file.left),
        "problems": list(file.problems),
    }


def _encode_offer(offer: Offer) -> dict[str, Any]:
    return {
        "text": offer.text,
        "becomes": offer.becomes,
        "danger": offer.danger,
        "line": offer.line,
    }


# --- taking over ----------------------------------------------------------------------------------


def _choose(
    found: Sequence[ForeignFile], options: argparse.Namespace, is_asked: bool
) -> Iterator[tuple[ForeignFile, Offer]]:
    """Yield the offers that the user accepts."""
    seen: set[tuple[bool, str]] = set()
    for file in found:
        # Several agents often have the same rule, which is offered once.
        offers = [offer for offer in file.offers if (file.user, offer.becomes) not in seen]
        seen.update((file.user, offer.becomes) for offer in offers)
        if options.yes:
            yield from ((file, offer) for offer in offers if not offer.danger)
        elif is_asked:
            yield from ((file, offer) for offer in _ask_about(file, offers))


def _ask_about(file: ForeignFile, offers: Sequence[Offer]) -> Iterator[Offer]:
    """Ask about the offers of a file: all harmless ones together, or each; the others alone."""
    harmless = [offer for offer in offers if not offer.danger]
    each_alone = True
    if len(harmless) > 1:
        question = f"Take over {len(harmless)} entries of {file.path}? [a]ll, [e]ach, [n]one: "
        answer = _read_answer(question)
        each_alone = answer.startswith("e")
        if answer.startswith(("a", "y")):
            yield from harmless
    if each_alone:
        for offer in harmless:
            if _read_answer(f"Take over {_describe_offer(offer)}? [y/N]: ").startswith("y"):
                yield offer
    for offer in offers:
        # A whole word, because an answer that was meant for the next question must not count.
        if offer.danger and _read_answer(f"Take over {_describe_offer(offer)}? [yes/N]: ") == "yes":
            yield offer


def _read_answer(question: str) -> str:
    try:
        answer = input(escape_terminal(question)).strip().casefold()
        # A request for help is no answer. The question names the possible answers.
        while answer in ("?", "h", "help"):
            answer = input(escape_terminal(question)).strip().casefold()
    except EOFError:
        return ""
    return answer


def _take(file: ForeignFile, offer: Offer, out: Out, options: argparse.Namespace) -> dict[str, Any]:
    """Take over one entry, and return what happened."""
    error = ""
    where = ""
    try:
        where = offer.take(file.user)
    except HilumError as problem:
        error = str(problem)
    if not options.json:
        text = f"✗ {offer.text}: {error}" if error else f"✓ {offer.becomes}  ({where})"
        out.say(escape_terminal(text))
    return {"text": offer.text, "becomes": offer.becomes, "file": where, "error": error}


def _say_rest(
    found: Sequence[ForeignFile],
    results: Sequence[dict[str, Any]],
    out: Out,
    *,
    is_asked: bool,
    yes: bool,
) -> None:
    """Say what remains to be done."""
    offers = [offer for file in found for offer in file.offers]
    dangerous = [offer for offer in offers if offer.danger]
    if not offers:
        if found:
            out.say("There is nothing to take over.")
        return
    if not is_asked and not yes:
        out.say(
            f"{len(offers)} entries can be taken over. Run hilum import in a terminal, or with --yes"
            f" for all but {len(dangerous)} dangerous ones."
        )
    elif yes and dangerous:
        out.say(
            f"{len(dangerous)} dangerous entries were not taken over. Run hilum import in a terminal"
            " to decide about each."
        )
    elif is_asked and not results:
        out.say("Nothing was taken over.")
