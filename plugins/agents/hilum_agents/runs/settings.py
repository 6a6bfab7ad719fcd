"""The settings for running agents: table ``[scheduler]``."""

from __future__ import annotations

from hilum import section, setting


@section("scheduler")
class SchedulerSettings:
    """Limits on the number, duration and depth of concurrent agents."""

    at_once: int = setting(
        default=3,
        minimum=1,
        project=False,
        help="Maximum number of agents that run at once in a session; the others wait.",
    )
    tasks_at_once: int = setting(
        default=2,
        minimum=1,
        project="lower",
        help="Maximum number of one agent's sub-agents that run at once.",
    )
    depth: int = setting(
        default=3,
        minimum=1,
        project=False,
        help="Maximum nesting depth of sub-agents.",
    )
    turns: int = setting(
        default=10,
        minimum=1,
        project="lower",
        help="Maximum number of turns per run for an agent whose definition sets no limit.",
    )
    task_turns: int = setting(
        default=15,
        minimum=1,
        project="lower",
        help="Maximum number of turns per run for a sub-agent.",
    )
    task_timeout: float = setting(
        default=300.0,
        minimum=1,
        project="lower",
        help="Time limit for a sub-agent's run, in seconds.",
    )
    task_window: int = setting(
        default=64_000,
        minimum=4_000,
        project="lower",
        help="Maximum size of a sub-agent's context, in tokens; it is compacted before it is full.",
    )
    cost_limit: float | None = setting(
        default=None,
        minimum=0,
        project=False,
        help="Maximum cost of a run, including its sub-agents, in US dollars.",
    )
