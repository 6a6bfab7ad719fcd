"""Logs with extreme numbers, hostile texts and damage: every view of them ends with a result or a
HilumError.
"""

import csv
import io
import json
import random
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
import trio
from hilum import HilumError, UsageError
from hilum.events import Event, decode, encode
from hilum.store import SessionInfo
from hilum_replay.sessions.recording import SESSION_FILE, Header, load_recording
from hilum_store import SqliteStore
from hilum_trace.bill.bill import DIMENSIONS, Bill
from hilum_trace.bill.budgets.spending_fold import SpendingFold
from hilum_trace.bill.cost_command import add_sessions
from hilum_trace.bill.cost_format import as_data, format_csv, format_table
from hilum_trace.exports import make_json, make_speedscope
from hilum_trace.flame import render_flame
from hilum_trace.following import Follower
from hilum_trace.page import make_page
from hilum_trace.reading import read_entries
from hilum_trace.spans import SpanFold
from hilum_trace.tree import Painter, list_runs, render_slowest, render_tree
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from sample_events import SAMPLE_EVENTS

DEEP = "[" * 50_000 + "]" * 50_000
# Pieces of JSON that take the place of a value.
WHOLE_NUMBERS = ("0", "-1", "7", str(10**15), str(2**63 - 1), str(-(2**63)))
NUMBERS = (*WHOLE_NUMBERS, "1e11", "1e18", "1.7e308", "-1.7e308", "5e-324", "0.1")
IMPOSSIBLE_NUMBERS = ("1e999", "NaN", str(2**63), "9" * 30, "9" * 400, "9" * 5_000)
TEXTS = (
    *('""', '"\\u0000"', '"\\ud83d"', '"\\u001b[2J\\u0007"', '"</script><script>"', '"=1+1"'),
    json.dumps("x" * 100_000),
    json.dumps("\u202e\ufeff\u2028 `[link](http://x)`\r\n"),
)
OTHERS = (
    *TEXTS,
    *("null", "true", "[]", "{}", "[[]]", '{"":0}', DEEP, '{"a":' * 3_000 + "1" + "}" * 3_000),
)
BASE = [field.name for field in msgspec.structs.fields(Event)]
USAGE = ("input", "cached", "cache_write", "output", "reasoning")
DAMAGED = (b"", b"\xff\x00", b'{"type"', b"[", b'{"":0}', 7, "x")


def make_usage(chance):
    """The counts of a request, as JSON."""
    parts = [f'"{name}":{chance.choice(WHOLE_NUMBERS)}' for name in USAGE]
    parts.append(f'"cost":{chance.choice(NUMBERS)}')
    return f"{{{','.join(parts)}}}"


def make_value(chance, field):
    """A value for a field: mostly an extreme one that has the field's type."""
    if chance.random() < 0.1:
        return chance.choice(IMPOSSIBLE_NUMBERS + OTHERS)
    kind = str(field.type)
    if field.name == "usage":
        return make_usage(chance)
    if "float" in kind:
        return chance.choice(NUMBERS)
    if "int" in kind:
        return chance.choice(WHOLE_NUMBERS)
    return chance.choice(TEXTS if "str" in kind else OTHERS)


def make_fields(chance):
    """The fields of an event, most often with extreme values."""
    event = chance.choice(SAMPLE_EVENTS)
    agent = chance.choice(["", "main", "main", "t1"])
    event = replace(event, agent=agent, run="r1", at=1e9 + chance.random() * 100)
    fields = msgspec.json.decode(encode(event), type=dict[str, msgspec.Raw])
    known = [field for field in msgspec.structs.fields(type(event)) if field.name not in BASE]
    for field in known:
        if chance.random() < 0.3:
            fields[field.encode_name] = msgspec.Raw(make_value(chance, field).encode())
    for field in msgspec.structs.fields(Event):
        if chance.random() < 0.02:
            fields[field.encode_name] = msgspec.Raw(make_value(chance, field).encode())
    return fields


