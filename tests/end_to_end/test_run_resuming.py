"""``hilum run --resume``: after a kill with another prompt, and after failures that pass."""

import json
import signal

import pytest
from hilum_replay import Fault

OK = None


async def killed(cli, asks, wait_until):
    """Play until a call runs, and kill hilum there."""
    begin = asks("run_terminal_cmd", command="echo once >> log.txt; touch begun; sleep 1000")
    async with (
        cli.model(begin),
        cli.started("run", "the first thing", "--approve", "auto") as process,
    ):
        await wait_until((cli.workspace / "begun").exists)
        process.kill()
        await process.wait()


@pytest.mark.parametrize("format", ["text", "json", "stream-json"])
async def test_another_prompt_after_a_kill_is_what_is_answered(cli, asks, wait_until, format):
    """Its answer, its exit code; and what became of the run that was cut off."""
    await killed(cli, asks, wait_until)
    async with cli.model("This is the second answer.") as server:
        done = await cli("run", "--resume", "the second thing", "--output-format", format)
    assert done.code == 0, done
    texts = [
        part.text
        for m in server.requests[0].messages
        for part in getattr(m, "parts", ())
        if hasattr(part, "text")
    ]
    assert any(text.startswith("the first thing") for text in texts)
    if format == "text":
        assert done.out == "This is the second answer.\n"
        assert "was interrupted and is not resumed: 'the first thing'" in done.err
        assert "run_terminal_cmd" in done.err
        return
    result = json.loads(done.out.splitlines()[-1])
    assert (result["state"], result["text"], result["exit_code"]) == (
        "completed",
        "This is the second answer.",
        0,
    )
    (cut,) = result["interrupted"]
    assert (cut["prompt"], cut["calls"]) == ("the first thing", ["run_terminal_cmd"])
    assert (cli.workspace / "log.txt").read_text() == "once\n"


PASSING = [
    ([Fault(status=500)] * 4, "E_LLM_FAIL"),
    ([Fault(refuse=True)] * 4, "E_LLM_FAIL"),
    ([Fault(status=429, headers={"retry-after": "100000"})], "E_LLM_429"),
    ([Fault(status=401)], "E_LLM_AUTH"),
]


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize(("faults", "code"), PASSING, ids=["500", "connection", "429", "key"])
async def test_a_failure_that_passes_is_tried_again_from_the_last_state(cli, asks, faults, code):
    """--resume alone.

    The finished call is not run again, and nothing is said twice to the model.
    """
    first = asks("run_terminal_cmd", command="echo once >> log.txt")
    async with cli.model(first, "All done.", faults=[OK, *faults]) as server:
        failed = await cli("run", "go", "--approve", "auto")
        assert failed.code == 4, failed.err
        assert code in failed.err
        (info,) = json.loads((await cli("sessions", "list", "--json")).out)
        assert f"hilum run --resume {info['id']}\n" in failed.err
        done = await cli("run", "--resume", "--output-format", "json")
    assert (done.code, done.result["text"], done.result["session_runs"]) == (0, "All done.", 2), (
        done
    )
    assert (cli.workspace / "log.txt").read_text() == "once\n"
    said = [
        part.text
        for m in server.requests[-1].messages
        for part in getattr(m, "parts", ())
        if hasattr(part, "text")
    ]
    assert len([text for text in said if text == "go" or text.startswith("go\n")]) == 1


async def test_a_stopped_run_can_be_continued(cli, asks, wait_until):
    """Whoever closed the terminal by mistake goes on where it was."""
    slow = asks("run_terminal_cmd", command="touch begun; sleep 1000")
    async with cli.model(slow, "All done."):
        async with cli.started("run", "go", "--approve", "auto") as process:
            await wait_until((cli.workspace / "begun").exists)
            process.send_signal(signal.SIGHUP)
            assert await process.wait() == 129
        done = await cli("run", "--resume")
    assert (done.code, done.out) == (0, "All done.\n"), done.err


async def test_a_run_that_is_done_leaves_nothing_to_resume(cli):
    """Neither completed nor retried runs are run again."""
    async with cli.model("one", "two", faults=[Fault(status=401)]):
        assert (await cli("run", "go")).code == 4
        assert (await cli("run", "--resume")).out == "one\n"
        done = await cli("run", "--resume")
    assert done.code == 2
    assert "No run in this session was interrupted" in done.err


async def test_a_mistyped_id_is_no_part_of_the_prompt(cli):
    """``--resume=ID`` names a session; the last one is not resumed in its place."""
    async with cli.model("one", "two"):
        await cli("run", "hi")
        done = await cli("run", "--resume=nosuch", "go on")
    assert done.code == 2
    assert "no session 'nosuch'" in done.err
