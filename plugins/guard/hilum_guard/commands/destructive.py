"""Find commands that are certainly destructive, and those that always need the user's approval.

A *destructive* command and its target are written literally, and nobody wants an agent to run it,
so hilum blocks it. A *grave* command may be intended but cannot be undone (for example, it deletes
all files in the workspace, the local history or a database), so it needs approval under every
policy.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatch

from hilum_guard.commands.path_checks import SYSTEM, is_secret
from hilum_guard.commands.shell_commands import ParsedCommand
from hilum_guard.commands.shell_words import UNKNOWN, Word
from hilum_guard.effects.program_files import get_download_syntax
from hilum_guard.file_names import folded
from hilum_guard.programs.options import SYNTAX, Parsed, Syntax, parse, valued_only
from hilum_guard.programs.program_names import get_program_name

_Check = Callable[[ParsedCommand], str]
"""Returns what a command certainly destroys, as a sentence; empty if nothing."""

_FIREWALL_OFF = "It switches the firewall off."
_MACHINE_OFF = "It stops or restarts the machine."
_HELP = frozenset(("--help", "-h", "-V", "--version"))
_FIREWALLS = frozenset("firewalld ufw nftables iptables ip6tables apparmor fail2ban".split())
_ALL_PROCESSES = re.compile(r"(^| )(-\w*[eA]\w*|-?\w*a\w*x\w*|-?\w*x\w*a\w*|-\w*[uU] ?\w+)( |$)")
_MATCHES_EVERYTHING = re.compile(r"(-\w+ )*(\.\*?|\^|''|)")
_POWER_TARGETS = frozenset(
    "poweroff reboot halt kexec rescue emergency suspend hibernate soft-reboot exit".split()
)
_POWER_UNITS = _POWER_TARGETS | {"runlevel0", "runlevel6", "shutdown"}
_DISK_LISTINGS = frozenset(
    "-l --list -p --print -v --version -V -h --help print -s --dump -d".split()
)
_PARTITION_CHANGES = frozenset(
    "mklabel mktable mkpart mkpartfs mkfs rm resizepart resize set name rescue".split()
)
_SYSTEM_PROCESSES = frozenset("init systemd sshd launchd dbus-daemon".split())
_VALUED = {
    "curl": get_download_syntax("curl"),
    "wget": get_download_syntax("wget"),
    "unzip": valued_only(frozenset(("-d", "-x", "-P"))),
}


def find_destruction(command: ParsedCommand) -> str:
    """Return what a command certainly destroys, as a sentence; empty if nothing."""
    for redirect in command.redirects:
        if ">" in redirect.operator:
            why = _check_overwrite(command, redirect.target)
            if why:
                return why
    if not command.words:
        return ""
    name = get_program_name(command.words[0])
    if (
        name.startswith(("mkfs", "newfs"))
        and len(command.words) > 1
        and not _asks_for_help(command)
    ):
        return "It creates a new file system, which erases everything on the device."
    check = _CHECKS.get(name)
    return check(command) if check else ""


def find_grave_effect(command: ParsedCommand, *, in_script: bool = False) -> str:
    """Return why a command needs approval under every policy; empty if it does not.

    Args:
        command: The command.
        in_script: Whether the command is in a script. Scripts routinely delete folders that only a
            variable names, so only such a command in a command line needs approval.
    """
    if not command.words:
        return ""
    name = get_program_name(command.words[0])
    if name in _REMOVERS:
        return _find_grave_removal(command, name, in_script=in_script)
    text = _join_git_words(command) if name == "git" else " ".join(command.arguments)
    # Words in a quoted statement (such as an SQL statement) may be separated by any amount and kind
    # of whitespace.
    text = " ".join(text.split())
    for pattern, why in _GRAVE.get(name, ()):
        if re.search(pattern, text) and not _asks_for_help(command):
            return why
    return ""


def _join_git_words(command: ParsedCommand) -> str:
    """Return Git's arguments as text, without commit messages and shell text.

    Sub-commands, options and branch names contain no blanks. ``command_runners`` reads the text
    that Git passes to a shell.
    """
    return " ".join(value for value in command.arguments if len(value.split()) == 1)


def _find_grave_removal(command: ParsedCommand, name: str, *, in_script: bool) -> str:
    recursive = _is_recursive(command)
    for word in _operands(command):
        if (recursive or word.tree) and command.checker.ruin(word, command.cwd):
            return "It deletes everything in the workspace."
        if recursive and _may_match_git(word):
            return "It may delete the Git history."
        if recursive and not in_script and _is_decided_at_run_time(word):
            return "It deletes a folder that is known only when the command runs."
        path = command.checker.absolute(word.value, command.cwd)
        if path and name in {"shred", "srm", "wipe"} and is_secret(path):
            return f"It destroys {path}, which may be a key."
    return ""


def _may_match_git(word: Word) -> bool:
    """Return whether a shell pattern may match the folder ``.git``."""
    parts = word.value.split("/")
    # Only a glob pattern that begins with a dot matches hidden names.
    return word.glob and any(part.startswith(".") and fnmatch(".git", part) for part in parts)


def _is_decided_at_run_time(word: Word) -> bool:
    """Return whether an unknown value alone determines the folder that a word refers to.

    If `$DIR` is empty or the workspace, `"$DIR"/*` matches everything that the command can write.
    With a named folder, as in `"$DIR"/build`, this cannot happen.
    """
    # The names that a `find` finds are judged by the folders that it searches.
    if word.known or word.placeholder:
        return False
    parts = word.value.split("/")
    if ".git" in parts or ".." in parts:
        return True
    named = [part for part in parts if part.strip(f".*?{UNKNOWN}")]
    return not named


def find_history_loss(commands: Sequence[ParsedCommand]) -> str:
    """Return why the commands together permanently delete Git history; empty if they do not."""
    texts = []
    for command in commands:
        if command.words and get_program_name(command.words[0]) == "git":
            texts.append(_join_git_words(command))
    forgets = any(re.search(r"\breflog (expire|delete)\b", text) for text in texts)
    prunes = any(re.search(_PRUNES, text) for text in texts)
    # After only expiring the reflog or only pruning, the commits can still be recovered.
    if forgets and prunes:
        return "It deletes Git's record of earlier work (reflog and unreachable commits)."
    return ""


# --- all processes --------------------------------------------------------------------------------


def find_mass_kill(commands: Sequence[ParsedCommand]) -> str:
    """Return why the commands together end every process; empty if they do not.

    The commands end every process if `kill` receives a list of all processes.
    """
    if not any(map(_kills_unknown, commands)):
        return ""
    with_words = [command for command in commands if command.words]
    # A filter anywhere in the text may shorten the process list, so the command is not blocked.
    if any(map(_selects_processes, with_words)):
        return ""
    if any(map(_lists_all_processes, with_words)):
        return "It ends every process that it finds."
    return ""


def _kills_unknown(command: ParsedCommand) -> bool:
    if not command.words or get_program_name(command.words[0]) not in {"kill", "skill"}:
        return False
    return any(not word.known or word.glob for word in _operands(command))


def _selects_processes(command: ParsedCommand) -> bool:
    """Return whether a command filters a list of processes."""
    name = get_program_name(command.words[0])
    text = " ".join(command.arguments)
    if name in {"grep", "egrep", "rg", "pidof", "lsof", "fuser"}:
        return re.search(r"(^| )-\w*v", text) is None
    return name in {"awk", "gawk", "sed"} and re.search(r"/[^/]+/|==|~", text) is not None


def _lists_all_processes(command: ParsedCommand) -> bool:
    if any(word.glob and word.value.startswith("/proc/[") for word in command.words):
        return True
    name = get_program_name(command.words[0])
    text = " ".join(command.arguments)
    match name:
        case "ps":
            return bool(_ALL_PROCESSES.search(text)) and not re.search(r"-[pCG]|--p", text)
        case "pgrep":
            return _MATCHES_EVERYTHING.fullmatch(text) is not None
        case "kill":
            return any(word.glob for word in command.words)
        case "ls" | "find":
            return text.strip().rstrip("/") == "/proc"
    return False


# --- words ----------------------------------------------------------------------------------------


def _asks_for_help(command: ParsedCommand) -> bool:
    return not _HELP.isdisjoint(command.arguments)


def _option_letters(command: ParsedCommand) -> str:
    """Return the letters of a command's short options, joined; `R` stands for ``--recursive``."""
    letters = ""
    for text in command.arguments:
        if text == "--":
            break
        if text.startswith("--"):
            # Long options may be abbreviated.
            letters += "R" if len(text) > 2 and "--recursive".startswith(text) else ""
        elif text.startswith("-"):
            letters += text[1:]
    return letters


