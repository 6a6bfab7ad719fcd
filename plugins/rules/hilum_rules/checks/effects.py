"""What the simple commands of a command line do to files: programs and which of their words name
what they write or read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import attrs

from hilum_rules.checks.touches import Touch

if TYPE_CHECKING:
    from hilum_guard import SimpleCommand

    from hilum_rules.checks.finds import Reaches

# Programs whose operands are all written.
WRITE_ALL = frozenset(
    """tee touch mkdir truncate mkfifo mknod sponge ed ex vi vim nvim nano emacs pico joe gzip gunzip bzip2 bunzip2 xz
    unxz zstd lz4 sqlite3 setfacl chattr split csplit isort autopep8 autoflake pyupgrade gofmt rustfmt dos2unix
    unix2dos mkstemp mount umount""".split()
)
_PACKERS = frozenset("gzip gunzip bzip2 bunzip2 xz unxz zstd lz4".split())
DELETE_ALL = frozenset("rm rmdir unlink shred trash trash-put gio srm del rimraf".split())
AFTER_FIRST = frozenset(
    "chmod chown chgrp chcon".split()
)  # their first operand is a mode or an owner
_COPIES = frozenset("cp install rsync scp gcp ginstall ditto pax".split())
IN_PLACE = frozenset("sed gsed perl ruby awk gawk yq".split())
# Programs that never show what is in the files they are given.
_BLIND = frozenset(
    """echo printf ls stat test [ [[ touch rm rmdir mkdir chmod chown basename dirname realpath readlink cd pwd true false exit
    du df which type command mv unlink truncate tee export set unset""".split()
)
_BLIND_GIT = frozenset(
    "check-ignore status rm ls-files log rev-parse branch checkout restore commit reset".split()
)
_VALUED = {
    "tee": "",
    "touch": "dtr",
    "mkdir": "mZ",
    "truncate": "sr",
    "cp": "St",
    "install": "gmotS",
    "ln": "St",
    "mv": "St",
    "rsync": "efBMT",
    "scp": "cFiJloPS",
    "chmod": "",
    "sed": "efl",
    "perl": "eEFIMmx",
    "curl": "dHXuAebFTKmowxrtUyYzcCDEPQ",
    "split": "abCln",
    "patch": "pioBdDFrVxzY",
    "shred": "ns",
    "sort": "oktST",
}


def touches(command: SimpleCommand, reaches: Reaches | None = None) -> Iterator[Touch]:
    """Yield the paths that a simple command touches.

    Args:
        command: The command.
        reaches: Looks through folders for what a `find` finds; none where that may change before it
            runs.
    """
    for cwd in command.cwds or (command.cwd,):
        for target in command.writes:
            if not target.isdigit() and target not in ("-", "/dev/null"):
                yield Touch(target, "write", cwd)
        for source in command.reads:
            yield Touch(source, "read", cwd)
        if command.words:
            for touch in _found(command, cwd, reaches):
                yield attrs.evolve(touch, cwd=cwd if touch.cwd is None else touch.cwd)


def _found(command: SimpleCommand, cwd: str | None, reaches: Reaches | None) -> Iterator[Touch]:
    """Yield what a program does; where it is a `find`, or run by one, to what is really found."""
    from hilum_rules.checks import finds

    if name_of(command) in ("find", "gfind"):
        yield from finds.touches(command, cwd, reaches)
        return
    if command.found and reaches:
        reach = reaches.of(command.finder, command.finder_at, cwd)
    else:
        reach = None
    if reach is None:
        yield from _program(command, cwd)
    elif command.finder[command.finder_at] == "-delete":
        yield Touch("{}", "delete", cwd, reach=reach)
    else:
        yield from (touch for touch in _program(command, cwd) if touch.action == "read")
        for touch in _program(attrs.evolve(command, words=command.found), cwd):
            if "{}" in touch.path and touch.action != "read":
                yield attrs.evolve(touch, reach=reach)
            elif touch.action != "read":
                aside = reach.beside and not touch.path.startswith(("/", "~"))
                yield attrs.evolve(touch, path=f"…/{touch.path}") if aside else touch


def name_of(command: SimpleCommand) -> str:
    """Return the name of a command's program."""
    if command.words:
        return os.path.basename(command.words[0].rstrip("/")).casefold().removesuffix(".exe")
    return ""


def operands(words: tuple[str, ...], valued: str = "") -> list[str]:
    """Return the words that are neither options nor their values."""
    found: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word == "--":
            return found + list(words[at:])
        if not word.startswith("-") or word == "-":
            found.append(word)
        elif (
            not word.startswith("--")
            and valued
            and word[-1] in valued
            and not any(c in valued for c in word[1:-1])
        ):
            at += 1
    return found


def _program(command: SimpleCommand, cwd: str | None) -> Iterator[Touch]:
    name = name_of(command)
    words = command.words[1:]
    given = operands(words, _VALUED.get(name, ""))
    special = _SPECIAL.get(name)
    if special is not None:
        yield from special(command, given)
    elif name in WRITE_ALL:
        if name in _PACKERS and any(
            re.fullmatch(r"-[a-z]*[ctlk][a-z]*|--(?:stdout|test|list|keep)", word) for word in words
        ):
            given = []
        yield from (
            Touch(path, "write", None, by_hand=name not in ("isort", "gofmt", "rustfmt"))
            for path in given
        )
    elif name in DELETE_ALL:
        yield from (Touch(path, "delete", None, whole=True) for path in given)
    elif name in AFTER_FIRST:
        yield from (Touch(path, "change", None, whole=True) for path in given[1:])
    elif name in _COPIES:
        yield from _copied(command, given, cwd)
    elif name in IN_PLACE and in_place(words):
        yield from (Touch(path, "change", None) for path in given)
    if name not in _BLIND and not (name == "git" and given[:1] and given[0] in _BLIND_GIT):
        yield from _read(words)


def _read(words: tuple[str, ...]) -> Iterator[Touch]:
    """Yield the words that may name a file to read: operands, values of options, `@file` of curl
    and the like.
    """
    for word in words:
        if len(word) > 500 or "\n" in word:
            continue
        yield Touch(word, "read", None)
        for part in re.split(r"[=@:,]", word)[1:]:
            if part:
                yield Touch(part, "read", None)
        if re.match(r"-[A-Za-z]\S", word):
            yield Touch(word[2:], "read", None)


def in_place(words: tuple[str, ...]) -> bool:
    """Return whether the options of `sed`, `perl` and the like say that the files given are
    changed.
    """
    return any(
        re.match(r"-[a-zA-Z]*i|--in-?place", word) and not word.startswith("--i18n")
        for word in words
    )


def _option(words: tuple[str, ...], short: str, *long: str) -> list[str]:
    """Return the values of an option."""
    found = []
    for number, word in enumerate(words):
        following = words[number + 1] if number + 1 < len(words) else ""
        if short and not word.startswith("--") and re.match(rf"-[a-zA-Z0-9]*{short}", word):
            attached = word[word.index(short) + 1 :].removeprefix("=")
            found.append(attached or following)
        for each in long:
            if word == each:
                found.append(following)
            elif word.startswith(each + "="):
                found.append(word[len(each) + 1 :])
    return [each for each in found if each]


def _copied(command: SimpleCommand, given: list[str], cwd: str | None) -> Iterator[Touch]:
    """`cp`, `install`, `rsync`: what is written, and what is read."""
    words = command.words[1:]
    if name_of(command) in ("cp", "install", "gcp", "ginstall"):
        targets = _option(words, "t", "--target-directory")
    else:
        targets = []
    if targets:
        given = [each for each in given if each not in targets]
    sources, target = (given, targets[0]) if targets else (given[:-1], given[-1] if given else "")
    if not target:
        return
    if name_of(command) in ("install", "ginstall") and any(
        re.match(r"-[a-zA-Z]*d", word) for word in words
    ):
        yield from (Touch(path, "write", None) for path in given)
        return
    yield Touch(target, "write", None)
    into = (
        os.path.isdir(os.path.join(cwd or "/", os.path.expanduser(target)))
        or target.endswith("/")
        or len(sources) > 1
    )
    for source in sources:
        inner = os.path.basename(source.rstrip("/"))
        if (
            into
            and inner not in (".", "")
            and not (source.endswith("/") and name_of(command) == "rsync")
        ):
            placed = os.path.join(target, inner)
        else:
            placed = target
        if placed != target:
            yield Touch(placed, "write", None)
        path = os.path.join(cwd or "/", os.path.expanduser(source))
        if os.path.isdir(path):
            yield Touch(placed, "write", None, contents=path)
        if any(re.match(r"-[a-zA-Z]*l|--link", word) for word in words):
            yield Touch(source, "change", None)
    if "--delete" in words:
        yield Touch(target, "delete", None, whole=True)


def _moved(command: SimpleCommand, given: list[str]) -> Iterator[Touch]:
    targets = _option(command.words[1:], "t", "--target-directory")
    sources, target = (given, targets[0]) if targets else (given[:-1], given[-1] if given else "")
    for source in sources:
        yield Touch(source, "delete", None, whole=True, moved=True)
        yield Touch(os.path.join(target, os.path.basename(source.rstrip("/"))), "write", None)
    if target:
        yield Touch(target, "write", None)


def _linked(command: SimpleCommand, given: list[str]) -> Iterator[Touch]:
    """`ln`: the name is made, and through it what it leads to can be written and read."""
    for path in given[:1] if len(given) < 3 else given[:-1]:
        yield Touch(path, "change", None)
        yield Touch(path, "read", None)
    if len(given) > 1:
        yield Touch(given[-1], "write", None)
        yield Touch(os.path.join(given[-1], os.path.basename(given[0])), "write", None)


def _dd(command: SimpleCommand, given: list[str]) -> Iterator[Touch]:
    for word in given:
        name, _, value = word.partition("=")
        if name == "of":
            yield Touch(value, "write", None)


def _patched(command: SimpleCommand, given: list[str]) -> Iterator[Touch]:
    """`patch`, `git apply`: the files that the patch names, if its text is known."""
    words = command.words[1:]
    cwd = command.cwd
    texts = [command.stdin] if command.stdin else []
    files = [
        *command.reads,
        *_option(words, "i", "--input"),
        *[each for each in given if each not in ("apply", "am")],
    ]
    for file in files:
        texts.append(text_of(os.path.join(cwd or "/", file)))
    if name_of(command) == "patch":
        yield from (Touch(path, "change", None) for path in given[:1])
    if not any(texts):
        yield Touch("…", "write", None)
    for text in texts:
        for path in re.findall(
            r"^(?:\+\+\+|---|\*\*\*|rename to|rename from) (\S+)", text or "", re.MULTILINE
        ):
            plain = path.split("/")
            for skipped in range(min(3, len(plain))):
                yield Touch("/".join(plain[skipped:]), "write", None)


def text_of(path: str, most: int = 400_000) -> str:
    """Return the text of a file, or of its beginning; empty if it cannot be read."""
    try:
        if not os.path.isfile(path):
            return ""
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(most)
    except OSError:
        return ""


def _git(command: SimpleCommand, given: list[str]) -> Iterator[Touch]:
    words, at = git_words(command.words)
    folders = [
        command.words[n + 1]
        for n, w in enumerate(command.words[:at])
        if w in ("-C", "--work-tree") and n + 1 < at
    ]
    folders += [w.partition("=")[2] for w in command.words[:at] if w.startswith("--work-tree=")]
    inner = attrs.evolve(
        command, words=("git", *words[1:]), cwd=os.path.join(command.cwd or "/", *folders)
    )
    for touch in _git_inner(inner, words):
        within = folders and touch.reach is None
        yield attrs.evolve(touch, path=os.path.join(*folders, touch.path)) if within else touch


def git_words(words: tuple[str, ...]) -> tuple[tuple[str, ...], int]:
    """Return `git` and its sub-command with what follows, without the options between.

    And where the sub-command stands.
    """
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += (
            2
            if words[at]
            in (
                "-C",
                "-c",
                "--git-dir",
                "--work-tree",
                "--namespace",
                "--exec-path",
                "--config-env",
            )
            else 1
        )
    return ("git", *words[at:]), at


def _git_inner(command: SimpleCommand, words: tuple[str, ...]) -> Iterator[Touch]:
    verb = words[1] if len(words) > 1 else ""
    rest = words[2:]
    paths = list(rest[rest.index("--") + 1 :]) if "--" in rest else []
    given = operands(rest, "bBsCmU")
    if verb in ("checkout", "restore"):
        named = paths or (
            given
            if verb == "restore"
            else given[1:] + [each for each in given[:1] if _there(command, each)]
        )
        whole = (
            (verb == "checkout" and len(given) > len(paths))
            or "--source" in " ".join(rest)
            or any(w.startswith("-s") for w in rest)
        )
        yield from (Touch(path, "write", None, whole=whole) for path in named)
    elif verb in ("rm", "clean") and any(
        re.fullmatch(r"-[a-z]*n[a-z]*|--dry-run", w) for w in rest
    ):
        return
    elif verb == "rm":
        if "--cached" not in rest:
            yield from (Touch(path, "delete", None, whole=True) for path in paths or given)
    elif verb == "clean":
        from hilum_rules.checks.untracked import cleaned

        yield from cleaned(command, rest, paths)
    elif verb == "mv":
        yield from _moved(attrs.evolve(command, words=("mv", *rest)), given)
    elif verb in ("apply", "am"):
        if not any(w in rest for w in ("--check", "--stat", "--numstat", "--summary")):
            yield from _patched(attrs.evolve(command, words=("git", *rest)), given)
    elif verb in ("checkout-index", "update-index"):
        yield from (Touch(path, "write", None) for path in given)
    elif verb in ("show", "cat-file", "diff", "archive"):
        for each in given:
            yield Touch(each.rpartition(":")[2], "read", None)
        yield from (Touch(path, "write", None) for path in _option(rest, "o", "--output"))
    elif verb in ("worktree", "clone", "submodule", "init"):
        yield from (Touch(path, "write", None) for path in given[1:] if "://" not in path)


def _there(command: SimpleCommand, path: str) -> bool:
    return os.path.lexists(os.path.join(command.cwd or "/", path))


def _downloaded(command: SimpleCommand, given: list[str]) -> Iterator[Touch]:
    words = command.words[1:]
    name = name_of(command)
    if name == "curl":
        out = [
            *_option(words, "o", "--output"),
            *_option(words, "c", "--cookie-jar"),
            *_option(words, "D", "--dump-header"),
        ]
    else:
        out = [
            *_option(words, "O", "--output-document"),
            *_option(words, "P", "--directory-prefix"),
            *_option(words, "o", "--output-file"),
        ]
    folder = next(iter(_option(words, "", "--output-dir")), "")
    for path in out:
        yield Touch(os.path.join(folder, path), "write", None)
    if name == "wget" or any(re.match(r"-[a-zA-Z]*O|--remote-name", word) for word in words):
        for url in given:
            yield Touch(
                os.path.join(folder, url.split("?")[0].rstrip("/").rpartition("/")[2]),
                "write",
                None,
            )


def _archived(command: SimpleCommand, given: list[str]) -> Iterator[Touch]:
    words = command.words[1:]
    name = name_of(command)
    for path in [*_option(words, "C", "--directory"), *_option(words, "d", "--dir")]:
        yield Touch(path, "write", None)
    if name in ("tar", "bsdtar") and words and re.match(r"-?[a-zA-Z]*c", words[0]):
        yield from (Touch(path, "write", None) for path in _option(words, "f", "--file"))
        if len(given) > 1 and not words[0].startswith("-"):
            yield Touch(given[1], "write", None)
    if name == "zip" and given:
        yield Touch(given[0], "write", None)
    if "--remove-files" in words:
        yield from (Touch(path, "delete", None, whole=True) for path in given)


def _renamed(command: SimpleCommand, given: list[str]) -> Iterator[Touch]:
    """`rename EXPRESSION FILES`."""
    yield from (Touch(path, "delete", None, whole=True, moved=True) for path in given[1:])


def _out(*options: str) -> Callable[[SimpleCommand, list[str]], Iterator[Touch]]:
    def written(command: SimpleCommand, given: list[str]) -> Iterator[Touch]:
        short = next((each[1:] for each in options if re.fullmatch(r"-\w", each)), "")
        for path in _option(
            command.words[1:], short, *(each for each in options if not re.fullmatch(r"-\w", each))
        ):
            yield Touch(path, "write", None)

    return written


def _fixed(command: SimpleCommand, given: list[str]) -> Iterator[Touch]:
    """Formatters: they rewrite what they are told to, by a program and not by hand."""
    words = command.words[1:]
    if {"--check", "--diff", "--check-only"} & set(words):
        return
    if name_of(command) == "ruff" and not ("--fix" in words or "format" in words):
        return
    if name_of(command) in ("prettier", "eslint", "biome") and not {"--write", "-w", "--fix"} & set(
        words
    ):
        return
    yield from (Touch(path, "change", None, by_hand=False) for path in given)


_SPECIAL: dict[str, Callable[[SimpleCommand, list[str]], Iterator[Touch]]] = {
    "mv": _moved,
    "rename": _renamed,
    "prename": _renamed,
    "mmv": _renamed,
    "ln": _linked,
    "dd": _dd,
    "patch": _patched,
    "git": _git,
    "curl": _downloaded,
    "wget": _downloaded,
    "tar": _archived,
    "bsdtar": _archived,
    "unzip": _archived,
    "zip": _archived,
    "7z": _archived,
    "sort": _out("-o", "--output"),
    "openssl": _out("-out"),
    "pandoc": _out("-o", "--output"),
    "gcc": _out("-o"),
    "cc": _out("-o"),
    "clang": _out("-o"),
    "objcopy": _out("-o"),
    "xxd": _out("-r"),
    "black": _fixed,
    "ruff": _fixed,
    "prettier": _fixed,
    "eslint": _fixed,
    "biome": _fixed,
    "yapf": _fixed,
}
