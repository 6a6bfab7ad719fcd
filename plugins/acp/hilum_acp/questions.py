"""Asks the editor's user the questions of agents, and what to do with a proposed plan."""

from __future__ import annotations

from typing import Any

from hilum import HilumError, Plans, Run, Session, UserQuestions
from hilum.services import PlanProposal
from hilum_view import Question

from hilum_acp.client import Client
from hilum_acp.json_rpc import ConnectionLost, RpcError
from hilum_acp.tool_calls import make_text_content
from hilum_acp.updates import describe_plan_request

LEAVE = "leave"
ACCEPT = "accept"
REVISE = "revise"
REJECT = "reject"
LATER = "later"


async def ask_question(client: Client, session: Session, question: Question, call: str) -> None:
    """Ask a question of an agent, and give the session the answer.

    Args:
        client: The editor.
        session: The session.
        question: The question.
        call: Id of the call that asks, in the protocol; empty if no call does.
    """
    questions = session.plugin(UserQuestions)
    if questions is None:
        return
    answers: list[str] = []
    by = "user"
    try:
        if client.abilities.forms:
            answers = await _ask_with_form(client, session, question, call)
        elif question.options:
            answers = await _ask_with_options(client, session, question, call)
        else:
            # The editor cannot ask for a text, so the user can answer only with the next prompt.
            # The end of the question has the conversation show it.
            by = "shown"
    except ConnectionLost:
        return
    except RpcError:
        by = "headless"
    if questions.is_open(question.id):
        try:
            questions.answer(question.id, answers, by=by)
        except HilumError:
            # For example, too many or too long answers: the agent decides.
            questions.answer(question.id, ())


async def _ask_with_form(
    client: Client, session: Session, question: Question, call: str
) -> list[str]:
    titled = [{"const": option, "title": option} for option in question.options]
    properties: dict[str, Any] = {}
    if question.multiple and titled:
        properties["answers"] = {"type": "array", "title": "Answers", "items": {"anyOf": titled}}
    elif titled:
        properties["answer"] = {"type": "string", "title": "Answer", "oneOf": titled}
    properties["other"] = {
        "type": "string",
        "title": "Another answer" if titled else "Answer",
    }
    form = await client.fill_form(session.id, question.question, properties, call=call)
    if form is None:
        return []
    given = form.get("answers")
    chosen = given if isinstance(given, list) else [form.get("answer")]
    # An own answer replaces the choice, unless several may be given.
    other = form.get("other")
    if isinstance(other, str) and other.strip():
        chosen = [*chosen, other] if question.multiple else [other]
    return [text for text in chosen if isinstance(text, str) and text.strip()]


async def _ask_with_options(
    client: Client, session: Session, question: Question, call: str
) -> list[str]:
    """Ask with a request for permission, whose choices are the answers.

    Every editor can show these; many agents ask questions in this way.
    """
    options = []
    for index, text in enumerate(question.options):
        options.append({"optionId": f"option-{index}", "name": text, "kind": "allow_once"})
    options.append({"optionId": LEAVE, "name": "Let the agent decide", "kind": "reject_once"})
    title = question.question
    if question.multiple:
        title += " (This editor can take only one of several answers.)"
    identity = call or f"question-{question.id}"
    described = {"toolCallId": identity, "title": title, "kind": "other"}
    chosen = await _choose(client, session, described, options)
    for index, text in enumerate(question.options):
        if chosen == f"option-{index}":
            return [text]
    return []


async def ask_about_plan(client: Client, session: Session, proposal: PlanProposal) -> Run | None:
    """Ask whether a proposed plan is carried out, and return the run that follows, if any."""
    plans = session.plugin(Plans)
    if plans is None:
        return None
    options = [
        {"optionId": ACCEPT, "name": "Carry out the plan", "kind": "allow_once"},
        {"optionId": REVISE, "name": "Revise it…", "kind": "reject_once"},
        {"optionId": REJECT, "name": "Reject it", "kind": "reject_once"},
        {"optionId": LATER, "name": "Decide later", "kind": "reject_once"},
    ]
    if not client.abilities.forms:
        # The next prompt in plan mode revises the plan.
        options[1]["name"] = "Revise it: I write what should change"
    try:
        described = describe_plan_request(proposal.run)
        described["content"] = [make_text_content(proposal.text)]
        chosen = await _choose(client, session, described, options)
        reason = ""
        if chosen == REVISE and client.abilities.forms:
            properties = {"reason": {"type": "string", "title": "What should change?"}}
            form = await client.fill_form(session.id, "What should change?", properties)
            reason = str((form or {}).get("reason") or "")
    except (ConnectionLost, RpcError):
        return None
    # Another face may have decided meanwhile.
    waiting = plans.proposal()
    if waiting is None or waiting.run != proposal.run:
        return None
    if chosen == ACCEPT:
        return await plans.accept()
    if reason.strip() or chosen == REJECT:
        return await plans.reject(reason)
    return None


async def _choose(
    client: Client, session: Session, described: dict[str, Any], options: list[dict[str, Any]]
) -> str:
    """Return the id of the option that the user chose; empty if the user chose none.

    Args:
        client: The editor.
        session: The session.
        described: The question, as a call of the protocol.
        options: The options.
    """
    described["status"] = "pending"
    params = {"sessionId": session.id, "toolCall": described, "options": options}
    result = await client.connection.request("session/request_permission", params)
    outcome = result.get("outcome") if isinstance(result, dict) else None
    if not isinstance(outcome, dict):
        return ""
    if outcome.get("outcome") == "cancelled":
        session.stop()
        return ""
    # Any other outcome is unknown, and chooses nothing.
    return str(outcome.get("optionId", "")) if outcome.get("outcome") == "selected" else ""
