"""Finds the agent that an arm names."""

from __future__ import annotations

from hilum import UsageError
from hilum.errors import E_BAD_ARGS

from hilum_eval.agents.agent import Agent
from hilum_eval.agents.hilum_agent import HilumAgent


def find_agent(name: str) -> Agent:
    """Return an agent.

    Args:
        name: ``hilum``, the name of a built-in adapter, or a command line.

    Raises:
        UsageError: There is no such agent.
    """
    if name == "hilum":
        return HilumAgent()
    raise UsageError(
        f"There is no agent {name!r}.", code=E_BAD_ARGS, hint="The built-in agent is `hilum`."
    )
