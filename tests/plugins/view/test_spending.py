"""What a session has cost, by model, agent, purpose, tool and plugin."""

import hilum_view
from hilum import Text, ToolCall, ToolResult, Usage
from hilum.events import CallDone, CallStarted, ModelAnswered, ModelStarted, ModelUsed
from hilum.messages import AssistantMessage
from hilum_view import Spending, compute_spending


def answer(agent, model, usage):
    message = AssistantMessage((Text("Yes.", "model"),), model="served-as-something-else")
    return [
        ModelStarted(agent=agent, attempt=1, model=model),
        ModelAnswered(agent=agent, message=message, usage=usage),
    ]


def call(agent, number, tool, plugin, text, code=""):
    made = ToolCall(f"c{number}", tool, "{}")
    result = ToolResult(f"c{number}", tool, (Text(text),), code)
    return [
        CallStarted(agent=agent, call=made, risk="read", plugin=plugin),
        CallDone(agent=agent, result=result, seconds=2.0),
    ]


def test_every_model_call_is_counted_once_in_each_table():
    events = [
        *answer("main", "a/big", Usage(input=100, cached=50, output=10, cost=0.5)),
        *answer("helper", "a/small", Usage(input=40, output=4, cost=0.25)),
        # The helper's usage, charged to the agent that started it.
        ModelUsed(agent="main", model="a/small", purpose="agent t1", usage=Usage(input=40)),
        ModelUsed(
            agent="main", model="a/small", purpose="summary", usage=Usage(input=7, cost=0.125)
        ),
    ]
    spending = compute_spending(events)
    found = {
        name: {key: (spent.calls, spent.usage.input) for key, spent in table.items()}
        for name, table in (
            ("models", spending.models),
            ("agents", spending.agents),
            ("purposes", spending.purposes),
        )
    }
    assert found == {
        "models": {"a/big": (1, 100), "a/small": (2, 47)},
        "agents": {"main": (2, 107), "helper": (1, 40)},
        "purposes": {"conversation": (2, 140), "summary": (1, 7)},
    }
    totals = hilum_view.total(events)
    for table in (spending.models, spending.agents, spending.purposes):
        assert sum((spent.usage for spent in table.values()), Usage()) == totals.usage


def test_calls_are_counted_by_tool_and_by_plugin():
    events = [
        *call("main", 1, "read_file", "files", "word " * 40),
        *call("main", 2, "write_file", "files", "no", "E_STALE"),
        *call("helper", 1, "run", "shell", "ok"),
        # A call that was rejected never started.
        call("main", 3, "run", "", "no", "E_DENIED")[1],
    ]
    spending = compute_spending(events)
    calls = {name: (row.calls, row.failed) for name, row in spending.tools.items()}
    assert calls == {"read_file": (1, 0), "write_file": (1, 1), "run": (2, 1)}
    assert spending.tools["read_file"].tokens > 30
    assert {name: row.calls for name, row in spending.plugins.items()} == {
        "files": 2,
        "shell": 1,
        "": 1,
    }
    assert spending.plugins["files"].seconds == 4.0


def test_nothing_was_spent_before_the_first_event():
    assert compute_spending([]) == Spending()
