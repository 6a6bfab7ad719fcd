"""The order in which the calls of one answer are written."""

import json

from hilum.events import CallDone, CallStarted, ModelAnswered
from hilum.messages import AssistantMessage, Text, ToolCall, ToolResult
from hilum_terminal.styles import PLAIN
from hilum_terminal.transcript import Transcript
from hilum_view import SessionView

CALLS = [ToolCall(f"c{n}", "read_file", json.dumps({"path": f"{n}.py"})) for n in range(4)]


class Writer:
    """A transcript that collects its rows, and a session whose calls end in any order."""

    def __init__(self):
        self.rows = []
        self.view = SessionView()
        self.transcript = Transcript(self.view, lambda each: self.rows.extend(each.make(60, PLAIN)))
        self.apply(ModelAnswered(agent="main", run="r1", message=AssistantMessage(tuple(CALLS))))
        for call in CALLS:
            self.apply(CallStarted(agent="main", run="r1", call=call))

    def apply(self, event):
        self.transcript.apply(event, self.view.apply(event), 0.0)

    def end(self, *numbers):
        for number in numbers:
            result = ToolResult(f"c{number}", "read_file", (Text("text"),))
            self.apply(CallDone(agent="main", run="r1", result=result))
        return [row.split()[2] for row in self.rows]


def test_calls_that_end_together_are_written_in_the_models_order():
    assert Writer().end(3, 2, 1, 0) == ["0.py", "1.py", "2.py", "3.py"]
    assert Writer().end(0, 2, 1, 3) == ["0.py", "1.py", "2.py", "3.py"]


def test_a_call_does_not_wait_long_for_an_earlier_one():
    writer = Writer()
    assert writer.end(2, 1) == []
    writer.transcript.write_held()
    assert writer.end() == ["1.py", "2.py"]
    assert writer.end(3, 0) == ["1.py", "2.py", "0.py", "3.py"]
