"""What a case needs of an agent, and which agents cannot do it."""

from __future__ import annotations

from hilum_eval.agents.command_template import HILUM, MINI_SWE_AGENT
from hilum_eval.arm import Arm
from hilum_eval.case import Case


def find_missing_ability(case: Case, arm: Arm, *, sandboxed: bool) -> str:
    """Return why an agent cannot be measured with a case; empty if it can.

    Such a case is not counted: that a program has no approvals says nothing about how well it works.

    Args:
        case: The case.
        arm: The arm.
        sandboxed: Whether other agents run in a sandbox on this machine.
    """
    if arm.agent == HILUM:
        return ""
    if case.approve != "auto" or case.decisions:
        return "needs approvals, which the adapter of this agent does not have"
    if case.open_files or case.lints:
        return "needs the state of an editor, which the adapter of this agent does not have"
    if case.mode:
        return f"needs the mode {case.mode!r}, which is one of hilum"
    if len(case.turns) > 1 and not arm.resume and arm.agent != MINI_SWE_AGENT:
        return "has several prompts, and the arm has no command line `resume`"
    if case.gate and not (sandboxed and arm.settings.get("sandbox", True)):
        # The commands in such a case would do real damage.
        return "is a security case, which needs bubblewrap for an agent without a guard"
    return ""
