"""Read the commands that `xargs`, `find`, containers, `ssh` and Git run.

These commands run for the files that a program finds, in a container, on another machine, or
because of a setting.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise, product
from typing import TYPE_CHECKING

import attrs

from hilum_guard.commands import git_aliases
from hilum_guard.commands.listing_commands import (
    find_equivalent,
    keep_endings,
    keeps_paths,
    leave_out,
    lists_changed,
)
from hilum_guard.commands.path_checks import matches_any_name
from hilum_guard.commands.shell_commands import FindAction, ShellState
from hilum_guard.commands.shell_words import CHANGED, UNKNOWN, Word
from hilum_guard.effects.file_access import FindQuery
from hilum_guard.effects.file_search import search
from hilum_guard.effects.git_effects import git_words
from hilum_guard.programs.program_names import (
    find_first_operand,
    find_later_starts,
    find_word,
    get_program_name,
)

if TYPE_CHECKING:
    from hilum_guard.commands.shell_commands import ParsedCommand
    from hilum_guard.commands.shell_reader import ShellReader

# Maximum number of piped words to read; each word may become a separate command.
MAX_ARGUMENTS = 20
# Git knows fewer hooks.
MAX_HOOKS = 40
FOLDER_ACTIONS = frozenset({"-execdir", "-okdir"})
"""`find` actions that run a command in the folder of each found file."""
_COMMAND_ACTIONS = FOLDER_ACTIONS | {"-exec", "-ok"}
_FD_ACTIONS = frozenset({"-x", "-X", "--exec", "--exec-batch"})
# Programs that print some of their input lines unchanged.
_FILTERS = frozenset("grep egrep fgrep sort uniq head tail".split())
_INVERTING = frozenset(("-v", "-vE", "-Ev"))
# Programs whose output is predicted only if it consists of all their input lines.
_COPYING = frozenset(("cat", "tee"))
_XARGS_VALUED = "IEdaLnPs"
_UNKNOWN_WORD = Word(UNKNOWN, plain=False)
_NAME_TESTS = frozenset(("-name", "-iname"))
_NEGATING = frozenset({"-empty", "!", "-not", "-nouser", "-nogroup"})
_SSH_COMMAND = re.compile(
    r"(?:-o)?(?:ProxyCommand|LocalCommand|KnownHostsCommand)[= ](.*)", re.IGNORECASE
)
_GIT_TEXT_OPTION = re.compile(r"-x|--exec|--extcmd|--upload-pack|--receive-pack|--[a-z]+-filter")
# Sub-commands whose `-x` is a switch, or names files that are left out.
_WITHOUT_TEXT = frozenset(("cherry-pick", "clean", "ls-files"))
# Sub-commands whose `-u` means `--upload-pack`; that of `git branch` and `git push` names no program.
_UPLOADING = frozenset(("clone", "ls-remote"))
_GIT_ATTACHED_TEXT = re.compile(
    r"(?:--exec|--extcmd|--upload-pack|--receive-pack|--open-files-in-pager|--(?!diff-)[a-z]+-filter"
    r"|--ext-diff|--config-env)=(.*)",
    re.DOTALL,
)
_CONTAINER_VALUED = frozenset(
    """-v --volume -e --env --name -w --workdir -p --publish -u --user --network --net --mount
    --entrypoint -l --label -h --hostname -m --memory --cpus --platform --env-file --cap-add
    --cap-drop --device --security-opt --add-host --pid --ipc --gpus --restart --tmpfs --shm-size
    --ulimit --userns --runtime --pull -n -c --container""".split()
)
_NARROWING = frozenset(
    """-path -ipath -wholename -regex -iregex -size -mtime -mmin -atime -amin -ctime -cmin -newer
    -empty -perm -user -group -links -inum -uid -gid -nouser -nogroup -samefile -lname -name
    -iname""".split()
)


def _fill(words: Sequence[Word], marker: str, replacement: Word) -> tuple[Word, ...]:
    """Return a command's words with a marker such as `{}` replaced."""
    return tuple(_replace(word, marker, replacement) for word in words)


def _replace(word: Word, marker: str, replacement: Word) -> Word:
    if marker not in word.value:
        return word
    placeholder = ""
    if replacement.placeholder:
        placeholder = word.value.replace(marker, replacement.placeholder)
    value = word.value.replace(marker, replacement.value)
    return attrs.evolve(replacement, value=value, placeholder=placeholder)


