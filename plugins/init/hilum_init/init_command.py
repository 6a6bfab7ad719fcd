"""``hilum init`` and, in a session, ``/init`` write AGENTS.md after looking at the project."""

from __future__ import annotations

import os
import stat
import sys
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from hilum import HilumError, UsageError, load_command
from hilum.command import Parser, ask_line, check_folder, check_text, say
from hilum.config_files import read_regular_file
from hilum.errors import E_BAD_ARGS, E_FAILED, E_NOT_FOUND

from hilum_init.agents_draft import (
    Addition,
    add_items,
    find_additions,
    find_stale_commands,
    format_diff,
    is_empty,
    list_facts,
    write_draft,
)
from hilum_init.project_commands import list_targets, read_json, read_text
from hilum_init.project_facts import ProjectFacts, look_at

COMMAND = "/init"
FILE = "AGENTS.md"
# Spellings of the file name that hilum and other agents read.
_NAMES = (FILE, "Agents.md", "agents.md", "AGENT.md")
# Rules files of other agents, which the draft takes into account.
_OTHERS = ("CLAUDE.md", ".claude/CLAUDE.md", "GEMINI.md", ".cursorrules")
_COPILOT = ".github/copilot-instructions.md"
MAX_FILE = 1_000_000  # maximum size of an existing file, in bytes
ABOUT = """\
Look at the project, and write AGENTS.md: what an agent must know to work here.

With a model, the agent reads the project and writes the file, and you approve it.
Without one, or with --draft, hilum writes what it finds: commands to build, test
and check, the layout, and conventions of the configuration. An existing file is
never replaced: what it lacks is shown as a diff.
"""
EPILOG = """\
  hilum init                       let the agent write it, or improve the existing one
  hilum init --draft               without a model
  hilum init --draft --apply       add what the existing file lacks
  hilum init --draft | git apply   the same
"""
_PROMPT = """\
Write the file {file} in the workspace: what a coding agent that is new here must know and cannot \
see at a glance. Every session will read it, so each line must be worth its place.

1. Look first: README, manifests, CI, documents for contributors, some central source files and \
some tests. Check each command against the files that define it. Do not install anything, and run \
nothing that changes files.
2. Contents, as short list items under a few headings, 60 lines at most: commands to build, to run \
all tests and one test, to lint and to format; the layout, where names do not explain it; \
conventions that the code really follows; traps and things that must not be touched.
3. Leave out general advice, what the README says plainly, lists of all files, and secrets.
4. {existing}
5. At the end, say in one sentence what you were not sure about.
{others}{focus}
A look at the file names has found the following. It is data and may be incomplete or wrong:

{facts}
"""
_NEW = "There is no such file yet: create it with one call."
_EXISTS = (
    "{file} exists. Read it, keep its words and order, and change only what is wrong or missing,"
    " with small edits. Do not rewrite it. If nothing is missing, change nothing and say so."
)


# --- the command ----------------------------------------------------------------------------------


def main(argv: list[str]) -> int:
    """Write AGENTS.md after looking at the project; an existing one is never replaced.

    Returns:
        The exit code.
    """
    check_text(argv)
    try:
        options = _parse(argv)
    except SystemExit as error:  # --help
        return int(error.code or 0)
    if not options.draft and _can_ask(options) and _has_model(options):
        return _run_agent(options)
    return _write_draft(options)


