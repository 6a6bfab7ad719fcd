"""Find the commands that Git aliases run, as options, variables and settings files define them.

Git looks for a built-in command first, then for a program ``git-NAME``, then for an alias, so only
other names need to be resolved. If an alias has several definitions, deny rules apply to all of
them, regardless of which one Git would use.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from hilum_guard.commands.shell_words import UNKNOWN, Word, encode_source, encode_value
from hilum_guard.file_names import resolve_links
from hilum_guard.programs.program_names import quote_words
from hilum_guard.repositories import git_metadata
from hilum_guard.repositories.repository_settings import is_bare_repository

if TYPE_CHECKING:
    from hilum_guard.commands.shell_commands import ParsedCommand
    from hilum_guard.commands.shell_reader import ShellReader

# The output of `git --list-cmds=main`, plus newer commands. `whatchanged` and `pack-redundant` are
# omitted: newer versions of Git let aliases replace deprecated commands.
BUILT_IN = frozenset(
    """add am annotate apply archive backfill bisect blame branch bugreport bundle cat-file
    check-attr check-ignore check-mailmap check-ref-format checkout checkout--worker
    checkout-index cherry cherry-pick clean clone column commit commit-graph commit-tree config
    count-objects credential credential-cache credential-cache--daemon credential-store daemon
    describe diagnose diff diff-files diff-index diff-pairs diff-tree difftool fast-export
    fast-import fetch fetch-pack filter-branch fmt-merge-msg for-each-ref for-each-repo
    format-patch fsck fsck-objects gc get-tar-commit-id grep hash-object help history hook
    http-backend http-fetch http-push imap-send index-pack init init-db instaweb
    interpret-trailers last-modified log ls-files ls-remote ls-tree mailinfo mailsplit maintenance
    merge merge-base merge-file merge-index merge-octopus merge-one-file merge-ours
    merge-recursive merge-recursive-ours merge-recursive-theirs merge-resolve merge-subtree
    merge-tree mergetool mktag mktree multi-pack-index mv name-rev notes pack-objects pack-refs
    patch-id prune prune-packed pull push quiltimport range-diff read-tree rebase receive-pack
    reflog refs remote remote-ext remote-fd remote-ftp remote-ftps remote-http remote-https repack
    replace replay repo request-pull rerere reset restore rev-list rev-parse revert rm send-email
    send-pack shell shortlog show show-branch show-index show-ref sparse-checkout stage stash
    status stripspace submodule subtree switch symbolic-ref tag unpack-file unpack-objects
    update-index update-ref update-server-info upload-archive upload-pack var verify-commit
    verify-pack verify-tag version worktree write-tree""".split()
)
# Widely installed `git-NAME` programs with well-known behaviour.
_KNOWN_PROGRAMS = frozenset(
    """absorb citool credential-gcloud.sh credential-libsecret credential-manager
    credential-osxkeychain cvsexportcommit cvsimport cvsserver filter-repo gui lfs p4 svn""".split()
)
# Git commands that are equivalent to another command, whose rules also apply to them.
EQUIVALENT: dict[tuple[str, ...], tuple[str, ...]] = {
    ("send-pack",): ("push",),
    ("http-push",): ("push",),
    ("subtree", "push"): ("push",),
    ("lfs", "push"): ("push",),
    ("svn", "dcommit"): ("push",),
    ("p4", "submit"): ("push",),
    ("fetch-pack",): ("fetch",),
    ("http-fetch",): ("fetch",),
    ("stage",): ("add",),
    ("annotate",): ("blame",),
    ("whatchanged",): ("log",),
    ("init-db",): ("init",),
    ("fsck-objects",): ("fsck",),
}
# Git's own options that take the next word as their value.
_VALUED = frozenset(
    "-C -c --git-dir --work-tree --namespace --super-prefix --config-env --attr-source".split()
)
# Environment variables that make Git read other settings or run other programs.
_REDIRECTING_VARIABLES = frozenset(
    "GIT_CONFIG GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_DIR GIT_COMMON_DIR GIT_EXEC_PATH"
    " XDG_CONFIG_HOME".split()
)
_REDIRECTING_OPTIONS = frozenset(("--git-dir", "--config-env", "--super-prefix"))
_CONFIG_NAMES = frozenset({"config", "config.worktree", ".gitconfig", "gitconfig"})
_CONTINUED_VALUE = re.compile(r"\\\r?\n")
_SETTING_AFTER_SECTION = re.compile(r"(?m)^([ \t]*\[[^\]\n]*\])[ \t]*(?=[^\s#;])")
MAX_ALIAS_DEPTH = 10
MAX_FILES = 50
MAX_COUNT = 100


class GitWords(NamedTuple):
    """The parts of a Git command.

    Attributes:
        options: The words before the sub-command, including ``git``.
        settings: Names and values that ``-c`` sets.
        folders: The folders given with ``-C``, in order.
        redirected: Whether an option makes Git read settings or run programs from a different
            location.
        rest: The sub-command and the words after it.
    """

    options: tuple[Word, ...]
    settings: tuple[tuple[str, str], ...]
    folders: tuple[str, ...]
    redirected: bool
    rest: tuple[Word, ...]

    @property
    def verb(self) -> str:
        """The sub-command."""
        return self.rest[0].value


def split_words(words: tuple[Word, ...]) -> GitWords:
    """Return the parts of a Git command."""
    settings: list[tuple[str, str]] = []
    folders: list[str] = []
    redirected = False
    at = 1
    while at < len(words) and words[at].value.startswith("-"):
        option, equals, value = words[at].value.partition("=")
        if option in _VALUED and not equals and at + 1 < len(words):
            at += 1
            value = words[at].value
        at += 1
        if option == "-c":
            name, _, text = value.partition("=")
            settings.append((name, text))
        elif option == "-C":
            folders.append(value)
        elif option in _REDIRECTING_OPTIONS or (option == "--exec-path" and equals):
            redirected = True
    return GitWords(words[:at], tuple(settings), tuple(folders), redirected, words[at:])


def read_alias(reader: ShellReader, command: ParsedCommand) -> None:
    """Read the commands that a Git sub-command stands for, or record that they are unknown."""
    parts = split_words(command.words)
    if not parts.rest:
        return
    if not parts.rest[0].known:
        reader.add_unknown()  # it may be any sub-command, or an alias for any command
        return
    if parts.verb == "config":
        _note_settings(reader, parts.rest)
    values = [word.value for word in parts.rest]
    for names, meant in EQUIVALENT.items():
        if values[: len(names)] == list(names):
            rest = parts.rest[len(names) :]
            _read_implied(reader, command, (*parts.options, *map(Word, meant), *rest))
    if parts.verb not in BUILT_IN:
        _read_definitions(reader, command, parts)


def _read_definitions(reader: ShellReader, command: ParsedCommand, parts: GitWords) -> None:
    """Read the definitions of an alias."""
    verb = parts.verb
    definitions, why = _find_definitions(reader, command, parts)
    if not definitions and verb not in _KNOWN_PROGRAMS:
        why = why or f"`git {verb}` is neither a Git command nor an alias that can be read here"
    for definition in definitions:
        if UNKNOWN in definition:
            why = why or f"the alias `{verb}` has words that are known only at run time"
        _read_definition(reader, command, parts, definition)
    if why:
        reader.unresolved.append((command, why))


def _find_definitions(
    reader: ShellReader, command: ParsedCommand, parts: GitWords
) -> tuple[list[str], str]:
    """Return all known definitions of an alias, and the reason why others may exist, if any."""
    from_environment, is_incomplete = _read_environment(reader)
    settings = [*parts.settings, *reader.git_settings, *from_environment]
    why = ""
    if _is_redirected(reader, parts):
        why = "its options or variables make Git read settings from another location"
    elif is_incomplete or any(UNKNOWN in name or _is_include(name) for name, _ in settings):
        why = "it has settings that are known only at run time"
    elif any(map(_may_write_settings, reader.commands)):
        why = "an earlier part of the command may change Git's settings"
    for cwd in command.cwds:
        files = _find_files(cwd, parts.folders)
        if files is None:
            why = why or "the folder in which Git runs is unknown"
            continue
        settings += _read_files(files)
    # Newer versions of Git also support `alias.NAME.command`.
    names = (f"alias.{parts.verb}".casefold(), f"alias.{parts.verb}.command".casefold())
    definitions = [value for name, value in settings if name.casefold() in names]
    return list(dict.fromkeys(definitions)), why


def _is_include(name: str) -> bool:
    return name.casefold().startswith(("include.", "includeif."))


def _is_redirected(reader: ShellReader, parts: GitWords) -> bool:
    """Return whether Git may read its settings from an unusual location."""
    variables = reader.state.variables
    home = (encode_source(reader.checker.home),)
    has_variable = not _REDIRECTING_VARIABLES.isdisjoint(variables)
    return parts.redirected or has_variable or variables.get("HOME") != home


def _read_environment(reader: ShellReader) -> tuple[list[tuple[str, str]], bool]:
    """Return the settings in variables (``GIT_CONFIG_COUNT`` …), and whether any are unknown."""

    def get_variable(name: str) -> str | None:
        known = reader.state.variables.get(name)
        return known[0] if known else os.environ.get(name)

    settings: list[tuple[str, str]] = []
    # Git passes the settings from `-c` to its child processes in this variable.
    parameters = get_variable("GIT_CONFIG_PARAMETERS")
    if parameters:
        try:
            words = shlex.split(parameters)
        except ValueError:
            return [], True
        for word in words:
            name, _, value = word.partition("=")
            settings.append((name, value))
    count = get_variable("GIT_CONFIG_COUNT")
    if not count:
        return settings, False
    if not count.isdecimal() or int(count) > MAX_COUNT:
        return settings, True
    is_incomplete = False
    for number in range(int(count)):
        key = get_variable(f"GIT_CONFIG_KEY_{number}")
        text = get_variable(f"GIT_CONFIG_VALUE_{number}")
        if key is None or text is None:
            is_incomplete = True
        else:
            settings.append((key, text))
    return settings, is_incomplete


def find_hook_folders(reader: ShellReader, command: ParsedCommand) -> list[str]:
    """Return the folders that the text gives as `core.hooksPath` for a Git command."""
    parts = split_words(command.words)
    from_environment, _ = _read_environment(reader)
    settings = [*parts.settings, *reader.git_settings, *from_environment]
    folders = [value for name, value in settings if name.casefold() == "core.hookspath"]
    return [folder for folder in folders if folder and UNKNOWN not in folder]


def _note_settings(reader: ShellReader, rest: tuple[Word, ...]) -> None:
    """Record the settings that a `git config` command in the text makes for later commands."""
    values = [word.value for word in rest]
    for name, following in zip_longest(values[1:], values[2:], fillvalue=""):
        is_run = name.casefold().startswith("alias.") or name.casefold() == "core.hookspath"
        if is_run or _is_include(name) or UNKNOWN in name:
            reader.git_settings.append((name, following))
        elif name in ("-e", "--edit", "edit") or name.casefold() == "alias":
            reader.git_settings.append((UNKNOWN, ""))


def _may_write_settings(command: ParsedCommand) -> bool:
    """Return whether a command's words suggest that the command writes a settings file."""
    texts = [redirect.target.value for redirect in command.redirects if ">" in redirect.operator]
    if command.words and os.path.basename(command.words[0].value) != "git":
        texts += command.arguments
    names = [os.path.basename(text.rpartition("=")[2]).casefold() for text in texts]
    return not _CONFIG_NAMES.isdisjoint(names)