def _is_recursive(command: ParsedCommand) -> bool:
    return not set(_option_letters(command)).isdisjoint("rR")


def _operands(command: ParsedCommand) -> Iterator[Word]:
    """Yield the words that are not options."""
    ended = False
    for word in command.words[1:]:
        if ended or not word.value.startswith("-") or word.value == "-":
            yield word
        ended = ended or word.value == "--"


def _parse_options(command: ParsedCommand) -> tuple[Parsed, list[Word]]:
    """Return a command's options, and its operands as words."""
    name = get_program_name(command.words[0])
    syntax = SYNTAX.get(name) or _VALUED.get(name, Syntax())
    parsed = parse(command.arguments, syntax)
    return parsed, [command.words[position + 1] for position in parsed.positions]


# --- files ----------------------------------------------------------------------------------------


def _check_removal(command: ParsedCommand) -> str:
    recursive = _is_recursive(command)
    for word in _operands(command):
        lost = _find_removed(command, word, recursive or word.tree)
        if lost:
            return f"It deletes {lost}."
    return ""


def _find_removed(command: ParsedCommand, word: Word, recursive: bool) -> str:
    """Return a description of the vital files that an `rm` operand deletes; empty if none."""
    checker = command.checker
    lost = checker.ruin(word, command.cwd)
    # `rm -rf *` in the workspace is grave, but the Git history survives.
    if recursive and lost and not _means_only_contents(command, word):
        return lost
    path = checker.absolute(word.value, command.cwd)
    lost_file = _find_removed_file(command, path, recursive) if path else ""
    if word.glob and not lost_file and not lost.startswith("the workspace"):
        return lost
    return lost_file


