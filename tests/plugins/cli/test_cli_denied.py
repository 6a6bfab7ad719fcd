"""What the end of a run advises where nobody was there to approve."""

import pytest
from hilum.events import RunEnded
from hilum_cli.approvals import answer_keys
from hilum_cli.result import without_effect
from hilum_view import SessionView


@pytest.mark.parametrize(
    ("approve", "by_policy", "advised"),
    [("ask_first", True, True), ("ask_first", False, False), ("auto", True, False)],
)
def test_a_policy_that_does_not_help_is_not_advised(approve, by_policy, advised):
    """Under auto, a rule or a protected file asks, and so it may under ask_first."""
    view = SessionView()
    view.unattended = 1
    view.denied_by_policy = by_policy
    end = without_effect(RunEnded(state="completed"), view, approve)
    assert end.state == "partial_success"
    assert ("--approve auto" in end.hint) is advised
    assert ("where you can approve these calls" in end.hint) is not advised


@pytest.mark.parametrize("approve", ["ask_first", "auto"])
def test_the_rules_are_named_as_commands(approve):
    """Quoted for a shell, three at most."""
    view = SessionView()
    view.unattended = 5
    rules = ["write_file", "run_terminal_cmd(echo it's *)", "edit_file", "delete_file"]
    view.denied_rules = rules
    end = without_effect(RunEnded(state="completed"), view, approve)
    assert end.hint.endswith(
        "hilum permissions allow write_file"
        """ && hilum permissions allow 'run_terminal_cmd(echo it'"'"'s *)'"""
        " && hilum permissions allow edit_file"
    )


@pytest.mark.parametrize(
    ("offered", "view", "keys"),
    [
        ((), False, "y or n"),
        (("session",), False, "y, n or a"),
        (("session", "always"), False, "y, n, a or f"),
        (("session", "always"), True, "y, n, a, f or v"),
    ],
)
def test_a_wrong_answer_is_told_every_key(offered, view, keys):
    """Also those that only some questions have."""
    assert answer_keys(offered, view=view) == keys
