"""Spell commands of Cargo, Gradle, Maven and Nx as rules do: without aliases, and one task first."""

from __future__ import annotations

import re

from hilum_guard import UNKNOWN, make_option_syntax, parse_options

from hilum_checks.model import Words

# The aliases that Cargo itself defines.
_CARGO_ALIASES = {
    "b": "build",
    "c": "check",
    "d": "doc",
    "r": "run",
    "rm": "remove",
    "t": "test",
}
_CARGO_VALUED = frozenset("--color --config -C -Z".split())
# Programs that run all the tasks that their operands name, and the scripts that start them.
_BUILD_TOOLS = {
    "gradle": "gradle",
    "gradlew": "gradle",
    "gradlew.bat": "gradle",
    "mvn": "mvn",
    "mvnw": "mvn",
    "mvnw.cmd": "mvn",
}
_NX_TARGETS = frozenset(("-t", "--target", "--targets"))
_GRADLE_OPTIONS = make_option_syntax(
    flags="adhimnqsStuvVw?",
    valued="bcDFgIMpPx",
    long_options=(
        "args= build-cache build-file= configuration= configuration-cache configure-on-demand"
        " console= continue continuous daemon debug dependency= dependency-verification= dry-run"
        " exclude-task= export-keys foreground full-stacktrace gradle-user-home= include-build="
        " info init-script= max-workers= no-build-cache no-configuration-cache no-daemon"
        " no-parallel no-rebuild no-scan no-watch-fs offline parallel priority= profile"
        " project-cache-dir= project-dir= project-prop= quiet refresh-dependencies refresh-keys"
        " rerun-tasks scan settings-file= stacktrace status stop system-prop= task= tests= update-locks="
        " warn warning-mode= watch-fs write-locks write-verification-metadata="
    ),
)

# In `-pl`, `-gs`, `-gt` and `-rf`, the last letter is an option that takes a value, too.
_MAVEN_OPTIONS = make_option_syntax(
    flags="aBcCdegmnNopqrUuvVX",
    valued="bDflPstT",
    long_options=(
        "activate-profiles= also-make also-make-dependents batch-mode builder= color= define="
        " fail-at-end fail-fast fail-never file= global-settings= global-toolchains= log-file="
        " no-transfer-progress non-recursive offline projects= quiet resume resume-from= settings="
        " threads= toolchains= update-snapshots"
    ),
)


def spell_cargo(words: Words, *, toolchain: bool) -> Words:
    """Return `cargo +nightly t` as `cargo test`; commands of other programs stay as they are.

    Args:
        words: The program and its arguments, or the words of a rule.
        toolchain: Whether the word that selects the toolchain stays.
    """
    if words[0].rpartition("/")[2] != "cargo":
        return words
    rest = list(words[1:])
    front: list[str] = []
    if rest and rest[0].startswith("+"):
        front = rest[:1] if toolchain else []
        del rest[0]
    at = 0
    while at < len(rest) and rest[at].startswith("-"):
        at += 2 if rest[at] in _CARGO_VALUED else 1
    if at < len(rest):
        rest[at] = _CARGO_ALIASES.get(rest[at], rest[at])
    return (words[0], *front, *rest)


def names_toolchain(words: Words) -> bool:
    """Return whether words of a rule name the toolchain that Cargo uses: `cargo +nightly fmt`."""
    return words[:1] == ("cargo",) and len(words) > 1 and words[1].startswith("+")


def find_build_tool(program: str) -> str:
    """Return the build tool that a program, which a path may name, is or starts; empty if none.

    Args:
        program: The program: `./gradlew`.
    """
    return _BUILD_TOOLS.get(program.rpartition("/")[2], "")


def names_subproject(words: Words) -> bool:
    """Return whether Gradle runs a task of one project only: `gradlew :lib:check`."""
    if not words or find_build_tool(words[0]) != "gradle":
        return False
    tasks = parse_options(words[1:], _GRADLE_OPTIONS).operands
    return any(":" in task.strip(":") for task in tasks)


_CMAKE_OPTIONS = make_option_syntax(
    flags="LNWh",
    valued="ABCDGSTU",
    long_options=(
        "fresh graphviz= install-prefix= log-level= no-warn-unused-cli parallel= preset= toolchain="
        " trace warn-uninitialized"
    ),
)
# What makes `cmake` do something else than configure a folder.
_CMAKE_MODES = re.compile(r"-[EP]|--(?:preset|build|install|open|workflow|find-package)(?:=.*)?")


def keep_cmake_operands(words: Words) -> Words:
    """Return `cmake -G Ninja .` as `cmake .`, and `cmake -B build .` as `cmake`.

    What matters is the folder that is built in: `cmake -S . -B .` is `cmake .`, too.
    """
    parsed = parse_options(words[1:], _CMAKE_OPTIONS)
    if any(map(_CMAKE_MODES.fullmatch, words[1:])):
        return words[:1]
    built = [value.removesuffix("/") for value in parsed.values("-B")]
    return (words[0], *(built or (*parsed.operands, *parsed.values("-S"))))


def find_gradle_trial(words: Words) -> str:
    """Return the option with which Gradle runs no task; empty if a command has none."""
    parsed = parse_options(words[1:], _GRADLE_OPTIONS)
    return next((name for name, _ in parsed.options if name in ("-m", "--dry-run")), "")


def put_task_first(pattern: Words, words: Words) -> Words:
    """Return `gradle clean :lib:publish` as `gradle publish clean` for `gradle publish`.

    Gradle and Maven run all the tasks that their operands name, and Gradle runs `publish` in every
    project. What `-x` names does not run.

    Args:
        pattern: The words of a rule: the build tool and one task.
        words: The build tool and its arguments.
    """
    wanted = pattern[1]
    syntax = _GRADLE_OPTIONS if words[0] == "gradle" else _MAVEN_OPTIONS
    parsed = parse_options(words[1:], syntax)
    tasks = list(parsed.operands)
    found = [task for task in tasks if _is_task(task, wanted, is_gradle=words[0] == "gradle")]
    others = [task for task in tasks if task not in found]
    given = [part for option in parsed.options for part in option if part.startswith("-")]
    first = (wanted,) if found else ()
    return (words[0], *first, *others, *given)


def _is_task(task: str, wanted: str, *, is_gradle: bool) -> bool:
    """Return whether a task is the one that a rule names, in any project if it names none."""
    if UNKNOWN in task or not is_gradle:
        return task == wanted
    if ":" in wanted.strip(":"):
        return task.strip(":") == wanted.strip(":")
    return task.rpartition(":")[2] == wanted.strip(":")


def split_nx_targets(words: Words) -> tuple[frozenset[str], Words]:
    """Return the targets that `nx affected -t lint test` names, and the other words.

    Args:
        words: The program and its arguments.
    """
    targets: set[str] = set()
    rest: list[str] = []
    is_target = False
    for word in words:
        name, _, value = word.partition("=")
        if word.startswith("-"):
            is_target = name in _NX_TARGETS
            if is_target:
                targets.update(value.split(","))
                continue
        if is_target:
            targets.update(word.split(","))
        else:
            rest.append(word)
    return frozenset(targets - {""}), tuple(rest)
