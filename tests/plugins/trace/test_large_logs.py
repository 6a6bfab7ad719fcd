"""Logs with very many values: `hilum trace` takes a bounded amount of memory and time."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from hilum import events as ev
from hilum.messages import AssistantMessage, Text, ToolCall, ToolResult, UserMessage
from hilum.store import SessionInfo
from hilum_store import SqliteStore
from hilum_trace import trace_command
from hilum_trace.reading import MAX_ENTRY_VALUES, read_entries
from hilum_trace.spans import fold_spans
from msgspec import Raw
from msgspec.structs import replace

SESSION = "20260101-0000-large"
BEGAN = 1_767_225_600.0
# Runs the command in a process, and prints the peak of its memory in MB. The peak that `getrusage`
# returns would contain that of the process of the tests.
MEASURED = """
import re, sys
from pathlib import Path
from hilum import HilumError
from hilum_trace.trace_command import main
try:
    main(sys.argv[1:])
except HilumError as error:
    print(error, file=sys.stderr)
peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]
print("PEAK", int(peak) // 1024)
"""


def number(*events):
    whose = {"agent": "main", "run": "r"}
    numbered = [ev.SessionOpened(seq=1, at=BEGAN, session=SESSION, workspace="/work")]
    for seq, event in enumerate(events, 2):
        numbered.append(replace(event, seq=seq, at=BEGAN + seq, **whose))
    return numbered


def start():
    return ev.RunStarted(text="x", message=UserMessage((Text("x"),)))


async def write(folder, events):
    store = SqliteStore(folder / "sessions.db")
    log = await store.create(SessionInfo(SESSION, str(folder), created=BEGAN))
    log.append(events)
    await log.close()
    await store.close()


def trace(folder, *options):
    """Return the peak of the memory in MB, and what the command printed."""
    environ = {**os.environ, "HILUM_DATA": str(folder), "HILUM_CONFIG": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, SESSION, *options],
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    shown, _, peak = done.stdout.rpartition("PEAK")
    return int(peak), shown, done.stderr


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs the files of Linux")
def test_an_entry_with_millions_of_values_is_not_decoded(tmp_path):
    """Decoded, the 64 MB would take 2 GB."""
    values = Raw(b"[" + b",".join([b'{"":0}'] * 9_000_000) + b"]")
    large = ev.PluginEvent(name="x.large", data={"values": values})
    events = number(start(), large, ev.RunEnded(state="completed"))
    trio.run(write, tmp_path, events)
    peak, shown, errors = trace(tmp_path)
    assert peak < 400
    assert "run x" in shown
    assert "The log is damaged at entry 3." in errors


async def test_texts_with_many_commas_are_no_values(tmp_path):
    text = ',[{"' * MAX_ENTRY_VALUES
    events = number(start(), ev.RunEnded(state="completed", text=text))
    await write(tmp_path, events)
    store = SqliteStore(tmp_path / "sessions.db")
    assert await read_entries(store, SESSION) == events
    await store.close()


def test_a_response_with_very_many_calls_takes_linear_time():
    """The end of each call looked at all calls that were running."""
    calls = [ToolCall(f"c{index}", "act", "{}") for index in range(20_000)]
    answer = ev.ModelAnswered(message=AssistantMessage(tuple(calls), "a/b", "calls"))
    ends = [ev.CallDone(result=ToolResult(call.id, "act", ())) for call in calls]
    began = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    found = fold_spans(number(start(), ev.ModelStarted(turn=1), answer, *ends))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - began < 10
    assert sum(span.kind == "tool" and span.end is not None for span in found.spans) == 20_000


def test_a_trace_with_too_many_spans_ends_early_and_says_so(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(trace_command, "MAX_SPANS", 100)
    calls = [ev.CallStarted(call=ToolCall(f"c{index}", "act", "{}")) for index in range(500)]
    trio.run(write, tmp_path, number(start(), *calls))
    monkeypatch.setenv("HILUM_DATA", str(tmp_path))
    monkeypatch.setenv("HILUM_CONFIG", str(tmp_path))
    assert trace_command.main([SESSION]) == 0
    shown = capfd.readouterr()
    assert "more than 100 spans. The trace ends at event 100 of 502" in shown.err
    assert "run x" in shown.out
    assert "E_INTERRUPTED" not in shown.out
