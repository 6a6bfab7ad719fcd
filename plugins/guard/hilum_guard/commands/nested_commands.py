"""Read the commands that run other commands, and those that affect later commands.

Examples of the former are `sudo`, `bash -c` and `eval`; examples of the latter are `cd`, `set` and
`alias`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import attrs

from hilum_guard.commands import command_runners, indirect_commands
from hilum_guard.commands.current_branch import predict_branch
from hilum_guard.commands.listing_commands import list_below
from hilum_guard.commands.predicted_output import predict_output
from hilum_guard.commands.shell_words import (
    MAX_FIELDS,
    UNKNOWN,
    Unreadable,
    Word,
    decode_value,
    encode_source,
    encode_value,
)
from hilum_guard.file_names import resolve_links
from hilum_guard.programs.program_names import (
    LAUNCHERS,
    PREFIXES,
    RUNNERS,
    SHELLS,
    find_first_operand,
    find_later_starts,
    find_word,
    get_program_name,
    quote_words,
)
from hilum_guard.small_files import read_small_file

if TYPE_CHECKING:
    from hilum_guard.commands.shell_commands import ParsedCommand
    from hilum_guard.commands.shell_reader import ShellReader

# This depth must be lower than the reader's `MAX_DEPTH`, beyond which it rejects the whole text.
MAX_CALL_DEPTH = 30
_ASSIGNING = frozenset(("env", "sudo", "doas"))
_ASSIGNMENT = re.compile(r"\w+=")
_JOINS_WORDS = frozenset(("watch", "hyperfine"))
# Options whose value is command text. With `env -S`, the value may be attached, and the rest of the
# line is appended to the value.
_TEXT_OPTION = re.compile(r"(?:-c|--command)()")
_ENV_TEXT_OPTION = re.compile(r"(?:-[iv0]*S|--split-string|--command|-c\Z)=?(.*)", re.DOTALL)
# Programs whose option `-c` takes a number or a list of numbers.
_NUMBERED = frozenset(("cpulimit", "ionice", "taskset"))
_SHELL_TEXT_OPTION = re.compile(r"-[a-zA-Z]*c[a-zA-Z]*|--command")
_PYTHON = re.compile(r"python[\d.]*|pypy[\d.]*|py|uv")
_MODULE_OPTION = re.compile(r"(?:--module|-[bBdEiIOPqsSuvx]*m(\w.*)?)")
_STANDARD_INPUT = frozenset(("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"))
_LAUNCHER_VALUED = "pn"
MAX_SOURCED = 3
"""Maximum number of files that source each other."""
# Files with the functions of a project are short; those of version managers would take long.
MAX_SOURCED_BYTES = 50_000
_SOURCES = re.compile(r"^[ \t]*(?:\.|source)[ \t]+['\"]?([\w./~-]+)", re.MULTILINE)


def read_command(reader: ShellReader, command: ParsedCommand) -> str | None:
    """Add a command and read what it runs; return what it prints, or None if unknown."""
    if not command.words:
        reader.commands.append(command)
        indirect_commands.note_writes(reader, command, None)
        return ""
    text = command.words[0].value
    if text in reader.fork_bombs:
        return None
    if text in reader.state.functions and reader.depth < MAX_CALL_DEPTH:
        reader.add_doubt("It calls a function that it defines.")
        if command.redirects:
            # The redirections of the call apply to all commands of the function.
            reader.commands.append(attrs.evolve(command, words=()))
        return reader.call_function(text, command)
    if text in reader.state.aliases:
        # Shells do not expand an alias within its own text.
        alias = reader.state.aliases.pop(text)
        arguments = quote_words(command.words[1:])
        return reader.read_nested(f"{alias} {arguments}", stdin=command.stdin)
    name = get_program_name(command.words[0])
    before = len(reader.commands)
    reader.commands.append(command)
    special = _find_special(name)
    output = special(reader, command) if special else predict_output(command, name)
    if output is None and name == "git" and "PATH" not in reader.state.variables:
        output = predict_branch(command, reader.commands[:before])
    with reader.implying():
        _read_alternatives(reader, command, name)
    indirect_commands.read_indirect(reader, command, name, output, before)
    _name_runner(reader, command, before)
    # Allow rules apply to the command that a wrapper runs, not to the wrapper.
    if special is _read_prefix and len(reader.commands) > before + 1:
        reader.commands[before] = attrs.evolve(command, wrapper=True)
    return output


def _name_runner(reader: ShellReader, command: ParsedCommand, before: int) -> None:
    """Add a command to the runners of the commands that it runs."""
    words = tuple(word.value for word in command.words)
    for number in range(before + 1, len(reader.commands)):
        inner = reader.commands[number]
        reader.commands[number] = attrs.evolve(inner, runners=(*inner.runners, words))


def _find_special(name: str) -> Callable[[ShellReader, ParsedCommand], str | None] | None:
    if name in _SPECIAL:
        return _SPECIAL[name]
    if name in SHELLS:
        return _read_shell
    if name in PREFIXES:
        return _read_prefix
    return _read_runner if name in RUNNERS else None


# --- programs that run the rest of their line -----------------------------------------------------


# The options of programs that run their command in another folder.
_FOLDER_OPTIONS = {
    "env": re.compile(r"(?:-[i0v]*C|--chdir)=?(.*)", re.DOTALL),
    "sudo": re.compile(r"(?:-[bEHnPSk]*D|--chdir)=?(.*)", re.DOTALL),
    "uv": re.compile(r"--directory=?(.*)", re.DOTALL),
    "poetry": re.compile(r"(?:-C|--directory)=?(.*)", re.DOTALL),
}


def _read_prefix(reader: ShellReader, command: ParsedCommand) -> str | None:
    """Read `sudo COMMAND`, `env A=1 COMMAND`, `timeout 5 COMMAND`."""
    words = command.words
    name = get_program_name(words[0])
    valued, skipped = PREFIXES[name]
    at = find_first_operand(words, valued)
    # `command -v rm` prints the path of a program.
    if name == "command" and any(re.fullmatch(r"-\w*[vV]\w*", x.value) for x in words[1:at]):
        return words[-1].value
    for position in range(1, len(words)):
        text = _get_option_text(name, words, position)
        if text:
            reader.read_nested(text, stdin=command.stdin)
    at += skipped
    # `env -` is `env -i`.
    if name == "env" and at < len(words) and words[at].value == "-":
        at += 1
    if name in _ASSIGNING:
        at = _assign_variables(reader, words, at)
    before = reader.state.cwds
    _enter_folder(reader, name, words[1:at])
    try:
        if name in _JOINS_WORDS and at < len(words):
            return reader.read_nested(" ".join(word.value for word in words[at:]))
        return reader.read_inner(command, words[at:])
    finally:
        reader.state.cwds = before


def _enter_folder(reader: ShellReader, name: str, words: tuple[Word, ...]) -> None:
    """Enter the folder in which `env -C FOLDER` and `sudo -D FOLDER` run their command."""
    pattern = _FOLDER_OPTIONS.get(name)
    if pattern is None:
        return
    for number, word in enumerate(words):
        match = pattern.fullmatch(word.value)
        if match is None:
            continue
        goal = attrs.evolve(word, value=match[1]) if match[1] else None
        goal = goal or next(iter(words[number + 1 :]), None)
        if goal is None or not goal.known or goal.glob:
            reader.state.cwds = (None,)
            continue
        # Without the folder, the command does not run.
        checker = reader.state.checker
        folders = [checker.absolute(goal.value, cwd) for cwd in reader.state.cwds]
        reader.state.cwds = tuple(dict.fromkeys(folders))


def _get_option_text(name: str, words: tuple[Word, ...], at: int) -> str:
    """Return the command text in an option's value; empty for other options."""
    if name in _NUMBERED:
        return ""
    pattern = _ENV_TEXT_OPTION if name == "env" else _TEXT_OPTION
    match = pattern.fullmatch(words[at].value)
    if match is None:
        return ""
    text = match[1]
    rest = words[at + 1 :]
    if not text and rest:
        text = rest[0].value
        rest = rest[1:]
    return f"{text} {quote_words(rest)}" if text else ""


