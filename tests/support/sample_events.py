"""One event of each kind that a fold of a log reads."""

from hilum import events as ev
from hilum.messages import AssistantMessage, Text, ToolCall, ToolResult, Usage, UserMessage

CALL = ToolCall("c", "act", "{}")
SAMPLE_EVENTS = (
    ev.SessionOpened(session="s", workspace="/w"),
    ev.AgentStarted(parent="main"),
    ev.AgentStarted(),
    ev.PromptQueued(text="x"),
    ev.RunStarted(text="x", message=UserMessage((Text("x"),))),
    ev.RunRetried(previous="r1"),
    ev.PromptFrozen(layers=(), tools=(), changed=("layer a",)),
    ev.Compacted(upto=1),
    ev.ModelStarted(turn=1, model="a/b"),
    ev.ModelStarted(turn=2, model="a/c"),
    ev.ModelFailed(attempt=1, model="a/b", kind="x", code="E", message="m", action="retry"),
    ev.ModelFailed(attempt=1, model="a/b", kind="x", code="E", message="m", action="give_up"),
    ev.ModelAnswered(message=AssistantMessage((CALL,), "a/b", "calls"), usage=Usage(9, 5)),
    ev.ModelUsed(model="a/b", purpose="summary", usage=Usage(3), seconds=100.0),
    ev.ApprovalAsked(id="a", call=CALL, risk="read"),
    ev.ApprovalShown(id="a", deadline=5.0),
    ev.ApprovalAnswered(id="a", accepted=True),
    ev.CallStarted(call=CALL, waited=2.0),
    ev.CallDone(result=ToolResult("c", "act", ())),
    ev.HookCalled(plugin="p", hook="h", seconds=1.0, call="c"),
    ev.RoundEnded(),
    ev.Heartbeat(),
    ev.RunsCutOff(last=2.0),
    ev.SessionReopened(last=2.0, interrupted=("main",)),
    ev.StopAsked(),
    ev.RunEnded(state="stopped"),
    ev.PluginEvent(name="agents.queued", data={"actor": "t1", "owner": "main", "call": "c"}),
    ev.PluginEvent(name="agents.status", data={"actor": 7, "owner": ["x"], "call": None}),
    ev.PluginEvent(name="plan.question_asked", data={"id": "q", "agent": "main", "call": "c"}),
    ev.PluginEvent(name="plan.question_answered", data={"id": "q"}),
)
