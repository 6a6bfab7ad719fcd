"""The fold that all faces share, and the exit codes."""

import pytest
from hilum.events import CallDone, CallStarted, ModelAnswered, ModelStarted, RunEnded, RunStarted
from hilum.messages import AssistantMessage, Text, ToolCall, ToolResult, Usage, UserMessage
from hilum_cli import exits
from hilum_cli.progress import Progress, arguments, duration, money, tokens


def test_calls_with_the_same_id_in_two_answers_are_two():
    """Some servers count the calls of each answer from one."""
    progress = Progress(turns=5)
    progress.apply(
        RunStarted(agent="main", text="x", message=UserMessage((Text("x"),)), model="a/b")
    )
    for turn in (1, 2):
        call = ToolCall("c1", "read_file", '{"path": "a"}')
        progress.apply(ModelStarted(agent="main", turn=turn, model="a/b"))
        progress.apply(
            ModelAnswered(
                agent="main",
                message=AssistantMessage((call,), stop="calls"),
                usage=Usage(10, output=5),
            )
        )
        progress.apply(CallStarted(agent="main", call=call))
        assert len(progress.running()) == 1
        result = ToolResult("c1", "read_file", (Text(f"turn {turn}"),), "E_X" if turn == 2 else "")
        view = progress.apply(CallDone(agent="main", result=result, seconds=0.5))
        assert view.call.arguments == '{"path": "a"}'
    assert [view.text for view in progress.calls.values()] == ["turn 1", "turn 2"]
    assert [view.mark for view in progress.calls.values()] == ["✓", "✗"]
    assert progress.status().startswith("turn 2/5 · 20 in, 10 out · a/b · ")
    assert [view.state for view in progress.calls.values()] == ["completed", "failed"]


def test_arguments_are_shortened():
    """Long and many-lined values by their beginning; what is no JSON as it is."""
    assert arguments('{"path": "a.py", "n": 3}') == "path=a.py n=3"
    assert arguments('{"command": "ls -l"}') == 'command="ls -l"'
    assert arguments('{"text": "\\n  one\\ntwo\\n"}') == 'text="one… (3 lines)"'
    assert arguments("{broken") == "{broken"
    assert arguments("[1, 2]") == "[1, 2]"


def test_the_last_line_of_a_command_is_part_of_its_summary():
    """Test runners say there how it went."""
    progress = Progress()
    result = ToolResult(
        "c", "run_terminal_cmd", (Text("Exit code 1 after 0.1 s\nnoise\nFAILED (failures=2)"),)
    )
    assert (
        progress.apply(CallDone(result=result)).summary()
        == "Exit code 1 after 0.1 s … FAILED (failures=2)"
    )


def test_numbers_are_written_for_people():
    """Short, and small amounts stay visible."""
    assert [duration(s) for s in (0.04, 9.96, 61, 300, 3600, 3700)] == [
        "0.0 s", "10.0 s", "1 min 1 s", "5 min", "1 h", "1 h 1 min",
    ]  # fmt: skip
    assert [money(d) for d in (0, 0.0123, 1.5)] == ["$0.00", "$0.0123", "$1.50"]
    assert tokens(Usage(1200, 800, output=30)) == "1.2k in (800 cached), 30 out"


@pytest.mark.parametrize(
    ("state", "code", "signal", "exit"),
    [
        ("completed", "", 0, 0),
        ("failed", "E_FAILED", 0, 1),
        ("failed", "E_UNKNOWN", 0, 2),
        ("partial_success", "E_TURN_LIMIT", 0, 3),
        ("failed", "E_LLM_AUTH", 0, 4),
        ("failed", "E_LLM_FAIL", 0, 4),
        ("timed_out", "E_TIMEOUT", 0, 124),
        ("stopped", "E_STOPPED", 2, 130),
        ("stopped", "E_STOPPED", 15, 143),
        ("stopped", "E_STOPPED", 0, 130),
        ("interrupted", "E_INTERRUPTED", 0, 1),
    ],
)
def test_exit_codes(state, code, signal, exit):
    """As ``hilum run --help`` says."""
    assert exits.of_run(RunEnded(state=state, code=code), signal) == exit
