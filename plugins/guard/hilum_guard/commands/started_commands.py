"""Read the commands that code and programs other than shells start.

`python -c "os.system('git push')"`, `vim -c '!git push'` and `tar --checkpoint-action=exec=…` run
shell text that is written in their arguments, their input, or a script that the text writes. Code
that assembles a command at run time may start anything. All these commands are implied: only rules
that ask or deny apply to them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from hilum_guard.commands.loaded_files import SCRIPT_ENDS, read_loaded
from hilum_guard.commands.python_calls import find_started
from hilum_guard.commands.shell_words import UNKNOWN, Word, resolve_escapes
from hilum_guard.new_files import is_new_file
from hilum_guard.programs.npm_commands import complete_npm_command
from hilum_guard.programs.options import valued_only
from hilum_guard.programs.program_names import MAKES, NODE_SCRIPTS, get_program_name
from hilum_guard.small_files import read_small_file

if TYPE_CHECKING:
    from hilum_guard.commands.shell_commands import ParsedCommand
    from hilum_guard.commands.shell_reader import ShellReader

MAX_CODE = 20_000
"""Maximum number of characters in code to search; longer code counts as unknown."""
MAX_LITERALS = 60
_LANGUAGE = re.compile(r"(?:python|pypy)[\d.]*|node|nodejs|perl|ruby|php|lua|[gmn]?awk")
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_EDITORS = frozenset("vim vi view nvim ex ed red".split())
# Calls with which these languages start a program.
_STARTS = re.compile(
    r"\bsystem\b|popen|subprocess|spawn|child_process|\bexec(?!ut)|check_output|getoutput|getline"
    r"|\bqx\b|`|%x|\|\s*\"|\"\s*\||\bpty\b|proc_open|passthru|IO\.",
    re.IGNORECASE,
)
# Code in text that is decoded or assembled first, so that its calls cannot be seen.
_HIDES = re.compile(r"\b(?:exec|eval|compile|__import__|__builtins__|importlib|new Function)\b")
# What shows, outside of literal text, that a command is assembled at run time.
_ASSEMBLES = re.compile(
    r"environ|getenv|\bENV\b|process\.env|input\s*\(|stdin|<>|<STDIN>|decode|\bchr\b|CharCode|fromhex"
    r"|\[::|revers|replace|join|pack\b|format|\+|%|\beval\b|getattr|__import__|\bf\0|sprintf|\.\s*\0"
    r"|\0\s*\0|\0\s*\.\s|atob|glob|open\s*\(|read",
    re.IGNORECASE,
)
# What a program has printed, as text. `find_started` finds the calls that pass it on.
_DECODED_OUTPUT = re.compile(
    r"(\.stdout|\.stderr|communicate\(\)\[\d\]|check_output\([^()]*\))"
    r"\.decode\((?:\0(?:,\s*(?:errors=)?\0)?)?\)"
)
_LITERAL = re.compile(
    r"'((?:\\.|[^'\\])*)'|\"((?:\\.|[^\"\\])*)\"|`([^`]*)`"
    r"|\bq[qwx]?\s*(?:\(([^)]*)\)|\{([^}]*)\}|\[([^\]]*)\]|([^\w\s(){}\[\]])(.*?)\7)",
    re.DOTALL,
)
_LIST = re.compile(r"\0\d+\0(?:\s*,\s*\0\d+\0)+")
# A call with the name of a program, and the list of its words: a list, or a variable.
_STARTED_LIST = re.compile(
    r"(?:spawn|execFile|fork|execa)(?:Sync)?\s*\(\s*\0(\d+)\0\s*,\s*"
    r"((?!function\b|async\b)[\w.]+(?:\([^()]*(?:\([^()]*\)[^()]*)*\))*|\[[^\]]*\])"
)
_ARGUMENTS = re.compile(r"argv|\bARGV\b|process\.argv|\$0|@_|shift", re.IGNORECASE)
_CODE_OPTION = re.compile(r"-\w*[ceEp]|--eval|--print")
_ESCAPED = re.compile(r"\\(.)")
# Options of programs whose value is shell text.
_TEXT_OPTIONS = {
    "tar": re.compile(
        r"--checkpoint-action=exec=(.*)|--use-compress-program=(.*)|--to-command=(.*)"
        r"|--rsh-command=(.*)|--info-script=(.*)|--new-volume-script=(.*)",
        re.DOTALL,
    ),
    "split": re.compile(r"--filter=(.*)", re.DOTALL),
    "sort": re.compile(r"--compress-program=(.*)", re.DOTALL),
}
# `npx npm@latest` and `corepack yarn@4`.
_WITH_VERSION = re.compile(r"[a-z][\w.-]*@[\w.^~*-]+")
_LOADER = re.compile(r"ld-linux[\w.-]*|ld[\d.-]*\.so[\w.]*|ld-musl[\w.-]*")

NPM_FOLDER_OPTIONS = ("--prefix", "-C", "--dir", "--cwd")
"""Options of npm, pnpm, Yarn and Bun that name the folder of the project."""
_NPM_VALUED = frozenset(
    """-w --workspace --filter -F --access --tag --registry --otp --userconfig --globalconfig --cache
    --loglevel --scope --script-shell --omit --include --before --depth --location""".split()
)
NPM_SYNTAX = valued_only(_NPM_VALUED | frozenset(NPM_FOLDER_OPTIONS))


def read_started(reader: ShellReader, command: ParsedCommand, name: str) -> None:
    """Read the commands that a program starts, as far as its words, input and scripts show them.

    Args:
        reader: The reader of the text.
        command: The command.
        name: The name of its program.
    """
    if _LANGUAGE.fullmatch(name):
        _read_language(reader, command, name)
    elif name in _EDITORS:
        _read_editor(reader, command)
    elif name in MAKES:
        _read_make(reader, command, name)
    elif name in NODE_SCRIPTS:
        reader.read_inner(command, (Word(NODE_SCRIPTS[name]), *command.words[1:]))
    elif name == "npm":
        _read_npm(reader, command)
    elif name == "corepack":
        reader.read_inner(command, command.words[1:])
    elif _WITH_VERSION.fullmatch(name):
        reader.read_inner(command, (Word(name.partition("@")[0]), *command.words[1:]))
    elif name == "sqlite3":
        _read_sqlite(reader, command)
    elif name in ("mapfile", "readarray"):
        _read_callback(reader, command)
    elif name in ("coproc", "{"):
        _read_coprocess(reader, command)
    elif _LOADER.fullmatch(name):
        _read_loaded(reader, command)
    elif name in _TEXT_OPTIONS:
        for value in command.arguments:
            match = _TEXT_OPTIONS[name].fullmatch(value)
            if match:
                reader.read_nested(next(filter(None, match.groups()), ""))


# --- languages ------------------------------------------------------------------------------------


def _read_language(reader: ShellReader, command: ParsedCommand, name: str) -> None:
    for at in range(1, len(command.words)) if name in ("node", "nodejs") else ():
        script = NODE_SCRIPTS.get(get_program_name(command.words[at]))
        if script:
            reader.read_inner(command, (Word(script), *command.words[at + 1 :]))
            break
    for code, position, is_new in _find_code(reader, command, name):
        arguments = command.words[position + 1 :]
        _read_code(reader, command, code, arguments, name=name, is_new=is_new)
        if is_new and _PYTHON.fullmatch(name) and UNKNOWN not in code:
            _read_calls(reader, command, (code,))


def _find_code(
    reader: ShellReader, command: ParsedCommand, name: str
) -> Iterator[tuple[str, int, bool]]:
    """Yield the code that an interpreter runs.

    Yields:
        The code, the position of the word that contains or names it, and whether the code is new:
        part of the text, or of a script that is not the project's.
    """
    values = [word.value for word in command.words]
    is_awk = name.endswith("awk")
    for at in range(1, len(values)):
        if _CODE_OPTION.fullmatch(values[at - 1]) and not is_awk:
            yield values[at], at, True
            return
        if is_awk and not values[at].startswith("-") and values[at - 1] not in ("-v", "-F", "-f"):
            yield values[at], at, True
            return
        if values[at] == "-m":
            return
        if not values[at].startswith("-"):
            text, is_new = _read_script(reader, command, values[at])
            if text is not None:
                yield text, at, is_new
            return
    if command.stdin is not None:
        yield command.stdin, len(values), True


def _read_script(reader: ShellReader, command: ParsedCommand, path: str) -> tuple[str | None, bool]:
    """Return a script, and whether an agent may have written it: the text, or an earlier call."""
    # The shell grammar loses a `-` before a here-document.
    if path.startswith("/dev/") or path in ("-", ""):
        return command.stdin, True
    for cwd in command.cwds:
        absolute = os.path.normpath(os.path.join(cwd or "/", path))
        if absolute in reader.written_files:
            return reader.written_files[absolute] or UNKNOWN, True
        content = read_small_file(absolute, MAX_CODE)
        if content is not None and b"\0" not in content:
            is_new = is_new_file(absolute, reader.checker.workspace)
            return content.decode("utf-8", "replace"), is_new
    return None, False


def _read_code(
    reader: ShellReader,
    command: ParsedCommand,
    code: str,
    arguments: tuple[Word, ...],
    *,
    name: str = "",
    is_new: bool,
    limit: int = MAX_CODE,
) -> None:
    starts = _STARTS.search(code) is not None
    if not starts and not _HIDES.search(code):
        return
    if UNKNOWN in code or len(code) > limit:
        reader.add_unknown()
        return
    literals: list[str] = []

    def note(match: re.Match[str]) -> str:
        text = next((group for group in match.groups() if group and len(group) > 0), "")
        literals.append(match[8] or text)
        return f"\0{len(literals) - 1}\0"

    remainder = _LITERAL.sub(note, code)
    for text in literals[:MAX_LITERALS]:
        if starts:
            reader.read_nested(resolve_escapes(text), is_guess=True)
    for listed in _LIST.finditer(remainder):
        numbers = [int(number) for number in re.findall(r"\0(\d+)\0", listed[0])]
        words = tuple(Word(resolve_escapes(literals[number])) for number in numbers)
        if starts and len(words) > 1:
            reader.read_inner(command, words)
    for call in _STARTED_LIST.finditer(remainder) if starts and is_new else ():
        # `spawn("git", [verb])`: a part of the list is known only at run time.
        program = literals[int(call[1])]
        if re.search(r"[\w.(]", re.sub(r"\0\d+\0", "", call[2])):
            unknown = (Word(UNKNOWN, plain=False),) * 3
            reader.read_inner(command, (Word(resolve_escapes(program)), *unknown))
    if starts and _ARGUMENTS.search(remainder):
        _read_arguments(reader, command, arguments)
    without = re.sub(r"\0\d+\0", "\0", remainder)
    if _PYTHON.fullmatch(name):
        without = _DECODED_OUTPUT.sub(r"\1", without)
    # A program of the project may assemble commands, which the user has read or written; an agent
    # may write code only to hide a command.
    is_cut = starts and len(literals) > MAX_LITERALS
    if is_new and (is_cut or _HIDES.search(without) or (starts and _ASSEMBLES.search(without))):
        reader.add_unknown()


# What shows that a module of JavaScript may start a program.
_STARTS_IN_SCRIPT = re.compile(
    r"child_process|\bDeno\.(?:Command|run)\b|\bBun\.(?:spawn|\$)|\bexeca\b|\bshelljs\b|\bzx\b"
)
_LOADS_IN_SCRIPT = r"\b(?:require|import|_load|getBuiltinModule|createRequire\([^()]*\))\s*\(\s*"
# What shows that it runs text as code, or modules whose names it assembles or escapes.
_HIDES_IN_SCRIPT = re.compile(
    rf"{_LOADS_IN_SCRIPT}(?:[^'\"`\s)]|`[^`]*\$\{{|['\"`][^'\"`]*(?:['\"`]\s*[+.[]|\\[xu0-7]))"
    r"|[=:,(]\s*require\s*[;,)\n]|process\.(?:binding|dlopen)|\beval\s*[(:]|\bFunction\s*\("
    r"|\.constructor\s*\(|['\"`](?:node:)?vm['\"`]|\\u\{?[0-9a-fA-F]+\}?\w*\s*\("
)


def read_loaded_files(
    reader: ShellReader, command: ParsedCommand, name: str, paths: Sequence[str]
) -> None:
    """Read the commands that new files start, which a program loads without naming them.

    Args:
        reader: The reader of the text.
        command: The command that loads the files.
        name: The name of its program.
        paths: The files.
    """
    modules = []
    for path in paths:
        text = read_loaded(path)
        if text is None:
            reader.add_unknown()
        elif not path.endswith(SCRIPT_ENDS):
            modules.append(text)
        else:
            if _STARTS_IN_SCRIPT.search(text):
                _read_code(reader, command, text, (), is_new=True, limit=len(text))
            if _HIDES_IN_SCRIPT.search(text):
                reader.add_unknown()
    if not modules:
        return
    callers: list[str] = []
    for code, _, is_new in _find_code(reader, command, name):
        # The code that the command names may call what it imports, and use its values.
        is_read = is_new and _PYTHON.fullmatch(name)
        (modules if is_read else callers).append(code)
    _read_calls(reader, command, tuple(modules), tuple(callers))


def _read_calls(
    reader: ShellReader,
    command: ParsedCommand,
    modules: tuple[str, ...],
    callers: tuple[str, ...] = (),
) -> None:
    """Read the commands that modules of Python start by calls.

    Args:
        reader: The reader of the text.
        command: The command that loads the modules.
        modules: Their code.
        callers: Other code that may call functions of the modules.
    """
    started = find_started(modules, callers)
    for line in started.texts:
        reader.read_nested(line)
    for words in started.words:
        reader.read_inner(command, tuple(Word(each, plain=False) for each in words))
    if started.is_unknown:
        reader.add_unknown()


def _read_arguments(
    reader: ShellReader, command: ParsedCommand, arguments: tuple[Word, ...]
) -> None:
    """Read the arguments of code as the command, or the shell text, that it starts."""
    if arguments and arguments[0].value == "--":
        arguments = arguments[1:]
    reader.read_inner(command, arguments)
    for word in arguments:
        if " " in word.value:
            reader.read_nested(word.value, is_guess=True)


# --- other programs -------------------------------------------------------------------------------


def _read_editor(reader: ShellReader, command: ParsedCommand) -> None:
    """Read `vim -c '!COMMAND'`, and the lines `!COMMAND` in the input of `ed`."""
    texts = list(command.arguments)
    texts += (command.stdin or "").split("\n")
    for text in texts:
        match = re.match(r"\+?[\w\s:%,$.]*!(?!$)(.*)", text, re.DOTALL)
        if match and match[1].strip():
            reader.read_nested(_ESCAPED.sub(_unescape_vim, match[1]))
        elif re.search(r"\bsystem\(|\bexe(?:cute)?\b|\bpy(?:thon)?3?\b|\blua\b", text):
            reader.add_unknown()


def _unescape_vim(match: re.Match[str]) -> str:
    # Vim removes the backslash only before the characters that it would replace.
    return match[1] if match[1] in "!%#" else match[0]


def _read_npm(reader: ShellReader, command: ParsedCommand) -> None:
    """Read `npm publ` as `npm publish`, and other names that npm accepts as the usual ones."""
    for at in range(1, len(command.words)):
        word = command.words[at].value
        if word.startswith("-"):
            continue
        full = complete_npm_command(word)
        if full != word:
            reader.read_inner(command, (*command.words[:at], Word(full), *command.words[at + 1 :]))
        following = [each.value for each in command.words[at + 1 : at + 2]]
        if full == "stage" and following == ["publish"]:
            reader.read_inner(command, (*command.words[:at], *command.words[at + 1 :]))
        # A word after an option may be its value; the next one may be the command.
        if not command.words[at - 1].value.startswith("-"):
            break


def _read_make(reader: ShellReader, command: ParsedCommand, name: str) -> None:
    """Read the recipes in `--eval`, in the input, and in a makefile that the text writes."""
    if name != "make":
        reader.read_inner(command, (Word("make"), *command.words[1:]))
    values = command.arguments
    texts: list[str] = []
    for at, value in enumerate(values):
        following = values[at + 1] if at + 1 < len(values) else ""
        if re.match(r"--ev(?:al?)?(?:=|\Z)", value):
            texts.append(value.partition("=")[2] or following)
        elif re.match(r"-\w*?E", value):
            texts.append(value.partition("E")[2] or following)
        elif re.fullmatch(r"-\w*f|--file|--makefile", value):
            text, _ = _read_script(reader, command, following)
            texts.append(UNKNOWN if text is None else text)
        elif value.startswith(("--file=", "--makefile=")):
            text, _ = _read_script(reader, command, value.partition("=")[2])
            texts.append(UNKNOWN if text is None else text)
    variables = dict(value.partition("=")[::2] for value in values if re.match(r"\w+=", value))
    for text in texts:
        for line in text.replace("\\\n", " ").split("\n"):
            _read_recipe(reader, line, variables)


def _read_recipe(reader: ShellReader, line: str, variables: dict[str, str]) -> None:
    recipe = line[1:] if line.startswith("\t") else line.partition(";")[2]
    recipe = recipe.strip().lstrip("@-+ ")
    if UNKNOWN in line:
        reader.add_unknown()
    if not recipe:
        return
    expanded = re.sub(r"\$[({](\w+)[)}]", lambda match: variables.get(match[1], match[0]), recipe)
    if re.search(r"(?<!\$)(?:\$\$)*\$[({]", expanded):
        reader.add_unknown()
    reader.read_nested(expanded.replace("$$", "$"))


def _read_sqlite(reader: ShellReader, command: ParsedCommand) -> None:
    """Read the lines `.shell COMMAND` and `.output |COMMAND`."""
    for text in [*command.arguments, *(command.stdin or "").split("\n")]:
        match = re.match(r"\s*\.(?:shell|system)\s+(.*)|\s*\.\w+\s+['\"]?\|(.*)", text, re.DOTALL)
        if match:
            # The arguments may be quoted for SQLite.
            reader.read_nested(match[1] or match[2] or "")


def _read_callback(reader: ShellReader, command: ParsedCommand) -> None:
    """Read `mapfile -C COMMAND`."""
    values = command.arguments
    for option, value in pairwise(values):
        if re.fullmatch(r"-\w*C", option):
            reader.read_nested(value)


def _read_coprocess(reader: ShellReader, command: ParsedCommand) -> None:
    """Read `coproc COMMAND`, `coproc NAME { COMMAND`, and `! { COMMAND`.

    The shell grammar takes these for a command with its words, and loses loops and operators in it.
    """
    reader.add_unknown()
    words = command.words[1:]
    for at in range(min(2, len(words))):
        if words[at].value in ("{", "("):
            reader.read_inner(command, words[at + 1 :])
    reader.read_inner(command, words)


def _read_loaded(reader: ShellReader, command: ParsedCommand) -> None:
    """Read `ld-linux.so PROGRAM`."""
    words = command.words[1:]
    while words and words[0].value.startswith("-"):
        # The options `--library-path`, `--argv0` and others take a value.
        words = words[1:]
    for at in range(min(2, len(words))):
        reader.read_inner(command, words[at:])
