"""The system prompt: meta, mode, approval, tool use and recovery layers, and the four modes.

Ranks: 0 meta, 10 mode, 11 approval, 20 tool use, 30 recovery. The texts are in the modules of those
names. They describe this
agent: its tools, its mode, the session's policy, its parent. None of that changes within an
ordinary run, so the prompt stays the same byte for byte; what does change in every run (date, git
branch) is in the context of the user's message.
"""

from __future__ import annotations

from hilum import Agent, Layer, Session, hookimpl

from hilum_prompt.abilities import abilities_of
from hilum_prompt.meta import meta
from hilum_prompt.modes import MODES, mode_text, policy_text
from hilum_prompt.recovery import recovery
from hilum_prompt.tool_use import tool_use


@hookimpl
def open_session(session: Session) -> None:
    """Add the four modes to the session."""
    for mode in MODES:
        session.add_mode(mode)


@hookimpl
def build_prompt_layer(agent: Agent) -> list[Layer]:
    """Return the standard layers; tool use and recovery only in agent mode."""
    session = agent.session
    abilities = abilities_of(agent)
    workspace = session.workspace
    extra_roots = [str(root) for root in workspace.roots if root != workspace.root]
    layers = [
        Layer(0, "meta", meta(str(workspace.root), extra_roots, abilities)),
        Layer(10, "mode", mode_text(agent.mode, abilities)),
    ]
    policy = policy_text(session.approve, session.kind)
    if policy:
        layers.append(Layer(11, "approval", policy))
    if agent.mode.name == "agent":
        layers += [
            Layer(20, "tools", tool_use(abilities)),
            Layer(30, "recovery", recovery(abilities)),
        ]
    return layers
