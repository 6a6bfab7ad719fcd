"""Repeats what the programs of guests did in a recorded session. No program is started.

A guest says and asks what its recorded answers contain; see ``recorded_models``. Here is what it did
by itself: the files that it changed, and the requests that it sent to models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import trio
from hilum import Agent, FileChanges, Session
from hilum.events import AnyEvent, ModelUsed, PluginEvent
from hilum.settings import use_environment
from hilum_files.journal.records import COMMAND, Record, read_record

from hilum_replay.sessions.contained_files import ContainedFiles
from hilum_replay.sessions.guest_log import OWN_CALLS
from hilum_replay.sessions.recorded_calls import apply_edit
from hilum_replay.sessions.recording import FileEdit


@attrs.frozen
class _Recording:
    """A recording of the changes of a program: when it has to end, and when it has ended."""

    ending: trio.Event = attrs.field(factory=trio.Event)
    ended: trio.Event = attrs.field(factory=trio.Event)


class GuestPrograms:
    """The programs of a recorded session's guests.

    Args:
        files: The workspace of the replay.
        effects: What programs and calls did to files, by ``agent/call``.
        objects: The contents of files.

    Attributes:
        answered: The programs whose changes were made again, by ``agent/call``.
    """

    def __init__(
        self,
        files: ContainedFiles,
        effects: Mapping[str, Sequence[FileEdit]],
        objects: Mapping[str, bytes],
    ) -> None:
        self._files = files
        self._effects = effects
        self._objects = objects
        self._recordings: dict[str, _Recording] = {}
        self.answered: list[str] = []

    async def repeat(self, session: Session, event: AnyEvent, nursery: trio.Nursery) -> None:
        """Repeat what a program did.

        Args:
            session: The session of the replay.
            event: An event that a program caused; see ``is_guest_event``.
            nursery: The nursery for recordings, which ends with the session.
        """
        agent = session.agents.get(event.agent)
        if agent is None:
            return
        if isinstance(event, ModelUsed):
            session.emit(event, agent, event.run)
            return
        assert isinstance(event, PluginEvent)
        record = read_record(event)
        if record is None:
            return
        if event.name == COMMAND:
            await nursery.start(self._record, agent, record)
        else:
            await self._make_changes(record)
            await self._end(record)

    async def drop(self, event: AnyEvent) -> None:
        """End a recording without changes, because the run of its guest has ended differently."""
        record = read_record(event) if isinstance(event, PluginEvent) else None
        if record is not None and event.agent:
            await self._end(record)

    async def cut_off(self, events: Sequence[PluginEvent]) -> None:
        """Make the changes of the programs that were killed together with hilum.

        Args:
            events: The events with their changes, which were found afterwards.
        """
        for event in events:
            record = read_record(event)
            if record is not None and not record.tool:
                await self._make_changes(record)
        self._recordings.clear()

    async def _record(
        self,
        agent: Agent,
        record: Record,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        changes = agent.session.plugin(FileChanges)
        if changes is None:
            task_status.started()
            return
        recording = self._recordings[record.call] = _Recording()
        try:
            # The journal keeps its snapshots in the data folder of the replay, not in the user's.
            with use_environment(agent.session.kernel.environ):
                async with changes.recording(agent, record.what, OWN_CALLS):
                    task_status.started()
                    await recording.ending.wait()
        finally:
            recording.ended.set()

    async def _make_changes(self, record: Record) -> None:
        key = f"{record.agent}/{record.call}"
        self.answered.append(key)

        def apply() -> None:
            for edit in self._effects.get(key, ()):
                apply_edit(edit, self._files, self._objects)

        await trio.to_thread.run_sync(apply)

    async def _end(self, record: Record) -> None:
        recording = self._recordings.pop(record.call, None)
        if recording is not None:
            recording.ending.set()
            await recording.ended.wait()