# --- commands for a list of words -----------------------------------------------------------------


def read_xargs(reader: ShellReader, command: ParsedCommand) -> str | None:
    """Read `… | xargs COMMAND`: the command with the piped words as arguments."""
    words = command.words
    at = find_first_operand(words, _XARGS_VALUED)
    arguments = _split_input(reader, command)
    listed = reader.state.listed
    if listed is not None and command.stdin is None and lists_changed(listed.words):
        arguments = [Word(CHANGED, plain=False)]
    elif listed is not None and command.stdin is None:
        arguments = [attrs.evolve(_UNKNOWN_WORD, placeholder="{}")]
        reader.state.finder = listed
    # An unknown option of `xargs` may take a value, so the command may begin one word later.
    with reader.implying():
        for later in find_later_starts(words, _XARGS_VALUED, at):
            reader.read_inner(command, (*words[later:], *arguments), stdin="")
    inner = words[at:] or (Word("echo"),)
    marker = _find_marker(words, at)
    if not marker:
        size = _find_group_size(words, at)
        for start in range(0, len(arguments) if size else 0, size or 1):
            group = arguments[start : start + size]
            reader.read_inner(command, (*inner, *group), stdin="")
        # `xargs` reads standard input itself, and its command gets empty input.
        return None if size else reader.read_inner(command, (*inner, *arguments), stdin="")
    for argument in arguments:
        reader.read_inner(command, _fill(inner, marker, argument), stdin="")
    return None


_GROUP = re.compile(r"-[^-]*?[nL](\d*)|--max-(?:args|lines)(?:=(\d+))?|-l(\d*)", re.DOTALL)


def _find_group_size(words: tuple[Word, ...], end: int) -> int:
    """Return how many words `xargs` passes to each command; 0 if there is one command for all."""
    for word, following in pairwise([each.value for each in words[1:end]] + [""]):
        found = _GROUP.fullmatch(word)
        if found:
            given = next(filter(None, found.groups()), following)
            # A line counts as one word here.
            return int(given) if given.isdecimal() and int(given) > 0 else 1
    return 0


def _find_marker(words: tuple[Word, ...], end: int) -> str:
    """Return the marker that `xargs` replaces in its command; empty if it appends words."""
    options = [word.value for word in words[1:end]]
    for at, option in enumerate(options, 1):
        if option.startswith("-I") and at + 1 < len(words):
            return option[2:] or words[at + 1].value
    return "{}" if "-i" in "".join(options) else ""


def read_parallel(reader: ShellReader, command: ParsedCommand) -> str | None:
    """Read `… | parallel COMMAND`, `parallel COMMAND ::: WORDS`: the command for each word."""
    words = command.words
    at = find_first_operand(words, "jSdNInaLlPs")
    split = find_word(words, (":::", ":::+", "::::"), at)
    if split == len(words):
        arguments = _split_input(reader, command)
    elif words[split].value == "::::":
        arguments = [_UNKNOWN_WORD]  # the words are in a file that is not read here
    else:
        given = [attrs.evolve(word, plain=False) for word in words[split + 1 :]]
        arguments = _limit_arguments(given)
    inner = words[at:split]
    text = " ".join(word.value for word in inner) or "{}"
    if "{}" not in text:
        text += " {}"
    for argument in arguments:
        # `parallel` passes the assembled command to a shell, which parses it.
        reader.read_nested(text.replace("{}", argument.value))
        # If the command's text is unknown, rules need its words, because text cannot express that a
        # path stands for everything below it.
        if inner and (UNKNOWN in argument.value or argument.tree):
            reader.read_inner(command, (*inner, argument), stdin="")
    return None


def _split_input(reader: ShellReader, command: ParsedCommand) -> list[Word]:
    """Return the words that are piped into a command."""
    if command.stdin is None:
        return [_UNKNOWN_WORD]
    is_separated = "\0" in command.stdin
    try:
        # The arguments for `xargs -0` may contain spaces and quotes.
        parts = command.stdin.split("\0") if is_separated else shlex.split(command.stdin)
    except ValueError:
        return [_UNKNOWN_WORD]
    is_found = reader.state.listed is not None
    words = []
    for part in filter(None, parts):
        words.append(Word(part, glob="*" in part, plain=False, tree=is_found))
    return _limit_arguments(words)