def _find_removed_file(command: ParsedCommand, path: str, recursive: bool) -> str:
    checker = command.checker
    keys = checker.own_keys(path)
    if keys:
        return keys
    folder = checker.guarded(path) or checker.device(path)
    if folder:
        return f"files in {folder}"
    # Git leaves lock files behind, and removing them is routine.
    if recursive and ".git" in path.split("/") and not path.endswith(".lock"):
        return f"the history in {path}"
    return ""


def _means_only_contents(command: ParsedCommand, word: Word) -> bool:
    """Return whether a word refers to the files in the workspace, but not to its folder or history.

    Examples are `*` and `./*`.
    """
    checker = command.checker
    path = checker.absolute(word.value, command.cwd)
    if not word.glob or path is None or os.path.basename(path).startswith("."):
        return False
    if checker.workspace == checker.home or folded(checker.workspace) in SYSTEM:
        return False
    return os.path.dirname(path) == checker.workspace


def _check_move(command: ParsedCommand) -> str:
    parsed, operands = _parse_options(command)
    folders = [Word(value) for value in parsed.values("-t", "--target-directory")]
    *sources, target = [*operands, *folders] or [Word("")]
    for word in sources:
        lost = command.checker.ruin(word, command.cwd)
        if lost and not (word.glob and lost.startswith("the workspace")):
            return f"It moves {lost} away."
        if word.glob and command.checker.absolute(target.value, command.cwd) == "/dev/null":
            return "It moves files to /dev/null, where they are lost."
    return _check_overwrite(command, target)


def _check_overwrite(command: ParsedCommand, word: Word) -> str:
    damaged = command.checker.overwritten(word, command.cwd)
    return f"It writes to {damaged}." if damaged else ""


