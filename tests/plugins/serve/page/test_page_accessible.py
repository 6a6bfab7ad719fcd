"""Every state of the page is accessible, fits its screen and can be hit with a finger.

Each state is opened at 390, 1,024 and 1,920 pixels, in both languages, light and dark; a usual run of the
tests takes a sample of them.
"""

import json

import pytest

from .conftest import SIZES, keep_screenshot
from .fake_server import main_agent
from .samples import DIFF, TODO, approval, card, every_state, prompt, started

MIN_TARGET = 32  # pixels
# Links in text and what is only for the eye are no targets; a switch is hit with its whole label.
SMALL_TARGETS = """(least) => [...document.querySelectorAll(
    'button, select, input:not(.visually-hidden), textarea, summary, .setting, .session a, [role=option]')]
    .filter((each) => !each.closest('label.setting, .timeline') || each.matches('.setting'))
    .filter((each) => each.checkVisibility({visibilityProperty: true}) && !each.matches('.skip, .backdrop'))
    .map((each) => [each, each.getBoundingClientRect()])
    .filter(([, box]) => box.width > 0 && (box.width < least - 0.5 || box.height < least - 0.5))
    .map(([each, box]) => `${each.className || each.tagName} ${(each.ariaLabel ?? each.textContent).trim()
        .slice(0, 30)}: ${Math.round(box.width)} × ${Math.round(box.height)}`)"""
# Texts that are cut without an ellipsis, or stick out of what they are in.
CUT_TEXTS = """() => [...document.querySelectorAll('button, h1, h2, h3, label > span, .tag, .quiet')]
    .filter((each) => each.checkVisibility({visibilityProperty: true}) && each.textContent.trim())
    .filter((each) => each.scrollWidth > each.clientWidth + 1 && each.clientWidth > 0)
    .filter((each) => getComputedStyle(each).display !== 'inline')
    .filter((each) => getComputedStyle(each).textOverflow !== 'ellipsis')
    .map((each) => `${each.className || each.tagName}: ${each.textContent.trim().slice(0, 60)}`)"""

QUESTION = {"kind": "question", "id": "q1", "seq": 1, "agent": "main", "call": "", "question": "Which one?",
            "options": ["The short one", "The one that rewrites the whole module and its tests"],
            "multiple": True, "deadline": 0}  # fmt: skip
PLAN = {"kind": "plan", "id": "r1", "seq": 1, "agent": "main",
        "text": "## Plan\n\n1. Read `calc.py`\n2. **Mend** it\n\n| step | file |\n|---|---|\n| 1 | calc.py |"}  # fmt: skip
CHANGE = {
    "path": "src/calc.py",
    "what": "changed",
    "diff": DIFF,
    "note": "",
    "added": 3,
    "removed": 1,
}


def wait_for_call(server, *, tool="bash", **facts):
    arguments = {"path": "a"} if tool == "edit_file" else {"command": "pytest -q", "seconds": 3}
    cards = [card(n, tool, arguments, "waiting_for_approval", risk="execute") for n in (1, 2)]
    server.entries = [prompt(0, "Go"), *cards]
    server.state["waiting"] = [approval(f"a{n}", each) for n, each in enumerate(cards)]
    for n in (0, 1):
        server.replies[f"facts a{n}"] = {
            "text": "pytest -q",
            "covers": "commands: pytest",
            "rule": "bash: pytest *",
            **facts,
        }


def open_approval(server, open_session):
    wait_for_call(server, dangers=[{"text": "deletes files outside of Git", "grave": False}])
    page = open_session()
    page.locator(".decision .accept:enabled").wait_for()
    page.locator(".segments button").nth(2).click()
    page.locator(".rule").wait_for()
    return page


def open_grave_approval(server, open_session):
    wait_for_call(server, dangers=[{"text": "deletes files outside of Git", "grave": True}])
    page = open_session()
    page.locator(".danger-line.grave").wait_for()
    return page


def open_approval_of_a_change(server, open_session):
    wait_for_call(server, tool="edit_file", text=f"── edit_file\n   changes src/calc.py\n{DIFF}")
    page = open_session()
    page.locator(".decision table.diff .added").first.wait_for()
    return page


def open_rejection(server, open_session):
    wait_for_call(server)
    page = open_session()
    page.locator(".decision .reject:enabled").click()
    page.locator(".decision .reason").wait_for()
    return page


