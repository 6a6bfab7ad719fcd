"""Find what Git executes because of a repository's metadata, and which files lead to the metadata.

A program in the sandbox can create repositories, and can write to most of the metadata of existing
repositories. The user's next `git status` would run the programs named in this metadata, outside
any sandbox. Therefore everything that makes Git execute something is an ``Entry``, and hilum makes
inert the entries that appear while a command runs (see ``watching.workspace_watcher``).

Settings are compared with a list of settings that do not execute anything. Every other setting is
an entry, and so is a line with unusual syntax, because this parser and Git must not disagree on a
file's meaning.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from itertools import chain
from typing import Literal, NamedTuple

from hilum_guard.file_names import QUARANTINED, resolve_links
from hilum_guard.repositories.git_index import HASH_SIZES, find_nested_repositories

Kind = Literal["setting", "hook", "pointer", "link", "todo", "name", "folder"]

MAX_BYTES = 1_048_576
"""Maximum number of bytes to read from a metadata file; Git's own limit for pointer files.

A larger file counts as one entry.
"""
UNREADABLE = "(too large to be read)"
"""Replaces the text of a larger file; it cannot be a setting, a pointer or a rebase step."""
_MAX_KEPT_POINTER = 8192
"""Maximum number of characters of a pointer that is kept; a path has at most 4,096 bytes."""
MAX_FOLLOWED = 40
"""Maximum number of configuration files to follow from one repository through `include.path`."""
MAX_GIT_FOLDERS = 20_000
"""Maximum number of folders in a Git folder to search for links, from its root downwards."""
HEADS = frozenset({"HEAD", "commondir", "config.worktree"})
"""Names of files that make a folder a Git folder or contain its settings; rare elsewhere."""
_PARTS = HEADS | {"objects", "refs", "config", "hooks"}
# The names that Git reads in a Git folder. Other names belong to working trees inside the Git
# folder.
_METADATA = frozenset(
    """HEAD config config.worktree commondir gitdir hooks objects refs packed-refs info logs
    modules worktrees index shallow branches rebase-merge rebase-apply sequencer rr-cache bisect
    lfs annex description ORIG_HEAD FETCH_HEAD MERGE_HEAD COMMIT_EDITMSG MERGE_MSG
    reftable""".split()
)
# Folders in which Git never writes through links, because it writes each object under a temporary
# name and then renames it.
_OBJECTS = ("objects", "lfs/objects", "annex/objects")


class Entry(NamedTuple):
    """A file or setting that makes Git, or a program that looks for certain names, execute code.

    Attributes:
        kind: ``setting`` (in a configuration), ``hook``, ``pointer`` (a file that leads to
            metadata), ``link`` (a symbolic link in place of such a file), ``todo`` (a rebase step),
            ``name`` (a file or folder in ``executed_files.TABLE``) or ``folder`` (a folder that
            cannot be listed, so its contents are unknown).
        path: The file.
        detail: The executed text, or its digest.
    """

    kind: Kind
    path: str
    detail: str


class Setting(NamedTuple):
    """A setting in a Git configuration file.

    Attributes:
        name: Section and key in lower case (``section.key``); empty for a section header.
        subsection: The subsection.
        value: The value.
        line: The setting's line number.
        plain: Whether Git and this parser certainly read the setting in the same way.
    """

    name: str
    subsection: str
    value: str
    line: int
    plain: bool = True


# Settings that execute nothing. The pattern in the second column restricts the value.
SETTINGS: tuple[tuple[str, str], ...] = (
    (
        r"core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase"
        r"|precomposeunicode|symlinks|autocrlf|eol"
        r"|safecrlf|quotepath|abbrev|sharedrepository|sparsecheckout|sparsecheckoutcone"
        r"|longpaths|untrackedcache|compression"
        r"|loosecompression|commentchar|preloadindex|splitindex|fscache|hidedotfiles"
        r"|protectntfs|protecthfs|trustctime|checkstat"
        r"|bigfilethreshold|whitespace|packedgitlimit|packedgitwindowsize|deltabasecachelimit"
        r"|multipackindex|commitgraph)",
        ".*",
    ),
    # Git executes any other value of `core.fsmonitor` as a program.
    (r"core\.fsmonitor", r"true|false|yes|no|on|off|0|1|"),
    (r"extensions\.\w+", ".*"),
    (r"user\.(name|email|signingkey|useconfigonly)", ".*"),
    (r"(author|committer)\.(name|email)", ".*"),
    (
        # In a remote's URL, `NAME::` makes Git execute `git-remote-NAME`, and `ext::` a shell
        # command. A URL with a leading `-` would become an ssh option (CVE-2017-1000117).
        r"remote\.(url|pushurl|fetch|push|tagopt|mirror|prune|prunetags|promisor"
        r"|partialclonefilter|skipdefaultupdate"
        r"|skipfetchall|gh-resolved|followremotehead)",
        r"(?!.*::)(?!-).*|[+^]?refs/.*",
    ),
    (
        r"branch\.(remote|merge|rebase|description|pushremote|autosetuprebase|autosetupmerge"
        r"|sort|gh-merge-base"
        r"|vscode-merge-base|github-pr-owner-number)",
        r"(?!.*::)(?!-).*",
    ),
    (
        r"submodule\.(url|active|branch|ignore|path|fetchjobs|recurse|shallow|propagatebranches)",
        r"(?!.*::)(?!-).*",
    ),
    (
        r"submodule\.(update|fetchrecursesubmodules)",
        r"checkout|rebase|merge|none|true|false|on-demand",
    ),
    (
        r"(pack|fetch|push|pull|color|column|advice|rerere|status|index|feature|i18n"
        r"|maintenance|repack|commitgraph|checkout"
        r"|clone|stash|worktree|grep|tag|versionsort)\.[\w-]+|gc\.(?!recentobjectshook)[\w-]+"
        r"|init\.defaultbranch",
        r"(?!.*(/|!|`|\$\()).*",
    ),
    (
        r"merge\.(conflictstyle|ff|renames|renamelimit|directoryrenames|stat|autostash|log"
        r"|verbosity|defaulttoupstream)",
        ".*",
    ),
    (
        r"diff\.(algorithm|renames|renamelimit|mnemonicprefix|noprefix|context"
        r"|interhunkcontext|colormoved|colormovedws"
        r"|ignoresubmodules|submodule|statgraphwidth|indentheuristic|relative|wserrorhighlight)",
        ".*",
    ),
    (
        r"rebase\.(stat|autosquash|autostash|updaterefs|missingcommitscheck"
        r"|abbreviatecommands|backend)",
        ".*",
    ),
    (r"commit\.(cleanup|status|verbose)", ".*"),
    (r"log\.(date|decorate|follow|abbrevcommit|mailmap)", ".*"),
    (r"lfs\.repositoryformatversion", ".*"),
)
_SECTION = r'\[([A-Za-z0-9.-]+)(?:[ \t]+"((?:[^"\\\x00-\x1f]|\\["\\])*)")?\]'
_KEY = r"([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=[ \t]*(.*))?"
_PLAIN_VALUE = r'[^"\\#;\x00-\x08\x0b-\x1f\x7f]*|"[^"\\#;\x00-\x1f\x7f]*"'
_PLAIN_TARGET = r"(?! )[^\x00-\x1f\x7f]+(?<! )"
_EXEC = r"\s*(exec|x)\s"
_INCLUDES = r"include\.path|includeif\.path"


def parse_config(text: str) -> list[Setting]:
    """Parse a Git configuration; in settings from lines with unusual syntax, ``plain`` is false."""
    found: list[Setting] = []
    section = ""
    subsection = ""
    # `splitlines` would also split at form feeds and other characters that do not end a line in
    # Git, so a setting could hide behind such a character.
    for number, raw in enumerate(text.split("\n")):
        line = raw.strip(" \t\r")
        if not line or line[0] in "#;":
            continue
        if line[0] == "[" and (match := re.fullmatch(_SECTION, line)):
            # Git also accepts the deprecated form `[section.subsection]`.
            name, _, dotted = match[1].partition(".")
            section = name.lower()
            subsection = match[2] or dotted
            found.append(Setting("", subsection, section, number))
            continue
        match = re.fullmatch(_KEY, line)
        if match is None or not section:
            found.append(Setting("?", "", line, number, plain=False))
            continue
        # In Git, a key without `=` is true.
        value = "true" if match[2] is None else match[2].strip(" \t\r")
        plain = bool(re.fullmatch(_PLAIN_VALUE, value)) and "\r" not in raw[:-1]
        found.append(
            Setting(f"{section}.{match[1].lower()}", subsection, _unquote(value), number, plain)
        )
    return found


def _unquote(value: str) -> str:
    """Return a setting's value without quotes and comments, to find the files that it names."""
    if '"' not in value and "\\" not in value:
        return re.split(r"\s[#;]", value)[0].strip()
    return re.sub(r'\\(.)|"', lambda match: match[1] or "", value)


