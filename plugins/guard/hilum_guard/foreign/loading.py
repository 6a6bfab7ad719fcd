"""Find and read the files in which other agents keep their permissions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from hilum import home_folder
from hilum.config_files import LoadedFile, UnreadableFile, load_file, read_regular_file

from hilum_guard.foreign import claude, codex, copilot, cursor, gemini, ignore_files, opencode
from hilum_guard.foreign.files import AGENTS, PermissionFile, find_files
from hilum_guard.foreign.rule_list import Place, RuleList

MAX_BYTES = 1_000_000
"""Maximum size of a file in bytes."""
_READERS: Mapping[str, Callable[[LoadedFile, RuleList], None]] = {
    "claude": claude.read,
    "codex": codex.read,
    "gemini": gemini.read,
    "gemini policies": gemini.read_policies,
    "opencode": opencode.read,
    "cursor": cursor.read,
    "copilot": copilot.read,
}
_TEXT_READERS: Mapping[str, Callable[[str, RuleList], None]] = {
    "codex rules": codex.read_rules,
    "ignored files": ignore_files.read,
}


def load_foreign_rules(workspace: Path, agents: Sequence[str]) -> list[RuleList]:
    """Return the rules in the files of other agents, one list for each file that exists. Blocks.

    Args:
        workspace: Root of the workspace, resolved.
        agents: The agents whose files are read (see ``files.AGENTS``).
    """
    return [rules for file in find_files(workspace, agents) for rules in _read(file, workspace)]


def _read(file: PermissionFile, workspace: Path) -> Iterator[RuleList]:
    place = Place(
        file.path, AGENTS[file.agent], file.base, workspace, home_folder(), file.fence is None
    )
    # A repository must not make hilum read files outside it through a link.
    if file.fence is not None:
        real = os.path.realpath(file.path)
        if not real.startswith(f"{os.path.realpath(file.fence)}/"):
            rules = RuleList(place, "")
            rules.doubt("It is a link that leads out of the project, so it is not read.")
            yield rules
            return
    try:
        data = read_regular_file(file.path, MAX_BYTES)
    except OSError as error:
        rules = RuleList(place, "")
        rules.doubt(f"It cannot be read: {error.strerror or error}.")
        yield rules
        return
    except ValueError as error:
        rules = RuleList(place, "")
        rules.doubt(f"It is {error}.")
        yield rules
        return
    if file.format == "copilot" and copilot.MARK not in data and _is_text(data):
        return
    rules = _parse(file, place, data)
    rules.spare_runners()
    rules.spare_installers()
    yield rules


def _is_text(data: bytes) -> bool:
    """Return whether the content of a file is UTF-8, in which words can be looked for."""
    try:
        data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return False
    return True


def _may_deny(data: bytes, file: PermissionFile) -> bool:
    """Return whether a file contains one of the words without which it denies nothing."""
    # Without NUL, UTF-16 has the same words. An escaped letter may be a part of one.
    plain = data.replace(b"\0", b"")
    return any(word in plain for word in (*file.marks, b"\\u"))


def _parse(file: PermissionFile, place: Place, data: bytes) -> RuleList:
    text = data.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
    rules = RuleList(place, text)
    if file.format in _TEXT_READERS:
        _TEXT_READERS[file.format](text, rules)
        return rules
    try:
        loaded = load_file(file.path, merges=True)
    except UnreadableFile as error:
        if _may_deny(data, file):
            rules.doubt(str(error), error.line)
        else:
            rules.problem(str(error), error.line)
        return rules
    for mistake in loaded.mistakes:
        # A value that is not used may have denied something.
        if mistake.is_loss and _may_deny(data, file):
            rules.doubt(mistake.reason, mistake.line)
        else:
            rules.problem(mistake.reason, mistake.line)
    _READERS[file.format](loaded, rules)
    return rules
