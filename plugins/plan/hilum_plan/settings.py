"""The settings of the plugin."""

from __future__ import annotations

from hilum import section, setting


@section("plan")
class PlanSettings:
    """Todo lists and questions: how long is waited, and when the model is reminded."""

    question_timeout: float = setting(
        default=300.0,
        minimum=1,
        project="lower",
        help="Seconds that a question waits for the user; then the agent decides by itself.",
    )
    remind_after: int = setting(
        default=8,
        minimum=0,
        help=(
            "Rounds of calls without a change of the todo list after which the model is reminded;"
            " 0: never."
        ),
    )
    blocked_timeout: float = setting(
        default=300.0,
        minimum=0,
        project="lower",
        help="Seconds after which a blocked todo item may be cancelled as it is.",
    )