def is_harmless(setting: Setting) -> bool:
    """Return whether a setting does not execute anything."""
    if not setting.name:
        return True
    return setting.plain and any(
        _compiled(name).fullmatch(setting.name) and _compiled(value, re.I).fullmatch(setting.value)
        for name, value in SETTINGS
    )


# Most repositories need few of the patterns, and compiling all of them takes 8 ms.
_compiled = cache(re.compile)


def without(text: str, details: Iterable[str]) -> str:
    """Return a configuration without the settings in ``details`` (see ``Entry.detail``)."""
    unwanted = set(details)
    lines = text.split("\n")
    for setting in parse_config(text):
        if setting.name and describe(setting) in unwanted:
            lines[setting.line] = ""
    return "\n".join(line for line in lines if line) + "\n"


def describe(setting: Setting) -> str:
    """Return a setting formatted as one line."""
    inner = f".{setting.subsection}" if setting.subsection else ""
    section, _, key = setting.name.partition(".")
    return f"{section}{inner}.{key}={setting.value}"


def read(path: str, folder: int | None = None) -> str | None:
    """Return a metadata file's text, None if not readable, or `UNREADABLE` if too large.

    Args:
        path: The path of the file.
        folder: The open folder from which a relative path starts.
    """
    try:
        # A command may have left a named pipe here, and opening it must not wait for a writer
        # (O_NONBLOCK). Symbolic links are entries themselves and are not followed (O_NOFOLLOW).
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(path, flags, dir_fd=folder)
    except OSError:
        return None
    with open(fd, "rb") as file:
        try:
            data = file.read(MAX_BYTES + 1)
        except OSError:
            return None
    text = data.decode(errors="surrogateescape")
    return text if len(data) <= MAX_BYTES else UNREADABLE


