"""The text that the user's editor has of the files to check, where it is not saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import trio
from hilum import EditorFiles, HilumError

from hilum_lint.edits import MAX_FILE_BYTES
from hilum_lint.running import CheckOutcome, checks_everything, run_checker

if TYPE_CHECKING:
    from hilum import Session

    from hilum_lint.project import CheckerUse

# Maximum number of files that the editor is asked for.
MAX_FILES = 50
_BOM = b"\xef\xbb\xbf"


async def find_unsaved(session: Session, targets: Iterable[Path]) -> dict[Path, bytes]:
    """Return the text of files that the editor has not saved, by file.

    Folders are left out, because an editor cannot list what it has open.

    Args:
        session: The session.
        targets: Files and folders.
    """
    editor = session.plugin(EditorFiles)
    if editor is None:
        return {}
    files = await trio.to_thread.run_sync(_find_files, list(targets))
    found = {}
    for path in files:
        try:
            text = await editor.read_in_editor(path)
            saved = await session.workspace.read_bytes(path, MAX_FILE_BYTES)
        except HilumError:
            # An editor that does not respond must not keep the checkers from reading the file.
            continue
        if text is not None and not _is_same(text.encode("utf-8", "replace"), saved):
            found[path] = text.encode("utf-8", "replace")
    return found


def _find_files(targets: Sequence[Path]) -> list[Path]:
    return [path for path in targets if path.is_file()][:MAX_FILES]


def _is_same(text: bytes, saved: bytes) -> bool:
    """Return whether an editor's text is the content of a file.

    Editors normalize newlines, and some leave out the one at the end.
    """
    shown = text.removeprefix(_BOM).replace(b"\r\n", b"\n")
    content = saved.removeprefix(_BOM).replace(b"\r\n", b"\n")
    return shown in (content, content.removesuffix(b"\n"))


async def check_files(
    session: Session,
    use: CheckerUse,
    targets: Sequence[Path],
    seconds: float,
    unsaved: Mapping[Path, bytes],
) -> CheckOutcome:
    """Run a checker on files as the editor has them, as far as the checker can read a text.

    Args:
        session: The session.
        use: The checker and its folder.
        targets: Files and folders, as for ``run_checker``.
        seconds: Time limit for all of them.
        unsaved: The text of files that is not saved.
    """
    # Without targets, the checker reads everything that its configuration names.
    changed = [path for path in unsaved if not targets or path in targets]
    if not changed:
        return await run_checker(session, use, targets, seconds)
    if not use.checker.text or not targets or checks_everything(use, targets):
        outcome = await run_checker(session, use, targets, seconds)
        names = tuple(session.workspace.relative(path) for path in changed)
        return attrs.evolve(outcome, read_as_saved=names)
    end = trio.current_time() + seconds
    outcomes = []
    others = [path for path in targets if path not in unsaved]
    if others:
        outcomes.append(await run_checker(session, use, others, seconds))
    for path in changed:
        left = end - trio.current_time()
        text = unsaved[path]
        outcomes.append(await run_checker(session, use, [path], left, text=text))
    return _merge(use, outcomes)


def _merge(use: CheckerUse, outcomes: Sequence[CheckOutcome]) -> CheckOutcome:
    """Return the outcomes of a checker on several files as one."""
    found = dict.fromkeys(each for outcome in outcomes for each in outcome.found)
    return CheckOutcome(
        use,
        tuple(found),
        problem=next((each.problem for each in outcomes if each.problem), ""),
        seconds=sum(each.seconds for each in outcomes),
        late=any(each.late for each in outcomes),
        excessive=any(each.excessive for each in outcomes),
    )
