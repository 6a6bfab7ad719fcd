"""What a path of a command means: a system folder, a home, the workspace, a secret, a device."""

from __future__ import annotations

import fnmatch
import os
import re
from functools import cache
from itertools import islice

import attrs

from hilum_guard import executed, repositories
from hilum_guard.names import folded
from hilum_guard.secret_names import original_names
from hilum_guard.secret_paths import SKIPPED
from hilum_guard.words import UNKNOWN, Word

# Folders whose loss is the loss of the machine or of its users' work.
SYSTEM = frozenset(
    """/ /applications /bin /boot /dev /etc /home /lib /lib32 /lib64 /library /media /mnt /mnt/c /mnt/c/users
    /mnt/c/windows /opt /private /private/etc /private/var /proc /root /run /sbin /srv /sys /system /users /usr /usr/bin
    /usr/include /usr/lib /usr/lib32 /usr/lib64 /usr/libexec /usr/local /usr/local/bin /usr/local/lib /usr/sbin /usr/share
    /var /var/lib /var/log /var/spool /volumes""".split()
)
# Folders in which a single file written or deleted may be enough.
GUARDED = tuple(
    "/bin /boot /etc /lib /lib32 /lib64 /private/etc /proc /sbin /sys /system /usr/bin /usr/lib"
    " /usr/lib64 /usr/sbin /var/spool/cron".split()
)
SAFE_DEVICES = re.compile(
    r"/dev/(null|zero|full|random|urandom|stdin|stdout|stderr|tty|ptmx|fd|shm|mqueue|pts)(/.*)?|/dev"
)
READABLE = ("/usr", "/opt", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/private/etc")
READABLE_FILES = frozenset(
    "/dev/null /proc/cpuinfo /proc/meminfo /proc/version /proc/loadavg /proc/uptime".split()
)
SECRET_NAMES = tuple(
    """.env .env.* *.env .envrc .netrc _netrc .pgpass .npmrc .pypirc .git-credentials .htpasswd .dockercfg .vault-token
    *.pem *.key *.p12 *.pfx *.kdbx *.jks *.keystore id_rsa* id_dsa* id_ecdsa* id_ed25519* credentials credentials.*
    *.credentials secret secrets secret.* secrets.* *.secret *.secrets shadow shadow- gshadow gshadow- sudoers *_history
    terraform.tfstate* .ssh .aws .gnupg .kube .docker .azure .gcloud sudoers.d wpa_supplicant.conf
    ssh_host_*_key""".split()
)
NOT_SECRET = re.compile(
    r"\.env\.(example|sample|template|dist|defaults?|schema)|.*\.pub|secrets?\.(py|pyi|js|ts|go|rs|md|rst|txt)"
)
# What other programs execute, and texts that tell agents what to do: writing one changes what is
# asked later, or what runs.
GOVERNING = (*executed.PATTERNS, "agents.md", "claude.md", ".env", ".env.*", ".gitattributes")
_KEY_FOLDERS = frozenset({".ssh", ".gnupg", ".aws", ".kube", ".password-store"})
_WIDE = (("qxvzk", "Wjq.7u", "build"), (".qxvzk", ".Wjq.7u", ".git"))
MAX_GLOB = 200
MAX_BELOW = 20_000
"""Names below a folder that are looked at for secrets."""


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Return whether a name, folded, fits one of some patterns."""
    return _union(patterns).match(folded(name)) is not None


@cache
def _union(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(fnmatch.translate(pattern) for pattern in patterns))


def within(path: str, folder: str) -> bool:
    """Return whether a path is a folder or inside it, by components."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def is_secret(path: str) -> bool:
    """Return whether a component of a path names what nobody should read by the way."""
    names = [name for part in path.split("/") if part for name in original_names(part)]
    return any(
        matches(name, SECRET_NAMES) and not NOT_SECRET.fullmatch(folded(name)) for name in names
    )


def wide(pattern: str) -> bool:
    """Return whether a pattern for names takes all of them."""
    return any(all(fnmatch.fnmatchcase(name, pattern) for name in names) for names in _WIDE)


@attrs.frozen
class Places:
    """The workspace and the home, and what paths mean to them.

    Attributes:
        workspace: Root of the workspace, resolved.
        home: The user's home, resolved.
        mounts: Inside a container: pairs of a folder there and the folder here that it shows.
        contained: What runs there sees the file system of a container.
    """

    workspace: str
    home: str
    mounts: tuple[tuple[str, str], ...] = ()
    contained: bool = False

    def absolute(self, path: str, cwd: str | None) -> str | None:
        """Create a path absolute without looking at the disk; nothing if it cannot be known."""
        if UNKNOWN in path or (cwd is None and not path.startswith("/")):
            return None
        joined = os.path.normpath(os.path.join(cwd or "/", path))
        joined = "/" + joined.lstrip("/")
        if not self.contained:
            return joined
        for inside, outside in self.mounts:
            if within(joined, inside):
                return os.path.normpath(outside + "/" + joined[len(inside.rstrip("/")) :])
            if joined == "/" or within(inside, joined):
                return outside
        return None

    def ruin(self, word: Word, cwd: str | None) -> str:
        """Return what would be lost if this path went with all in it.

        Empty if it is nothing that must stay.
        """
        path = self.absolute(word.value, cwd)
        if path is None:
            return ""
        contents = False
        while word.glob and path != "/" and wide(os.path.basename(path)):
            path = os.path.dirname(path)
            contents = True
        shown = path + ("/*" if contents and path != "/" else "*" if contents else "")
        candidates = {path}
        if (contents or word.value.endswith(("/", "/."))) and not word.glob:
            candidates.add(os.path.realpath(path))
        elif not word.glob:
            candidates.add(
                os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
            )
        return next(
            (why for each in sorted(candidates) if (why := self._loss(each, word.glob, shown))), ""
        )

    def _loss(self, path: str, glob: bool, shown: str) -> str:
        low = folded(path)
        fits = fnmatch.fnmatchcase if glob else str.__eq__
        if any(fits(each, low) and each.count("/") == low.count("/") for each in SYSTEM):
            return f"the system folder {shown}"
        # The home folder comes first: the workspace is usually below it, and what is only "above
        # the workspace" is less.
        if path != self.workspace and (
            within(self.home, path) or re.fullmatch(r"/(home|users)/[^/]+", low)
        ):
            return f"a home folder ({shown})"
        if within(self.workspace, path) or (glob and self._above(path)):
            return f"the workspace or a folder above it ({shown})"
        if ".git" in low.split("/")[-1:]:
            return f"the history in {shown}"
        if within(low, folded(self.home)) and os.path.basename(low) in {
            ".ssh",
            ".gnupg",
            ".aws",
            ".config",
            ".local",
        }:
            return f"the user's own {shown}"
        return self.guarded(path)

    def _above(self, pattern: str) -> bool:
        wanted = pattern.split("/")
        return any(
            len(wanted) == len(parts)
            and all(fnmatch.fnmatchcase(a, b) for a, b in zip(parts, wanted, strict=True))
            for top in (self.workspace, self.home)
            for parts in [top.split("/")[: len(wanted)]]
        )

    def guarded(self, path: str) -> str:
        """Name the system folder a path is in, if that is one in which single files matter."""
        if within(path, self.workspace):
            return ""
        low = folded(path)
        return next(
            (f"the system folder {folder}" for folder in GUARDED if within(low, folder)), ""
        )

    def own_keys(self, path: str) -> str:
        """Name the keys or logins of the user that a path is; empty if it is none."""
        if within(folded(path), folded(self.home)):
            inner = folded(path)[len(self.home) :].split("/")
        else:
            inner = []
        if len(inner) > 2 and inner[1] in _KEY_FOLDERS:
            return f"the user's own keys ({path})"
        return ""

    def device(self, path: str) -> str:
        """Name the device a path stands for, if writing to it is no everyday thing."""
        low = folded(path)
        if within(low, "/dev") and not SAFE_DEVICES.fullmatch(low):
            return f"the device {path}"
        return ""

    def overwritten(self, word: Word, cwd: str | None) -> str:
        """Return what would be damaged if this file were written.

        Empty if nothing that must stay.
        """
        path = self.absolute(word.value, cwd)
        if path is None:
            return ""
        if re.fullmatch(
            r"/dev/(fd/\d+|std(in|out|err))", path
        ):  # one thing here, and another in the shell
            return ""
        for each in (path, path if self.contained else os.path.realpath(path)):
            why = self.device(each) or self.guarded(each)
            if why:
                return why
            parts = folded(each).split("/")
            if ".ssh" in parts[:-1] and re.match(r"authorized_keys|id_|rc$", parts[-1]):
                return f"the keys in {path}"
        return ""

    def write_doubt(self, word: Word, cwds: list[str | None]) -> tuple[str, str]:
        """Return why writing a file is not harmless (empty if it is), and where it would be."""
        if not word.plain or word.glob:
            return "It writes to a file that only the run would tell.", ""
        target = ""
        for cwd in cwds:
            path = self.absolute(word.value, cwd)
            if path is None:
                return "It writes to a file whose folder only the run would tell.", ""
            target = os.path.realpath(path)
            if target in {"/dev/null", "/dev/stdout", "/dev/stderr"} or re.fullmatch(
                r"/dev/std(out|err)", path
            ):
                return "", ""
            if not within(target, self.workspace) or target == self.workspace:
                return f"It writes outside the workspace ({target}).", target
            inner = target[len(self.workspace) :].split("/")
            if any(matches(part, GOVERNING) for part in inner if part):
                return f"It writes {target}, which governs what runs.", target
            # One command may write several parts of a Git folder, of which none is there while it
            # is read.
            if inner[-1] in repositories.HEADS or repositories.completed(target):
                return f"It writes {target}, which git may take commands from.", target
        return "", target

    def read_doubt(self, word: Word, cwds: list[str | None], *, deep: bool = False) -> str:
        """Return why reading a path is not harmless; empty if it is.

        Args:
            word: The path.
            cwds: Folders it may be relative to.
            deep: Everything below it is read too; then the names of its first level are looked at.
        """
        if not word.plain:
            return "It reads a file that only the run would tell."
        for cwd in cwds:
            if self.absolute(word.value, cwd) is None:
                return "It reads a file whose folder only the run would tell."
            # Not normalised: after a link, `..` is the folder above the link's target.
            for path in (
                self._globbed(word, cwd) if word.glob else [os.path.join(cwd or "/", word.value)]
            ):
                if os.path.basename(path).startswith("-") or path == "":
                    return f"Its pattern {word.value} takes what could be an option."
                doubt = self._read_doubt(path, deep)
                if doubt:
                    return doubt
        return ""

    def _globbed(self, word: Word, cwd: str | None) -> list[str]:
        import glob

        if (
            "[" in word.value
            or word.value.startswith(("-", "/", "~"))
            or ".." in word.value
            or "**" in word.value
        ):
            return [""]
        found = list(
            islice(glob.iglob(os.path.join(glob.escape(cwd or "/"), word.value)), MAX_GLOB)
        )
        return [""] if len(found) == MAX_GLOB else found

    def _read_doubt(self, path: str, deep: bool) -> str:
        real = os.path.realpath(path)
        if any(is_secret(self._inner(each)) for each in (real, os.path.normpath(path))):
            return f"It reads {path}, which may hold secrets."
        if within(real, self.workspace):
            return self._deep_doubt(real) if deep else ""
        if real in READABLE_FILES or any(within(real, each) for each in READABLE):
            if deep and real == "/etc":
                return f"It reads all of {real}."
            return ""
        return f"It reads outside the workspace ({real})."

    def _inner(self, path: str) -> str:
        """Cut the workspace off: what it is called itself says nothing."""
        if within(path, self.workspace):
            return path[len(self.workspace) :]
        return path

    def _deep_doubt(self, folder: str) -> str:
        """Return why reading everything below a folder is not harmless; empty if it is."""
        waiting = [folder]
        seen = 0
        while waiting:
            try:
                with os.scandir(waiting.pop()) as entries:
                    for entry in entries:
                        seen += 1
                        if is_secret(entry.name):
                            return (
                                f"It reads all of {folder}, {entry.name} with it, which may hold"
                                " secrets."
                            )
                        if entry.name not in SKIPPED and entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
                        if seen > MAX_BELOW:
                            return (
                                f"It reads all of {folder}, too much to look through for secrets."
                            )
            except OSError:
                continue
        return ""
