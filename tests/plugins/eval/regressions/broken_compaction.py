"""A regression of hilum: a compaction keeps neither the earlier requests nor the summary."""

from typing import Any

from hilum import Session, hookimpl
from hilum_memory import compaction


def write_empty_note(*arguments: Any, **named: Any) -> str:
    return "Earlier messages were removed to make room."


@hookimpl
def open_session(session: Session) -> None:
    compaction.write_note = write_empty_note