def _read_unlinked(path: str) -> str | None:
    """Return what ``read`` returns, but `UNREADABLE` if a link leads to the file.

    A command may exchange a folder on the way for a link to a folder that is hidden from it, and what
    is read here is shown.

    Args:
        path: An absolute path without links.
    """
    if not hasattr(os, "O_PATH"):  # other systems than Linux do not tell where an open folder is
        return read(path)
    try:
        # To open a folder in this way needs no permission to list it, and neither does Git.
        descriptor = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if os.readlink(f"/proc/self/fd/{descriptor}") != os.path.dirname(path):
            return UNREADABLE
        return read(os.path.basename(path), descriptor)
    except OSError:
        return UNREADABLE
    finally:
        os.close(descriptor)


def resolve(folder: str, path: str, *, home: bool = False) -> str:
    """Return the path in a metadata file, with links followed; empty if it is invalid.

    Git ends a name at its first NUL byte, whereas Python rejects such a name. Callers treat an
    empty path as an entry.

    Args:
        folder: The base folder for a relative path.
        path: The path.
        home: Whether a leading `~` stands for a home folder.
    """
    try:
        return resolve_links(os.path.join(folder, os.path.expanduser(path) if home else path))
    except ValueError:
        return ""


def digest(path: str) -> str:
    """Return a digest of a file's contents, for comparison."""
    text = _read_unlinked(path)
    if text is None:
        try:
            return f"link to {os.readlink(path)}"
        except OSError:
            return "unreadable"
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


# --- one repository -------------------------------------------------------------------------------


def is_repository(names: Iterable[str]) -> bool:
    """Return whether a folder with the given names is a Git folder, such as a bare repository.

    If the folder has a file `commondir`, its objects, references and settings may be elsewhere.
    """
    found = set(names)
    return "HEAD" in found and ("commondir" in found or {"objects", "refs"} <= found)


def completed(path: str) -> str:
    """Return the Git folder that a file will belong to once written; empty if there is none.

    A folder with objects, references and settings also counts, because a `commondir` elsewhere may
    lead to it.

    Args:
        path: The file's absolute path; the file need not exist.
    """
    folder, name = os.path.split(path)
    while name:
        if name in _METADATA:
            found = {each for each in _PARTS if os.path.lexists(f"{folder}/{each}")}
            found.add(name)
            is_common = {"config", "objects", "refs"} <= found
            # Two parts of a Git folder are enough, because another tool or command may write the
            # third.
            if is_repository(found) or is_common or (found & HEADS and len(found & _PARTS) > 1):
                return folder
        folder, name = os.path.split(folder)
    return ""


