"""The context and the reminders of a recorded session, in a replay with or without a change.

What hilum gathers for a prompt depends on the machine, on how busy it is and on what the user has
open. A replay uses what was gathered in the recording. A change can make a part of it wrong: the
content of a file that the agent did not edit this time, or todo items that it did not write. Only
such parts are gathered again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from html import unescape

import attrs
from hilum import Agent, FileChanges, Session
from hilum.events import AnyEvent, PluginEvent, RunStarted
from hilum.messages import Text, UserMessage
from hilum_files.journal.ledger import WHOLE_FILE_SOURCES
from hilum_files.journal.records import CHANGED, SHOWN, read_record, spell_path, unspell_path
from hilum_files.journal.tree_entries import Node

from hilum_replay.sessions.recorded_calls import RecordedCalls
from hilum_replay.sessions.recorded_log import RULES_PLUGIN, RecordedLog

Reminders = list[tuple[str, str]]
_CONTEXT = "context:"
# Blocks about the machine, the user and the user's windows, which no call of an agent changes.
_OUTSIDE = frozenset({"environment", "terminal_output", "memory"})
# Blocks about all files, which a change of any of them may make wrong.
_ABOUT_FILES = frozenset({"linter_errors"})
_OPEN_FILE = "open_file"
_EDITED_FILE = "recently_edited"
_MAX_EDITED = 12


@attrs.frozen
class ContextChanges:
    """What a replay changes about the plugins that gather context.

    Attributes:
        added: Names of plugins that the recorded session did not have.
        removed: Names of plugins that are left out.
        configured: Names of plugins with other settings.
    """

    added: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()
    configured: frozenset[str] = frozenset()


@attrs.frozen
class _Part:
    """A part of a prompt that was gathered.

    Attributes:
        text: The part.
        plugin: The plugin that gathered it; empty in logs of earlier versions.
        type: The type of the block.
        path: The file that the part is about; empty for none.
    """

    text: Text
    plugin: str
    type: str
    path: str

    @property
    def key(self) -> tuple[str, str]:
        """What identifies the part within a prompt."""
        return self.type, self.path


class RecordedContext:
    """The gathered context and the reminders of a recorded session.

    Args:
        log: The recorded log.
        calls: The calls of the replay, which show whether the change has had an effect.
        redacted: Paths of files whose secrets were replaced, so that they have other hashes.
    """

    def __init__(self, log: RecordedLog, calls: RecordedCalls, redacted: frozenset[str]) -> None:
        self._log = log
        self._calls = calls
        self._redacted = redacted
        self._runs = [event for event in log.events if isinstance(event, RunStarted)]
        self._shown: dict[str, Mapping[str, str]] = {}
        for event in log.events:
            if isinstance(event, PluginEvent) and event.name == SHOWN:
                self._shown[event.run] = event.data.get("files", {})
        self._recorded_runs: dict[str, RunStarted] = {}
        self._changes: ContextChanges | None = None

    def begin_part(self, changes: ContextChanges | None) -> None:
        """Begin a part of the replay.

        Args:
            changes: What this part changes; ``None`` for nothing.
        """
        self._changes = changes

    # --- the user's workspace ---------------------------------------------------------------------

    def make_state(self, run: str, session: Session) -> dict[str, object]:
        """Return the state of the user's workspace for a prompt, as far as the recording shows it.

        The files that the user had open or had edited are then also gathered in the replay.

        Args:
            run: Id of the recorded run.
            session: The session of the replay.
        """
        opened: dict[str, None] = {}
        edited: dict[str, None] = {}
        for event in self._runs:
            for part in _list_parts(event.message, event.gathered_by):
                if part.type == _OPEN_FILE and event.run == run:
                    opened[part.path] = None
                elif part.type == _EDITED_FILE and not self._has_changed(part.path, event.seq):
                    edited[part.path] = None
            if event.run == run:
                break
        state: dict[str, object] = {}
        if opened:
            state["open_files"] = [{"path": path} for path in opened]
        changes = session.plugin(FileChanges)
        if edited and changes is not None:
            own = [{"path": path, "at": at} for path, at in changes.recent(_MAX_EDITED)]
            state["recent_edits"] = [*own, *({"path": path} for path in edited)]
        return state

    def _has_changed(self, path: str, seq: int) -> bool:
        """Return whether the recorded session changed a file before an event."""
        before = (event for event in self._log.events if event.seq < seq)
        return path in _read_states(before)

    # --- prompts ----------------------------------------------------------------------------------

    def restore(
        self, agent: Agent, message: UserMessage, gathered_by: Sequence[str]
    ) -> UserMessage:
        """Return the message with which a run begins, with the context of the recording.

        Args:
            agent: The agent of the replay.
            message: The message, with the context that was gathered now.
            gathered_by: The plugin of each gathered part.
        """
        recorded = self._find_run(agent, message)
        if recorded is None:
            return message
        self._recorded_runs[agent.starting] = recorded
        earlier = _list_parts(recorded.message, recorded.gathered_by)
        chosen = earlier
        if self._changes is not None:
            now = _list_parts(message, gathered_by)
            others = self._find_other_files(agent.session, recorded.seq)
            chosen = self._choose_parts(self._changes, earlier, now, others)
        kept = [part for part in chosen if part in earlier]
        fresh = [part for part in chosen if part not in earlier]
        self._mark_as_read(agent, recorded, kept, fresh)
        own = [part for part in message.parts if not _is_context(part)]
        return UserMessage((*own, *(part.text for part in chosen)))

    def _find_run(self, agent: Agent, message: UserMessage) -> RunStarted | None:
        """Return the recorded run that a run of the replay repeats.

        It is the next one of the same agent with the same prompt; with a change, the runs between
        them may be missing.
        """
        done = {event.run for event in self._recorded_runs.values()}
        own = [part for part in message.parts if not _is_context(part)]
        for event in self._runs:
            if event.agent != agent.name or event.run in done:
                continue
            recorded = [part for part in event.message.parts if not _is_context(part)]
            is_same_run = event.run == agent.starting and self._changes is None
            if is_same_run or (self._changes is not None and recorded == own):
                return event
        return None

    def _choose_parts(
        self,
        changes: ContextChanges,
        earlier: Sequence[_Part],
        now: Sequence[_Part],
        others: frozenset[str],
    ) -> list[_Part]:
        """Return the recorded parts that are still right, and those that are gathered again.

        Args:
            changes: What the replay changes.
            earlier: The recorded parts.
            now: The parts that were gathered now.
            others: The files that have another content because of the change.
        """
        anew = changes.added | changes.configured
        fresh = {
            part.key: part for part in now if part.plugin in anew or self._is_affected(part, others)
        }
        chosen = []
        for part in earlier:
            is_changed = part.plugin in changes.removed or part.plugin in changes.configured
            if not is_changed and not self._is_affected(part, others):
                chosen.append(part)
                fresh.pop(part.key, None)
            elif part.key in fresh:
                chosen.append(fresh.pop(part.key))
        return [*chosen, *fresh.values()]

    def _is_affected(self, part: _Part, others: frozenset[str]) -> bool:
        """Return whether a part may have another text because of the change."""
        if part.path:
            return part.path in others
        if part.type in _OUTSIDE:
            return False
        if part.type in _ABOUT_FILES:
            return bool(others)
        # A block about the session, such as the todo items or the services.
        return self._calls.has_differences

    def _find_other_files(self, session: Session, seq: int) -> frozenset[str]:
        """Return the files that have another content now than before an event of the recording."""
        before = [event for event in self._log.events if event.seq < seq]
        recorded = _read_states(before)
        replayed = _read_states(_read_log(session))
        changed = {*recorded, *replayed}
        return frozenset(
            path for path in changed if not self._is_same_file(session, path, recorded, replayed)
        )

    def _is_same_file(
        self,
        session: Session,
        path: str,
        recorded: Mapping[str, tuple[Node | None, ...]],
        replayed: Mapping[str, tuple[Node | None, ...]],
    ) -> bool:
        """Return whether a file has its recorded content.

        Args:
            session: The session of the replay.
            path: The file.
            recorded: The states of each file in the recording, in order.
            replayed: The same for the replay.
        """
        one = recorded.get(path, ())
        two = replayed.get(path, ())
        if path in self._redacted:
            return len(one) == len(two)
        # A file that only one of the sessions changed began with the same content in both.
        first = one[-1] if one else two[0]
        second = two[-1] if two else one[0]
        if first == second:
            return True
        # The files of calls that are answered from the log are not in the journal.
        wanted = first.hash if first is not None and first.kind == "file" else ""
        return _hash_file(session, path) == wanted

    def _mark_as_read(
        self, agent: Agent, recorded: RunStarted, kept: Sequence[_Part], fresh: Sequence[_Part]
    ) -> None:
        """Mark the files as read that counted as read in the recording."""
        changes = agent.session.plugin(FileChanges)
        if changes is None:
            return
        shown: dict[str, str] = {}
        known = self._shown.get(recorded.run, {})
        for part in kept:
            hashed = known.get(spell_path(part.path))
            if part.text.source in WHOLE_FILE_SOURCES and hashed is not None:
                is_redacted = part.path in self._redacted
                shown[part.path] = _hash_file(agent.session, part.path) if is_redacted else hashed
        now: Mapping[str, str] = {}
        for event in _read_log(agent.session):
            if isinstance(event, PluginEvent) and event.name == SHOWN:
                now = event.data.get("files", {}) if event.run == agent.starting else now
        for part in fresh:
            if spell_path(part.path) in now:
                shown[part.path] = now[spell_path(part.path)]
        if shown or now:
            changes.mark_as_read(agent, shown)

    # --- reminders --------------------------------------------------------------------------------

    def restore_reminders(self, agent: Agent, reminders: Reminders) -> Reminders:
        """Return the reminders of a round with those that the user's rules gave in the recording.

        A round of calls that differs from the recorded one keeps the reminders of the replay.

        Args:
            agent: The agent of the replay.
            reminders: The plugins of the replay, each with its reminder.
        """
        recorded = self._recorded_runs.get(agent.run.id)
        changes = self._changes
        if recorded is None:
            return reminders
        if changes is not None:
            is_changed = RULES_PLUGIN in changes.removed or RULES_PLUGIN in changes.configured
            if is_changed or self._calls.has_different_round(agent):
                return reminders
        return self._log.restore_reminders(recorded.run, agent.run.turn, reminders)


def _read_log(session: Session) -> Iterator[AnyEvent]:
    """Yield the events of a session so far."""
    last = 0
    while page := session.journal.since(last):
        yield from page
        last = page[-1].seq


def _list_parts(message: UserMessage, gathered_by: Sequence[str]) -> list[_Part]:
    texts = [part for part in message.parts if isinstance(part, Text) and _is_context(part)]
    names = list(gathered_by) if len(gathered_by) == len(texts) else [""] * len(texts)
    parts = []
    for text, plugin in zip(texts, names, strict=True):
        first_line, _, _ = text.text.partition("\n")
        _, _, rest = first_line.partition(' path="')
        path, _, _ = rest.partition('"')
        type = text.source.removeprefix(_CONTEXT)
        parts.append(_Part(text, plugin, type, unescape(path)))
    return parts


def _is_context(part: object) -> bool:
    return isinstance(part, Text) and part.source.startswith(_CONTEXT)


def _read_states(events: Iterable[AnyEvent]) -> dict[str, tuple[Node | None, ...]]:
    """Return what was at each changed path: before its first change and after each one."""
    states: dict[str, tuple[Node | None, ...]] = {}
    for event in events:
        record = None
        if isinstance(event, PluginEvent) and event.name == CHANGED:
            record = read_record(event)
        for change in record.changes if record is not None else ():
            path = unspell_path(change.path)
            states[path] = (*states.get(path, (change.before,)), change.after)
    return states


def _hash_file(session: Session, path: str) -> str:
    """Return the hash with which the journal identifies the content of a file; empty for none."""
    changes = session.plugin(FileChanges)
    with suppress(OSError):
        if changes is not None:
            return changes.content_hash((session.workspace.root / path).read_bytes())
    return ""
