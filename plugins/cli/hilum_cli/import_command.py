"""``hilum import``: shows what other agents left, and takes over what the user chooses."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hilum import HilumError, UsageError, home_folder
from hilum.command import Parser, check_folder, check_text, escape_line
from hilum.errors import E_BAD_ARGS
from hilum.foreign_files import ForeignFile, Offer, find_foreign_files

from hilum_cli import exits
from hilum_cli.foreign_leftovers import find_leftovers
from hilum_cli.foreign_settings import find_other_settings
from hilum_cli.import_questions import Questions, QuitError
from hilum_cli.terminal import Out, escape_terminal, is_terminal

EPILOG = """\
Deny and ask rules, rules files, skills and agents of other agents work without an import. What is
taken over from a file of the project applies in this folder only; what is taken over from your home
folder applies everywhere. Without a terminal, hilum only shows what it found; with --yes, it takes
over everything except what it marks as dangerous.

  hilum import --dry-run     only show what there is
  hilum import --project     only the files of the project
  hilum import --yes         do not ask
  hilum import --all         show every row of long lists
"""
MAX_SHOWN = 40
"""Maximum number of rows that one part of a file's report has without ``--all``."""
MAX_ROW = 300


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
        out.say(escape_terminal("\n".join(_describe_all(found, folder, options.all))))
    results: list[dict[str, Any]] = []
    code = exits.COMPLETED
    if not options.dry_run:
        questions = Questions(out, _describe_offer) if is_asked else None
        try:
            for file, offer in _choose(found, options, questions):
                results.append(_take(file, offer, out, options))
        except QuitError:
            pass
        except KeyboardInterrupt:
            code = exits.INTERRUPTED
            out.say("")
    if options.json:
        data = {"files": [_encode(file) for file in found], "taken": results}
        out.say_json(data)
    elif not options.dry_run:
        _say_rest(found, results, out, is_asked=is_asked, yes=options.yes)
    if any(result["error"] for result in results):
        code = code or exits.FAILED
    return out.finish(code)


def _parse(argv: list[str]) -> argparse.Namespace:
    text = "Show what other agents left in the project and the home folder, and take it over."
    parser = Parser("hilum import", text, EPILOG)
    add = parser.add_argument
    add("--dry-run", "-n", action="store_true", help="only show what would be taken over")
    add("--yes", "-y", action="store_true", help="take over what is not dangerous, without asking")
    add("--user", action="store_true", help="only the files in your home folder")
    add("--project", action="store_true", help="only the files of the project")
    add("--all", action="store_true", help="show every row of long lists")
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
    found += find_other_settings(folder, found)
    found += find_leftovers(folder, found)
    return sorted(found, key=lambda file: (file.user, file.agent, file.kind, str(file.path)))


# --- showing --------------------------------------------------------------------------------------


def _describe_all(found: Sequence[ForeignFile], folder: Path, is_whole: bool) -> Iterator[str]:
    if not found:
        yield "No files of other agents were found."
        return
    for is_user, title in ((False, f"In {folder}:"), (True, "In your home folder:")):
        files = [file for file in found if file.user is is_user]
        if files:
            yield title
        for file in files:
            yield ""
            yield f"  {escape_line(_shorten(file, folder))}  ({file.kind} of {file.agent})"
            parts = {
                "works": file.works,
                "can be taken over": map(_describe_offer, file.offers),
                "not used": file.left,
                "problem": file.problems,
            }
            for title, rows in parts.items():
                yield from _describe_rows(title, rows, is_whole)
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


def _describe_rows(title: str, rows: Iterable[str], is_whole: bool) -> Iterator[str]:
    shown = [_shorten_row(" ".join(row.split()), is_whole) for row in rows]
    limit = len(shown) if is_whole else MAX_SHOWN
    for row in shown[:limit]:
        yield f"    {title}: {row}"
    if len(shown) > limit:
        yield f"    {title}: and {len(shown) - limit} more; to see them, run hilum import --all"


def _shorten_row(row: str, is_whole: bool) -> str:
    if is_whole or len(row) <= MAX_ROW:
        return row
    return f"{row[: MAX_ROW - 1]}… (--all shows the rest)"


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
    found: Sequence[ForeignFile], options: argparse.Namespace, questions: Questions | None
) -> Iterator[tuple[ForeignFile, Offer]]:
    """Yield the offers that the user accepts."""
    seen: set[tuple[bool, str]] = set()
    for file in found:
        # Several agents often have the same rule, which is offered once.
        offers = [offer for offer in file.offers if (file.user, offer.becomes) not in seen]
        seen.update((file.user, offer.becomes) for offer in offers)
        if options.yes:
            yield from ((file, offer) for offer in offers if not offer.danger)
        elif questions is not None:
            yield from ((file, offer) for offer in questions.ask_about(file, offers))


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
    """Print what remains to be done."""
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
    elif is_asked:
        taken = sum(not result["error"] for result in results)
        # The same entry of several files is asked about once.
        total = len({(file.user, offer.becomes) for file in found for offer in file.offers})
        left = (
            "" if taken == total else f", {total - taken} left: hilum import asks about them again"
        )
        out.say(f"{taken} taken over{left}.")