def _assign_variables(reader: ShellReader, words: tuple[Word, ...], start: int) -> int:
    """Set the variables in `env A=1 …`; return the position at which the command begins."""
    at = start
    while at < len(words) and _ASSIGNMENT.match(words[at].value):
        variable, _, value = words[at].value.partition("=")
        reader.state.variables[variable] = (encode_source(value),)
        reader.add_doubt(f"It sets {variable} for a command.")
        indirect_commands.read_variable(reader, variable, value)
        at += 1
    return at


def _read_runner(reader: ShellReader, command: ParsedCommand) -> str | None:
    """Read `uv run COMMAND`, `bundle exec COMMAND`."""
    verbs = RUNNERS[get_program_name(command.words[0])]
    at = find_word(command.words, verbs)
    begin = find_first_operand(command.words, _LAUNCHER_VALUED, at + 1)
    before = reader.state.cwds
    _enter_folder(reader, get_program_name(command.words[0]), command.words[1:begin])
    try:
        return reader.read_inner(command, command.words[begin:])
    finally:
        reader.state.cwds = before


def _read_alternatives(reader: ShellReader, command: ParsedCommand, name: str) -> None:
    """Read the commands that a program may run in addition to the obvious one.

    An unknown option may take the next word as its value, so the command may begin later. In
    addition, `python -m pip` runs `pip`. These commands are implied: only rules that ask or deny
    apply to them.
    """
    words = command.words
    for at in dict.fromkeys(_find_starts(words, name)):
        reader.read_inner(command, words[at:])
    if name in LAUNCHERS:
        for at in range(1, len(words) - 1):
            if words[at].value in ("-c", "--call"):
                reader.read_nested(words[at + 1].value)
    module = _find_module(words, name)
    if module is not None:
        reader.read_inner(command, module)