def _limit_arguments(words: list[Word]) -> list[Word]:
    """Return words, of which the rest is unknown if there are too many to read a command for each."""
    return words if len(words) <= MAX_ARGUMENTS else [*words[:MAX_ARGUMENTS], _UNKNOWN_WORD]


# --- commands for files ---------------------------------------------------------------------------


def read_fd(reader: ShellReader, command: ParsedCommand) -> str | None:
    """Read `fd PATTERN PATHS … -x COMMAND`: the command for every file that `fd` finds."""
    words = command.words[1:]
    at = find_word(words, _FD_ACTIONS)
    inner = words[at + 1 :]
    inner = inner[: find_word(inner, (";",))]
    if not inner:
        return None
    operands = [word for word in words[:at] if not word.value.startswith("-")]
    # A pattern that matches every name finds everything in the searched folders. The files that
    # other patterns find depend on the disk.
    if not operands or operands[0].value in {"", ".", ".*"}:
        targets = operands[1:] or [Word(".")]
    else:
        targets = [_UNKNOWN_WORD]
    has_marker = any("{" in word.value for word in inner)
    for target in targets:
        found = attrs.evolve(target, plain=False, placeholder="{}")
        filled = _fill(inner, "{}", found) if has_marker else (*inner, found)
        reader.read_inner(command, filled)
    return None


def read_find(reader: ShellReader, command: ParsedCommand) -> str | None:
    """Read `find PATHS … -delete` or `-exec`: what it deletes, or runs for each found file."""
    starts, tests = _split_find_words(command.words[1:])
    targets = _predict_found(starts, tests)
    found = []
    for target in targets:
        found.append(attrs.evolve(target, plain=False, placeholder="{}", tree=True))
    first_test = len(command.words) - len(tests)
    outer = reader.state.finder
    for at, word in enumerate(tests):
        reader.state.finder = FindAction(command.words, first_test + at)
        if word.value in {"-delete", "--delete"}:
            reader.read_inner(command, (Word("rm"), Word("-rf"), *found))
        elif word.value in _COMMAND_ACTIONS:
            inner = _get_action_command(tests, at)
            for target in _name_programs(reader, inner, found, starts):
                reader.read_inner(command, _fill(inner, "{}", target))
    reader.state.finder = outer
    if all(target.known for target in targets):
        return "\n".join(target.value for target in targets)
    return None


def _name_programs(
    reader: ShellReader, inner: tuple[Word, ...], found: list[Word], starts: tuple[Word, ...]
) -> list[Word]:
    """Return what a `find` puts for `{}` in a command: the found files, of which one may be unknown.

    If it runs the found files themselves (`find build -name '*_test' -exec {} ;`), these are files
    below the searched folders of the project, whose scripts can be read.
    """
    is_run = inner[:1] != () and inner[0].value == "{}"
    has_words = any(not word.value.startswith("-") for word in inner[1:])
    if not is_run or has_words:
        return found
    state = reader.state
    if state.finder is None or not all(map(_is_project_folder, starts)) or None in state.cwds:
        return found
    action = state.finder
    words = tuple(word.value for word in action.words)
    targets = [Word(f"{start.value.rstrip('/')}/{UNKNOWN}", plain=False) for start in starts]
    for cwd in state.cwds:
        findings = search(FindQuery(words, action.at, cwd))
        if findings is None or len(findings.entries) > MAX_ARGUMENTS:
            return found
        targets += [Word(entry.path, plain=False) for entry, _ in findings.entries]
    return targets


def _is_project_folder(word: Word) -> bool:
    """Return whether a folder is named relative to the working folder, and is below it."""
    path = os.path.normpath(word.value)
    return word.known and not word.glob and not path.startswith(("/", "~", ".")) and path != "."


def _split_find_words(words: tuple[Word, ...]) -> tuple[tuple[Word, ...], tuple[Word, ...]]:
    """Return the folders that a `find` searches, and its expression."""
    begin = 0
    while begin < len(words) and words[begin].value in {"-H", "-L", "-P"}:
        begin += 1
    end = begin
    while end < len(words) and words[end].value[:1] not in {"-", "!", "("}:
        end += 1
    return words[begin:end] or (Word("."),), words[end:]


