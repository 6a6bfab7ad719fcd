"""What is certainly destructive, and what is so grave that the user is always asked.

*Ruin* is a literal command whose effect on a literal target nobody can want from an agent: it is
blocked. What may be wanted, but cannot be undone (all files of the workspace, local history, a
database), is *grave*: asked whatever the policy.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from hilum_guard.names import folded
from hilum_guard.options import SYNTAX, Parsed, Syntax, parse, valued_only
from hilum_guard.places import SYSTEM, is_secret
from hilum_guard.program_files import VALUED_OPTIONS
from hilum_guard.programs import program
from hilum_guard.words import Word

if TYPE_CHECKING:
    from hilum_guard.simple import Simple

_FIREWALLS = frozenset("firewalld ufw nftables iptables ip6tables apparmor fail2ban".split())


def ruin(simple: Simple) -> str:
    """Return what a command certainly destroys; empty if nothing is certain.

    Args:
        simple: The command, with its words as the program gets them.
    """
    for redirect in simple.redirects:
        if ">" in redirect.operator and (
            what := simple.places.overwritten(redirect.target, simple.cwd)
        ):
            return f"It writes to {what}."
    if not simple.words:
        return ""
    name = program(simple.words[0])
    if name.startswith(("mkfs", "newfs")) and len(simple.words) > 1 and not _asks_for_help(simple):
        return "It makes a new file system, and what was there is lost."
    check = _CHECKS.get(name)
    return check(simple) if check else ""


def _asks_for_help(simple: Simple) -> bool:
    return bool({"--help", "-h", "-V", "--version"} & {word.value for word in simple.words[1:]})


def grave(simple: Simple) -> str:
    """Return why the user has to be asked about a command whatever the policy.

    Empty if there is no such reason.
    """
    if not simple.words:
        return ""
    name = program(simple.words[0])
    if name in _REMOVERS:
        return _grave_removal(simple, name)
    text = " ".join(word.value for word in simple.words[1:])
    for pattern, why in _GRAVE.get(name, ()):
        if re.search(pattern, text) and not _asks_for_help(simple):
            return why
    return ""


def _grave_removal(simple: Simple, name: str) -> str:
    recursive = set(_letters(simple.words[1:])) & set("rR")
    for word in _operands(simple.words[1:]):
        if recursive and simple.places.ruin(word, simple.cwd):
            return "It deletes everything in the workspace."
        path = simple.places.absolute(word.value, simple.cwd)
        if path and name in {"shred", "srm", "wipe"} and is_secret(path):
            return f"It destroys {path}, which may be a key."
    return ""


def history_ruin(simples: Sequence[Simple]) -> str:
    """Return why commands together destroy Git's history for good; empty if they do not."""
    git = [
        " ".join(word.value for word in simple.words[1:]) for simple in simples if _is_git(simple)
    ]
    forgets = any(re.search(r"\breflog (expire|delete)\b", text) for text in git)
    prunes = any(re.search(_PRUNES, text) for text in git)
    if forgets and prunes:
        return "It deletes what Git keeps of earlier work (reflog and unreachable commits)."
    return ""


def _is_git(simple: Simple) -> bool:
    return bool(simple.words) and program(simple.words[0]) == "git"


_ALL_PROCESSES = re.compile(r"(^| )(-\w*[eA]\w*|-?\w*a\w*x\w*|-?\w*x\w*a\w*|-\w*[uU] ?\w+)( |$)")


def kills_all(simples: Sequence[Simple]) -> str:
    """Return why commands together end every process: a list of all processes is fed to `kill`.

    Empty if they do not.
    """
    kills = any(_kills_unknown(simple) for simple in simples)
    if not kills:
        return ""
    listing = False
    for simple in simples:
        if not simple.words:
            continue
        name = program(simple.words[0])
        text = " ".join(word.value for word in simple.words[1:])
        if name in {"grep", "egrep", "rg", "pidof", "lsof", "fuser"} and not re.search(
            r"(^| )-\w*v", text
        ):
            return ""
        if name in {"awk", "gawk", "sed"} and re.search(r"/[^/]+/|==|~", text):
            return ""
        everything = re.fullmatch(r"(-\w+ )*(\.\*?|\^|''|)", text) is not None
        listing = listing or (
            name == "ps"
            and bool(_ALL_PROCESSES.search(text))
            and not re.search(r"-[pCG]|--p", text)
        )
        listing = listing or (name == "pgrep" and everything)
        listing = listing or any(
            word.glob and word.value.startswith("/proc/[") for word in simple.words
        )
        listing = listing or (name == "kill" and any(word.glob for word in simple.words))
        listing = listing or (name in {"ls", "find"} and text.strip().rstrip("/") == "/proc")
    if listing:
        return "It ends every process that it finds."
    return ""


