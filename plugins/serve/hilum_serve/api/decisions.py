"""Operations with which users decide: approvals, questions, plans and lasting approvals.

A client that has not seen what it decides on is refused. Of several answers, the first one wins.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import trio
from hilum import (
    Danger,
    HilumError,
    Plans,
    Run,
    UserQuestions,
    find_approval_dangers,
    find_approval_facts,
    is_once_only,
)
from hilum.errors import E_BAD_ARGS, E_BUSY, E_NOT_INSTALLED, E_UNKNOWN
from hilum.events import ApprovalAsked
from hilum.services import StoredApprovals
from hilum.sharing import JoinedSession
from hilum.sharing.messages import AcceptPlan, Answer, AnswerQuestion, RejectPlan, Revoke
from hilum_view import Approval, Question

from hilum_serve.api.shared_types import (
    MAX_IN_ADDRESS,
    LongText,
    NoResult,
    ShortText,
    StartedRun,
    carry_out,
    describe_run,
    explain_late_answer,
)
from hilum_serve.hub import HostedSession
from hilum_serve.operations import Call, operation
from hilum_serve.phrases import Parts, find_parts
from hilum_serve.problems import Problem
from hilum_serve.session_state import (
    WaitingApproval,
    WaitingPlan,
    WaitingQuestion,
    list_waiting,
)

W = TypeVar("W", WaitingApproval, WaitingQuestion, WaitingPlan)
MAX_BATCH = 100
MAX_RECENT = 500
"""Number of events among which an approval that is no longer open is looked for."""
Remember = Literal["once", "session", "always"]
Reason = Annotated[str, msgspec.Meta(max_length=20_000)]


async def _list_waiting_of(hosted: HostedSession, kind: type[W]) -> list[W]:
    """Return what waits for the user and is of a kind, oldest first, completely and as of now."""
    await hosted.catch_up()
    return [item for item in list_waiting(hosted, whole=True) if isinstance(item, kind)]


# --- approvals --------------------------------------------------------------------------------------


class DangerFacts(msgspec.Struct, frozen=True):
    """Something dangerous or notable in a call.

    Attributes:
        text: A phrase without a subject, on one line.
        parts: The phrase with its code, for translations.
        grave: Whether only this call may be approved, and no lasting approval given.
    """

    text: str
    grave: bool
    parts: Parts = []


class ApprovalFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits for approval, as the user must see it.

    Attributes:
        item: The approval.
        text: What the call does, with every argument in full; a change of a file as a diff.
        covers: The calls that a lasting approval covers, in words.
        covers_parts: The same with its code, for translations.
        rule: The rule that ``always`` stores; empty if no rule can describe the call.
        file: The file that it is stored in; empty if it would not be stored.
        dangers: What is dangerous or notable, the most important first.
        answer: Approvals with the same value are for calls of one answer of the model.
    """

    item: WaitingApproval
    text: str
    covers: str
    rule: str
    file: str
    dangers: list[DangerFacts]
    answer: str
    covers_parts: Parts = []


class ApprovalList(msgspec.Struct, frozen=True):
    """The calls that wait for approval, oldest first."""

    approvals: list[ApprovalFacts]


