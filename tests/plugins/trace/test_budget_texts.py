"""The error of a budget names what to type, and the run says how to continue."""

import shlex

import pytest
from hilum.events import RunEnded
from hilum_cli.faces import how_to_continue
from hilum_trace.bill.budgets.amounts import Amount, Exceeded, Limits
from hilum_trace.bill.budgets.budget_command import (
    USAGE,
    BudgetStatus,
    format_budgets,
    parse_change,
)
from hilum_trace.bill.budgets.budget_texts import refusal


@pytest.mark.parametrize(
    ("exceeded", "command", "limit"),
    [
        (Exceeded("tokens", 14_000, 14_447, 5_001), "/budget session 28000 tokens", 28_000),
        (Exceeded("tokens", 100, 28_000, 432), "/budget session 42000 tokens", 42_000),
        (Exceeded("dollars", 0.05, 0.06, 0.01), "/budget session 0.1 dollars", 0.1),
        (Exceeded("dollars", 5.0, 5.0, 0.01), "/budget session 10 dollars", 10.0),
        (Exceeded("minutes", 0.03, 0.034, 0.0), "/budget session 3.6 seconds", 0.06),
        (Exceeded("minutes", 30, 31.0, 0.0), "/budget session 60 minutes", 60.0),
    ],
)
def test_the_command_in_the_hint_raises_the_budget(exceeded, command, limit):
    error = refusal("session", exceeded)
    assert f"`{command}`" in error.hint
    change = parse_change(command.split()[1:])
    assert change.limit == pytest.approx(limit)
    assert change.limit > exceeded.spent


def test_a_run_that_a_budget_ended_is_continued_with_a_higher_budget():
    error = refusal("session", Exceeded("tokens", 100, 100, 10))
    ended = RunEnded(state="partial_success", code="E_BUDGET", hint=error.hint)
    line = how_to_continue(ended, "20260131-1504")
    raising, again = line.removeprefix("To continue: ").split(" && ")
    assert shlex.split(raising) == [
        *("hilum", "run", "--resume", "20260131-1504"),
        "/budget session 200 tokens",
    ]
    assert shlex.split(again) == ["hilum", "run", "--resume", "20260131-1504", "continue"]


def test_the_help_is_shown_only_to_users_without_a_budget():
    status = BudgetStatus("session", Limits(dollars=5.0), Amount(dollars=1.0))
    assert format_budgets([status]) == "session: $1.00 of $5.00 spent, $4.00 left"
    assert format_budgets([]) == f"No budget is set.\n{USAGE}"
