"""What a user may set about agents that run: table ``[scheduler]``."""

from __future__ import annotations

from hilum import section, setting


@section("scheduler")
class SchedulerSettings:
    """Agents that run side by side: how many, how long, how deep."""

    at_once: int = setting(
        default=3,
        minimum=1,
        project=False,
        help="Agents of a session that run at once; further ones wait.",
    )
    tasks_at_once: int = setting(
        default=2, minimum=1, project="lower", help="Sub-agents of one agent that run at once."
    )
    depth: int = setting(
        default=3, minimum=1, project=False, help="How deep agents may start agents."
    )
    turns: int = setting(
        default=10,
        minimum=1,
        project="lower",
        help="Turns of an agent whose definition does not say.",
    )
    task_turns: int = setting(default=15, minimum=1, project="lower", help="Turns of a sub-agent.")
    task_timeout: float = setting(
        default=300.0, minimum=1, project="lower", help="Seconds of a sub-agent."
    )
    task_window: int = setting(
        default=64_000,
        minimum=4_000,
        project="lower",
        help="Tokens over which a sub-agent's context is cut.",
    )
    cost_limit: float | None = setting(
        default=None,
        minimum=0,
        project=False,
        help="US dollars a run may cost, with its sub-agents.",
    )
