"""What happens to texts of the user when they cannot be sent, or when the agent is stopped."""

import time
from types import SimpleNamespace

import pytest
import trio
from hilum import StoreError, UsageError
from hilum.events import ApprovalAnswered, ApprovalAsked, Compacted, ModelAnswered
from hilum.messages import AssistantMessage, ToolCall, Usage
from hilum.unread_outputs import UnreadOutputs
from hilum_terminal import conversation as module
from hilum_terminal.approval_items import Answer, ShowWhole, WaitingCall, WaitingPlan
from hilum_terminal.approval_texts import MAX_DESCRIPTION
from hilum_terminal.diff_rows import diff_rows
from hilum_terminal.face import Face
from hilum_terminal.live_rows import measure_run
from hilum_terminal.options import ChatOptions
from hilum_terminal.styles import PLAIN
from hilum_view import Actor, Changes, TodoList


class Session:
    """A session that records what it gets, and rejects what the test says."""

    def __init__(self):
        self.calls = []
        self.rejects = ()
        self.is_read = False
        self.sent_elsewhere = ()
        self.answered_on_page = {}
        self.agents = {}
        self.runs = {}
        self.journal = SimpleNamespace(broken=None)

    def settings(self, kind):
        return SimpleNamespace(notify_after=1e9, notify="off")

    def record(self, name, *values):
        self.calls.append((name, *values))
        if name in self.rejects:
            raise UsageError(f"No {name}.")

    async def prompt(self, text, *, attached="", images=()):
        await trio.lowlevel.checkpoint()
        self.record("prompt", text, attached)
        return SimpleNamespace(reply=None)

    async def steer(self, text, *, agent="main"):
        await trio.lowlevel.checkpoint()
        self.record("steer", text, agent)
        return "m1"

    def answer(self, identity, accepted, **more):
        self.record("answer", identity, accepted)

    def withdraw(self, message, *, agent):
        self.record("withdraw", message, agent)
        return not self.is_read


@pytest.fixture
def face(tmp_path):
    face = Face(ChatOptions(workspace=tmp_path, environ={}))
    face.errors = []
    face.show_error = face.errors.append
    face.conversation.session = Session()
    face.conversation.opened.set()
    return face


def draft(face):
    return face.composer.editor.text


# --- a store that is away ---------------------------------------------------------------------


def test_waiting_for_the_store_is_no_error(face):
    """An error would say that the run has failed; it says so only if the store stays away."""
    said = []
    face.say = lambda text, style="plain": said.append((text, style))
    reason = StoreError("hilum cannot reach the database.", hint="Check the network.")
    face.conversation._tell_of_delay(reason)
    face.conversation._tell_of_delay(None)
    assert face.errors == []
    assert said[0] == (
        "hilum cannot reach the database. The agents wait. Check the network.",
        "warning",
    )
    assert "stored again" in said[1][0]


def test_time_of_a_run_whose_start_is_not_stored_yet_is_not_shown():
    """Its prompt waits for the store, so it is unknown when the run begins."""
    assert measure_run(Actor(name="main")) == 0.0
    ended = Actor(name="main", began=1000.0, state="completed")
    assert measure_run(ended) == 0.0
    running = Actor(name="main", began=time.time() - 5, state="thinking")
    assert 4 < measure_run(running) < 60


# --- what is shown again --------------------------------------------------------------------------


def test_a_resumed_conversation_knows_how_full_the_window_is(face):
    usage = Usage(input=1_000, output=50)
    answered = ModelAnswered(agent="main", run="r1", message=AssistantMessage(()), usage=usage)
    face.conversation.view.apply(answered)
    assert face.conversation._find_used_context() == 1_050
    compacted = Compacted(agent="main", run="r1")
    face.conversation.view.apply(compacted)
    assert face.conversation._find_used_context() == 0


def test_a_finished_todo_list_is_hidden_after_its_run(face, monkeypatch):
    todos = TodoList()
    items = [{"id": "1", "content": "Do it", "status": "completed"}]
    todos.apply({"items": items, "progress": {"completed": 1, "total": 1}})
    is_working = True
    monkeypatch.setattr(module.Conversation, "is_working", property(lambda _: is_working))
    assert not face.live._is_old(todos)
    is_working = False
    assert face.live._is_old(todos)
    is_working = True
    assert face.live._is_old(todos)
    items.append({"id": "2", "content": "Do more", "status": "pending"})
    todos.apply({"items": items, "progress": {"completed": 1, "total": 2}})
    assert not face.live._is_old(todos)


