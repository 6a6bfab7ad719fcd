"""Spell commands of Cargo and Gradle as rules spell them: without aliases, and one task first."""

from __future__ import annotations

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
_GRADLE = frozenset(("gradle", "gradlew", "gradlew.bat"))
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


def is_gradle(program: str) -> bool:
    """Return whether a program, which a path may name, is Gradle."""
    return program.rpartition("/")[2] in _GRADLE


def names_subproject(words: Words) -> bool:
    """Return whether Gradle runs a task of one project only: `gradlew :lib:check`."""
    if not words or not is_gradle(words[0]):
        return False
    return any(
        ":" in task.strip(":") for task in parse_options(words[1:], _GRADLE_OPTIONS).operands
    )


def put_task_first(pattern: Words, words: Words) -> Words:
    """Return `gradlew clean :lib:publish` as `gradlew publish clean` for `gradlew publish`.

    Gradle runs all the tasks that its operands name, and `publish` runs in every project. What
    `-x` names does not run.

    Args:
        pattern: The words of a rule: Gradle and one task.
        words: The program and its arguments.
    """
    wanted = pattern[1]
    parsed = parse_options(words[1:], _GRADLE_OPTIONS)
    tasks = list(parsed.operands)
    found = [task for task in tasks if _is_task(task, wanted)]
    others = [task for task in tasks if task not in found]
    given = [part for option in parsed.options for part in option if part and part.startswith("-")]
    first = (wanted,) if found else ()
    return (words[0], *first, *others, *given)


def _is_task(task: str, wanted: str) -> bool:
    """Return whether a task is the one that a rule names, in any project if it names none."""
    if UNKNOWN in task:
        return False
    if ":" in wanted.strip(":"):
        return task.strip(":") == wanted.strip(":")
    return task.rpartition(":")[2] == wanted.strip(":")
