"""What the log of a session contains about the texts in the user's editor."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from hilum.events import AnyEvent, PluginEvent
from hilum_files.journal.editor_log import EditorRecord, read_editor_record
from hilum_files.journal.records import unspell_path


@attrs.frozen
class EditorEvent:
    """What an editor showed or did with a file, as the log has it.

    Attributes:
        seq: Sequence number of the event.
        agent: The agent whose call accessed the editor.
        run: The agent's run.
        record: The content of the event.
    """

    seq: int
    agent: str
    run: str
    record: EditorRecord

    @property
    def path(self) -> str:
        """The file, relative to the workspace."""
        return unspell_path(self.record.path)


def read_editor_event(event: AnyEvent) -> EditorEvent | None:
    """Return what an event contains about an editor; ``None`` if it is another event."""
    if not isinstance(event, PluginEvent):
        return None
    record = read_editor_record(event)
    if record is None:
        return None
    return EditorEvent(event.seq, event.agent, event.run, record)


def find_editor_events(events: Sequence[AnyEvent]) -> list[EditorEvent]:
    """Return what a log contains about an editor, in order."""
    found = map(read_editor_event, events)
    return [event for event in found if event is not None]


def list_editor_contents(events: Sequence[AnyEvent]) -> set[str]:
    """Return the names of the contents that a replay of the editor needs."""
    names = set()
    for event in find_editor_events(events):
        if event.record.unsaved is not None:
            names.add(event.record.unsaved)
        saved = event.record.saved
        if event.record.does == "write" and saved is not None and saved.kind == "file":
            names.add(saved.hash)
    return names
