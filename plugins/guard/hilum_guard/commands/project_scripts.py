"""Find the commands in the workspace scripts that a command runs.

Shell scripts, recipes of `make` and `just`, and npm scripts are read, so that a rule that denies a
command also applies inside scripts. A script that is in another language, is too large or cannot be
parsed is treated like any other program: only the sandbox restricts it.
"""

from __future__ import annotations

import fnmatch
import glob
import hashlib
import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import dropwhile, islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs

from hilum_guard.commands.shell_commands import ParsedCommand
from hilum_guard.commands.shell_reader import ShellReader
from hilum_guard.commands.shell_words import (
    UNKNOWN,
    UNKNOWN_TEXT,
    Unreadable,
    Word,
    encode_value,
)
from hilum_guard.commands.started_commands import NPM_FOLDER_OPTIONS, NPM_SYNTAX
from hilum_guard.commands.statements import split_statements
from hilum_guard.new_files import is_new_file
from hilum_guard.programs.npm_commands import complete_npm_command
from hilum_guard.programs.options import Parsed, Syntax, parse, valued_only
from hilum_guard.programs.program_names import (
    MAKES,
    SHELLS,
    find_first_operand,
    get_program_name,
)
from hilum_guard.small_files import read_small_file

if TYPE_CHECKING:
    from hilum_guard.commands.path_checks import PathChecker

MAX_BYTES = 200_000
# Scripts may run scripts; only rules that ask or deny apply to the inner scripts' commands.
MAX_SCRIPTS = 40
MAX_DEPTH = 3
MAX_FOUND = 400
MAX_GOALS = 1_000
MAX_SHIFTED = 6
"""Maximum number of leading arguments that a script is assumed to remove by `shift`."""
# `make` variables may refer to other variables and to themselves.
MAX_EXPANSIONS = 5
_SHEBANG = re.compile(rf"#!\s*\S*/(?:env\s+(?:-S\s+)?)?(?:{'|'.join(sorted(SHELLS))})\b")
# The parameters by which a shell script may run its arguments as a command.
_ARGUMENTS = re.compile(r"\$\{?[@*1-9]")
# A sourced file sees the arguments, too.
_SOURCES = re.compile(r"(?:^|[;&|{(]|\bthen\b|\bdo\b)\s*(?:\.|source)\s", re.MULTILINE)
_NPM = frozenset("npm pnpm yarn bun cnpm tnpm".split())
_SCRIPT_RUNNERS = ("npm-run-all", "npm-run-all2", "run-s", "run-p")
_NPM_RUN = frozenset("run run-script rum urn".split())
# npm sub-commands, each with the names of the project scripts that it runs.
_NPM_LIFECYCLE = {
    "test": ("test",),
    "start": ("start",),
    "stop": ("stop",),
    "restart": ("restart", "stop", "start"),
    "install": ("preinstall", "install", "postinstall", "prepare"),
    "ci": ("preinstall", "install", "postinstall", "prepare"),
    "publish": ("prepublishOnly", "prepack", "prepare", "publish", "postpublish"),
    "pack": ("prepack", "prepare", "postpack"),
    "version": ("preversion", "version", "postversion"),
}
# The names are in the order in which GNU make searches for them.
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_JUSTFILES = ("justfile", "Justfile", ".justfile")
_RULE = re.compile(r"([^\t#=:\n][^=:\n]*?)\s*::?(?!=)\s*([^=\n]*)")
_JUST_RULE = re.compile(r"@?([A-Za-z_][\w-]*)((?:\s+[^:\n]*)?):(?!=)\s*(.*)")
_VARIABLE = re.compile(r"(?:export\s+|override\s+)*([\w.-]+)\s*(?::{0,3}|\?|\+)=\s*(.*)")


class Scripts(NamedTuple):
    """The commands found in scripts.

    Attributes:
        found: The commands in the scripts.
        unresolved: Commands whose effect is known only at run time, each with the reason.
        fork_bombs: Functions in scripts that start copies of themselves.
        unread: A text for each script that was not read or not read completely; the text changes
            if the script does.
    """

    found: tuple[ParsedCommand, ...] = ()
    unresolved: tuple[tuple[ParsedCommand, str], ...] = ()
    fork_bombs: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