def _kills_unknown(simple: Simple) -> bool:
    if not simple.words or program(simple.words[0]) not in {"kill", "skill"}:
        return False
    return any(not word.known or word.glob for word in _operands(simple.words[1:]))


def _letters(words: Sequence[Word]) -> str:
    """Join the short options of a command, and the first letters of some long ones."""
    found = ""
    for word in words:
        text = word.value
        if text == "--":
            break
        if text.startswith("--"):
            found += (
                "R"
                if text
                in {
                    "--recursive",
                    "--recursiv",
                    "--recurs",
                    "--recur",
                    "--rec",
                    "--re",
                    "--r",
                }
                else ""
            )
        elif text.startswith("-"):
            found += text[1:]
    return found


def _operands(words: Sequence[Word]) -> Iterator[Word]:
    """Yield the words that are no options."""
    ended = False
    for word in words:
        if ended or not word.value.startswith("-") or word.value == "-":
            yield word
        ended = ended or word.value == "--"


def _parsed(simple: Simple) -> tuple[Parsed, list[Word]]:
    """Return the options of a command, and its operands as words."""
    words = simple.words[1:]
    name = program(simple.words[0])
    found = parse([word.value for word in words], SYNTAX.get(name, _VALUED.get(name, Syntax())))
    return found, [words[position] for position in found.positions]


_VALUED = {
    "curl": valued_only(VALUED_OPTIONS["curl"]),
    "wget": valued_only(VALUED_OPTIONS["wget"]),
    "unzip": valued_only(frozenset(("-d", "-x", "-P"))),
}


def _remove(simple: Simple) -> str:
    recursive = set(_letters(simple.words[1:])) & set("rR")
    for word in _operands(simple.words[1:]):
        path = simple.places.absolute(word.value, simple.cwd)
        if (
            recursive
            and (what := simple.places.ruin(word, simple.cwd))
            and not _only_contents(simple, word)
        ):
            return f"It deletes {what}."
        if path and (what := simple.places.own_keys(path)):
            return f"It deletes {what}."
        if path and (what := simple.places.guarded(path) or simple.places.device(path)):
            return f"It deletes in {what}."
        if path and ".git" in path.split("/") and recursive and not path.endswith(".lock"):
            return f"It deletes in the history, {path}."
        if (
            word.glob
            and (what := simple.places.ruin(word, simple.cwd))
            and not what.startswith("the workspace")
        ):
            return f"It deletes {what}."
    return ""


def _only_contents(simple: Simple, word: Word) -> bool:
    """Return whether a word means what the workspace holds, but neither the folder nor its history:
    `*`, `./*`.
    """
    places = simple.places
    path = places.absolute(word.value, simple.cwd)
    if not word.glob or path is None or os.path.basename(path).startswith("."):
        return False
    if places.workspace == places.home or folded(places.workspace) in SYSTEM:
        return False
    return os.path.dirname(path) == places.workspace


def _move(simple: Simple) -> str:
    parsed, operands = _parsed(simple)
    folders = [Word(value) for value in parsed.values("-t", "--target-directory")]
    *sources, target = [*operands, *folders] or [Word("")]
    for word in sources:
        what = simple.places.ruin(word, simple.cwd)
        if what and not (word.glob and what.startswith("the workspace")):
            return f"It moves away {what}."
        if word.glob and simple.places.absolute(target.value, simple.cwd) == "/dev/null":
            return "It moves files into nothing."
    return _overwrite(simple, target)


def _overwrite(simple: Simple, word: Word) -> str:
    what = simple.places.overwritten(word, simple.cwd)
    return f"It writes to {what}." if what else ""


