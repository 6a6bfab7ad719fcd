"""What the user must know of a call that waits for approval."""

import pytest
from hilum import (
    Danger,
    UsageError,
    approval_facts,
    find_approval_dangers,
    find_approval_facts,
    says_the_same,
)
from hilum.events import ApprovalAsked
from hilum.messages import ToolCall


class Texts:
    """A service for approval texts."""

    def __init__(self, dangers=(), problem=None):
        self.dangers = dangers
        self.problem = problem

    def describe_call(self, asked, session):
        if self.problem is not None:
            raise self.problem
        return "It deletes a."

    def describe_scope(self, asked):
        return "every call"

    def find_dangers(self, asked, session):
        return self.dangers

    def find_rule_file(self, asked, session):
        return "rules"


def asked(*, once_only=False):
    call = ToolCall("c1", "delete_file", '{"path": "a"}')
    return ApprovalAsked(id="a1", call=call, risk="write", once_only=once_only)


@pytest.fixture
def use_texts(monkeypatch):
    def use(texts):
        monkeypatch.setattr(approval_facts, "find_approval_texts", lambda: texts)

    return use


async def test_a_call_without_dangers_may_get_a_lasting_approval(use_texts):
    use_texts(Texts([Danger("deletes a")]))
    facts = await find_approval_facts(asked(), None)
    assert (facts.text, facts.covers, facts.file) == ("It deletes a.", "every call", "rules")
    assert not facts.once_only


async def test_another_gates_refusal_of_lasting_approvals_is_a_danger(use_texts):
    """Faces that only look at dangers then offer none, either."""
    use_texts(Texts([Danger("deletes a")]))
    facts = await find_approval_facts(asked(once_only=True), None)
    assert facts.once_only
    assert [danger.text for danger in facts.dangers] == ["needs approval each time", "deletes a"]
    use_texts(Texts([Danger("deletes everything", grave=True)]))
    [danger] = await find_approval_dangers(asked(once_only=True), None)
    assert danger.text == "deletes everything"


@pytest.mark.parametrize("problem", [UsageError("broken"), RuntimeError("broken"), SystemExit(1)])
async def test_a_call_that_cannot_be_described_is_dangerous(use_texts, problem):
    """The arguments as they are show what would run."""
    use_texts(Texts(problem=problem))
    facts = await find_approval_facts(asked(), None)
    assert facts.text == '{"path": "a"}'
    assert facts.once_only
    assert "could not be described" in facts.dangers[0].text


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("It deletes a.", "deletes a (rm -r a)", True),
        ("deletes src/a.py", "Delete src/a.py", True),
        ("It deletes a.", "deletes b", False),
        ("deletes a", "deletes a recursively", False),
        ("", "deletes a", False),
    ],
)
def test_texts_that_say_the_same(one, other, same):
    assert says_the_same(one, other) == same
