"""The system prompt: the meta, mode, approval, tool use and recovery layers, and the four modes.

The layers have these ranks: meta 0, mode 10, approval 11, tool use 20, recovery 30. Their texts are
in the modules with these names, and describe the agent: its tools, its mode, the session's policy
and its parent. None of these changes during an ordinary run, so the prompt stays the same, byte for
byte. The date and the Git branch, which do change, are in the context of the user's message.
"""

from __future__ import annotations

from hilum import Agent, Layer, Session, hookimpl

from hilum_prompt.abilities import get_abilities
from hilum_prompt.meta import make_meta_text
from hilum_prompt.modes import MODES, make_mode_text, make_policy_text
from hilum_prompt.recovery import make_recovery_text
from hilum_prompt.tool_use import make_tool_use_text


@hookimpl
def open_session(session: Session) -> None:
    """Add the four modes to the session."""
    for mode in MODES:
        session.add_mode(mode)


@hookimpl
def build_prompt_layer(agent: Agent) -> list[Layer]:
    """Return the standard layers; those for tool use and recovery only in agent mode."""
    session = agent.session
    abilities = get_abilities(agent)
    workspace = session.workspace
    extra_roots = [str(root) for root in workspace.roots if root != workspace.root]
    layers = [
        Layer(0, "meta", make_meta_text(str(workspace.root), extra_roots, abilities)),
        Layer(10, "mode", make_mode_text(agent.mode, abilities)),
    ]
    # This is a separate layer, so that the layers before it stay cached when the user changes the
    # policy.
    policy = make_policy_text(session.approve, session.kind)
    if policy:
        layers.append(Layer(11, "approval", policy))
    # In the other modes, the mode's text is sufficient, and these layers would mostly waste tokens.
    if agent.mode.name == "agent":
        layers += [
            Layer(20, "tools", make_tool_use_text(abilities)),
            Layer(30, "recovery", make_recovery_text(abilities)),
        ]
    return layers