def _copy(simple: Simple) -> str:
    parsed, operands = _parsed(simple)
    for folder in parsed.values("-t", "--target-directory"):
        what = _overwrite(simple, Word(folder))
        if what:
            return what
    if len(operands) > 1:
        return _overwrite(simple, operands[-1])
    return ""


def _each_written(simple: Simple) -> str:
    return next((what for word in _parsed(simple)[1] if (what := _overwrite(simple, word))), "")


def _option_written(*options: str) -> Callable[[Simple], str]:
    """Check the files that options of a command name for its output."""

    def check(simple: Simple) -> str:
        parsed, _ = _parsed(simple)
        found = (_overwrite(simple, Word(value)) for value in parsed.values(*options))
        return next((what for what in found if what), "")

    return check


def _sed(simple: Simple) -> str:
    edits = any(re.match(r"-[nErsuz]*i|--in-place", word.value) for word in simple.words[1:])
    return _each_written(simple) if edits else ""


def _dd(simple: Simple) -> str:
    targets = [Word(x.value[3:]) for x in simple.words[1:] if x.value.startswith("of=")]
    return next((what for word in targets if (what := _overwrite(simple, word))), "")


def _rights(simple: Simple) -> str:
    """`chmod`, `chown`, `chgrp`, `chattr`, `setfacl`: the rights of a whole system, or of a system
    file.
    """
    recursive = "R" in _letters(simple.words[1:])
    for word in [*_operands(simple.words[1:])]:
        if "/" in word.value or recursive:
            path = simple.places.absolute(word.value, simple.cwd)
        else:
            path = None
        if path is None:
            continue
        what = simple.places.ruin(word, simple.cwd)
        if (
            recursive
            and what
            and not what.startswith("the workspace (")
            and not _is_workspace(simple, path)
        ):
            return f"It changes the rights of {what}."
        if what.startswith("the system") or (
            what := simple.places.guarded(path) or simple.places.device(path)
        ):
            return f"It changes the rights in {what}."
    return ""


def _is_workspace(simple: Simple, path: str) -> bool:
    return path == simple.places.workspace or path.startswith(simple.places.workspace + "/")


def _rsync(simple: Simple) -> str:
    operands = [*_operands(simple.words[1:])]
    if len(operands) < 2:
        return ""
    if any(x.value.startswith("--del") for x in simple.words) and (
        w := simple.places.ruin(operands[-1], simple.cwd)
    ):
        return f"It deletes in {w}."
    return _overwrite(simple, operands[-1])


def _disk(simple: Simple) -> str:
    """Programs that write on the device they are given, unless they only list."""
    values = [word.value for word in simple.words[1:]]
    listing = {
        "-l",
        "--list",
        "-p",
        "--print",
        "-v",
        "--version",
        "-V",
        "-h",
        "--help",
        "print",
        "-s",
        "--dump",
        "-d",
    }
    paths = [path for v in values if (path := simple.places.absolute(v, simple.cwd))]
    if any(simple.places.device(path) for path in paths) and not listing & set(values):
        return "It writes on a device."
    return ""


def _parted(simple: Simple) -> str:
    values = {word.value for word in simple.words[1:]}
    changes = {
        "mklabel",
        "mktable",
        "mkpart",
        "mkpartfs",
        "mkfs",
        "rm",
        "resizepart",
        "resize",
        "set",
        "name",
        "rescue",
    }
    if values & changes:
        return "It changes the partitions of a device."
    return _disk(simple)


def _wipefs(simple: Simple) -> str:
    wipes = {"a", "o"} & set(_letters(simple.words[1:])) or any(
        x.value in {"--all"} for x in simple.words
    )
    if wipes and "n" not in _letters(simple.words[1:]):
        return "It wipes the signatures of a device."
    return ""


def _says(pattern: str, why: str) -> Callable[[Simple], str]:
    """Check the arguments of a command, joined by single spaces, for a pattern."""
    wanted = re.compile(pattern)

    def check(simple: Simple) -> str:
        if wanted.search(" ".join(word.value for word in simple.words[1:])):
            return why
        return ""

    return check


def _always(why: str) -> Callable[[Simple], str]:
    def check(simple: Simple) -> str:
        asks = {word.value for word in simple.words[1:]} & {
            "--help",
            "--version",
            "-c",
            "--show",
            "-w",
            "--wtmp-only",
        }
        return "" if asks else why

    return check


