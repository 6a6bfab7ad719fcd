"""The page without a mouse: the focus is visible, in order, and never lost."""

import pytest

from .conftest import wait_until
from .samples import TODO, approval, card, prompt, result
from .test_page_decisions import ask

pytestmark = pytest.mark.slow(cases=3, of="file")

FOCUS = """() => { const e = document.activeElement;
    return e === document.body || e === null ? 'body' : (e.className || e.tagName).split(' ')[0]; }"""
IS_VISIBLE = """() => { const e = document.activeElement;
    const parts = [e, ...['.icon-button', '.input-box'].map((each) => e.closest(each)).filter(Boolean)];
    return parts.some((each) => { const style = getComputedStyle(each);
        return (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1) || style.boxShadow !== 'none'; }); }"""


def focused(page):
    """Return the first class of the focused element, once the page has drawn."""
    page.evaluate(
        "() => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))"
    )
    return page.evaluate(FOCUS)


@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_the_focus_stays_after_a_call_was_accepted_in_the_bar(server, open_session, key):
    ask(server)
    page = open_session()
    page.locator(".decision .accept:enabled").focus()
    page.keyboard.press(key)
    server.wait_for("/approvals/a0")
    server.change(waiting=[])
    page.locator(".decision").wait_for(state="detached")
    assert focused(page) == "scroller"


def test_the_focus_stays_after_each_way_to_leave_the_bar(server, open_session):
    ask(server)
    page = open_session()
    for button, field in ((".reject", ".reason"), (".edit", ".fields textarea")):
        page.locator(f".decision {button}:enabled").focus()
        page.keyboard.press("Enter")
        page.locator(f".decision {field}").wait_for()
        assert page.evaluate("document.activeElement.tagName") == "TEXTAREA"
        page.keyboard.press("Escape")
        page.locator(f".decision {field}").wait_for(state="detached")
        assert focused(page) == "scroller"
    page.keyboard.press("x")
    page.locator(".decision .reason:focus").wait_for()
    page.keyboard.type("No.")
    page.keyboard.press("Enter")
    server.wait_for("/approvals/a0")
    server.change(waiting=[])
    page.locator(".decision").wait_for(state="detached")
    assert focused(page) == "scroller"


def test_the_focus_stays_when_somebody_else_answers(server, open_session):
    ask(server, count=2)
    page = open_session()
    page.locator(".decision .accept:enabled").focus()
    server.change(waiting=server.state["waiting"][1:])
    page.locator(".decision[data-id=a1]").wait_for()
    assert focused(page) == "scroller"
    page.locator(".decision .accept:enabled").focus()
    server.change(waiting=[])
    page.locator(".decision").wait_for(state="detached")
    assert focused(page) == "scroller"


def test_the_focus_stays_in_a_card_whose_buttons_go(server, open_session):
    failed = card(1, "bash", {"command": "pytest"}, "failed", result=result("E_X: No", "E_X"))
    server.entries = [prompt(0, "Go"), failed]
    page = open_session()
    page.locator(".card").get_by_role("button", name="Retry").focus()
    page.keyboard.press("Enter")
    server.wait_for("/calls/c1/repeat")
    server.add({**failed, "repeated_by": "c2"})
    page.get_by_role("button", name="Retry", exact=True).wait_for(state="detached")
    assert focused(page) == "row"
    waiting = card(2, "bash", {"command": "make"}, "waiting_for_approval", risk="execute", began=0)
    server.add(waiting)
    server.change(waiting=[approval("a2", waiting)])
    page.locator(".decision .accept:enabled").wait_for()
    page.locator(".card.waiting").get_by_role("button", name="Accept").focus()
    page.keyboard.press("Enter")
    server.wait_for("/approvals/a2")
    server.add(card(2, "bash", {"command": "make"}, "running", risk="execute"))
    server.change(waiting=[])
    page.locator(".card.running").wait_for()
    assert focused(page) == "row"


def test_dialogs_return_the_focus_to_what_opened_them(server, open_session):
    page = open_session()
    more = page.get_by_role("button", name="Actions for Mend the calculator")
    for action in ("Rename", "Export", "Delete"):
        more.focus()
        page.keyboard.press("Enter")
        page.locator(".session-menu button:focus").wait_for()
        page.get_by_role("menuitem", name=action).focus()
        page.keyboard.press("Enter")
        page.locator(".dialog").wait_for()
        page.keyboard.press("Escape")
        page.locator(".dialog").wait_for(state="detached")
        assert focused(page) == "icon-button"
        assert more.evaluate("(button) => button === document.activeElement"), action
    page.locator(".composer textarea").focus()
    page.keyboard.type("/keys ")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Keyboard").wait_for()
    page.keyboard.press("Escape")
    page.locator(".composer textarea:focus").wait_for()
    page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    page.locator(".dialog").wait_for(state="detached")
    page.keyboard.press("?")
    page.locator(".dialog").wait_for()
    page.keyboard.press("Escape")
    page.locator(".scroller:focus").wait_for()


@pytest.mark.parametrize("size", ["phone", "tablet"])
def test_drawers_take_the_focus_and_return_it(server, open_session, size):
    page = open_session(size)
    drawers = {".open-right": ".panel :focus"}
    if size == "phone":
        drawers[".open-left"] = "#session-search:focus"
    for opener, inside in drawers.items():
        page.locator(opener).focus()
        page.keyboard.press("Enter")
        page.locator(inside).wait_for()
        page.keyboard.press("Escape")  # leaves a field, if there is one
        page.keyboard.press("Escape")
        wait_until(page, lambda: page.locator(".drawer-left, .drawer-right").count() == 0)
        assert focused(page) in ("icon-button", "scroller")


def test_the_focus_goes_to_the_start_after_the_session_was_deleted(server, open_session):
    page = open_session()
    page.locator(".scroller").focus()
    page.get_by_role("button", name="Actions", exact=True).press("Enter")
    page.locator(".choice", has_text="Delete").press("Enter")
    page.locator(".dialog").get_by_role("button", name="Delete").press("Enter")
    page.locator(".home").wait_for()
    assert focused(page) != "body"


@pytest.mark.parametrize("size", ["tablet", "wide"])
def test_tab_visits_everything_in_the_order_of_the_screen_and_is_visible(
    server, open_session, size
):
    ask(server)
    server.state["todo"] = [TODO]
    page = open_session(size)
    page.locator(".decision .accept:enabled").wait_for()
    page.locator(".skip").focus()
    places = []
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate(FOCUS) == "body":
            break
        assert page.evaluate(IS_VISIBLE), page.evaluate("document.activeElement.outerHTML.slice(0, 120)")  # fmt: skip
        place = page.evaluate("""() => document.activeElement.closest(
            '.sidebar, .top, .scroller, .decision, .composer, .status, .panel').className.split(' ')[0]""")
        if not places or places[-1] != place:
            places.append(place)
    expected = ["sidebar", "top", "scroller", "decision", "composer", "status"]
    assert places[: len(expected)] == expected
    assert places[len(expected) :] == (["panel"] if size == "wide" else [])
