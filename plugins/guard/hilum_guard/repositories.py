"""What Git executes because of a repository's metadata, and the pointers by which it finds that
metadata.

A program in the sandbox may make repositories, and may write most of the metadata of those that
exist. Git runs programs that this metadata names: at the user's next `git status`, outside of any
sandbox. So each thing that makes Git execute something is an ``Entry``, and entries that appear
while a command runs are made inert (see ``watching``).

Configuration is compared with a list of settings that execute nothing; every other setting is an
entry, also one that this list does not know. A line that is not written plainly is one, too: this
reader and Git's must not differ on what a file means.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from hilum_guard.names import QUARANTINED

Kind = Literal["setting", "hook", "pointer", "link", "todo", "name", "folder"]

MAX_BYTES = 1_048_576
"""Bytes of a metadata file that are read, as many as Git reads of a pointer.

A larger file counts as one entry.
"""
UNREADABLE = "(too large to be read)"
"""Stands for the text of a file that is larger: no setting, pointer or step of a rebase."""
MAX_FOLLOWED = 40
"""Files of configuration that are followed from one repository through `include.path`."""
MAX_GIT_FOLDERS = 20_000
"""Folders in one Git folder that are looked at for links, those near its root first."""
_GITLINK = b"\x00\x00\xe0\x00"  # mode 160000, of a nested repository, as the index writes it
_HASHES = (20, 32)  # bytes of SHA-1 and SHA-256
_EXTENDED = 0x40  # in the first byte of an entry's flags: there are two bytes more
HEADS = frozenset({"HEAD", "commondir", "config.worktree"})
"""Files without which a Git folder is none, or has no configuration of its own.

