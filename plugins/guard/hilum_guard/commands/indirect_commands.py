"""Read the commands that shell text runs indirectly.

Indirect commands run through variables, through files that the text writes first, or through links
to programs and copies of programs. A command that is known only at run time is added as unknown.
All indirect commands are implied: only rules that ask or deny apply to them.
"""

from __future__ import annotations

import glob
import os
import re
from itertools import islice
from typing import TYPE_CHECKING

import attrs

from hilum_guard.commands import command_runners, git_aliases, loaded_files, started_commands
from hilum_guard.commands.copied_programs import find_copied_program
from hilum_guard.commands.recipe_changes import may_change_recipes
from hilum_guard.commands.shell_commands import ParsedCommand
from hilum_guard.commands.shell_words import UNKNOWN, Word, encode_value
from hilum_guard.file_names import resolve_links
from hilum_guard.programs import options
from hilum_guard.programs.program_names import (
    PREFIXES,
    SHELLS,
    find_first_operand,
    get_program_name,
)

if TYPE_CHECKING:
    from hilum_guard.commands.shell_reader import ShellReader

# Variables whose value a program runs, according to the documentation of Git, less, man, systemd,
# rsync, psql and the shells.
_COMMAND_VARIABLES = frozenset(
    """GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_PAGER GIT_SSH GIT_SSH_COMMAND GIT_PROXY_COMMAND
    GIT_EXTERNAL_DIFF GIT_ASKPASS GIT_MERGE_AUTOEDIT_EDITOR SSH_ASKPASS SUDO_ASKPASS PAGER
    MANPAGER SYSTEMD_PAGER SYSTEMD_EDITOR EDITOR VISUAL SUDO_EDITOR FCEDIT PSQL_EDITOR PSQL_PAGER
    BROWSER LESSOPEN LESSCLOSE LESSEDIT RSYNC_RSH CVS_RSH SVN_SSH SVN_EDITOR HGEDITOR
    PROMPT_COMMAND""".split()
)
# Variables that name a file, or a folder of files, that a shell reads when it starts.
_SCRIPT_VARIABLES = {"BASH_ENV": ("",), "ENV": ("",), "ZDOTDIR": (".zshenv", ".zshrc", ".zprofile")}
# A shell runs the command substitutions in its prompts.
_PROMPTS = frozenset("PS0 PS1 PS2 PS4".split())
# Variables that make another program run code, with patterns for the values that have this effect.
# Code in other languages is not parsed.
_CODE_VARIABLES = {
    "PERL5OPT": re.compile(r"\S"),
    "PERL5DB": re.compile(r"\S"),
    "PYTHONSTARTUP": re.compile(r"\S"),
    "NODE_OPTIONS": re.compile(r"(^|\s)(-r|--require|--import|--loader|--experimental-loader)\b"),
    "RUBYOPT": re.compile(r"(^|\s)-\w*r"),
    "JAVA_TOOL_OPTIONS": re.compile(r"-(javaagent|agentpath|agentlib)"),
    "LD_PRELOAD": re.compile(r"\S"),
    "LD_AUDIT": re.compile(r"\S"),
    "DYLD_INSERT_LIBRARIES": re.compile(r"\S"),
    "TAR_OPTIONS": re.compile(r"action|-command|-F"),
}
# Programs that do not write scripts to the files that their arguments name.
_NEVER_WRITE = SHELLS | frozenset(
    """. source cat ls head tail less more wc grep egrep fgrep rg chmod chown test [ [[ stat file
    diff cmp shellcheck shfmt touch rm mkdir tee echo printf pytest ruff mypy black bat which type
    command readlink realpath basename dirname md5sum sha256sum cc gcc g++ clang clang++ rustc go
    ld make cmake nvcc strip timeout time env nohup nice exec sudo xargs""".split()
)
_GIT_NEVER_WRITES = frozenset("add commit diff status log show blame ls-files rev-parse".split())
_COPIERS = frozenset("cp gcp ln gln mv gmv install ginstall".split())
# Programs that write whole folders without naming the files in their arguments.
_FOLDER_WRITERS = _COPIERS | frozenset("rsync tar bsdtar unzip 7z git hg svn patch".split())
_ENVIRONMENT_OPTIONS = (
    r"(?: (?:-q|--quiet|--seed|--upgrade-deps|--system-site-packages|--without-pip"
    r"|(?:--python|-p)[ =]?[\w.]+))*"
)
_MAKES_ENVIRONMENT = re.compile(
    rf"(?:python[\d.]* -m (?:venv|virtualenv)|virtualenv|venv|uv venv){_ENVIRONMENT_OPTIONS}"
    rf"(?: (?P<folder>[^-\s]\S*))?{_ENVIRONMENT_OPTIONS}"
)
_SYSTEM_FOLDERS = ("/usr/", "/bin/", "/sbin/", "/lib/", "/opt/", "/nix/")
MAX_MATCHES = 50
"""Maximum number of files that a pattern in place of a program may match."""
# Maximum number of characters in a sed script. The regular expressions below backtrack, so a longer
# script counts as unknown.
MAX_SED = 10_000
_SED_EXECUTE = re.compile(r"(?:^|[;{}\n])(?:[0-9$~+,! \t]|/(?:\\.|[^/\n\\])*/[IM]*)*e([^\n]*)")
_SED_SUBSTITUTE = re.compile(
    r"(?<![\w\\])s([^\w\s\\])(?:\\.|(?!\1)[^\\\n])*\1(?:\\.|(?!\1)[^\\])*\1[gpiIMm0-9]*e", re.S
)