def _find_starts(words: tuple[Word, ...], name: str) -> list[int]:
    """Return the other positions at which the command that a program runs may begin."""
    if name in PREFIXES:
        valued, skipped = PREFIXES[name]
        first = find_first_operand(words, valued)
        return [at + skipped for at in find_later_starts(words, valued, first)]
    verbs = RUNNERS.get(name) or LAUNCHERS.get(name)
    if not verbs:
        return []
    verb = find_word(words, verbs)
    if verb == len(words) and "" in verbs:
        verb = 0
    first = find_first_operand(words, _LAUNCHER_VALUED, verb + 1)
    starts = [first] if name in LAUNCHERS else []
    starts += find_later_starts(words, _LAUNCHER_VALUED, first)
    starts.append(find_word(words, ("--",), verb + 1) + 1)
    return starts


def _find_module(words: tuple[Word, ...], name: str) -> tuple[Word, ...] | None:
    """Return the command that `python -m NAME` or `uv run -m NAME` runs; None for other words."""
    if not _PYTHON.fullmatch(name):
        return None
    begin = find_word(words, ("run",)) if name == "uv" else 0
    for at in range(begin + 1, len(words)):
        text = words[at].value
        match = _MODULE_OPTION.fullmatch(text)
        if match:
            attached = (Word(match[1]),) if match[1] else ()
            return (*attached, *words[at + 1 :])
        if not text.startswith("-") and name != "uv":
            return None
    return None


# --- shells ---------------------------------------------------------------------------------------


