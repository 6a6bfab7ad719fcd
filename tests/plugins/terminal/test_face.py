"""The full terminal without a terminal: which part gets a key."""

import trio
from hilum_terminal.approval_items import WaitingCall
from hilum_terminal.face import Face
from hilum_terminal.keys import Key
from hilum_terminal.options import ChatOptions
from hilum_terminal.styles import PLAIN


async def test_keys_before_a_question_opens_delay_its_focus(tmp_path):
    """Typing that began before the question must not answer it."""
    face = Face(ChatOptions(workspace=tmp_path, environ={}))
    face._handle(Key("text", "x"))
    face._handle(Key("backspace"))
    now = trio.current_time()
    face.show_waiting([WaitingCall(id="a1", description="git push")])
    face.approvals.rows(80, 12, PLAIN, now)
    face.approvals.tick(now + 0.4, draft_empty=True)
    assert not face.approvals.focused
    face.approvals.tick(now + 0.6, draft_empty=True)
    assert face.approvals.focused
