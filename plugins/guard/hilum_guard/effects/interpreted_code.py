"""Find the code that a program runs: scripts, code in its arguments, and piped code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import attrs

from hilum_guard.commands.predicted_output import python_prints
from hilum_guard.effects.file_access import UNKNOWN, CodeOrigin, Script
from hilum_guard.programs import options
from hilum_guard.programs.program_names import MAKES, SHELLS

if TYPE_CHECKING:
    from hilum_guard.commands.verdicts import SimpleCommand

# Interpreters that run their standard input if their arguments contain neither code nor a file.
_LANGUAGE = re.compile(
    r"(?:python|ipython|pypy)[\d.]*|node|nodejs|ts-node|ruby|perl|php|lua|luajit|tclsh|julia"
    r"|osascript|guile|expect"
)
_INTERPRETER = re.compile(
    _LANGUAGE.pattern
    + r"|deno|bun|tsx|rscript|r|racket|elixir|groovy|gawk|awk|mawk|pwsh|powershell"
    r"|gdb|ex|ed|tmux|screen|crontab|parallel|watch|xargs|script|at|batch|busybox"
)
# Programs that read code from standard input, and whose operands are not code files.
_INPUT_ONLY = frozenset("sqlite3 vim nvim vi emacs sed gsed make gmake npm npx jq ssh".split())
# Programs whose arguments are patterns or text for people: these programs do not run commands in
# their arguments.
_TEXTUAL = frozenset(
    """echo printf git gh glab hub grep egrep fgrep rg ag ack cat tee head tail wc sort diff less
    more comm tr cut jq yq hilum test [
    [[ expr""".split()
)


@attrs.frozen
class Code:
    """The code that a program runs.

    Attributes:
        texts: Text that may be code in a language that the guard does not parse.
        script: The file that the program runs.
        origin: If the program is an interpreter that does not run a file, the origin of its code.
    """

    texts: tuple[str, ...] = ()
    script: Script | None = None
    origin: CodeOrigin = ""


def read_code(command: SimpleCommand) -> Code:
    """Return the code that a simple command runs."""
    # If code only prints, the program that reads the output is judged by that output.
    if _only_prints(command):
        return Code()
    name = command.program
    texts = []
    if name not in _TEXTUAL:
        texts = [word for word in command.words[1:] if _may_be_code(word)]
    runs_input = name in SHELLS or name in _INPUT_ONLY or _INTERPRETER.fullmatch(name)
    if command.stdin and runs_input and not _ignores_input(command):
        texts.append(command.stdin)
    return Code(tuple(texts), find_script(command), _find_origin(command))


def _ignores_input(command: SimpleCommand) -> bool:
    """Return whether a command is `make`, which reads its input only if it is told to."""
    if command.program not in MAKES:
        return False
    if any(name.startswith("MAKE") or name == "GNUMAKEFLAGS" for name in command.assigned):
        return False
    settings = [value for name, value in command.environment if "MAKE" in name]
    return not any(_NAMES_INPUT.search(text) for text in (*command.words[1:], *settings))


# `make -f -` reads its makefile from standard input.
_NAMES_INPUT = re.compile(rf"(?:^|[f=\s])-$|/dev/|/proc/|^-\w*f$|{UNKNOWN}")


def _may_be_code(word: str) -> bool:
    # Code with an effect contains at least one of these characters; most options and file names do
    # not.
    return len(word) > 2 and re.search(r"[\s(;'\"]", word) is not None


def _only_prints(command: SimpleCommand) -> bool:
    """Return whether a command is `python -c` with code that only prints literal text."""
    words = command.words
    if len(words) != 3 or words[1] != "-c" or command.assigned:
        return False
    is_python = re.fullmatch(r"python[\d.]*", command.program)
    return is_python is not None and python_prints(words[2]) is not None


def find_script(command: SimpleCommand) -> Script | None:
    """Return the file that a command runs, or None if it does not run a file."""
    name = command.program
    is_shell = name in SHELLS or name in ("source", ".")
    if not is_shell and not _INTERPRETER.fullmatch(name):
        first = command.words[0]
        runs_file = "/" in first and UNKNOWN not in first and name not in _INPUT_ONLY
        return Script(first, 0, False) if runs_file else None
    if _has_code_option(command, is_shell):
        return None
    # `bash -s` and similar commands read standard input; the words after `-s` are arguments.
    parsed = options.parse(command.words[1:], _OPTIONS)
    if parsed.operands:
        position = parsed.positions[0] + 1
        return Script(command.words[position], position, is_shell)
    if command.reads:
        return Script(command.reads[0], len(command.words), is_shell)
    return None


def _find_origin(command: SimpleCommand) -> CodeOrigin:
    """Return where an interpreter's code comes from; empty if it runs a file or nothing."""
    name = command.program
    is_shell = name in SHELLS
    if not is_shell and not _LANGUAGE.fullmatch(name):
        return ""
    parsed = options.parse(command.words[1:], _OPTIONS)
    if parsed.has("-c", "-e", "-E", "--eval", "--print"):
        return "words"
    informs = _INFORMING if name.startswith(("python", "pypy")) else _INFORMING | {"-v"}
    if parsed.has("-m", *informs) or command.reads:
        return ""
    runs_input = parsed.operands[:1] in ((), ("-",)) or (is_shell and parsed.has("-s"))
    return "input" if runs_input else ""


_INFORMING = frozenset(("-V", "-h", "--version", "--help"))
"""Options with which an interpreter only prints something about itself."""
_OPTIONS = options.valued_only(frozenset(f"-{letter}" for letter in "cefImMOoWX"))


# In `perl -pie s/a/b/ f`, the letters after `i` are a suffix, so that this runs a file.
_ONE_LINER = re.compile(r"-[pnlawsTWtuUcv0-7]*[eE]")
_EVALUATED = re.compile(r"-e|-p|-pe|--eval|--print")
_EVALUATING = {
    "perl": _ONE_LINER,
    "ruby": _ONE_LINER,
    "node": _EVALUATED,
    "nodejs": _EVALUATED,
}


def _has_code_option(command: SimpleCommand, is_shell: bool) -> bool:
    """Return whether an interpreter's code is in its arguments or in a module."""
    evaluating = _EVALUATING.get(command.program)
    if evaluating is not None and any(map(evaluating.fullmatch, command.words[1:])):
        return True
    letters = "c"
    if not is_shell and command.program.startswith(("python", "pypy")):
        letters = "cm"
    return any(re.fullmatch(rf"-[a-zA-Z]*[{letters}]", word) for word in command.words[1:])