def _read_shell(reader: ShellReader, command: ParsedCommand) -> str | None:
    """Read `bash -c TEXT`, `bash FILE`, `… | bash`."""
    words = command.words
    for option in range(1, len(words)):
        if not _SHELL_TEXT_OPTION.fullmatch(words[option].value):
            continue
        at = find_first_operand(words, "oO", option)
        if at < len(words):
            after = [encode_value(word) for word in words[at + 1 :]]
            # In `bash -c TEXT A B`, `$0` is A, and the positional parameters begin with B.
            reader.state.variables["0"] = (after[0] if after else UNKNOWN,)
            # If no arguments follow, `$1` is empty; the outer text's `$1` is not visible.
            return reader.read_nested(words[at].value, tuple(after[1:]) or ("",), command.stdin)
    at = find_first_operand(words, "oO")
    script = words[at].value if at < len(words) else "-"
    return _read_script(reader, command, script, words[at + 1 :])


def _read_script(
    reader: ShellReader, command: ParsedCommand, script: str, arguments: tuple[Word, ...]
) -> str | None:
    text = reader.piped_texts.get(script)
    if text is None and script.startswith("/dev/fd/") and script != "/dev/fd/0":
        reader.add_unknown()  # the output is known only at run time
    options = {word.value for word in command.words}
    if script in _STANDARD_INPUT or "-s" in options:
        text = command.stdin
        if (
            text is None
            and reader.state.checker.elsewhere
            and not command_runners.is_fed(reader.state, command)
        ):
            text = ""  # a shell in a container waits for what is typed, which is judged then
        if text is None and options.isdisjoint(("--version", "--help")):
            reader.add_unknown()  # a shell's input may be any command
    if text is None:
        return None
    return reader.read_nested(text, tuple(map(encode_value, arguments)))


def _read_source(reader: ShellReader, command: ParsedCommand) -> str | None:
    if len(command.words) < 2:
        return None
    path = command.words[1].value
    _define_functions(reader, command, path)
    positional = reader.state.positional
    if positional and len(command.words) == 2 and path not in reader.piped_texts:
        # Without arguments of its own, the file sees those of the script that sources it.
        given = tuple(Word(decode_value(value), plain=False) for value in positional)
        with reader.implying():
            reader.read_inner(command, (*command.words, *given))
    return _read_script(reader, command, command.words[1].value, command.words[2:])


def _define_functions(
    reader: ShellReader, command: ParsedCommand, path: str, depth: int = 0
) -> None:
    """Define the functions of a file that the current shell sources, for later commands."""
    if UNKNOWN in path or command.checker.elsewhere or depth > MAX_SOURCED:
        return
    for cwd in command.cwds:
        absolute = os.path.normpath(os.path.join(cwd or "/", os.path.expanduser(path)))
        data = read_small_file(absolute, MAX_SOURCED_BYTES)
        if data is None or b"\0" in data:
            continue
        text = data.decode("utf-8", "replace")
        with suppress(Unreadable, RecursionError, ValueError):
            reader.define_functions(text)
        for inner in _SOURCES.findall(text):
            _define_functions(reader, command, inner, depth + 1)


def _read_eval(reader: ShellReader, command: ParsedCommand) -> str | None:
    text = " ".join(value for value in command.arguments if value != "--")
    return reader.read_nested(text, stdin=command.stdin, keep_variables=True)


def _read_su(reader: ShellReader, command: ParsedCommand) -> str | None:
    """Read `su -c TEXT`, `runuser COMMAND`, `script -c TEXT`."""
    for at in range(1, len(command.words) - 1):
        if re.fullmatch(r"-\w*c|--(session-)?command", command.words[at].value):
            return reader.read_nested(command.words[at + 1].value)
    if get_program_name(command.words[0]) == "runuser":
        return _read_prefix(reader, command)
    return None


def _read_nix_shell(reader: ShellReader, command: ParsedCommand) -> str | None:
    """Read `nix-shell --run TEXT`, `nix-shell --command TEXT`, `… | nix-shell`."""
    output = None
    is_given = False
    for at in range(1, len(command.words) - 1):
        if command.words[at].value in ("--run", "--command"):
            is_given = True
            output = reader.read_nested(command.words[at + 1].value, stdin=command.stdin)
    return output if is_given else _read_fed(reader, command)