# --- settings files -------------------------------------------------------------------------------


def _find_files(cwd: str | None, folders: tuple[str, ...]) -> list[str] | None:
    """Return the settings files that Git reads in a folder; None for an unknown folder."""
    for folder in folders:
        folder = os.path.expanduser(folder)
        if UNKNOWN in folder or (cwd is None and not os.path.isabs(folder)):
            return None
        cwd = os.path.join(cwd or "/", folder)
    if cwd is None:
        return None
    files = git_metadata.user_configs()
    # This file is included even if this process's GIT_CONFIG_GLOBAL names another file, because the
    # command may unset the variable.
    files.append(os.path.expanduser("~/.gitconfig"))
    git = _find_git_folder(resolve_links(cwd))
    if git:
        common = (git_metadata.read(os.path.join(git, "commondir")) or "").strip()
        files += [os.path.join(git, "config"), os.path.join(git, "config.worktree")]
        if common:
            files.append(os.path.join(git, common, "config"))
    return files


def _find_git_folder(folder: str) -> str:
    """Return the Git folder for a working folder; empty if there is none."""
    while True:
        git = os.path.join(folder, ".git")
        if os.path.isdir(git):
            return git
        if os.path.isfile(git):
            return git_metadata.pointed(git)
        if is_bare_repository(folder):
            return folder
        above = os.path.dirname(folder)
        if above == folder:
            return ""
        folder = above