def common_folder(folder: str) -> str:
    """Return the folder that contains a Git folder's shared settings; empty if none are shared."""
    target = (read(f"{folder}/commondir") or "").rstrip("\r\n")
    return resolve(folder, target) if target else ""


def gitlinks(folder: str) -> set[str]:
    """Return the nested repositories in the index of a Git folder, relative to its working tree.

    Git enters nested repositories whenever it compares the working tree with the index. The result
    may include paths that are not in the index, but it omits no nested repository.
    """
    found: set[str] = set()
    try:
        with os.scandir(folder) as entries:
            names = [
                entry.name
                for entry in entries
                if entry.name == "index" or entry.name.startswith("sharedindex.")
            ]
    except OSError:
        return found
    sizes = _list_hash_sizes(folder) if names else ()
    for name in names:
        with suppress(OSError):
            found |= find_nested_repositories(f"{folder}/{name}", sizes)
    return found


_FORMATS = {"sha1": 20, "sha256": 32}


def _list_hash_sizes(folder: str) -> tuple[int, ...]:
    """Return the sizes that the hashes in a repository's index may have, in bytes.

    Git reads the object format only from the repository's own settings, and takes SHA-1 without
    one. An index that is read with the other size seems to name repositories that it does not.
    """
    text = read(f"{common_folder(folder) or folder}/config")
    if text is None or text == UNREADABLE:
        return HASH_SIZES
    if "objectformat" not in text.casefold():
        return (_FORMATS["sha1"],)
    settings = parse_config(text)
    named = {each.value.lower() for each in settings if each.name == "extensions.objectformat"}
    is_plain = all(each.plain for each in settings if each.name in ("?", "extensions.objectformat"))
    if len(named) != 1 or not is_plain or not named <= _FORMATS.keys():
        return HASH_SIZES
    return (_FORMATS[named.pop()],)


def metadata_files(folder: str) -> Iterator[str]:
    """Yield the files that determine what Git executes, and the hooks folder.

    They need not exist.
    """
    for name in ("config", "config.worktree", "commondir", "hooks"):
        yield f"{folder}/{name}"
    for name in ("rebase-merge/git-rebase-todo", "rebase-apply/git-rebase-todo"):
        yield f"{folder}/{name}"


def inner_folders(folder: str, unlisted: list[str]) -> Iterator[str]:
    """Yield the Git folders of submodules and linked worktrees inside a Git folder.

    Args:
        folder: The Git folder.
        unlisted: Receives the folders that cannot be listed, including the hooks folder.
    """
    if not os.path.islink(f"{folder}/hooks"):
        _entries(f"{folder}/hooks", unlisted)
    yield from _entries(f"{folder}/worktrees", unlisted)
    waiting = list(_entries(f"{folder}/modules", unlisted))
    while waiting:
        inner = waiting.pop()
        if os.path.lexists(f"{inner}/HEAD"):
            yield inner
            yield from inner_folders(inner, unlisted)
        else:
            waiting += _entries(inner, unlisted)


def _entries(folder: str, unlisted: list[str]) -> list[str]:
    """Return a folder's subfolders, without links; on failure, add the folder to ``unlisted``.

    A folder that is a link has none: it may lead to the root of the file system.
    """
    if os.path.islink(folder):
        return []
    try:
        with os.scandir(folder) as found:
            return [entry.path for entry in found if entry.is_dir(follow_symlinks=False)]
    except PermissionError:
        unlisted.append(folder)
    except OSError:
        pass
    return []


def list_stamped(folder: str) -> tuple[str, ...]:
    """Return the paths whose stamps change whenever a Git folder may make Git run other programs.

    The list stays complete as long as none of the stamps changes.
    """
    fixed = (folder, f"{folder}/worktrees", f"{folder}/modules")
    # The change time (ctime) of a submodule's Git folder shows whether it is still a Git folder.
    inner = (path for path, _ in _inner_folders(folder))
    return tuple(dict.fromkeys(chain(metadata_files(folder), fixed, inner)))


def read_stamps(paths: Iterable[str]) -> tuple[tuple[int, ...], ...]:
    """Return the stamps of some paths (see ``list_stamped``)."""
    return tuple(map(_stamp, paths))