# --- prompts that are not sent --------------------------------------------------------------------


async def test_a_rejected_prompt_returns_to_the_draft(face):
    face.conversation.session.rejects = ("prompt",)
    await face.conversation.prompt("Fix the test")
    assert draft(face) == "Fix the test"
    assert [error.message for error in face.errors] == ["No prompt."]


async def test_a_stop_returns_messages_that_were_not_sent_yet(face, nursery):
    """One is being sent, and another one waits behind it."""
    face._nursery = nursery
    nursery.start_soon(face._act)
    nursery.start_soon(face._send_messages)
    face._send_message(trio.sleep_forever, "First")
    face._send_message(trio.sleep_forever, "Second")
    await trio.testing.wait_all_tasks_blocked()
    assert face._stop()
    assert draft(face) == "First\n\nSecond"
    await trio.testing.wait_all_tasks_blocked()
    assert face.unsent_messages == []
    assert not face._stop()
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("state", "entries", "returned"),
    [
        ("stopped", (), "Fix it"),
        ("completed", (), ""),
        ("stopped", ("answer",), ""),
        ("stopped", ("empty answer",), "Fix it"),
        ("stopped", ("card",), ""),
    ],
)
async def test_a_stopped_prompt_without_an_answer_returns_to_the_draft(
    face, monkeypatch, state, entries, returned
):
    class Entry(SimpleNamespace):
        pass

    for name in ("Prompt", "Answer", "Card"):
        monkeypatch.setattr(module, name, type(name, (Entry,), {}))
    made = {
        "answer": module.Answer(run="r1", state="done"),
        "empty answer": module.Answer(run="r1", state="stopped"),
        "card": module.Card(run="r1"),
    }
    prompt = module.Prompt(run="r1", steers=False, text="Fix it", typed="")
    other = module.Prompt(run="r0", steers=False, text="Earlier", typed="")
    found = [other, prompt, *(made[name] for name in entries)]
    monkeypatch.setattr(face.conversation.view, "entries", found, raising=False)
    monkeypatch.setattr(type(face.conversation), "is_working", False)
    end = SimpleNamespace(run="r1", state=state, seconds=1.0)
    face.conversation._end_run(end, SimpleNamespace(entries=[]))
    assert draft(face) == returned


@pytest.mark.parametrize("is_same", [True, False])
async def test_the_output_of_a_shell_line_is_read_only_in_its_own_session(
    face, monkeypatch, is_same
):
    session = face.conversation.session
    session.unread_outputs = UnreadOutputs()

    async def run(session, line, changed):
        line.output = "output"
        if not is_same:
            face.conversation.session = Session()
        await trio.lowlevel.checkpoint()

    monkeypatch.setattr(module, "run_shell_line", run)
    monkeypatch.setattr(session, "note", lambda *_, **_more: None, raising=False)
    monkeypatch.setattr(session, "emit", lambda _event: 7, raising=False)
    monkeypatch.setattr(face.conversation.transcript, "write_shell_line", lambda *_: None)
    await face.conversation.run_shell("ls")
    assert len(session.unread_outputs) == is_same


# --- decisions about calls ------------------------------------------------------------------------


@pytest.fixture
def commented(face):
    """A call that waits, and an answer to it with a comment."""
    face.conversation.view = SimpleNamespace(waiting=[SimpleNamespace(id="a1", agent="helper")])
    reopened = []
    face.reopen_item = reopened.append
    face.reopened = reopened
    return Answer("a1", True, comment="only this time")


async def test_the_comment_on_a_call_is_sent_before_the_call_runs(face, commented):
    await face.commands._answer_with_comment(commented)
    steered = ("steer", "only this time", "helper")
    assert face.conversation.session.calls == [steered, ("answer", "a1", True)]
    assert draft(face) == ""


