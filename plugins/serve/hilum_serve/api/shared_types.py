"""Types and checks that several modules of operations share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from hilum import HilumError, Run, Session, UsageError
from hilum.errors import E_BUSY, E_UNKNOWN
from hilum.sharing import JoinedSession
from hilum.sharing.messages import Operation

from hilum_serve.hub import HostedSession
from hilum_serve.operations import Call
from hilum_serve.problems import E_RIGHTS, Problem
from hilum_serve.users import Rights

MAX_SEQ = 2**53 - 1
MAX_IN_ADDRESS = 600
"""Most characters of a text in an address, which has at most 8 KB when each takes 12 bytes."""
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
ShortText = Annotated[str, msgspec.Meta(max_length=2_000)]
LongText = Annotated[str, msgspec.Meta(max_length=500_000)]
Seq = Annotated[int, msgspec.Meta(ge=0, le=MAX_SEQ)]


class AgentQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The agent that a request is about.

    Attributes:
        agent: Name of the agent.
    """

    agent: Name = "main"


class NoResult(msgspec.Struct, frozen=True):
    """The result of an operation that has nothing to report."""


class StartedRun(msgspec.Struct, frozen=True):
    """A run that was started or queued.

    Attributes:
        run: Id of the run; empty if the text was a command.
        agent: Name of the agent.
        reply: The reply to a command; null if an agent works on the text.
        after: Sequence number of the last event before the run's prompt.
    """

    run: str
    agent: str
    reply: str | None = None
    after: int = 0


def describe_run(run: Run) -> StartedRun:
    """Return a run that was started or queued, as clients see it."""
    return StartedRun(run.id, run.agent, run.reply, run.after)


def require_right(call: Call[Any, Any], rights: Rights, what: str) -> None:
    """Check a right that only some requests of an operation need.

    Args:
        call: The request.
        rights: The right.
        what: What needs the right, as the beginning of a sentence.

    Raises:
        Problem: The user does not have it (403).
    """
    if not call.user.may(rights):
        raise Problem(
            403,
            E_RIGHTS,
            f"{what} needs the right {rights!r}; your token has {call.user.rights!r}.",
            "Ask who runs the server for a token with more rights.",
        )


def check_agent(session: Session, agent: str) -> None:
    """Check that a session has an agent.

    Raises:
        Problem: It does not (404).
    """
    if agent not in session.agents:
        raise Problem(404, E_UNKNOWN, f"There is no agent {agent!r} in this session.")


async def carry_out(
    session: Session, operation: Operation, otherwise: Callable[[], object]
) -> None:
    """Carry out what a user wants, so that the user learns of a refusal.

    Args:
        session: The session.
        operation: What to ask of the process that has the session open, if this one joined it.
        otherwise: Function that does the same in a session that this process has open.

    Raises:
        HilumError: The session refuses it.
    """
    if isinstance(session, JoinedSession):
        await session.request(operation)
    else:
        otherwise()


async def change_session_settings(
    session: Session,
    *,
    mode: str | None = None,
    model: str | None = None,
    approve: str | None = None,
) -> None:
    """Change the mode, model or approval policy of a session.

    Raises:
        HilumError: The session refuses it.
    """
    if isinstance(session, JoinedSession):
        await session.request_change(mode=mode, model=model, approve=approve)
    else:
        session.set(mode=mode, model=model, approve=approve)


def refuse_joined(session: Session) -> None:
    """Check that this process has the session open itself.

    Raises:
        Problem: Another process has it open, and can do this alone (409).
    """
    if isinstance(session, JoinedSession):
        raise Problem(
            409,
            E_BUSY,
            "Another process has the session open, and only that process can do this.",
            "Do it there, or close the session there first.",
        )


def refuse_while_working(session: Session, what: str) -> None:
    """Check that no agent is working.

    Args:
        session: The session.
        what: What cannot be done meanwhile, as the end of a sentence.

    Raises:
        Problem: An agent is working (409).
    """
    if session.runs:
        raise Problem(
            409, E_BUSY, f"The agent is working; {what}.", "Stop it first, or wait until it ends."
        )


def explain_late_answer(error: HilumError, by: str) -> HilumError:
    """Return the error for an answer to something that is no longer open.

    Args:
        error: The error of the session.
        by: Who answered it; empty if this is not known.
    """
    if not isinstance(error, UsageError) or error.code != E_UNKNOWN:
        return error
    who = f"{by} has answered it" if by else "it was answered, it expired, or its run ended"
    return Problem(
        409,
        E_BUSY,
        f"Your answer was too late: {who}.",
        "The conversation shows how it was decided.",
    )


def refuse_shared(hosted: HostedSession, hint: str) -> None:
    """Refuse to copy a session that a terminal shares: the copy could not be opened there.

    Raises:
        Problem: A terminal in this process has the session open (409).
    """
    if not hosted.is_own:
        raise Problem(409, E_BUSY, "A terminal shares this conversation alone.", hint)