def make_rows(seed):
    """The rows of a log."""
    chance = random.Random(seed)
    rows = []
    for seq in range(1, chance.randrange(2, 60)):
        fields = {"seq": msgspec.Raw(str(seq).encode()), **make_fields(chance)}
        pairs = (b'"%b":%b' % (name.encode(), bytes(value)) for name, value in fields.items())
        row = b"{" + b",".join(pairs) + b"}"
        if chance.random() < 0.03:
            row = chance.choice((*DAMAGED, row[: len(row) // 2]))
        rows.append(row)
    return rows


async def check_views(folder, rows):
    """Show a log with these rows in every form."""
    store = SqliteStore(folder / "sessions.db")
    info = SessionInfo("s", "/w", created=1e9, updated=1e9)
    log = await store.create(info)
    await log.close()
    with closing(sqlite3.connect(store.path)) as database:
        number = database.execute("SELECT number FROM sessions").fetchone()[0]
        keyed = [(number << 32 | seq, row) for seq, row in enumerate(rows, 1)]
        database.executemany("INSERT INTO events VALUES (?, ?)", keyed)
        database.execute("UPDATE sessions SET events = ?", (len(rows),))
        database.commit()
    info = await store.info("s")
    check_trace(await read_entries(store, "s", expected=info.events))
    for by in DIMENSIONS:
        bill = Bill(by)
        await add_sessions(bill, store, [info])
        check_bill(bill)
    try:
        spending = SpendingFold(lambda model: None)
        spending.apply(await store.read("s"))
    except HilumError:
        pass
    await store.close()


def check_trace(entries):
    fold = SpanFold()
    follower = Follower(Painter(80, color=True))
    for entry in entries:
        fold.apply(entry)
        follower.apply([entry])
    follower.finish()
    fold.finish()
    trace = fold.trace
    shown = "\n".join(render_tree(trace, Painter(80), complete=True))
    shown += "\n".join(render_slowest(trace, Painter(), 10))
    for run in list_runs(trace):
        shown += "\n".join(render_flame(trace, run, 80))
    assert "\x1b" not in shown
    assert "\x07" not in shown
    # A number that no browser can represent would end the page's script.
    json.loads(make_json(trace), parse_constant=pytest.fail)
    json.loads(make_speedscope(trace), parse_constant=pytest.fail)
    assert "</script><script>" not in make_page(trace).partition('id="data">')[2].split("\n")[0]


def check_bill(bill):
    table = format_table(bill, 0).partition("\n\n")[0]
    for line in table.splitlines():
        assert len(line) < 300 or line.startswith("Not everything")
    json.loads(json.dumps(as_data(bill)), parse_constant=pytest.fail)
    list(csv.reader(io.StringIO(format_csv(bill))))


@given(st.integers(0, 2**40))
def test_every_view_of_an_extreme_log_ends_with_a_result_or_an_error_of_hilum(seed):
    with tempfile.TemporaryDirectory() as folder:
        trio.run(check_views, Path(folder), make_rows(seed))


@given(st.integers(0, 2**40))
def test_an_extreme_event_is_read_and_written_again_or_is_damage(seed):
    """What can be read can also be copied to another log."""
    for row in make_rows(seed):
        try:
            event = decode(row)
        except (msgspec.DecodeError, TypeError):  # TypeError: a row that contains a number
            continue
        assert 0 <= event.at <= 1e11
        assert decode(encode(event)) == event


@given(st.integers(0, 2**40))
def test_an_extreme_event_in_a_recording_is_an_error_of_hilum(seed):
    rows = make_rows(seed)
    rows = [row if isinstance(row, bytes) else str(row).encode() for row in rows]
    with tempfile.TemporaryDirectory() as folder:
        header = msgspec.json.encode(Header(count=len(rows)))
        Path(folder, SESSION_FILE).write_bytes(b"\n".join([header, *rows]))
        code = ""
        try:
            assert len(load_recording(Path(folder)).events) == len(rows)
        except UsageError as error:
            code = error.code
        assert code in ("", "E_STORE")