async def test_a_call_does_not_run_without_its_comment(face, commented):
    face.conversation.session.rejects = ("steer",)
    await face.commands._answer_with_comment(commented)
    assert [name for name, *_ in face.conversation.session.calls] == ["steer"]
    assert draft(face) == "only this time"
    assert face.reopened == ["a1"]


@pytest.mark.parametrize("is_read", [True, False])
async def test_a_comment_on_a_call_that_cannot_be_approved_is_withdrawn(face, commented, is_read):
    """Otherwise, it would be sent again with the next answer."""
    session = face.conversation.session
    session.rejects = ("answer",)
    session.is_read = is_read
    await face.commands._answer_with_comment(commented)
    assert session.calls[-1] == ("withdraw", "m1", "helper")
    assert draft(face) == ("" if is_read else "only this time")
    assert face.reopened == ["a1"]
    assert len(face.errors) == 1


async def test_a_comment_on_a_call_that_no_longer_waits_returns_to_the_draft(face, commented):
    face.conversation.view.waiting = []
    await face.commands._answer_with_comment(commented)
    assert face.conversation.session.calls == []
    assert draft(face) == "only this time"


LONG = "x = 1\n" * 5_000 + "the middle\n" + "y = 2\n" * 5_000
DIFF = f"@@ -1 +1 @@\n-a\n+{'b' * 12_000}the middle{'c' * 12_000}\n"


@pytest.mark.parametrize("full_screen", [False, True])
@pytest.mark.parametrize(
    "item",
    [
        WaitingCall(id="a1", description="git push the middle"),
        WaitingCall(id="a1", description=LONG, make_rows=lambda *_: ["shortened"]),
        WaitingCall(
            id="a1",
            description=DIFF,
            make_rows=lambda width, theme: diff_rows(DIFF, width=width, theme=theme),
        ),
        WaitingPlan(id="a1", text=LONG),
    ],
    ids=["short", "long", "long line", "plan"],
)
async def test_the_whole_call_is_shown(face, item, full_screen):
    """Also the middle of a description that is too long for the prompt."""
    assert len(LONG) > MAX_DESCRIPTION
    blocks = []
    views = []
    face.commit = blocks.append
    face.open_full_view = views.append
    face.commands._find = lambda identity: item
    face.commands.decide(ShowWhole("a1", full_screen=full_screen))
    shown = views[0].page.make_rows if full_screen else blocks[0].make
    assert "the middle" in "".join(row.strip() for row in shown(200, PLAIN)).replace("  ", " ")


async def test_the_text_of_a_second_step_is_shown(face):
    blocks = []
    face.commit = blocks.append
    face.commands._find = lambda identity: WaitingCall(id="a1")
    face.commands.decide(ShowWhole("a1", text="1. git push\n2. git pull"))
    assert blocks[0].make(80, PLAIN) == ["1. git push", "2. git pull"]


@pytest.mark.parametrize(
    ("remember", "scope", "expected"),
    [
        ("once", "run_terminal_cmd(touch *)", "Allowed by ada on the page."),
        (
            "session",
            "run_terminal_cmd(=touch a\nmake)",
            "Allowed by ada on the page.\nAlso allowed until this session ends:"
            " run_terminal_cmd(=touch a\\nmake) (/permissions shows it)",
        ),
        (
            "always",
            "",
            "Allowed by ada on the page.\nAlso allowed in later sessions:"
            " all calls of write_file (/permissions shows it)",
        ),
    ],
)
@pytest.mark.parametrize("is_here", [True, False])
async def test_a_lasting_approval_on_the_page_is_shown(face, remember, scope, expected, is_here):
    """The page may belong to this process, or to a server that has joined the session."""
    conversation = face.conversation
    notes = []
    conversation.transcript.note = lambda text, *style: notes.append(text)
    call = ToolCall("c1", "write_file" if not scope else "run_terminal_cmd", "{}")
    asked = ApprovalAsked(agent="main", run="r1", id="q1", call=call, risk="execute", scope=scope)
    conversation._react(asked, Changes())
    if is_here:
        conversation.session.answered_on_page = {"q1": "ada"}
    else:
        conversation.session.sent_elsewhere = {"q1"}
    answer = ApprovalAnswered(
        agent="main", run="r1", id="q1", accepted=True, remember=remember, user="ada"
    )
    conversation._react(answer, Changes())
    assert notes == [expected]
