"""The command ``hilum export``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
from hilum import UsageError
from hilum.command import Parser, escape_line, say, say_json

from hilum_export.exported_file import (
    ExportedFile,
    NotExported,
    State,
    Target,
    find_state,
    remove_duplicates,
    write_file,
)

ABOUT = """\
Writes this project's agents, skills and rules for another coding agent, and says what its formats cannot
express. Custom commands, permissions, hooks and MCP servers are not exported. Files that exist are replaced
only with --force.

  hilum export --to claude --dry-run    what would be written for Claude Code, and what is lost
  hilum export --to codex               agents to .codex/agents, skills to .agents/skills, rules to AGENTS.md
  hilum export --to agents-md           rules of all programs in AGENTS.md
"""
_MARKS: dict[State, str] = {
    "new": "written",
    "same": "unchanged",
    "exists": "exists",
    "refused": "refused",
}


@attrs.frozen
class Export:
    """What is exported, and what is not.

    Attributes:
        files: The files.
        left_out: What has no counterpart.
    """

    files: list[ExportedFile]
    left_out: list[NotExported]


def main(argv: Sequence[str]) -> int:
    """Write agents, skills and rules for another coding agent.

    Returns:
        The exit code: 1 if a file was not written, or would not be written.
    """
    parser = Parser("hilum export", ABOUT)
    parser.add_argument(
        "--to",
        required=True,
        choices=("claude", "codex", "agents-md"),
        metavar="FORMAT",
        help="claude, codex or agents-md",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be written")
    parser.add_argument("--force", action="store_true", help="replace files that exist")
    parser.add_argument("--workspace", "-C", default=".", metavar="DIR", help="another folder")
    parser.add_argument("--json", action="store_true", help="as JSON")
    try:
        options = parser.parse_args(list(argv))
    except SystemExit as error:  # --help
        return int(error.code or 0)
    root = Path(options.workspace).resolve()
    if not root.is_dir():
        raise UsageError(f"{root} is not a folder.")
    export = make_export(root, options.to)
    outcomes = [
        (file, _carry_out(root, file, dry_run=options.dry_run, force=options.force))
        for file in export.files
    ]
    if options.json:
        _say_json(export, outcomes)
    else:
        _say(export, outcomes, dry_run=options.dry_run)
    failed = [file for file, outcome in outcomes if outcome not in ("written", "unchanged")]
    # A dry run says beforehand what the export would return.
    return int(bool(failed))


def make_export(root: Path, target: Target) -> Export:
    """Return what a project has for another program. Blocks.

    Args:
        root: The project.
        target: The program.
    """
    from hilum_export.agents import export_agents
    from hilum_export.rules import export_rules
    from hilum_export.skills import export_skills

    files = []
    left_out = []
    for make in (export_rules, export_skills, export_agents):
        for each in make(root, target):
            if isinstance(each, ExportedFile):
                files.append(each)
            else:
                left_out.append(each)
    return Export(remove_duplicates(files), left_out)


def _carry_out(root: Path, file: ExportedFile, *, dry_run: bool, force: bool) -> str:
    """Write a file if that is allowed, and return what was done in one word."""
    state = find_state(root, file)
    may_write = state == "new" or (state == "exists" and force)
    if not may_write:
        return _MARKS[state]
    if not dry_run:
        try:
            write_file(root, file)
        except OSError as error:
            return f"failed: {error.strerror or error}"
    return "written"


def _say(export: Export, outcomes: list[tuple[ExportedFile, str]], *, dry_run: bool) -> None:
    if not outcomes and not export.left_out:
        say("There is nothing to export in this project.")
        return
    for file, outcome in outcomes:
        shown = "would be written" if dry_run and outcome == "written" else outcome
        say(f"{shown:<16} {escape_line(file.path)}  (from {escape_line(file.source)})")
        if outcome == "exists":
            kept = "adds to it" if file.keeps_old else "replaces it"
            say(f"    It has other content; --force {kept}.")
        elif outcome == "refused":
            say(
                "    It is a link, is below a link, is no regular file, or cannot be read; it is not written."
            )
        for sentence in file.lost:
            say(f"    Note: {escape_line(sentence)}")
    for each in export.left_out:
        say(f"{'not exported':<16} {escape_line(each.source)}")
        say(f"    {escape_line(each.reason)}")
    say(f"{'not exported':<16} custom commands, permissions, hooks and MCP servers")


def _say_json(export: Export, outcomes: list[tuple[ExportedFile, str]]) -> None:
    files = [
        {
            "path": file.path,
            "source": file.source,
            "outcome": outcome,
            "lost": list(file.lost),
        }
        for file, outcome in outcomes
    ]
    left_out = [{"source": each.source, "reason": each.reason} for each in export.left_out]
    say_json({"files": files, "not_exported": left_out})
