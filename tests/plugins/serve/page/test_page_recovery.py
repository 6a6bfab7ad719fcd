"""After something has gone or ended: the focus, the place and what is still shown as running."""

import pytest

from .conftest import wait_until
from .fake_server import main_agent
from .samples import answer, card, entry, prompt, started
from .test_page_keyboard import focused

pytestmark = pytest.mark.slow(cases=3, of="file")

RUNNING = {"running": True, "agents": [main_agent(running=True, state="running")]}
IDLE = {"running": False, "agents": [main_agent()]}
SHELL = {"id": "l1", "user": "ada", "command": "make", "running": True, "output": "", "status": None,
         "stopped": False, "error": "", "note": ""}  # fmt: skip
BACKGROUND = {"id": "b1", "command": "make serve " + "x" * 300, "began": 1.0}


def press(page, button, how):
    button.wait_for()
    if how == "click":
        button.click()
    else:
        button.focus()
        page.keyboard.press("Enter")


@pytest.mark.parametrize("how", ["click", "Enter"])
def test_the_focus_stays_near_when_a_button_goes(server, open_session, how):
    server.state.update(RUNNING, shell=[SHELL], background=[BACKGROUND])
    page = open_session("wide")
    press(page, page.locator(".send.stop"), how)
    server.wait_for("/stop")
    server.change(**IDLE)
    page.locator(".send.stop").wait_for(state="detached")
    wait_until(page, lambda: focused(page) == "TEXTAREA")
    press(page, page.locator(".shell-lines").get_by_role("button", name="Stop"), how)
    server.wait_for("/shell/l1/stop")
    server.change(shell=[{**SHELL, "running": False, "stopped": True}])
    wait_until(page, lambda: page.locator(".shell-lines button").count() == 0)
    wait_until(page, lambda: focused(page) == "TEXTAREA")
    press(page, page.locator(".background-commands").get_by_role("button", name="Stop"), how)
    server.wait_for("/background/b1/stop")
    server.change(background=[])
    page.locator(".background-commands").wait_for(state="detached")
    wait_until(page, lambda: focused(page) == "panel")


def test_the_focus_stays_in_the_dialog_when_an_approval_is_revoked(server, open_session):
    scopes = ["bash: make *", "bash: ls *"]
    server.replies["GET /grants"] = lambda _asked: (200, {"grants": list(scopes)})
    server.replies["DELETE /grants"] = lambda _asked: (200, {"x": scopes.pop()})
    page = open_session()
    page.locator(".composer textarea").fill("/approvals ")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Revoke bash: ls *").click()
    wait_until(page, lambda: page.locator(".grants li").count() == 1)
    wait_until(page, lambda: page.evaluate(
        "document.querySelector('dialog').contains(document.activeElement)"))  # fmt: skip


def test_the_focus_follows_when_a_session_is_closed_and_opened_again(server, open_session):
    page = open_session()
    page.locator(".composer textarea").focus()
    server.close_code = 4404
    server.disconnect()
    again = page.get_by_role("button", name="Open again")
    again.wait_for()
    wait_until(page, lambda: again.evaluate("(button) => button === document.activeElement"))
    page.keyboard.press("Enter")
    server.wait_for("/open")
    again.wait_for(state="hidden")
    wait_until(page, lambda: focused(page) == "TEXTAREA")


def test_a_call_that_was_cut_off_by_the_end_of_hilum_is_not_running(server, open_session):
    call = card(1, "bash", {"command": "sleep 9"}, "running", risk="execute")
    server.entries = [prompt(0, "Go"), call, answer(2, "I was", state="streaming")]
    server.state["left"] = 1
    server.state["started"] = [started("1", "Explore it")]
    page = open_session("wide")
    page.locator(".card[data-state=stopped]").wait_for()
    page.get_by_text("hilum was ended while 1 prompt was in work").wait_for()
    page.locator(".bar.stopped").first.wait_for()
    assert page.locator(".card .spinner, .waiting-dots, .bar.running").count() == 0
    assert page.locator(".agent .tag").inner_text() == "interrupted"
    server.change(left=0, **RUNNING)
    page.locator(".card[data-state=running]").wait_for()


