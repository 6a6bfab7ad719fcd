"""What a user writes about a call is never lost, and never decides anything."""

import random

import pytest

from .conftest import wait_until
from .samples import approval, card, prompt
from .test_page_decisions import PLAN, QUESTION, ask

pytestmark = pytest.mark.slow(cases=3, of="file")

# Every letter that is a command, and digits that choose options.
TYPED = "as an example, never again: 1 or 2 pages max; a plan, axes, gnomes. "


def decided(server):
    """Return the requests that decide something."""
    starts = ("/approvals", "/questions", "/plans")
    return [
        each
        for each in server.asked
        if each.method == "POST"
        and each.path.startswith(starts)
        and not each.path.endswith("shown")
    ]


def type_text(page, text, pauses):
    """Type a text with a pause after each key, in milliseconds."""
    for letter in text:
        page.keyboard.press("Space" if letter == " " else letter)
        page.wait_for_timeout(pauses())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_reason_stays_when_another_page_answers_and_typing_accepts_nothing(
    server, open_session, seed
):
    ask(server, count=2)
    page = open_session()
    choice = random.Random(seed)
    page.locator(".decision .accept:enabled").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("x")
    page.locator(".decision .reason:focus").wait_for()
    cut = choice.randrange(0, 30)
    page.keyboard.type(TYPED[:cut])
    server.change(waiting=server.state["waiting"][1:])
    page.locator(".answered-line").get_by_text("This was answered meanwhile.").wait_for()
    # Pauses within words, and one as long as thinking takes.
    type_text(page, TYPED[cut:], lambda: choice.choice([0, 0, 5, 20, 60]))
    page.wait_for_timeout(1_200)
    type_text(page, "and a last a", lambda: 10)
    field = page.locator(".decision .reason")
    assert field.input_value() == TYPED + "and a last a"
    assert page.evaluate("document.activeElement.className") == "reason"
    field.press("Enter")
    assert decided(server) == []
    page.get_by_role("button", name="Put into the input").click()
    wait_until(
        page,
        lambda: (
            page.locator(".composer textarea").input_value() == (TYPED + "and a last a").strip()
        ),
    )
    page.locator(".decision[data-id=a1]").wait_for()
    assert page.locator(".answered-line").count() == 0
    assert decided(server) == []


@pytest.mark.parametrize("kind", ["arguments", "plan", "changes", "question"])
def test_every_field_of_the_bar_stays_when_the_time_runs_out(server, open_session, kind):
    waiting = card(1, "bash", {"command": "make"}, "waiting_for_approval", risk="execute")
    server.entries = [prompt(0, "Go"), waiting]
    first = {"arguments": approval("a1", waiting), "question": QUESTION}.get(kind, PLAN)
    server.state["waiting"] = [first]
    page = open_session()
    if kind == "arguments":
        page.locator(".decision .edit:enabled").click()
    elif kind == "plan":
        page.locator(".decision").get_by_role("button", name="Edit").click()
    elif kind == "changes":
        page.locator(".decision .reject").click()
    field = page.locator(".decision textarea, .free-answer input").first
    field.focus()
    page.keyboard.press("End")
    before = field.input_value()
    page.keyboard.type("ax")
    server.change(waiting=[approval("a2", waiting)])
    page.locator(".answered-line").wait_for()
    page.keyboard.type("ea1")
    assert field.input_value() == before + "axea1"
    page.keyboard.press("Escape")
    page.locator(".scroller:focus").wait_for()
    assert field.input_value() == before + "axea1"
    page.get_by_role("button", name="Discard").click()
    page.locator(".decision[data-id=a2]").wait_for()
    assert decided(server) == []


def test_a_reason_comes_back_when_the_call_is_shown_again(server, open_session):
    ask(server, count=2)
    page = open_session()
    page.locator(".decision .reject:enabled").click()
    page.locator(".decision .reason").fill("Not now.")
    page.get_by_role("button", name="Next").click()
    page.locator(".decision[data-id=a1]").wait_for()
    assert page.locator(".decision .reason").count() == 0
    page.get_by_role("button", name="Previous").click()
    assert page.locator(".decision .reason").input_value() == "Not now."
    page.get_by_role("button", name="Next").click()
    server.change(waiting=server.state["waiting"][1:])
    # Answered elsewhere while another one was shown: it is still in the row of items.
    page.get_by_role("button", name="Next").click()
    page.locator(".answered-line").wait_for()
    assert page.locator(".decision .reason").input_value() == "Not now."


def test_a_refused_rejection_keeps_its_reason(server, open_session):
    ask(server)
    stale = {"code": "E_STALE", "message": "Answered.", "hint": ""}
    server.replies["POST /approvals/a0"] = (409, stale)
    page = open_session(expected="409")
    page.locator(".decision .reject:enabled").click()
    page.locator(".decision .reason").fill("Use uv.")
    page.keyboard.press("Enter")
    server.wait_for("/approvals/a0")
    server.change(waiting=[])
    page.locator(".answered-line").wait_for()
    assert page.locator(".decision .reason").input_value() == "Use uv."


def test_a_sent_rejection_leaves_no_field(server, open_session):
    ask(server, count=2)
    page = open_session()
    page.locator(".decision .reject:enabled").click()
    page.locator(".decision .reason").fill("Use uv.")
    page.keyboard.press("Enter")
    server.wait_for("/approvals/a0")
    server.change(waiting=server.state["waiting"][1:])
    page.locator(".decision[data-id=a1]").wait_for()
    assert page.locator(".answered-line, .reason").count() == 0


@pytest.mark.parametrize("pause", [0, 300, 1_500])
def test_typing_that_lost_its_field_is_no_command_until_escape(server, open_session, pause):
    """Here the input goes, because a script takes it; a session that is closed does the same."""
    ask(server)
    page = open_session()
    page.locator(".decision .accept:enabled").wait_for()
    page.locator(".composer textarea").focus()
    page.keyboard.type("Please ")
    page.evaluate("document.querySelector('.scroller').focus()")
    page.wait_for_timeout(pause)
    page.keyboard.type("a name")
    page.locator(".toast", has_text="Single keys are off").wait_for()
    assert page.locator(".toast").count() == 1
    assert decided(server) == []
    assert page.locator(".dialog").count() == 0
    assert not any((each.method, each.path) == ("POST", "/sessions") for each in server.asked)
    page.keyboard.press("Escape")
    page.keyboard.press("a")
    server.wait_for("/approvals/a0")


def test_after_a_sent_text_a_key_decides_only_after_a_pause(server, open_session):
    ask(server)
    page = open_session()
    page.locator(".decision .accept:enabled").wait_for()
    page.clock.install()
    page.locator(".find-input").wait_for(state="detached")
    page.keyboard.press("Control+f")
    page.keyboard.type("Go")
    page.keyboard.press("Enter")
    page.evaluate("document.querySelector('.scroller').focus()")
    page.clock.run_for(500)
    page.keyboard.press("a")
    page.clock.run_for(2_000)
    assert decided(server) == []
    page.keyboard.press("a")
    server.wait_for("/approvals/a0")


def test_what_was_written_is_a_draft_after_the_page_was_left(server, open_session):
    ask(server)
    page = open_session()
    page.locator(".decision .reject:enabled").click()
    page.locator(".decision .reason").fill("Use uv.")
    page.evaluate("location.hash = '#/'")
    page.locator(".home").wait_for()
    page.evaluate("location.hash = '#/s/s1'")
    page.locator(".decision").wait_for()
    assert page.locator(".composer textarea").input_value() == "Use uv."