def _check_overwrites(command: ParsedCommand, words: Iterable[Word]) -> str:
    """Return why overwriting any of the given files is destructive; empty if it is not."""
    for word in words:
        why = _check_overwrite(command, word)
        if why:
            return why
    return ""


def _check_copy(command: ParsedCommand) -> str:
    parsed, operands = _parse_options(command)
    targets = [Word(value) for value in parsed.values("-t", "--target-directory")]
    if len(operands) > 1:
        targets.append(operands[-1])
    return _check_overwrites(command, targets)


def _check_each_written(command: ParsedCommand) -> str:
    _, operands = _parse_options(command)
    return _check_overwrites(command, operands)


def _check_output_options(*options: str) -> _Check:
    """Return a check for the output files that a command's options name."""

    def check(command: ParsedCommand) -> str:
        parsed, _ = _parse_options(command)
        return _check_overwrites(command, map(Word, parsed.values(*options)))

    return check


def _check_sed(command: ParsedCommand) -> str:
    edits = any(re.match(r"-[nErsuz]*i|--in-place", value) for value in command.arguments)
    return _check_each_written(command) if edits else ""


def _check_dd(command: ParsedCommand) -> str:
    outputs = [value for value in command.arguments if value.startswith("of=")]
    return _check_overwrites(command, [Word(output[3:]) for output in outputs])


def _check_rights(command: ParsedCommand) -> str:
    """Check `chmod`, `chown`, `chgrp`, `chattr` and `setfacl`."""
    recursive = "R" in _option_letters(command)
    for word in _operands(command):
        path = command.checker.absolute(word.value, command.cwd)
        # A word without a slash may be a mode or an owner.
        if path is not None and (recursive or "/" in word.value):
            why = _find_changed_rights(command, word, path, recursive)
            if why:
                return why
    return ""


def _find_changed_rights(command: ParsedCommand, word: Word, path: str, recursive: bool) -> str:
    checker = command.checker
    changed = checker.ruin(word, command.cwd)
    is_own = changed.startswith("the workspace (") or _is_in_workspace(command, path)
    if recursive and changed and not is_own:
        return f"It changes the permissions of {changed}."
    if not changed.startswith("the system"):
        changed = checker.guarded(path) or checker.device(path)
    return f"It changes permissions in {changed}." if changed else ""


def _is_in_workspace(command: ParsedCommand, path: str) -> bool:
    workspace = command.checker.workspace
    return path == workspace or path.startswith(f"{workspace}/")


def _check_rsync(command: ParsedCommand) -> str:
    operands = list(_operands(command))
    if len(operands) < 2:
        return ""
    if any(word.value.startswith("--del") for word in command.words):
        lost = command.checker.ruin(operands[-1], command.cwd)
        if lost:
            return f"It deletes files in {lost}."
    return _check_overwrite(command, operands[-1])


def _check_tar(command: ParsedCommand) -> str:
    words = command.arguments
    bundled = words[0].lstrip("-") if words and not words[0].startswith("--") else ""
    extracts = not {"--extract", "--get"}.isdisjoint(words)
    if extracts or "x" in bundled + _option_letters(command):
        for folder in _find_tar_folders(words):
            if command.checker.absolute(folder, command.cwd) == "/":
                return "It unpacks an archive over the whole system."
            why = _check_overwrite(command, Word(folder))
            if why:
                return why
    if "--remove-files" in words:
        for word in _operands(command):
            lost = command.checker.ruin(word, command.cwd)
            if lost:
                return f"It deletes {lost}."
    return ""


def _find_tar_folders(words: list[str]) -> Iterator[str]:
    """Yield the folders into which `tar` unpacks."""
    for at, word in enumerate(words):
        if word.startswith("--directory="):
            yield word.removeprefix("--directory=")
        elif word in {"-C", "--directory", "-d"}:
            yield from words[at + 1 : at + 2]


def _check_git(command: ParsedCommand) -> str:
    values = command.arguments
    if "clean" not in values or "-C" not in values:
        return ""
    folder = "".join(values[values.index("-C") + 1 :][:1])
    path = command.checker.absolute(folder, command.cwd)
    if path in {"/", command.checker.home} and "f" in _option_letters(command):
        return f"It deletes files in {path}."
    return ""


