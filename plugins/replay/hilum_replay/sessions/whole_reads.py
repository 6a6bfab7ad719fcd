"""What the log of a session contains about files that a call of ``read_file`` showed in full.

The journal keeps only what the session changed. If the user changes such a file and a call reads it
before the session changes it again, the result of the call shows what the user wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import attrs
from hilum.events import AnyEvent, CallDone, CallStarted, PluginEvent
from hilum.messages import Text, ToolResult
from hilum_files.journal.content_store import hash_content
from hilum_files.journal.records import CHANGED, COMMAND, read_record, unspell_path
from hilum_files.text import BOM


@attrs.frozen
class WholeRead:
    """A call that read a whole file while no command ran.

    Attributes:
        seq: Sequence number of the event with the result.
        started: Sequence number of the event with which the call started.
        agent: The agent.
        run: The agent's run.
        call: Id of the call.
        path: The file, relative to the workspace.
        hash: The hash of the content.
        data: The content.
    """

    seq: int
    started: int
    agent: str
    run: str
    call: str
    path: str
    hash: str
    data: bytes


def find_whole_reads(events: Sequence[AnyEvent]) -> list[WholeRead]:
    """Return the reads of whole files, in order.

    Reads during which a command or a guest's program ran are left out: the changes that they found
    are not the user's.
    """
    reads: list[WholeRead] = []
    started: dict[tuple[str, str], int] = {}
    running: dict[str, int] = {}
    last_end = 0
    for event in events:
        if isinstance(event, CallStarted):
            started[event.agent, event.call.id] = event.seq
        elif isinstance(event, PluginEvent) and event.name in (COMMAND, CHANGED):
            record = read_record(event)
            if record is None:
                continue
            if event.name == COMMAND:
                running[record.id] = event.seq
            elif running.pop(record.id, None) is not None:
                last_end = event.seq
        elif isinstance(event, CallDone) and event.result.name == "read_file":
            start = started.get((event.agent, event.result.call_id))
            if start is None or running or last_end > start:
                continue
            read = _make_read(event, start)
            if read is not None:
                reads.append(read)
    return reads


def _make_read(event: CallDone, started: int) -> WholeRead | None:
    """Return the read of a whole file; ``None`` if the result does not contain the whole file."""
    result = event.result
    path, hashed = result.data.get("file"), result.data.get("hash")
    if not isinstance(path, str) or not isinstance(hashed, str):
        return None
    data = _find_content(result, hashed)
    if data is None:
        return None
    name = unspell_path(path)
    return WholeRead(event.seq, started, event.agent, event.run, result.call_id, name, hashed, data)


def _find_content(result: ToolResult, hashed: str) -> bytes | None:
    """Return the content that a result shows, if it has the hash of the file."""
    texts = [part.text for part in result.parts if isinstance(part, Text)]
    if not texts:
        return None
    # The lines have numbers; neither their ends nor a byte order mark are shown.
    lines = [line.partition(" | ")[2] for line in texts[0].split("\n")]
    for mark, newline, end in product(("", BOM), ("\n", "\r\n"), (True, False)):
        text = mark + newline.join(lines) + (newline if end else "")
        data = text.encode(errors="surrogatepass")
        if hash_content(data) == hashed:
            return data
    return None