class ApprovalAnswer(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The answer to an approval.

    Attributes:
        accepted: Whether the call may run.
        reason: Why it may not run; the model reads it.
        remember: ``once`` for this call only; ``session`` for all calls in the scope until the
            session ends; ``always`` also stores a rule.
        arguments: Arguments that replace the model's, as JSON text; null for the model's.
    """

    accepted: bool
    reason: Reason = ""
    remember: Remember = "once"
    arguments: LongText | None = None


class BatchAnswer(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One answer to several approvals.

    Attributes:
        ids: Ids of the approvals.
        accepted: Whether the calls may run. Calls with a grave danger are not accepted in a batch.
        reason: Why they may not run.
        remember: As in ``ApprovalAnswer``.
    """

    ids: Annotated[
        list[Annotated[str, msgspec.Meta(min_length=1, max_length=100)]],
        msgspec.Meta(min_length=1, max_length=MAX_BATCH),
    ]
    accepted: bool
    reason: Reason = ""
    remember: Literal["once", "session"] = "once"


class Answered(msgspec.Struct, frozen=True):
    """The outcome of one answer of a batch.

    Attributes:
        id: Id of the approval.
        code: Why it was not answered; empty if it was.
        message: The same, in words.
    """

    id: str
    code: str = ""
    message: str = ""


class BatchResult(msgspec.Struct, frozen=True):
    """The outcomes of a batch, in the order of its ids."""

    answers: list[Answered]


class ShownApproval(msgspec.Struct, frozen=True):
    """An approval that the user sees.

    Attributes:
        deadline: Unix time at which the call is denied; 0 if another process decides it.
    """

    deadline: float


def find_approval(hosted: HostedSession, identity: str) -> Approval | None:
    """Return an open approval."""
    for item in hosted.view.waiting:
        if isinstance(item, Approval) and item.id == identity:
            return item
    return None


def _asked_at(call: Call[Any, Any]) -> int:
    """Return the sequence number at which the approval of a request was asked."""
    approval = find_approval(call.hosted, call.path["approval"])
    return approval.seq if approval is not None else 0


def _last_asked_at(call: Call[Any, BatchAnswer]) -> int:
    """Return the sequence number at which the last approval of a batch was asked."""
    found = [find_approval(call.hosted, identity) for identity in call.body.ids]
    return max((approval.seq for approval in found if approval is not None), default=0)


async def find_dangers(hosted: HostedSession, approval: Approval) -> Sequence[Danger]:
    """Return what is dangerous in a call; a call that cannot be judged is dangerous."""
    return await find_approval_dangers(approval.question, hosted.session)


async def _describe_approval(hosted: HostedSession, item: WaitingApproval) -> ApprovalFacts | None:
    """Return an approval with its texts; ``None`` if it was answered meanwhile."""
    approval = find_approval(hosted, item.id)
    if approval is None:
        return None
    facts = await find_approval_facts(approval.question, hosted.session)
    return ApprovalFacts(
        item=item,
        text=facts.text,
        covers=facts.covers,
        rule=approval.scope,
        file=facts.file,
        dangers=[_describe_danger(danger) for danger in facts.dangers],
        answer=_find_answer(hosted, approval),
        covers_parts=find_parts(facts.covers),
    )


def _describe_danger(danger: Danger) -> DangerFacts:
    return DangerFacts(danger.text, danger.grave, find_parts(danger.text))


def _find_answer(hosted: HostedSession, approval: Approval) -> str:
    """Return an identifier of the model's answer that contains a call."""
    for card in reversed(hosted.view.cards):
        if card.agent == approval.agent and card.call.id == approval.call.id:
            return f"{card.agent} {card.run} {card.turn}"
    return ""


@operation("GET", "/api/sessions/{session}/approvals", rights="watch", returns=ApprovalList)
async def list_approvals(call: Call[None, None]) -> ApprovalList:
    """List the calls that wait for approval, with everything that the user must see."""
    hosted = call.hosted
    found = []
    for item in await _list_waiting_of(hosted, WaitingApproval):
        described = await _describe_approval(hosted, item)
        if described is not None:
            found.append(described)
    return ApprovalList(found)


@operation(
    "POST",
    "/api/sessions/{session}/approvals/{approval}",
    rights="approve",
    body=ApprovalAnswer,
    returns=NoResult,
    decides=_asked_at,
)
async def answer_approval(call: Call[None, ApprovalAnswer]) -> NoResult:
    """Accept or reject a call; of several answers, the first one wins."""
    given = call.body
    await _check_lasting(call, call.path["approval"], given)
    await _answer(call, call.path["approval"], given)
    return NoResult()


async def _check_lasting(call: Call[Any, Any], identity: str, given: ApprovalAnswer) -> None:
    """Check that an approval may last longer than the call.

    Raises:
        Problem: It may not (400).
    """
    if not given.accepted or given.remember == "once":
        return
    approval = find_approval(call.hosted, identity)
    if approval is None:
        return
    problem = ""
    if given.arguments is not None:
        problem = "The call was edited, so only this call can be allowed."
    elif given.remember == "always" and not approval.scope:
        problem = "No rule can describe this call."
    elif is_once_only(await find_dangers(call.hosted, approval)):
        problem = "This call is dangerous, so only this call can be allowed."
    if problem:
        raise Problem(400, E_BAD_ARGS, problem, "Answer with remember = once.")


async def _answer(call: Call[Any, Any], identity: str, given: ApprovalAnswer) -> None:
    """Give an answer in the name of the user.

    Raises:
        HilumError: The approval is no longer open (409), or the arguments do not fit.
    """
    hosted = call.hosted
    session = hosted.session
    is_own = find_approval(hosted, identity) is not None
    try:
        await carry_out(
            session,
            Answer(
                identity,
                given.accepted,
                given.reason,
                given.remember,
                given.arguments,
                call.user.name,
            ),
            lambda: session.answer(
                identity,
                given.accepted,
                reason=given.reason,
                remember=given.remember,
                arguments=given.arguments,
                user=call.user.name,
            ),
        )
    except HilumError as error:
        by = hosted.answered_by.get(identity, "")
        if not is_own and not by and not await _was_asked(hosted, identity):
            raise Problem(404, E_UNKNOWN, "There is no such approval in this session.") from None
        raise explain_late_answer(error, by) from None
    hosted.note_answer(identity, call.user)


async def _was_asked(hosted: HostedSession, identity: str) -> bool:
    """Return whether an approval of a recent event has this id."""
    after = max(hosted.last - MAX_RECENT, 0)
    # The store reads in a thread.
    recent = await hosted.session.kernel.store.read(hosted.id, after, MAX_RECENT)
    return any(isinstance(event, ApprovalAsked) and event.id == identity for event in recent)


@operation(
    "POST",
    "/api/sessions/{session}/approvals",
    rights="approve",
    body=BatchAnswer,
    returns=BatchResult,
    decides=_last_asked_at,
)
async def answer_approvals(call: Call[None, BatchAnswer]) -> BatchResult:
    """Give one answer to several approvals."""
    batch = call.body
    given = ApprovalAnswer(accepted=batch.accepted, reason=batch.reason, remember=batch.remember)
    answers = []
    for identity in dict.fromkeys(batch.ids):
        try:
            await _check_batched(call, identity, given)
            await _answer(call, identity, given)
        except HilumError as error:
            answers.append(Answered(identity, error.code, error.message))
        else:
            answers.append(Answered(identity))
    return BatchResult(answers)


async def _check_batched(call: Call[Any, Any], identity: str, given: ApprovalAnswer) -> None:
    """Check that a call may be accepted together with others.

    Raises:
        Problem: The call is dangerous (400).
    """
    approval = find_approval(call.hosted, identity)
    if approval is None or not given.accepted:
        return
    if is_once_only(await find_dangers(call.hosted, approval)):
        message = "This call is dangerous: it must be allowed on its own."
        raise Problem(400, E_BAD_ARGS, message)


@operation(
    "POST",
    "/api/sessions/{session}/approvals/{approval}/shown",
    rights="approve",
    returns=ShownApproval,
)
async def show_approval(call: Call[None, None]) -> ShownApproval:
    """Start the clock of an approval, because the user sees it."""
    identity = call.path["approval"]
    try:
        return ShownApproval(call.hosted.session.approval_shown(identity))
    except HilumError as error:
        if not await _was_asked(call.hosted, identity):
            raise Problem(404, E_UNKNOWN, "There is no such approval in this session.") from None
        raise explain_late_answer(error, call.hosted.answered_by.get(identity, "")) from None


# --- questions --------------------------------------------------------------------------------------


class QuestionList(msgspec.Struct, frozen=True):
    """The questions of agents, oldest first."""

    questions: list[WaitingQuestion]


class QuestionAnswer(msgspec.Struct, forbid_unknown_fields=True):
    """The answer to a question.

    Attributes:
        answers: Options or other texts; empty to let the agent decide.
    """

    answers: Annotated[list[ShortText], msgspec.Meta(max_length=50)] = []


def _question_asked_at(call: Call[Any, Any]) -> int:
    for item in call.hosted.view.waiting:
        if isinstance(item, Question) and item.id == call.path["question"]:
            return item.seq
    return 0


@operation("GET", "/api/sessions/{session}/questions", rights="watch", returns=QuestionList)
async def list_questions(call: Call[None, None]) -> QuestionList:
    """List the questions that wait for the user."""
    return QuestionList(await _list_waiting_of(call.hosted, WaitingQuestion))


@operation(
    "POST",
    "/api/sessions/{session}/questions/{question}",
    rights="approve",
    body=QuestionAnswer,
    returns=NoResult,
    decides=_question_asked_at,
)
async def answer_question(call: Call[None, QuestionAnswer]) -> NoResult:
    """Answer a question of an agent; the first answer wins."""
    hosted = call.hosted
    session = hosted.session
    identity = call.path["question"]
    answers = tuple(call.body.answers)
    by = hosted.answered_by.get(identity, "")
    if not by and not _question_asked_at(call):
        raise Problem(404, E_UNKNOWN, "There is no such open question in this session.")
    questions = session.plugin(UserQuestions)
    if questions is None or not questions.is_open(identity):
        raise Problem(
            409,
            E_BUSY,
            f"Your answer was too late: {by or 'someone'} has answered it, or it expired.",
            "The conversation shows the answer.",
        )
    await carry_out(
        session,
        AnswerQuestion(identity, answers),
        lambda: questions.answer(identity, answers),
    )
    hosted.note_answer(identity, call.user)
    return NoResult()


# --- plans ------------------------------------------------------------------------------------------


class PlanList(msgspec.Struct, frozen=True):
    """The plans that wait for the user's decision."""

    plans: list[WaitingPlan]


class PlanAnswer(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The decision about a plan.

    Attributes:
        accepted: Whether the plan is carried out.
        text: The plan as the user edited it; null for the agent's plan.
        reason: Why it is rejected; with a reason, the agent works out another plan.
    """

    accepted: bool
    text: LongText | None = None
    reason: Reason = ""


class PlanDecided(msgspec.Struct, frozen=True):
    """The outcome of the decision about a plan.

    Attributes:
        run: The run that carries the plan out, or works out another one; null if there is none.
    """

    run: StartedRun | None = None


def _find_plan(hosted: HostedSession, identity: str) -> WaitingPlan | None:
    for item in list_waiting(hosted):
        if isinstance(item, WaitingPlan) and item.id == identity:
            return item
    return None


def _proposed_at(call: Call[Any, Any]) -> int:
    plan = _find_plan(call.hosted, call.path["plan"])
    return plan.seq if plan is not None else 0


@operation("GET", "/api/sessions/{session}/plans", rights="watch", returns=PlanList)
async def list_plans(call: Call[None, None]) -> PlanList:
    """List the plans that wait for the user's decision."""
    return PlanList(await _list_waiting_of(call.hosted, WaitingPlan))


@operation(
    "POST",
    "/api/sessions/{session}/plans/{plan}",
    rights="approve",
    body=PlanAnswer,
    returns=PlanDecided,
    decides=_proposed_at,
)
async def decide_plan(call: Call[None, PlanAnswer]) -> PlanDecided:
    """Accept or reject a plan."""
    hosted = call.hosted
    plans = hosted.session.plugin(Plans)
    if plans is None:
        raise Problem(503, E_NOT_INSTALLED, "This session has no plans.")
    plan = _find_plan(hosted, call.path["plan"])
    if plan is None:
        raise _unknown_plan()
    decision = call.body
    session = hosted.session
    if isinstance(session, JoinedSession):
        run = await _decide_joined(session, plan, decision)
    elif (waiting := plans.proposal(plan.agent)) is None or waiting.run != plan.id:
        # The view may be behind: the plan must not be mistaken for the one that replaced it.
        raise _unknown_plan()
    elif decision.accepted:
        run = await plans.accept(decision.text, agent=plan.agent)
    else:
        run = await plans.reject(decision.reason, agent=plan.agent)
    hosted.note_answer(plan.id, call.user)
    return PlanDecided(describe_run(run) if run is not None else None)


async def _decide_joined(
    session: JoinedSession, plan: WaitingPlan, decision: PlanAnswer
) -> Run | None:
    """Have the process that has a session open decide about a plan, if it still waits there."""
    if decision.accepted:
        reply = await session.request(AcceptPlan(decision.text, plan.agent, plan.id))
    else:
        reply = await session.request(RejectPlan(decision.reason, plan.agent, plan.id))
    return session.find_run(reply.result, plan.agent) if reply.result else None


def _unknown_plan() -> Problem:
    return Problem(
        404, E_UNKNOWN, "There is no such plan.", "It was decided, or replaced by another one."
    )


# --- lasting approvals ------------------------------------------------------------------------------


class GrantList(msgspec.Struct, frozen=True):
    """The scopes and tools that users approved for the rest of the session.

    Attributes:
        grants: The scopes and tools.
        stored: Those that are also stored as rules, which allow them in later sessions, too, and
            in this one after it was revoked.
    """

    grants: list[str]
    stored: list[str]


class GrantQuery(msgspec.Struct, forbid_unknown_fields=True):
    """A lasting approval.

    Attributes:
        scope: The scope or the name of the tool, as in ``GET …/grants``. One that is too long for an
            address is named by ``sha256:`` and its hash in hexadecimal digits.
        stored: Whether the rule as which the approval is stored is removed, too.
    """

    scope: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_IN_ADDRESS)]
    stored: bool = False