def _kill(simple: Simple) -> str:
    values = [word.value for word in simple.words[1:]]
    if values and values[0] in {"-l", "-L", "--list"}:
        return ""
    if values[:1] in (["-0"], ["-EXIT"]) or values[:2] in (
        ["-s", "0"],
        ["-n", "0"],
        ["--signal", "0"],
    ):
        return ""  # it only asks whether the process is there
    if values and re.fullmatch(r"-(s|n|-signal)", values[0]):
        values = values[2:]
    elif values and re.fullmatch(r"-(-signal=)?([A-Za-z]\w*|\d+).*", values[0]):
        values = values[1:]
    if {"-1", "1"} & set(values):
        if "-1" in values:
            return "It ends every process."
        return "It ends the first process of the system."
    return ""


def _pkill(simple: Simple) -> str:
    words = simple.words[1:]
    patterns = [word.value for word in _operands(words)]
    everyone = any(
        re.fullmatch(r"-\w*[uU]\w*|--e?uid|--user|-v|--inverse", word.value) for word in words
    )
    everything = any(re.fullmatch(r"\^?(\.[*+]?|\(?\.\*\)?|)\$?", pattern) for pattern in patterns)
    named = [p for p in patterns if not p.isdigit() and not re.fullmatch(r"[A-Z]+", p)]
    if everything or (everyone and len(named) <= 1):
        return "It ends every process of a user, or of the system."
    if any(p in {"init", "systemd", "sshd", "launchd", "dbus-daemon"} for p in patterns):
        return "It ends a process that the system needs."
    return ""


def _systemctl(simple: Simple) -> str:
    values = [word.value for word in _operands(simple.words[1:])]
    verb = (values or [""])[0]
    units = {v.removesuffix(".service").removesuffix(".target") for v in values[1:]}
    powers = {
        "poweroff",
        "reboot",
        "halt",
        "kexec",
        "rescue",
        "emergency",
        "suspend",
        "hibernate",
        "soft-reboot",
        "exit",
    }
    if verb in powers or (
        verb in {"isolate", "start"} and units & (powers | {"runlevel0", "runlevel6", "shutdown"})
    ):
        return "It stops or restarts the machine."
    if verb in {"stop", "disable", "mask", "kill"} and units & _FIREWALLS:
        return "It switches the firewall off."
    if (
        program(simple.words[0]) == "service"
        and verb in _FIREWALLS
        and {"stop", "disable"} & set(values[1:])
    ):
        return "It switches the firewall off."
    return ""


def _crontab(simple: Simple) -> str:
    values = [word.value for word in simple.words[1:]]
    if (
        "-l" in values
        or "-e" in values
        or not values
        or set(values) & {"--help", "-V", "--version", "-h"}
    ):
        return ""
    return "It replaces or removes the user's crontab."


def _tar(simple: Simple) -> str:
    words = simple.words[1:]
    letters = (
        words[0].value.lstrip("-") if words and not words[0].value.startswith("--") else ""
    ) + _letters(words)
    if "x" in letters or any(word.value in {"--extract", "--get"} for word in words):
        for n, word in enumerate(words):
            if word.value.startswith("--directory="):
                folder = word.value.removeprefix("--directory=")
            else:
                folder = ""
            if word.value in {"-C", "--directory", "-d"} and n + 1 < len(words):
                folder = words[n + 1].value
            if folder and simple.places.absolute(folder, simple.cwd) == "/":
                return "It unpacks over the whole system."
            if folder and (what := _overwrite(simple, Word(folder))):
                return what
    if "--remove-files" in {word.value for word in words}:
        lost = (what for word in _operands(words) if (what := simple.places.ruin(word, simple.cwd)))
        return next((f"It deletes {what}." for what in lost), "")
    return ""


def _git(simple: Simple) -> str:
    values = [word.value for word in simple.words[1:]]
    if "clean" in values and "-C" in values:
        if values.index("-C") + 1 < len(values):
            folder = values[values.index("-C") + 1]
        else:
            folder = ""
        path = simple.places.absolute(folder, simple.cwd)
        if path in {"/", simple.places.home} and "f" in _letters(simple.words[1:]):
            return f"It deletes in {path}."
    return ""


