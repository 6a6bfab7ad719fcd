"""SIGKILL while a summary is being written: the session compactions again and goes on, nothing is lost
and nothing split.
"""

import json
import signal
from itertools import pairwise

import trio
from hilum.events import CallDone, Compacted, RunEnded
from hilum_store import SqliteStore

TURNS = 20
SUMMARY = "\n".join(
    f"## {name}\nThe file counts from one, test_total fails.\n"
    for name in ("Goal", "Decisions", "Files", "Facts", "Open work")
)


def whole(messages):
    """Whether each call is followed by its results, and no result stands alone."""
    for before, message in pairwise([*messages, {"role": "user"}]):
        if message["role"] == "tool" and before["role"] not in ("tool", "assistant"):
            return False
        if before["role"] == "assistant" and before.get("tool_calls") and message["role"] != "tool":
            return False
    calls = [
        call["id"]
        for m in messages
        if m["role"] == "assistant"
        for call in m.get("tool_calls") or ()
    ]
    return calls == [m["tool_call_id"] for m in messages if m["role"] == "tool"]


async def test_a_kill_in_the_middle_of_a_summary_costs_the_summary_only(cli, asks):
    (cli.workspace / "a.txt").write_text("some line of it\n" * 200)
    cli.write_settings(
        '[models.models."openai/scripted"]\nwindow = 16000\nmax_output = 1000\n[memory]\nthin_over = 100000\n'
    )
    summarizing, asked, looked = trio.Event(), [], []

    async def script(request):
        if request.system.startswith("You summarize"):
            asked.append(request.body)
            if len(asked) == 1:
                summarizing.set()
                await trio.sleep_forever()
            return SUMMARY
        looked.append(request.body)
        if len(looked) > TURNS:
            return "Done."
        return asks(
            "read_file", path="a.txt", text=f"Look {len(looked)}.", id=f"call_{len(looked):08}"
        )

    async with cli.model(script) as server:
        async with cli.started("run", "--approve", "auto", "Fix the total.") as process:
            await summarizing.wait()
            process.send_signal(signal.SIGKILL)
            assert await process.wait() == -signal.SIGKILL
        before = len(looked)
        assert 0 < before < TURNS
        done = await cli("run", "--resume", "--approve", "auto")
        assert (done.code, done.out.strip()[-5:]) == (0, "Done."), done.err
        assert not server.failures
    assert len(asked) >= 2
    assert json.loads(asked[0])["messages"] == json.loads(asked[1])["messages"]
    store = SqliteStore(cli.folder / "data" / "sessions.db")
    (info,) = await store.list()
    events = await store.read(info.id, 0, 10**6)
    compactions = [event for event in events if isinstance(event, Compacted)]
    assert len(compactions) == len(asked) - 1
    assert "test_total fails" in compactions[0].summary
    assert all("Fix the total." in body.decode() for body in looked)
    results = [event.result.call_id for event in events if isinstance(event, CallDone)]
    assert results == [f"call_{n:08}" for n in range(1, TURNS + 1)]
    assert all(whole(json.loads(body)["messages"]) for body in looked)
    assert [event.state for event in events if isinstance(event, RunEnded)] == ["completed"]