Other files are hardly called so.
"""
_PARTS = HEADS | {"objects", "refs", "config", "hooks"}
# What Git reads in a Git folder. Other names in it are of its working trees, where they are kept in
# there.
_METADATA = frozenset(
    """HEAD config config.worktree commondir gitdir hooks objects refs packed-refs info logs modules worktrees index shallow
    branches rebase-merge rebase-apply sequencer rr-cache bisect lfs annex description ORIG_HEAD FETCH_HEAD MERGE_HEAD
    COMMIT_EDITMSG MERGE_MSG reftable""".split()
)
# Folders of a Git folder without links that Git writes through: objects are written under another
# name and renamed.
_OBJECTS = ("objects", "lfs/objects", "annex/objects")


class Entry(NamedTuple):
    """A thing that makes Git, or a program that follows names, execute something.

    Attributes:
        kind: ``setting`` (of a configuration), ``hook``, ``pointer`` (a file that leads to
            metadata), ``link`` (a symbolic link in the place of one), ``todo`` (a step of a
            rebase), ``name`` (a file or folder of ``executed.TABLE``), ``folder`` (one that cannot
            be listed, so that nobody knows what is in it).
        path: The file.
        detail: What is executed, or a digest of what would be.
    """

    kind: Kind
    path: str
    detail: str


class Setting(NamedTuple):
    """A setting of a configuration file.

    ``name`` is ``section.key`` in lower case, ``line`` where it is written.
    """

    name: str
    subsection: str
    value: str
    line: int
    plain: bool = True


# Settings that execute nothing. A pattern in the second column restricts the value.
SETTINGS: tuple[tuple[str, str], ...] = (
    (
        r"core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol"
        r"|safecrlf|quotepath|abbrev|sharedrepository|sparsecheckout|sparsecheckoutcone|longpaths|untrackedcache|compression"
        r"|loosecompression|commentchar|preloadindex|splitindex|fscache|hidedotfiles|protectntfs|protecthfs|trustctime|checkstat"
        r"|bigfilethreshold|whitespace|packedgitlimit|packedgitwindowsize|deltabasecachelimit|multipackindex|commitgraph)",
        ".*",
    ),
    (r"core\.fsmonitor", r"true|false|yes|no|on|off|0|1|"),
    (r"extensions\.\w+", ".*"),
    (r"user\.(name|email|signingkey|useconfigonly)", ".*"),
    (r"(author|committer)\.(name|email)", ".*"),
    (
        r"remote\.(url|pushurl|fetch|push|tagopt|mirror|prune|prunetags|promisor|partialclonefilter|skipdefaultupdate"
        r"|skipfetchall|gh-resolved|followremotehead)",
        r"(?!.*::)(?!-).*|[+^]?refs/.*",
    ),
    (
        r"branch\.(remote|merge|rebase|description|pushremote|autosetuprebase|autosetupmerge|sort|gh-merge-base"
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
        r"(pack|fetch|push|pull|color|column|advice|rerere|status|index|feature|i18n|maintenance|repack|commitgraph|checkout"
        r"|clone|stash|worktree|grep|tag|versionsort)\.[\w-]+|gc\.(?!recentobjectshook)[\w-]+|init\.defaultbranch",
        r"(?!.*(/|!|`|\$\()).*",
    ),
    (
        r"merge\.(conflictstyle|ff|renames|renamelimit|directoryrenames|stat|autostash|log|verbosity|defaulttoupstream)",
        ".*",
    ),
    (
        r"diff\.(algorithm|renames|renamelimit|mnemonicprefix|noprefix|context|interhunkcontext|colormoved|colormovedws"
        r"|ignoresubmodules|submodule|statgraphwidth|indentheuristic|relative|wserrorhighlight)",
        ".*",
    ),
    (
        r"rebase\.(stat|autosquash|autostash|updaterefs|missingcommitscheck|abbreviatecommands|backend)",
        ".*",
    ),
    (r"commit\.(cleanup|status|verbose)", ".*"),
    (r"log\.(date|decorate|follow|abbrevcommit|mailmap)", ".*"),
    (r"lfs\.repositoryformatversion", ".*"),
)
_HARMLESS = tuple((re.compile(name), re.compile(value, re.I)) for name, value in SETTINGS)
_SECTION = re.compile(r'\[([A-Za-z0-9.-]+)(?:[ \t]+"((?:[^"\\\x00-\x1f]|\\["\\])*)")?\]')
_KEY = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=[ \t]*(.*))?")
_PLAIN_VALUE = re.compile(r'[^"\\#;\x00-\x08\x0b-\x1f\x7f]*|"[^"\\#;\x00-\x1f\x7f]*"')
_PLAIN_TARGET = re.compile(r"(?! )[^\x00-\x1f\x7f]+(?<! )")
_EXEC = re.compile(r"\s*(exec|x)\s")
# Settings whose values name files that Git then executes, or reads further settings from.
_PATHS = re.compile(r"core\.hookspath|include\.path|includeif\.path")


def parse_config(text: str) -> list[Setting]:
    """Parse a Git configuration. A line that is not plain becomes a setting that is marked so."""
    found: list[Setting] = []
    section = ""
    subsection = ""
    for number, raw in enumerate(text.split("\n")):
        line = raw.strip(" \t\r")
        if not line or line[0] in "#;":
            continue
        if line[0] == "[" and (match := _SECTION.fullmatch(line)):
            name, _, dotted = match[1].partition(".")
            section = name.lower()
            subsection = match[2] or dotted
            found.append(Setting("", subsection, section, number))
            continue
        match = _KEY.fullmatch(line)
        if match is None or not section:
            found.append(Setting("?", "", line, number, plain=False))
            continue
        value = "true" if match[2] is None else match[2].strip(" \t\r")
        plain = bool(_PLAIN_VALUE.fullmatch(value)) and "\r" not in raw[:-1]
        found.append(
            Setting(f"{section}.{match[1].lower()}", subsection, _unquote(value), number, plain)
        )
    return found


def _unquote(value: str) -> str:
    """Return what a value means, as far as that is needed to find the files that it names."""
    if '"' not in value and "\\" not in value:
        return re.split(r"\s[#;]", value)[0].strip()
    return re.sub(r'\\(.)|"', lambda match: match[1] or "", value)


def is_harmless(setting: Setting) -> bool:
    """Return whether a setting executes nothing, whatever it is set to."""
    if not setting.name:
        return True
    return setting.plain and any(
        name.fullmatch(setting.name) and value.fullmatch(setting.value) for name, value in _HARMLESS
    )


def without(text: str, details: Iterable[str]) -> str:
    """Return a configuration without some settings, named as ``Entry.detail`` names them."""
    unwanted = set(details)
    lines = text.split("\n")
    for setting in parse_config(text):
        if setting.name and describe(setting) in unwanted:
            lines[setting.line] = ""
    return "\n".join(line for line in lines if line) + "\n"


def describe(setting: Setting) -> str:
    """Return a setting on one line."""
    inner = f".{setting.subsection}" if setting.subsection else ""
    section, _, key = setting.name.partition(".")
    return f"{section}{inner}.{key}={setting.value}"


def read(path: str) -> str | None:
    """Read a metadata file.

    Returns None where there is no readable one; a text that is no setting where it is too large.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(fd, "rb") as file:
        try:
            data = file.read(MAX_BYTES + 1)
        except OSError:
            return None
    text = data.decode(errors="surrogateescape")
    return text if len(data) <= MAX_BYTES else UNREADABLE