def read_variable(reader: ShellReader, name: str, value: str) -> None:
    """Read the commands that a variable makes a program run."""
    with reader.implying():
        if name in _COMMAND_VARIABLES:
            # The value of LESSOPEN may begin with these characters.
            reader.read_nested(value.lstrip("|-@ "))
        elif re.fullmatch(r"GIT_CONFIG_VALUE_\d+", name):
            key = reader.state.variables.get(name.replace("VALUE", "KEY"), ("",))[0]
            reader.read_nested(command_runners.get_setting_text(key, value))
        elif name in _PROMPTS:
            _read_prompt(reader, value)
        elif name in _SCRIPT_VARIABLES:
            _read_start_files(reader, name, value)
        elif name in _CODE_VARIABLES and (UNKNOWN in value or _CODE_VARIABLES[name].search(value)):
            reader.add_unknown()


def _read_prompt(reader: ShellReader, value: str) -> None:
    """Read the command substitutions in a shell's prompt."""
    if "$(" in value or "`" in value or UNKNOWN in value:
        reader.read_nested(f': "{value}"')


def _read_start_files(reader: ShellReader, variable: str, value: str) -> None:
    """Read the files that a shell reads when it starts."""
    if not value:
        return
    start = ParsedCommand((), cwds=reader.state.cwds)
    for name in _SCRIPT_VARIABLES[variable]:
        path = os.path.join(value, name) if name else value
        reader.read_inner(start, (Word("."), Word(path)))
    if UNKNOWN in value or "$" in value or "`" in value:
        reader.add_unknown()


def read_indirect(
    reader: ShellReader, command: ParsedCommand, name: str, output: str | None, before: int
) -> None:
    """Read what a command runs under another name, and record what it creates for later commands.

    Args:
        reader: The reader of the text.
        command: The command.
        name: The name of its program.
        output: What the command prints; None if unknown.
        before: The number of commands that run before this one.
    """
    # Files in a container are not files on this machine.
    if not command.checker.elsewhere:
        with reader.implying():
            _read_git_program(reader, command, name)
            if name in ("sed", "gsed"):
                _read_sed(reader, command)
            started_commands.read_started(reader, command, name)
            _read_loaded(reader, command, name, before)
            is_linked = _read_linked(reader, command, name)
            _read_matched(reader, command)
            _read_written_script(reader, command, name, reader.commands[:before], is_linked)
    note_writes(reader, command, output)
    _note_copies(reader, command, name)


