"""A view of a session for faces, built from the session's events.

``SessionView`` applies events and chunks of output, and returns the resulting changes. The view
draws nothing itself; terminals, web pages and editors display it.
"""

from hilum_view.agents import Actor, AgentView, AgentViews
from hilum_view.budgets import BudgetView, BudgetViews, format_budget_amount
from hilum_view.call_descriptions import (
    Action,
    describe_action,
    format_count,
    unwrap_call,
)
from hilum_view.entries import (
    Answer,
    AnyEntry,
    Card,
    ContextSource,
    Entry,
    Notice,
    Outcome,
    Prompt,
    Refuser,
    StreamedText,
    describe_end,
    is_resumable,
)
from hilum_view.formatting import (
    count_changes,
    describe_arguments,
    first_line,
    format_cost,
    format_duration,
    format_money,
    format_tokens,
    parse_arguments,
    parse_partial_arguments,
)
from hilum_view.images import ImageFacts, describe_images
from hilum_view.notices import POLICY_MEANINGS
from hilum_view.plan import PlanDecision, Proposal, Todo, TodoList, read_plan_decision
from hilum_view.session import Changes, SessionView
from hilum_view.spending import Spending, Spent, ToolUse, compute_spending
from hilum_view.usage import Totals, total
from hilum_view.waiting import (
    Approval,
    Question,
    QuestionEnd,
    Waiting,
    read_question,
    read_question_end,
)

__all__ = [
    "POLICY_MEANINGS",
    "Action",
    "Actor",
    "AgentView",
    "AgentViews",
    "Answer",
    "AnyEntry",
    "Approval",
    "BudgetView",
    "BudgetViews",
    "Card",
    "Changes",
    "ContextSource",
    "Entry",
    "ImageFacts",
    "Notice",
    "Outcome",
    "PlanDecision",
    "Prompt",
    "Proposal",
    "Question",
    "QuestionEnd",
    "Refuser",
    "SessionView",
    "Spending",
    "Spent",
    "StreamedText",
    "Todo",
    "TodoList",
    "ToolUse",
    "Totals",
    "Waiting",
    "compute_spending",
    "count_changes",
    "describe_action",
    "describe_arguments",
    "describe_end",
    "describe_images",
    "first_line",
    "format_budget_amount",
    "format_cost",
    "format_count",
    "format_duration",
    "format_money",
    "format_tokens",
    "is_resumable",
    "parse_arguments",
    "parse_partial_arguments",
    "read_plan_decision",
    "read_question",
    "read_question_end",
    "total",
    "unwrap_call",
]
