"""Find what a command does that a rule such as ``npm run x`` or ``git log *`` does not show.

The user who wrote or accepted such a rule had a harmless command in mind. A script may contain
something else later, and an option may turn a command that reads into one that writes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

import attrs

from hilum_guard.commands.verdicts import CommandVerdict, SimpleCommand, program_name
from hilum_guard.dangers import command_dangers
from hilum_guard.dangers.file_dangers import REMOVERS, is_temporary
from hilum_guard.dangers.marks import Mark, Rank, show_command, summarize
from hilum_guard.effects.command_effects import read_effects
from hilum_guard.effects.git_effects import git_words
from hilum_guard.effects.interpreted_code import find_script
from hilum_guard.effects.resolved_effects import resolve_effects
from hilum_guard.file_names import is_below
from hilum_guard.repositories.tracked_files import find_git_top, list_tracked_files

READING_GIT = frozenset(
    """status log diff show blame shortlog describe rev-parse rev-list ls-files ls-tree grep
    ls-remote cat-file whatchanged reflog diff-tree diff-index diff-files name-rev for-each-ref
    merge-base""".split()
)
"""Git commands that only read, unless an option says something else."""
# Options that write files, start programs or send something: of Git commands that read, and of
# programs that check a project.
_GIT_OPTIONS = (
    "--output --ext-diff --textconv --upload-pack --exec --open-files-in-pager --filters".split()
)
_OPTIONS = {
    "pytest": """--junitxml --junit-xml --basetemp --log-file --debug --pastebin --report-log
        --html --cov-report --resultlog""",
    "mypy": """--install-types --python-executable --junit-xml --cache-dir --html-report
        --txt-report --xml-report --cobertura-xml-report --linecount-report --linecoverage-report
        --lineprecision-report --any-exprs-report --xslt-html-report --xslt-txt-report""",
    "ruff": "--output-file -o --cache-dir",
    "pylint": "--output --init-hook --load-plugins",
    "flake8": "--output-file",
    "pyright": "--pythonpath --createstub",
    "tsc": "--outDir --outFile --declarationDir --generateTrace --tsBuildInfoFile",
    "cargo": "--target-dir --artifact-dir --out-dir --config --open",
}
# Options of Git whose names are the beginning of one above.
_COMPLETE = ("--text",)
# What only says that something is unknown.
_UNKNOWN = (Rank.UNREADABLE, Rank.UNKNOWN_CODE, Rank.CODE, Rank.HOST, Rank.SECRET)
# Builds and tests delete these folders before they fill them again.
_BUILT = frozenset(
    """dist build out output target coverage htmlcov node_modules .next .nuxt .output .svelte-kit
    .cache .turbo .parcel-cache .pytest_cache .mypy_cache .ruff_cache .tox .nox .nyc_output
    .coverage __pycache__ tmp temp storybook-static tsconfig.tsbuildinfo""".split()
)
_BUILT_FILES = "*.pyc *.pyo *.py[co] *.o *.a *.so *.class *.egg-info *.log *.tmp *.tsbuildinfo .DS_Store".split()
# A recipe often deletes its own target (`rm -f $@`) before it makes it.
_UNKNOWN_FILES = "deletes files that are only known at run time"
_FOUND = "deletes all files that a search finds"
_PUBLISHES = re.compile(
    r"(?:.*[-:])?(?:publish|deploy|release|upload|push|apply|destroy|migrate|rollback)(?:[-:].*)?"
)
# In the arguments of these programs, such a word is a name or a text.
_NO_VERBS = frozenset(
    """git echo printf cp mv mkdir rm rmdir ls cat cd test tar zip unzip find grep sed awk touch ln
    chmod install rimraf mkdirp cpx copyfiles make just npm pnpm yarn bun""".split()
)
_SENDING = {
    "curl": """-d -F -T -X --data --data-raw --data-binary --data-urlencode --data-ascii --form
        --json --upload-file --request""",
    "wget": "--post-data --post-file --method --body-data --body-file",
}
# These commands commit and tag.
_VERSIONS = (("npm", "version"), ("pnpm", "version"), ("yarn", "version"))
_SENDERS = frozenset("ssh scp sftp rsync ftp nc ncat netcat sendmail mail".split())


# --- options --------------------------------------------------------------------------------------


def find_unshown_option(pattern: Sequence[str], words: Sequence[str]) -> str:
    """Return an option that a rule does not show, and that does more than read or check.

    Args:
        pattern: The words of the rule's pattern.
        words: Program and arguments of a command that the rule matches.
    """
    # A rule such as `git *` is about more than reading.
    if program_name(words) == "git" and len(pattern) < 3:
        return ""
    shown = [word for word in pattern if word != "*"]
    for word in _list_options(words):
        if not any(fnmatchcase(word, each) for each in shown[1:]):
            return word
    return ""


def _list_options(words: Sequence[str]) -> Iterator[str]:
    """Yield the options of a command that write files, start programs or send something."""
    if not words:
        return
    program, *rest = words
    name = program_name(words)
    if name.startswith("python") and rest[:1] == ["-m"]:
        name = "".join(rest[1:2])
    dangerous = _OPTIONS.get(name, "").split()
    if name == "git":
        _, verb, *rest = (*git_words((program, *rest)), "")
        dangerous = list(_GIT_OPTIONS) if verb in READING_GIT else []
        dangerous += ["-O"] if verb == "grep" else []
    for word in rest:
        if word == "--":
            return
        if any(_is_option(word, option) for option in dangerous):
            yield word


def _is_option(word: str, option: str) -> bool:
    """Return whether a word is an option, which may be abbreviated or have its value attached."""
    if not option.startswith("--"):
        return word.startswith(option) and not word.startswith("--")
    name = word.partition("=")[0]
    is_abbreviated = len(name) > len("--e") and name not in _COMPLETE
    return name == option or (is_abbreviated and option.startswith(name))


# --- scripts --------------------------------------------------------------------------------------


def find_unshown_effect(
    verdict: CommandVerdict, implied: Iterable[SimpleCommand], root: str, *, is_strict: bool = False
) -> str:
    """Return what a script does that is more than building and testing; empty if it is nothing.

    Reads the disk.

    Args:
        verdict: The command line that runs the script.
        implied: The commands in the script to look at.
        root: Root of the workspace, resolved.
        is_strict: Whether what cannot be read, the use of the network and changes to the repository
            count, too.
    """
    commands = tuple(dict.fromkeys(implied))
    if not commands:
        return ""
    for mark in _list_marks(verdict, commands, root, is_strict=is_strict):
        return summarize([mark])[0].text
    for command in commands:
        shown = show_command(command)
        if _deletes_sources(command, root):
            return f"deletes files ({shown})"
        if _sends(command):
            return f"sends data over the network ({shown})"
        if _publishes(command):
            return f"may publish or deploy something ({shown})"
        if is_strict and (read_effects(command).network or _changes_repository(command)):
            return f"uses the network or changes the repository ({shown})"
        if is_strict and _runs_unread_script(command):
            return f"runs a program that hilum does not read ({shown})"
    return ""


def _list_marks(
    verdict: CommandVerdict, commands: tuple[SimpleCommand, ...], root: str, *, is_strict: bool
) -> Iterator[Mark]:
    complete = verdict.complete or not is_strict
    unresolved = verdict.unresolved if is_strict else ()
    script = attrs.evolve(
        verdict,
        kind="ask",
        commands=(),
        implied=commands,
        complete=complete,
        unresolved=unresolved,
    )
    for mark in command_dangers.find_marks(script, [root]):
        # Deletions are judged by what is deleted.
        is_deletion = mark.rank is Rank.OTHER and mark.text.startswith("deletes ")
        is_built = mark.text.startswith(_FOUND) and _finds_built(mark.name)
        is_unknown = mark.rank in _UNKNOWN or mark.text.startswith(_UNKNOWN_FILES)
        if not is_deletion and not is_built and (is_strict or not is_unknown):
            yield mark


def _finds_built(search: str) -> bool:
    """Return whether a `find` finds only files and folders that builds make."""
    words = search.replace("'", "").replace('"', "").split()
    if not {"!", "-not", "-o", "-or", ",", "("}.isdisjoint(words):
        return False
    named = [words[at + 1] for at, word in enumerate(words[:-1]) if word == "-name"]
    return bool(named) and all(_is_built(name) or name in _BUILT_FILES for name in named)


def _is_built(name: str) -> bool:
    return name in _BUILT or any(fnmatchcase(name, each) for each in _BUILT_FILES)


def _deletes_sources(command: SimpleCommand, root: str) -> bool:
    """Return whether a command deletes something that a build would not make again."""
    if command.program not in REMOVERS:
        return False
    for effect in resolve_effects((command,), root, complete=True).effects:
        if effect.kind != "delete":
            continue
        path = os.path.join(root, effect.path)
        if not os.path.lexists(path) or is_temporary(path, [root]):
            continue
        if not _is_built(os.path.basename(path)) or _has_tracked_files(path):
            return True
    return False


def _has_tracked_files(path: str) -> bool:
    top = find_git_top(os.path.dirname(path))
    if top is None:
        return False
    tracked = list_tracked_files(top)
    if tracked is None:
        return True
    files = (os.path.join(top, name) for name in tracked)
    return any(file == path or is_below(file, [path]) for file in files)


def _sends(command: SimpleCommand) -> bool:
    if command.program in _SENDERS:
        return bool(read_effects(command).network or read_effects(command).hosts)
    options = _SENDING.get(command.program, "").split()
    return any(_is_option(word, option) for word in command.words[1:] for option in options)


def _publishes(command: SimpleCommand) -> bool:
    if not command.words or command.program in _NO_VERBS:
        return False
    named = [command.program, *command.words[1:3]]
    return any(_PUBLISHES.fullmatch(word) for word in named if not word.startswith("-"))


def _changes_repository(command: SimpleCommand) -> bool:
    if command.words[:2] in _VERSIONS:
        return True
    verb = "".join(git_words(command.words)[1:2])
    return command.program == "git" and verb not in READING_GIT


def _runs_unread_script(command: SimpleCommand) -> bool:
    """Return whether a command runs a program of the project in another language than the shell's."""
    script = find_script(command) if command.words else None
    return script is not None and not script.shell and script.position > 0
