"""A session in which the user stopped one call, while the run continued."""

from pathlib import Path

import trio
from hilum.errors import E_STOPPED
from hilum.events import CallDone, CallStarted, Delta
from hilum.testing import ScriptedModel, open_bench, use
from hilum_files.journal.content_store import ContentStore
from hilum_replay.sessions.comparison import describe
from hilum_replay.sessions.exporting import make_recording, make_repeatable


async def test_a_call_that_the_user_stopped_is_answered_from_the_log(tmp_path: Path) -> None:
    """Nothing stops it in the replay, so its command must not run again."""
    command = use("run_terminal_cmd", command="echo begun; sleep 1000")
    model = ScriptedModel([command, "I see."])
    async with open_bench(
        "files", "shell", model=model, files={"a.txt": "a\n"}, folder=tmp_path / "bench"
    ) as bench:
        run = await bench.start("Run it.")
        with bench.guard():
            started = await bench.wait_for(CallStarted)
            async for item in bench.session.events(started.seq, deltas=True):
                if isinstance(item, Delta) and "begun" in item.text:
                    break
            assert bench.session.stop_call(started.call.id)
            ended = await run.wait()
        assert ended.state == "completed"
        [done] = bench.of(CallDone)
        assert done.result.code == E_STOPPED
        assert done.result.text.endswith("Its output so far:\nbegun")
        events = list(bench.events)
    store = ContentStore(tmp_path / "bench" / "data" / "objects")
    made = make_recording(events, store.get)
    store.close()
    with trio.fail_after(60):
        _, outcome = await make_repeatable(made)
    assert outcome.comparison.identical, describe(outcome.comparison)