def _get_action_command(tests: tuple[Word, ...], at: int) -> tuple[Word, ...]:
    """Return the command that a `find` action runs."""
    stop = at + 1
    while stop < len(tests) and not _ends_action(tests[stop - 1].value, tests[stop].value):
        stop += 1
    inner = tests[at + 1 : stop]
    # `find` may find a folder, so everything in that folder counts as found.
    if inner and get_program_name(inner[0]) == "rm":
        return (inner[0], Word("-r"), *inner[1:])
    return inner


def _ends_action(before: str, value: str) -> bool:
    return value == ";" or (value == "+" and before == "{}")


def _predict_found(starts: tuple[Word, ...], tests: tuple[Word, ...]) -> list[Word]:
    """Return paths that stand for everything that a `find` finds.

    Return one unknown path if the result depends on the files on the disk.
    """
    found = list(starts)
    for word, following in pairwise(tests):
        pattern = following.value
        if word.value in _NAME_TESTS:
            if not re.search(r"[*?\[]", pattern):
                found = [attrs.evolve(each, value=f"{each.value}/{pattern}") for each in starts]
            elif not matches_any_name(pattern):
                return [_UNKNOWN_WORD]
        elif word.value in _NARROWING:
            return [_UNKNOWN_WORD]
    # A folder that `-empty` finds contains nothing that could be lost, and a negation inverts the
    # other tests, so the found files are unknown.
    if any(word.value in _NEGATING for word in tests):
        return [_UNKNOWN_WORD]
    return found


def find_listed(commands: list[ParsedCommand], before: FindAction | None) -> FindAction | None:
    """Return the `find` that produced the paths printed by a stage of a pipeline, if there is one.

    Args:
        commands: The commands in this stage.
        before: The `find` that produced the paths printed by the previous stage.
    """
    if len(commands) != 1 or not commands[0].words:
        return None
    command = commands[0]
    # `2>/dev/null` leaves the list as it is, and `>/dev/null` leaves nothing of it.
    if any((each.operator, each.target.value) != (">", "/dev/null") for each in command.redirects):
        return None
    name = get_program_name(command.words[0])
    if name in {"find", "gfind"}:
        return FindAction(command.words)
    equivalent = find_equivalent(command)
    if equivalent is not None:
        return FindAction(equivalent, at=-1)
    if before is not None and name in _COPYING:
        return before
    if before is None:
        return None
    if keeps_paths(name, before.words):
        return before
    if name not in _FILTERS:
        return None
    if name == "grep" and len(command.arguments) == 2 and command.arguments[0] in _INVERTING:
        return FindAction(leave_out(before.words, command.arguments[1]), at=-1)
    # `grep -o`, `-n` and `-c` print something other than the lines.
    if any(re.match(r"-\w*[onc]|--", value) for value in command.arguments):
        return None
    if name.endswith("grep") and set(command.arguments[:-1]) <= {"-E"}:
        pattern = command.arguments[-1] if command.arguments else ""
        is_extended = name == "egrep" or len(command.arguments) > 1
        if is_extended or "|" not in pattern:
            return FindAction(keep_endings(before.words, pattern), at=-1)
    return attrs.evolve(before, at=-1)


# What CMake calls the usual commands on files.
_CMAKE_TOOLS = {
    "cat": ("cat",),
    "copy": ("cp", "-r"),
    "copy_if_different": ("cp",),
    "copy_if_newer": ("cp",),
    "copy_directory": ("cp", "-r"),
    "create_hardlink": ("ln",),
    "create_symlink": ("ln", "-s"),
    "make_directory": ("mkdir", "-p"),
    "remove": ("rm",),
    "remove_directory": ("rm", "-r"),
    "rename": ("mv",),
    "rm": ("rm",),
    "tar": ("tar",),
    "time": (),
    "touch": ("touch",),
    "touch_nocreate": ("touch",),
}


