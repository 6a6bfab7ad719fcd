"""The settings for budgets: table ``[budgets]``."""

from __future__ import annotations

from typing import Literal

from hilum import section, setting


@section()
class LimitSettings:
    """The limits of one budget."""

    dollars: float | None = setting(
        default=None,
        minimum=0,
        project="lower",
        help="Maximum cost in US dollars; no limit when not set.",
    )
    tokens: int | None = setting(
        default=None,
        minimum=0,
        project="lower",
        help="Maximum number of input and output tokens; no limit when not set.",
    )
    minutes: float | None = setting(
        default=None,
        minimum=0,
        project="lower",
        help="Maximum time that models take to answer and tools to run; no limit when not set.",
    )


@section("budgets")
class BudgetSettings:
    """Budgets, which are checked before each request to a model."""

    session: LimitSettings = setting(
        factory=LimitSettings, help="The budget of a session, with all its agents and plugins."
    )
    day: LimitSettings = setting(
        factory=LimitSettings, help="The budget of a day, for all sessions of the user."
    )
    agents: dict[str, LimitSettings] = setting(
        factory=dict, help="Budgets of each agent in a session, by name or pattern (*)."
    )
    plugins: dict[str, LimitSettings] = setting(
        factory=dict,
        help="Budgets of each plugin's own requests in a session, by name or pattern (*).",
    )
    unpriced: Literal["refuse", "admit"] = setting(
        default="refuse",
        project="user",
        help="With a budget in dollars: what happens to requests to models without a known price.",
    )
