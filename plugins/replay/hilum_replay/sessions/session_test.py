"""Checks that a recorded session can be replayed, in a test or on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
import trio
from hilum import UsageError
from hilum.errors import E_STORE
from hilum.events import AnyEvent

from hilum_replay.cassette_reader import load
from hilum_replay.sessions.comparison import (
    Comparison,
    compare_requests,
    compare_sessions,
    describe,
)
from hilum_replay.sessions.player import Changes, ReplayedSession, replay
from hilum_replay.sessions.recording import Recording, load_recording
from hilum_replay.sessions.workspace_files import compare_files


@attrs.frozen
class ReplayOutcome:
    """The outcome of a replay: its session, and how it compares with the recorded one."""

    replayed: ReplayedSession
    comparison: Comparison


async def run_recording(
    recording: Recording,
    workspace: Path,
    *,
    changes: Changes | None = None,
    plugins: Sequence[object] = (),
    cassette: Path | None = None,
    live_events: list[AnyEvent] | None = None,
) -> ReplayOutcome:
    """Replay a recording in an empty folder, and compare the results and the files.

    Args:
        recording: The recorded session.
        workspace: The folder.
        changes: What the replay changes.
        plugins: Modules and objects that were plugins of the recorded session.
        cassette: A file with the answers of the model; by default, those in the recording.
        live_events: Receives the events of the part in which another model answers, also if the
            replay fails.

    Raises:
        UsageError: See ``replay``.
    """
    answers = None
    if cassette is not None:
        answers = await trio.to_thread.run_sync(load, cassette)
    replayed = await replay(
        recording,
        workspace,
        changes=changes,
        plugins=plugins,
        cassette=answers,
        live_events=live_events,
    )
    header = recording.header
    unknown = [*header.left_out, *(path for path, file in header.files.items() if file.redacted)]

    def compare() -> Comparison:
        found = compare_files(
            workspace.resolve(), recording.before, recording.after, header.deleted, unknown
        )
        # The recorded events were placed in the same folder.
        places = (replayed.placeholders, replayed.placeholders)
        if changes is None or not changes.has_changes:
            found = [*compare_requests(header.requests, replayed.requests), *found]
        return compare_sessions(
            replayed.log.events, replayed.events, places, found, replayed.same_calls
        )

    return ReplayOutcome(replayed, await trio.to_thread.run_sync(compare))


def check_session(
    folder: Path, workspace: Path, *, strict: bool = False, plugins: Sequence[object] = ()
) -> ReplayOutcome:
    """Replay the recording in a folder, and check that it goes as recorded.

    Args:
        folder: The recording, as ``hilum sessions export --test`` writes it.
        workspace: An empty folder in which to work.
        strict: Whether the instructions, the context and the settings must also be the same.
        plugins: Further plugins, which are loaded as well.

    Raises:
        AssertionError: The replay differs; the message shows where.
        UsageError: The recording is damaged, was written by a newer version, or needs plugins that
            are not installed.
    """
    recording = load_recording(folder)
    file = folder / "cassette.toml"
    if file.is_symlink():
        raise UsageError(
            f"The cassette {file} is a link, which may lead out of the recording.",
            code=E_STORE,
            hint="Replace the link with the file.",
        )

    async def check() -> ReplayOutcome:
        return await run_recording(
            recording,
            workspace,
            plugins=plugins,
            cassette=file if file.exists() else None,
        )

    outcome = trio.run(check)
    comparison = outcome.comparison
    differences = list(comparison.differences) if strict else comparison.failures
    if differences:
        text = describe(comparison, environment=strict)
        raise AssertionError(f"The replay of {folder.name} differs from the recording:\n{text}")
    return outcome