# --- devices --------------------------------------------------------------------------------------


def _check_disk(command: ParsedCommand) -> str:
    """Check programs that write to a device, unless they only list its contents."""
    values = command.arguments
    if not _DISK_LISTINGS.isdisjoint(values):
        return ""
    for value in values:
        path = command.checker.absolute(value, command.cwd)
        if path and command.checker.device(path):
            return "It writes to a device."
    return ""


def _check_parted(command: ParsedCommand) -> str:
    if not _PARTITION_CHANGES.isdisjoint(command.arguments):
        return "It changes the partitions of a device."
    return _check_disk(command)


def _check_wipefs(command: ParsedCommand) -> str:
    letters = set(_option_letters(command))
    wipes = "--all" in command.arguments or not letters.isdisjoint("ao")
    if wipes and "n" not in letters:
        return "It erases the file system signatures on a device."
    return ""


# --- the machine ----------------------------------------------------------------------------------


def _match_arguments(pattern: str, why: str) -> _Check:
    """Return a check that matches the arguments, joined by single spaces, against a pattern."""
    wanted = re.compile(pattern)

    def check(command: ParsedCommand) -> str:
        return why if wanted.search(" ".join(command.arguments)) else ""

    return check


def _unless_help(why: str) -> _Check:
    """Return a check that returns `why`, unless the command only prints help."""
    harmless = frozenset(("--help", "--version", "-c", "--show", "-w", "--wtmp-only"))

    def check(command: ParsedCommand) -> str:
        return why if harmless.isdisjoint(command.arguments) else ""

    return check


def _check_kill(command: ParsedCommand) -> str:
    values = command.arguments
    first = values[0] if values else ""
    if first in {"-l", "-L", "--list"}:
        return ""
    # Signal 0 only checks whether the process exists.
    if first in {"-0", "-EXIT"} or tuple(values[:2]) in _SIGNAL_ZERO:
        return ""
    if re.fullmatch(r"-(s|n|-signal)", first):
        values = values[2:]
    elif re.fullmatch(r"-(-signal=)?([A-Za-z]\w*|\d+).*", first):
        values = values[1:]
    # The process id -1 stands for every process that the user may signal (kill(2)).
    if "-1" in values:
        return "It ends every process."
    return "It ends process 1, on which the system depends." if "1" in values else ""


_SIGNAL_ZERO = frozenset({("-s", "0"), ("-n", "0"), ("--signal", "0")})


def _check_pkill(command: ParsedCommand) -> str:
    patterns = [word.value for word in _operands(command)]
    by_user = re.compile(r"-\w*[uU]\w*|--e?uid|--user|-v|--inverse")
    is_by_user = any(map(by_user.fullmatch, command.arguments))
    is_everything = any(
        re.fullmatch(r"\^?(\.[*+]?|\(?\.\*\)?|)\$?", pattern) for pattern in patterns
    )
    # Numbers and signals are not names; the first other operand is the user's name.
    named = [pattern for pattern in patterns if not re.fullmatch(r"\d+|[A-Z]+", pattern)]
    if is_everything or (is_by_user and len(named) <= 1):
        return "It ends every process of a user, or of the system."
    if not _SYSTEM_PROCESSES.isdisjoint(patterns):
        return "It ends a process that the system needs."
    return ""


def _check_service(command: ParsedCommand) -> str:
    """Check `systemctl VERB UNIT` and `service UNIT VERB`."""
    verb, *rest = [word.value for word in _operands(command)] or [""]
    if get_program_name(command.words[0]) == "service" and verb in _FIREWALLS:
        is_stopped = not {"stop", "disable"}.isdisjoint(rest)
        return _FIREWALL_OFF if is_stopped else ""
    units = {name.removesuffix(".service").removesuffix(".target") for name in rest}
    if verb in _POWER_TARGETS:
        return _MACHINE_OFF
    if verb in {"isolate", "start"} and not units.isdisjoint(_POWER_UNITS):
        return _MACHINE_OFF
    stops = verb in {"stop", "disable", "mask", "kill"}
    return _FIREWALL_OFF if stops and not units.isdisjoint(_FIREWALLS) else ""


