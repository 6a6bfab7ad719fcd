"""Finds whether earlier commands of a text may have changed the recipes that a later one runs.

`make` runs what its makefile contains when it starts, which the text may unpack, copy or patch
first.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import chain, pairwise
from typing import TYPE_CHECKING

from hilum_guard.commands.shell_words import UNKNOWN
from hilum_guard.commands.verdicts import SimpleCommand
from hilum_guard.effects.file_access import UNKNOWN as SHOWN_UNKNOWN
from hilum_guard.effects.program_files import is_listed
from hilum_guard.programs import options
from hilum_guard.programs.program_names import MAKES, SHELLS, get_program_name

if TYPE_CHECKING:
    from hilum_guard.commands.shell_commands import ParsedCommand
    from hilum_guard.effects.file_access import CommandEffects, FileAccess

RECIPE_FILES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(MAKES, ("makefile", "gnumakefile")),
    "just": ("justfile", ".justfile"),
    "npm": ("package.json",),
    "pnpm": ("package.json",),
    "yarn": ("package.json",),
    "bun": ("package.json",),
    "npm-run-all": ("package.json",),
    "npm-run-all2": ("package.json",),
    "run-s": ("package.json",),
    "run-p": ("package.json",),
    "deno": ("deno.json", "deno.jsonc", "package.json"),
}
"""The files that contain the recipes of each program, in lower case."""
_MANAGERS = frozenset("npm pnpm yarn bun cnpm tnpm".split())
_FOLDER_OPTIONS = frozenset("-C -d --directory --working-directory --prefix --dir --cwd".split())
# Programs that only read the files that their arguments name.
_ONLY_READ = frozenset((*MAKES, *SHELLS)) | frozenset(
    """jq nl od hexdump strings cut comm paste fold column rev tac awk gawk mawk . source cat ls head
    tail less more wc grep egrep fgrep rg chmod chown test [ [[ stat file diff cmp shellcheck shfmt
    touch rm mkdir tee echo printf pytest ruff mypy black bat which type command readlink realpath
    basename dirname md5sum sha256sum cc gcc g++ clang clang++ rustc go ld cmake nvcc strip timeout
    time env nohup nice exec sudo xargs cd pushd popd export true set""".split()
)
# Programs that write whole folders. A formatter does so, too, but it writes no recipe.
_UNPACKERS = frozenset(
    """tar gtar bsdtar unzip 7z 7za 7zr 7zz rsync scp cp gcp mv gmv ln gln install ginstall patch
    gpatch""".split()
)
# Programs whose arguments do not say what they unpack, and their words for unpacking.
_EXTRACTING = {
    "cpio": re.compile(r"-[a-zA-Z]*i[a-zA-Z]*|--extract"),
    "pax": re.compile(r"-[a-zA-Z]*r[a-zA-Z]*"),
    "unrar": re.compile(r"[xe]"),
    "unar": re.compile(r".*"),
    "ditto": re.compile(r"-[a-zA-Z]*x[a-zA-Z]*"),
}
# Other sub-commands of Git bring the project's own files.
_GIT_CHANGES = frozenset("apply am checkout restore mv checkout-index".split())
_FROM_INDEX = frozenset(("checkout", "restore"))
# With these options, the server names the files of a download.
_NAMED_BY_SERVER = {
    "curl": re.compile(r"-[a-zA-Z]*J|--remote-header-name"),
    "wget": re.compile(
        r"-[a-zA-Z]*[rmi]|--content-disposition|--trust-server-names|--recursive|--mirror|--input-file"
    ),
}
_WRITING = re.compile(
    r"write|dump|rename|replace\s*\(|move|copy|save|['\"][rwax]b?\+?t?['\"]|>|system|subprocess|exec"
    r"|spawn|inplace",
    re.IGNORECASE,
)


def may_change_recipes(
    command: ParsedCommand, name: str, earlier: Iterable[ParsedCommand], written: Iterable[str]
) -> bool:
    """Return whether the text may have changed the recipes of a command.

    Args:
        command: The command.
        name: The name of its program.
        earlier: The commands before it.
        written: The files that redirections of these commands write.
    """
    names = frozenset(chain(RECIPE_FILES.get(name, ()), _get_makefiles(command, name)))
    if not names:
        return False
    if any(_fold_name(path) in names for path in written):
        return True
    recipes = _Recipes(names, tuple(_find_folders(command)))
    return any(recipes.may_be_changed_by(each) for each in earlier if each.words)


def _get_makefiles(command: ParsedCommand, name: str) -> Iterator[str]:
    """Yield the folded names of the files that `make -f` reads instead of the usual ones."""
    if name not in MAKES:
        return
    for option, value in pairwise([*command.arguments, ""]):
        if option in ("-f", "--file", "--makefile"):
            yield _fold_name(value)
        elif option.startswith(("--file=", "--makefile=")):
            yield _fold_name(option.partition("=")[2])
        elif option.startswith("-f"):
            yield _fold_name(option[2:])


def _fold_name(path: str) -> str:
    return os.path.basename(path.rstrip("/")).casefold()


def _find_folders(command: ParsedCommand) -> Iterator[str | None]:
    """Yield the folders in which a program may look for its recipes; None for an unknown one."""
    inner: list[str] = []
    for option, value in pairwise([*command.arguments, ""]):
        name, equals, attached = option.partition("=")
        if name in _FOLDER_OPTIONS:
            inner.append(attached if equals else value)
        elif re.match(r"-C.", option):
            inner.append(option[2:])
    for cwd in command.cwds:
        yield cwd
        if inner:
            yield _join(cwd, *inner)


def _join(folder: str | None, *parts: str) -> str | None:
    """Return a path in a folder; None if it is unknown."""
    path = os.path.join(folder or "/", *map(os.path.expanduser, parts))
    is_known = folder is not None or os.path.expanduser(parts[0]).startswith("/")
    is_known = is_known and UNKNOWN not in path and SHOWN_UNKNOWN not in path
    return os.path.normpath(path) if is_known else None


class _Recipes:
    """The files from which a command takes recipes.

    Args:
        names: The folded names of the files.
        folders: The folders that may contain them; None for an unknown one.
    """

    def __init__(self, names: frozenset[str], folders: Sequence[str | None]) -> None:
        self._names = names
        self._folders = folders

    def may_be_changed_by(self, command: ParsedCommand) -> bool:
        """Return whether a command may change one of the files."""
        name = get_program_name(command.words[0])
        if _only_reads(command, name):
            return False
        # Loading it takes 10 ms, which a text without recipes saves.
        from hilum_guard.effects.command_effects import read_effects

        effects = read_effects(_convert(command))
        if name == "git":
            return self._is_changed_by_git(effects, command)
        if any(map(self._is_changed_in, effects.code)):
            return True
        if any(self._is_target(access, command, name) for access in effects.files):
            return True
        if self._is_changed_unnamed(command, name):
            return True
        # An unknown program may change what its arguments name.
        is_unknown = bool(effects.unknown) and not is_listed(name)
        return is_unknown and any(
            _fold_name(value.rpartition("=")[2]) in self._names for value in command.arguments
        )

    def _is_changed_unnamed(self, command: ParsedCommand, name: str) -> bool:
        """Return whether a program changes one of the files, which its arguments do not name."""
        if name in _EXTRACTING:
            return any(map(_EXTRACTING[name].fullmatch, command.arguments))
        sets_field = name in _MANAGERS and {"pkg", "set"}.issubset(command.arguments)
        return sets_field and "package.json" in self._names

    def _is_changed_by_git(self, effects: CommandEffects, command: ParsedCommand) -> bool:
        from hilum_guard.effects.git_effects import git_words

        verb = "".join(git_words(tuple(word.value for word in command.words))[1:2])
        if verb not in _GIT_CHANGES:
            return False
        for access in effects.files:
            # What comes from the index is the project's own, too.
            is_own = access.deep == "some" and verb in _FROM_INDEX
            if access.kind != "write" or is_own:
                continue
            if SHOWN_UNKNOWN in access.path or self._is_at(access, is_deep=bool(access.deep)):
                return True
        return False

    def _is_changed_in(self, code: str) -> bool:
        """Return whether code that a command contains may write one of the files."""
        folded = code.casefold()
        return any(name in folded for name in self._names) and bool(_WRITING.search(code))

    def _is_target(self, access: FileAccess, command: ParsedCommand, name: str) -> bool:
        if access.kind not in ("write", "link"):
            return False
        is_unpacker = name in _UNPACKERS
        if access.deep and name in _NAMED_BY_SERVER:
            is_unpacker = any(map(_NAMED_BY_SERVER[name].match, command.arguments))
        if is_unpacker and SHOWN_UNKNOWN in access.path:
            return True
        return self._is_at(access, is_deep=is_unpacker and bool(access.deep))

    def _is_at(self, access: FileAccess, *, is_deep: bool) -> bool:
        """Return whether a written path is one of the files, or may contain it."""
        # `scp HOST:Makefile .` has the host in front of the name.
        name = _fold_name(access.path).rpartition(":")[2]
        if name in self._names and not access.if_folder:
            return True
        is_pattern = any(char in name for char in "*?[")
        if is_pattern and not any(fnmatchcase(each, name) for each in self._names):
            return False
        if not is_deep and not is_pattern:
            return False
        path = os.path.dirname(access.path) or "." if is_pattern else access.path
        return any(self._contains(_join(cwd, path)) for cwd in access.cwds)

    def _contains(self, folder: str | None) -> bool:
        """Return whether a folder may contain one of the files."""
        if folder is None:
            return True
        return any(
            each is None or f"{os.path.normpath(each)}/".startswith(f"{folder.rstrip('/')}/")
            for each in self._folders
        )


def _only_reads(command: ParsedCommand, name: str) -> bool:
    """Return whether a program writes none of the files that its arguments name."""
    if name in ("sed", "gsed"):
        return not _edits_files(command)
    is_trial = name in ("patch", "gpatch") and "--dry-run" in command.arguments
    return is_trial or name in _ONLY_READ


def _edits_files(command: ParsedCommand) -> bool:
    """Return whether `sed` changes the files that its arguments name."""
    return options.parse(command.arguments, options.SYNTAX["sed"]).has("-i", "--in-place")


def _convert(command: ParsedCommand) -> SimpleCommand:
    """Return a command as its effects are read."""
    return SimpleCommand(
        words=tuple(word.value.replace(UNKNOWN, SHOWN_UNKNOWN) for word in command.words),
        source=command.source,
        literal=False,
        assigned=command.assigned,
        reads=tuple(each.target.value for each in command.redirects if "<" in each.operator),
        wrapper=command.wrapper,
        cwd=command.cwd,
        cwds=command.cwds,
        stdin=None if command.stdin is None else command.stdin.replace(UNKNOWN, SHOWN_UNKNOWN),
    )