def resolve(folder: str, path: str, *, home: bool = False) -> str:
    """Return where a path in a metadata file leads, links followed; empty where it is no path.

    Git ends a name at its first NUL byte, and Python refuses such a name: whoever gets an empty
    path has an entry.

    Args:
        folder: The folder that a relative path is relative to.
        path: The path.
        home: Whether `~` stands for a home folder.
    """
    try:
        return os.path.realpath(os.path.join(folder, os.path.expanduser(path) if home else path))
    except ValueError:
        return ""


def digest(path: str) -> str:
    """Return a digest of a file's content and of whether it may be executed, for comparison."""
    text = read(path)
    if text is None:
        try:
            return f"link to {os.readlink(path)}"
        except OSError:
            return "unreadable"
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


# --- one repository -------------------------------------------------------------------------------


def is_repository(names: Iterable[str]) -> bool:
    """Return whether a folder with these names in it is a Git folder, of a bare repository for
    example.

    With a file `commondir` objects, references and configuration may be in another folder.
    """
    found = set(names)
    return "HEAD" in found and ("commondir" in found or {"objects", "refs"} <= found)


def completed(path: str) -> str:
    """Return the Git folder that a file would be part of once it is written.

    Empty where it would be in none.

    A folder with objects, references and configuration counts too: a `commondir` elsewhere may lead
    to it.

    Args:
        path: The file, absolute, existing or not.
    """
    folder, name = os.path.split(path)
    while name:
        if name in _METADATA:
            found = {each for each in _PARTS if os.path.lexists(f"{folder}/{each}")} | {name}
            is_common = {"config", "objects", "refs"} <= found
            # The first of the other parts is asked for as well: which tool or command writes the
            # last one, nobody knows.
            if is_repository(found) or is_common or (found & HEADS and len(found & _PARTS) > 1):
                return folder
        folder, name = os.path.split(folder)
    return ""


def common_folder(folder: str) -> str:
    """Return the folder that has the configuration of a Git folder in two parts, resolved.

    Empty where it is in one.
    """
    target = (read(f"{folder}/commondir") or "").rstrip("\r\n")
    return resolve(folder, target) if target else ""