def _perl(simple: Simple) -> str:
    if any(
        re.search(r"\bfork\s*(\(\s*\))?\s*while\s*(\(?\s*)(fork|1|true)\b", word.value)
        for word in simple.words
    ):
        return "It starts processes without end (a fork bomb)."
    return ""


_REMOVERS = frozenset("rm grm shred srm wipe rimraf trash".split())
_PRUNES = r"\bgc\b.*--prune|(^| )prune( |$)|\brepack\b.*--unpack-unreachable"
_HISTORY = "It destroys what Git keeps of earlier work."
_DATA = "It deletes data for good."
_GRAVE: dict[str, tuple[tuple[str, str], ...]] = {
    "git": (
        (r"(^| )(filter-branch|filter-repo)\b", _HISTORY),
        (r"(^| )reflog (expire|delete)\b", _HISTORY),
        (r"(^| )gc\b.*--prune=(now|all|0)", _HISTORY),
        (r"(^| )prune( (?!-n|--dry-run)|$)", _HISTORY),
        (r"(^| )update-ref\b.* ?(-d|--delete|--stdin)\b", _HISTORY),
        (r"(^| )stash (clear|drop)\b", _HISTORY),
        (
            r"(^| )push\b.*( --mirror| --prune| --delete | -d | \+\S| :\S)",
            "It deletes or overwrites branches elsewhere.",
        ),
        (r"(^| )push\b.*( --force\b(?!-with)| -\w*f\w*( |$))", "It overwrites history elsewhere."),
    ),
    "git-filter-repo": ((r"", _HISTORY),),
    "bfg": ((r"", _HISTORY),),
    "docker": (
        (
            (
                r"\b(system|volume|image|container) prune\b|\bvolume rm\b|\bcompose"
                r" .*down\b.*(-v|--volumes)"
            ),
            _DATA,
        ),
    ),
    "podman": ((r"\b(system|volume) (prune|reset)\b|\bvolume rm\b", _DATA),),
    "kubectl": ((r"(^| )delete\b", "It deletes what runs in a cluster."),),
    "helm": ((r"(^| )(uninstall|delete)\b", "It deletes what runs in a cluster."),),
    **dict.fromkeys(
        "terraform tofu".split(),
        ((r"(^| )destroy\b|-destroy\b|state rm\b", "It destroys infrastructure."),),
    ),
    "pulumi": ((r"(^| )(destroy|stack rm)\b", "It destroys infrastructure."),),
    "aws": (
        (
            r"\b(delete|terminate|remove)-\w+|\bs3 (rb|rm)\b|s3 sync.*--delete",
            "It deletes in the cloud.",
        ),
    ),
    **dict.fromkeys(
        "gcloud az gsutil doctl flyctl fly heroku".split(),
        ((r"\b(delete|destroy|rm|purge)\b", "It deletes in the cloud."),),
    ),
    "gh": (
        (
            r"\b(repo|release|gist|run|secret|variable) delete\b|-X ?DELETE|--method ?DELETE",
            "It deletes on GitHub.",
        ),
    ),
    "dropdb": ((r"", _DATA),),
    **dict.fromkeys(
        "psql mysql mariadb sqlite3 clickhouse-client".split(),
        (
            (
                (
                    r"(?i)\b(drop|truncate) (database|schema|table)\b|\btruncate \w+|\bdelete from"
                    r" \w+ *(;|$)"
                ),
                _DATA,
            ),
        ),
    ),
    "mysqladmin": ((r"(^| )drop\b", _DATA),),
    "redis-cli": ((r"(?i)\bflush(all|db)\b", _DATA),),
    **dict.fromkeys("mongo mongosh".split(), ((r"dropDatabase|\.drop\(|deleteMany\(\{\}", _DATA),)),
    **dict.fromkeys(
        "npm yarn pnpm".split(),
        ((r"(^| )(unpublish|deprecate)\b", "It withdraws what was published."),),
    ),
    "cargo": ((r"(^| )yank\b", "It withdraws what was published."),),
    "zfs": ((r"^(destroy|rollback)\b", _DATA),),
    "redis-server": ((r"--flush", _DATA),),
}
_POWER = _always("It stops or restarts the machine.")
_USERS = "It changes the users of the machine."
_CHECKS: dict[str, Callable[[Simple], str]] = {
    **dict.fromkeys("rm grm unlink shred rmtree srm trash rimraf del".split(), _remove),
    **dict.fromkeys("mv gmv".split(), _move),
    **dict.fromkeys("cp gcp install ln scp".split(), _copy),
    **dict.fromkeys("tee truncate touch mkdir".split(), _each_written),
    **dict.fromkeys("chmod chown chgrp chattr setfacl gchmod gchown chflags".split(), _rights),
    **dict.fromkeys("shutdown reboot poweroff halt".split(), _POWER),
    **dict.fromkeys(
        "init telinit".split(), _says(r"^(0|6|1|s|S)$", "It stops or restarts the machine.")
    ),
    **dict.fromkeys("systemctl service".split(), _systemctl),
    **dict.fromkeys(
        "mke2fs mkswap blkdiscard fdisk gdisk sgdisk sfdisk cfdisk partprobe".split(), _disk
    ),
    **dict.fromkeys("pkill killall skill".split(), _pkill),
    **dict.fromkeys("sed gsed".split(), _sed),
    **dict.fromkeys("tar bsdtar gtar".split(), _tar),
    **dict.fromkeys(
        "iptables ip6tables iptables-legacy iptables-nft".split(),
        _says(
            r"(^| )(-F|-X|--flush|--delete-chain)( |$)|(^| )(-P|--policy) (INPUT|FORWARD|OUTPUT)"
            r" ACCEPT",
            "It switches the firewall off.",
        ),
    ),
    "parted": _parted,
    "wipefs": _wipefs,
    "umount": _says(r"(^| )-\w*a|--all", "It unmounts every file system."),
    "swapoff": _says(r"(^| )-\w*a|--all", "It switches off all swap space."),
    "dmsetup": _says(r"^remove_all\b", "It removes volumes."),
    "btrfs": _says(r"\bsubvolume delete\b", "It deletes a volume."),
    "dd": _dd,
    "rsync": _rsync,
    "kill": _kill,
    "killall5": _always("It ends every process."),
    "crontab": _crontab,
    "git": _git,
    "perl": _perl,
    "sort": _option_written("-o", "--output"),
    "curl": _option_written("-o", "--output"),
    "wget": _option_written("-O", "--output-document", "-P", "--directory-prefix"),
    "unzip": _option_written("-d"),
    "nft": _says(r"\b(flush|delete) ruleset|\bflush table", "It switches the firewall off."),
    "ufw": _says(r"\b(disable|reset)\b", "It switches the firewall off."),
    "pfctl": _says(r"(^| )-(d|F)", "It switches the firewall off."),
    "setenforce": _says(r"^(0|[Pp]ermissive)$", "It switches the system's protection off."),
    "csrutil": _says(r"^disable", "It switches the system's protection off."),
    "spctl": _says(r"--(master|global)-disable", "It switches the system's protection off."),
    "netsh": _says(
        r"(?i)advfirewall .*state off|firewall .*disable", "It switches the firewall off."
    ),
    "hdparm": _says(
        r"--security-erase|--trim-sector|--make-bad-sector|--write-sector", "It erases a device."
    ),
    "nvme": _says(r"^(format|sanitize)\b", "It erases a device."),
    "cryptsetup": _says(r"\b(luksFormat|erase|luksErase|reencrypt)\b", "It erases a device."),
    "badblocks": _says(r"(^| )-\w*w", "It erases a device."),
    "diskutil": _says(
        r"(?i)^(apfs delete|erase|partitiondisk|zerodisk|randomdisk|secureerase|reformat)",
        "It erases a device.",
    ),
    "mdadm": _says(r"--zero-superblock", "It erases a device."),
    "zpool": _says(r"^(destroy|labelclear)\b", "It destroys a pool of disks."),
    "zfs": _says(r"^destroy\b.*(^| )-\w*[rR]", "It destroys file systems."),
    "vgremove": _always("It removes volumes."),
    "lvremove": _always("It removes volumes."),
    "pvremove": _always("It removes volumes."),
    "userdel": _always(_USERS),
    "deluser": _always(_USERS),
}