def open_editing(server, open_session):
    wait_for_call(server)
    page = open_session()
    page.locator(".decision .edit:enabled").click()
    page.locator(".fields textarea").nth(1).wait_for()
    return page


def open_question(server, open_session):
    server.state["waiting"] = [QUESTION]
    page = open_session()
    page.locator(".option").first.click()
    page.locator(".option[aria-pressed=true]").wait_for()
    return page


def open_plan(server, open_session):
    server.state["waiting"] = [PLAN]
    page = open_session()
    page.locator(".plan-text strong").wait_for()
    return page


def open_change_of_a_plan(server, open_session):
    page = open_plan(server, open_session)
    page.locator(".decision .reject").click()
    page.locator(".decision textarea").wait_for()
    return page


def open_left_runs(server, open_session):
    server.state["left"] = 2
    page = open_session()
    page.locator(".decision.left").wait_for()
    return page


def open_unfolded_cards(server, open_session):
    server.entries = every_state()
    server.state["started"] = [started("1", "Explore the project")]
    page = open_session()
    page.locator(".card.streaming").wait_for()
    for _ in range(8):
        page.evaluate("""document.querySelectorAll('.card .fold[aria-expanded=false]')
            .forEach((fold) => fold.click())""")
        page.evaluate("document.querySelector('.scroller').scrollTop -= 300")
        page.wait_for_timeout(40)
    return page


def open_panel(server, open_session):
    server.entries = every_state()
    server.state.update(todo=[TODO], files_seq=3,
                        started=[started("1", "Explore the project"), started("2", "Write", "failed", ended=True)])  # fmt: skip
    server.replies["GET /files"] = (200, {"files": [CHANGE], "redoable": True})
    page = open_session()
    if not page.locator(".panel").is_visible():
        # Where the page is wide, the panel is open from the start.
        page.locator(".open-right").click()
    page.locator(".panel .files button").wait_for()
    page.locator(".todo-panel > .text-button").click()
    page.locator(".todo-more").first.wait_for()
    return page


def open_sessions(server, open_session):
    server.sessions.append(server.listed("s2", "Another one", "/home/ada/web", running=True))
    server.sessions.append(server.listed("s3", "A third one", "/home/ada/web", waiting=1))
    page = open_session()
    if page.locator(".open-left").is_visible():
        page.locator(".open-left").click()
    page.locator(".session-more").first.click()
    page.locator(".session-menu").wait_for()
    return page


def open_commands(server, open_session):
    page = open_session()
    page.locator(".composer textarea").fill("/")
    page.locator(".composer-menu").wait_for()
    return page


def open_menu(server, open_session):
    page = open_session()
    page.locator("header.top .icon-button").nth(-2).click()
    page.locator(".choice").first.wait_for()
    return page


def open_removal(server, open_session):
    page = open_menu(server, open_session)
    page.locator(".choice").last.click()
    page.locator(".dialog .danger").wait_for()
    return page


def open_models(server, open_session):
    facts = {"window": 200_000, "input": 1, "output": 2, "usable": True, "problem": ""}
    names = [f"vendor-{n}/a-model-with-a-long-name-{n}" for n in range(12)]
    models = [{**facts, "name": name, "current": name == names[2]} for name in names]
    server.replies["GET /models"] = (200, {"models": models})
    page = open_session()
    page.locator(".status .pick").first.click()
    page.locator(".choice").first.wait_for()
    return page


def open_settings(server, open_session):
    facts = {"key": "a.b", "help": "", "rights": "administer", "at_once": False}
    settings = [{**facts, "name": "web_search", "value": True}, {**facts, "name": "images", "value": None},
                {**facts, "name": "tool_protocol", "value": "auto"}, {**facts, "name": "approve", "value": "auto"}]  # fmt: skip
    server.replies["GET /settings"] = (200, {"settings": settings})
    page = open_session()
    page.locator(".composer textarea").fill("/settings ")
    page.locator(".composer .send").click()
    page.locator(".dialog .setting").nth(6).wait_for()
    return page


def open_grants(server, open_session):
    server.replies["GET /grants"] = (200, {"grants": ["bash: pytest *", "write_file"]})
    page = open_session()
    page.locator(".composer textarea").fill("/approvals ")
    page.locator(".composer .send").click()
    page.locator(".grants li").first.wait_for()
    return page