def _read_loaded(reader: ShellReader, command: ParsedCommand, name: str, before: int) -> None:
    """Read the new files that an interpreter or a test runner loads."""
    fed = [each.target.value for each in command.redirects if each.operator == "<"]
    loaded = loaded_files.find_loaded(
        name,
        [word.value for word in command.words],
        command.cwds,
        dict(command.environment),
        reader.checker.workspace,
        stdin=command.stdin,
        fed=fed,
    )
    if loaded.unread:
        reader.add_unknown()
    if not loaded.paths:
        return
    reader.commands[before] = attrs.evolve(reader.commands[before], loaded=loaded.paths)
    first = len(reader.commands)
    started_commands.read_loaded_files(reader, command, name, loaded.paths)
    for number in range(first, len(reader.commands)):
        reader.commands[number] = attrs.evolve(reader.commands[number], in_file=True)


def _read_git_program(reader: ShellReader, command: ParsedCommand, name: str) -> None:
    """Read `/usr/lib/git-core/git-push` as `git push`."""
    verb = name.removeprefix("git-")
    if verb != name and (verb in git_aliases.BUILT_IN or (verb,) in git_aliases.EQUIVALENT):
        reader.read_inner(command, (Word("git"), Word(verb), *command.words[1:]))


def _read_sed(reader: ShellReader, command: ParsedCommand) -> None:
    """Read what `sed` passes to a shell with its command `e` and the flag `e` of command `s`."""
    for script in _get_sed_scripts(command.arguments):
        if len(script) > MAX_SED or UNKNOWN in script:
            reader.add_unknown()
            continue
        for match in _SED_EXECUTE.finditer(script):
            if match[1].strip(" \t;}"):
                reader.read_nested(match[1].strip())
            else:
                reader.add_unknown()  # `e` runs the input line
        if _SED_SUBSTITUTE.search(script):
            reader.add_unknown()  # the flag runs the result of the substitution


def _get_sed_scripts(arguments: list[str]) -> list[str]:
    parsed = options.parse(arguments, options.SYNTAX["sed"])
    if parsed.has("-e", "-f", "--expression", "--file"):
        return parsed.values("-e", "--expression")
    return list(parsed.operands[:1])


# --- links and copies -----------------------------------------------------------------------------


def _note_copies(reader: ShellReader, command: ParsedCommand, name: str) -> None:
    """Record the new names that links and copies give to a program."""
    values = command.arguments
    if name == "hash" and len(values) == 3 and values[0] == "-p":
        reader.program_copies.setdefault(values[2], []).append(values[1])
    if name not in _COPIERS:
        return
    begin = find_first_operand(command.words, "StmgoT")
    sources = [word.value for word in command.words[begin:]]
    target = sources.pop() if len(sources) > 1 else "."
    for source in sources:
        if "/" not in source:
            source = _find_in_folder(source, command)
        for alias in {os.path.basename(target.rstrip("/")), os.path.basename(source)}:
            reader.program_copies.setdefault(alias, []).append(source)


def _find_in_folder(name: str, command: ParsedCommand) -> str:
    """Return a file's path in the command's folder, or its name if there is no such file."""
    present = [path for path in _resolve(name, command) if os.path.exists(path)]
    return present[0] if present else name


def _read_linked(reader: ShellReader, command: ParsedCommand, name: str) -> bool:
    """Read a linked or copied program as its original; return whether it is linked or copied."""
    sources = _find_originals(reader, command)
    for source in sources:
        if UNKNOWN in source:
            reader.add_unknown()
        # Links may point to each other.
        elif _is_other(source, command.words[0].value) and reader.implied_depth < 3:
            reader.implied_depth += 1
            try:
                first = Word(source, glob=re.search(r"[*?\[]", source) is not None)
                reader.read_inner(command, (first, *command.words[1:]))
            finally:
                reader.implied_depth -= 1
    return bool(sources)


