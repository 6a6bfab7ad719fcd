"""``hilum memory``: see, add, change and forget what is remembered; switch it off and on.

No session and no model is needed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec
from hilum import HilumError, UsageError, errors
from hilum_commandline import Parser, say, say_json

from hilum_memory.longterm.memories import Memories
from hilum_memory.longterm.memory import KINDS, USER, Memory, memory_path
from hilum_memory.longterm.safe import checked
from hilum_memory.longterm.said import is_everywhere, kind_of

EPILOG = """\
A memory belongs to you (it holds everywhere) or to a folder. Without --user and --workspace, both are meant.

  hilum memory                       what is remembered about you and this folder
  hilum memory show 12               where it comes from, and what it has replaced
  hilum memory add "Run the tests with uv run pytest."
  hilum memory edit 12 "…"           without a text: in $EDITOR
  hilum memory forget 12 13          gone for good; --all asks first
  hilum memory off                   nothing is recalled or written, everywhere; with --workspace only here
"""
Action = Callable[[argparse.Namespace, Memories], object]


def main(argv: Sequence[str]) -> int:
    """List, show, add, edit and forget what is remembered across sessions.

    Returns:
        The exit code.
    """
    try:
        options = make_parser().parse_args(_plain(argv))
    except SystemExit as error:  # --help
        return int(error.code or 0)
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


def _plain(argv: Sequence[str]) -> list[str]:
    """Put ``list`` where no command is named."""
    if any(not word.startswith("-") or word in ("-h", "--help") for word in argv[:1]):
        return [*argv]
    return ["list", *argv]


def make_parser() -> Parser:
    """Declare commands and options."""
    parser = Parser("hilum memory", "See and change what is remembered across sessions.", EPILOG)
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)

    def command(name: str, action: Action, help: str) -> Parser:
        made: Parser = commands.add_parser(
            name, help=help, description=f"{help[:1].upper()}{help[1:]}."
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
        which.add_argument("--user", action="store_true", help="only what holds everywhere")
        which.add_argument(
            "--workspace", action="store_true", help="only what belongs to the folder"
        )
        return made

    made = scoped(command("list", _list, "list what is remembered, last written first"))
    made.add_argument(
        "--all", action="store_true", help="also what was replaced by something newer"
    )
    scoped(command("search", _search, "find memories as a prompt would")).add_argument(
        "text", nargs="+", metavar="TEXT"
    )
    command(
        "show", _show, "show one memory, where it comes from, and what it replaced"
    ).add_argument("id", type=int, metavar="ID")
    made = scoped(command("add", _add, "remember something"))
    made.add_argument("text", nargs="+", metavar="TEXT", help="one short sentence")
    made.add_argument("--kind", choices=KINDS, default=None, help="what it is (default: guessed)")
    made = command("edit", _edit, "change the text of a memory; without TEXT in $EDITOR")
    made.add_argument("id", type=int, metavar="ID")
    made.add_argument("text", nargs="*", metavar="TEXT")
    made = scoped(command("forget", _forget, "delete memories for good, with what they replaced"))
    made.add_argument("ids", type=int, nargs="*", metavar="ID")
    made.add_argument("--all", action="store_true", help="all of them; asks first")
    made.add_argument("--yes", action="store_true", help="without asking")
    for name, off in (("off", True), ("on", False)):
        made = command(name, _switch, f"switch memory {name}; nothing is deleted")
        made.set_defaults(off=off)
        made.add_argument(
            "--workspace", action="store_true", help="only in the folder (default: everywhere)"
        )
    return parser


def _memories(options: argparse.Namespace) -> Memories:
    """Return the memories, with the limits of the settings where something is added."""
    path = memory_path()
    if options.action is not _add:
        return Memories(path)
    import trio
    from hilum import open_kernel

    from hilum_memory.longterm.settings import LongTermSettings

    async def settings() -> LongTermSettings:
        async with open_kernel(["longterm"]) as kernel:
            return kernel.settings(LongTermSettings)

    found = trio.run(settings)
    return Memories(path, most=found.most, keep_days=found.keep_days)


def _scopes(options: argparse.Namespace) -> list[str]:
    return [*([] if options.user else [options.folder]), *([] if options.workspace else [USER])]


# --- looking --------------------------------------------------------------------------------------


def _list(options: argparse.Namespace, memories: Memories) -> None:
    found = memories.all(_scopes(options), replaced=options.all)
    off = memories.is_off(options.folder)
    if options.json:
        say_json({"off": off, "memories": [_data(memory) for memory in found]})
        return
    _rows(found)
    if not found:
        say(
            f"Nothing is remembered for {options.folder}."
            if not options.user
            else "Nothing is remembered about you."
        )
    if off:
        say("Memory is off: nothing is recalled or written (hilum memory on).")


def _search(options: argparse.Namespace, memories: Memories) -> None:
    found = memories.search(" ".join(options.text), _scopes(options))
    if options.json:
        say_json([_data(memory) | {"score": score} for memory, score in found])
        return
    _rows(memory for memory, _ in found)
    if not found:
        say("Nothing is found.")


def _show(options: argparse.Namespace, memories: Memories) -> None:
    memory = memories.get(options.id)
    older = memories.history(options.id)
    if options.json:
        say_json(_data(memory) | {"history": [_data(old) for old in older]})
        return
    came = {
        "user": "you asked for it, or wrote it",
        "tool": "the model wrote it down for you",
        "run": "found after a run",
    }
    rows = [
        ("", memory.text),
        ("kind", memory.kind),
        ("holds", "everywhere" if memory.scope == USER else f"in {memory.scope}"),
        (
            "came",
            came[memory.origin] + (f", in session {memory.session}" if memory.session else ""),
        ),
        (
            "written",
            _day(memory.created)
            + (f", confirmed {_day(memory.updated)}" if memory.updated > memory.created else ""),
        ),
        ("recalled", _day(memory.used) if memory.used else "never"),
        ("files", ", ".join(memory.paths)),
        ("replaced", f"by {memory.replaced}" if memory.replaced else ""),
    ]
    for name, value in rows:
        if value:
            say(f"{name + ':' if name else f'[{memory.id}]':10} {value}")
    for old in older:
        say(f"{'before:':10} [{old.id}] {_day(old.updated)} {old.text}")


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
    text = checked(" ".join(options.text))
    user = options.user or (not options.workspace and is_everywhere(text))
    memory = Memory(
        scope=USER if user else options.folder, kind=options.kind or kind_of(text), text=text
    )
    written = memories.add(memory)
    if options.json:
        say_json(
            {
                "what": written.what,
                "memory": _data(written.memory),
                "replaced": [one.id for one in written.replaced],
            }
        )
        return
    new = written.memory
    where = "everywhere" if new.scope == USER else f"in {new.scope}"
    what = "Known already" if written.what == "same" else "Remembered"
    if written.replaced:
        instead = f", in place of {', '.join(str(old.id) for old in written.replaced)}"
    else:
        instead = ""
    say(f"{what} as [{new.id}], {new.kind}, {where}{instead}: {new.text}")


def _edit(options: argparse.Namespace, memories: Memories) -> int:
    old = memories.get(options.id)
    text = " ".join(options.text) if options.text else _in_editor(old.text)
    if not text.strip() or text.strip() == old.text:
        say_json(_data(old)) if options.json else say("Nothing was changed.")
        return 1
    new = memories.edit(options.id, checked(text))
    say_json(_data(new)) if options.json else say(f"[{new.id}] {new.text}")
    return 0


def _in_editor(text: str) -> str:
    """Let the user change a text in an editor of his choice."""
    import shlex
    import subprocess
    from tempfile import TemporaryDirectory

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor or not sys.stdin.isatty():
        hint = 'Give the text: hilum memory edit ID "…"; or set EDITOR, on a terminal.'
        raise UsageError(
            "There is no new text, and no editor to write it in.", code=errors.E_BAD_ARGS, hint=hint
        )
    with TemporaryDirectory(prefix="hilum-memory-") as folder:
        file = Path(folder) / "memory.txt"
        file.write_text(text + "\n")
        try:
            code = subprocess.call([*shlex.split(editor), str(file)])
        except (OSError, ValueError) as error:
            raise UsageError(
                f"The editor {editor!r} does not start: {error}.", code=errors.E_BAD_ARGS
            ) from None
        if code:
            raise UsageError(
                f"The editor ended with {code}; nothing was changed.", code=errors.E_FAILED
            )
        return file.read_text(errors="replace")


def _forget(options: argparse.Namespace, memories: Memories) -> int:
    if bool(options.ids) == options.all:
        hint = "hilum memory list shows the numbers."
        raise UsageError("Give numbers of memories, or --all.", code=errors.E_BAD_ARGS, hint=hint)
    if options.ids:
        gone = memories.forget(options.ids)
        count = len(gone)
        told = [f"Forgot [{memory.id}] {memory.text}" for memory in gone]
    else:
        scopes = _scopes(options)
        held = len(memories.all(scopes))
        if held and not options.yes and not _agrees(f"Delete {held} memories for good? [y/N] "):
            say("Nothing was deleted.")
            return 1
        count = memories.forget_all(scopes)
        told = [f"Forgot {count} memories."]
    if options.json:
        say_json({"forgotten": count})
        return 0
    for line in told:
        say(line)
    if count:
        say("What was said in a session stays in its log: hilum sessions delete ID.")
    return 0


def _agrees(question: str) -> bool:
    if not sys.stdin.isatty():
        raise UsageError(
            "Deleting is confirmed, and nobody is there to ask.",
            code=errors.E_BAD_ARGS,
            hint="Add --yes.",
        )
    print(question, end="", file=sys.stderr, flush=True)
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
