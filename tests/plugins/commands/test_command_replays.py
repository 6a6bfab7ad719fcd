"""A replay takes the prompt of a custom command from the log: its shell inserts do not run again."""

from hilum.testing import ScriptedModel, open_bench
from hilum.trust import TrustedFolders
from hilum_files.journal.content_store import ContentStore
from hilum_replay.sessions.comparison import describe
from hilum_replay.sessions.exporting import make_recording
from hilum_replay.sessions.session_test import run_recording


async def test_a_replay_runs_no_shell_insert(tmp_path):
    marker = tmp_path / "count"
    marker.write_text("")
    bench_folder = tmp_path / "bench"
    file = bench_folder / "workspace/.claude/commands/a.md"
    file.parent.mkdir(parents=True)
    file.write_text("Look: !`date +%N; echo once >> ran.txt` @b.txt")
    (bench_folder / "workspace/b.txt").write_text("bee\n")
    TrustedFolders(bench_folder / "config").add(bench_folder / "workspace")
    plugins = ("files", "shell", "guard", "plan", "commands")
    model = ScriptedModel(["Done.", "Again."])
    async with open_bench(*plugins, model=model, folder=bench_folder) as bench:
        await bench.run("/a")
        await bench.run("And now?")
        events = list(bench.events)
    assert (bench_folder / "workspace/ran.txt").read_text() == "once\n"
    store = ContentStore(bench_folder / "data" / "objects")
    recording = make_recording(events, store.get)
    store.close()
    outcome = await run_recording(recording, tmp_path / "replayed")
    assert not outcome.comparison.failures, describe(outcome.comparison)
    assert not (tmp_path / "replayed/ran.txt").exists()