def _read_matched(reader: ShellReader, command: ParsedCommand) -> None:
    """Read a command whose program is a pattern, such as `/usr/bin/g?t`, as the shell expands it."""
    word = command.words[0]
    if not word.glob or not word.known:
        return
    for cwd in dict.fromkeys(command.cwds):
        pattern = os.path.join(cwd or "/", os.path.expanduser(word.value))
        matches = sorted(islice(glob.iglob(pattern), MAX_MATCHES + 1))
        if len(matches) > MAX_MATCHES:
            reader.add_unknown()
        elif matches:
            # Without a slash, the shell searches the program by the name of the file.
            names = matches if "/" in word.value else [os.path.basename(each) for each in matches]
            first = tuple(Word(name, plain=False) for name in names)
            reader.read_inner(command, (*first, *command.words[1:]))
        elif "/" not in word.value and reader.written_files:
            reader.add_unknown()


def _find_originals(reader: ShellReader, command: ParsedCommand) -> list[str]:
    """Return the possible originals of a program that may be a link or a copy."""
    word = command.words[0]
    first = word.value
    copies = reader.program_copies.get(os.path.basename(first), ())
    sources = [source for source in copies if _is_other(source, first)]
    if "/" in first and word.known and not first.startswith(_SYSTEM_FOLDERS):
        for cwd in command.cwds:
            path = os.path.join(cwd or "/", os.path.expanduser(first))
            if os.path.islink(path):
                sources.append(resolve_links(path))
            else:
                sources += find_copied_program(path)
    return list(dict.fromkeys(sources))


def _is_other(source: str, first: str) -> bool:
    """Return whether a program has another name than its copy, or is a script in another folder."""
    if _fold_name(source) != _fold_name(first):
        return True
    return "/" in source and source != first and not source.startswith(_SYSTEM_FOLDERS)


def _fold_name(path: str) -> str:
    return os.path.basename(path.rstrip("/")).casefold()


# --- files that the text writes -------------------------------------------------------------------


def note_writes(reader: ShellReader, command: ParsedCommand, output: str | None) -> None:
    """Record the files that redirections and `tee` write, with their contents."""
    for redirect in command.redirects:
        if ">" in redirect.operator:
            appends = redirect.operator.endswith(">>")
            for path in _resolve(redirect.target.value, command):
                _note_text(reader, path, output, appends=appends)
    if command.words and get_program_name(command.words[0]) == "tee":
        for value in command.arguments:
            for path in _resolve(value, command):
                # `tee` is read as if it appended, with or without `-a`, so that no earlier content
                # is overlooked.
                _note_text(reader, path, command.stdin, appends=True)


def _note_text(reader: ShellReader, path: str, text: str | None, *, appends: bool) -> None:
    earlier = reader.written_files.get(path, "") if appends else ""
    is_known = text is not None and earlier is not None
    reader.written_files[path] = f"{earlier}{text}" if is_known else None


def _resolve(path: str, command: ParsedCommand) -> list[str]:
    """Return the absolute paths that a word may refer to."""
    path = os.path.expanduser(path)
    folders = [cwd for cwd in command.cwds if cwd is not None]
    return list(dict.fromkeys(os.path.normpath(os.path.join(cwd, path)) for cwd in folders))


def _read_written_script(
    reader: ShellReader,
    command: ParsedCommand,
    name: str,
    earlier: list[ParsedCommand],
    is_linked: bool,
) -> None:
    """Read a script whose contents the text wrote; unknown contents may be any command."""
    if may_change_recipes(command, name, earlier, reader.written_files):
        reader.add_unknown()
        return
    script, is_shell = _get_script(command, name)
    if not script or UNKNOWN in script:
        return
    originals = reader.program_copies.get(os.path.basename(script), ()) if is_shell else ()
    for original in originals:
        reader.read_inner(command, (Word("."), Word(original)))
    earlier = [_without_inner(each, command) for each in earlier]
    # Links to programs and copies of them have already been read as their originals.
    is_accounted = is_linked or bool(originals)
    for path in _resolve(script, command):
        text = reader.written_files.get(path, "")
        is_new = is_shell and path not in reader.written_files
        if text:
            after = [word.value for word in command.words].index(script) + 1
            arguments = tuple(map(encode_value, command.words[after:]))
            reader.read_nested(text, arguments)
        elif text is None:
            reader.add_unknown()
            continue
        if not is_accounted and _may_be_written(path, earlier, is_new):
            reader.add_unknown()