def read_cmake(reader: ShellReader, command: ParsedCommand) -> str | None:
    """Read `cmake -E env COMMAND`, `cmake -E chdir FOLDER COMMAND`, and the like."""
    at = find_word(command.words, ("-E",)) + 1
    if at >= len(command.words):
        return None
    tool = command.words[at].value
    rest = command.words[at + 1 :]
    before = reader.state.cwds
    if tool == "env":
        while rest and re.match(r"--(?:unset|modify)=|\w+=|--\Z", rest[0].value):
            rest = rest[1:]
    elif tool == "chdir":
        goal = next(iter(rest), Word("."))
        is_known = goal.known and not goal.glob
        folders = [reader.state.checker.absolute(goal.value, cwd) for cwd in before]
        reader.state.cwds = tuple(dict.fromkeys(folders)) if is_known else (None,)
        rest = rest[1:]
    elif tool in _CMAKE_TOOLS:
        rest = (*map(Word, _CMAKE_TOOLS[tool]), *rest)
    elif UNKNOWN in tool:
        reader.add_unknown()
        return None
    else:
        return None
    try:
        return reader.read_inner(command, rest)
    finally:
        reader.state.cwds = before


# --- commands on other machines and in containers -------------------------------------------------


def read_ssh(reader: ShellReader, command: ParsedCommand) -> str | None:
    """Read `ssh HOST COMMAND` as if it ran here, in an unknown folder."""
    for word in command.words:
        # ssh runs the commands in these options on the local machine.
        match = _SSH_COMMAND.fullmatch(word.value)
        if match:
            reader.read_nested(match[1])
    at = find_first_operand(command.words, "bBcDEeFIiJLlmOopQRSWw") + 1
    text = " ".join(word.value for word in command.words[at:])
    outer = reader.state
    reader.state = outer.copy()
    reader.state.checker = attrs.evolve(outer.checker, remote=True)
    reader.state.cwds = (None,)
    reader.state.fed = is_fed(outer, command)
    try:
        return reader.read_nested(text or command.stdin or "")
    finally:
        reader.state = outer


def read_container(reader: ShellReader, command: ParsedCommand) -> str | None:
    """Read `docker run -v HOST:CONTAINER IMAGE COMMAND` and `docker exec NAME COMMAND`.

    The folder of the command is taken for the workspace, which most containers of a project show.
    """
    words = command.words
    if get_program_name(words[0]) in ("kubectl", "oc"):
        return _read_pod(reader, command)
    begin = find_word(words, ("run", "exec", "create")) + 1
    end, options = _split_container_options(words, begin)
    entry: tuple[Word, ...] = ()
    for name, value in options:
        if name == "--entrypoint":
            entry = (Word(value),)
    mounts = tuple(_resolve_mounts(options, reader.state))
    return _read_contained(reader, command, (*entry, *words[end + 1 :]), mounts)


def _read_pod(reader: ShellReader, command: ParsedCommand) -> str | None:
    """Read `kubectl exec POD -- COMMAND` and `kubectl run NAME --image IMAGE -- COMMAND`."""
    words = command.words
    begin = find_word(words, ("run", "exec", "debug")) + 1
    end = find_word(words, ("--",), begin)
    # Older versions of `kubectl exec` need no `--`.
    if end >= len(words) and "exec" in command.arguments:
        end, _ = _split_container_options(words, begin)
    return _read_contained(reader, command, words[end + 1 :], ())


def _read_contained(
    reader: ShellReader,
    command: ParsedCommand,
    inner: tuple[Word, ...],
    mounts: tuple[tuple[str, str], ...],
) -> str | None:
    """Read a command that runs in a container."""
    outer = reader.state
    reader.state = outer.copy()
    # Paths in the container refer to files on this machine only below a mount.
    reader.state.checker = attrs.evolve(outer.checker, contained=True, mounts=mounts)
    reader.state.cwds = (reader.checker.workspace,)
    reader.state.fed = is_fed(outer, command)
    try:
        return reader.read_inner(command, inner)
    finally:
        reader.state = outer


def is_fed(state: ShellState, command: ParsedCommand) -> bool:
    """Return whether the text gives a command that runs elsewhere its standard input."""
    return state.fed or any("<" in redirect.operator for redirect in command.redirects)


def _split_container_options(
    words: tuple[Word, ...], begin: int
) -> tuple[int, list[tuple[str, str]]]:
    """Return the position after the options of `docker run`, and the options with their values."""
    options: list[tuple[str, str]] = []
    at = begin
    while at < len(words) and words[at].value.startswith("-"):
        option, equals, value = words[at].value.partition("=")
        if not equals and option in _CONTAINER_VALUED and at + 1 < len(words):
            at += 1
            value = words[at].value
        elif re.match(r"-v.", option):
            value = option[2:]
            option = "-v"
        options.append((option, value))
        at += 1
    return at, options


