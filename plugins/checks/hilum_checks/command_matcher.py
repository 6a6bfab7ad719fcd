"""Match simple commands against the commands that rules forbid.

Sub-commands must be in order; options may have any order and spelling.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

import attrs
from hilum_guard import CHANGED, UNKNOWN, fit_words, git_words

from hilum_checks import (
    code_texts,
    git_options,
    git_references,
    given_options,
    harmless_options,
    new_tags,
    program_words,
)
from hilum_checks import vocabulary as v
from hilum_checks.forge_options import split_options
from hilum_checks.git_branches import (
    commits_elsewhere,
    match_branches,
    match_changed_branches,
)
from hilum_checks.model import Commands, Words
from hilum_checks.new_branches import match_new_branches
from hilum_checks.path_matcher import Fit, stronger_fit
from hilum_checks.program_spellings import list_spellings
from hilum_checks.pull_request_bases import may_target_other
from hilum_checks.skipped_hooks import match_skipped_hooks
from hilum_checks.step_limit import count_step

if TYPE_CHECKING:
    from hilum_checks.command_facts import CommandFacts

# Words of commands that install packages already listed in the project.
_OWN_PACKAGE = re.compile(
    r"-r|--requirements?(?:=.*)?|-e|--editable|\.|\.\[.*\]|-c|\./.*|--frozen-lockfile|--no-save"
    r"|--locked|-g?"
)
_OWN_FILE_OPTIONS = ("-r", "--requirement", "--requirements", "-c", "-e", "--editable")
# Options that do not name a package, but where packages are installed or come from.
_PLACE_OPTIONS = frozenset(
    """
    --python --target --prefix --root --index-url --default-index --index --extra-index-url
    --find-links --cache-dir --directory --project --config-file --registry
    """.split()
)
# Commands that name packages and nothing else.
_ONLY_NEW = frozenset((("go", "mod", "edit"), ("npm", "pkg", "set"), ("pnpm", "pkg", "set")))
# Programs whose operands are independent goals, not a sub-command with its arguments.
_RUNS_GOALS = frozenset("make gmake just ninja rake invoke task flyway".split())
# Commands of Git that commit other commits or patches, and options that end them without a commit.
_COMMITS_OF_PATCHES = frozenset(("am", "cherry-pick", "revert"))
_MAY_COMMIT_LATER = frozenset(("cherry-pick", "revert"))
_SIGN_OFF = ("git", "commit", "--signoff")
_ENDS = frozenset(("--abort", "--quit"))
# Commands of Git that run no hooks and change nothing.
_ONLY_SHOWS = frozenset(
    "blame cat-file describe diff for-each-ref grep log ls-files ls-tree rev-list rev-parse shortlog show status".split()
)
_SHOWS_STASHES = (("list",), ("show",))
_STARTS_OTHERS = frozenset("npx bunx uvx".split())
# Programs with unambiguous names: code that contains such a name is assumed to run the program.
_RARE_NAMES = frozenset(
    "sudo doas npm pnpm npx pip pip3 kubectl terraform scp rsync apt-get".split()
)


def match_command(constraint: Commands, command: CommandFacts) -> Fit:
    """Return whether a constraint covers a simple command."""
    count_step()
    if constraint.new_branches:
        return match_new_branches(constraint, command)
    fit = _match_any(constraint, command)
    if constraint.skips_hooks:
        fit = stronger_fit(fit, match_skipped_hooks(command))
    if fit and constraint.unless:
        passed = given_options.list_passed(command)
        patterns: tuple[Words, ...] = ()
        if not _switches_off(constraint.unless, command, passed):
            patterns = tuple(words for words in constraint.unless if _passes_options(words, passed))
            if _SIGN_OFF in constraint.unless and given_options.signs_off(command):
                return ""
        exceptions = attrs.evolve(constraint, patterns=patterns, unless=())
        # What may be an exception is none, so that the rule fails closed.
        if _match_any(exceptions, command) == "yes":
            return ""
        # `uv run pytest` is an exception also for the `pytest` that it runs.
        for runner in command.command.runners:
            if _matches_alone(exceptions, runner):
                return ""
    if not fit and may_target_other(constraint, command):
        return "yes"
    return fit


def _list_options(pattern: Words) -> list[str]:
    """Return the options in a pattern, without those of Git before the sub-command."""
    _, pattern = _split_front(pattern)
    end = pattern.index("--") if "--" in pattern else len(pattern)
    return [word for word in pattern[:end] if _is_option(word)]


def _switches_off(exceptions: Sequence[Words], command: CommandFacts, passed: Words | None) -> bool:
    """Return whether a command takes back an option of an exception."""
    options = [option for pattern in exceptions for option in _list_options(pattern)]
    return given_options.switches_off(options, command.words[1:] if passed is None else passed)


def _passes_options(pattern: Words, passed: Words | None) -> bool:
    """Return whether a command passes the options of an exception, not as values of others.

    Args:
        pattern: The words of the exception.
        passed: The options that the command passes; ``None`` if its syntax is unknown.
    """
    if passed is None:
        return True
    if pattern[:2] == ("git", "switch"):
        pattern = _shorten_switch(pattern)
        passed = _shorten_switch((*pattern[:2], *passed))
    return all(_has_option(option, (pattern[0], *passed)) for option in _list_options(pattern))


def _match_any(constraint: Commands, command: CommandFacts) -> Fit:
    if not command.words:
        return ""
    words = _plain_words(command)
    # ``git push --help`` only displays a page, and ``cargo publish --dry-run`` publishes nothing.
    if _does_nothing(constraint, command.effects.program, words):
        return ""
    # ``git cherry-pick --abort`` gives up a commit instead of making one.
    is_end = len(words) == 3 and words[0] == "git" and words[1] in _COMMITS_OF_PATCHES
    if is_end and words[2] in _ENDS and not _names_option(constraint, words[2]):
        return ""
    # With `--no-commit`, they only change the working tree and the index.
    is_about_commits = set(v.GIT_COMMIT) <= set(constraint.patterns)
    is_later = words[0] == "git" and not _MAY_COMMIT_LATER.isdisjoint(words[1:2])
    if is_about_commits and is_later and git_options.leaves_uncommitted(words[2:]):
        return ""
    best = _match_words(constraint, command, words, is_path=False)
    for by_path in _words_by_path(command, words):
        best = stronger_fit(
            best, _match_words(constraint, command, by_path, is_path="/" in by_path[0])
        )
    for spelling in list_spellings(command.effects.program, command.words):
        if not _does_nothing(constraint, spelling[0], spelling):
            best = stronger_fit(best, _match_spelling(constraint, command, spelling))
    # A rule about a branch means commits on it, however they reach it.
    if constraint.branches:
        is_about_commits = any(pattern[:2] == ("git", "commit") for pattern in constraint.patterns)
        if not is_about_commits:
            return best
        best = stronger_fit(best, match_changed_branches(constraint.branches, command))
        return best or ("maybe" if commits_elsewhere(command) else "")
    for other in git_references.find_equivalents(command):
        fit = _match_words(constraint, command, other.words, is_path=False)
        best = stronger_fit(best, fit if other.certain or not fit else "maybe")
    best = stronger_fit(best, _match_committed(constraint, command))
    # Code does not show which branch is checked out when it runs, so that this does not apply to
    # rules about branches.
    if best != "yes" and _is_in_code(constraint, command):
        return "yes"
    return best


def _match_spelling(constraint: Commands, command: CommandFacts, words: Words) -> Fit:
    """Return whether another spelling of a command fits a pattern that names a sub-command."""
    patterns = tuple(
        pattern
        for pattern in constraint.patterns
        if len(pattern) > 1 or command.effects.program in ("xcrun", "sail", "iex")
    )
    return _match_words(attrs.evolve(constraint, patterns=patterns), command, words, is_path=False)


def _match_committed(constraint: Commands, command: CommandFacts) -> Fit:
    """Return whether a command commits files that must not be added: `git commit data/a.csv`."""
    named = tuple(each for each in constraint.patterns if each[:3] == ("git", "add", "*"))
    if not named:
        return ""
    best: Fit = ""
    about = attrs.evolve(constraint, patterns=named, unless=())
    for other in git_references.find_committed(command):
        best = stronger_fit(best, _match_words(about, command, other.words, is_path=False))
    return best


def _does_nothing(constraint: Commands, program: str, words: Words) -> bool:
    """Return whether a command only displays something, and is not itself what is forbidden."""
    if any(pattern[0] == "*" for pattern in constraint.patterns):
        return False
    words = program_words.spell_cargo(words, toolchain=False)
    if harmless_options.asks_for_help(program, words):
        return True
    trial = harmless_options.find_trial(program, words)
    return bool(trial) and not _names_option(constraint, trial)


def _names_option(constraint: Commands, option: str) -> bool:
    return any(option in pattern for pattern in constraint.patterns)


def _match_words(
    constraint: Commands, command: CommandFacts, words: Words, *, is_path: bool
) -> Fit:
    best: Fit = ""
    if not words:
        return best
    if set(v.TAG) <= set(constraint.patterns):
        # The rule is about creating tags, in any way.
        if words[:2] == v.TAG[0][:2]:
            return new_tags.match_new_tag(words)
        best = new_tags.match_release(words)
    if any("." in pattern for pattern in constraint.patterns):
        words = _name_folder(words, command.cwds)
    for pattern in constraint.patterns:
        # Each word may be compared with each word of the pattern.
        count_step(1 + len(words) // 20)
        # A rule about stashes is about changes of them.
        if pattern == ("git", "stash") and words[:2] == pattern and words[2:3] in _SHOWS_STASHES:
            continue
        fit = _match_pattern(constraint, pattern, command.words, words, is_path=is_path)
        if fit and constraint.branches:
            fit = match_branches(constraint.branches, command)
        best = stronger_fit(best, fit)
    return best


def _name_folder(words: Words, cwds: Sequence[str | None]) -> Words:
    """Return words with the working folder as `.`, however it is written."""
    named = {f"{cwd.rstrip('/')}/" for cwd in cwds if cwd}
    return tuple("." if word == "./" or f"{word.rstrip('/')}/" in named else word for word in words)


def _matches_alone(constraint: Commands, words: Words) -> bool:
    """Return whether words certainly match a constraint, whatever else their command does."""
    program = words[0].rpartition("/")[2]
    plain = git_words(words) if program == "git" else words
    return any(
        _match_pattern(constraint, pattern, words, plain, is_path=False) == "yes"
        for pattern in constraint.patterns
    )


def _plain_words(command: CommandFacts) -> Words:
    """Return a command whose program is named as in rules."""
    if command.effects.program == "git":
        words = git_options.complete_names(git_words(command.words))
        return _shorten_switch(_join_force(words))
    if command.effects.program in ("gh", "glab"):
        return split_options(command.effects.program, command.words)
    # ``pip3.12`` is pip, so a rule against ``pip install`` also applies to it.
    versioned = re.fullmatch(r"(pip3?)[\d.]+", command.effects.program)
    return (versioned[1], *command.words[1:]) if versioned else command.words


def _join_force(words: Words) -> Words:
    """Return ``git branch -d -f`` as ``git branch -D``, which means the same."""
    if words[1:2] == ("branch",) and _has_letters("d", words) and _has_letters("f", words):
        return (*words[:2], "-D", *words[2:])
    return words


def _shorten_switch(words: Words) -> Words:
    """Return ``git switch --create=x`` as ``git switch -c x``, which means the same."""
    if words[:2] != ("git", "switch"):
        return words
    short: list[str] = []
    for word in words:
        option, _, value = word.partition("=")
        letter = ""
        # Git accepts the beginning of an option if only one option begins with it.
        if len(option) > 3 and "--create".startswith(option):
            letter = "-c"
        elif len(option) > 7 and "--force-create".startswith(option):
            letter = "-C"
        short.append(letter or word)
        if letter and value:
            short.append(value)
    return tuple(short)


def _words_by_path(command: CommandFacts, words: Words) -> Iterator[Words]:
    """Yield a command with the path of its program or script, for patterns that contain a path."""
    starts = [words]
    script = command.effects.script
    if script is not None and script.position < len(command.words):
        run = command.words[script.position :]
        starts.append(run)
        yield (os.path.basename(run[0]), *run[1:])
    for start in starts:
        path = os.path.join(command.cwd or "/", start[0])
        parts = os.path.normpath(path).split("/")
        # A pattern such as ``scripts/deploy.sh`` names only the end of the path.
        for number in range(2, min(5, len(parts))):
            yield ("/".join(parts[-number:]), *start[1:])


def _split_front(pattern: Words) -> tuple[list[tuple[str, str]], Words]:
    """Return the options `-c NAME=VALUE` and `-C DIR` before the sub-command of Git, and the rest."""
    front = []
    rest = list(pattern)
    while rest[0] == "git" and len(rest) > 2 and rest[1] in ("-c", "-C"):
        front.append((rest[1], rest[2].casefold()))
        del rest[1:3]
    return front, tuple(rest)


def _fit_front(front: Sequence[tuple[str, str]], words: Words) -> Fit:
    """Return whether a Git command has all of some options before its sub-command."""
    if not words or words[0].rpartition("/")[2] != "git":
        return ""
    given = words[1 : len(words) - len(git_words(words)) + 1]
    pairs = [(option, value.casefold()) for option, value in pairwise(given)]
    best: Fit = "yes"
    for option, wanted in front:
        if any(name == option and fnmatch.fnmatchcase(value, wanted) for name, value in pairs):
            continue
        if not any(UNKNOWN in word for word in given):
            return ""
        best = "maybe"
    return best


def _match_pattern(
    constraint: Commands, pattern: Words, given: Words, words: Words, *, is_path: bool
) -> Fit:
    """Return whether a pattern fits.

    Args:
        constraint: The constraint.
        pattern: One of its patterns.
        given: The words of the command as they are.
        words: The words with the program named as in rules, without the options of Git in front.
        is_path: Whether the program is given by its path.
    """
    front, pattern = _split_front(pattern)
    pattern = _shorten_switch(pattern)
    if pattern[0] == "cargo":
        has_toolchain = program_words.names_toolchain(pattern)
        pattern = program_words.spell_cargo(pattern, toolchain=True)
        words = program_words.spell_cargo(words, toolchain=has_toolchain)
    in_front = _fit_front(front, given) if front else "yes"
    if not in_front:
        return ""
    fit = _match_rest(constraint, pattern, words, is_path=is_path)
    return fit if in_front == "yes" or not fit else "maybe"


def _match_rest(constraint: Commands, pattern: Words, words: Words, *, is_path: bool) -> Fit:
    # `./gradlew` downloads and starts `gradle`.
    tool = program_words.find_build_tool(pattern[0])
    # "Never run `gradle` directly" wants `./gradlew`.
    if len(pattern) == 1 and pattern[0] != words[0].rpartition("/")[2]:
        tool = ""
    if tool and tool == program_words.find_build_tool(words[0]):
        pattern, words = (tool, *pattern[1:]), (tool, *words[1:])
    elif "/" in pattern[0]:
        pattern = (pattern[0].removeprefix("./"), *pattern[1:])
    elif is_path:
        return ""
    # What follows `--` is no option of the program, but a word at its place.
    end = pattern.index("--") if "--" in pattern else len(pattern)
    numbers = _find_numbers(pattern[:end])
    given = [_list_values(option, words) for option, _ in numbers]
    if any(number not in each for (_, number), each in zip(numbers, given, strict=True)):
        is_hidden = any(UNKNOWN in value for each in given for value in each)
        return "maybe" if is_hidden or _may_be_hidden(pattern, words) else ""
    # The number is the option's value and no operand: `uvicorn app --workers 4` fits `uvicorn
    # --workers 4`.
    pattern = _leave_out_numbers(pattern, numbers)
    end -= len(numbers)
    options = [word for word in pattern[:end] if _is_option(word)]
    missing = [option for option in options if not _has_option(option, words)]
    if pattern[0] != "*":
        # Some programs take `-name` for `--name`.
        single = [each for each in missing if each.startswith("--") and _is_long_name(each, words)]
        missing = [each for each in missing if each not in single]
    if missing and not _may_be_hidden(pattern, words):
        return ""
    if _runs_other_module(pattern, words):
        return ""
    words = _put_goal_first(pattern, _open_globs(pattern, words))
    if pattern[0] == "cmake" and not options:
        words = program_words.keep_cmake_operands(words)
    if options and pattern[0] == "*":
        fit: Fit = "yes"
    else:
        plain = [word for word in pattern[:end] if not _is_option(word)]
        plain += pattern[end:]
        fit = fit_words(plain, words, strict=False) or _fit_after_unknown(plain, words)
    # If an option is given several numbers, programs differ in which they use.
    if fit == "yes" and (missing or any(len(set(each)) > 1 for each in given)):
        fit = "maybe"
    is_new = not constraint.new or pattern[:3] in _ONLY_NEW
    if fit == "yes" and not is_new and _installs_own(words[len(pattern) :]):
        return ""
    return fit


def _find_numbers(pattern: Words) -> list[tuple[str, str]]:
    """Return the long options in a pattern that a number follows, with the number."""
    return [
        (option, number)
        for option, number in pairwise(pattern)
        if option.startswith("--") and len(option) > 2 and number.isdecimal()
    ]


def _list_values(option: str, words: Words) -> list[str]:
    """Return the values that words give to a long option: `--workers 4`, `--workers=4`."""
    if "--" in words[1:]:
        words = words[: words.index("--", 1)]
    values = [word.removeprefix(f"{option}=") for word in words if word.startswith(f"{option}=")]
    return values + [after for word, after in pairwise(words) if word == option]


def _leave_out_numbers(pattern: Words, numbers: Sequence[tuple[str, str]]) -> Words:
    """Return a pattern without the numbers after its options."""
    left = [pattern[0]]
    left += [word for before, word in pairwise(pattern) if (before, word) not in numbers]
    return tuple(left)


def _runs_other_module(pattern: Words, words: Words) -> bool:
    """Return whether `python -m NAME` runs another module than the one of a pattern."""
    if pattern[1:2] != ("-m",) or "-m" not in words[:-1]:
        return False
    module = words[words.index("-m") + 1]
    return UNKNOWN not in module and not fnmatch.fnmatchcase(module, pattern[2])


def _open_globs(pattern: Words, words: Words) -> Words:
    """Return words with each one that a file name may turn into a sub-command as unknown.

    `touch push; git pus*` is `git push`.
    """
    opened = [
        UNKNOWN
        if any(char in word for char in "*?[")
        and any(fnmatch.fnmatchcase(each, word) for each in pattern[1:])
        else word
        for word in words[1:]
    ]
    return (*words[:1], *opened)


def _may_be_hidden(pattern: Words, words: Words) -> bool:
    """Return whether a word that is known only at run time may be a missing option."""
    # Otherwise, a rule about an option of any program would concern each `echo "$X"`.
    if pattern[0] == "*" and words[0] != "git":
        return False
    given = words[1:]
    if pattern[0] == "*" and given[:1] and given[0] in _ONLY_SHOWS:
        return False
    if words[0] in _STARTS_OTHERS:
        # What follows the name of the other program are its options.
        given = tuple(takewhile(lambda word: word.startswith(("-", UNKNOWN)), given))
    return any(word.startswith((UNKNOWN, f"-{UNKNOWN}")) for word in given if word != CHANGED)


def _fit_after_unknown(plain: list[str], words: Words) -> Fit:
    """Return whether words fit if one that is known only at run time is an option with a value."""
    if words[0] != plain[0] or UNKNOWN not in words:
        return ""
    rest = iter(words[1:])
    return "maybe" if all(word in rest for word in plain[1:]) else ""


def _put_goal_first(pattern: Words, words: Words) -> Words:
    """Return ``make test ship`` as ``make ship test`` for a rule about ``make ship``.

    Such a program runs all goals that its operands name.
    """
    if pattern[0] == words[0] and program_words.find_build_tool(pattern[0]):
        is_task = len(pattern) == 2 and not _is_option(pattern[1])
        return program_words.put_task_first(pattern, words) if is_task else words
    if pattern[0] not in _RUNS_GOALS or len(pattern) != 2 or pattern[1] not in words:
        return words
    return (words[0], pattern[1], *(word for word in words[1:] if word != pattern[1]))


def _is_in_code(constraint: Commands, command: CommandFacts) -> bool:
    """Return whether code run by a command contains a forbidden command."""
    if not command.texts:
        return False
    for pattern in constraint.patterns:
        # A single word such as ``rm`` or ``make`` often means something else in code.
        if len(pattern) == 1 and pattern[0] not in _RARE_NAMES:
            continue
        mention = code_texts.mention_pattern(pattern)
        if any(mention.search(text) for text in command.texts):
            return True
    return False


# --- options --------------------------------------------------------------------------------------

_LONG_NAMES = {
    "r": "--recursive",
    "R": "--recursive",
    "f": "--force",
    "D": "--delete",
    "n": "--no-verify",
    "d": "--delete",
    "a": "--all",
    "y": "--yes",
    "g": "--global",
    "S": "--sync",
}
_REFSPECS = ("+*", ":*")
# Programs of whose long options the first letter is enough, because each has another one.
_SHORTEST_NAMES = frozenset(("rm", "grm"))


def _is_option(word: str) -> bool:
    if word in _REFSPECS:
        return True
    # ``-m`` and ``-S`` are kept in order like sub-commands: ``python -m pip``, ``pacman -S``.
    return word.startswith("-") and word not in ("-", "--", "-m", "-S")


def _has_option(option: str, words: Words) -> bool:
    """Return whether words contain an option, in any spelling."""
    if "--" in words[1:]:
        # After ``--``, words are operands even if they look like options (POSIX, Utility Syntax
        # Guideline 10).
        words = words[: words.index("--", 1)]
    if option in _REFSPECS:
        return any(fnmatch.fnmatchcase(word, option) for word in words[1:])
    if option.startswith("--"):
        return any(_is_long_option(word, option, words[0]) for word in words[1:])
    if _is_long_name(option, words):
        return True
    # A property of Java's programs: `-DskipTests`, `-D skipTests`.
    if option.startswith("-D") and len(option) > 2:
        return option in words[1:] or ("-D", option[2:]) in pairwise(words[1:])
    if option == "-i" and words[0].rpartition("/")[2] in _EDITS_IN_PLACE:
        return any(_IN_PLACE.match(word) for word in words[1:])
    if not option[1:].isalpha():
        # `-j8` and `-j 8` mean the same.
        return option in words[1:] or (option[:2], option[2:]) in pairwise(words[1:])
    return _has_letters(option[1:], words)


_EDITS_IN_PLACE = frozenset(("sed", "gsed"))
# `sed -i.bak` and `sed -Ei`; the letters before are options without a value.
_IN_PLACE = re.compile(r"-[nErsuz]*i")


def _is_long_name(option: str, words: Words) -> bool:
    """Return whether words contain an option of one dash and several letters with two, or a value.

    Programs that are written in Go and Java take `-auto-approve`, `--auto-approve` and
    `-auto-approve=true` for the same.
    """
    name = option.lstrip("-")
    if len(name) < 3:
        return False
    for word in words[1:]:
        given, _, value = word.lstrip("-").partition("=")
        if word.startswith("-") and given == name and value.lower() not in _FALSE:
            return True
    return False


_FALSE = frozenset(("false", "0", "f"))


def _is_long_option(word: str, option: str, program: str) -> bool:
    if word.startswith(f"{option}=") or fnmatch.fnmatchcase(word, option):
        return True
    # Programs accept abbreviated long options.
    missing = len(option) - len(word)
    if program.rpartition("/")[2] in _SHORTEST_NAMES and len(word) > 2:
        return option.startswith(word)
    # Without this check, ``git push --forc`` would get past a rule against ``--force``.
    is_cut = word.startswith("--") and len(word) > 4 and option.startswith(word)
    return is_cut and missing < len(option) // 2


def _has_letters(letters: str, words: Words) -> bool:
    """Return whether all short options are present, combined, separately or as long options."""
    given = set()
    for word in words[1:]:
        # A value may be glued to its option, as in `-j8` and `-f=name`.
        glued = re.fullmatch(r"-([A-Za-z]+)(?:\d*|=.*)", word, re.DOTALL)
        if glued:
            given |= set(glued[1])
    # ``-R`` and ``-r`` mean the same to ``rm`` and ``cp``; to other programs, they may not.
    if "R" in given and words[0].rpartition("/")[2] in ("rm", "cp", "ls"):
        given.add("r")
    long = [word.partition("=")[0] for word in words[1:] if word.startswith("--")]
    return all(letter in given or _has_long_name(letter, long, words[0]) for letter in letters)


def _has_long_name(letter: str, long: Sequence[str], program: str) -> bool:
    """Return whether one of some long options, perhaps abbreviated, means a short one."""
    name = _LONG_NAMES.get(letter)
    return name is not None and any(_is_long_option(word, name, program) for word in long)


def _installs_own(words: Words) -> bool:
    """Return whether the words after an install command name only files in the project."""
    is_value = False
    for word in words:
        # A variable may contain the name of a package.
        if UNKNOWN in word:
            return False
        if is_value or _OWN_PACKAGE.fullmatch(word):
            is_value = word in _OWN_FILE_OPTIONS
        elif word in _PLACE_OPTIONS:
            is_value = True
        elif word and not word.startswith("-"):
            return False
    return True
