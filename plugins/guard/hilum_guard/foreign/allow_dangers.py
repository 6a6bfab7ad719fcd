"""Find what is dangerous in a rule that allows calls, before the user takes it over.

Harmless is a short list, and everything else is dangerous: the rules come from a file that somebody
else may have written, and an accepted rule replaces a question for ever.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from hilum_guard import protected_files
from hilum_guard.commands import judge_command
from hilum_guard.commands.verdicts import CommandVerdict
from hilum_guard.dangers.unshown import find_unshown_effect
from hilum_guard.rules.matching import EXACT, parse
from hilum_guard.rules.patterns import pattern_words
from hilum_guard.rules.tool_names import STANDARD

# These programs read at most the names of files, whatever their arguments.
_NAME_READERS = frozenset("ls pwd echo true false test which whoami basename dirname df du".split())
# Commands that may have any arguments: they report on the repository, or run the project's checks.
_OPEN = frozenset(
    tuple(words.split())
    for words in (
        "git status,git log,git diff,git show,git blame,git shortlog,git describe,git rev-parse,"
        "git rev-list,git ls-files,git ls-tree,pytest,python -m pytest,python3 -m pytest,mypy,"
        "python -m mypy,python3 -m mypy,ruff check,ruff format,black,isort,flake8,pylint,pyright,"
        "tsc,cargo build,cargo test,cargo check,cargo clippy,cargo fmt,cargo doc"
    ).split(",")
)
# Commands whose options can name another program to run, so only exact ones are harmless.
_EXACT = frozenset(
    tuple(words.split())
    for words in (
        "go build,go test,go vet,go fmt,"
        "tox,nox,gradle build,gradle check,gradle test,mvn compile,mvn package,mvn test,mvn verify,"
        "eslint,prettier,jest,vitest,mocha,cmake --build,ctest,dotnet build,dotnet test,swift build,"
        "swift test,composer test,rspec,rubocop,pre-commit run"
    ).split(",")
)
# The next word names one of the project's own scripts or targets.
_SCRIPT_RUNNERS = frozenset(
    tuple(words.split()) for words in ("npm run", "pnpm run", "yarn run", "bun run", "make", "just")
)
# These run a script or a target without naming it.
_TESTS = frozenset(
    tuple(words.split())
    for words in ("npm test", "npm run test", "pnpm test", "yarn test", "bun test", "make")
)
_PLAIN_FLAGS = frozenset("-v -vv -q -x -s --verbose --quiet --release --check --all-files".split())
_SCRIPT = re.compile(r"\w[\w.:-]*")
_ARGUMENT = re.compile(r"(?!/)(?!(?:.*/)?\.\.(?:/|$))[\w.][\w./:@-]*")
_WILDCARD = re.compile(r"[*?\[\\]")


def find_danger(text: str, folder: Path) -> str:
    """Return why a rule must be accepted alone; empty if it may be accepted with others. Blocks.

    Args:
        text: A rule that allows, in hilum's notation.
        folder: The workspace.
    """
    rule = parse(text, "allow")
    category = STANDARD.get(rule.tool, "")
    if rule.tool == "run_terminal_cmd" and not rule.about_all:
        return _find_command_danger(rule.pattern or "", folder)
    if "*" in rule.tool or "?" in rule.tool:
        return "it allows many tools without a question"
    if "__" in rule.tool:
        return "the tool of a server can do anything"
    if category in ("read", "write") and rule.about_paths:
        return _find_path_danger(rule.pattern or "", is_write=category == "write")
    if category == "read":
        return ""
    if category == "write":
        return "it allows changing every file"
    if rule.about_hosts:
        return "anything can be sent to a host that a file of another agent names"
    if rule.about_all:
        return f"it allows every call of {rule.tool}"
    return f"hilum does not know that these calls of {rule.tool} are harmless"


def explain_refusal(text: str) -> str:
    """Return why a rule cannot be taken over; empty if it can.

    A rule that names a protected file or a secret replaces the guard's question about that file.
    Only the user's own rule may do that.

    Args:
        text: A rule that allows, in hilum's notation.
    """
    rule = parse(text, "allow")
    if not rule.about_paths or STANDARD.get(rule.tool) not in ("read", "write"):
        return ""
    return _explain_protection(rule.pattern or "", is_write=STANDARD[rule.tool] == "write")


def _explain_protection(pattern: str, *, is_write: bool) -> str:
    """Return why the guard asks about the path that a pattern names."""
    path = pattern.replace("\\", "").strip("/")
    # `.env*` and `**/.env` are about secrets, too.
    plain = _WILDCARD.sub("", path).strip("/")
    for each in dict.fromkeys((path, plain)):
        why = protected_files.secret(each)
        if not why and is_write:
            why = protected_files.governing(each)
        if why:
            return f"hilum asks about such a file each time, because {why}"
    return ""


# --- paths ----------------------------------------------------------------------------------------


def _find_path_danger(pattern: str, *, is_write: bool) -> str:
    if pattern.startswith(("//", "~", "$")) or ".." in pattern.split("/"):
        return "its paths are outside the project"
    why = _explain_protection(pattern, is_write=is_write)
    if why:
        return why
    if not is_write:
        return ""
    if not re.search(r"\w", pattern):
        return "it allows changing every file"
    if any(part.startswith(".") and part != "." for part in pattern.split("/")):
        return "programs take their settings from hidden files"
    return ""


# --- commands -------------------------------------------------------------------------------------


def _find_command_danger(pattern: str, folder: Path) -> str:
    if pattern.startswith(EXACT):
        pattern = pattern.removeprefix(EXACT)
    words = pattern_words(pattern)
    is_open = bool(words) and words[-1] == "*"
    literal = list(words[:-1] if is_open else words)
    if not literal or _WILDCARD.search(literal[0]):
        return "it allows many programs"
    if any(_WILDCARD.search(word) for word in literal):
        return "its wildcard stands for many commands"
    if any(_names_secret(word) for word in literal):
        return "it names a file with keys and passwords"
    program = literal[0]
    if is_open:
        return "" if _is_harmless_open(literal) else _explain_open(literal)
    verdict = judge_command(shlex.join(literal), workspace=folder)
    if verdict.kind == "block":
        return verdict.reason
    grave = next((command.grave for command in verdict.all_commands if command.grave), "")
    if grave:
        return grave
    if verdict.kind == "auto" and not verdict.writes:
        return ""
    effect = find_unshown_effect(verdict, verdict.implied, str(folder), is_strict=True)
    if effect:
        return f"its script {effect}"
    if _runs_script(literal):
        return "" if _has_script(verdict, folder) else "its script does not exist in this folder"
    if _is_harmless_open(literal) or _is_harmless_exact(literal):
        return ""
    return f"hilum does not know that this command of {program} is harmless"


def _names_secret(word: str) -> bool:
    value = word.rpartition("=")[2]
    return bool(value) and bool(protected_files.secret(value.lstrip("/~")))


def _explain_open(words: Sequence[str]) -> str:
    if len(words) == 1:
        return f"{words[0]} with any arguments is not known to be harmless"
    return f"{' '.join(words)} with any further arguments is not known to be harmless"


def _is_harmless_open(words: Sequence[str]) -> bool:
    """Return whether a command is harmless with any further arguments."""
    if words[0] in _NAME_READERS:
        return True
    for size in (1, 2, 3):
        rest = words[size:]
        if tuple(words[:size]) in _OPEN and all(map(_is_plain, rest)):
            return True
    return False


def _is_harmless_exact(words: Sequence[str]) -> bool:
    """Return whether a command is harmless if nothing may follow it."""
    for size in (1, 2):
        rest = words[size:]
        if tuple(words[:size]) in _EXACT and all(map(_is_plain, rest)):
            return True
    return False


def _runs_script(words: Sequence[str]) -> bool:
    """Return whether a command runs just one of the project's own scripts or targets."""
    for size in (1, 2):
        is_runner = tuple(words[:size]) in _SCRIPT_RUNNERS
        if is_runner and len(words) == size + 1 and _SCRIPT.fullmatch(words[size]):
            return True
    is_test = tuple(words[:2]) in _TESTS or tuple(words[:1]) in _TESTS
    return is_test and all(map(_is_plain, words[2:]))


def _has_script(verdict: CommandVerdict, folder: Path) -> bool:
    """Return whether the script that a command runs exists, with all scripts that it runs."""
    if not verdict.implied:
        return False
    for command in verdict.implied:
        # The rules of a make file run other targets, which exist if the file could be read.
        if command.program == "make" or not _runs_script(command.words):
            continue
        if not judge_command(command.source, workspace=folder).implied:
            return False
    return True


def _is_plain(word: str) -> bool:
    """Return whether an argument is a flag without a value, or a path in the project."""
    return word in _PLAIN_FLAGS or bool(_ARGUMENT.fullmatch(word))