def _read_fed(reader: ShellReader, command: ParsedCommand) -> str | None:
    """Read what a shell runs that gets its commands from another command: `… | nix-shell`."""
    is_fed = command.stdin is not None or command_runners.is_fed(reader.state, command)
    return _read_script(reader, command, "-", ()) if is_fed else None


def _read_nix(reader: ShellReader, command: ParsedCommand) -> str | None:
    """Read `nix develop -c COMMAND`, `nix shell PACKAGE --command COMMAND`, `nix run PACKAGE -- …`."""
    words = command.words
    if find_word(words, ("run",)) < len(words):
        at = find_first_operand(words, "", find_word(words, ("run",)) + 1)
        if at < len(words):
            # `nixpkgs#cargo`, `nixpkgs#cowsay.out`, or the name of a flake.
            name = words[at].value.rpartition("#")[2].partition(".")[0]
            rest = words[find_word(words, ("--",)) + 1 :]
            return reader.read_inner(command, (attrs.evolve(words[at], value=name), *rest))
    at = find_word(words, ("-c", "--command"))
    if at + 1 < len(words):
        return reader.read_inner(command, words[at + 1 :])
    has_shell = min(find_word(words, ("develop", "shell")), at) < at
    return _read_fed(reader, command) if has_shell else None


def _read_trap(reader: ShellReader, command: ParsedCommand) -> str | None:
    at = find_first_operand(command.words, "")
    return reader.read_nested(command.words[at].value) if at < len(command.words) else None


def _read_input(reader: ShellReader, command: ParsedCommand) -> str | None:
    """Read the commands in the standard input of `at` and `batch`."""
    return reader.read_nested(command.stdin) if command.stdin else None


# --- builtins that change the state of the shell --------------------------------------------------


def _set_alias(reader: ShellReader, command: ParsedCommand) -> str | None:
    for value in command.arguments:
        name, equals, text = value.partition("=")
        if equals:
            reader.state.aliases[name] = text
    return ""


def _set_positional(reader: ShellReader, command: ParsedCommand) -> str | None:
    """Read `set -- A B`."""
    words = command.words[1:]
    end = find_word(words, ("--",))
    if end < len(words):
        words = words[end + 1 :]
    elif not words or words[0].value.startswith(("-", "+")):
        return ""
    reader.state.positional = tuple(map(encode_value, words))
    return ""


def _shift(reader: ShellReader, command: ParsedCommand) -> str | None:
    """Read `shift 2`."""
    given = "".join(command.arguments[:1])
    number = int(given) if given.isdecimal() and len(given) < 4 else 1
    reader.state.positional = reader.state.positional[number:]
    return ""


def _read_into_variables(reader: ShellReader, command: ParsedCommand) -> str | None:
    """Parse `read` and `mapfile`: their variables are unknown unless standard input is known."""
    variables = reader.state.variables
    values = command.arguments
    for value in values:
        if re.fullmatch(r"\w+", value):
            variables[value] = (UNKNOWN,)
    listed = reader.state.listed
    if command.stdin is None and values and listed is not None:
        first, *others = map(_encode_path, list_below(listed.words) or [UNKNOWN])
        variables[values[-1]] = (first,)
        # Each line may be below another folder.
        for other in others:
            reader.note_alternative(values[-1], (other,))
    if not command.stdin or not values:
        return ""
    lines = command.stdin.rstrip("\n").split("\n")
    fills_array = any(re.fullmatch(r"-\w*a\w*", value) for value in values)
    if get_program_name(command.words[0]) == "read":
        lines = lines[0].split() if fills_array else ["\n".join(lines)]
    is_found = reader.state.listed is not None
    # As with `xargs`, a `*` in the input stands for the names that `ls` prints.
    words = [Word(line, glob="*" in line, tree=is_found) for line in lines[:MAX_FIELDS]]
    if len(lines) > MAX_FIELDS:
        words.append(Word(UNKNOWN, plain=False))
    variables[values[-1]] = tuple(map(encode_value, words))
    return ""


def _encode_path(path: str) -> str:
    return encode_value(Word(path, plain=False))


