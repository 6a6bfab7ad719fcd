"""Order what a call does: which of its commands certainly succeed, and when it writes files.

``make test && git commit`` keeps "run `make test` before committing"; ``echo x >> a.py && git
commit`` does not, however often the tests ran before.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import attrs
from hilum_guard import UNKNOWN, FileAccess, git_words, is_new_file

from hilum_checks import command_matcher, program_words, required_forms, variables
from hilum_checks.call_facts import CallFacts
from hilum_checks.command_facts import CommandFacts
from hilum_checks.command_kinds import checks_only, does_its_work, is_formatter
from hilum_checks.git_folders import find_containing, find_folder, list_commands, sets_git_folder
from hilum_checks.goal_prerequisites import list_prerequisites
from hilum_checks.ignored_files import is_ignored
from hilum_checks.model import Commands
from hilum_checks.shell_texts import read_shell_text, runs_shell_text
from hilum_checks.step_limit import count_step
from hilum_checks.success_order import SuccessOrder, read_order

# Programs that make or remove folders. Git does not track empty folders.
_MAKES_FOLDERS = frozenset(("mkdir", "rmdir"))
_CACHES = frozenset(
    "__pycache__ .pytest_cache .mypy_cache .ruff_cache .hypothesis .tox .nox .cache .coverage htmlcov node_modules"
    " .eslintcache .turbo .parcel-cache .gradle".split()
)
# A required command with such a name changes files of the project.
_GENERATES = re.compile(
    r"(?:\b|_)(?:re)?(?:gen|generate|codegen|update|upgrade|sync|format|fmt|fix|migrate|snapshot)(?:\b|_)"
)
# Programs that run a command for each of some words, perhaps for none.
_REPEATERS = frozenset("xargs gxargs parallel find gfind fd watch".split())
_REDIRECTION = re.compile(r"(?<!\s)\s*+(?:\d?>{1,2}|&>|<)\s*(?:&\d|[\w./-]+)")
_STARTERS = frozenset(
    "time timeout nice uv uvx poetry pdm hatch pipenv pipx npx bunx pnpx rye env bundle".split()
)
# Commands of Git that change files of the working tree.
_CHANGES_TREE = frozenset(
    "am apply checkout cherry-pick merge pull rebase restore revert stash switch".split()
)
_CREATES_BRANCH = frozenset("-b -B -c -C --create --force-create --orphan".split())
# Options of `git add` and `cp`.
_FORCES = re.compile(r"-[A-Za-z]*f|--f")
_LINKS = re.compile(r"-[A-Za-z]*l|--l")
_HARD_RESETS = frozenset(("--hard", "--merge", "--keep"))
# Programs that talk to a service, and write files only if their words name them.
_CLIENTS = frozenset("curl gh glab hub".split())
# Files in which programs find what their sub-commands mean, and whether they search parent folders.
_TASK_FILES: dict[str, tuple[tuple[str, ...], bool]] = {
    "make": (("GNUmakefile", "makefile", "Makefile"), False),
    "just": (("justfile", "Justfile", ".justfile"), True),
    "npm": (("package.json",), True),
    "task": (("Taskfile.yml", "Taskfile.yaml", "taskfile.yml"), True),
    "rake": (("Rakefile", "rakefile"), True),
    "invoke": (("tasks.py",), True),
    "tox": (("tox.ini",), True),
    "nox": (("noxfile.py",), False),
}
_SAME_PROGRAM = {"gmake": "make", "pnpm": "npm", "yarn": "npm", "bun": "npm"}


class Step(NamedTuple):
    """A write of a call.

    Attributes:
        place: The place in the order of the call; that of the command with the index ``n`` is
            ``2 * n``, and that of the files that its words name is ``2 * n + 1``.
        access: The write.
        ignored: Whether Git certainly ignores the file, and the call does not make Git track it.
    """

    place: int
    access: FileAccess
    ignored: bool = False


def find_writes(facts: CallFacts) -> list[Step]:
    """Return the certain writes of a call to files of the workspace, in their order.

    Args:
        facts: The call.
    """
    root = str(facts.matcher.root)
    places: dict[FileAccess, int] = {}
    without_text: set[FileAccess] = set()
    for index, command in enumerate(facts.commands):
        start = _find_start(index, facts)
        # A formatter or a script has written its files by the time it succeeds, so that these writes
        # do not come after its own success.
        is_work = is_formatter(command) or _runs_shell_script(facts.commands[start])
        place = 2 * start if is_work else 2 * index + 1
        places.update(dict.fromkeys(command.effects.files, place))
        if command.effects.program in _MAKES_FOLDERS:
            without_text.update(command.effects.files)
    steps = []
    reveals = reveals_ignored(facts)
    for access in facts.accesses:
        if access.kind in ("read", "any") or access in without_text or _is_cache(access):
            continue
        if is_inside(access, root):
            ignored = not reveals and is_ignored(access, facts.matcher.root)
            steps.append(Step(places.get(access, 2 * len(facts.commands)), access, ignored))
    return sorted(steps, key=lambda step: step.place)


def reveals_ignored(facts: CallFacts) -> bool:
    """Return whether a call may make Git track a file that it ignores, or give it another name.

    Args:
        facts: The call.
    """
    return any(map(_reveals_ignored, facts.commands))


def _reveals_ignored(command: CommandFacts) -> bool:
    if command.effects.program in ("ln", "link", "cp"):
        return command.effects.program != "cp" or any(map(_LINKS.match, command.words))
    if command.effects.program != "git":
        return False
    verb, *rest = git_words(command.words)[1:] or ("",)
    is_forced = verb in ("add", "stage") and any(map(_FORCES.match, rest))
    return is_forced or verb == "update-index"


def is_inside(access: FileAccess, root: str) -> bool:
    """Return whether an access is to a file of the workspace.

    Args:
        access: The access.
        root: The root of the workspace.
    """
    folder = (access.cwds[0] if access.cwds else "") or root
    return os.path.normpath(os.path.join(folder, access.path)).startswith(f"{root}/")


def _is_cache(access: FileAccess) -> bool:
    """Return whether an access only deletes a cache, which programs create again."""
    return access.kind == "delete" and os.path.basename(access.path.rstrip("/")) in _CACHES


def only_formats(facts: CallFacts) -> bool:
    """Return whether nothing but formatters may write the files that a call does not name.

    Args:
        facts: The call.
    """
    formatters = list_formatters(facts)
    return bool(formatters) and all(map(is_formatter, formatters)) and not facts.unknown_command


def list_formatters(facts: CallFacts) -> tuple[CommandFacts, ...]:
    """Return the commands of a call that only formats which may write files it does not name.

    Args:
        facts: The call.
    """
    return tuple(command for _, command in find_writers(facts))


def are_required(
    commands: Iterable[CommandFacts], required: Sequence[Commands], root: Path
) -> bool:
    """Return whether rules require each of some commands. Blocks.

    Args:
        commands: The commands.
        required: The commands that any rule requires.
        root: The root of the workspace.
    """
    return all(any(is_needed(each, command, root) for each in required) for command in commands)


def find_unseen(facts: CallFacts, required: Sequence[Commands] = ()) -> list[int]:
    """Return the places of the commands that may write files which their words do not name.

    Args:
        facts: The call.
        required: Commands that check the project because rules require them first.
    """
    return [place for place, _ in find_writers(facts, required)]


def find_writers(
    facts: CallFacts, required: Sequence[Commands] = ()
) -> list[tuple[int, CommandFacts]]:
    """Return the commands that may write files which their words do not name, with their places.

    Args:
        facts: The call.
        required: Commands that check the project because rules require them first.
    """
    return [
        (2 * _find_start(index, facts), command)
        for index, command in enumerate(facts.commands)
        if _writes(command, facts)
        and command.source.strip() not in facts.activations
        and not _is_required_check(command, facts, required)
        and not _is_required_check(facts.commands[_find_start(index, facts)], facts, required)
    ]


def _find_start(index: int, facts: CallFacts) -> int:
    """Return the index of the command that runs a command: `pnpm nx lint` runs `nx lint`.

    The commands of a text that a call gives to a shell have places of their own.
    """
    runners = list(facts.commands[index].command.runners)
    texts = _list_shell_texts(facts) if runners else ()
    for text in texts:
        runners = [each for each in runners if not runs_shell_text(each, text)]
    for earlier in reversed(range(index)) if runners else ():
        if facts.commands[earlier].words == runners[-1]:
            return earlier
    return index


def _runs_shell_script(command: CommandFacts) -> bool:
    script = command.effects.script
    return script is not None and (script.shell or script.position == 0)


def _is_required_check(
    command: CommandFacts, facts: CallFacts, required: Sequence[Commands]
) -> bool:
    """Return whether a command is one that rules require, and by its name not one that writes."""
    if any(map(_GENERATES.search, command.words)):
        return False
    return any(is_needed(each, command, facts.matcher.root) for each in required)


def is_in_other_repository(command: CommandFacts, facts: CallFacts) -> bool:
    """Return whether a command certainly commits to a repository in a folder such as /tmp.

    Args:
        command: The command.
        facts: The call.
    """
    is_commit = command.effects.program == "git" and git_words(command.words)[1:2] == ("commit",)
    if not is_commit or facts.enters_linked_tree:
        return False
    chooses = any(word.startswith(("--git-dir", "--work-tree")) for word in command.words)
    if chooses or any(map(sets_git_folder, list_commands(command))):
        return False
    folder = find_folder(command)
    if UNKNOWN in folder or facts.matcher.find_twin(folder):
        return False
    is_new = any(git_words(each.words)[1:2] == ("init",) for each in list_commands(command))
    has_own = is_new or find_containing(folder) != ""
    return has_own and facts.matcher.is_temporary(folder)


def _writes(command: CommandFacts, facts: CallFacts) -> bool:
    """Return whether a command itself may write files that its words do not name."""
    if not _is_runner(command) and not only_runs_text(command, facts):
        return _may_write(command)
    # What it runs is a command of its own, which may come later in the list.
    runs = any(each.command.runners[:1] == (command.words,) for each in facts.commands)
    return not runs and _may_write(command)


def only_runs_text(command: CommandFacts, facts: CallFacts) -> bool:
    """Return whether a command is a shell whose text was read, so that its commands are in the call.

    Args:
        command: The command.
        facts: The call.
    """
    found = read_shell_text(command.source)
    if found is None or facts.unknown_command:
        return False
    return any(_is_run_by(each, found[1]) for each in facts.commands)


def _is_runner(command: CommandFacts) -> bool:
    """Return whether a command does nothing but to run another one: `uv run pytest`."""
    is_module = command.words[1:2] == ("-m",) and command.effects.program.startswith("python")
    return is_module or command.effects.program in _STARTERS


def only_checks(facts: CallFacts) -> bool:
    """Return whether a call only tests and checks the project, or reads."""
    return not find_unseen(facts) and not facts.unknown_command


def _may_write(command: CommandFacts) -> bool:
    """Return whether a command may write files that its words do not name."""
    words = command.words
    if not words or command.command.wrapper or command.effects.unknown != "all":
        return False
    if command.effects.program in _CLIENTS:
        return False
    if command.effects.program == "git":
        verb, *rest = git_words(words)[1:] or ("",)
        if verb == "reset":
            return not _HARD_RESETS.isdisjoint(rest)
        return verb in _CHANGES_TREE and _CREATES_BRANCH.isdisjoint(rest)
    return not checks_only(command)


def find_proven(
    facts: CallFacts, before: CommandFacts | None = None
) -> Iterator[tuple[int, CommandFacts]]:
    """Yield the commands that certainly ran and succeeded, with their places.

    These are the parts of ``A && B``, and others on which a later command depends: not what a
    substitution, a shell text or code runs, and nothing after a command that ends the shell or
    changes what a name runs.

    Args:
        facts: The call.
        before: The command before which they succeed; ``None`` if the call has ended with the exit
            code 0.
    """
    for text in facts.command_texts:
        is_reached = before is None
        # The innermost text comes first: what precedes a shell has succeeded before its text runs.
        for layer in reversed(_list_layers(text, facts)):
            if before is None:
                proven = set(layer.order.list_after_success())
            elif any(each is before for each in layer.commands):
                is_reached = True
                waiting = _find_in(layer, before, is_waiting=True)
                found = [set(layer.order.list_before(at)) for at in waiting]
                proven = set.intersection(*found) if found else set()
            elif is_reached:
                proven = set(layer.order.list_before(len(layer.order.commands) - 1))
            else:
                continue
            for command in layer.commands:
                places = _find_in(layer, command)
                if places and proven.issuperset(places):
                    # What `npx` runs comes last in the list, but it runs at the place of `npx`.
                    yield 2 * _find_start(_find_index(command, facts), facts), command


def find_covered(facts: CallFacts) -> list[tuple[CommandFacts, str]]:
    """Return the commands of a call of which something hides whether they succeed: `a | tail`.

    Args:
        facts: The call.

    Returns:
        Each command with what hides it: `|`, `||` or `;`.
    """
    found = []
    for text in facts.command_texts:
        for layer in _list_layers(text, facts):
            proven = set(layer.order.list_after_success())
            for command in layer.commands:
                for at in _find_in(layer, command):
                    cover = layer.order.find_cover(at)
                    if cover and at not in proven:
                        found.append((command, cover))
    return found


class _Layer(NamedTuple):
    """The text of a call, or one that it gives to a shell.

    Attributes:
        text: The text.
        order: The order in which its commands succeed.
        commands: Its commands.
    """

    text: str
    order: SuccessOrder
    commands: list[CommandFacts]


def _list_layers(text: str, facts: CallFacts) -> list[_Layer]:
    """Return a text of a call, and the texts that it gives to shells and that have its exit code."""
    layers = [_Layer(text, read_order(text, facts.activations), facts.commands)]
    while True:
        outer = layers[-1]
        last = len(outer.order.commands) - 1
        # The exit code of the text is that of its last command, so that only this one is followed.
        found = read_shell_text(outer.order.commands[last]) if last >= 0 else None
        if found is None or last not in outer.order.list_after_success():
            return layers
        settings, inner = found
        commands = [each for each in outer.commands if _is_run_by(each, inner)]
        rest = [each for each in outer.commands if not _is_run_by(each, inner)]
        order = read_order(f"{settings}\n{inner}" if settings else inner, facts.activations)
        layers[-1] = outer._replace(commands=rest)
        layers.append(_Layer(inner, order, commands))


def _is_run_by(command: CommandFacts, text: str) -> bool:
    """Return whether a command is in a text that a shell runs."""
    return any(runs_shell_text(runner, text) for runner in command.command.runners)


def _list_shell_texts(facts: CallFacts) -> Iterator[str]:
    """Yield the texts that a call gives to shells and that have its exit code."""
    for text in facts.command_texts:
        for layer in _list_layers(text, facts)[1:]:
            yield layer.text


def _find_index(command: CommandFacts, facts: CallFacts) -> int:
    return next(at for at, each in enumerate(facts.commands) if each is command)


def _find_in(layer: _Layer, command: CommandFacts, *, is_waiting: bool = False) -> list[int]:
    """Return which commands of a text may be a given one; several if the text repeats it."""
    # A comparison of two texts is much faster than one with a rule.
    count_step(1 + len(layer.order.commands) // 4)
    found = [
        at
        for at, part in enumerate(layer.order.commands)
        if _is_part(command, part, is_waiting=is_waiting)
    ]
    same = [each for each in layer.commands if each.source == command.source]
    if len(found) == len(same):
        return [found[at] for at, each in enumerate(same) if each is command]
    return found


def _is_part(command: CommandFacts, part: str, *, is_waiting: bool) -> bool:
    """Return whether a part of a line is a command, perhaps behind a runner such as ``timeout``.

    Args:
        command: The command.
        part: The text of the part.
        is_waiting: Whether another command must succeed before this one, so that variables which
            may change what it does do not matter.
    """
    if command.command.wrapper or command.effects.code:
        return False
    if command.effects.program in _REPEATERS:
        return False
    runners = command.command.runners
    # `xargs clang-format -i`: without files, there is nothing to format.
    if runners and runners[-1][0] == "xargs" and is_formatter(command):
        return part.split() == list(runners[-1])
    source = _REDIRECTION.sub("", command.source).strip()
    if not part.endswith(source):
        return False
    assigned, _ = variables.split_assignments(source, len(command.command.assigned))
    front = f"{part.removesuffix(source)} {assigned}"
    return required_forms.is_plain_front(front, any_variables=is_waiting)


def is_needed(needed: Commands, command: CommandFacts, root: Path) -> bool:
    """Return whether a command that has succeeded is one that had to run. Blocks.

    Args:
        needed: The commands of which one had to run.
        command: The command.
        root: The root of the workspace.
    """
    # What succeeds in one project may fail in another.
    if program_words.names_subproject(command.words):
        return False
    is_meant = required_forms.fits_required(needed, command)
    if not is_meant:
        for words in list_prerequisites(command.words, command.cwd, str(root)):
            goal = attrs.evolve(command.command, words=words)
            inner = CommandFacts(goal, command.effects, command.previous)
            if required_forms.fits_required(needed, inner):
                command, is_meant = inner, True
                break
    names_part = any(word.startswith("./") for word in command.words)
    if not is_meant and names_part and command.effects.program == "go":
        # A part of the project is enough: `go vet ./internal/...` for `go vet ./...`.
        parts = tuple(tuple(word for word in each if word != "./...") for each in needed.patterns)
        named = attrs.evolve(needed, patterns=parts)
        is_meant = command_matcher.match_command(named, command) == "yes"
    if not is_meant or not does_its_work(command, needed):
        return False
    return _runs_in_project(command, root, os.path.join(os.path.realpath(root), needed.folder))


def _runs_in_project(command: CommandFacts, root: Path, wanted: str) -> bool:
    """Return whether a command means the project's own tests, and not others with the same name.

    A part of the project (``cd api && pytest``) is enough. ``cd sub && make test`` is another
    command than ``make test`` if both folders have a makefile.

    Args:
        command: The command.
        root: The root of the workspace.
        wanted: The folder of the rule.
    """
    # What counts is run in a service of the project, which contains it.
    if command.command.elsewhere:
        return True
    top = os.path.realpath(root)
    folder = os.path.realpath(command.cwd) if command.cwd else UNKNOWN
    if not f"{folder}/".startswith(f"{top}/"):
        return False
    script = command.effects.script
    if script is not None and UNKNOWN not in script.path:
        own = os.path.realpath(os.path.join(wanted, script.path))
        run = os.path.realpath(os.path.join(folder, script.path))
        return own == run or not os.path.exists(own)
    program = _SAME_PROGRAM.get(command.effects.program, command.effects.program)
    names, goes_up = _TASK_FILES.get(program, ((), False))
    run = _find_task_file(folder, top, names, goes_up=goes_up)
    if not run or folder == os.path.realpath(wanted):
        return True
    own = _find_task_file(os.path.realpath(wanted), top, names, goes_up=goes_up)
    # If the rule's folder has none, the rule means that of a folder below.
    return run == own or (not own and not is_new_file(run, top))


def _find_task_file(folder: str, top: str, names: tuple[str, ...], *, goes_up: bool) -> str:
    """Return the file that decides what a program's sub-commands mean in a folder, if any does."""
    while True:
        for name in names:
            if os.path.isfile(os.path.join(folder, name)):
                return os.path.join(folder, name)
        if not goes_up or folder == top or not folder.startswith(f"{top}/"):
            return ""
        folder = os.path.dirname(folder)