def _check_crontab(command: ParsedCommand) -> str:
    values = command.arguments
    if not values or _asks_for_help(command) or not {"-l", "-e"}.isdisjoint(values):
        return ""
    return "It replaces or removes the user's crontab."


def _check_perl(command: ParsedCommand) -> str:
    bomb = re.compile(r"\bfork\s*(\(\s*\))?\s*while\s*(\(?\s*)(fork|1|true)\b")
    if any(bomb.search(word.value) for word in command.words):
        return "It starts processes endlessly (a fork bomb)."
    return ""


_REMOVERS = frozenset("rm grm shred srm wipe rimraf trash".split())
_PRUNES = r"\bgc\b.*--prune|(^| )prune( |$)|\brepack\b.*--unpack-unreachable"
_HISTORY = "It destroys Git's record of earlier work."
_DATA = "It permanently deletes data."
_GRAVE: dict[str, tuple[tuple[str, str], ...]] = {
    "git": (
        (r"(^| )(filter-branch|filter-repo)\b", _HISTORY),
        (r"(^| )reflog (expire|delete)\b", _HISTORY),
        (r"(^| )gc\b.*--prune=(now|all|0)", _HISTORY),
        (r"(^| )prune( (?!-n|--dry-run)|$)", _HISTORY),
        (r"(^| )update-ref\b.* ?(-d|--delete|--stdin)\b", _HISTORY),
        (r"(^| )stash (clear|drop)\b", _HISTORY),
        (
            # A `+` before a refspec forces the update, and `:branch` deletes the branch
            # (git-push(1)).
            r"(^| )push\b.*( --mirror| --prune| --delete | -d | \+\S| :\S)",
            "It deletes or overwrites remote branches.",
        ),
        # `--force-with-lease` is omitted: with it, Git refuses to overwrite commits that are
        # unknown locally.
        (
            r"(^| )push\b.*( --force\b(?!-with)| -\w*f\w*( |$))",
            "It rewrites the history of a remote branch.",
        ),
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
    "kubectl": ((r"(^| )delete\b", "It deletes cluster resources."),),
    "helm": ((r"(^| )(uninstall|delete)\b", "It deletes cluster resources."),),
    **dict.fromkeys(
        "terraform tofu".split(),
        ((r"(^| )destroy\b|-destroy\b|state rm\b", "It destroys infrastructure."),),
    ),
    "pulumi": ((r"(^| )(destroy|stack rm)\b", "It destroys infrastructure."),),
    "aws": (
        (
            r"\b(delete|terminate|remove)-\w+|\bs3 (rb|rm)\b|s3 sync.*--delete",
            "It deletes cloud resources.",
        ),
    ),
    **dict.fromkeys(
        "gcloud az gsutil doctl flyctl fly heroku".split(),
        ((r"\b(delete|destroy|rm|purge)\b", "It deletes cloud resources."),),
    ),
    "gh": (
        (
            r"\b(repo|release|gist|run|secret|variable) delete\b|-X ?DELETE|--method ?DELETE",
            "It deletes data on GitHub.",
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
        ((r"(^| )(unpublish|deprecate)\b", "It withdraws a published package."),),
    ),
    "cargo": ((r"(^| )yank\b", "It withdraws a published package."),),
    "zfs": ((r"^(destroy|rollback)\b", _DATA),),
    "redis-server": ((r"--flush", _DATA),),
}
_POWER = _unless_help(_MACHINE_OFF)
_USERS = "It changes the machine's user accounts."
_CHECKS: dict[str, _Check] = {
    **dict.fromkeys("rm grm unlink shred rmtree srm trash rimraf del".split(), _check_removal),
    **dict.fromkeys("mv gmv".split(), _check_move),
    **dict.fromkeys("cp gcp install ln scp".split(), _check_copy),
    **dict.fromkeys("tee truncate touch mkdir".split(), _check_each_written),
    **dict.fromkeys(
        "chmod chown chgrp chattr setfacl gchmod gchown chflags".split(), _check_rights
    ),
    **dict.fromkeys("shutdown reboot poweroff halt".split(), _POWER),
    **dict.fromkeys(
        "init telinit".split(),
        _match_arguments(r"^(0|6|1|s|S)$", _MACHINE_OFF),
    ),
    **dict.fromkeys("systemctl service".split(), _check_service),
    **dict.fromkeys(
        "mke2fs mkswap blkdiscard fdisk gdisk sgdisk sfdisk cfdisk partprobe".split(), _check_disk
    ),
    **dict.fromkeys("pkill killall skill".split(), _check_pkill),
    **dict.fromkeys("sed gsed".split(), _check_sed),
    **dict.fromkeys("tar bsdtar gtar".split(), _check_tar),
    **dict.fromkeys(
        "iptables ip6tables iptables-legacy iptables-nft".split(),
        _match_arguments(
            r"(^| )(-F|-X|--flush|--delete-chain)( |$)|(^| )(-P|--policy) (INPUT|FORWARD|OUTPUT)"
            r" ACCEPT",
            _FIREWALL_OFF,
        ),
    ),
    "parted": _check_parted,
    "wipefs": _check_wipefs,
    "umount": _match_arguments(r"(^| )-\w*a|--all", "It unmounts every file system."),
    "swapoff": _match_arguments(r"(^| )-\w*a|--all", "It switches off all swap space."),
    "dmsetup": _match_arguments(r"^remove_all\b", "It removes volumes."),
    "btrfs": _match_arguments(r"\bsubvolume delete\b", "It deletes a volume."),
    "dd": _check_dd,
    "rsync": _check_rsync,
    "kill": _check_kill,
    "killall5": _unless_help("It ends every process."),
    "crontab": _check_crontab,
    "git": _check_git,
    "perl": _check_perl,
    "sort": _check_output_options("-o", "--output"),
    "curl": _check_output_options("-o", "--output"),
    "wget": _check_output_options("-O", "--output-document", "-P", "--directory-prefix"),
    "unzip": _check_output_options("-d"),
    "nft": _match_arguments(r"\b(flush|delete) ruleset|\bflush table", _FIREWALL_OFF),
    "ufw": _match_arguments(r"\b(disable|reset)\b", _FIREWALL_OFF),
    "pfctl": _match_arguments(r"(^| )-(d|F)", _FIREWALL_OFF),
    "setenforce": _match_arguments(r"^(0|[Pp]ermissive)$", "It disables system protection."),
    "csrutil": _match_arguments(r"^disable", "It disables system protection."),
    "spctl": _match_arguments(r"--(master|global)-disable", "It disables system protection."),
    "netsh": _match_arguments(r"(?i)advfirewall .*state off|firewall .*disable", _FIREWALL_OFF),
    "hdparm": _match_arguments(
        r"--security-erase|--trim-sector|--make-bad-sector|--write-sector", "It erases a device."
    ),
    "nvme": _match_arguments(r"^(format|sanitize)\b", "It erases a device."),
    "cryptsetup": _match_arguments(
        r"\b(luksFormat|erase|luksErase|reencrypt)\b", "It erases a device."
    ),
    "badblocks": _match_arguments(r"(^| )-\w*w", "It erases a device."),
    "diskutil": _match_arguments(
        r"(?i)^(apfs delete|erase|partitiondisk|zerodisk|randomdisk|secureerase|reformat)",
        "It erases a device.",
    ),
    "mdadm": _match_arguments(r"--zero-superblock", "It erases a device."),
    "zpool": _match_arguments(r"^(destroy|labelclear)\b", "It destroys a storage pool."),
    "zfs": _match_arguments(r"^destroy\b.*(^| )-\w*[rR]", "It destroys file systems."),
    "vgremove": _unless_help("It removes volumes."),
    "lvremove": _unless_help("It removes volumes."),
    "pvremove": _unless_help("It removes volumes."),
    "userdel": _unless_help(_USERS),
    "deluser": _unless_help(_USERS),
}