def _without_inner(launcher: ParsedCommand, command: ParsedCommand) -> ParsedCommand:
    """Return a launcher such as `valgrind` without the words of the command that it runs.

    Only its own words may name files that it writes.
    """
    count = len(launcher.words) - len(command.words)
    inner = [word.value for word in launcher.words[max(count, 1) :]]
    if inner != [word.value for word in command.words]:
        return launcher
    is_launcher = get_program_name(launcher.words[0]) in PREFIXES
    return attrs.evolve(launcher, words=launcher.words[:count]) if is_launcher else launcher


def _get_script(command: ParsedCommand, name: str) -> tuple[str, bool]:
    """Return the file that a command runs (empty if none), and whether a shell reads it."""
    words = command.words
    if name in (".", "source"):
        return (words[1].value if len(words) > 1 else ""), True
    if name in SHELLS:
        at = find_first_operand(words, "oO")
        if at >= len(words) or any(re.fullmatch(r"-\w*c\w*", word.value) for word in words[1:at]):
            return "", True
        return words[at].value, True
    return (words[0].value if "/" in words[0].value else ""), False


def _may_be_written(path: str, earlier: list[ParsedCommand], is_new: bool) -> bool:
    """Return whether an earlier command in the text may create or change a script.

    Args:
        path: The script.
        earlier: The commands before it.
        is_new: Whether a shell reads the script and the text does not show what writes the script.
            If the script does not exist yet, any earlier command may create it.
    """
    if path.startswith((*_SYSTEM_FOLDERS, "/dev/")):
        return False
    is_missing = not os.path.lexists(path)
    commands = [command for command in earlier if command.words]
    if is_new and is_missing and commands:
        return not _is_activation(path, earlier)
    return any(_may_write(command, path, is_missing) for command in commands)


def _is_activation(path: str, earlier: list[ParsedCommand]) -> bool:
    """Return whether a script activates a virtual environment that the text has just created.

    The text may do nothing else before, because another command might write the script.
    """
    environment = os.path.dirname(os.path.dirname(path))
    is_script = path == os.path.join(environment, "bin", "activate")
    if not is_script or os.path.lexists(environment):
        return False
    # With another PATH or PYTHONPATH, another program may run.
    if any(command.assigned or not command.words for command in earlier):
        return False
    makers = [command for command in earlier if get_program_name(command.words[0]) != "cd"]
    return bool(makers) and all(_makes_environment(each, environment) for each in makers)


def _makes_environment(command: ParsedCommand, environment: str) -> bool:
    """Return whether a command only creates a virtual environment in a folder."""
    name = get_program_name(command.words[0])
    found = _MAKES_ENVIRONMENT.fullmatch(
        " ".join([name, *(word.value for word in command.words[1:])])
    )
    if found is None or "/" in command.words[0].value:
        return False
    # Python would run such a module of the working directory instead of its own.
    modules = ("venv.py", "venv/__init__.py", "virtualenv.py", "virtualenv/__init__.py")
    if any(os.path.lexists(path) for each in modules for path in _resolve(each, command)):
        return False
    # The folder of `uv venv` has a default.
    return _resolve(found["folder"] or ".venv", command) == [environment]


def _may_write(command: ParsedCommand, path: str, is_missing: bool) -> bool:
    """Return whether a command's words suggest that the command writes a file."""
    name = get_program_name(command.words[0])
    if name == "git":
        if any(value in _GIT_NEVER_WRITES for value in command.arguments):
            return False
    elif name in _NEVER_WRITE:
        return False
    fills_folders = is_missing and name in _FOLDER_WRITERS
    for value in _get_targets(command, name):
        for named in _resolve(value.rpartition("=")[2], command):
            if named == path:
                return True
            if fills_folders and path.startswith(named + "/") and named not in command.cwds:
                return True
    return False


def _get_targets(command: ParsedCommand, name: str) -> list[str]:
    """Return the arguments that may name the files that a command writes."""
    values = command.arguments
    names_folder = any(re.match(r"-\w*t|--target", value) for value in values)
    return values[-1:] if name in _COPIERS and not names_folder else values
