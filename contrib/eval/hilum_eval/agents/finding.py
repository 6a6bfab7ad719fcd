"""Finds the agent that an arm names."""

from __future__ import annotations

from hilum_eval.agents.agent import Agent
from hilum_eval.agents.command_agent import CommandAgent
from hilum_eval.agents.command_template import HILUM, MINI_SWE_AGENT
from hilum_eval.agents.hilum_agent import HilumAgent
from hilum_eval.agents.mini_swe_agent import MiniSweAgent


def find_agent(name: str) -> Agent:
    """Return an agent. ``command_template.find_problem`` has checked the name.

    Args:
        name: ``hilum``, the name of a built-in adapter, or a command line.
    """
    if name == HILUM:
        return HilumAgent()
    if name == MINI_SWE_AGENT:
        return MiniSweAgent()
    return CommandAgent()


def brings_model(agent: Agent) -> bool:
    """Return whether an agent opens the model itself, because its requests are counted."""
    return isinstance(agent, CommandAgent)