def test_the_timeline_follows_the_stream_and_explains_its_colours(server, open_session):
    server.state.update(RUNNING)
    queued = card(2, "task", {"description": "Explore"}, "running")
    server.entries = [prompt(0, "Go"), card(1, "bash", {"command": "make"}, "running"), queued]
    server.state["started"] = [started("1", "Explore", "queued", call="c2")]
    page = open_session("wide")
    page.locator(".bar.running").wait_for()
    page.locator(".bar.pending").wait_for()
    assert page.locator(".bar.pending").bounding_box()["width"] < 5
    assert "running" in page.locator(".legend").inner_text()
    assert "waiting" in page.locator(".legend").inner_text()
    # The list of spans still says that it runs.
    spans = [{"kind": "call", "entry": 1, "agent": "main", "run": "r1", "name": "bash", "title": "make",
              "asked": 1.0, "began": server.entries[1]["began"], "seconds": 0, "state": "running"}]  # fmt: skip
    server.replies["GET /timeline"] = (200, {"spans": spans})
    server.add(card(1, "bash", {"command": "make"}, "completed"))
    page.locator(".bar.completed").wait_for()
    page.locator(".key.running").wait_for(state="detached")


def test_the_page_opens_where_it_was_after_a_new_login(server, open_session):
    page = open_session(expected="401|WebSocket")
    server.signed_in = False
    server.close_code = 4401
    server.disconnect()
    page.get_by_role("heading", name="You are signed out").wait_for()
    server.signed_in = True
    page.goto("about:blank")
    page.goto(server.url)  # where an address with a token leads to
    page.locator(".connection.open").wait_for(state="attached")
    assert page.url == server.session_url
    page.goto("about:blank")
    page.goto(server.url)
    page.locator(".home").wait_for()  # remembered for one time


def test_signing_out_remembers_no_place(server, open_session):
    page = open_session(expected="401|404")
    page.get_by_role("button", name="Settings").click()
    page.get_by_role("button", name="Sign out of this browser").click()
    page.get_by_role("heading", name="You are signed out").wait_for()
    page.goto("about:blank")
    page.goto(server.url)
    page.locator(".home").wait_for()


@pytest.mark.parametrize(
    ("language", "words"),
    [("en", "With context: 3 recently edited files, an open file, house rules"),
     ("zh", "附带上下文：3 个最近编辑的文件、1 个打开的文件、house rules")],
)  # fmt: skip
def test_the_context_of_a_prompt_is_named_in_words(server, open_session, language, words):
    kinds = ["recently_edited", "open_file", "recently_edited", "house_rules", "recently_edited"]
    context = [{"source": f"context:{kind}", "characters": 9} for kind in kinds]
    server.entries = [prompt(0, "Go", context=context)]
    page = open_session(language=language)
    page.locator(".bubble .quiet", has_text=words).wait_for()


def test_an_unread_message_is_put_back_into_the_input(server, open_session):
    end = {"state": "stopped", "code": "", "error": "", "hint": "", "left": ""}
    server.entries = [
        prompt(0, "Go"),
        entry(1, "outcome", end=end, unread=["Use uv.", "And ruff."]),
    ]
    page = open_session()
    page.get_by_role("button", name="Put “Use uv.” into the input").click()
    wait_until(page, lambda: page.locator(".composer textarea").input_value() == "Use uv.")


def test_a_command_in_the_background_is_shown_whole_with_its_output(server, open_session):
    server.state["background"] = [BACKGROUND]
    shown = {"command": BACKGROUND["command"] + " --end", "output": "up\n"}
    server.replies["GET /background/b1/output"] = lambda _asked: (200, dict(shown))
    page = open_session("wide", expected="404")
    page.get_by_role("button", name="Output of make serve").click()
    dialog = page.locator(".dialog")
    dialog.get_by_text("--end").wait_for()
    dialog.get_by_text("up").wait_for()
    shown["output"] = "up\nserved 1\n"
    dialog.get_by_text("served 1").wait_for()
    gone = {"code": "E_UNKNOWN", "message": "No.", "hint": ""}
    server.replies["GET /background/b1/output"] = (404, gone)
    dialog.get_by_text("It has ended").wait_for()
    assert dialog.get_by_text("served 1").count() == 1