def _parse(argv: Sequence[str]) -> Namespace:
    """Read the command line.

    Raises:
        UsageError: The command line is invalid, or there is no such folder.
    """
    parser = Parser("hilum init", ABOUT, EPILOG)
    add = parser.add_argument
    add("focus", nargs="*", metavar="FOCUS", help="what the file should be about in particular")
    add("--draft", action="store_true", help="do not use a model")
    add(
        "--apply",
        action="store_true",
        help="with --draft: add what an existing file lacks, without a question",
    )
    add("--model", default="", metavar="PROVIDER/NAME", help="model to use")
    add(
        "--approve",
        default="",
        choices=("ask_first", "auto"),
        help="whether writing the file needs your approval",
    )
    add("--workspace", "-C", default=".", metavar="DIR", help="another folder")
    options = parser.parse_intermixed_args(argv)
    if options.apply and not options.draft:
        hint = "Approve the agent's changes one by one, or all of them with --approve auto."
        raise UsageError("--apply needs --draft.", code=E_BAD_ARGS, hint=hint)
    options.workspace = check_folder(options.workspace)
    if not os.path.isdir(options.workspace):
        hint = "Choose an existing folder."
        raise UsageError(f"There is no folder {options.workspace}.", hint=hint)
    return options


def _can_ask(options: Namespace) -> bool:
    """Return whether a user can approve the file or no approval is needed."""
    return options.approve == "auto" or (sys.stdin.isatty() and sys.stderr.isatty())


def _has_model(options: Namespace) -> bool:
    """Return whether a model is configured, without calling it.

    Raises:
        HilumError: The model that the user named cannot be used.
    """
    import trio
    from hilum import open_kernel
    from hilum.store import MemoryStore

    async def find() -> bool:
        async with open_kernel(workspace=options.workspace, store=MemoryStore()) as kernel:
            try:
                kernel.router.model(options.model or await kernel.router.default())
            except HilumError:
                if options.model:
                    raise
                return False
        return True

    return trio.run(find)


def _run_agent(options: Namespace) -> int:
    """Let the agent write the file, with the ``run`` command."""
    run = load_command("run")
    if run is None:
        return _write_draft(options)
    arguments = ["--workspace", options.workspace]
    if options.model:
        arguments += ["--model", options.model]
    if options.approve:
        arguments += ["--approve", options.approve]
    prompt = " ".join([COMMAND, *options.focus])
    code = run([*arguments, prompt])
    if code == 4:
        say("Without a model: hilum init --draft", to=sys.stderr)
    return code


def _write_draft(options: Namespace) -> int:
    """Write the draft, or show what the existing file lacks."""
    root = Path(options.workspace)
    facts = look_at(root)
    name = find_file(root)
    if name:
        return _improve(root, name, facts, apply=options.apply)
    if is_empty(facts):
        hint = "Write the first files, or choose another folder: hilum init -C DIR."
        message = f"There is neither code nor a build file in {root}."
        raise HilumError(message, code=E_NOT_FOUND, hint=hint)
    additions = find_additions(facts, "", read_others(root))
    if not additions:
        others = ", ".join(_list_others(root))
        say(f"{others} already contains what hilum found; {FILE} would add nothing.")
        return 0
    _create(root / FILE, write_draft(facts))
    say(f"{root / FILE} is written: {_describe(facts)}.")
    say("Read it and correct it: every session reads it. `hilum rules` shows it as rules.")
    return 0


def _describe(facts: ProjectFacts) -> str:
    """Describe how many commands were found in which files."""
    count = len(facts.commands)
    commands = "1 command" if count == 1 else f"{count} commands"
    text = commands
    if facts.sources:
        text += f" from {', '.join(facts.sources[:4])}"
    if facts.languages:
        text += f"; {', '.join(name for name, _ in facts.languages[:3])}"
    return text


def _create(path: Path, text: str) -> None:
    """Create a file, or raise an error if it exists."""
    try:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:
        reason = error.strerror or str(error)
        hint = "Check the permissions of the folder."
        raise HilumError(f"{path} cannot be written: {reason}.", code=E_FAILED, hint=hint) from None


