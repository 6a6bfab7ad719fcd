"""Plain lines without a terminal: which line answers what, and what Ctrl-D does."""

from types import SimpleNamespace

import attrs
import pytest
import trio
from hilum_terminal.approval_items import (
    Answer,
    PlanDecision,
    QuestionAnswer,
    ShowWhole,
    WaitingCall,
    WaitingPlan,
    WaitingQuestion,
)
from hilum_terminal.approval_options import question_options
from hilum_terminal.options import ChatOptions
from hilum_terminal.plain_face import ALONE, EARLY, PlainFace
from hilum_terminal.plain_questions import AskedItem, Misfit, NextStep, answer_rows, read_reply

CALL = WaitingCall(id="a1", tool="run", description="git push", scope="run(git *)", covers="git *")
OTHER = WaitingCall(id="a2", tool="run", description="git pull", scope="run(git *)")
PLAN = WaitingPlan(id="plan r1", text="1. Do it")


class Lines:
    """A face in plain lines whose output is kept, and whose decisions are recorded."""

    def __init__(self, folder, nursery):
        self.face = PlainFace(ChatOptions(workspace=folder, environ={}))
        self.face._nursery = nursery
        self.face.terminal.take_input = lambda: None
        self.face.commands.decide = lambda result: self.decisions.append(result)
        self.face.submit = self.take_prompt
        self.decisions = []
        self.prompts = []
        nursery.start_soon(self.paint)
        self.written = []

    def take_prompt(self, text, **_):
        self.prompts.append(text)

    async def paint(self):
        async for piece in self.face._output:
            self.written.append(getattr(piece, "text", ""))
            getattr(piece, "written", lambda: None)()

    @property
    def text(self):
        return "\n".join(self.written)

    async def type(self, line):
        """Type a line alone: nothing arrives shortly before and after it."""
        await trio.sleep(ALONE + 0.05)
        self.face._take_line(line)
        await trio.sleep(ALONE + 0.05)

    async def ask(self, *items):
        self.face.show_waiting(items)
        await trio.sleep(EARLY + 0.1)


@pytest.fixture
async def lines(tmp_path, nursery):
    return Lines(tmp_path, nursery)


async def test_ctrl_d_before_a_question_can_be_read_does_nothing(autojump_clock, lines):
    """It neither answers nor ends the conversation."""
    lines.face.show_waiting([CALL])
    lines.face._take_end()
    assert not lines.face._is_leaving
    assert lines.decisions == []
    await trio.sleep(EARLY + 0.1)
    assert "Press it again" in lines.text
    lines.face._take_end()
    assert lines.decisions == [Answer("a1", False)]
    lines.face.show_waiting([])
    lines.face._take_end()
    assert lines.face._is_leaving


async def test_ctrl_d_for_an_editor_does_nothing(autojump_clock, lines, monkeypatch):
    """Neither while the editor opens nor right after it was closed."""
    await lines.ask(CALL)
    lines.face.hold_keys()
    lines.face._take_end()
    assert not lines.face._is_leaving
    assert lines.decisions == []
    monkeypatch.setattr(lines.face.terminal, "_kept_modes", trio.CancelScope)
    async with lines.face.lend():
        lines.face.release_keys()
    lines.face._take_end()
    await trio.sleep(0.1)
    lines.face._take_end()
    assert not lines.face._is_leaving
    assert lines.decisions == []
    await trio.sleep(1.0)
    lines.face._take_end()
    assert lines.decisions == [Answer("a1", False)]


async def test_a_plan_that_was_left_undecided_is_asked_about_again(autojump_clock, lines):
    lines.face.conversation.view = SimpleNamespace(
        waiting=[], lead_actor=SimpleNamespace(proposal=SimpleNamespace(run="r1"))
    )
    await lines.ask(PLAN)
    # Until it was left undecided, the word is a text for the agent.
    await lines.type("plan")
    assert lines.prompts == ["plan"]
    await lines.type("later")
    await trio.sleep(0.1)
    assert "Type plan to be asked again" in lines.text
    await lines.type("yes")
    assert lines.prompts == ["plan", "yes"]
    await lines.type("Plan")
    await trio.sleep(EARLY + 0.1)
    await lines.type("yes")
    assert lines.decisions == [PlanDecision("plan r1", "later"), PlanDecision("plan r1", "accept")]


@pytest.mark.parametrize("word", ["session", "always"])
async def test_a_lasting_answer_covers_only_what_was_shown(autojump_clock, lines, word):
    """Not a call that has changed, and not one that came later."""
    await lines.ask(CALL, OTHER)
    assert "git pull" in lines.text
    changed = WaitingCall(id="a2", tool="run", description="rm -rf /", scope="run(git *)")
    later = WaitingCall(id="a3", tool="run", description="git gc", scope="run(git *)")
    lines.face.show_waiting([CALL, changed, later])
    await lines.type(word)
    if word == "always":
        await trio.sleep(EARLY + 0.1)
        assert "rm -rf" in lines.text
        lines.face.show_waiting([CALL, OTHER])
        await lines.type("yes")
    assert lines.decisions == [Answer("a1", True, remember=word)]


async def test_unchanged_calls_are_covered(autojump_clock, lines):
    await lines.ask(CALL, OTHER)
    await lines.type("session")
    assert lines.decisions == [Answer("a1", True, remember="session"), Answer("a2", True)]


