"""The simulated user: seeded, with the decisions of the case first."""

from __future__ import annotations

import attrs
import pytest
from hilum import UsageError
from hilum_eval.case import Case, Decision, Turn
from hilum_eval.simulation.simulated_user import SimulatedUser
from hilum_eval.simulation.user import ScriptedUser, make_user

CASE = Case(
    id="T02",
    title="Ask",
    dimensions=("interaction",),
    turns=(Turn(prompt="Do it."),),
    expected_turns=2,
)
EDIT = ("edit_file", '{"path": "a.py"}')


def test_the_same_seed_gives_the_same_user() -> None:
    for seed in range(20):
        first, second = (SimulatedUser(CASE, seed) for _ in range(2))
        assert first.name == second.name
        calls = [("edit_file", f'{{"path": "{number}.py"}}') for number in range(20)]
        assert [first.decide(*each) for each in calls] == [second.decide(*each) for each in calls]


def test_answers_do_not_depend_on_what_was_asked_before() -> None:
    """Two agents that ask in another order get the same answers."""
    user = SimulatedUser(CASE, 3, "strict")
    other = SimulatedUser(CASE, 3, "strict")
    calls = [("edit_file", f'{{"path": "{number}.py"}}') for number in range(20)]
    forward = {each: user.decide(*each) for each in calls}
    backward = {each: other.decide(*each) for each in reversed(calls)}
    assert forward == backward


def test_the_decisions_of_the_case_come_first() -> None:
    decision = Decision(when="a.py", answer="reject", reason="Not a.py.")
    case = attrs.evolve(CASE, decisions=(decision,))
    for seed in range(20):
        reply = SimulatedUser(case, seed, "patient").decide(*EDIT)
        assert (reply.text, reply.reason, reply.message) == ("reject", "Not a.py.", "")


@pytest.mark.parametrize(
    ("temper", "rate"), [("patient", 0), ("strict", 0.3), ("distracted", 0.15)]
)
def test_tempers_refuse_at_their_rates(temper: str, rate: float) -> None:
    count = 1_000
    replies = [SimulatedUser(CASE, seed, temper).decide(*EDIT) for seed in range(count)]
    rejected = [reply for reply in replies if reply.text == "reject"]
    deviation = 4 * (rate * (1 - rate) / count) ** 0.5
    assert abs(len(rejected) / count - rate) <= deviation
    assert all(reply.reason for reply in rejected)
    if rate:
        assert any(reply.message for reply in rejected)
        assert not all(reply.message for reply in rejected)


def test_a_call_is_not_refused_twice() -> None:
    for seed in range(100):
        user = SimulatedUser(CASE, seed, "strict")
        user.decide(*EDIT)
        assert user.decide(*EDIT).text == "allow"


def test_a_distracted_user_answers_later() -> None:
    late = [SimulatedUser(CASE, seed, "distracted").decide(*EDIT).delay for seed in range(50)]
    soon = [SimulatedUser(CASE, seed, "patient").decide(*EDIT).delay for seed in range(50)]
    assert min(late) > max(soon)


def test_a_patient_user_insists_and_stops_insisting() -> None:
    user = SimulatedUser(CASE, 0, "patient")
    texts = [user.follow_up(1, "I could not do everything.") for _ in range(4)]
    assert [bool(text) for text in texts] == [True, True, False, False]
    assert SimulatedUser(CASE, 0, "strict").follow_up(1, "The work is done and tested.") == ""


def test_questions_get_the_recommended_answer_or_that_of_the_case() -> None:
    user = SimulatedUser(CASE, 0)
    assert user.answer("Which database?", ["SQLite", "PostgreSQL"]).text == "SQLite"
    case = attrs.evolve(CASE, decisions=(Decision(when="database", answer="PostgreSQL"),))
    assert SimulatedUser(case, 0).answer("Which database?", ["SQLite"]).text == "PostgreSQL"


def test_kinds_of_users() -> None:
    assert isinstance(make_user(CASE, "scripted", 0), ScriptedUser)
    user = make_user(CASE, "distracted", 0)
    assert isinstance(user, SimulatedUser)
    assert user.name == "distracted"
    with pytest.raises(UsageError, match="no user 'absent'"):
        make_user(CASE, "absent", 0)