def gitlinks(folder: str) -> set[str]:
    """Return the paths of the nested repositories in the index of a Git folder, relative to its
    working tree.

    Git enters them whenever it compares the working tree. The set may have paths that are in no
    index; none is left out.
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
    for name in names:
        try:
            fd = os.open(f"{folder}/{name}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(fd, "rb") as file:
                data = file.read()
        except OSError:
            continue
        if _GITLINK in data:
            raw = _prefixed_paths(data) if data[4:8] == b"\0\0\0\4" else _plain_paths(data)
            found.update(os.fsdecode(path) for path in raw)
    return found


def _plain_paths(data: bytes) -> Iterator[bytes]:
    """Yield the paths of nested repositories in an index of version 2 or 3.

    After the mode an entry has 12 bytes, the hash, 2 or 4 bytes of flags, and the path with a NUL
    byte at its end. What the hash is does not stand in the index, so paths are taken for each.
    """
    start = data.find(_GITLINK)
    while start >= 0:
        for size in _HASHES:
            flags = start + 16 + size
            if flags + 2 > len(data):
                continue
            path = flags + (4 if data[flags] & _EXTENDED else 2)
            end = data.find(b"\0", path)
            if end > path:
                yield data[path:end]
        start = data.find(_GITLINK, start + 1)


def _prefixed_paths(data: bytes) -> Iterator[bytes]:
    """Yield the paths of nested repositories in an index of version 4, where a path says only how
    it differs from the last.
    """
    for size in _HASHES:
        last = b""
        at = 12
        try:
            for _ in range(int.from_bytes(data[8:12])):
                mode = data[at + 24 : at + 28]
                flags = at + 40 + size
                at = flags + (4 if data[flags] & _EXTENDED else 2)
                dropped, at = _read_number(data, at)
                end = data.index(b"\0", at)
                if dropped > len(last):
                    break
                last = last[: len(last) - dropped] + data[at:end]
                at = end + 1
                if mode == _GITLINK:
                    yield last
        except (IndexError, ValueError):  # it is an index with hashes of the other size
            continue


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    """Read a number of variable length, as Git writes offsets. Returns it and where it ends."""
    byte = data[at]
    number = byte & 127
    while byte & 128:
        at += 1
        byte = data[at]
        number = ((number + 1) << 7) | (byte & 127)
    return number, at + 1


def metadata_files(folder: str) -> Iterator[str]:
    """Yield the files of a Git folder from which Git takes what it executes, and the folder of
    hooks, existing or not.
    """
    for name in ("config", "config.worktree", "commondir", "hooks"):
        yield f"{folder}/{name}"
    for name in ("rebase-merge/git-rebase-todo", "rebase-apply/git-rebase-todo"):
        yield f"{folder}/{name}"


def inner_folders(folder: str, unlisted: list[str]) -> Iterator[str]:
    """Yield the Git folders inside of a Git folder: those of its submodules, and of its linked
    worktrees.

    Args:
        folder: The Git folder.
        unlisted: Gets the folders that cannot be listed, the folder of hooks among them.
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
    """Return the folders in a folder, links left out.

    Add the folder to ``unlisted`` where it cannot be listed.
    """
    try:
        with os.scandir(folder) as found:
            return [entry.path for entry in found if entry.is_dir(follow_symlinks=False)]
    except PermissionError:
        unlisted.append(folder)
    except OSError:
        pass
    return []


def stamp(folder: str) -> tuple[object, ...]:
    """Return what changes when what Git executes because of a Git folder may have changed."""
    files = [
        *metadata_files(folder),
        folder,
        *(f"{folder}/{name}" for name in ("worktrees", "modules")),
    ]
    return (*(_stamp(path) for path in files), *(_stamp(path) for path in _written_folders(folder)))


def _stamp(path: str) -> tuple[int, ...]:
    try:
        status = os.lstat(path)
    except OSError:
        return ()
    return status.st_ino, status.st_ctime_ns, status.st_size


def _written_folders(folder: str) -> Iterator[str]:
    """Yield the folders in a Git folder, at any depth, in which Git writes files by names that can
    be foreseen.

    Left out are objects, the hooks, and the Git folders inside of it, which are looked at for
    themselves.
    """
    left_out = {f"{folder}/{name}" for name in (*_OBJECTS, "hooks")}
    waiting = deque([folder])
    for _ in range(MAX_GIT_FOLDERS):
        if not waiting:
            return
        path = waiting.popleft()
        if path != folder:
            yield path
        for inner in _entries(path, []):
            is_module = f"{path}/".startswith(f"{folder}/modules/") and os.path.lexists(
                f"{inner}/HEAD"
            )
            if inner not in left_out and not is_module and path != f"{folder}/worktrees":
                waiting.append(inner)


def _links_out(folder: str) -> Iterator[Entry]:
    """Yield the symbolic links in a Git folder that lead out of it.

    Git writes through them: the user's next commit would write its message, its log or its index to
    a file anywhere.
    """
    inside = os.path.realpath(folder)
    for parent in (folder, *_written_folders(folder)):
        try:
            with os.scandir(parent) as found:
                links = [entry.path for entry in found if entry.is_symlink()]
        except OSError:
            continue
        # In these two the model may choose names that Git writes to; elsewhere Git writes to none
        # that was made inert.
        is_chosen = f"{parent}/".startswith((f"{folder}/refs/", f"{folder}/logs/"))
        for path in links:
            if path.endswith(QUARANTINED) and not is_chosen:
                continue
            if not os.path.realpath(path).startswith(f"{inside}/"):
                yield Entry("link", path, os.readlink(path))


