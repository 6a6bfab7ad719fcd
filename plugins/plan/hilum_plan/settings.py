"""The settings for todo lists and questions: table ``[plan]``."""

from __future__ import annotations

from hilum import section, setting


@section("plan")
class PlanSettings:
    """Time limits and reminders for todo lists and questions."""

    question_timeout: float = setting(
        default=300.0,
        minimum=1,
        project="lower",
        help="Seconds to wait for your answer to a question before the agent decides.",
    )
    remind_after: int = setting(
        default=8,
        minimum=0,
        help=(
            "Number of rounds of calls without a change after which the model is reminded of its todo"
            " list; 0 for never."
        ),
    )
    blocked_timeout: float = setting(
        default=300.0,
        minimum=0,
        project="lower",
        help="Seconds after which a blocked todo item may be cancelled.",
    )
