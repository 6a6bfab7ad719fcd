"""The data of an arm: an agent with its model, prompt, plugins and settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs


@attrs.frozen(kw_only=True)
class Arm:
    """An agent with everything that it is measured with.

    Args:
        name: A short name that is unique among the arms.
        model: The model, as ``provider/name``; empty for the simulated model.
        profile: Profile of the simulated model: ``perfect``, ``strong``, ``mid``, ``weak``, or the path of a
            TOML file.
        settings: Settings of hilum.
        plugins: Plugins that are added: names, modules or files.
        without: Plugins that are left out.
        instructions: Text that is added to the instructions of the project.
        environ: Environment variables of the agent.
        agent: ``hilum``, ``mini-swe-agent``, or a command line of another agent. In a command line,
            ``{prompt}``, ``{prompt_file}``, ``{workspace}``, ``{base_url}`` and ``{model}`` are replaced.
        user: ``scripted`` (the decisions of the case), ``simulated``, or the temper of a simulated
            user: ``patient``, ``strict`` or ``distracted``.
    """

    name: str
    model: str = ""
    profile: str = "strong"
    settings: Mapping[str, Any] = attrs.field(factory=dict)
    plugins: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    instructions: str = ""
    environ: Mapping[str, str] = attrs.field(factory=dict)
    agent: str = "hilum"
    user: str = "scripted"