def entries(folder: str) -> Iterator[Entry]:
    """Yield what makes Git execute something because of a Git folder.

    Those in it are not looked at.
    """
    # The configuration and the hooks are looked at below, whatever a link in their place leads to.
    looked_at = {f"{folder}/{name}" for name in ("config", "config.worktree", "commondir", "hooks")}
    for link in _links_out(folder):
        if link.path not in looked_at:
            yield link
    for name in ("config", "config.worktree"):
        path = f"{folder}/{name}"
        if os.path.islink(path):
            yield Entry("link", path, os.readlink(path))
        elif (text := read(path)) is not None:
            for setting in parse_config(text):
                if not (is_harmless(setting) or _is_own_worktree(setting, folder)):
                    yield Entry("setting", path, describe(setting))
    commondir = f"{folder}/commondir"
    if os.path.lexists(commondir):
        target = (read(commondir) or "").rstrip("\r\n")
        is_worktree = os.path.basename(os.path.dirname(folder)) == "worktrees"
        own = os.path.realpath(os.path.dirname(os.path.dirname(folder)))
        if not (is_worktree and resolve(folder, target) == own):
            yield Entry("pointer", commondir, target or "unreadable")
    yield from _hooks(f"{folder}/hooks")
    for name in ("rebase-merge", "rebase-apply"):
        path = f"{folder}/{name}/git-rebase-todo"
        for line in (read(path) or "").split("\n"):
            if _EXEC.match(line) or line == UNREADABLE:
                yield Entry("todo", path, line.strip())


def _is_own_worktree(setting: Setting, folder: str) -> bool:
    """Return whether a setting says where the files of a submodule are, and they are in the
    repository that has the submodule.

    Anywhere else it would have the user's next checkout write to files outside of the workspace.
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
            yield Entry("hook", f"{folder}/{name}", digest(f"{folder}/{name}"))


def pointed(path: str) -> str:
    """Return the Git folder that a file `.git` points to, resolved.

    Empty where it points to none, or cannot be told.
    """
    word, _, target = (read(path) or "").rstrip("\r\n").partition(" ")
    if word != "gitdir:" or not _PLAIN_TARGET.fullmatch(target):
        return ""
    return resolve(os.path.dirname(path), target)


def is_untold(path: str) -> bool:
    """Return whether a file `.git` may point to a Git folder that ``pointed`` does not find: it is
    not plain, or too large.
    """
    text = (read(path) or "").rstrip("\r\n")
    if text == UNREADABLE:
        return True
    word, _, target = text.partition(" ")
    return (
        word == "gitdir:"
        and bool(target)
        and not (_PLAIN_TARGET.fullmatch(target) and pointed(path))
    )


# --- what a configuration names -------------------------------------------------------------------


def named_files(configs: Iterable[str], worktree: str) -> list[str]:
    """Return the files and folders that configurations have Git execute, or read further settings
    from: absolute, resolved.

    Hooks and included files are returned whether they exist or not, other paths only where they
    exist: words of a command are names of files only then.

    Args:
        configs: Files of configuration, the user's own among them.
        worktree: The folder that relative paths in commands are relative to.
    """
    found: dict[str, None] = {}
    waiting = list(configs)
    seen: set[str] = set()
    while waiting and len(seen) < MAX_FOLLOWED:
        config = resolve("/", waiting.pop())
        if not config or config in seen or (text := read(config)) is None:
            continue
        seen.add(config)
        for setting in parse_config(text):
            if is_harmless(setting):
                continue
            if _PATHS.fullmatch(setting.name):
                base = worktree if setting.name == "core.hookspath" else os.path.dirname(config)
                path = resolve(base, setting.value, home=True)
                if not path:
                    continue
                found[path] = None
                if setting.name != "core.hookspath":
                    waiting.append(path)
                continue
            for word in _words(setting.value):
                path = resolve(worktree, word, home=True)
                if "/" in word and path and os.path.isfile(path):
                    found[path] = None
    return list(found)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command.removeprefix("!"))
    except ValueError:
        return command.split()


def user_configs() -> list[str]:
    """Return the configuration files of the user and the system that Git reads, existing or not."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    xdg = base if os.path.isabs(base) else os.path.expanduser("~/.config")
    own = os.environ.get("GIT_CONFIG_GLOBAL") or os.path.expanduser("~/.gitconfig")
    return ["/etc/gitconfig", f"{xdg}/git/config", own]