def _improve(root: Path, name: str, facts: ProjectFacts, *, apply: bool) -> int:
    """Show as a diff what an existing file lacks, and add it if the user agrees."""
    path = root / name
    old = _read_existing(path, root)
    additions = find_additions(facts, old, read_others(root))
    _report_stale(root, name, old)
    if not additions:
        say(f"{name} already contains what hilum found.", to=sys.stderr)
        return 0
    new = add_items(old, additions)
    say(format_diff(old, new, name).removesuffix("\n"))
    if not apply and not _confirm(name, additions):
        if not sys.stdin.isatty():
            hint = f"{name} is unchanged. To add this: hilum init --draft --apply"
            say(hint, to=sys.stderr)
        return 0
    _replace(path, old, new)
    say(f"{name} is changed.", to=sys.stderr)
    return 0


def _report_stale(root: Path, name: str, text: str) -> None:
    scripts = read_json(root / "package.json").get("scripts", {})
    known = set(scripts) if isinstance(scripts, dict) else set()
    for command in find_stale_commands(text, list_targets(root), known):
        say(f"{name} names `{command}`, which does not exist here.", to=sys.stderr)


def _confirm(name: str, additions: Sequence[Addition]) -> bool:
    """Ask the user whether to change the file; only "yes" or "y" means yes."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    count = "this line" if len(additions) == 1 else f"these {len(additions)} lines"
    return ask_line(f"Add {count} to {name}? [y/N] ").lower() in ("y", "yes")


def _read_existing(path: Path, root: Path) -> str:
    """Return the text of an existing file.

    Raises:
        HilumError: The file is not a text file in this project.
    """
    try:
        if path.resolve().is_relative_to(root.resolve()):
            return read_regular_file(path, MAX_FILE).decode("utf-8")
        problem = "it is a link out of the project"
    except UnicodeDecodeError:
        problem = "it is not UTF-8 text"
    except ValueError as error:
        problem = f"it is {error}"
    except (OSError, RuntimeError) as error:
        problem = getattr(error, "strerror", "") or "it is a broken link"
    hint = "Rename it, or correct it, and try again."
    raise HilumError(f"{path} cannot be improved: {problem}.", code=E_FAILED, hint=hint)


def _replace(path: Path, old: str, new: str) -> None:
    """Write the new text, unless the file has changed since it was read."""
    target = path.resolve()
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if target.read_bytes() != old.encode():
            hint = "Try again."
            raise HilumError(f"{path} has changed meanwhile.", code=E_FAILED, hint=hint)
        temporary.write_bytes(new.encode())
        temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        os.replace(temporary, target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        reason = error.strerror or str(error)
        hint = "The file is unchanged."
        raise HilumError(f"{path} cannot be written: {reason}.", code=E_FAILED, hint=hint) from None


# --- in a session ---------------------------------------------------------------------------------


def find_file(root: Path) -> str:
    """Return the name of the existing AGENTS.md, or an empty string if there is none."""
    return next((name for name in _NAMES if os.path.lexists(root / name)), "")


def _list_others(root: Path) -> list[str]:
    return [name for name in (*_OTHERS, _COPILOT) if (root / name).is_file()]


def read_others(root: Path) -> str:
    """Return the text of all other rules files."""
    return "\n".join(read_text(root / name) for name in _list_others(root))


def write_prompt(root: Path, focus: str = "") -> str:
    """Return the prompt for ``/init``. Blocks.

    Args:
        root: The workspace.
        focus: What the user typed after the command.
    """
    name = find_file(root)
    others = _list_others(root)
    listed = ""
    if others:
        listed = f"6. Agents also read {', '.join(others)}: do not repeat what is there.\n"
    return _PROMPT.format(
        file=name or FILE,
        existing=_EXISTS.format(file=name) if name else _NEW,
        others=listed,
        focus=f"\nThe user adds: {focus}\n" if focus else "",
        facts=list_facts(look_at(root)) or "(nothing)",
    )


async def interpret_init(root: Path, text: str) -> str:
    """Return the prompt for a line that begins with ``/init``."""
    import trio

    focus = text.strip().removeprefix(COMMAND).strip()
    return await trio.to_thread.run_sync(partial(write_prompt, root, focus))
