"""What a Git sub-command really runs: aliases of the command line, the environment and the files of
configuration.

Git looks for a built-in command first, then for a program ``git-NAME``, then for an alias. Only a
name that is no built-in needs resolving. Every definition that is found counts, whichever of them
Git would prefer: rules that deny are then held against all of them.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from hilum_guard import repositories
from hilum_guard import words as w
from hilum_guard.words import UNKNOWN, Word

if TYPE_CHECKING:
    from hilum_guard.reading import Reader
    from hilum_guard.simple import Simple

# `git --list-cmds=main`, and newer ones. `whatchanged` and `pack-redundant` are left out: newer
# versions of Git let aliases replace deprecated commands.
BUILT_IN = frozenset(
    """add am annotate apply archive backfill bisect blame branch bugreport bundle cat-file check-attr check-ignore
    check-mailmap check-ref-format checkout checkout--worker
    checkout-index cherry cherry-pick clean clone column commit commit-graph
    commit-tree config count-objects credential credential-cache credential-cache--daemon credential-store daemon describe
    diagnose diff diff-files diff-index diff-pairs diff-tree difftool fast-export fast-import fetch fetch-pack filter-branch
    fmt-merge-msg for-each-ref for-each-repo format-patch fsck fsck-objects gc get-tar-commit-id grep hash-object help history
    hook http-backend http-fetch http-push imap-send index-pack init init-db instaweb interpret-trailers last-modified log
    ls-files ls-remote ls-tree mailinfo mailsplit maintenance merge merge-base merge-file merge-index merge-octopus
    merge-one-file merge-ours merge-recursive merge-recursive-ours merge-recursive-theirs merge-resolve merge-subtree
    merge-tree mergetool mktag mktree multi-pack-index mv name-rev notes pack-objects pack-refs patch-id prune prune-packed
    pull push quiltimport range-diff read-tree rebase receive-pack reflog refs remote remote-ext remote-fd remote-ftp
    remote-ftps remote-http remote-https repack replace replay repo request-pull rerere reset restore rev-list rev-parse
    revert rm send-email send-pack shell shortlog show show-branch show-index show-ref sparse-checkout stage stash status
    stripspace submodule subtree switch symbolic-ref tag unpack-file unpack-objects update-index update-ref
    update-server-info upload-archive upload-pack var verify-commit verify-pack verify-tag version worktree
    write-tree""".split()
)
# Programs `git-NAME` that are widely installed and do what they are known for: nothing stays
# unresolved.
PORCELAINS = frozenset(
    """absorb citool credential-gcloud.sh credential-libsecret credential-manager credential-osxkeychain cvsexportcommit
    cvsimport cvsserver filter-repo gui lfs p4 svn""".split()
)
# Commands that do what another one does: a rule about that one fits them too.
SAME: dict[tuple[str, ...], tuple[str, ...]] = {
    ("send-pack",): ("push",),
    ("http-push",): ("push",),
    ("subtree", "push"): ("push",),
    ("lfs", "push"): ("push",),
    ("svn", "dcommit"): ("push",),
    ("p4", "submit"): ("push",),
    ("fetch-pack",): ("fetch",),
    ("http-fetch",): ("fetch",),
    ("stage",): ("add",),
    ("annotate",): ("blame",),
    ("whatchanged",): ("log",),
    ("init-db",): ("init",),
    ("fsck-objects",): ("fsck",),
}
# Options of `git` itself that take the next word.
VALUED = frozenset(
    "-C -c --git-dir --work-tree --namespace --super-prefix --config-env --attr-source".split()
)
# Variables that have Git read other settings, or run other programs.
_ELSEWHERE = """GIT_CONFIG GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_DIR GIT_COMMON_DIR GIT_EXEC_PATH XDG_CONFIG_HOME""".split()
_CONFIG_NAMES = frozenset({"config", "config.worktree", ".gitconfig", "gitconfig"})
MAX_FILES = 50
MAX_COUNT = 100


class GitWords(NamedTuple):
    """The parts of a Git command.

    Attributes:
        options: The words before the sub-command, ``git`` included.
        settings: Names and values that ``-c`` sets.
        folders: The folders of ``-C``, in order.
        elsewhere: Whether an option has Git read settings or run programs from another place.
        rest: The sub-command and what comes after it.
    """

    options: tuple[Word, ...]
    settings: tuple[tuple[str, str], ...]
    folders: tuple[str, ...]
    elsewhere: bool
    rest: tuple[Word, ...]


def split_words(words: tuple[Word, ...]) -> GitWords:
    """Return the parts of a Git command."""
    settings: list[tuple[str, str]] = []
    folders: list[str] = []
    elsewhere = False
    at = 1
    while at < len(words) and words[at].value.startswith("-"):
        option, equals, attached = words[at].value.partition("=")
        takes_next = option in VALUED and not equals and at + 1 < len(words)
        value = words[at + 1].value if takes_next else attached
        if option == "-c":
            name, _, text = value.partition("=")
            settings.append((name, text))
        elif option == "-C":
            folders.append(value)
        elif option in ("--git-dir", "--config-env", "--super-prefix") or (
            option == "--exec-path" and equals
        ):
            elsewhere = True
        at += 2 if takes_next else 1
    return GitWords(words[:at], tuple(settings), tuple(folders), elsewhere, words[at:])


def follow(reader: Reader, simple: Simple) -> None:
    """Read on in what a Git sub-command stands for, and note where that cannot be told."""
    parts = split_words(simple.words)
    if not parts.rest:
        return
    verb = parts.rest[0]
    if not verb.known:
        return  # a word that only the run would tell fits every rule in doubt
    if verb.value == "config":
        _note_settings(reader, parts.rest)
    for names, meant in SAME.items():
        if tuple(word.value for word in parts.rest[: len(names)]) == names:
            _run(reader, simple, (*parts.options, *map(Word, meant), *parts.rest[len(names) :]))
    if verb.value in BUILT_IN:
        return
    values, why = _definitions(reader, simple, parts)
    if not values and not why and verb.value not in PORCELAINS:
        why = f"`git {verb.value}` is neither a command of Git nor an alias that can be read here"
    for value in values:
        if UNKNOWN in value:
            why = why or f"the alias `{verb.value}` has words that only the run would tell"
        _run_alias(reader, simple, parts, value)
    if why:
        reader.unresolved.append((simple, why))


def _definitions(reader: Reader, simple: Simple, parts: GitWords) -> tuple[list[str], str]:
    """Return all definitions of an alias, and why there may be others; empty if there cannot be."""
    verb = parts.rest[0].value
    settings = [*parts.settings, *reader.git_settings]
    why = ""
    if (
        parts.elsewhere
        or any(name in reader.state.variables for name in _ELSEWHERE)
        or _home_changed(reader)
    ):
        why = "its options or variables have Git read settings from another place"
    from_environment, unknown = _environment(reader)
    settings += from_environment
    if unknown or any(UNKNOWN in name or _includes(name) for name, _ in settings):
        why = why or "it has settings that only the run would tell"
    if any(_writes_settings(command) for command in reader.found):
        why = why or "an earlier part of the command may change the settings of Git"
    for cwd in simple.cwds:
        files = _files(cwd, parts.folders)
        if files is None:
            why = why or "the folder in which Git runs cannot be told"
            continue
        settings += _read_files(files)
    return list(dict.fromkeys(value for name, value in settings if _names(name, verb))), why


def _names(name: str, verb: str) -> bool:
    """Return whether a setting defines an alias: `alias.NAME`, and in newer versions
    `alias.NAME.command`.
    """
    return name.casefold() in (f"alias.{verb}".casefold(), f"alias.{verb}.command".casefold())


def _includes(name: str) -> bool:
    return name.casefold().startswith(("include.", "includeif."))


def _home_changed(reader: Reader) -> bool:
    return reader.state.variables.get("HOME") != (w.as_source(reader.places.home),)


def _environment(reader: Reader) -> tuple[list[tuple[str, str]], bool]:
    """Return the settings of variables (``GIT_CONFIG_COUNT`` and its kin), and whether there may be
    others.
    """

    def value(name: str) -> str | None:
        known = reader.state.variables.get(name)
        return known[0] if known else os.environ.get(name)

    found: list[tuple[str, str]] = []
    parameters = value("GIT_CONFIG_PARAMETERS")
    if parameters:
        try:
            pairs = [text.partition("=") for text in shlex.split(parameters)]
        except ValueError:
            return [], True
        found += [(name, text) for name, _, text in pairs]
    count = value("GIT_CONFIG_COUNT")
    if not count:
        return found, False
    if not count.isdecimal() or int(count) > MAX_COUNT:
        return found, True
    names = [value(f"GIT_CONFIG_KEY_{number}") for number in range(int(count))]
    values = [value(f"GIT_CONFIG_VALUE_{number}") for number in range(int(count))]
    found += [
        (name, text)
        for name, text in zip(names, values, strict=True)
        if name is not None and text is not None
    ]
    return found, None in names or None in values


def _note_settings(reader: Reader, rest: tuple[Word, ...]) -> None:
    """Note what `git config` in the text sets, for the commands after it."""
    values = [word.value for word in rest]
    for number, name in enumerate(values[1:], 1):
        following = values[number + 1] if number + 1 < len(values) else ""
        if name.casefold().startswith("alias.") or _includes(name) or UNKNOWN in name:
            reader.git_settings.append((name, following))
        elif name in ("-e", "--edit", "edit") or name.casefold() == "alias":
            reader.git_settings.append((UNKNOWN, ""))


def _writes_settings(command: Simple) -> bool:
    """Return whether a command may write a file of configuration, as far as its words tell."""
    texts = [redirect.target.value for redirect in command.redirects if ">" in redirect.operator]
    if command.words and os.path.basename(command.words[0].value) != "git":
        texts += [word.value for word in command.words[1:]]
    return any(
        os.path.basename(text.rpartition("=")[2]).casefold() in _CONFIG_NAMES for text in texts
    )


def _files(cwd: str | None, folders: tuple[str, ...]) -> list[str] | None:
    """Return the files of configuration that Git reads in a folder; None where the folder cannot be
    told.
    """
    for folder in folders:
        folder = os.path.expanduser(folder)
        if UNKNOWN in folder or (cwd is None and not os.path.isabs(folder)):
            return None
        cwd = os.path.join(cwd or "/", folder)
    if cwd is None:
        return None
    files = repositories.user_configs()
    files.append(os.path.expanduser("~/.gitconfig"))
    git = _git_folder(os.path.realpath(cwd))
    if git:
        common = (repositories.read(os.path.join(git, "commondir")) or "").strip()
        files += [os.path.join(git, "config"), os.path.join(git, "config.worktree")]
        if common:
            files.append(os.path.join(git, common, "config"))
    return files


def _git_folder(folder: str) -> str:
    """Return the Git folder for a working folder; empty where there is none."""
    while True:
        git = os.path.join(folder, ".git")
        if os.path.isdir(git):
            return git
        if os.path.isfile(git):
            return repositories.pointed(git)
        if os.path.isfile(os.path.join(folder, "HEAD")) and os.path.isdir(
            os.path.join(folder, "objects")
        ):
            return folder
        above = os.path.dirname(folder)
        if above == folder:
            return ""
        folder = above


def _read_files(files: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the aliases of files of configuration, and of those that they include."""
    waiting = list(files)
    seen: set[str] = set()
    while waiting and len(seen) < MAX_FILES:
        path = repositories.resolve("/", waiting.pop(0))
        if not path or path in seen:
            continue
        seen.add(path)
        text = repositories.read(path)
        if text is None:
            continue
        text = re.sub(r"\\\r?\n", "", text)  # a value may go on in the next line
        text = re.sub(
            r"(?m)^([ \t]*\[[^\]\n]*\])[ \t]*(?=[^\s#;])", r"\1\n", text
        )  # a setting may follow its section
        for setting in repositories.parse_config(text):
            section, _, key = setting.name.partition(".")
            if setting.name in ("include.path", "includeif.path"):
                waiting.append(
                    repositories.resolve(os.path.dirname(path), setting.value, home=True)
                )
            elif section == "alias":
                name = f"{setting.subsection}.{key}" if setting.subsection else key
                yield f"alias.{name}", setting.value