@operation("GET", "/api/sessions/{session}/grants", rights="watch", returns=GrantList)
async def list_grants(call: Call[None, None]) -> GrantList:
    """List the lasting approvals of the session."""
    session = call.hosted.session
    grants = sorted(session.grants)
    rules = session.plugin(StoredApprovals)
    stored: Sequence[str] = []
    if rules is not None and grants:
        stored = await trio.to_thread.run_sync(rules.find_stored_approvals, grants)
    return GrantList(grants, list(stored))


def _hash_scope(scope: str) -> str:
    return f"sha256:{hashlib.sha256(scope.encode()).hexdigest()}"


@operation(
    "DELETE",
    "/api/sessions/{session}/grants",
    rights="approve",
    query=GrantQuery,
    returns=NoResult,
)
async def revoke_grant(call: Call[GrantQuery, None]) -> NoResult:
    """Revoke a lasting approval of the session; with ``stored``, remove its rule, too."""
    session = call.hosted.session
    named = [each for each in session.grants if call.query.scope in (each, _hash_scope(each))]
    if not named:
        raise Problem(404, E_UNKNOWN, "There is no such lasting approval in this session.")
    scope = named[0]
    rules = session.plugin(StoredApprovals)
    if call.query.stored and rules is not None:
        await trio.to_thread.run_sync(rules.remove_stored_approval, scope)
    await carry_out(session, Revoke(scope), lambda: session.revoke(scope))
    return NoResult()