def open_rewind(server, open_session):
    server.entries = [prompt(0, "Mend it")]
    server.replies["GET /rewind"] = (200, {"points": [{"to": 7, "text": "Mend it", "run": "r1"}]})
    server.replies["POST /rewind/preview"] = (200, {"diffs": [CHANGE], "skipped": {"x": "changed since"}})  # fmt: skip
    page = open_session()
    page.locator(".entry-prompt").hover()
    page.locator(".entry-prompt .row-actions button").last.click()
    page.locator(".preview-files .fold").click()
    page.locator(".dialog tr.added").first.wait_for()
    return page


def open_diff(server, open_session):
    page = open_panel(server, open_session)
    server.replies["GET /files/diff"] = (200, {"diffs": [CHANGE]})
    page.locator(".panel .files button").click()
    page.locator(".dialog table.diff").wait_for()
    return page


def open_messages(server, open_session):
    """A message, waiting texts, and a conversation that is read further up."""
    server.entries = every_state()
    server.state.update(
        running=True, agents=[main_agent(running=True, state="running")],
        queued=[{"id": "r5", "agent": "main", "text": "Later"}],
        steering=[{"id": "m1", "agent": "main", "text": "Faster"}],
    )  # fmt: skip
    server.replies["POST /stop"] = (409, {"code": "E_STALE", "message": "Newer.", "hint": ""})
    page = open_session(expected="409")
    page.locator(".queue li").nth(1).wait_for()
    page.locator(".scroller").hover()
    page.evaluate("document.querySelector('.scroller').scrollTop = 0")
    page.locator(".jump").wait_for()
    page.locator(".send.stop").click()
    page.locator(".toast").wait_for()
    return page


def open_closed_session(server, open_session):
    page = open_session()
    server.close_code = 4404
    server.disconnect()
    page.locator(".empty .button.primary").wait_for()
    return page


def open_signed_out(server, open_session):
    page = open_session(expected="401|WebSocket")
    server.signed_in = False
    server.disconnect()
    page.locator(".signed-out").wait_for()
    return page


def open_home(server, open_session):
    page = open_session()
    page.evaluate("location.hash = '#/'")
    page.locator(".home").wait_for()
    return page


STATES = [
    open_approval, open_grave_approval, open_approval_of_a_change, open_rejection, open_editing,
    open_question, open_plan, open_change_of_a_plan, open_left_runs, open_unfolded_cards, open_panel,
    open_sessions, open_commands, open_menu, open_removal, open_models, open_settings, open_grants,
    open_rewind, open_diff, open_messages, open_closed_session, open_signed_out, open_home,
]  # fmt: skip


@pytest.mark.slow(cases=4)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("size", list(SIZES))
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__.removeprefix("open_"))
def test_each_state_is_accessible_and_fits(server, open_session, axe, state, size, language, theme):
    looks = {"language": language, "theme": theme}
    page = state(server, lambda **options: open_session(size, **looks, **options))
    page.wait_for_timeout(100)
    name = state.__name__.removeprefix("open_")
    keep_screenshot(page, f"state-{name}-{SIZES[size][0]}-{language}-{theme}")
    findings = axe(page)
    assert findings == [], json.dumps(findings, indent=1)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(CUT_TEXTS) == []
    if size == "phone":
        assert page.evaluate(SMALL_TARGETS, MIN_TARGET) == []


def is_hit(page, selector):
    """Return whether the middle of an element is on the screen and not covered."""
    return page.locator(selector).evaluate("""(element) => {
        const box = element.getBoundingClientRect();
        const hit = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
        return element.contains(hit);
    }""")


@pytest.mark.slow(cases=3)
@pytest.mark.parametrize("size", list(SIZES))
@pytest.mark.parametrize("state", [open_approval, open_approval_of_a_change, open_plan])
def test_the_buttons_of_the_bar_are_visible_without_scrolling(server, open_session, state, size):
    page = state(server, lambda **options: open_session(size, **options))
    assert is_hit(page, ".decision .accept")
    assert is_hit(page, ".decision .reject")
    title = page.locator(".decision-head h2").bounding_box()
    assert title["width"] > 200, "the counter leaves too little space for the title"


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize("size", list(SIZES))
def test_a_message_does_not_cover_the_input(server, open_session, size):
    page = open_messages(server, lambda **options: open_session(size, **options))
    assert is_hit(page, ".composer .send:not(.stop)")
    assert is_hit(page, ".send.stop")


def test_a_button_under_the_pointer_stays_readable(server, open_session, axe):
    page = open_rejection(server, open_session)
    page.locator(".decision .danger").hover()
    assert axe(page) == []
