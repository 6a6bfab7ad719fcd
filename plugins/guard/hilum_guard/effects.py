"""What a command does to which paths and hosts, as far as its words tell: for rules about paths,
hosts and categories.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import translate
from typing import TYPE_CHECKING, Literal

import attrs

from hilum_guard import git_objects, options, program_files

if TYPE_CHECKING:
    from hilum_guard.commands import SimpleCommand

Kind = Literal["read", "write", "delete", "any"]
UNKNOWN = "…"
MAX_FOUND = 200
"""Paths that a pattern for file names is expanded to."""
MAX_VISITED = 5000
"""Names that are compared with the patterns of a command line.

Beyond that nobody knows what they fit.
"""


@attrs.frozen
class Effect:
    """One thing that a call does to a path.

    Attributes:
        kind: What it does; ``any`` where a program is only given the path.
        path: The path, links followed: relative to the workspace, or absolute outside.
        deep: Whether it does the same to everything below.
        certain: Whether it does so for sure.
        stored: Whether the contents come from the objects of a Git repository, where no sandbox can
            hide a path.
    """

    kind: Kind
    path: str
    deep: bool = False
    certain: bool = True
    stored: bool = False


@attrs.frozen
class Reach:
    """What a command line reaches.

    Attributes:
        effects: What it does to paths.
        hosts: The hosts it contacts by name, in lower case.
        network: Whether a program in it uses the network for sure.
        unread: Whether a part of it may do anything, as far as reading tells.
    """

    effects: tuple[Effect, ...] = ()
    hosts: tuple[str, ...] = ()
    network: bool = False
    unread: bool = False


def reach(commands: Iterable[SimpleCommand], root: str, *, complete: bool) -> Reach:
    """Return what simple commands reach together. Looks at the disk for links and patterns.

    Args:
        commands: The commands.
        root: Root of the workspace, resolved.
        complete: Whether these are all commands of the text.
    """
    reader = _Reader(root, unread=not complete)
    for command in commands:
        reader.read(command)
    effects = tuple(dict.fromkeys(reader.effects))
    return Reach(effects, tuple(dict.fromkeys(reader.hosts)), reader.network, reader.unread)


def shown_path(path: str, root: str) -> str:
    """Return a resolved path relative to the workspace, or as it is outside."""
    if path == root:
        return "."
    if path.startswith(root.rstrip("/") + "/"):
        return path[len(root) + 1 :]
    return path


# --- programs -------------------------------------------------------------------------------------

# Nothing that they are given is a file that they open.
_TEXTUAL = frozenset(
    """: [ alias basename cd command date declare dirname echo env exit export false getconf groups hash help hostname id
    jobs kill local logname man nproc popd printf ps pushd pwd read readonly return seq set shift sleep test time times tr
    trap true tty type typeset ulimit umask uname unalias unset uptime users wait which who whoami yes""".split()
)
# They show names, sizes and kinds of files, but not what is in them.
_LISTERS = frozenset("ls dir tree du df file stat readlink realpath find lsattr getfacl".split())
# They read the files that they are given; with these options (or always: "*") everything below,
# too.
_READERS: dict[str, str] = {
    **dict.fromkeys(
        """cat head tail less more wc nl tac rev cut paste join comm cmp column fold fmt expand unexpand od hexdump xxd
        base64 base32 md5sum sha1sum sha256sum sha512sum b2sum cksum sum strings uniq jq yq bat batcat zcat bzcat xzcat
        diff sdiff look iconv gzcat zless basenc openssl""".split(),
        "",
    ),
    **dict.fromkeys("rg ag ack".split(), "*"),
    **dict.fromkeys("grep egrep fgrep zgrep".split(), "rR"),
}
_PATTERN_FIRST = frozenset(
    "grep egrep fgrep zgrep rg ag ack jq yq look sed gsed awk gawk mawk perl ruby".split()
)
_WRITERS = frozenset(
    "tee truncate touch mkdir mkfifo mknod ed ex vi vim nvim nano pico emacs joe".split()
)
_EDITORS = frozenset("ed ex vi vim nvim".split())  # their commands are read by `program_files`
_ATTRIBUTES = frozenset("chmod chown chgrp setfacl chattr chflags chcon setfattr".split())
_REMOVERS = frozenset("rm grm rmdir unlink shred srm trash trash-put rimraf del wipe".split())
_MOVERS = frozenset("mv gmv rename".split())
_COPIERS = frozenset("cp gcp install ln rsync scp".split())
_EDITORS_IN_PLACE = frozenset("sed gsed perl ruby awk gawk".split())
# The first of these that is given makes every operand a path.
_INSTEAD = ("-e", "-f", "--regexp", "--expression", "--file", "--files", "--source", "--from-file")
_MODE = re.compile(r"-[rwxXstugo,+=-]+")
"""A mode for `chmod` that takes rights away and looks like an option."""
_DEEP_DIFF = frozenset(("-r", "--recursive"))
_ANY_FILE = "any file"
"""Stands for any file below a folder that is searched, so that a rule about all of the folder
fits.
"""

_NETWORK = frozenset(
    """aria2c axel curl curlie dig drill finger ftp gcloud gsutil az aws fly flyctl http https httpie host lftp lynx mosh
    mutt nc ncat netcat nmap nslookup ping ping6 rclone rsh s3cmd scp sendmail sftp socat ssh ssh-copy-id telnet tftp
    traceroute w3m wget whois xh yt-dlp youtube-dl heroku vercel netlify kubectl helm gh glab hub doctl""".split()
)
_NETWORK_VERBS: dict[str, frozenset[str]] = {
    "git": frozenset(
        (
            *"push pull fetch clone ls-remote remote-http archive send-email".split(),
            "submodule update",
            "submodule add",
            "remote update",
            "remote show",
            "remote prune",
            "lfs pull",
            "lfs fetch",
            "lfs push",
            "lfs clone",
            "lfs locks",
            "lfs lock",
            "lfs unlock",
        )
    ),
    **dict.fromkeys("pip pip3".split(), frozenset("install download index search wheel".split())),
    "uv": frozenset(
        (
            "sync",
            "add",
            "lock",
            "publish",
            "pip install",
            "pip sync",
            "pip compile",
            "tool install",
            "tool run",
            "tool upgrade",
            "python install",
            "python upgrade",
            "self update",
            "build",
        )
    ),
    "poetry": frozenset("install add update publish lock".split()),
    **dict.fromkeys(
        "npm pnpm yarn bun".split(),
        frozenset("install i ci add update publish audit view info exec dlx create".split()),
    ),
    **dict.fromkeys(
        "docker podman".split(),
        frozenset(
            (
                *"pull push login build search run".split(),
                "compose up",
                "compose build",
                "compose run",
                "compose push",
                "compose pull",
                "image pull",
                "image push",
                "image build",
                "buildx build",
            )
        ),
    ),
    "cargo": frozenset("install fetch publish search update add login".split()),
    "go": frozenset("get install mod".split()),
    **dict.fromkeys(
        "apt apt-get dnf yum brew apk pacman zypper port snap flatpak".split(),
        frozenset("install update upgrade add search fetch download -S -Sy -Syu".split()),
    ),
    "gem": frozenset("install update push fetch".split()),
    "conda": frozenset("install create update search".split()),
    "svn": frozenset("checkout co update up commit ci export ls".split()),
    "hg": frozenset("clone pull push incoming outgoing".split()),
}
_URL = re.compile(
    r"\b[a-z][a-z0-9+.-]*://(?:[^\s/?#@\"']*@)?(\[[0-9a-f:.]+\]|[^\s/:?#\"'@\\]+)", re.I
)
_REMOTE = re.compile(r"(?:[\w.+-]+@)?([\w-]+(?:\.[\w-]+)+|\[[0-9a-fA-F:.]+\]):(?!//).*")
_HOST = re.compile(r"(?:[\w.+-]+@)?([\w-]+(?:\.[\w-]+)+|[0-9a-fA-F]*:[0-9a-fA-F:.]+)\.?")
# Programs of which a plain operand is a host.
_HOST_OPERAND = frozenset(
    """curl wget http https httpie xh ssh scp sftp ftp lftp telnet nc ncat netcat ping ping6 dig host nslookup drill
    traceroute mosh nmap whois lynx w3m aria2c axel tftp finger ssh-copy-id""".split()
)
_GIT_READS = frozenset(
    """status log show diff blame grep ls-files ls-tree cat-file rev-parse branch tag remote config describe shortlog
    reflog rev-list merge-base for-each-ref name-rev add commit fetch push stage bundle fsck count-objects help version
    notes""".split()
)


def hosts_of(text: str) -> list[str]:
    """Return the hosts of all addresses in a text, in lower case."""
    return [host.strip("[]").lower().rstrip(".") for host in _URL.findall(text)]


def values(arguments: object) -> Iterator[str]:
    """Yield every text in plain data."""
    if isinstance(arguments, str):
        yield arguments
    elif isinstance(arguments, Mapping):
        for value in arguments.values():
            yield from values(value)
    elif isinstance(arguments, list | tuple):
        for value in arguments:
            yield from values(value)


_MAGIC = re.compile(r"[*?\[]")


class _Reader:
    """Collects what commands reach."""

    def __init__(self, root: str, *, unread: bool) -> None:
        self.root = root
        self.effects: list[Effect] = []
        self.hosts: list[str] = []
        self.network = False
        self.unread = unread
        self._cwds: tuple[str | None, ...] = ()
        self._fed: tuple[str, ...] = ()
        self._stdin: str | None = None
        self._visited = 0

    def read(self, command: SimpleCommand) -> None:
        """Take one simple command."""
        self._cwds = command.cwds or (command.cwd,)
        for path in command.writes:
            self._add("write", path)
        for path in command.reads:
            self._add("read", path)
        self._fed = command.reads
        self._stdin = command.stdin
        if not command.words:
            return
        name = os.path.basename(command.words[0].rstrip("/")).casefold()
        words = command.words[1:]
        self._outputs(name, words, command.stdin)
        if command.wrapper:
            return
        self._contact(name, words)
        if UNKNOWN in command.words[0]:
            self.unread = True
        elif name == "git":
            self._git(words)
        else:
            self._program(name, words)

    # --- files ---

    def _add(
        self,
        kind: Kind,
        path: str,
        *,
        deep: bool = False,
        certain: bool = True,
        stored: bool = False,
    ) -> None:
        if path in ("", "-") or _STREAM.fullmatch(path):
            return
        for place in self._places(path):
            if place is None:
                self.unread = True
            else:
                self.effects.append(
                    Effect(kind, shown_path(place, self.root), deep, certain, stored)
                )

    def _places(self, path: str) -> Iterator[str | None]:
        """Yield what a word means as a path: links followed, and the link itself, which may be
        replaced or deleted.
        """
        path = os.path.expanduser(path)
        for cwd in self._cwds:
            if UNKNOWN in path or (cwd is None and not path.startswith("/")):
                yield None
                continue
            full = _past_processes(os.path.join(cwd or "/", path), cwd)
            if full is None:
                yield None
                continue
            matches = self._expanded(full) if _MAGIC.search(path) else []
            if matches is None:
                yield None
                continue
            for each in matches or [full]:
                resolved = os.path.realpath(each)
                itself = os.path.join(
                    os.path.realpath(os.path.dirname(each)), os.path.basename(each)
                )
                yield resolved
                if os.path.normpath(itself) != resolved and os.path.basename(each) not in (
                    "",
                    ".",
                    "..",
                ):
                    yield os.path.normpath(itself)

    def _expanded(self, pattern: str) -> list[str] | None:
        """Return the paths that a pattern fits, as a shell expands it; None where that would take
        too long.
        """
        found = ["/"]
        for part in pattern.strip("/").split("/"):
            if not _MAGIC.search(part):
                found = [
                    path for folder in found if os.path.lexists(path := os.path.join(folder, part))
                ]
                continue
            fits = re.compile(translate(part)).match
            inner: list[str] = []
            for folder in found:
                try:
                    with os.scandir(folder) as entries:
                        for entry in entries:
                            self._visited += 1
                            if self._visited > MAX_VISITED:
                                return None
                            if fits(entry.name) and (
                                part.startswith(".") or not entry.name.startswith(".")
                            ):
                                inner.append(entry.path)
                except OSError:
                    continue
            found = inner
        return found if len(found) <= MAX_FOUND else None

    def _program(self, name: str, words: Sequence[str]) -> None:
        parsed = options.parse(words, options.SYNTAX.get(name, _ANY_OPTIONS))
        operands = list(parsed.operands)
        if parsed.unknown and not _is_mode(name, words):
            # It may take the next word as its value, or read a file: no rule can be compared with
            # that.
            self._unread_program(words)
        self._read_options(name, parsed)
        if name in _TEXTUAL | _LISTERS or program_files.is_known(name):
            return
        if name in _REMOVERS:
            for path in operands:
                self._add("delete", path, deep=True)
        elif name in ("install", "ginstall") and parsed.has("-d", "--directory"):
            return
        elif name in _MOVERS | _COPIERS:
            self._copy(name, operands, "".join(parsed.values("-t", "--target-directory")[:1]))
        elif name in _ATTRIBUTES:
            for path in _changed(name, words, parsed):
                self._add("write", path, deep=parsed.has("-R", "--recursive"))
        elif name in _EDITORS_IN_PLACE and _in_place(words):
            self.unread |= name not in ("sed", "gsed") or not _is_plain_sed(words)
        elif name in _WRITERS:
            for path in operands if name not in _EDITORS else ():
                self._add("write", path)
            self.unread |= name in _EDITORS
        elif name == "dd":
            self._dd(words)
        elif name == "patch":
            given = options.parse(words, options.valued_only(_PATCH_VALUED))
            named = given.values("-i", "--input")
            if (
                not given.operands
            ):  # otherwise the one file that is named is changed, whatever the patch says
                self._patch(words, self._stdin, named)
            self._unread_program(words)
        elif name == "sort":
            self._readers(name, parsed)
        elif name in ("uniq", "xxd"):  # the second operand is their output
            for number, path in enumerate(operands):
                self._add("write" if number else "read", path)
        elif name in ("sed", "gsed") and not _is_plain_sed(words):
            self._unread_program(words)
        elif name == "yq" and any(
            re.match(r"-[a-zA-Z]*i|--inplace|--in-place", word) for word in words
        ):
            for path in operands[1:]:
                self._add("write", path)
        elif name in ("yq", "openssl") and any(
            word.startswith(("-s", "--split", "-out")) for word in words
        ):
            self._unread_program(words)
        elif name in _READERS or name in ("sed", "gsed"):
            self._readers(name, parsed)
        else:
            self.unread = True
            for word in words:
                self._mention(word)

    def _unread_program(self, words: Sequence[str]) -> None:
        """Note a program that may do anything with what its words name."""
        self.unread = True
        for word in words:
            self._mention(word)

    def _read_options(self, name: str, parsed: options.Parsed) -> None:
        """Add the files that options name as input."""
        wanted = options.READS.get(name, frozenset())
        for option, value in parsed.options:
            if option not in wanted:
                continue
            self._add("read", value)
            # The file that is named has the names of further files in it.
            self.unread |= option in options.LISTS or (name == "file" and option == "-f")

    def _readers(self, name: str, parsed: options.Parsed) -> None:
        operands = list(parsed.operands)
        searches = _searches_below(name, parsed)
        pattern = name in _PATTERN_FIRST and not parsed.has(*_INSTEAD)
        paths = operands[1:] if pattern else operands
        if searches:
            self.unread = True
        for path in paths:
            self._add("read", path)
            if searches and UNKNOWN not in path and self._is_folder(path):
                self._add("read", os.path.join(path, _ANY_FILE))

    def _copy(self, name: str, operands: list[str], folder: str) -> None:
        *sources, target = [*operands, folder] if folder else operands or [""]
        for source in sources:
            if name in _MOVERS:
                self._add("delete", source, deep=True)
                self._add("read", source, deep=True)
            elif not _REMOTE.fullmatch(source):
                self._add("read", source, deep=name != "ln")
        if not target or _REMOTE.fullmatch(target):
            return
        self._add("write", target, deep=not self._is_folder(target))
        for source in sources:
            self._add(
                "write", os.path.join(target, os.path.basename(source.rstrip("/"))), deep=True
            )

    def _is_folder(self, path: str) -> bool:
        return any(os.path.isdir(place) for place in self._places(path) if place)

    def _dd(self, words: Sequence[str]) -> None:
        for word in words:
            name, _, path = word.partition("=")
            if name in ("of", "if") and path:
                self._add("write" if name == "of" else "read", path)

    def _outputs(self, name: str, words: Sequence[str], stdin: str | None) -> None:
        for use in program_files.uses(name, words, stdin):
            self._add(use.kind, use.path, deep=use.deep, certain=use.certain)

    def _patch(
        self, words: Sequence[str], stdin: str | None, named: Sequence[str], folder: str = ""
    ) -> None:
        """Add what a patch changes, where it can be read: from the files that are named, or from
        the input.
        """
        strip_text = "".join(
            options.parse(words, options.valued_only(_PATCH_VALUED)).values("-p", "--strip")[:1]
        )
        strip = int(strip_text) if strip_text.isdecimal() else None
        texts = [stdin] if stdin else []
        for path in [*named, *self._fed]:
            for place in self._places(path):
                text = _read_small(place) if place else None
                texts += [text] if text is not None else []
        for text in texts:
            for path in program_files.patched_paths(text, strip):
                self._add("write", os.path.join(folder, path))

    def _mention(self, word: str) -> None:
        """Note a path that is given to a program which may do anything with it."""
        for text in {word, word.rpartition("=")[2], re.sub(r"^-\w", "", word)}:
            if text.isdigit() and not any(
                place and os.path.lexists(place) for place in self._places(text)
            ):
                continue  # a number, as far as anybody can tell
            if (
                text
                and not text.startswith("-")
                and UNKNOWN not in text
                and "://" not in text
                and len(text) < 1000
            ):
                self._add("any", text, certain=False)

    def _git(self, words: Sequence[str]) -> None:
        at = 0
        folders = list[str]()
        others = False
        while at < len(words) and words[at].startswith("-"):
            if words[at] == "-C":
                folders += words[at + 1 : at + 2]
            else:
                others = True
            at += 2 if words[at] in ("-C", "-c", "--git-dir", "--work-tree") else 1
        verb = words[at] if at < len(words) else ""
        rest = words[at + 1 :]
        parsed = options.parse(rest, options.valued_only(_GIT_VALUED.get(verb, _GIT_MESSAGE)))
        operands = list(parsed.operands)
        if verb not in _GIT_READS:
            self.unread |= others
            for word in words[:at]:
                self._mention(word)
        # -C is where git works, not what it writes: paths after it are relative to that folder.
        for folder in folders:
            self._cwds = tuple(_entered(cwd, folder) for cwd in self._cwds)
        self._stored(verb, rest)
        outputs = frozenset(
            ("-o", "--output", "--output-directory")
            if verb in ("format-patch", "archive")
            else ("--output",)
        )
        for path in options.parse(rest, options.valued_only(outputs)).values(*outputs):
            self._add("write", path, deep=verb == "format-patch")
        self._git_targets(verb, rest)
        if verb == "rm" and "--cached" not in rest:
            for path in operands:
                self._add("delete", path, deep=True)
        elif verb == "mv":
            self._copy("mv", operands, "")
        elif verb in ("checkout", "restore") and operands and ("--" in rest or verb == "restore"):
            for path in rest[rest.index("--") + 1 :] if "--" in rest else operands:
                self._add("write", path, deep=True)
        elif verb in ("add", "stage") and operands:
            for path in operands:
                self._add("read", path)
        elif verb == "bundle" and operands[:1] == ["create"]:
            for path in operands[1:2]:
                self._add("write", path)
        elif verb == "init" and not parsed.unknown:
            return  # `_git_targets` has what it makes
        elif verb not in _GIT_READS:
            self.unread = True
            for word in rest:
                self._mention(word)

    def _stored(self, verb: str, rest: Sequence[str]) -> None:
        """Add what a Git command shows of the contents of its repository."""

        def is_path(word: str) -> bool:
            return any(place is not None and os.path.lexists(place) for place in self._places(word))

        cwds = self._cwds
        tops = tuple(_top(cwd) for cwd in cwds)
        for each in git_objects.shown(verb, rest, is_path):
            self._cwds = tops if each.top else cwds
            self._add("read", each.path or ".", deep=each.deep, certain=each.certain, stored=True)
        self._cwds = cwds

    def _git_targets(self, verb: str, rest: Sequence[str]) -> None:
        """Add the files and folders that a Git command makes besides changing the working tree."""
        parsed = options.parse(
            rest,
            (
                _GIT_INIT
                if verb == "init"
                else options.valued_only(_GIT_VALUED.get(verb, frozenset()))
            ),
        )
        operands = list(parsed.operands)
        values = dict(parsed.options)
        if verb == "clone" and operands:
            if len(operands) > 1:
                named = operands[1]
            else:
                named = os.path.basename(re.sub(r"(/?\.git)?/?$", "", operands[0]))
            self._add("write", named, deep=True)
        elif verb == "worktree" and operands[:1] == ["add"]:
            for path in operands[1:2]:
                self._add("write", path, deep=True)
        elif verb == "init":
            self._git_init(parsed)
        elif verb == "config" and len(operands) > 1:
            config = values.get("-f") or values.get("--file")
            if config:
                self._add("write", config)
        elif verb == "checkout-index":
            prefix = values.get("--prefix")
            if prefix:
                self._add("write", prefix, deep=True)
        elif verb == "apply" and ("--apply" in values or not _LOOKING & values.keys()):
            strip = rest if "-p" in values else ["-p1"]
            self._patch(strip, self._stdin, operands, values.get("--directory", ""))

    def _git_init(self, parsed: options.Parsed) -> None:
        """Add the folder `.git` that `git init` makes, and the folder around it where there is none
        yet.
        """
        folder = parsed.operands[0] if parsed.operands else "."
        if parsed.has("--bare") or not self._is_folder(folder):
            self._add("write", folder, deep=True)
        else:
            self._add("write", os.path.join(folder, ".git"), deep=True)
        for path in parsed.values("--separate-git-dir"):
            self._add("write", path, deep=True)
        for path in parsed.values("--template"):
            self._add("read", path, deep=True)

    # --- hosts ---

    def _contact(self, name: str, words: Sequence[str]) -> None:
        uses = name in _NETWORK or any(_is_network_verb(name, verb) for verb in _verbs(name, words))
        self.network |= uses
        for word in words:
            self.hosts += hosts_of(word)
            if not uses:
                continue
            remote = _REMOTE.fullmatch(word)
            if remote:
                self.hosts.append(remote[1].strip("[]").lower())
            elif name in _HOST_OPERAND and not word.startswith(("-", "/", ".")):
                plain = _HOST.fullmatch(
                    re.sub(r"^([^:]*):\d+$", r"\1", re.split(r"[/?#]", word)[0])
                )
                self.hosts += [plain[1].lower()] if plain else []


_GIT_VALUED: dict[str, frozenset[str]] = {
    "clone": frozenset(
        "-b --branch -o --origin -u --upload-pack --reference --template --depth -c --config -j"
        " --jobs --filter --separate-git-dir".split()
    ),
    "worktree": frozenset("-b -B --reason".split()),
    **dict.fromkeys(("add", "stage"), frozenset("--chmod --pathspec-from-file".split())),
    "rm": frozenset(("--pathspec-from-file",)),
    "mv": frozenset[str](),
    "checkout": frozenset("-b -B --orphan --conflict --pathspec-from-file".split()),
    "restore": frozenset("-s --source --conflict --pathspec-from-file".split()),
    "config": frozenset("-f --file --blob --type --default --comment".split()),
    "checkout-index": frozenset("--prefix --stage".split()),
    "apply": frozenset(
        "-p -C --directory --exclude --include --whitespace --build-fake-ancestor".split()
    ),
}


_GIT_MESSAGE = frozenset(("-m",))
_GIT_INIT = options.Syntax(
    flags=frozenset("q"),
    valued=frozenset("b"),
    longs=frozenset("--quiet --bare --shared".split()),
    long_valued=frozenset(
        "--initial-branch --template --separate-git-dir --object-format --ref-format".split()
    ),
    complete=True,
)
_ANY_OPTIONS = options.Syntax()
_STREAM = re.compile(r"/dev/(null|zero|full|random|urandom|stdin|stdout|stderr|tty|ptmx|fd/\d+)")


def _past_processes(path: str, cwd: str | None) -> str | None:
    """Return a path in which `/proc/self/cwd` and its like are the command's own; None where nobody
    can tell.

    Links in `/proc` lead another process elsewhere than this one, so they cannot be followed here.
    """
    parts = [part for part in path.split("/") if part not in ("", ".")]
    whole = "/" + "/".join(parts)
    own = re.fullmatch(r"/proc/(?:self|thread-self)/(cwd|root)(/.*)?", whole)
    if own:
        if own[1] == "root":
            return _past_processes(own[2] or "/", cwd)
        if cwd is None:
            return None
        return _past_processes(cwd + (own[2] or ""), cwd)
    plain = os.path.normpath(whole)
    if any(
        re.match(r"/proc/[^/]+/(cwd|root|fd|task|map_files)(/|$)|/dev/(fd|std\w+)/", each)
        for each in (whole, plain)
    ):
        return None
    return path


def _is_mode(name: str, words: Sequence[str]) -> bool:
    """Return whether all unknown options of `chmod` are the mode (`chmod -w FILE`)."""
    if name != "chmod":
        return False
    rest = [word for word in words if not _MODE.fullmatch(word)]
    return not options.parse(rest, options.SYNTAX[name]).unknown


def _changed(name: str, words: Sequence[str], parsed: options.Parsed) -> tuple[str, ...]:
    """Return the operands of a program for attributes that are files: all but a mode or an owner in
    front.
    """
    if name in ("setfacl", "setfattr") or parsed.has("--reference"):
        return parsed.operands
    if name == "chmod" and any(_MODE.fullmatch(word) for word in words):
        return parsed.operands
    if name == "chcon" and parsed.has(
        "-u", "-r", "-t", "-l", "--user", "--role", "--type", "--range"
    ):
        return parsed.operands
    if name == "chattr" and any(re.match(r"-(?![RVfvp]+$)", word) for word in words):
        return parsed.operands
    return parsed.operands[1:]


def _searches_below(name: str, parsed: options.Parsed) -> bool:
    """Return whether a program reads everything below the folders that it is given."""
    deep = _READERS.get(name, "")
    if deep == "*" or "recurse" in parsed.values("-d", "--directories"):
        return True
    if name == "diff":
        return parsed.has(*_DEEP_DIFF)
    return bool(deep) and parsed.has("-r", "-R", "--recursive", "--dereference-recursive")


def _verbs(name: str, words: Sequence[str]) -> Iterator[str]:
    """Yield what may be the sub-command of a program: the first operand, and later ones if an
    unknown option is before it.
    """
    if name in _PACKAGERS_BY_OPTION:
        yield from words
        return
    parsed = options.parse(words, _GLOBAL_OPTIONS.get(name, _NO_GLOBAL_OPTIONS))
    operands = [word for word in parsed.operands if not word.startswith("+")]
    if not operands:
        return
    verb = operands[0]
    at = words.index(verb)
    in_front = options.parse(words[:at], _GLOBAL_OPTIONS.get(name, _NO_GLOBAL_OPTIONS))
    yield " ".join(operands[:2])
    yield verb
    if in_front.unknown and not any("=" in word for word in words[at - 1 : at]):
        yield from operands[1:2]


def _is_network_verb(name: str, verb: str) -> bool:
    return verb in _NETWORK_VERBS.get(name, frozenset())


_PACKAGERS_BY_OPTION = frozenset(("pacman",))
_GLOBAL = {
    "git": (
        "Cc",
        "--git-dir --work-tree --namespace --exec-path --super-prefix --config-env --attr-source",
        "p P",
        "--paginate --no-pager --bare --no-replace-objects --literal-pathspecs --no-optional-locks",
    ),
    "uv": (
        "",
        "--directory --project --config-file --cache-dir --color --allow-insecure-host",
        "q v n",
        "--quiet --verbose --no-cache --offline --no-config --no-progress --native-tls",
    ),
    **dict.fromkeys(
        "pip pip3".split(),
        (
            "",
            "--python --log --proxy --cert --client-cert --cache-dir --timeout --retries",
            "q v",
            "--quiet --verbose --isolated --no-cache-dir --no-color --no-input",
        ),
    ),
    **dict.fromkeys(
        "npm pnpm yarn bun".split(),
        (
            "Cw",
            "--prefix --workspace --registry --cache --userconfig --dir --filter --cwd",
            "s q d g",
            "--silent --quiet --workspaces --global",
        ),
    ),
    **dict.fromkeys(
        "docker podman".split(),
        (
            "Hlc",
            "--host --context --config --log-level --tlscacert --tlscert --tlskey",
            "D",
            "--debug --tls --tlsverify",
        ),
    ),
    "cargo": ("CZ", "--config --color", "q v", "--quiet --verbose --offline --locked --frozen"),
    **dict.fromkeys(
        "apt apt-get".split(),
        (
            "ocat",
            "--option --config-file --target-release",
            "y q s d f m u",
            "--yes --quiet --assume-yes --simulate --download-only",
        ),
    ),
    "poetry": (
        "CP",
        "--directory --project",
        "q n v",
        "--quiet --no-interaction --verbose --no-plugins --no-cache",
    ),
    "hg": ("R", "--repository --cwd --config", "q v y", "--quiet --verbose --noninteractive"),
}
"""Options in front of a sub-command: with values (short, long), and without."""
_NO_GLOBAL_OPTIONS = options.Syntax(complete=True)
_GLOBAL_OPTIONS = {
    program: options.Syntax(
        valued=frozenset(row[0]),
        long_valued=frozenset(row[1].split()),
        flags=frozenset(row[2].split()),
        longs=frozenset(row[3].split()),
        complete=True,
    )
    for program, row in _GLOBAL.items()
}

_LOOKING = frozenset("--stat --numstat --summary --check".split())
"""Options with which `git apply` changes nothing."""


def _top(cwd: str | None) -> str | None:
    """Return the top of the repository that a folder is in; the folder where there is none."""
    folder = cwd
    while folder is not None and not os.path.lexists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return cwd
        folder = above
    return folder


def _entered(cwd: str | None, folder: str) -> str | None:
    """Return the working folder after a change to another one; ``None`` where it is not known."""
    folder = os.path.expanduser(folder)
    if UNKNOWN in folder or (cwd is None and not folder.startswith("/")):
        return None
    return os.path.join(cwd or "/", folder)


_PATCH_VALUED = frozenset(
    "-p -F -V -B -Y -z -g -d -D -i -o -r --strip --input --output --directory --reject-file --fuzz".split()
)
MAX_PATCH = 1_000_000


def _read_small(path: str) -> str | None:
    """Return the text of a regular file that is not large; None for anything else.

    Never waits for a pipe.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_PATCH:
            return None
        return os.read(descriptor, MAX_PATCH).decode(errors="replace")
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _is_plain_sed(words: Sequence[str]) -> bool:
    """Return whether every script of `sed` only prints, deletes or replaces text: `w`, `e` and the
    like do more.
    """
    parsed = options.parse(words, options.SYNTAX["sed"])
    if parsed.has("-f", "--file"):
        return False
    scripts = parsed.values("-e", "--expression") or list(parsed.operands[:1])
    return all(_PLAIN_SED.fullmatch(script) for script in scripts)


_ADDRESS = r"(?:\d+|\$|/[^/\\\n]*/)"
_PART = r"(?:\\[^\n]|(?!\1)[^\n\\])*"
_STEP = rf"(?:{_ADDRESS}(?:,[+~]?{_ADDRESS})?)?\s*!?\s*(?:[pdqQ=]|s([/|#,:@]){_PART}\1{_PART}\1[gpiI0-9]*)"
_PLAIN_SED = re.compile(_STEP)


def _in_place(words: Sequence[str]) -> bool:
    return any(re.match(r"-[a-zA-Z]*i|--in-place", word) for word in words) or "inplace" in words