def _change_folder(reader: ShellReader, command: ParsedCommand) -> str | None:
    """Read `cd FOLDER`."""
    state = reader.state
    at = find_first_operand(command.words, "")
    if at < len(command.words):
        goal = command.words[at]
    else:
        goal = Word(state.variables.get("HOME", (UNKNOWN,))[0], plain=False)
    if goal.value == "-" or not goal.known or len(command.words) > at + 1:
        state.cwds = (None,)
        return ""
    if goal.glob:
        # The folder is unknown, but a later pattern may match names in every folder that this
        # pattern matches, as in `for d in /*; do cd "$d" && rm -rf *; done`.
        state.cwds = (None, state.checker.absolute(goal.value, state.cwds[-1]))
        state.variables["PWD"] = (UNKNOWN,)
        return ""
    reached: list[str | None] = []
    for cwd in state.cwds:
        if state.checker.contained and state.checker.absolute(goal.value, cwd) is None:
            reached.append(_find_counterpart(reader, goal.value, cwd))
            continue
        reached += _find_reached(state.checker.absolute(goal.value, cwd), cwd, goal, reader)
    # Each `cd` may fail and thus double the number of possible folders, so only the last four,
    # which are the most likely, are kept.
    state.cwds = tuple(dict.fromkeys(reached))[-4:]
    last = state.cwds[-1]
    state.variables["PWD"] = (encode_source(last) if last else UNKNOWN,)
    return ""


def _find_counterpart(reader: ShellReader, goal: str, cwd: str | None) -> str | None:
    """Return the folder here that a folder in a container is taken for.

    Most containers of a project show its files, in a folder with another name.
    """
    if os.path.isabs(goal):
        return reader.checker.workspace
    return os.path.normpath(os.path.join(cwd, goal)) if cwd is not None else None


def _find_reached(
    logical: str | None, cwd: str | None, goal: Word, reader: ShellReader
) -> list[str | None]:
    """Return the folders in which the commands after a `cd` may run."""
    if logical is None:
        return [None]
    physical = logical
    if not reader.state.checker.contained:
        physical = resolve_links(os.path.join(cwd or "/", goal.value))
    # If the folder does not exist, `cd` may fail, and the next commands run in the old folder.
    reached: list[str | None] = [] if os.path.isdir(physical) else [cwd]
    if resolve_links(logical) != physical:
        reached.append(physical)
    return [*reached, logical]


def _push_folder(reader: ShellReader, command: ParsedCommand) -> str | None:
    values = command.arguments
    if len(values) == 1 and not values[0].startswith(("+", "-")):
        return _change_folder(reader, command)
    reader.state.cwds = (None,)
    return ""


_SPECIAL: dict[str, Callable[[ShellReader, ParsedCommand], str | None]] = {
    "eval": _read_eval,
    **dict.fromkeys(("su", "runuser", "script"), _read_su),
    "nix-shell": _read_nix_shell,
    "nix": _read_nix,
    "trap": _read_trap,
    "alias": _set_alias,
    "set": _set_positional,
    "shift": _shift,
    **dict.fromkeys(("read", "mapfile", "readarray"), _read_into_variables),
    **dict.fromkeys(("cd", "chdir"), _change_folder),
    **dict.fromkeys(("pushd", "popd"), _push_folder),
    **dict.fromkeys((".", "source"), _read_source),
    **dict.fromkeys(("at", "batch"), _read_input),
    **dict.fromkeys(("xargs", "gxargs"), command_runners.read_xargs),
    **dict.fromkeys(("find", "gfind"), command_runners.read_find),
    "ssh": command_runners.read_ssh,
    "parallel": command_runners.read_parallel,
    **dict.fromkeys(("fd", "fdfind"), command_runners.read_fd),
    "cmake": command_runners.read_cmake,
    **dict.fromkeys(
        "docker docker-compose podman podman-compose nerdctl kubectl oc".split(),
        command_runners.read_container,
    ),
    "git": command_runners.read_git,
}
