"""Check a command's paths: system folders, home folders, the workspace, secrets and devices."""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from itertools import chain, islice

import attrs

from hilum_guard.commands.shell_words import UNKNOWN, Word
from hilum_guard.file_names import folded, resolve_links
from hilum_guard.repositories import git_metadata
from hilum_guard.secrets.secret_names import NOT_SECRET, SECRET_NAMES, matches, original_names
from hilum_guard.secrets.secret_paths import SKIPPED
from hilum_guard.watching import executed_files

# Folders whose loss would destroy the system or its users' work.
SYSTEM = frozenset(
    """/ /applications /bin /boot /dev /etc /home /lib /lib32 /lib64 /library /media /mnt
    /mnt/c /mnt/c/users /mnt/c/windows /opt /private /private/etc /private/var /proc
    /root /run /sbin /srv /sys /system /users /usr /usr/bin /usr/include /usr/lib
    /usr/lib32 /usr/lib64 /usr/libexec /usr/local /usr/local/bin /usr/local/lib
    /usr/sbin /usr/share /var /var/lib /var/log /var/spool /volumes""".split()
)
# Folders in which writing or deleting a single file may cause damage.
GUARDED = tuple(
    "/bin /boot /etc /lib /lib32 /lib64 /private/etc /proc /sbin /sys /system /usr/bin /usr/lib"
    " /usr/lib64 /usr/sbin /var/spool/cron".split()
)
SAFE_DEVICES = (
    r"/dev/(null|zero|full|random|urandom|stdin|stdout|stderr|tty|ptmx|fd|shm|mqueue|pts)(/.*)?"
    r"|/dev"
)
# Folders with programs, libraries and system settings, but none of the user's own data.
READABLE = ("/usr", "/opt", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/private/etc")
READABLE_FILES = frozenset(
    "/dev/null /proc/cpuinfo /proc/meminfo /proc/version /proc/loadavg /proc/uptime".split()
)
# Files that other programs execute, and instructions for agents: writing to one changes what runs
# later, or what needs approval.
GOVERNING = (*executed_files.PATTERNS, "agents.md", "claude.md", ".env", ".env.*", ".gitattributes")
_KEY_FOLDERS = frozenset({".ssh", ".gnupg", ".aws", ".kube", ".password-store"})
# Names so different that a pattern that matches all of them matches every name.
_WIDE = (("qxvzk", "Wjq.7u", "build"), (".qxvzk", ".Wjq.7u", ".git"))
_OWN_FOLDERS = frozenset({".ssh", ".gnupg", ".aws", ".config", ".local"})
_STREAMS = ("/dev/stdout", "/dev/stderr")
MAX_GLOB = 200
"""Maximum number of paths that a pattern may match."""
MAX_BELOW = 20_000
"""Maximum number of names below a folder to search for secrets."""


def within(path: str, folder: str) -> bool:
    """Return whether a path is the given folder or inside it, comparing whole components."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def is_secret(path: str) -> bool:
    """Return whether any component of a path is named like a secret."""
    names = chain.from_iterable(map(original_names, filter(None, path.split("/"))))
    return any(
        matches(name, SECRET_NAMES) and not re.fullmatch(NOT_SECRET, folded(name)) for name in names
    )


def matches_any_name(pattern: str) -> bool:
    """Return whether a name pattern matches every name."""
    return any(all(fnmatch.fnmatchcase(name, pattern) for name in names) for names in _WIDE)


@attrs.frozen
class PathChecker:
    """A checker of paths for one workspace and home folder.

    Attributes:
        workspace: Root of the workspace, resolved.
        home: The user's home, resolved.
        mounts: For a container, pairs of a folder in the container and the folder on this machine
            that is mounted there.
        contained: Whether the command runs in a container.
        remote: Whether the command runs on another machine.
        extra_roots: Further folders of the workspace, resolved.
    """

    workspace: str
    home: str
    mounts: tuple[tuple[str, str], ...] = ()
    contained: bool = False
    remote: bool = False
    extra_roots: tuple[str, ...] = ()

    @property
    def elsewhere(self) -> bool:
        """Whether the command's programs and files are not those of this machine."""
        return self.contained or self.remote

    def find_root(self, path: str) -> str:
        """Return the root of the workspace that contains a path; empty if it is outside."""
        roots = (self.workspace, *self.extra_roots)
        return next((root for root in roots if within(path, root)), "")

    def absolute(self, path: str, cwd: str | None) -> str | None:
        """Return the absolute form of a path without reading the disk, or None if it is unknown."""
        if UNKNOWN in path or (cwd is None and not path.startswith("/")):
            return None
        joined = os.path.normpath(os.path.join(cwd or "/", path))
        # `normpath` keeps two leading slashes, because POSIX lets a system give them another
        # meaning.
        joined = "/" + joined.lstrip("/")
        if not self.contained:
            return joined
        for inside, outside in self.mounts:
            if within(joined, inside):
                below = joined.removeprefix(inside.rstrip("/"))
                return os.path.normpath(f"{outside}/{below}")
            if joined == "/" or within(inside, joined):
                return outside
        return None

    # --- losses -----------------------------------------------------------------------------------

    def ruin(self, word: Word, cwd: str | None) -> str:
        """Return what deleting a path with everything in it would destroy; empty if nothing."""
        path = self.absolute(word.value, cwd)
        if path is None:
            return ""
        contents = False
        while word.glob and path != "/" and matches_any_name(os.path.basename(path)):
            path = os.path.dirname(path)
            contents = True
        shown = path
        if contents:
            shown += "*" if path == "/" else "/*"
        candidates = {path}
        if not word.glob:
            candidates.add(_resolve_target(path, word.value))
        for each in sorted(candidates):
            why = self._loss(each, word.glob, shown)
            if why:
                return why
        return ""

    def _loss(self, path: str, glob: bool, shown: str) -> str:
        """Return a description of a path that must not be lost; empty for any other path."""
        low = folded(path)
        if _is_system_folder(low, glob):
            return f"the system folder {shown}"
        # The home folder is checked first: the workspace is usually below it, and "above the
        # workspace" would be less precise.
        is_home = within(self.home, path) or re.fullmatch(r"/(home|users)/[^/]+", low)
        if is_home and path != self.workspace:
            return f"a home folder ({shown})"
        is_above = any(within(root, path) for root in (self.workspace, *self.extra_roots))
        if is_above or (glob and self._fits_above(path)):
            return f"the workspace or a folder above it ({shown})"
        name = os.path.basename(low)
        if name == ".git":
            return f"the history in {shown}"
        if name in _OWN_FOLDERS and within(low, folded(self.home)):
            return f"the user's own {shown}"
        return self.guarded(path)

    def _fits_above(self, pattern: str) -> bool:
        """Return whether a pattern matches the workspace, the home folder or a folder above."""
        wanted = pattern.split("/")
        for top in (self.workspace, *self.extra_roots, self.home):
            parts = top.split("/")[: len(wanted)]
            if len(parts) == len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted)):
                return True
        return False

    def guarded(self, path: str) -> str:
        """Return the system folder that contains a path, if single files in the folder matter."""
        if self.find_root(path):
            return ""
        low = folded(path)
        for folder in GUARDED:
            if within(low, folder):
                return f"the system folder {folder}"
        return ""

    def own_keys(self, path: str) -> str:
        """Return a description of the user's keys or logins at a path; empty for any other path."""
        low = folded(path)
        if not within(low, folded(self.home)):
            return ""
        inner = low[len(self.home) :].split("/")
        if len(inner) > 2 and inner[1] in _KEY_FOLDERS:
            return f"the user's own keys ({path})"
        return ""

    def device(self, path: str) -> str:
        """Return a description of the device at a path, unless commands routinely write to it."""
        low = folded(path)
        if within(low, "/dev") and not re.fullmatch(SAFE_DEVICES, low):
            return f"the device {path}"
        return ""

    def overwritten(self, word: Word, cwd: str | None) -> str:
        """Return what writing to a file would damage; empty if nothing."""
        path = self.absolute(word.value, cwd)
        if path is None:
            return ""
        # In the shell that runs the command, the path refers to a different file than in this
        # process.
        if re.fullmatch(r"/dev/(fd/\d+|std(in|out|err))", path):
            return ""
        real = path if self.contained else resolve_links(path)
        for each in (path, real):
            why = self.device(each) or self.guarded(each)
            if why:
                return why
            *folders, name = folded(each).split("/")
            if ".ssh" in folders and re.match(r"authorized_keys|id_|rc$", name):
                return f"the keys in {path}"
        return ""

    # --- doubts -----------------------------------------------------------------------------------

    def write_doubt(self, word: Word, cwds: list[str | None]) -> tuple[str, str]:
        """Return why writing to a file is not harmless (empty if it is), and the file's path."""
        if not word.plain or word.glob:
            return "It writes to a file that is known only at run time.", ""
        target = ""
        for cwd in cwds:
            path = self.absolute(word.value, cwd)
            if path is None:
                return "It writes to a file in a folder that is known only at run time.", ""
            target = resolve_links(path)
            if os.path.islink(target):
                return f"It writes to {path}, through a link that cannot be read.", ""
            if target in ("/dev/null", *_STREAMS) or path in _STREAMS:
                return "", ""
            doubt = self._doubt_target(target)
            if doubt:
                return doubt, target
        return "", target

    def _doubt_target(self, target: str) -> str:
        """Return why writing to a resolved path is not harmless; empty if it is."""
        root = self.find_root(target)
        if not root or target == root:
            return f"It writes outside the workspace ({target})."
        inner = target[len(root) :].split("/")
        if any(matches(part, GOVERNING) for part in filter(None, inner)):
            return f"It writes {target}, which governs what runs."
        # A command may write several parts of a Git folder, none of which exist when the command is
        # judged.
        if inner[-1] in git_metadata.HEADS or git_metadata.completed(target):
            return f"It writes {target}, which git may take commands from."
        return ""

    def read_doubt(self, word: Word, cwds: list[str | None], *, deep: bool = False) -> str:
        """Return why reading a path is not harmless; empty if it is.

        Args:
            word: The path.
            cwds: Folders that the path may be relative to.
            deep: Whether everything below the path is also read. If true, the names below it are
                checked.
        """
        if not word.plain:
            return "It reads a file that is known only at run time."
        for cwd in cwds:
            if self.absolute(word.value, cwd) is None:
                return "It reads a file in a folder that is known only at run time."
            # The path is not normalised: after a link, `..` is the folder above the link's target.
            paths = [os.path.join(cwd or "/", word.value)]
            if word.glob:
                paths = self._globbed(word, cwd)
            for path in paths:
                if os.path.basename(path).startswith("-") or path == "":
                    return f"Its pattern {word.value} could match an option."
                doubt = self._read_doubt(path, deep)
                if doubt:
                    return doubt
        return ""

    def _globbed(self, word: Word, cwd: str | None) -> list[str]:
        """Return the paths that match a pattern; an empty path means that the pattern is unsafe."""
        value = word.value
        # Such a pattern may match paths outside the folder, or the shell may expand it differently
        # from Python.
        if value.startswith(("-", "/", "~")) or re.search(r"\[|\.\.|\*\*", value):
            return [""]
        found = glob.iglob(os.path.join(glob.escape(cwd or "/"), value))
        paths = list(islice(found, MAX_GLOB))
        return [""] if len(paths) == MAX_GLOB else paths

    def _read_doubt(self, path: str, deep: bool) -> str:
        """Return why reading a path is not harmless; empty if it is."""
        real = resolve_links(path)
        if os.path.islink(real):
            return f"It reads {path}, through a link that cannot be read."
        names = map(self._inner, (real, os.path.normpath(path)))
        if any(map(is_secret, names)):
            return f"It reads {path}, which may contain secrets."
        if self.find_root(real):
            return self._deep_doubt(real) if deep else ""
        if real in READABLE_FILES or any(within(real, each) for each in READABLE):
            if deep and real == "/etc":
                return f"It reads all of {real}."
            return ""
        return f"It reads outside the workspace ({real})."

    def _inner(self, path: str) -> str:
        """Return a path without the workspace's own name, which does not indicate a secret."""
        return path[len(self.find_root(path)) :]

    def _deep_doubt(self, folder: str) -> str:
        """Return why reading everything below a folder is not harmless; empty if it is."""
        waiting = [folder]
        seen = 0
        while waiting:
            try:
                with os.scandir(waiting.pop()) as found:
                    entries = [(entry, entry.is_dir(follow_symlinks=False)) for entry in found]
            except OSError:
                continue
            for entry, is_folder in entries:
                if is_secret(entry.name):
                    return f"It reads all of {folder}: {entry.name} may contain secrets."
                if is_folder and entry.name not in SKIPPED:
                    waiting.append(entry.path)
            seen += len(entries)
            if seen > MAX_BELOW:
                return f"It reads all of {folder}, which is too large to search for secrets."
        return ""


def _resolve_target(path: str, given: str) -> str:
    """Return the path to be deleted: for a link, the link itself unless a slash follows."""
    if given.endswith(("/", "/.")):
        return resolve_links(path)
    return os.path.join(resolve_links(os.path.dirname(path)), os.path.basename(path))


def _is_system_folder(low: str, glob: bool) -> bool:
    """Return whether a path or pattern matches a system folder."""
    if not glob:
        return low in SYSTEM
    depth = low.count("/")
    as_deep = [folder for folder in SYSTEM if folder.count("/") == depth]
    return any(fnmatch.fnmatchcase(folder, low) for folder in as_deep)
