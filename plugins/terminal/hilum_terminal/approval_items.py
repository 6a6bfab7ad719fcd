"""The items that wait for the user (calls, questions and plans), and the user's decisions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import attrs

from hilum_terminal.styles import Theme

Remember = Literal["once", "session", "always"]


@attrs.frozen(kw_only=True)
class WaitingCall:
    """A call that waits for the user's approval.

    All texts may be untrusted.

    Attributes:
        id: Id of the approval.
        tool: Name of the tool.
        title: What the call does, in a few words.
        description: The command or change in full.
        make_rows: Function that returns the description as rows for a width, such as a colored
            diff; None to lay out ``description``. The prompt calls it again only if ``description``
            changes.
        make_brief_rows: Function that returns the description without what is unchanged, for a
            window in which not all rows fit; None if there is no shorter form.
        folder: The folder in which the call runs.
        sandbox: State of the sandbox, in words.
        why: Why the call needs approval.
        dangerous: Whether the call can do lasting damage. A dangerous call cannot get a lasting
            approval.
        marks: What is dangerous or notable in the call.
        agent: The agent that made the call, if it is not the one the user talks to.
        response: Id of the model's response that contains the call; empty if unknown.
        scope: The scope of a lasting approval, which is also the rule that "always" stores; empty
            for all calls of the tool.
        covers: Description of the calls that a lasting approval covers.
        arguments: The arguments as edited by the user; None for the model's arguments.
        deadline: Time at which the call is denied, on the same clock as ``now``; 0 if not known
            yet.
    """

    id: str
    tool: str = ""
    title: str = ""
    description: str = ""
    make_rows: Callable[[int, Theme], Sequence[str]] | None = attrs.field(default=None, eq=False)
    make_brief_rows: Callable[[int, Theme], Sequence[str]] | None = attrs.field(
        default=None, eq=False
    )
    folder: str = ""
    sandbox: str = ""
    why: str = ""
    dangerous: bool = False
    marks: tuple[str, ...] = ()
    agent: str = ""
    response: str = ""
    scope: str = ""
    covers: str = ""
    arguments: str | None = None
    deadline: float = attrs.field(default=0.0, eq=False)

    @property
    def grant(self) -> str:
        """The scope of a lasting approval; one approval covers all calls with the same value."""
        return self.scope or self.tool


@attrs.frozen(kw_only=True)
class WaitingQuestion:
    """A question from an agent.

    Attributes:
        id: Id of the question.
        question: The question.
        options: Answers to choose from, the recommended one first.
        multiple: Whether the user can choose several answers.
        agent: The agent that asks, if it is not the one the user talks to.
        is_decision: Whether hilum itself asks, so that no agent decides without an answer.
        deadline: Time at which the agent decides without an answer, on the same clock as ``now``; 0
            if there is no deadline.
    """

    id: str
    question: str = ""
    options: tuple[str, ...] = ()
    multiple: bool = False
    agent: str = ""
    is_decision: bool = False
    deadline: float = attrs.field(default=0.0, eq=False)

    @property
    def without_answer(self) -> str:
        """What happens without an answer, as the end of a sentence."""
        return "nothing is done" if self.is_decision else "the agent decides"

    def find_option(self, word: str) -> str:
        """Return the option for the typed word ``yes`` or ``no``; empty if there is none.

        An agent's options may begin with these words and mean something else.
        """
        if not self.is_decision or self.multiple or word not in ("yes", "no"):
            return ""
        fitting = [each for each in self.options if each.casefold().startswith(f"{word},")]
        return fitting[0] if len(fitting) == 1 else ""


@attrs.frozen(kw_only=True)
class WaitingPlan:
    """A plan that waits for the user's decision.

    Attributes:
        id: Id of the plan.
        text: The plan.
        agent: Always empty, because only the agent that the user talks to proposes plans.
        edited: Whether the user edited ``text``.
        deadline: Always 0, because a plan has no deadline.
    """

    id: str
    text: str = ""
    edited: bool = False
    agent: str = attrs.field(default="", init=False)
    deadline: float = attrs.field(default=0.0, init=False)


Item = WaitingCall | WaitingQuestion | WaitingPlan


@attrs.frozen
class Answer:
    """The user's decision on a call, for ``Session.answer``.

    Attributes:
        id: Id of the approval.
        accepted: Whether the call may run.
        reason: Why the call must not run; the model reads the reason.
        remember: ``once``, ``session`` or ``always``.
        arguments: The arguments as edited by the user; None for the model's arguments.
        comment: What the user tells the agent about a call that may run; empty for nothing.
    """

    id: str
    accepted: bool
    reason: str = ""
    remember: Remember = "once"
    arguments: str | None = None
    comment: str = ""


@attrs.frozen
class ShowWhole:
    """A request from the user to show the whole description.

    Attributes:
        id: Id of the item.
        full_screen: Whether to show it in the full-screen view instead of the scrollback.
        text: The text to show instead: everything that a second step of the prompt asks about.
    """

    id: str
    full_screen: bool = False
    text: str = ""


@attrs.frozen
class EditCall:
    """A request from the user to edit a call's arguments before it runs."""

    id: str


@attrs.frozen
class QuestionAnswer:
    """The answers to a question; without any, the agent decides."""

    id: str
    answers: tuple[str, ...] = ()


@attrs.frozen
class PlanDecision:
    """The user's decision on a plan.

    Attributes:
        id: Id of the plan.
        decision: The decision; ``edit`` opens the plan in an editor and leaves it undecided.
        reason: Why the plan is rejected; if there is a reason, the agent writes another plan.
    """

    id: str
    decision: Literal["accept", "reject", "edit", "later"]
    reason: str = ""


Result = Answer | ShowWhole | EditCall | QuestionAnswer | PlanDecision