def _stamp(path: str) -> tuple[int, ...]:
    try:
        status = os.lstat(path)
    except OSError:
        return ()
    return status.st_ino, status.st_ctime_ns, status.st_size


def _written_folders(folder: str) -> Iterator[str]:
    """Yield the folders inside a Git folder in which Git writes files with predictable names.

    Objects, hooks and inner Git folders are skipped; inner Git folders are examined separately.
    """
    return (path for path, is_module in _inner_folders(folder) if not is_module)


def _inner_folders(folder: str) -> Iterator[tuple[str, bool]]:
    """Yield the folders of ``_written_folders``, and the Git folders of submodules next to them.

    Each comes with whether it is the Git folder of a submodule.
    """
    left_out = {f"{folder}/{name}" for name in (*_OBJECTS, "hooks")}
    waiting = deque([folder])
    for _ in range(MAX_GIT_FOLDERS):
        if not waiting:
            return
        path = waiting.popleft()
        if path != folder:
            yield path, False
        for inner in _entries(path, []):
            is_inside = f"{path}/".startswith(f"{folder}/modules/")
            if is_inside and os.path.lexists(f"{inner}/HEAD"):
                yield inner, True
            elif inner not in left_out and path != f"{folder}/worktrees":
                waiting.append(inner)


def _links_out(folder: str) -> Iterator[Entry]:
    """Yield the symbolic links in a Git folder that point outside it.

    Git writes through such links: the user's next commit could overwrite any file with its message,
    log or index.
    """
    inside = resolve_links(folder)
    for parent in (folder, *_written_folders(folder)):
        try:
            with os.scandir(parent) as found:
                links = [entry.path for entry in found if entry.is_symlink()]
        except OSError:
            continue
        # In these two folders, the model can choose the names of the files that Git writes. In
        # other folders, Git does not write to files that hilum made inert.
        is_chosen = f"{parent}/".startswith((f"{folder}/refs/", f"{folder}/logs/"))
        for path in links:
            if path.endswith(QUARANTINED) and not is_chosen:
                continue
            if not resolve_links(path).startswith(f"{inside}/"):
                yield Entry("link", path, os.readlink(path))


def entries(folder: str) -> Iterator[Entry]:
    """Yield the entries in a Git folder that make Git execute something.

    Git folders inside that folder are not examined.
    """
    # The settings and the hooks are examined separately, even if they are links.
    examined = {f"{folder}/{name}" for name in ("config", "config.worktree", "commondir", "hooks")}
    for link in _links_out(folder):
        if link.path not in examined:
            yield link
    for name in ("config", "config.worktree"):
        yield from _find_settings(f"{folder}/{name}", folder)
    yield from _find_pointer(folder)
    yield from _hooks(f"{folder}/hooks")
    for name in ("rebase-merge", "rebase-apply"):
        path = f"{folder}/{name}/git-rebase-todo"
        for line in (_read_unlinked(path) or "").split("\n"):
            if re.match(_EXEC, line) or line == UNREADABLE:
                yield Entry("todo", path, line.strip())


def _find_settings(path: str, folder: str) -> Iterator[Entry]:
    """Yield the settings in a file that may execute something."""
    if os.path.islink(path):
        yield Entry("link", path, os.readlink(path))
        return
    for setting in parse_config(_read_unlinked(path) or ""):
        if not (is_harmless(setting) or _is_own_worktree(setting, folder)):
            yield Entry("setting", path, describe(setting))


def _find_pointer(folder: str) -> Iterator[Entry]:
    """Yield the file `commondir`, unless it points from a linked worktree to its own repository."""
    path = f"{folder}/commondir"
    if not os.path.lexists(path):
        return
    target = (_read_unlinked(path) or "").rstrip("\r\n")
    above = os.path.dirname(folder)
    own = resolve_links(os.path.dirname(above))
    if os.path.basename(above) != "worktrees" or resolve(folder, target) != own:
        yield Entry("pointer", path, target or "unreadable")


def _is_own_worktree(setting: Setting, folder: str) -> bool:
    """Return whether a setting places a submodule's files in the repository that contains it.

    If the files were anywhere else, the user's next checkout could write outside the workspace.
    """
    root, modules, _ = folder.partition("/.git/modules/")
    target = resolve(folder, setting.value)
    return (
        setting.name == "core.worktree"
        and setting.plain
        and bool(modules)
        and target.startswith(f"{root}/")
    )


