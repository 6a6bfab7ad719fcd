"""The command ``hilum memory``, which needs neither a session nor a model."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from hilum import HilumError, UsageError, errors
from hilum.command import Parser, discard_typed, insert_list, say, say_json
from hilum.settings import load

from hilum_memory.longterm.memories import Memories
from hilum_memory.longterm.memory import KINDS, USER, Memory, WriteResult, memory_path
from hilum_memory.longterm.settings import LongTermSettings
from hilum_memory.longterm.user_text import applies_everywhere, guess_kind
from hilum_memory.longterm.validation import check_text

EPILOG = """\
A memory belongs to you (it applies everywhere) or to a folder. Without --user or --workspace, commands apply to both.

  hilum memory                       list what is remembered about you and this folder
  hilum memory show 12               show its origin, and what it replaced
  hilum memory add "Run the tests with uv run pytest."
  hilum memory edit 12 "…"           without a text: in $EDITOR
  hilum memory forget 12 13          delete permanently; --all asks first
  hilum memory off                   nothing is recalled or written anywhere; with --workspace, only here
"""
Action = Callable[[argparse.Namespace, Memories], object]
_ORIGINS = {
    "user": "you requested or wrote it",
    "tool": "the model saved it for you",
    "run": "learned after a run",
}


def main(argv: Sequence[str]) -> int:
    """List, show, add, edit and forget what is remembered across sessions.

    Returns:
        The exit code.
    """
    try:
        options = make_parser().parse_args(insert_list(argv))
    except SystemExit as error:  # --help
        return int(error.code or 0)
    # Resolve links, because sessions also store the resolved path of the workspace.
    options.folder = os.path.realpath(os.path.expanduser(options.folder))
    try:
        code = options.action(options, _memories(options))
    except HilumError as error:
        if not options.json:
            raise
        say_json({"error": {"code": error.code, "message": error.message, "hint": error.hint}})
        return error.exit_code
    sys.stdout.flush()
    return code if isinstance(code, int) else 0


def make_parser() -> Parser:
    """Declare commands and options."""
    parser = Parser("hilum memory", "See and change what is remembered across sessions.", EPILOG)
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)

    def command(name: str, action: Action, help: str) -> Parser:
        made: Parser = commands.add_parser(
            name,
            help=help,
            description=f"{help[:1].upper()}{help[1:]}.",
        )
        made.set_defaults(action=action)
        made.add_argument(
            "-C",
            dest="folder",
            default=".",
            metavar="DIR",
            help="the folder (default: the current one)",
        )
        made.add_argument("--json", action="store_true", help="JSON")
        return made

    def scoped(made: Parser) -> Parser:
        which = made.add_mutually_exclusive_group()
        which.add_argument(
            "--user", action="store_true", help="only memories that apply everywhere"
        )
        which.add_argument(
            "--workspace",
            action="store_true",
            help="only memories that belong to the folder",
        )
        return made

    made = scoped(command("list", _list, "list what is remembered, most recent first"))
    made.add_argument(
        "--all",
        action="store_true",
        help="also list replaced memories",
    )
    scoped(
        command("search", _search, "find memories that a prompt with this text would recall")
    ).add_argument(
        "text",
        nargs="+",
        metavar="TEXT",
    )
    command(
        "show",
        _show,
        "show a memory, where it comes from, and what it replaced",
    ).add_argument("id", type=int, metavar="ID")
    made = scoped(command("add", _add, "remember something"))
    made.add_argument("text", nargs="+", metavar="TEXT", help="one short sentence")
    made.add_argument("--kind", choices=KINDS, default=None, help="its kind (default: guessed)")
    made = command("edit", _edit, "change the text of a memory; without TEXT in $EDITOR")
    made.add_argument("id", type=int, metavar="ID")
    made.add_argument("text", nargs="*", metavar="TEXT")
    made = scoped(command("forget", _forget, "permanently delete memories and those they replaced"))
    made.add_argument("ids", type=int, nargs="*", metavar="ID")
    made.add_argument("--all", action="store_true", help="delete all of them, after confirmation")
    made.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    for name, off in (("off", True), ("on", False)):
        made = command(name, _switch, f"switch memory {name}; nothing is deleted")
        made.set_defaults(off=off)
        made.add_argument(
            "--workspace",
            action="store_true",
            help="only in the folder (default: everywhere)",
        )
    return parser


def _memories(options: argparse.Namespace) -> Memories:
    """Return the memories; if memories are added, apply the limits from the settings."""
    path = memory_path()
    # Other commands need no limits, and work even if there is a mistake in the settings.
    if options.action is not _add:
        return Memories(path)
    found = load([LongTermSettings], workspace=None, known=None).get(LongTermSettings)
    return Memories(path, most=found.most, keep_days=found.keep_days)


def _scopes(options: argparse.Namespace) -> list[str]:
    scopes = []
    if not options.user:
        scopes.append(options.folder)
    if not options.workspace:
        scopes.append(USER)
    return scopes


# --- looking --------------------------------------------------------------------------------------


def _list(options: argparse.Namespace, memories: Memories) -> None:
    found = memories.all(_scopes(options), replaced=options.all)
    off = memories.is_off(options.folder)
    if options.json:
        say_json({"off": off, "memories": [_data(memory) for memory in found]})
        return
    _rows(found)
    if not found:
        subject = "about you" if options.user else f"for {options.folder}"
        say(f"Nothing is remembered {subject}.")
    if off:
        say("Memory is off: nothing is recalled or written (hilum memory on).")


def _search(options: argparse.Namespace, memories: Memories) -> None:
    found = memories.search(" ".join(options.text), _scopes(options))
    if options.json:
        say_json([_data(memory) | {"score": score} for memory, score in found])
        return
    _rows(memory for memory, _ in found)
    if not found:
        say("Nothing was found.")


def _show(options: argparse.Namespace, memories: Memories) -> None:
    memory = memories.get(options.id)
    older = memories.history(options.id)
    if options.json:
        say_json(_data(memory) | {"history": [_data(old) for old in older]})
        return
    rows = [(f"[{memory.id}]", memory.text)]
    rows += [(f"{name}:", value) for name, value in _describe(memory)]
    rows += [("before:", f"[{old.id}] {_day(old.updated)} {old.text}") for old in older]
    for name, value in rows:
        if value:
            say(f"{name:10} {value}")


def _describe(memory: Memory) -> list[tuple[str, str]]:
    """Return the details of a memory as pairs of a label and a value."""
    came = _ORIGINS[memory.origin]
    if memory.session:
        came += f", in session {memory.session}"
    written = _day(memory.created)
    if memory.updated > memory.created:
        written += f", confirmed {_day(memory.updated)}"
    return [
        ("kind", memory.kind),
        ("applies", "everywhere" if memory.scope == USER else f"in {memory.scope}"),
        ("came", came),
        ("written", written),
        ("recalled", _day(memory.used) if memory.used else "never"),
        ("files", ", ".join(memory.paths)),
        ("replaced", f"by {memory.replaced}" if memory.replaced else ""),
    ]


def _rows(found: Iterable[Memory]) -> None:
    for memory in found:
        whose = "user" if memory.scope == USER else "here"
        mark = f" (replaced by {memory.replaced})" if memory.replaced else ""
        say(
            f"{memory.id:5}  {_day(memory.updated)}  {whose}  {memory.kind:10}  {memory.text}{mark}"
        )


def _day(moment: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(moment))


def _data(memory: Memory) -> dict[str, object]:
    data: dict[str, object] = msgspec.to_builtins(memory)
    return data | {
        "scope": "user" if memory.scope == USER else "workspace",
        "workspace": memory.scope,
    }


# --- changing -------------------------------------------------------------------------------------


def _add(options: argparse.Namespace, memories: Memories) -> None:
    text = check_text(" ".join(options.text))
    user = options.user or (not options.workspace and applies_everywhere(text))
    memory = Memory(
        scope=USER if user else options.folder,
        kind=options.kind or guess_kind(text),
        text=text,
    )
    written = memories.add(memory)
    if options.json:
        data = {"what": written.what, "memory": _data(written.memory)}
        say_json(data | {"replaced": [one.id for one in written.replaced]})
        return
    say(_describe_result(written))


def _describe_result(written: WriteResult) -> str:
    new = written.memory
    what = "Already known" if written.what == "same" else "Remembered"
    where = "everywhere" if new.scope == USER else f"in {new.scope}"
    if written.replaced:
        replaced = [str(old.id) for old in written.replaced]
        where += f", in place of {', '.join(replaced)}"
    return f"{what} as [{new.id}], {new.kind}, {where}: {new.text}"


def _edit(options: argparse.Namespace, memories: Memories) -> int:
    old = memories.get(options.id)
    text = " ".join(options.text) if options.text else _edit_in_editor(old.text)
    is_changed = text.strip() not in ("", old.text)
    memory = memories.edit(options.id, check_text(text)) if is_changed else old
    if options.json:
        say_json(_data(memory))
    elif is_changed:
        say(f"[{memory.id}] {memory.text}")
    else:
        say("Nothing was changed.")
    return 0 if is_changed else 1


def _edit_in_editor(text: str) -> str:
    """Let the user edit a text in an editor, and return the result."""
    # ``VISUAL`` takes precedence, as in Git and in most Unix programs.
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor or not sys.stdin.isatty():
        hint = 'Pass the text (`hilum memory edit ID "…"`), or set EDITOR and use a terminal.'
        raise UsageError(
            "There is no new text, and no editor in which to enter it.",
            code=errors.E_BAD_ARGS,
            hint=hint,
        )
    # Use a private folder (mode 0700), because an editor may write copies next to the file.
    with TemporaryDirectory(prefix="hilum-memory-") as folder:
        file = Path(folder) / "memory.txt"
        file.write_text(text + "\n")
        try:
            # The value is split, because ``EDITOR`` may contain options: ``code --wait``.
            code = subprocess.call([*shlex.split(editor), str(file)])
        except (OSError, ValueError) as error:
            raise UsageError(
                f"The editor {editor!r} cannot be started: {error}.", code=errors.E_BAD_ARGS
            ) from None
        if code:
            raise UsageError(
                f"The editor ended with {code}; nothing was changed.", code=errors.E_FAILED
            )
        return file.read_text(errors="replace")


def _forget(options: argparse.Namespace, memories: Memories) -> int:
    if bool(options.ids) == options.all:
        hint = "hilum memory list shows the numbers."
        raise UsageError(
            "Pass the numbers of memories, or --all.", code=errors.E_BAD_ARGS, hint=hint
        )
    if options.ids:
        gone = memories.forget(options.ids)
        count = len(gone)
        lines = [f"Forgot [{memory.id}] {memory.text}" for memory in gone]
    else:
        scopes = _scopes(options)
        if not options.yes and not _confirm(len(memories.all(scopes))):
            say("Nothing was deleted.")
            return 1
        count = memories.forget_all(scopes)
        lines = [f"Forgot {count} memories."]
    if options.json:
        say_json({"forgotten": count})
        return 0
    for line in lines:
        say(line)
    if count:
        say(
            "What was said in a session remains in its log; to delete it: hilum sessions delete ID."
        )
    return 0


def _confirm(count: int) -> bool:
    """Ask the user to confirm the deletion of ``count`` memories, unless it is zero."""
    if not count:
        return True
    if not sys.stdin.isatty():
        raise UsageError(
            "Deleting needs confirmation, and standard input is not a terminal.",
            code=errors.E_BAD_ARGS,
            hint="Confirm with --yes.",
        )
    question = f"Delete {count} memories permanently? [y/N] "
    discard_typed()
    print(question, end="", file=sys.stderr, flush=True)  # stdout may be redirected
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _switch(options: argparse.Namespace, memories: Memories) -> None:
    memories.switch(options.folder if options.workspace else None, off=options.off)
    off = memories.is_off(options.folder)
    if options.json:
        say_json({"off": off})
        return
    where = f"in {options.folder}" if options.workspace else "everywhere"
    if options.off:
        say(
            f"Memory is off {where}. What is remembered is kept; hilum memory forget --all"
            " deletes it."
        )
    elif off:
        if options.workspace:
            more = "everywhere: hilum memory on"
        else:
            more = "in this folder: hilum memory on --workspace"
        say(f"Memory is on {where}, but still off {more}.")
    else:
        say(f"Memory is on {where}.")