def _run_alias(reader: Reader, simple: Simple, parts: GitWords, value: str) -> None:
    """Read on in what an alias stands for: words of Git, or after `!` a text for a shell."""
    arguments = parts.rest[1:]
    if value.startswith("!"):
        from hilum_guard.programs import rejoined

        before = len(reader.found)
        text = value[1:].strip()
        # Git appends the arguments; a text that takes them itself (`f() { …; }; f`) reads the same
        # with them.
        reader.read_nested(
            f"{text} {rejoined(arguments)}", tuple(w.as_source(each.value) for each in arguments)
        )
        reader.imply(before)
        return
    try:
        words = shlex.split(value)
    except ValueError:
        reader.unresolved.append((simple, f"the alias `{parts.rest[0].value}` cannot be read"))
        return
    if words[:1] == [parts.rest[0].value]:
        return  # Git refuses an alias of itself
    _run(reader, simple, (*parts.options, *map(Word, words), *arguments))


def _run(reader: Reader, simple: Simple, words: tuple[Word, ...]) -> None:
    before = len(reader.found)
    if reader.implied_depth < 10:
        reader.implied_depth += 1
        try:
            reader.run_inner(simple, words)
        finally:
            reader.implied_depth -= 1
    else:
        reader.unresolved.append((simple, "its aliases lead to one another"))
    reader.imply(before)
