"""The names of programs, and those that run the rest of their line."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator

from hilum_guard.words import Word

SHELLS = frozenset("sh bash dash zsh ksh mksh ash fish rbash busybox-sh".split())

# Commands that run the rest of their line: short options that take a value, operands before the
# command.
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
LONG_VALUES = frozenset(
    """--user --group --signal --kill-after --adjustment --unset --chdir --split-string --prompt --host --root --interval
    --setuid --setgid --target --unit --property --class --classdata --argv0""".split()
)
# Programs with sub-commands that run the rest of the line; an empty one stands for the program
# itself.
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
# The same for programs that fetch and run others, or set up an environment first.
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


def program(word: Word) -> str:
    """Return the name of the program a command word means, folded."""
    value = word.value
    if word.glob and "/" in value:
        import glob

        value = next(glob.iglob(value), value)
    name = os.path.basename(value.rstrip("/")).casefold()
    return name.removesuffix(".exe")


def operands_at(words: tuple[Word, ...], valued: str, i: int = 1) -> int:
    """Return the position of the first word after the options."""
    while i < len(words) and words[i].value.startswith("-") and words[i].value != "-":
        text = words[i].value
        i += 1
        if text == "--":
            break
        if text.startswith("--"):
            i += text in LONG_VALUES
        elif at := next((n for n, c in enumerate(text[1:], 2) if c in valued), 0):
            i += at == len(text)
    return i


def later_starts(words: tuple[Word, ...], valued: str, at: int) -> Iterator[int]:
    """Yield where a command may begin as well: an option before it that is not known may take a
    value.

    Args:
        words: The words of the command that runs another one.
        valued: Its short options that take a value.
        at: Where the other command begins if no option that is not known takes one.
    """
    while 1 < at < len(words):
        option = words[at - 1].value
        if option == "--" or not option.startswith("-") or "=" in option or option in LONG_VALUES:
            return
        at = operands_at(words, valued, at + 1)
        if at < len(words):
            yield at


def rejoined(words: tuple[Word, ...]) -> str:
    """Write words as text that reads as the same words, patterns left open."""
    return " ".join(word.value if word.glob else shlex.quote(word.value) for word in words)
