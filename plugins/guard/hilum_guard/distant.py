"""Commands that run others far away from where they stand: for what they find, in a container, on
another machine, in Git.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import attrs

from hilum_guard import git_aliases
from hilum_guard.places import wide
from hilum_guard.programs import later_starts, operands_at, program
from hilum_guard.simple import Finder
from hilum_guard.words import UNKNOWN, Word

if TYPE_CHECKING:
    from hilum_guard.reading import Reader
    from hilum_guard.simple import Simple

CONTAINER_VALUES = frozenset(
    """-v --volume -e --env --name -w --workdir -p --publish -u --user --network --net --mount --entrypoint -l --label -h
    --hostname -m --memory --cpus --platform --env-file --cap-add --cap-drop --device --security-opt --add-host --pid
    --ipc --gpus --restart --tmpfs --shm-size --ulimit --userns --runtime --pull -n -c --container""".split()
)
_NARROWING = frozenset(
    """-path -ipath -wholename -regex -iregex -size -mtime -mmin -atime -amin -ctime -cmin -newer -empty -perm -user
    -group -links -inum -uid -gid -nouser -nogroup -samefile -lname -name -iname""".split()
)


def xargs(reader: Reader, simple: Simple) -> str | None:
    """`… | xargs COMMAND`: the command with the words that the text feeds it."""
    words = simple.words
    at = operands_at(words, "IEdaLnPs")
    command = words[at:] or (Word("echo"),)
    text = "".join(word.value for word in words[1:at])
    given = _given(simple.stdin)
    if reader.state.listed is not None and simple.stdin is None:
        given, reader.state.finder = [Word(UNKNOWN, plain=False, found="{}")], reader.state.listed
    replaced = next(
        (
            words[n + 1].value if x.value == "-I" else x.value[2:]
            for n, x in enumerate(words[1:at], 1)
            if x.value.startswith("-I") and n + 1 < len(words)
        ),
        "{}" if "-i" in text else "",
    )
    before = len(reader.found)
    for later in later_starts(words, "IEdaLnPs", at):
        reader.run_inner(simple, (*words[later:], *given), stdin="")
    reader.imply(before)
    if not replaced:
        return reader.run_inner(simple, (*command, *given), stdin="")
    for each in given:
        changed = tuple(
            (
                attrs.evolve(
                    each,
                    value=x.value.replace(replaced, each.value),
                    found=x.value.replace(replaced, each.found) if each.found else "",
                )
                if replaced in x.value
                else x
            )
            for x in command
        )
        reader.run_inner(simple, changed, stdin="")
    return None


def parallel(reader: Reader, simple: Simple) -> str | None:
    """`… | parallel COMMAND`, `parallel COMMAND ::: WORDS`: the command for each word."""
    words = simple.words
    at = operands_at(words, "jSdNInaLlPs")
    split = next(
        (n for n, word in enumerate(words) if n >= at and word.value in {":::", ":::+", "::::"}),
        len(words),
    )
    command = words[at:split]
    given = [attrs.evolve(word, plain=False) for word in words[split + 1 :][:20]]
    if split == len(words):
        given = _given(simple.stdin)
    elif words[split].value == "::::":
        given = [Word(UNKNOWN, plain=False)]
    if not command:
        for each in given:
            reader.read_nested(each.value)
        return None
    text = " ".join(word.value for word in command)
    for each in given:
        # The command is put together as text, which a shell reads.
        reader.read_nested(
            text.replace("{}", each.value) if "{}" in text else f"{text} {each.value}"
        )
        if UNKNOWN in each.value:
            reader.run_inner(simple, (*command, each), stdin="")
    return None


_FD_ACTIONS = frozenset({"-x", "-X", "--exec", "--exec-batch"})


def fd(reader: Reader, simple: Simple) -> str | None:
    """`fd PATTERN PATHS … -x COMMAND`: the command, for all that is found."""
    words = simple.words[1:]
    at = next((n for n, word in enumerate(words) if word.value in _FD_ACTIONS), len(words))
    command = words[at + 1 :]
    ended = next((n for n, word in enumerate(command) if word.value == ";"), len(command))
    command = command[:ended]
    if not command:
        return None
    operands = [word for word in words[:at] if not word.value.startswith("-")]
    # A pattern that takes everything deletes what is searched; another one finds what only the disk
    # tells.
    everything = not operands or operands[0].value in {"", ".", ".*"}
    if everything:
        places = operands[1:] or [Word(".")]
    else:
        places = [Word(UNKNOWN, plain=False)]
    for place in places:
        found = attrs.evolve(place, plain=False, found="{}")
        if any("{" in word.value for word in command):
            filled = tuple(
                (
                    attrs.evolve(found, value=word.value.replace("{}", place.value))
                    if "{}" in word.value
                    else word
                )
                for word in command
            )
        else:
            filled = (*command, found)
        reader.run_inner(simple, filled)
    return None


def _given(stdin: str | None) -> list[Word]:
    if stdin is None:
        return [Word(UNKNOWN, plain=False)]
    try:
        parts = shlex.split(stdin.replace("\0", " "))
    except ValueError:
        return [Word(UNKNOWN, plain=False)]
    return [Word(part, glob="*" in part, plain=False) for part in parts[:20]]


def find(reader: Reader, simple: Simple) -> str | None:
    """`find PATHS … -delete`, `-exec`: what would be deleted, or run, for all that is found."""
    words = simple.words[1:]
    begin = 0
    while begin < len(words) and words[begin].value in {"-H", "-L", "-P"}:
        begin += 1
    end = next(
        (n for n, x in enumerate(words) if n >= begin and (x.value[:1] in {"-", "!", "("})),
        len(words),
    )
    starts = words[begin:end] or (Word("."),)
    tests = words[end:]
    targets = _narrowed(starts, tests)
    outer = reader.state.finder
    for n, word in enumerate(tests):
        reader.state.finder = Finder(simple.words, end + 1 + n)
        if word.value in {"-delete", "--delete"}:
            given = (attrs.evolve(target, plain=False, found="{}") for target in targets)
            reader.run_inner(simple, (Word("rm"), Word("-rf"), *given))
        elif word.value in {"-exec", "-execdir", "-ok", "-okdir"}:
            stop = next(
                (
                    m
                    for m in range(n + 1, len(tests))
                    if tests[m].value == ";"
                    or (tests[m].value == "+" and tests[m - 1].value == "{}")
                ),
                len(tests),
            )
            for target in targets:
                command = tuple(
                    (
                        attrs.evolve(
                            target,
                            value=x.value.replace("{}", target.value),
                            plain=False,
                            found=x.value,
                        )
                        if "{}" in x.value
                        else x
                    )
                    for x in tests[n + 1 : stop]
                )
                if command and program(command[0]) == "rm":
                    command = (command[0], Word("-r"), *command[1:])
                reader.run_inner(simple, command)
    reader.state.finder = outer
    if all(t.known for t in targets):
        return "\n".join(t.value for t in targets)
    return None


BESIDE = frozenset({"-execdir", "-okdir"})
"""Actions of `find` that run a command in the folder of what was found."""
_FILTERS = frozenset("grep egrep fgrep sort uniq head tail".split())


def listed(commands: list[Simple], before: Finder | None) -> Finder | None:
    """Return the `find` whose findings a part of a pipeline prints, or some of them.

    Args:
        commands: The commands of this part.
        before: What the part before prints.
    """
    if len(commands) != 1 or not commands[0].words or commands[0].redirects:
        return None
    name = program(commands[0].words[0])
    if name in {"find", "gfind"}:
        return Finder(commands[0].words)
    if name in _FILTERS and not any(
        re.match(r"-\w*[onc]|--", word.value) for word in commands[0].words[1:]
    ):
        return before and attrs.evolve(before, at=-1)
    return None


def _narrowed(starts: tuple[Word, ...], tests: tuple[Word, ...]) -> list[Word]:
    """Return what a find would find, as paths that stand for all of it.

    Unknown if it depends on the files.
    """
    found = list(starts)
    for n, word in enumerate(tests[:-1]):
        pattern = tests[n + 1].value
        if word.value in {"-name", "-iname"} and not re.search(r"[*?\[]", pattern):
            found = [attrs.evolve(start, value=f"{start.value}/{pattern}") for start in starts]
        elif word.value in _NARROWING and not (word.value in {"-name", "-iname"} and wide(pattern)):
            return [Word(UNKNOWN, plain=False)]
    if any(word.value in {"-empty", "!", "-not", "-nouser", "-nogroup"} for word in tests):
        return [Word(UNKNOWN, plain=False)]
    return found


def ssh(reader: Reader, simple: Simple) -> str | None:
    """`ssh HOST COMMAND`: read as if it ran here, in a folder that is not known."""
    at = operands_at(simple.words, "bBcDEeFIiJLlmOopQRSWw") + 1
    for word in simple.words:
        found = re.fullmatch(
            r"(?:-o)?(?:ProxyCommand|LocalCommand|KnownHostsCommand)[= ](.*)", word.value, re.I
        )
        if found:
            reader.read_nested(found[1])
    cwds, reader.state.cwds = reader.state.cwds, (None,)
    try:
        return reader.read_nested(
            " ".join(word.value for word in simple.words[at:]) or simple.stdin or ""
        )
    finally:
        reader.state.cwds = cwds


def container(reader: Reader, simple: Simple) -> str | None:
    """`docker run -v HOST:THERE IMAGE COMMAND`, `docker exec NAME COMMAND`."""
    words = simple.words
    at = (
        next((n for n, x in enumerate(words) if x.value in {"run", "exec", "create"}), len(words))
        + 1
    )
    mounts: list[tuple[str, str]] = []
    entry: tuple[Word, ...] = ()
    while at < len(words) and words[at].value.startswith("-"):
        option, equals, value = words[at].value.partition("=")
        if not equals and option in CONTAINER_VALUES and at + 1 < len(words):
            at += 1
            value = words[at].value
        elif option.startswith("-v") and not option.startswith("--") and len(option) > 2:
            value = option[2:]
            option = "-v"
        at += 1
        if option in {"-v", "--volume"}:
            source, _, rest = value.partition(":")
            mounts.append((source, rest.split(":")[0] or "/"))
        elif option == "--mount":
            pairs = dict(part.partition("=")[::2] for part in value.split(","))
            mounts.append(
                (
                    pairs.get("source", pairs.get("src", "")),
                    pairs.get("target", pairs.get("dst", "/")),
                )
            )
        elif option == "--entrypoint":
            entry = (Word(value),)
    outer = reader.state
    places = outer.places
    shown = [
        (
            there.rstrip("/") or "/",
            places.absolute(here, outer.cwds[-1]) if not places.contained else None,
        )
        for here, there in mounts
        if here.startswith(("/", ".", "~"))
    ]
    reader.state = outer.copy()
    reader.state.places = attrs.evolve(
        places, contained=True, mounts=tuple((t, h) for t, h in shown if h)
    )
    reader.state.cwds = (None,)
    try:
        return reader.run_inner(simple, (*entry, *words[at + 1 :]))
    finally:
        reader.state = outer


_GIT_TEXTS = re.compile(
    r"(?:--exec|--extcmd|--upload-pack|--receive-pack|--open-files-in-pager|--[a-z]+-filter|--ext-diff|--config-env)=(.*)",
    re.S,
)


def git(reader: Reader, simple: Simple) -> str | None:
    """Read the texts that Git gives to a shell: configured commands, `rebase --exec`, `submodule
    foreach`, `bisect run`.
    """
    words = [word.value for word in simple.words]
    for n, text in enumerate(words[1:], 1):
        following = words[n + 1] if n + 1 < len(words) else ""
        if text == "-c" or text.startswith("alias.") or ("config" in words[1:n] and "." in text):
            value = following.partition("=")[2] if text == "-c" else following
            reader.read_nested(value.lstrip("!"))
        elif text in {
            "-x",
            "--exec",
            "--extcmd",
            "--upload-pack",
            "--receive-pack",
            "-u",
        } or re.fullmatch(r"--[a-z]+-filter", text):
            reader.read_nested(following)
        elif found := _GIT_TEXTS.fullmatch(text):
            reader.read_nested(found[1])
        elif (text, words[n - 1]) in {("run", "bisect"), ("foreach", "submodule")}:
            at = operands_at(simple.words, "", n + 1)
            reader.read_nested(" ".join(words[at:]))
    git_aliases.follow(reader, simple)
    if words[1:] == ["rev-parse", "--show-toplevel"] and not reader.state.places.contained:
        return reader.places.workspace
    return None