class _Text(NamedTuple):
    """Shell text in a file.

    Attributes:
        text: The text; empty if it cannot be read or is in another language.
        folder: The working folder.
        recipe: Whether the text is a recipe or an npm script.
        unread: A text that describes the file if it cannot be read or is in another language.
        path: The file, if all of it is shell text.
        arguments: The arguments of a script that uses its arguments.
    """

    text: str
    folder: str
    recipe: bool = False
    unread: str = ""
    path: str = ""
    arguments: tuple[Word, ...] = ()


class _Rule(NamedTuple):
    """The recipe for a `make` or `just` goal, and the goals that the goal depends on."""

    # The prerequisites as written: variables in them may be defined later.
    needs: list[str]
    lines: list[str]


def script_commands(commands: Iterable[ParsedCommand], checker: PathChecker) -> Scripts:
    """Return the commands in the scripts that commands run. Reads the disk.

    Args:
        commands: The commands in a command line.
        checker: Checks paths in the workspace.
    """
    waiting = [(command, 1) for command in commands]
    found: list[ParsedCommand] = []
    unresolved: list[tuple[ParsedCommand, str]] = []
    fork_bombs: list[str] = []
    unread: list[str] = []
    # Many goals must not displace the commands in recipes.
    goals: list[ParsedCommand] = []
    seen: set[_Text] = set()
    while waiting and len(seen) < MAX_SCRIPTS and len(found) < MAX_FOUND:
        command, depth = waiting.pop(0)
        goals += islice(_find_goals(command), MAX_GOALS - len(goals))
        for text in _find_texts(command):
            if text in seen:
                continue
            if len(seen) >= MAX_SCRIPTS:
                unread.append("more scripts")
                break
            seen.add(text)
            if text.unread:
                unread.append(text.unread)
                continue
            inner = _read_text(text, checker)
            runners = (tuple(word.value for word in command.words), *command.runners)
            listed = [attrs.evolve(each, runners=(*each.runners, *runners)) for each in inner.found]
            found += listed
            unresolved += inner.unresolved
            fork_bombs += inner.fork_bombs
            unread += inner.unread
            if depth < MAX_DEPTH:
                waiting += [(each, depth + 1) for each in listed]
            else:
                # Deeper scripts are not read, so a new command may run one of them.
                deeper = list(_find_all_texts(inner.found))
                unread += [_describe_text(each.text) for each in deeper]
                if any(_is_new(each, checker) for each in deeper):
                    last = ShellReader(checker, text.folder)
                    last.add_unknown()
                    found += last.commands
    if waiting or len(found) > MAX_FOUND:
        unread.append("more commands")
    return Scripts(
        (*found[:MAX_FOUND], *goals),
        tuple(unresolved),
        tuple(fork_bombs),
        tuple(dict.fromkeys(unread)),
    )


def _is_new(text: _Text, checker: PathChecker) -> bool:
    """Return whether a script is in no commit of the project, or has just been changed."""
    return bool(text.path) and is_new_file(text.path, checker.workspace)


def _find_all_texts(commands: Iterable[ParsedCommand]) -> Iterator[_Text]:
    for command in commands:
        yield from _find_texts(command)


def _read_text(text: _Text, checker: PathChecker) -> Scripts:
    """Return the commands in one script."""
    reader = ShellReader(checker, text.folder)
    reader.state.positional = tuple(map(encode_value, text.arguments))
    readers = [reader, *_read_shifted(text, checker)]
    unread = []
    try:
        reader.read(text.text)
    except (Unreadable, RecursionError, ValueError):
        unread.append(_describe_text(text.text))
        if _is_new(text, checker):
            # An agent may have written the script only to hide a command.
            reader.add_unknown()
        # What follows the unreadable part runs as well, so each statement is read separately.
        readers += _read_statements(text, checker)
    if text.arguments and _ARGUMENTS.search(text.text):
        # Which of them the script runs is known only at run time. Options may come first.
        operands = dropwhile(lambda word: word.value.startswith("-"), text.arguments)
        reader.read_inner(ParsedCommand((), cwds=(text.folder,)), tuple(operands))
    found = []
    for each in readers:
        for command in each.commands:
            recipe = text.recipe or command.recipe
            found.append(attrs.evolve(command, implied=True, recipe=recipe))
    fork_bombs = tuple(function for each in readers for function in each.fork_bombs)
    return Scripts(tuple(found), tuple(reader.unresolved), fork_bombs, tuple(unread))