def test_letters_name_the_words_that_are_possible():
    """A letter never answers; the reply names words that are answers to this question."""
    dangerous = WaitingCall(id="a1", dangerous=True, scope="run(rm *)")
    everything = "yes, no, edit, view"
    table = (
        (AskedItem(CALL), "s", "session"),
        (AskedItem(CALL), "A", "always"),
        (AskedItem(CALL), "l", f"{everything}, session, always"),
        (AskedItem(dangerous), "s", everything),
        (AskedItem(CALL, step="always"), "s", "yes, no"),
        (AskedItem(CALL, step="always"), "y", "yes"),
        (AskedItem(PLAN), "s", "yes, no, edit, later, view"),
        (AskedItem(PLAN), "l", "later"),
    )
    wrong = []
    for asked, letter, words in table:
        reply = read_reply(asked, letter)
        if reply != Misfit(f"Please type the whole word: {words}"):
            wrong.append((asked, letter, reply))
    assert wrong == []
    # These are texts for the agent.
    assert read_reply(AskedItem(CALL, step="always"), "session") is None
    assert read_reply(AskedItem(CALL), "x") is None
    assert read_reply(AskedItem(WaitingQuestion(id="q1")), "s") is None


def test_words_answer():
    table = (
        (AskedItem(CALL), "Yes", (Answer("a1", True),)),
        (AskedItem(CALL), "no, not now", (Answer("a1", False, "not now"),)),
        (AskedItem(CALL), "view", (ShowWhole("a1"),)),
        (AskedItem(CALL), "always", NextStep("always")),
        (AskedItem(CALL, step="always"), "no", NextStep("choose")),
        (AskedItem(PLAN), "later", (PlanDecision("plan r1", "later"),)),
    )
    assert [line for line in table if read_reply(line[0], line[1]) != line[2]] == []


@pytest.mark.parametrize(
    "text", ["yes\nthanks", "please\nyes", "ah\nyes\nso", "yes\nyes", "hi\n\nyes", "session\nok"]
)
@pytest.mark.parametrize("pause", [0.0, 0.1, 0.19])
async def test_a_line_that_does_not_come_alone_is_no_answer(autojump_clock, lines, text, pause):
    await lines.ask(CALL)
    await trio.sleep(5)
    for line in text.split("\n"):
        lines.face._take_line(line)
        await trio.sleep(pause)
    await trio.sleep(1)
    assert lines.decisions == []
    assert lines.prompts == [line for line in text.split("\n") if line]
    assert "came together with other text" in lines.text
    await lines.type("yes")
    assert lines.decisions == [Answer("a1", True)]


async def test_a_commands_question_is_not_answered_by_a_paste(autojump_clock, lines, nursery):
    results = []

    async def confirm():
        results.append(await lines.face.confirm("Restore?", yes="Restore"))

    nursery.start_soon(confirm)
    await trio.sleep(1)
    for line in ("please", "yes", "yes", ""):
        lines.face._take_line(line)
    await trio.sleep(1)
    # The first line that is not "yes" means no.
    assert results == [False]
    nursery.start_soon(confirm)
    await trio.sleep(1)
    for line in ("yes", "yes"):
        lines.face._take_line(line)
    await trio.sleep(1)
    assert results == [False]
    assert "because it came together with others: yes" in lines.text
    await lines.type("yes")
    assert results == [False, True]


async def test_an_answer_to_a_question_that_has_just_ended_is_text(autojump_clock, lines):
    await lines.ask(CALL)
    await trio.sleep(1)
    lines.face._take_line("yes")
    lines.face.show_waiting([OTHER])
    await trio.sleep(1)
    assert lines.decisions == []
    assert lines.prompts == ["yes"]


DECISION = WaitingQuestion(
    id="q1", options=("Not now", "Yes, run them", "No, never"), is_decision=True
)


@pytest.mark.parametrize(
    ("typed", "answers"),
    [
        ("yes", ("Yes, run them",)),
        ("No", ("No, never",)),
        ("2", ("Yes, run them",)),
        ("skip", ()),
    ],
)
def test_a_question_of_hilum_takes_yes_and_no_as_calls_do(typed, answers):
    assert read_reply(AskedItem(DECISION), typed) == (QuestionAnswer("q1", answers),)
    assert read_reply(AskedItem(DECISION), "n") == Misfit("Please type the whole word: yes, no")
    rows = answer_rows(AskedItem(DECISION), 80)
    assert "skip: nothing is done" in rows
    assert "yes: Yes, run them" in rows


def test_an_agents_options_are_chosen_by_number_only():
    """Its second option may begin with a word that means the opposite."""
    asked = attrs.evolve(DECISION, is_decision=False)
    assert read_reply(AskedItem(asked), "yes") is None
    assert "skip: the agent decides" in answer_rows(AskedItem(asked), 80)


def test_keys_of_a_question_of_hilum():
    options = question_options(DECISION, ())
    assert [option.key for option in options] == ["1", "y", "n", "o", "l", "v", "w"]
    assert "no answer" in [option.label for option in options]
    asked = attrs.evolve(DECISION, is_decision=False)
    assert [option.key for option in question_options(asked, ())][:3] == ["1", "2", "3"]
