"""The items that wait for the user: how calls are described, and which items still wait."""

from types import SimpleNamespace

import pytest
from hilum import Danger, UsageError, approval_facts
from hilum.messages import ToolCall
from hilum_terminal.approval_items import WaitingCall, WaitingQuestion
from hilum_terminal.waiting_items import WaitingItems
from hilum_view import Approval, Question


class Texts:
    """A service that describes calls; its answers are attributes."""

    def __init__(self):
        self.dangers = []
        self.problem = None

    def describe_call(self, asked, session):
        if self.problem is not None:
            raise self.problem
        return f"── {asked.call.name}\n{asked.call.arguments}"

    def describe_scope(self, asked):
        return "all of them"

    def find_dangers(self, asked, session):
        return self.dangers

    def find_rule_file(self, asked, session):
        return ""


@pytest.fixture
def texts(monkeypatch):
    texts = Texts()
    monkeypatch.setattr(approval_facts, "find_approval_texts", lambda: texts)
    return texts


@pytest.fixture
def waiting():
    approval = Approval(
        id="a1",
        agent="main",
        call=ToolCall(id="c1", name="run", arguments='{"command": "ls"}'),
        risk="execute",
        scope="run(ls *)",
    )
    question = Question(id="q1", agent="main", call_id="c2", question="Which?", options=("a",))
    conversation = SimpleNamespace(pending=["r1"])
    session = SimpleNamespace(
        journal=SimpleNamespace(broken=None),
        agents={"main": SimpleNamespace(conversation=conversation)},
        runs={"r1": object()},
        workspace=SimpleNamespace(root="/project"),
    )
    view = SimpleNamespace(
        waiting=[approval, question],
        cards=[],
        lead_actor=SimpleNamespace(proposal=None, queued={}),
        name_of=lambda agent: "",
    )
    return WaitingItems(session, view, lambda: "")


async def describe(waiting):
    await waiting.describe()
    return waiting.items(0.0)


async def test_a_call_and_a_question(waiting, texts):
    shown, asked = await describe(waiting)
    assert isinstance(shown, WaitingCall)
    assert shown.description == '{"command": "ls"}'
    assert shown.covers == "all of them"
    assert shown.sandbox == "no sandbox"
    assert not shown.dangerous
    assert shown.marks == ()
    assert isinstance(asked, WaitingQuestion)
    assert asked.options == ("a",)


@pytest.mark.parametrize("grave", [True, False])
async def test_only_a_grave_danger_makes_a_call_dangerous(waiting, texts, grave):
    texts.dangers = [Danger("writes a", grave=False), Danger("deletes b", grave=grave)]
    shown, _ = await describe(waiting)
    assert shown.dangerous is grave
    assert shown.marks == ("writes a", "deletes b")


@pytest.mark.parametrize("problem", [UsageError("No description."), ValueError("broken")])
async def test_a_call_that_cannot_be_described_is_dangerous(waiting, texts, problem):
    """The user must not give a lasting approval to a call that hilum could not judge."""
    texts.problem = problem
    shown, _ = await describe(waiting)
    assert shown.dangerous
    assert "The call could not be described" in shown.marks[0]
    assert shown.description == '{"command": "ls"}'
    waiting.edit("a1", '{"command": "pwd"}')
    shown, _ = await describe(waiting)
    assert shown.dangerous
    assert shown.arguments == '{"command": "pwd"}'


async def test_items_of_a_run_that_was_cut_off_do_not_wait(waiting, texts):
    """They are open in the log, but nothing would read an answer."""
    assert len(await describe(waiting)) == 2
    waiting._session.runs.clear()
    assert await describe(waiting) == []
    waiting._session.agents.clear()
    assert await describe(waiting) == []


async def test_nothing_waits_if_no_answer_can_be_written(waiting, texts):
    await waiting.describe()
    waiting._session.journal.broken = UsageError("The disk is full.")
    assert waiting.items(0.0) == []
