"""The row below a model call that shows how long it took."""

import pytest
from hilum import Text, ToolCall, Usage
from hilum.events import ModelAnswered, ModelStarted, RunStarted
from hilum.messages import AssistantMessage, UserMessage
from hilum_terminal.styles import PLAIN
from hilum_terminal.transcript import Transcript
from hilum_view import SessionView


@pytest.fixture
def show():
    """Function that writes a run with these model calls, and returns the rows."""

    def write(*turns, turn_times_from=1.0):
        rows = []
        view = SessionView()
        transcript = Transcript(view, lambda block: rows.extend(block.make(60, PLAIN)))
        transcript.turn_times_from = turn_times_from
        events = [RunStarted(agent="main", run="r1", text="Go", message=UserMessage(()))]
        for number, (seconds, has_call) in enumerate(turns, 1):
            call = (ToolCall(f"c{number}", "read_file", "{}"),) if has_call else ()
            message = AssistantMessage((Text("Yes.", "model"), *call))
            started = ModelStarted(agent="main", run="r1", attempt=1, turn=number, model="a/b")
            usage = Usage(input=1_200, output=80)
            answered = ModelAnswered(
                agent="main", run="r1", message=message, usage=usage, seconds=seconds
            )
            events += [started, answered]
        for event in events:
            transcript.apply(event, view.apply(event), 0.0)
        return [row.strip() for row in rows if row.strip().startswith("turn ")]

    return write


def test_a_slow_model_call_is_followed_by_its_time_and_tokens(show):
    assert show((3.42, True), (2.0, False)) == [
        "turn 1 · 3.4 s · 1.2k in, 80 out",
        "turn 2 · 2.0 s · 1.2k in, 80 out",
    ]


def test_a_quick_model_call_needs_no_row_unless_the_user_wants_it(show):
    assert show((0.4, True), (0.9, False)) == []
    assert len(show((0.4, True), (0.9, False), turn_times_from=0)) == 2


def test_the_only_turn_is_not_repeated_above_the_summary(show):
    assert show((9.0, False), turn_times_from=0) == []
