"""Arguments that a model should not have written: every face, the log, its export and its resume go
on.
"""

import json

import pytest
from hilum.messages import AssistantMessage, ToolCall

BAD = {
    "deep": "[" * 100_000 + "]" * 100_000,
    "deep object": '{"a":' * 1200 + "1" + "}" * 1200,
    "deep and open": '{"path":' + "[" * 20_000,
    "half character": '{"path":"\\ud800"}',
    "twice": '{"path":"a","path":"b"}',
    "NaN": '{"path":NaN}',
    "list": "[1]",
}


async def test_a_call_of_five_megabytes_is_cut_off(cli):
    """The run ends with a clear sentence, and the session can be resumed."""
    call = AssistantMessage(
        (ToolCall("a", "read_file", '{"path":"' + "x" * 5_000_000 + '"}'),), stop="calls"
    )
    async with cli.model(call, "Again."):
        first = await cli("run", "go", "--output-format", "json")
        result = json.loads(first.out)
        assert (first.code, result["code"]) == (4, "E_LLM_FAIL")
        assert "without ending its answer" in result["error"]
        resumed = await cli("run", "--resume", result["session"], "more")
        assert (resumed.code, resumed.out.strip()) == (0, "Again."), resumed.err


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("name", BAD)
async def test_every_face_goes_on(cli, name):
    """The run completes.

    The session is shown, exported in each format, and resumed with a new prompt.
    """
    call = AssistantMessage((ToolCall("a", "read_file", BAD[name]),), stop="calls")
    async with cli.model(call, "Done.", "Again."):
        first = await cli("run", "go", "--output-format", "stream-json")
        assert first.code == 0, first.out[-3000:]
        assert "E_BAD_ARGS" in first.out
        assert "Traceback" not in first.err
        (info,) = json.loads((await cli("sessions", "list", "--json")).out)
        resumed = await cli("run", "--resume", info["id"], "more")
        assert (resumed.code, resumed.out.strip()) == (0, "Again."), resumed.err
    for arguments in (
        ("show", "--events"),
        ("show",),
        ("export", "--format", "markdown"),
        ("export", "--format", "cassette"),
    ):
        done = await cli("sessions", arguments[0], info["id"], *arguments[1:])
        assert done.code == 0, done.err
        assert "Traceback" not in done.err
