"""Find what is dangerous or notable in the files that a call changes, deletes or reads."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import PurePath

from hilum_guard import protected_files
from hilum_guard.commands.path_checks import within
from hilum_guard.commands.verdicts import SimpleCommand
from hilum_guard.dangers.marks import Mark, Rank, show_command, show_path
from hilum_guard.effects.file_access import UNKNOWN, CommandEffects
from hilum_guard.effects.resolved_effects import Effect
from hilum_guard.programs import options
from hilum_guard.watching import executed_files

REMOVERS = frozenset("rm grm unlink shred srm wipe rimraf del trash trash-put gio".split())
# `rimraf` deletes folders without an option.
_RECURSIVE_REMOVERS = frozenset(("rimraf",))
_RECURSIVE = ("-r", "-R", "--recursive")
_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm", "/private/tmp")
# Programs that use keys to log in without sending them.
_LOGS_IN = frozenset("ssh scp sftp rsync git".split())


def select_changes(effects: Iterable[Effect], root: str) -> list[Effect]:
    """Return the certain writes and deletions, without those that others make redundant.

    A copy counts as a write to its target, and to a file in the target if that is or becomes a
    folder.

    Args:
        effects: The effects of a command or call.
        root: Root of the workspace, resolved.
    """
    changes = [each for each in effects if each.kind in ("write", "delete") and each.certain]
    paths = {each.path for each in changes}
    above = {str(folder) for path in paths for folder in PurePath(path).parents}
    kept = []
    for each in changes:
        folder = os.path.dirname(each.path)
        # If the target of a copy is a file, it cannot contain the copy.
        is_inside_file = folder in paths and not os.path.isdir(os.path.join(root, folder))
        is_just_folder = each.path in above and os.path.isdir(os.path.join(root, each.path))
        if not is_inside_file and not is_just_folder:
            kept.append(each)
    return kept


def mark_executed(
    changes: Iterable[Effect], root: str, *, is_command: bool = True, is_git: bool = False
) -> Iterator[Mark]:
    """Yield marks for changed files that other programs execute.

    Args:
        changes: Writes and deletions.
        root: Root of the workspace, resolved.
        is_command: Whether a command makes the changes, rather than a file tool.
        is_git: Whether Git makes the changes; Git writes to its own folder all the time.
    """
    for change in changes:
        found = executed_files.find_path(change.path)
        if found is not None:
            row = found[1]
            # Ordinary work includes writing package managers' files (see `executed_files`).
            if (row.data and is_command) or (row.program == "git" and is_git):
                continue
            # The table also describes how a file is executed; a phrase has room only for the main
            # point.
            when = row.when.partition(",")[0]
            text = f"changes a file that is executed by {row.program} {when}: {{}}"
            yield Mark(Rank.EXECUTED, text, show_path(change.path))
        elif not is_git and protected_files.metadata(os.path.join(root, change.path)):
            text = "changes a Git folder, from which Git takes commands: {}"
            yield Mark(Rank.EXECUTED, text, show_path(change.path))


def mark_outside(changes: Iterable[Effect], roots: Sequence[str]) -> Iterator[Mark]:
    """Yield marks for changes outside the workspace and the temporary folders."""
    allowed = (*roots, "/dev")
    for change in changes:
        path = os.path.join(roots[0], change.path)
        is_allowed = any(within(path, folder) for folder in allowed)
        if not is_allowed and not is_temporary(path, roots):
            verb = "deletes" if change.kind == "delete" else "writes"
            yield Mark(Rank.OUTSIDE, f"{verb} outside the workspace: {{}}", show_path(path))


def _temporary_folders() -> tuple[str, ...]:
    return (*_TEMPORARY, os.path.realpath(tempfile.gettempdir()))


def is_temporary(path: str, roots: Sequence[str]) -> bool:
    """Return whether a path is in a temporary folder, or is one.

    In a container, the workspace or the home folder may be in a temporary folder; their files are
    nevertheless the user's own.
    """
    home = os.path.realpath(os.path.expanduser("~"))
    path = os.path.normpath(path)
    for folder in _temporary_folders():
        own = [each for each in (home, *roots) if within(each, f"{folder}/") and each != folder]
        if within(path, folder) and not any(within(path, each) for each in own):
            return True
    return False


def mark_deletions(
    command: SimpleCommand, effects: CommandEffects, roots: Sequence[str]
) -> Iterator[Mark]:
    """Yield marks for the files that a command deletes.

    Args:
        command: The command.
        effects: Its effects.
        roots: The workspace's resolved folders, the root first.
    """
    if command.found:
        if _finds_deletion(effects):
            found = " ".join(command.finder)
            yield Mark(Rank.DELETION, "deletes all files that a search finds ({})", found)
        return
    if effects.program not in REMOVERS:
        return
    parsed = options.parse(command.words[1:], options.SYNTAX.get("rm", options.Syntax()))
    is_recursive = parsed.has(*_RECURSIVE) or effects.program in _RECURSIVE_REMOVERS
    for access in effects.files:
        if access.kind == "delete":
            yield _mark_deletion(command, access.path, roots, is_recursive=is_recursive)


def _mark_deletion(
    command: SimpleCommand, path: str, roots: Sequence[str], *, is_recursive: bool
) -> Mark:
    how = " recursively" if is_recursive else ""
    is_folder_itself = os.path.normpath(path) in _temporary_folders()
    if not is_folder_itself and is_temporary(path, roots):
        return Mark(Rank.OTHER, f"deletes temporary files{how}: {{}}", path)
    if UNKNOWN in path:
        text = f"deletes files{how} that are only known at run time ({{}})"
        return Mark(Rank.DELETION, text, show_command(command))
    # A project's recipes routinely delete what they build.
    is_own = command.recipe and not path.startswith(("/", "~", "."))
    rank = Rank.DELETION if is_recursive and not is_own else Rank.OTHER
    return Mark(rank, f"deletes {{}}{how}", show_path(path))


def _finds_deletion(effects: CommandEffects) -> bool:
    accesses = chain.from_iterable(found.files for found in effects.found)
    return any(access.kind == "delete" and not access.moved for access in accesses)


def mark_secrets(
    program: str, effects: Iterable[Effect], root: str, *, uses_network: bool
) -> Iterator[Mark]:
    """Yield marks for the files with secrets that a program uses.

    Args:
        program: The program.
        effects: Its effects.
        root: Root of the workspace, resolved.
        uses_network: Whether the command line uses the network.
    """
    for effect in effects:
        if effect.kind == "delete" or not protected_files.secret(effect.path):
            continue
        full = os.path.join(root, effect.path)
        is_file = os.path.isfile(full)
        if os.path.isdir(full) or (effect.kind == "any" and not is_file):
            continue
        shown = show_path(effect.path)
        if effect.kind == "write":
            # An executed file has another, more precise mark.
            if executed_files.find_path(effect.path) is None:
                yield Mark(Rank.SECRET, "changes a file with secrets: {}", shown)
        elif uses_network and not (effect.kind == "any" and program in _LOGS_IN):
            yield Mark(Rank.LEAK, "may send secrets over the network: {}", shown)
        else:
            yield Mark(Rank.SECRET, "uses a file with secrets: {}", shown)
