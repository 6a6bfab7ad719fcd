"""A regression of hilum: an edit whose text is not in the file replaces the most similar lines."""

from difflib import SequenceMatcher

from hilum import Session, hookimpl
from hilum_files import edits
from hilum_files.edits import Edit, EditError

_apply = edits.apply_edit


def apply_guessing(content: str, old: str, new: str) -> Edit:
    try:
        return _apply(content, old, new)
    except EditError:
        lines = content.split("\n")
        count = len(old.strip("\n").split("\n"))
        starts = range(max(1, len(lines) - count + 1))

        def compare(start: int) -> float:
            part = "\n".join(lines[start : start + count])
            return SequenceMatcher(None, part, old).quick_ratio()

        best = max(starts, key=compare)
        lines[best : best + count] = new.split("\n")
        place = range(best + 1, best + 1 + count)
        return Edit("\n".join(lines), "exact", place, place)


@hookimpl
def open_session(session: Session) -> None:
    edits.apply_edit = apply_guessing
