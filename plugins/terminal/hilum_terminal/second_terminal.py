"""What a conversation does differently if another terminal has its session open."""

from __future__ import annotations

import trio
from hilum import HilumError, Session, StoreError, UsageError
from hilum.errors import E_BUSY
from hilum.sharing import JoinedSession, is_shared

from hilum_terminal.face_protocol import FaceProtocol
from hilum_terminal.transcript import Transcript

# Commands that use what only the process that has the session open has: its file history, its
# background commands and its tools.
OWNER_COMMANDS = frozenset(("context", "ps", "rewind", "stop", "undo"))
# Seconds to wait until the other process has closed the session.
CLOSING_TIMEOUT = 20.0


def is_joined(session: Session | None) -> bool:
    """Return whether another terminal has a session open, and this one only joined it."""
    return isinstance(session, JoinedSession)


def refuse_joined(session: Session, what: str) -> None:
    """Refuse something that works only in the terminal that has the session open.

    Args:
        session: The session.
        what: What the user entered, for example ``/undo``.

    Raises:
        UsageError: This terminal only joined the session.
    """
    if is_joined(session):
        raise UsageError(
            f"{what} works only in the terminal that has this conversation open.",
            code=E_BUSY,
            hint="Enter it there.",
        )


def report_problems(session: JoinedSession, face: FaceProtocol, transcript: Transcript) -> None:
    """Show problems with the other terminal when they occur.

    Args:
        session: The session.
        face: The face that shows the conversation.
        transcript: The transcript of the conversation.
    """

    def note_refused(identity: str) -> None:
        # If the item still waits, for example because edited arguments do not fit, it is asked
        # again.
        face.reopen_item(identity)
        face.note_waiting()

    def note_silence() -> None:
        if session.is_silent:
            text = (
                "! The terminal that has this conversation open does not respond; it may be"
                " suspended. Nothing can be sent until it continues, or is ended."
            )
            transcript.note(text, "warning")
        elif not session.lost.is_set():
            transcript.note("The other terminal responds again.", "dim")
        face.changed()

    session.on_problem = face.show_error
    session.on_refused = note_refused
    session.on_silence = note_silence


async def offer_takeover(session: JoinedSession, face: FaceProtocol) -> bool:
    """Wait until the other terminal leaves; return whether the user continues the session here.

    Args:
        session: The session.
        face: The face that shows the conversation.
    """
    await session.lost.wait()
    # What waited for an answer no longer does.
    face.note_waiting()
    face.changed()
    face.say("! The terminal that had this conversation open has left.", style="warning")
    while True:
        accepted = await face.confirm(
            "Continue the conversation in this terminal?", yes="Yes, continue here"
        )
        if not accepted:
            face.say(f"To continue it later: /resume {session.id}", style="dim")
            return False
        try:
            await _wait_until_free(session)
        except HilumError as error:
            face.show_error(error)
        else:
            return True


async def _wait_until_free(session: JoinedSession) -> None:
    """Wait until the session can be opened, or another terminal has opened and shares it.

    Raises:
        StoreError: The other process does not close the session (``E_BUSY``).
    """
    kernel = session.kernel
    with trio.move_on_after(CLOSING_TIMEOUT):
        # The state of another process, which sends no event when it changes.
        while await kernel.store.is_open(session.id):
            if await is_shared(kernel, session.id):
                return
            await trio.sleep(0.1)
        return
    raise StoreError(
        "The other process has not closed the session yet.",
        code=E_BUSY,
        hint="End it, then try again.",
    )
