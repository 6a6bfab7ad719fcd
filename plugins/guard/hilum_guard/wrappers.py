"""Commands that change what later ones mean (`cd`, `set`), or run others (`sudo`, `bash -c`, `find
-exec`, `ssh` …).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from hilum_guard import distant, indirect
from hilum_guard import words as w
from hilum_guard.printed import printed
from hilum_guard.programs import (
    LAUNCHERS,
    PREFIXES,
    RUNNERS,
    SHELLS,
    later_starts,
    operands_at,
    program,
    rejoined,
)
from hilum_guard.words import UNKNOWN, Word

if TYPE_CHECKING:
    from hilum_guard.reading import Reader
    from hilum_guard.simple import Simple


def follow(reader: Reader, simple: Simple) -> str | None:
    """Note a command and read on in what it runs; give what it would print, if that is known."""
    if not simple.words:
        reader.found.append(simple)
        indirect.note_writes(reader, simple, None)
        return ""
    first = simple.words[0]
    name = program(simple.words[0])
    text = first.value
    if text in reader.bombs:
        return None
    if text in reader.state.functions and reader.depth < 30:
        reader.doubt("It calls a function of its own.")
        return reader.call(text, simple)
    if text in reader.state.aliases:
        alias = reader.state.aliases.pop(text)
        return reader.read_nested(alias + " " + rejoined(simple.words[1:]), stdin=simple.stdin)
    special = _SPECIAL.get(name) or (_shell if name in SHELLS else None)
    if special is None and name in PREFIXES:
        special = _prefix
    if special is None and name in RUNNERS:
        special = _runner
    before = len(reader.found)
    reader.found.append(simple)
    output = special(reader, simple) if special else printed(simple, name)
    _imply_others(reader, simple, name)
    indirect.follow(reader, simple, name, output, before)
    if special is _prefix and len(reader.found) > before + 1:
        reader.found[before] = attrs.evolve(simple, wrapper=True)
    return output


def _split_text(words: tuple[Word, ...], at: int) -> str:
    """Return the text that `env -S` splits into words: the word after the option, and the rest."""
    if at + 1 < len(words):
        return " ".join((words[at + 1].value, rejoined(words[at + 2 :])))
    return ""


def _prefix(reader: Reader, simple: Simple) -> str | None:
    words, name = simple.words, program(simple.words[0])
    valued, skipped = PREFIXES[name]
    at = operands_at(words, valued)
    options = [word.value for word in words[1:at]]
    if name == "command" and any(re.fullmatch(r"-\w*[vV]\w*", o) for o in options):
        return words[-1].value
    for flag in ("-S", "--split-string", "-c", "--command"):
        for n, word in enumerate(words[1:], 1):
            attached = word.value.startswith(flag) and flag != "-c" and word.value != flag
            if (
                name == "env"
                and flag == "-S"
                and (joined := re.fullmatch(r"-[iv0]+S(.*)", word.value, re.S))
            ):
                reader.read_nested(
                    joined[1] + " " + rejoined(words[n + 1 :])
                    if joined[1]
                    else _split_text(words, n)
                )
            if word.value == flag and n + 1 < len(words):
                if flag in {"-S", "--split-string"} and name != "env":
                    continue
                reader.read_nested(
                    words[n + 1].value + " " + rejoined(words[n + 2 :]), stdin=simple.stdin
                )
            elif attached and name == "env":
                reader.read_nested(
                    word.value[len(flag) :].lstrip("=") + " " + rejoined(words[n + 1 :])
                )
    at += skipped
    while (
        at < len(words) and name in {"env", "sudo", "doas"} and re.match(r"\w+=", words[at].value)
    ):
        variable, _, value = words[at].value.partition("=")
        reader.state.variables[variable] = (w.as_source(value),)
        reader.doubt(f"It sets {variable} for a command.")
        indirect.assign(reader, variable, value)
        at += 1
    if name in {"watch", "hyperfine"} and at < len(words):
        return reader.read_nested(" ".join(x.value for x in words[at:]))
    if name in {"su", "script"}:
        return None
    return reader.run_inner(simple, words[at:])


def _runner(reader: Reader, simple: Simple) -> str | None:
    words, verbs = simple.words, RUNNERS[program(simple.words[0])]
    at = next((n for n, word in enumerate(words) if word.value in verbs), len(words))
    return reader.run_inner(simple, words[operands_at(words, "pn", at + 1) :])


def _imply_others(reader: Reader, simple: Simple, name: str) -> None:
    """Note the commands that a program may run besides the one that its words name at first sight.

    An option that is not known may take the next word as its value, so the command may begin later;
    and `python -m pip` is `pip`. What is noted here is implied: rules that ask or deny are held
    against it, and nothing else.
    """
    words = simple.words
    before = len(reader.found)
    starts: list[int] = []
    verbs = RUNNERS.get(name) or LAUNCHERS.get(name)
    if name in PREFIXES:
        valued, skipped = PREFIXES[name]
        starts += [at + skipped for at in later_starts(words, valued, operands_at(words, valued))]
    elif verbs:
        verb = next(
            (n for n, word in enumerate(words) if word.value in verbs),
            0 if "" in verbs else len(words),
        )
        first = operands_at(words, "pn", verb + 1)
        starts += [first] if name in LAUNCHERS else []
        starts += later_starts(words, "pn", first)
        starts += [n + 1 for n, word in enumerate(words) if word.value == "--" and n > verb][:1]
    for at in dict.fromkeys(starts):
        reader.run_inner(simple, words[at:])
    for n, word in enumerate(words[1:-1], 1):
        if name in LAUNCHERS and word.value in ("-c", "--call"):
            reader.read_nested(words[n + 1].value)
    inner = _module(words, name)
    if inner is not None:
        reader.run_inner(simple, inner)
    reader.imply(before)


def _module(words: tuple[Word, ...], name: str) -> tuple[Word, ...] | None:
    """Return the command that `python -m NAME` and `uv run -m NAME` stand for; None for other
    commands.
    """
    if not re.fullmatch(r"python[\d.]*|pypy[\d.]*|py|uv", name):
        return None
    if name == "uv":
        begin = next((n for n, word in enumerate(words) if word.value == "run"), len(words))
    else:
        begin = 0
    for n, word in enumerate(words[begin + 1 :], begin + 1):
        if word.value in ("-m", "--module") or re.fullmatch(r"-[bBdEiIOPqsSuvx]*m", word.value):
            return words[n + 1 :]
        found = re.fullmatch(r"-[bBdEiIOPqsSuvx]*m(\w.*)", word.value)
        if found:
            return (Word(found[1]), *words[n + 1 :])
        if not word.value.startswith("-") and name != "uv":
            return None
    return None


def _shell(reader: Reader, simple: Simple) -> str | None:
    """`bash -c TEXT`, `bash FILE`, `… | bash`."""
    words = simple.words
    for n, word in enumerate(words[1:], 1):
        if re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*", word.value) or word.value == "--command":
            at = operands_at(words, "oO", n)
            if at < len(words):
                arguments = tuple(w.as_source(x.value) for x in words[at + 2 :])
                reader.state.variables["0"] = (
                    w.as_source(words[at + 1].value) if at + 1 < len(words) else UNKNOWN,
                )
                return reader.read_nested(words[at].value, arguments or ("",), simple.stdin)
    at = operands_at(words, "oO")
    script = words[at].value if at < len(words) else "-"
    return _script(reader, simple, script, words[at + 1 :])


def _script(reader: Reader, simple: Simple, script: str, rest: tuple[Word, ...]) -> str | None:
    text = reader.pipes.get(script)
    if text is None and script.startswith("/dev/fd/") and script != "/dev/fd/0":
        reader.note_unknown()  # the output of a command that only the run would tell
    if script in {"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"} or any(
        x.value == "-s" for x in simple.words
    ):
        text = simple.stdin
        if text is None and not {"--version", "--help"} & {word.value for word in simple.words}:
            reader.note_unknown()  # what is piped into a shell may be any command
    if text is None:
        return None
    return reader.read_nested(text, tuple(w.as_source(x.value) for x in rest))


def _source(reader: Reader, simple: Simple) -> str | None:
    if len(simple.words) > 1:
        return _script(reader, simple, simple.words[1].value, simple.words[2:])
    return None


def _eval(reader: Reader, simple: Simple) -> str | None:
    return reader.read_nested(
        " ".join(word.value for word in simple.words[1:] if word.value != "--"), stdin=simple.stdin
    )


def _su(reader: Reader, simple: Simple) -> str | None:
    for n, word in enumerate(simple.words[1:-1], 1):
        if re.fullmatch(r"-\w*c|--(session-)?command", word.value):
            return reader.read_nested(simple.words[n + 1].value)
    if program(simple.words[0]) == "runuser":
        return _prefix(reader, simple)
    return None


def _trap(reader: Reader, simple: Simple) -> str | None:
    at = operands_at(simple.words, "")
    if at < len(simple.words):
        return reader.read_nested(simple.words[at].value)
    return None


def _stdin_script(reader: Reader, simple: Simple) -> str | None:
    if simple.stdin:
        return reader.read_nested(simple.stdin)
    return None


def _alias(reader: Reader, simple: Simple) -> str | None:
    for word in simple.words[1:]:
        name, equals, text = word.value.partition("=")
        if equals:
            reader.state.aliases[name] = text
    return ""


def _set(reader: Reader, simple: Simple) -> str | None:
    values = [word.value for word in simple.words[1:]]
    if "--" in values:
        reader.state.positional = tuple(w.as_source(v) for v in values[values.index("--") + 1 :])
    elif values and not values[0].startswith(("-", "+")):
        reader.state.positional = tuple(w.as_source(v) for v in values)
    return ""


def _shift(reader: Reader, simple: Simple) -> str | None:
    reader.state.positional = reader.state.positional[1:]
    return ""


def _forget(reader: Reader, simple: Simple) -> str | None:
    """`read x`, `mapfile x`, `printf -v x`: what the variable holds is not followed."""
    for word in simple.words[1:]:
        if re.fullmatch(r"\w+", word.value):
            reader.state.variables[word.value] = (UNKNOWN,)
    if simple.stdin and program(simple.words[0]) == "read" and len(simple.words) > 1:
        reader.state.variables[simple.words[-1].value] = (w.as_source(simple.stdin.rstrip("\n")),)
    return ""


def _cd(reader: Reader, simple: Simple) -> str | None:
    at = operands_at(simple.words, "")
    state = reader.state
    if at < len(simple.words):
        goal = simple.words[at]
    else:
        goal = Word(state.variables.get("HOME", (UNKNOWN,))[0], plain=False)
    if goal.value == "-" or goal.glob or not goal.known or len(simple.words) > at + 1:
        state.cwds = (None,)
        return ""
    reached: list[str | None] = []
    for cwd in state.cwds:
        logical = state.places.absolute(goal.value, cwd)
        if logical is None:
            reached.append(None)
            continue
        physical = os.path.realpath(os.path.join(cwd or "/", goal.value))
        if state.places.contained:
            physical = logical
        # Where there is no such folder `cd` may fail, and what follows may run where it was.
        reached += [] if os.path.isdir(physical) else [cwd]
        reached += [logical] if os.path.realpath(logical) == physical else [physical, logical]
    state.cwds = tuple(dict.fromkeys(reached))[-4:]
    state.variables["PWD"] = (w.as_source(state.cwds[-1]) if state.cwds[-1] else UNKNOWN,)
    return ""


def _pushd(reader: Reader, simple: Simple) -> str | None:
    if len(simple.words) == 2 and not simple.words[1].value.startswith(("+", "-")):
        return _cd(reader, simple)
    reader.state.cwds = (None,)
    return ""


_SPECIAL: dict[str, Callable[[Reader, Simple], str | None]] = {
    "eval": _eval,
    "su": _su,
    "runuser": _su,
    "script": _su,
    "trap": _trap,
    "alias": _alias,
    "set": _set,
    "shift": _shift,
    "read": _forget,
    "mapfile": _forget,
    "readarray": _forget,
    "cd": _cd,
    "chdir": _cd,
    "pushd": _pushd,
    "popd": _pushd,
    ".": _source,
    "source": _source,
    "at": _stdin_script,
    "batch": _stdin_script,
    "xargs": distant.xargs,
    "gxargs": distant.xargs,
    "find": distant.find,
    "gfind": distant.find,
    "ssh": distant.ssh,
    "parallel": distant.parallel,
    "fd": distant.fd,
    "fdfind": distant.fd,
    "docker": distant.container,
    "podman": distant.container,
    "nerdctl": distant.container,
    "kubectl": distant.container,
    "git": distant.git,
}