def _read_shifted(text: _Text, checker: PathChecker) -> Iterator[ShellReader]:
    """Yield readers of a script that has removed some of its arguments, perhaps in a loop."""
    if not re.search(r"\bshift\b", text.text):
        return
    for start in range(1, min(len(text.arguments), MAX_SHIFTED) + 1):
        reader = ShellReader(checker, text.folder)
        reader.state.positional = tuple(map(encode_value, text.arguments[start:]))
        with suppress(Unreadable, RecursionError, ValueError):
            reader.read(text.text)
        yield reader


def _read_statements(text: _Text, checker: PathChecker) -> list[ShellReader]:
    readers = []
    for statement in islice(split_statements(text.text), MAX_FOUND):
        reader = ShellReader(checker, text.folder)
        reader.state.positional = tuple(map(encode_value, text.arguments))
        with suppress(Unreadable, RecursionError, ValueError):
            reader.read(statement)
        readers.append(reader)
    return readers


def _describe_text(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _find_texts(command: ParsedCommand) -> Iterator[_Text]:
    """Yield the text of each script that a command runs."""
    if not command.words or not command.words[0].known or command.checker.elsewhere:
        return
    program = command.words[0].value
    name = get_program_name(command.words[0])
    for cwd in command.cwds:
        if cwd is None:
            continue
        if name in SHELLS or name in (".", "source"):
            script = _get_shell_script(command, name)
            if script:
                arguments = _words_after(script, command.words)
                yield from _read_script(os.path.join(cwd, script), cwd, arguments)
        elif "/" in program:
            path = os.path.join(cwd, os.path.expanduser(program))
            yield from _read_script(path, cwd, command.words[1:])
        elif name in _NPM:
            yield from _find_npm_scripts(command, cwd)
        elif name in MAKES or name == "just":
            yield from _find_recipes(command, cwd, just=name == "just")
        elif name in ("node", "nodejs", "deno", *_SCRIPT_RUNNERS):
            yield from _find_other_scripts(command, name, cwd)


# --- shell scripts --------------------------------------------------------------------------------


def _get_shell_script(command: ParsedCommand, name: str) -> str:
    """Return the file that a shell reads: its operand or standard input; empty if there is none."""
    at = find_first_operand(command.words, "oO") if name in SHELLS else 1
    if any(re.fullmatch(r"-\w*c\w*", word.value) for word in command.words[1:at]):
        return ""
    if at < len(command.words):
        return command.words[at].value
    inputs = [each.target.value for each in command.redirects if each.operator == "<"]
    return inputs[-1] if inputs and name in SHELLS else ""


def _load(path: str) -> str | None:
    """Return the text of a small regular file, or None for anything else."""
    if UNKNOWN in path:
        return None
    data = read_small_file(path, MAX_BYTES)
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _words_after(value: str, words: Sequence[Word]) -> tuple[Word, ...]:
    """Return the words after the first one with a value; none if no word has it."""
    rest = dropwhile(lambda word: word.value != value, words)
    return tuple(islice(rest, 1, None))


def _read_script(path: str, cwd: str, arguments: Sequence[Word] = ()) -> Iterator[_Text]:
    # Installed programs are judged by their names.
    if path.startswith(("/usr/", "/bin/", "/sbin/", "/opt/", "/nix/", "/lib/")):
        return
    text = _load(path)
    # Shells run a file without a shebang line as a shell script.
    if text is not None and (_SHEBANG.match(text) or not text.startswith("#!")):
        is_used = _ARGUMENTS.search(text) or _SOURCES.search(text)
        used = tuple(arguments) if is_used else ()
        yield _Text(text, cwd, path=path, arguments=used)
        return
    yield from _find_unread([path], cwd)


def _find_unread(paths: Iterable[str], folder: str) -> Iterator[_Text]:
    """Yield the files that exist although they could not be read as shell text."""
    for path in paths:
        unread = describe_version(path)
        if unread:
            yield _Text("", folder, unread=unread)


def describe_version(path: str) -> str:
    """Return a text that changes if a file does; empty if there is no such file."""
    if UNKNOWN in path:
        return ""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return ""
    version = f"{status.st_dev} {status.st_ino} {status.st_size} {status.st_mtime_ns}"
    return f"{path} {version} {status.st_ctime_ns}"


# --- scripts of npm -------------------------------------------------------------------------------


def _find_npm_scripts(command: ParsedCommand, cwd: str) -> Iterator[_Text]:
    parsed = parse(command.arguments, NPM_SYNTAX)
    if not parsed.operands:
        return
    verb, *rest = parsed.operands
    if get_program_name(command.words[0]) == "npm":
        verb = complete_npm_command(verb)
    if verb in _NPM_RUN:
        names = tuple(rest[:1])
        is_unknown = bool(names) and UNKNOWN in names[0]
    else:
        is_unknown = False
        names = _NPM_LIFECYCLE.get(verb, (verb,))
    folder, scripts = _load_npm_scripts(os.path.join(cwd, *parsed.values(*NPM_FOLDER_OPTIONS)))
    if not scripts:
        yield from _find_unread([os.path.join(folder, "package.json")], folder)
    if is_unknown:
        # Any of them may run.
        names = tuple(scripts)
    arguments = " ".join(rest[1:])
    for name in names:
        # npm runs the scripts with these prefixes before and after the named script.
        for each in (f"pre{name}", name, f"post{name}"):
            text = scripts.get(each)
            if isinstance(text, str):
                if each == name and arguments:
                    text = f"{text} {arguments}"
                yield _Text(text, folder, recipe=True)


def _find_other_scripts(command: ParsedCommand, name: str, cwd: str) -> Iterator[_Text]:
    """Yield the scripts that `node --run NAME`, `deno task NAME` and `run-s NAME…` run."""
    wanted: list[str] = []
    if name in _SCRIPT_RUNNERS:
        wanted = [value for value in command.arguments if not value.startswith("-")]
    elif name == "deno":
        wanted = command.arguments[1:] if command.arguments[:1] == ["task"] else []
    else:
        for word, following in pairwise((*command.arguments, "")):
            option, _, value = word.partition("=")
            wanted += [value or following] if option == "--run" else []
    if not wanted:
        return
    folder, scripts = _load_npm_scripts(cwd)
    for each in wanted:
        for script in _select_scripts(scripts, each.replace("**", "*")):
            yield _Text(scripts[script], folder, recipe=True)


def _select_scripts(scripts: dict[str, Any], name: str) -> list[str]:
    """Return the scripts with a name, which may be a pattern or be known only at run time."""
    texts = [each for each, text in scripts.items() if isinstance(text, str)]
    if UNKNOWN in name:
        return texts
    return [each for each in texts if each == name or fnmatch.fnmatchcase(each, name)]


def _load_npm_scripts(folder: str) -> tuple[str, dict[str, Any]]:
    """Return the scripts in the nearest `package.json`, and the folder that contains the file."""
    text = _load(os.path.join(folder, "package.json"))
    while text is None and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
        text = _load(os.path.join(folder, "package.json"))
    try:
        data = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return folder, {}
    scripts = data.get("scripts") if isinstance(data, dict) else None
    return folder, scripts if isinstance(scripts, dict) else {}


# --- recipes of make and just ---------------------------------------------------------------------

_ASSIGNMENT = re.compile(r"([\w.]+)[:?+]?=(.*)", re.DOTALL)
_FOLDER_OPTIONS = ("-C", "--directory", "-d", "--working-directory")
_FILE_OPTIONS = ("-f", "--file", "--makefile", "--justfile")
_TEXT_OPTIONS = ("-E", "--eval")
# Other options of `make` whose value is the next word.
_MAKE_VALUED = frozenset(
    "-I -o -W --include-dir --old-file --assume-old --what-if --new-file --assume-new".split()
)
_INCLUDE = re.compile(r"^(?:-include|sinclude|include|!?import\??)[ \t]+(.+)$", re.MULTILINE)
_ALIAS = re.compile(r"^alias\s+([\w-]+)\s*:=\s*([\w-]+)", re.MULTILINE)
MAX_INCLUDED = 100
"""Maximum number of files that a recipe file includes, as far as they are read."""
# What `make` runs while it reads a makefile: `$(shell COMMAND)` and `NAME != COMMAND`.
_SHELL_CALL = re.compile(
    r"\$\(shell[ \t]+((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)|\$\{shell[ \t]+((?:[^{}]|\{[^{}]*\})*)\}"
    r"|^[ ]*[\w.-]+[ \t]*!=[ \t]*(.+)$",
    re.MULTILINE,
)
# What makes other commands of recipes than those that the makefile shows.
_HIDES_RECIPES = re.compile(
    r"\$[({](?:eval|guile)\b|^[ ]*-?load[ \t]|^[ ]*\.SHELLFLAGS\b"
    r"|^[ ]*(?:export[ \t]+|override[ \t]+)*SHELL[ \t]*[:?+]*=(?![ \t]*(?:\S*/(?:env[ \t]+)?)?(?:ba|da|z|k)?sh[ \t]*$)",
    re.MULTILINE,
)
_JUST_CALL = re.compile(r"`([^`\n]+)`|\bshell\(\s*['\"]([^'\"\n]+)['\"]")


def _get_recipe_syntax(*, just: bool) -> Syntax:
    # `-d` takes a folder in `just` but prints debugging information in `make`.
    valued = {*_FOLDER_OPTIONS, *_FILE_OPTIONS}
    if just:
        return valued_only(frozenset(valued))
    return valued_only(frozenset((valued - {"-d"}) | _MAKE_VALUED | set(_TEXT_OPTIONS)))


_MAKE_SYNTAX = _get_recipe_syntax(just=False)
_JUST_SYNTAX = _get_recipe_syntax(just=True)


class _Recipes(NamedTuple):
    """What a `make` or `just` command reads.

    Attributes:
        rules: The rules by goal.
        variables: The variables.
        goals: The goals that the command builds first.
        folder: The working folder.
        is_new: Whether an agent may have written a part of the text.
        calls: The commands that run while the files are read, whatever the goal is.
        is_hidden: Whether a part of the text that an agent may have written is not known.
    """

    rules: dict[str, _Rule]
    variables: dict[str, str]
    goals: list[str]
    folder: str
    is_new: bool
    calls: list[str]
    is_hidden: bool


def _find_recipes(command: ParsedCommand, cwd: str, *, just: bool) -> Iterator[_Text]:
    """Yield the recipes for `make` or `just` goals, and for the goals that they depend on."""
    recipes = _read_recipes(command, cwd, just=just)
    if recipes is None:
        parsed = _parse_recipe_command(command, just=just)
        folder = os.path.normpath(os.path.join(cwd, *parsed.values(*_FOLDER_OPTIONS)))
        names = _find_recipe_names(parsed, just=just)
        yield from _find_unread([os.path.join(folder, name) for name in names], folder)
        return
    for call in recipes.calls:
        line = _expand_variables(call, recipes.variables, just=just)
        yield _Text(line, recipes.folder, recipe=True)
    if recipes.is_hidden:
        yield _Text(UNKNOWN_TEXT, recipes.folder)
    for _, rule in _find_needed_rules(recipes):
        lines = [_expand_variables(line, recipes.variables, just=just) for line in rule.lines]
        if any(lines):
            yield _Text("\n".join(lines), recipes.folder, recipe=True)


def _find_goals(command: ParsedCommand) -> Iterator[ParsedCommand]:
    """Yield `make GOAL` for each goal that a `make` or `just` command builds without naming it.

    Goals that the project's own files need are marked as parts of recipes.
    """
    if not command.words or not command.words[0].known or command.checker.elsewhere:
        return
    name = get_program_name(command.words[0])
    if name not in MAKES and name != "just":
        return
    program = "just" if name == "just" else "make"
    named = set(_parse_recipe_command(command, just=program == "just").operands)
    found: set[str] = set()
    for cwd in command.cwds:
        recipes = None if cwd is None else _read_recipes(command, cwd, just=program == "just")
        for goal, _ in () if recipes is None else _find_needed_rules(recipes):
            if goal in named or goal in found or recipes is None:
                continue
            found.add(goal)
            is_known = not any(UNKNOWN in each for each in recipes.goals)
            is_meant = recipes.is_new or (is_known and goal in recipes.goals)
            yield attrs.evolve(
                command,
                words=(Word(program), Word(goal)),
                source=f"{program} {goal}",
                assigned=(),
                implied=True,
                recipe=command.recipe or not is_meant,
                runners=(tuple(word.value for word in command.words), *command.runners),
            )


def _parse_recipe_command(command: ParsedCommand, *, just: bool) -> Parsed:
    if just:
        return parse(command.arguments, _JUST_SYNTAX)
    flags: list[str] = []
    for name, value in command.environment:
        if name in ("MAKEFLAGS", "GNUMAKEFLAGS"):
            with suppress(ValueError):
                flags += shlex.split(value)
    # The first word of MAKEFLAGS may contain short options without a dash.
    if flags and not flags[0].startswith("-") and "=" not in flags[0]:
        flags[0] = f"-{flags[0]}"
    return parse([*flags, *command.arguments], _MAKE_SYNTAX)


def _read_recipes(command: ParsedCommand, cwd: str, *, just: bool) -> _Recipes | None:
    """Return what a command reads, or None if there is no recipe file."""
    parsed = _parse_recipe_command(command, just=just)
    folder = os.path.normpath(os.path.join(cwd, *parsed.values(*_FOLDER_OPTIONS)))
    files, is_new = _load_recipe_files(command, parsed, folder, just=just)
    given = [] if just else _find_given_texts(command, parsed, folder)
    if not files and not given:
        return None
    included = _follow_includes([*given, *files], folder)
    text = "\n".join(included.texts)
    workspace = command.checker.workspace
    is_new = is_new or bool(given) or any(is_new_file(path, workspace) for path in included.paths)
    is_hidden = is_new and (included.is_cut or (not just and _HIDES_RECIPES.search(text)))
    rules, variables = _parse_recipes(text, just=just)
    if just:
        for alias, meant in _ALIAS.findall(text):
            rules.setdefault(alias, _Rule([], [])).needs.append(meant)
    else:
        variables.setdefault("MAKE", "make")
    goals = []
    for word in parsed.operands:
        assignment = _ASSIGNMENT.fullmatch(word)
        if assignment:
            variables[assignment[1]] = assignment[2]
        else:
            # `make` builds `./x` as `x`.
            goals.append(word if just else re.sub(r"^(?:\./+)+", "", word))
    if any(UNKNOWN in goal for goal in goals):
        # Any of them may be built.
        goals += list(rules)
    if not goals:
        # A special target such as `.PHONY` is never the default goal of `make`.
        goals = [name for name in rules if just or not name.startswith(".")][:1]
        if not just:
            goals = variables.get(".DEFAULT_GOAL", "").split() or goals
    found = (_JUST_CALL if just else _SHELL_CALL).findall(text)
    calls = [next(filter(None, each)).replace("$$", "$") for each in found]
    return _Recipes(rules, variables, goals, folder, is_new, calls, bool(is_hidden))


def _load_recipe_files(
    command: ParsedCommand, parsed: Parsed, folder: str, *, just: bool
) -> tuple[list[str], bool]:
    """Return the texts of the recipe files, and whether an agent may have written one of them."""
    texts = []
    is_new = False
    is_named = bool(parsed.values(*_FILE_OPTIONS))
    for name in _find_recipe_names(parsed, just=just):
        is_input = name in ("-", "/dev/stdin")
        path = os.path.join(folder, name)
        text = command.stdin if is_input else _load(path)
        if text is None:
            continue
        texts.append(text)
        is_new = is_new or is_input or is_new_file(path, command.checker.workspace)
        if not is_named:
            break
    return texts, is_new


def _find_given_texts(command: ParsedCommand, parsed: Parsed, folder: str) -> list[str]:
    """Return the texts in `--eval`, and in the files that the variable MAKEFILES names."""
    texts = parsed.values(*_TEXT_OPTIONS)
    for name in dict(command.environment).get("MAKEFILES", "").split():
        text = _load(os.path.join(folder, name))
        # What cannot be read may be anything.
        texts.append("" if text is None else text)
    return texts


class _Included(NamedTuple):
    """Recipe files with the files that they include.

    Attributes:
        texts: Their texts, without continued lines.
        paths: The included files.
        is_cut: Whether other files may be included that are not known.
    """

    texts: list[str]
    paths: list[str]
    is_cut: bool


def _follow_includes(texts: list[str], folder: str) -> _Included:
    """Return texts, and those of the files that they include."""
    queue = list(texts)
    found: list[str] = []
    paths: dict[str, None] = {}
    is_cut = False
    while queue and len(found) < MAX_INCLUDED:
        text = queue.pop(0).replace("\\\n", " ")
        found.append(text)
        names = " ".join(_INCLUDE.findall(text)).replace("'", "").replace('"', "").split()
        for name in names:
            is_cut = is_cut or "$" in name
            for path in _expand_include(os.path.join(folder, name)):
                included = None if path in paths else _load(path)
                if included is not None:
                    paths[path] = None
                    queue.append(included)
    return _Included(found, list(paths), is_cut or bool(queue))


def _expand_include(path: str) -> list[str]:
    """Return the files that a pattern in an `include` line matches."""
    if not any(char in path for char in "*?["):
        return [path]
    return sorted(islice(glob.iglob(path), MAX_INCLUDED + 1))


def _find_needed_rules(recipes: _Recipes) -> Iterator[tuple[str, _Rule]]:
    """Yield the rules for a command's goals, and for the goals that they depend on, by goal."""
    rules: dict[str, _Rule] = {}
    for name, rule in recipes.rules.items():
        for each in _expand_variables(name, recipes.variables, just=False).split():
            known = rules.setdefault(each, _Rule([], []))
            known.needs.extend(rule.needs)
            known.lines.extend(rule.lines)
    waiting = list(recipes.goals)
    done: set[str] = set()
    while waiting and len(done) < MAX_GOALS:
        goal = waiting.pop(0)
        if goal in done:
            continue
        done.add(goal)
        found = False
        for name, rule in rules.items():
            if _fits_goal(name, goal):
                found = True
                for needs in rule.needs:
                    expanded = _expand_variables(needs, recipes.variables, just=False)
                    waiting += re.findall(r"[\w./%-]+", expanded.replace(UNKNOWN_TEXT, " "))
                yield goal, rule
        if not found and recipes.is_new:
            # The text may continue in a file that cannot be read here.
            yield goal, _Rule([], [])


def _find_recipe_names(parsed: Parsed, *, just: bool) -> Sequence[str]:
    """Return the possible names of the recipe file, in the order of the search."""
    named = [value for value in parsed.values(*_FILE_OPTIONS) if value]
    # `make` reads all files that its options name, and `just` the last one.
    return (named[-1:] if just else named) or (_JUSTFILES if just else _MAKEFILES)


def _fits_goal(name: str, goal: str) -> bool:
    """Return whether a rule builds a goal; `%` in the rule's name matches any text."""
    if name == goal:
        return True
    return "%" in name and re.fullmatch(re.escape(name).replace("%", ".*"), goal) is not None


def _parse_recipes(text: str, *, just: bool) -> tuple[dict[str, _Rule], dict[str, str]]:
    """Return the rules and variables in a recipe file."""
    rules: dict[str, _Rule] = {}
    variables: dict[str, str] = {}
    current: list[_Rule] = []
    parse_head = _parse_just_head if just else _parse_make_head
    indent = ("\t", " ") if just else ("\t",)
    for line in text.split("\n"):
        if line.startswith(indent) and current:
            for rule in current:
                rule.lines.append(_strip_line(line))
            continue
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        variable = _VARIABLE.fullmatch(line.strip())
        if variable:
            value = variable[2]
            variables[variable[1]] = value.strip("\"'") if just else value
            continue
        current = []
        goals, needs, same_line = parse_head(line)
        for goal in goals:
            rule = rules.setdefault(goal, _Rule([], []))
            rule.needs.append(needs)
            if same_line.strip():
                rule.lines.append(_strip_line(same_line))
            current.append(rule)
    return rules, variables


def _strip_line(line: str) -> str:
    """Return a recipe line without the prefixes that only control its output."""
    return line.strip().lstrip("@-+")


def _parse_make_head(line: str) -> tuple[list[str], str, str]:
    """Return the goals of `GOALS: NEEDS; LINE`, their prerequisites, and the line."""
    match = _RULE.match(line)
    if match is None:
        return [], "", ""
    needs, _, same_line = line[match.end(1) :].lstrip(" \t:").partition(";")
    return match[1].split(), needs, same_line


def _parse_just_head(line: str) -> tuple[list[str], str, str]:
    match = _JUST_RULE.match(line)
    if match is None:
        return [], "", ""
    return [match[1]], match[3].partition(";")[0], ""


_MAKE_REFERENCE = re.compile(r"\$[({]([\w.-]+)[)}]|\$([@<^?*+%|])|\$[({][^(){}]*[)}]")
_JUST_REFERENCE = re.compile(r"\{\{\s*([\w-]+)[^}]*\}\}")


def _expand_variables(text: str, variables: dict[str, str], *, just: bool) -> str:
    """Return a recipe with its variables replaced; an unknown variable becomes an unknown word."""
    reference = _JUST_REFERENCE if just else _MAKE_REFERENCE

    def replace(match: re.Match[str]) -> str:
        # An unknown variable written in shell syntax would be replaced again in the next round.
        return variables.get(match[1] or "", "\0")

    for _ in range(MAX_EXPANSIONS):
        expanded = reference.sub(replace, text)
        if expanded == text:
            break
        text = expanded
    return text.replace("\0", UNKNOWN_TEXT).replace("$$", "$")
