"""Find a command's program and operands, with tables of programs that run other programs."""

from __future__ import annotations

import glob
import os
import shlex
from collections.abc import Container, Iterator, Sequence

from hilum_guard.shell_words import Word

SHELLS = frozenset("sh bash dash zsh ksh mksh ash fish rbash busybox-sh".split())

# Programs that run the rest of their line: the short options that take a value, and how many
# operands precede the command. A 9 marks programs whose command is not the rest of the line.
PREFIXES: dict[str, tuple[str, int]] = {
    "sudo": ("ugpCrtTUhRD", 0),
    "doas": ("uC", 0),
    "pkexec": ("u", 0),
    "env": ("uCS", 0),
    "nohup": ("", 0),
    "timeout": ("ks", 1),
    "gtimeout": ("ks", 1),
    "nice": ("n", 0),
    "ionice": ("cnpt", 0),
    "setsid": ("", 0),
    "stdbuf": ("ioe", 0),
    "time": ("fo", 0),
    "command": ("", 0),
    "builtin": ("", 0),
    "exec": ("a", 0),
    "chroot": ("", 1),
    "watch": ("n", 0),
    "strace": ("abeEIoOpPsSuX", 0),
    "ltrace": ("aeFlnopsuxX", 0),
    "unshare": ("RSGw", 0),
    "nsenter": ("tSG", 0),
    "systemd-run": ("uptHME", 0),
    "taskset": ("", 1),
    "chrt": ("TPD", 1),
    "flock": ("wE", 1),
    "busybox": ("", 0),
    "toybox": ("", 0),
    "caffeinate": ("tw", 0),
    "fakeroot": ("", 0),
    "unbuffer": ("", 0),
    "proxychains": ("f", 0),
    "proxychains4": ("f", 0),
    "firejail": ("", 0),
    "setpriv": ("", 0),
    "runuser": ("ugGc", 0),
    "prlimit": ("p", 0),
    "numactl": ("CNmip", 0),
    "catchsegv": ("", 0),
    "coproc": ("", 0),
    "script": ("cEIOBTm", 9),
    "arch": ("d", 0),
    "setarch": ("", 1),
    "linux64": ("", 0),
    "softlimit": ("", 0),
    "dbus-run-session": ("", 0),
    "capsh": ("", 9),
    "then": ("", 0),
    "gosu": ("", 1),
    "su-exec": ("", 1),
    "daemonize": ("", 0),
    "entr": ("", 0),
    "rlwrap": ("", 0),
    "winpty": ("", 0),
    "chronic": ("", 0),
    "ts": ("", 9),
    "sshpass": ("pfde", 0),
    "torsocks": ("", 0),
    "faketime": ("f", 1),
    "xvfb-run": ("nsefpw", 0),
    "start-stop-daemon": ("", 9),
    "valgrind": ("", 0),
    "perf": ("", 1),
    "hyperfine": ("", 0),
    "dotenv": ("f", 0),
}
# These programs' long options that take the next word as their value.
LONG_VALUES = frozenset(
    """--user --group --signal --kill-after --adjustment --unset --chdir --split-string --prompt
    --host --root --interval --setuid --setgid --target --unit --property --class --classdata
    --argv0""".split()
)
# Sub-commands that run the rest of the line.
RUNNERS: dict[str, tuple[str, ...]] = {
    "uv": ("run",),
    "poetry": ("run",),
    "pipenv": ("run",),
    "hatch": ("run",),
    "pdm": ("run",),
    "rye": ("run",),
    "conda": ("run",),
    "bundle": ("exec",),
    "direnv": ("exec",),
}
# The same for programs that first download the command or set up an environment; an empty
# sub-command means the program itself.
LAUNCHERS: dict[str, tuple[str, ...]] = {
    "uvx": ("",),
    "npx": ("",),
    "bunx": ("",),
    "pnpx": ("",),
    "pipx": ("run",),
    "npm": ("exec", "x"),
    "pnpm": ("exec", "dlx"),
    "yarn": ("exec", "dlx"),
    "bun": ("x",),
    "mise": ("exec", "x"),
    "asdf": ("exec",),
    "rbenv": ("exec",),
    "pyenv": ("exec",),
    "nodenv": ("exec",),
    "volta": ("run",),
    "fnm": ("exec",),
    "op": ("run",),
    "doppler": ("run",),
    "aws-vault": ("exec",),
    "infisical": ("run",),
    "dotenvx": ("run",),
    "cross-env": ("",),
    "env-cmd": ("",),
    "micromamba": ("run",),
    "mamba": ("run",),
    "tox": ("exec",),
    "pixi": ("run",),
    "nix-shell": ("",),
    "devbox": ("run",),
    "lerna": ("exec",),
}


def get_program_name(word: Word) -> str:
    """Return the name of the program that a word runs, in lower case."""
    value = word.value
    if word.glob and "/" in value:
        # `/bin/r?` runs the first file that matches.
        value = next(glob.iglob(value), value)
    # On a file system that ignores case, `RM` runs `rm`.
    name = os.path.basename(value.rstrip("/")).casefold()
    return name.removesuffix(".exe")


def find_word(words: Sequence[Word], values: Container[str], start: int = 0) -> int:
    """Return the position of the first word with one of the given values, or the end."""
    for at in range(start, len(words)):
        if words[at].value in values:
            return at
    return len(words)


def find_first_operand(words: tuple[Word, ...], valued: str, start: int = 1) -> int:
    """Return the position of the first word after the options.

    Args:
        words: The words of a command.
        valued: The short options that take a value.
        start: The position at which the options begin.
    """
    at = start
    while at < len(words):
        text = words[at].value
        if not text.startswith("-") or text == "-":
            break
        at += 1
        if text == "--":
            break
        if text.startswith("--"):
            at += text in LONG_VALUES
        else:
            at += _takes_next_word(text, valued)
    return at


def _takes_next_word(cluster: str, valued: str) -> bool:
    """Return whether the last option of a cluster takes the next word as its value."""
    for position, letter in enumerate(cluster[1:], 2):
        if letter in valued:
            return position == len(cluster)
    return False


def find_later_starts(words: tuple[Word, ...], valued: str, start: int) -> Iterator[int]:
    """Yield the other positions at which a command may begin, after unknown options with a value.

    Args:
        words: The words of the command that runs another one.
        valued: That command's short options that take a value.
        start: The position at which the other command begins if no unknown option takes a value.
    """
    at = start
    while 1 < at < len(words):
        option = words[at - 1].value
        if option == "--" or not option.startswith("-") or "=" in option or option in LONG_VALUES:
            return
        at = find_first_operand(words, valued, at + 1)
        if at < len(words):
            yield at


def quote_words(words: tuple[Word, ...]) -> str:
    """Return shell text that a shell splits into the same words; glob patterns stay active."""
    return " ".join(word.value if word.glob else shlex.quote(word.value) for word in words)
