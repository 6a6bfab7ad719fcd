"""The clock, randomness and the file system are part of a recording.

Each session reads one of them, and is replayed on another path and on another day.
"""

import os
import time
import uuid
from datetime import datetime
from pathlib import Path

import msgspec
import pytest
import trio
from hilum import hookimpl, tool
from hilum.testing import ScriptedModel, open_bench, use
from hilum_files.journal.content_store import ContentStore
from hilum_replay.sessions import workspace_files
from hilum_replay.sessions.another_day import choose_time_zone
from hilum_replay.sessions.comparison import describe
from hilum_replay.sessions.exporting import make_recording, make_repeatable
from hilum_replay.sessions.recording import Recording, load_recording, save_recording
from hilum_replay.sessions.session_test import ReplayOutcome, run_recording

pytestmark = pytest.mark.slow(cases=15, of="file")

FILES = {"a.txt": "a\n", "b.txt": "b\n", "c.txt": "c\n"}
FORTY_DAYS = 40 * 86_400


class Conditions:
    """A plugin whose tools read the clock, random numbers and the file system."""

    name = "conditions"

    @tool(risk="read", effect="pure")
    def read_time(self) -> str:
        """Return the time."""
        return f"{time.time():.6f}"

    @tool(risk="read", effect="pure")
    def read_weekday(self) -> str:
        """Return the day of the week."""
        return datetime.now().strftime("%A")

    @tool(risk="read", effect="pure")
    def make_id(self) -> str:
        """Return a random id."""
        return uuid.uuid4().hex

    @hookimpl
    def provide_tools(self) -> list[object]:
        return [self.read_time, self.read_weekday, self.make_id]


async def record(folder: Path, *calls: object, files: dict[str, str] = FILES) -> Recording:
    """Record a session with these calls, and make it repeatable."""
    plugins = ("files", "search", "shell", "guard", Conditions())
    bench_folder = folder / "bench"
    async with open_bench(
        *plugins,
        model=ScriptedModel([*calls, "Done."]),
        files=files,
        folder=bench_folder,
    ) as bench:
        for age, name in enumerate(sorted(files)):
            moment = time.time() - 1_000_000 - age
            os.utime(bench.workspace / name, (moment, moment))
        await bench.run("Look.")
        events = list(bench.events)
    store = ContentStore(bench_folder / "data" / "objects")
    recording = make_recording(events, store.get)
    store.close()
    recording, outcome = await make_repeatable(recording, [Conditions()])
    assert not outcome.comparison.failures, describe(outcome.comparison)
    return recording


async def replay_elsewhere(recording: Recording, folder: Path, *plugins: object) -> ReplayOutcome:
    """Save and load a recording, and replay it in another folder."""
    save_recording(recording, folder / "recording")
    return await run_recording(
        load_recording(folder / "recording"),
        folder / "some" / "other place" / "work",
        plugins=plugins,
    )


@pytest.mark.parametrize("name", ["read_time", "read_weekday", "make_id"])
async def test_tools_that_read_the_clock_or_random_numbers(tmp_path, monkeypatch, name):
    recording = await record(tmp_path, use(name))
    assert "main/call-1" in recording.header.from_log

    class LaterDay(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.fromtimestamp(time.time(), tz)

    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + FORTY_DAYS)
    monkeypatch.setitem(globals(), "datetime", LaterDay)
    outcome = await replay_elsewhere(recording, tmp_path, Conditions())
    assert outcome.comparison.identical, describe(outcome.comparison)


@pytest.mark.parametrize(
    "command",
    [
        "date +%A",
        "date -u +%A; echo now",
        "python3 -c 'import time; print(time.strftime(\"%A\"))'",
        "python3 -c 'import uuid; print(uuid.uuid4().hex)'",
        "echo $RANDOM-$RANDOM",
        "ls -l",
    ],
)
async def test_commands_that_depend_on_the_day_or_on_chance(tmp_path, monkeypatch, command):
    recording = await record(tmp_path, use("run_terminal_cmd", command=command))
    assert "main/call-1" in recording.header.from_log
    # The commands of the replay see another day.
    monkeypatch.setenv("TZ", choose_time_zone(time.time()))
    outcome = await replay_elsewhere(recording, tmp_path, Conditions())
    assert outcome.comparison.identical, describe(outcome.comparison)


async def test_the_times_of_files_are_those_of_the_recording(tmp_path):
    recording = await record(tmp_path, use("run_terminal_cmd", command="stat -c '%Y %n' *.txt"))
    assert not recording.header.from_log
    outcome = await replay_elsewhere(recording, tmp_path, Conditions())
    assert outcome.comparison.identical, describe(outcome.comparison)
    assert outcome.replayed.answered == []
    assert outcome.replayed.changed == []


async def test_another_order_of_the_files_in_a_folder_is_no_difference(tmp_path, monkeypatch):
    recording = await record(
        tmp_path,
        use("run_terminal_cmd", command="cat order.txt; find . -name none"),
        files={**FILES, "order.txt": "a.txt\nb.txt\n"},
    )
    assert not recording.header.from_log
    # The order depends on the file system: this file stands for one with another order.
    recording.before["order.txt"] = b"b.txt\na.txt\n"
    outcome = await run_recording(recording, tmp_path / "work", plugins=[Conditions()])
    assert not [each for each in outcome.comparison.failures if each.kind == "behaviour"]