def _resolve_mounts(options: list[tuple[str, str]], state: ShellState) -> Iterator[tuple[str, str]]:
    """Yield a container's folders, each with the folder on this machine that is mounted there."""
    if state.checker.contained:
        return
    for option, value in options:
        if option in {"-v", "--volume"}:
            here, _, rest = value.partition(":")
            there = rest.split(":")[0] or "/"
        elif option == "--mount":
            parts = dict(part.partition("=")[::2] for part in value.split(","))
            here = parts.get("source", parts.get("src", ""))
            there = parts.get("target", parts.get("dst", "/"))
        else:
            continue
        if here.startswith(("/", ".", "~")):
            path = state.checker.absolute(here, state.cwds[-1])
            if path:
                yield there.rstrip("/") or "/", path


# --- Git ------------------------------------------------------------------------------------------


def read_git(reader: ShellReader, command: ParsedCommand) -> str | None:
    """Read Git aliases and the text that Git passes to a shell.

    Such text comes from settings, `rebase --exec`, `submodule foreach` and `bisect run`.
    """
    words = [word.value for word in command.words]
    for at in range(1, len(words)):
        text = _get_git_text(command.words, words, at)
        if text:
            reader.read_nested(text)
    git_aliases.read_alias(reader, command)
    _read_hooks(reader, command)
    if words[1:] == ["rev-parse", "--show-toplevel"] and not reader.state.checker.elsewhere:
        return reader.checker.workspace
    return None


# Settings of Git whose values are never run: names, addresses and switches.
_PLAIN_SETTING = re.compile(
    r"(?:user|author|committer)\.(?:name|email)|(?:commit|tag)\.gpgsign|color\.[\w.]+|advice\.\w+"
    r"|core\.(?:abbrev|autocrlf|eol|filemode|quotepath|safecrlf|symlinks|whitespace)"
    r"|init\.defaultbranch|pull\.(?:ff|rebase)|merge\.ff|push\.default|fetch\.prune"
    r"|rebase\.\w+|diff\.(?:algorithm|renames|renamelimit)|log\.\w+|protocol\.version",
    re.IGNORECASE,
)


def get_setting_text(name: str, value: str) -> str:
    """Return the shell text that a setting of Git may contain; empty if its value is never run.

    Args:
        name: The name of the setting.
        value: The value.
    """
    return "" if _PLAIN_SETTING.fullmatch(name) else value.lstrip("!")


def _read_hooks(reader: ShellReader, command: ParsedCommand) -> None:
    """Read the hooks in a folder that the command, or the text, sets as `core.hooksPath`."""
    folders = git_aliases.find_hook_folders(reader, command)
    starts = [*(cwd for cwd in command.cwds if cwd is not None), reader.checker.workspace]
    paths: dict[str, None] = {}
    for start, folder in product(starts, folders):
        with suppress(OSError, ValueError):
            names = sorted(os.listdir(os.path.join(start, os.path.expanduser(folder))))
            if len(names) > MAX_HOOKS:
                reader.add_unknown()
            for name in names[:MAX_HOOKS]:
                paths[os.path.normpath(os.path.join(start, os.path.expanduser(folder), name))] = (
                    None
                )
    with reader.implying():
        for path in paths:
            reader.read_inner(command, (Word(path),))


def _get_git_text(words: tuple[Word, ...], values: list[str], at: int) -> str:
    """Return the shell text that a word in a Git command introduces; empty if there is none."""
    value = values[at]
    following = values[at + 1] if at + 1 < len(values) else ""
    if value == "-c":
        name, _, text = following.partition("=")
        return get_setting_text(name, text)
    if value.startswith("alias.") or ("config" in values[1:at] and "." in value):
        return following.lstrip("!")
    if value == "-x" and not _WITHOUT_TEXT.isdisjoint(git_words(tuple(values))[1:2]):
        return ""
    if _GIT_TEXT_OPTION.fullmatch(value):
        return following
    if value == "-u" and not _UPLOADING.isdisjoint(values[1:at]):
        return following
    attached = _GIT_ATTACHED_TEXT.fullmatch(value)
    if attached:
        return attached[1]
    if (values[at - 1], value) in {("bisect", "run"), ("submodule", "foreach")}:
        begin = find_first_operand(words, "", at + 1)
        return " ".join(values[begin:])
    return ""
