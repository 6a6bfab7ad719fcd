"""Approvals on the terminal: whose call it is, and which end ends the question."""

from hilum.events import ApprovalAsked, CallDone
from hilum.messages import ToolCall, ToolResult
from hilum_cli.approvals import Approver, describe
from hilum_cli.faces import Face


def asked(agent: str) -> ApprovalAsked:
    call = ToolCall("call_0", "write_file", '{"path": "a"}')
    return ApprovalAsked(id=f"of {agent}", agent=agent, call=call, risk="write", reason="r", deadline=1.0)


def test_it_says_whose_call_it_is():
    assert describe(asked("main")).startswith("── write_file (write) wants to run: r")
    assert describe(asked("test\x1b[2J")).startswith("── write_file (write) wants to run for the agent test\\x1b[2J: r")


async def test_a_call_of_another_agent_ends_no_question():
    """Models that number their calls give two agents the same ids."""
    approver = Approver(None, Face())  # type: ignore[arg-type]
    approver._open = asked("helper")
    done = CallDone(agent="other", result=ToolResult("call_0", "write_file", ()))
    approver.note(done)
    assert not approver._scope.cancel_called
    approver.note(CallDone(agent="helper", result=done.result))
    assert approver._scope.cancel_called