async def test_other_lines_in_a_folder_are_a_difference(tmp_path):
    recording = await record(tmp_path, use("run_terminal_cmd", command="ls"))
    recording.before["d.txt"] = b"d\n"
    outcome = await run_recording(recording, tmp_path / "work", plugins=[Conditions()])
    assert [each for each in outcome.comparison.failures if each.kind == "behaviour"]


@pytest.mark.parametrize("hour", range(24))
def test_another_day_is_found_at_every_hour(monkeypatch, hour):
    monkeypatch.delenv("TZ", raising=False)
    now = 1_800_000_000 // 86_400 * 86_400 + hour * 3600 + 1800
    for zone in ("UTC0", "EAST-14", "WEST+12", "INDIA-5:30"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        here = time.localtime(now)
        monkeypatch.setenv("TZ", choose_time_zone(now))
        time.tzset()
        assert time.localtime(now).tm_mday != here.tm_mday
    monkeypatch.delenv("TZ")
    time.tzset()


async def test_the_limit_of_turns_is_part_of_the_recording(tmp_path):
    async with open_bench(
        "files",
        "guard",
        model=ScriptedModel([use("list_directory")] * 3),
        settings={"turns": 2},
        folder=tmp_path / "bench",
    ) as bench:
        ended = await bench.run("Look.")
        assert ended.code == "E_TURN_LIMIT"
        events = list(bench.events)
    outcome = await run_recording(make_recording(events, lambda name: None), tmp_path / "work")
    assert outcome.comparison.identical, describe(outcome.comparison)


# --- files ----------------------------------------------------------------------------------------


async def test_links_and_names_that_are_not_unicode(tmp_path):
    folder = tmp_path / "bench"
    async with open_bench(
        "files",
        "shell",
        "guard",
        model=ScriptedModel([use("run_terminal_cmd", command="cat link.txt"), "Done."]),
        files=FILES,
        folder=folder,
    ) as bench:
        (bench.workspace / "link.txt").symlink_to("a.txt")
        (bench.workspace / "outside.txt").symlink_to("/etc/hostname")
        await trio.Path(os.fsdecode(os.fsencode(bench.workspace) + b"/\xff.txt")).write_text("x")
        await bench.run("Look.")
        events = list(bench.events)
    store = ContentStore(folder / "data" / "objects")
    recording, outcome = await make_repeatable(make_recording(events, store.get))
    store.close()
    assert not outcome.comparison.failures, describe(outcome.comparison)
    assert recording.header.links == {"link.txt": "a.txt"}
    assert recording.header.left_out == {
        "outside.txt": workspace_files.OUTSIDE,
        "�.txt": workspace_files.NOT_UNICODE,
    }
    outcome = await replay_elsewhere(recording, tmp_path)
    assert outcome.comparison.identical, describe(outcome.comparison)


async def record_edits(folder: Path, content: str) -> Recording:
    """Record a session in which the user writes a file that the agent has written before."""
    answers = [
        use("write_file", path="big.txt", content="small\n"),
        "Written.",
        use("read_file", path="a.txt"),
        use("run_terminal_cmd", command="echo more >> big.txt"),
        "Done.",
    ]
    bench_folder = folder / "bench"
    async with open_bench(
        "files", "shell", "guard", model=ScriptedModel(answers), files=FILES, folder=bench_folder
    ) as bench:
        await bench.run("Write.")
        await trio.Path(bench.workspace / "big.txt").write_text(content)
        await bench.run("Go on.")
        events = list(bench.events)
    store = ContentStore(bench_folder / "data" / "objects")
    recording = make_recording(events, store.get)
    store.close()
    return recording


async def test_a_content_that_is_too_large_is_not_replayed_as_a_deletion(tmp_path, monkeypatch):
    monkeypatch.setattr(workspace_files, "FILE_LIMIT", 1000)
    recording = await record_edits(tmp_path, "x" * 2000)
    [edit] = recording.header.edits
    assert edit.missing == "it is too large (2,000 bytes)"
    assert "big.txt" in recording.header.left_out
    outcome = await run_recording(recording, tmp_path / "work")
    text = await trio.Path(tmp_path / "work" / "big.txt").read_text()
    assert text == "small\nmore\n"
    assert not outcome.comparison.failures, describe(outcome.comparison)


async def test_equal_contents_count_once(tmp_path, monkeypatch):
    monkeypatch.setattr(workspace_files, "TOTAL_LIMIT", 2100)
    recording = await record_edits(tmp_path, "x" * 2000)
    [edit] = recording.header.edits
    assert not edit.missing
    assert recording.objects[edit.content] == b"x" * 2000
    assert recording.after["big.txt"] == b"x" * 2000 + b"more\n"
    assert not recording.header.left_out


async def test_an_edit_that_is_not_possible_is_a_difference_and_no_error(tmp_path):
    recording = await record_edits(tmp_path, "x\n")
    # The recording says that there is a folder at this path.
    header = msgspec.structs.replace(recording.header, folders=("big.txt",))
    changed = msgspec.structs.replace(recording, header=header)
    outcome = await run_recording(changed, tmp_path / "work")
    assert outcome.comparison.failures
