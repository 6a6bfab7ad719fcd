"""Decide what kind of work a command does: whether it tests, checks, formats or only pretends to.

Only the name of an installed program, or a whole target of a program that runs tasks, shows what is
done. The name of a script proves nothing: an agent may write `update_tests.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from hilum_checks.checking_programs import checks_project
from hilum_checks.information_commands import only_shows
from hilum_checks.model import Commands

if TYPE_CHECKING:
    from hilum_checks.command_facts import CommandFacts

# Options with which a program does not do its work, or does not report its failure.
_IDLE = (
    r"--help(?:=.*)?|-h|--version|-V|--dry-run(?:=.*)?|--collect-only|--co|--exit-zero|--exit-code=0"
    r"|--if-present|--passWithNoTests|--pass-with-no-tests|--list-tests(?:=.*)?|--warn-only"
    r"|--soft-fail|--no-fail"
)
# The same for single programs, in addition; elsewhere, `-n` is often a number.
_IDLE_TOO = {
    "bandit": "",
    "bazel": "--nobuild",
    "biome": "--no-errors-on-unmatched",
    "black": "--diff|-c|--code",
    "cargo": "--no-run|--list",
    "dotnet": "-t",
    "eslint": "--print-config|--env-info|--init|--no-error-on-unmatched-pattern|--pass-on-no-patterns",
    "flake8": "--bug-report",
    "go": r"-n|-c|-list(?:=.*)?|-run=\^\$|\^\$",
    "gofmt": "-l|-d",
    "golangci-lint": r"--issues-exit-code(?:=0)?",
    "gradle": "-m|-x|--exclude-task(?:=.*)?",
    "invoke": "-R|--dry|-l|--list",
    "isort": "--diff|-d|--show-files|--stdout",
    "jest": "--listTests|--showConfig|--clearCache",
    "just": "-n|-l|--list|-s|--show|--summary|--evaluate|--dump|--choose|--variables",
    "mocha": "--list-files|--list-reporters",
    "ninja": "-n|-t",
    "nox": "-l|--list|--list-sessions|--install-only",
    "nx": "--graph(?:=.*)?|--base=HEAD",
    "pylint": "--list-msgs.*|--generate-.*",
    "pyright": "--createstub",
    "pytest": (
        "--collectonly|--fixtures|--fixtures-per-test|--markers|--setup-(?:plan|only)|--cache-show"
        "|--suppress-no-test-exit-code|--(?:lfnf|last-failed-no-failures)(?:=none)?"
    ),
    "rake": "-n|-T|--tasks|-P|-D",
    "rsync": "-n",
    "ruff": "-e|--show-files|--show-settings|--add-noqa|-w|--watch",
    "scons": "-n",
    "stylelint": "--allow-empty-input|--print-config",
    "task": "-n|--dry|-l|--list|--summary|--status",
    "tflint": "--force",
    "tox": "-n|--notest|-l|--listenvs|--showconfig|--devenv",
    "tsc": "--showConfig|--listFilesOnly|--init|--all",
    "turbo": r"--dry(?:=.*)?",
    "vitest": "list|--clearCache",
}
# Programs some of whose usual options look like those above.
_IDLE_ALONE = {
    **dict.fromkeys("sh bash dash zsh ksh".split(), "-n|--help|--version"),
    # `-V` lists what happens, and does it.
    "ctest": r"--help.*|-h|--version|-N|--show-only.*|--print-labels",
    "git": "--help|-h|--version|--dry-run|-n",
    "mvn": (
        "-h|--help|-v|--version|-DskipTests.*|-DskipITs.*|-Dmaven.test.(?:skip|failure.ignore).*|-fn"
        "|--fail-never"
    ),
}
_SAME = {"inv": "invoke", "gradlew": "gradle", "mvnw": "mvn", "eslint_d": "eslint"}
# Words of `make` with which it runs the recipes of the project, and reports their failure.
_MAKE_WORKS = re.compile(
    r"[\w./%][\w./%-]*|-[ksBwj]+\d*|-j|\d+|--(?:silent|quiet|keep-going|jobs(?:=\d+)?)"
)
# Programs, sub-commands and targets that format code.
_FORMATS = re.compile(
    r"gofmt|gofumpt|goimports|black|isort|autopep8|yapf|prettier|rustfmt|clang-format|shfmt|stylua"
    r"|dprint|ktlint|google-java-format|(?:[\w.][\w.:-]*[:_-])?(?:fmt|format|lint-fix|spotless)(?:[:_-][\w.:-]*[\w.])?"
)
_FIXES = frozenset(("--fix", "--write", "--autocorrect", "--autocorrect-all"))
# Options with which a program that tests or checks changes files of the project.
_CHANGES = re.compile(
    r"--fix.*|--unsafe-fixes|--write|--apply.*|--autocorrect.*|--in-place|--add-noqa|--update.*"
    r"|--snapshot-update|--inline-snapshot=.*|--force-regen"
)
# Words of programs and targets that test or check the project, which write only reports and caches.
_CHECKS = frozenset(
    """
    test tests check checks ci lint linter typecheck types verify validate unit integration e2e
    pytest unittest mypy pyright jest vitest eslint flake8 pylint tsc clippy vet rspec phpunit mocha
    ava ctest shellcheck yamllint
    """.split()
)
# Words beside them in the name of a target. A word such as `update` or `clean` is none of them.
_BESIDE = frozenset(
    """
    all fast quick slow full short long run once only type style code cov coverage unit units smoke
    functional acceptance regression system end to api app backend frontend server client web ui cli
    core lib libs py python python3 js ts jsx tsx node go rust java css html md yaml sh shell docs doc
    local remote dev debug release parallel serial watch strict static security spell spelling links
    golangci ansible yaml shellcheck yamllint markdown commit pre post nightly
    """.split()
)
# Programs that run tasks, and the number of them that their words may name.
_ALL_TARGETS = frozenset(
    "make gmake just rake invoke inv gradle mvn nox tox ninja nx turbo".split()
)
_ONE_TASK = frozenset(
    """
    npm pnpm yarn bun task hatch pdm poetry rye uv pixi cargo go dotnet deno ruff biome swift mix zig
    composer rails bundle lein sbt bazel terraform tofu helm flutter dart stack cabal dune gleam
    rebar3 meson moon lerna pants coverage docker-compose golangci-lint
    """.split()
)
_RUN = frozenset("run run-script exec x task test:run".split())
_TARGET_VALUED = frozenset(
    """
    -C -f -j -l -o -p -w -F --directory --file --jobs --prefix --dir --cwd --filter --workspace
    --package --manifest-path --with --extra --group --python -d --working-directory
    """.split()
)
_CHECKING_OPTIONS = frozenset(("--check", "--version", "--help"))
# Folders of installed programs.
_INSTALLED = re.compile(
    r"/(?:usr|bin|opt|nix)/.*|(?:.*/)?(?:\.?v?env[\w.-]*|\.tox/[\w.-]+|\.nox/[\w.-]+)/bin/[^/]+"
    r"|(?:.*/)?(?:node_modules/\.bin|vendor/bin)/[^/]+"
)


def checks_only(command: CommandFacts) -> bool:
    """Return whether a command certainly only tests or checks: `pytest`, `make test`, `black --check`.

    Args:
        command: The command.
    """
    if not _runs_installed(command):
        return False
    if any(map(_CHANGES.fullmatch, command.words[1:])):
        return False
    program = command.effects.program
    # Both update snapshots with `-u`.
    if program in ("jest", "vitest") and "-u" in command.words:
        return False
    if not _CHECKING_OPTIONS.isdisjoint(command.words[1:]) or only_shows(command.words):
        return True
    if checks_project(command.words):
        return True
    targets = list(_list_targets(command))
    if targets:
        return all(map(_is_check, targets))
    # `uv run test.py` names a script.
    return "." not in program and _is_check(program)


def is_formatter(command: CommandFacts) -> bool:
    """Return whether a command formats or repairs code in place: ``gofmt -w``, ``eslint --fix``.

    Args:
        command: The command.
    """
    if not _runs_installed(command):
        return False
    if any(access.generated and access.existing for access in command.effects.files):
        return True
    names = [command.effects.program, *_list_targets(command)]
    return any(map(_FORMATS.fullmatch, names)) or not _FIXES.isdisjoint(command.words[1:])


def _runs_installed(command: CommandFacts) -> bool:
    """Return whether a command runs an installed program, and neither a script nor code."""
    if not command.words or command.effects.code:
        return False
    script = command.effects.script
    return script is None or (
        script.position == 0 and _INSTALLED.fullmatch(script.path) is not None
    )


def _is_check(name: str) -> bool:
    """Return whether the name of a program or target consists of words about checks."""
    parts = set(filter(None, re.split(r"[:_./-]|(?<=[a-z])(?=[A-Z])", name.removesuffix("..."))))
    parts = {part.lower() for part in parts if not part.isdigit()}
    return not parts.isdisjoint(_CHECKS) and parts <= _CHECKS | _BESIDE


def _list_targets(command: CommandFacts) -> Iterator[str]:
    """Yield the targets that a program which runs tasks is given, without options."""
    program = _SAME.get(command.effects.program, command.effects.program)
    if program not in _ALL_TARGETS | _ONE_TASK:
        return
    is_value = False
    for word in command.words[1:]:
        if is_value or word.startswith("-") or "=" in word:
            is_value = not is_value and word in _TARGET_VALUED
            continue
        if word in _RUN and program not in _ALL_TARGETS - {"turbo"}:
            continue
        yield word
        if program not in _ALL_TARGETS:
            return


@cache
def _find_idle(program: str) -> tuple[re.Pattern[str], frozenset[str]]:
    """Return a pattern for the idle options of a program, and the names of the long ones."""
    name = _SAME.get(program, program)
    pattern = _IDLE_ALONE.get(name) or "|".join(filter(None, (_IDLE, _IDLE_TOO.get(name, ""))))
    return re.compile(pattern), frozenset(re.findall(r"--[a-z][\w-]{4,}", pattern))


def does_its_work(command: CommandFacts, needed: Commands) -> bool:
    """Return whether a command has no option with which its program only pretends to work.

    Args:
        command: The command.
        needed: The commands that are required; an option in them is the work.
    """
    named = {word for pattern in needed.patterns for word in pattern}
    arguments = [word for word in command.words[1:] if word not in named]
    idle, longs = _find_idle(command.effects.program)
    for word in arguments:
        # Many programs accept the beginning of a long option.
        is_cut = len(word) > 6 and any(each.startswith(word) for each in longs)
        if is_cut or idle.fullmatch(word):
            return False
    if command.effects.program not in ("make", "gmake"):
        return True
    return all(_MAKE_WORKS.fullmatch(word) for word in arguments)
