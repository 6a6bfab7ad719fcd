"""The system prompt: meta, mode, tool use and recovery layers, and the four modes.

Ranks: 0 meta, 10 mode, 20 tool use, 30 recovery. The texts stand in the modules of those names; they depend on nothing that
changes within a run, so the prompt stays the same byte for byte.
"""

from __future__ import annotations

import sys

from hilum import Agent, Layer, Session, hookimpl

from hilum_prompt.meta import meta
from hilum_prompt.modes import MODES, mode_text
from hilum_prompt.recovery import RECOVERY
from hilum_prompt.tool_use import TOOL_USE


@hookimpl
def open_session(session: Session) -> None:
    """Add the four modes to the session."""
    for mode in MODES:
        session.add_mode(mode)


@hookimpl
def build_prompt_layer(agent: Agent) -> list[Layer]:
    """Give the standard layers; tool use and recovery only in agent mode."""
    layers = [
        Layer(0, "meta", meta(str(agent.session.workspace.root), sys.platform)),
        Layer(10, "mode", mode_text(agent.mode)),
    ]
    if agent.mode.name == "agent":
        layers += [Layer(20, "tools", TOOL_USE), Layer(30, "recovery", RECOVERY)]
    return layers