def _read_files(files: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the aliases in settings files and in the files that these include."""
    waiting = list(files)
    seen: set[str] = set()
    # Settings files may include each other.
    while waiting and len(seen) < MAX_FILES:
        path = git_metadata.resolve("/", waiting.pop(0))
        if not path or path in seen:
            continue
        seen.add(path)
        text = git_metadata.read(path)
        if text is None:
            continue
        # `parse_config` reads only plain lines. Git also allows a value to continue on the next
        # line, and a setting on the line of its section header.
        text = _CONTINUED_VALUE.sub("", text)
        text = _SETTING_AFTER_SECTION.sub(r"\1\n", text)
        for setting in git_metadata.parse_config(text):
            section, _, key = setting.name.partition(".")
            if setting.name in ("include.path", "includeif.path"):
                folder = os.path.dirname(path)
                waiting.append(git_metadata.resolve(folder, setting.value, home=True))
            elif section == "alias":
                name = f"{setting.subsection}.{key}" if setting.subsection else key
                yield f"alias.{name}", setting.value


# --- the commands of an alias ---------------------------------------------------------------------


def _read_definition(
    reader: ShellReader, command: ParsedCommand, parts: GitWords, value: str
) -> None:
    """Read an alias's definition: the words of a Git command, or shell text after `!`."""
    arguments = parts.rest[1:]
    if value.startswith("!"):
        # Git appends the arguments to the shell text, even if it ends with a function call
        # (`f() { …; }; f`).
        text = f"{value[1:].strip()} {quote_words(arguments)}"
        with reader.implying():
            reader.read_nested(text, tuple(map(encode_value, arguments)))
        return
    try:
        words = shlex.split(value)
    except ValueError:
        reader.unresolved.append((command, f"the alias `{parts.verb}` cannot be read"))
        return
    # Git rejects an alias that refers to itself.
    if words[:1] != [parts.verb]:
        _read_implied(reader, command, (*parts.options, *map(Word, words), *arguments))


def _read_implied(reader: ShellReader, command: ParsedCommand, words: tuple[Word, ...]) -> None:
    if reader.implied_depth >= MAX_ALIAS_DEPTH:
        reader.unresolved.append((command, "its aliases point to each other"))
        return
    reader.implied_depth += 1
    try:
        with reader.implying():
            reader.read_inner(command, words)
    finally:
        reader.implied_depth -= 1