def _hooks(folder: str) -> Iterator[Entry]:
    if os.path.islink(folder):
        yield Entry("link", folder, os.readlink(folder))
        return
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        if not name.endswith((".sample", QUARANTINED)):
            path = f"{folder}/{name}"
            yield Entry("hook", path, digest(path))


class Pointer(NamedTuple):
    """What a ``.git`` file says.

    Attributes:
        target: The resolved path of the Git folder to which the file points; empty if unknown.
        is_unusual: Whether Git may find another Git folder: the syntax is unusual, or the file is
            too large, or a link leads to it.
        text: The whole text.
    """

    target: str
    is_unusual: bool
    text: str

    @property
    def detail(self) -> str:
        """The detail of the file's entry, from which ``make_pointer`` makes the file again."""
        if not self.is_unusual:
            return self.target
        if self.text != UNREADABLE and len(self.text) <= _MAX_KEPT_POINTER:
            return self.text
        return hashlib.sha256(self.text.encode(errors="surrogateescape")).hexdigest()


def read_pointer(path: str) -> Pointer:
    """Read a ``.git`` file that is in a working tree.

    Args:
        path: An absolute path without links.
    """
    return _parse_pointer(_read_unlinked(path) or "", path)


def _parse_pointer(text: str, path: str) -> Pointer:
    if text == UNREADABLE:
        return Pointer("", is_unusual=True, text=text)
    word, _, target = text.rstrip("\r\n").partition(" ")
    if word != "gitdir:" or not target:
        return Pointer("", is_unusual=False, text=text)
    is_plain = re.fullmatch(_PLAIN_TARGET, target) is not None
    resolved = resolve(os.path.dirname(path), target) if is_plain else ""
    return Pointer(resolved, is_unusual=not resolved, text=text)


def make_pointer(detail: str) -> str | None:
    """Return the text of a ``.git`` file from the detail of its entry; ``None`` if it is not known."""
    if detail.startswith("gitdir:"):
        return detail
    return f"gitdir: {detail}\n" if detail.startswith("/") else None


def pointed(path: str) -> str:
    """Return the resolved path of the Git folder that a `.git` file points to; empty if unknown."""
    return _parse_pointer(read(path) or "", path).target


# --- what a configuration names -------------------------------------------------------------------


def named_files(configs: Iterable[str], worktree: str) -> list[str]:
    """Return the resolved paths that Git executes or reads because of its settings.

    Hooks and included files are returned even if they do not exist. A command's words are returned
    only if they name existing files.

    Args:
        configs: Configuration files, including the user's own.
        worktree: The folder to which relative paths in commands refer.
    """
    found: dict[str, None] = {}
    waiting = list(configs)
    seen: set[str] = set()
    while waiting and len(seen) < MAX_FOLLOWED:
        config = resolve("/", waiting.pop())
        text = read(config) if config and config not in seen else None
        if text is None:
            continue
        seen.add(config)
        for setting in parse_config(text):
            if is_harmless(setting):
                continue
            paths = _find_setting_paths(setting, os.path.dirname(config), worktree)
            found |= dict.fromkeys(paths)
            if re.fullmatch(_INCLUDES, setting.name):
                waiting += paths
    return list(found)


def _find_setting_paths(setting: Setting, folder: str, worktree: str) -> list[str]:
    """Return the files and folders that a setting names."""
    if setting.name == "core.hookspath" or re.fullmatch(_INCLUDES, setting.name):
        base = worktree if setting.name == "core.hookspath" else folder
        path = resolve(base, setting.value, home=True)
        return [path] if path else []
    words = [word for word in _split_command(setting.value) if "/" in word]
    paths = [resolve(worktree, word, home=True) for word in words]
    return [path for path in paths if path and os.path.isfile(path)]


def _split_command(command: str) -> list[str]:
    try:
        return shlex.split(command.removeprefix("!"))
    except ValueError:
        return command.split()


def user_configs() -> list[str]:
    """Return the paths of the user's and the system's Git configurations; they need not exist."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    xdg = base if os.path.isabs(base) else os.path.expanduser("~/.config")
    own = os.environ.get("GIT_CONFIG_GLOBAL") or os.path.expanduser("~/.gitconfig")
    return ["/etc/gitconfig", f"{xdg}/git/config", own]
