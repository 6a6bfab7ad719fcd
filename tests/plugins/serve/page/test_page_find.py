"""The search in a conversation: entries that are not loaded, folded texts, and the keyboard."""

import pytest

from .conftest import keep_screenshot, wait_until
from .samples import DIFF, answer, card, prompt, result, started
from .test_page_conversation import HOSTILE

pytestmark = pytest.mark.slow(cases=4, of="file")

MARKED = """name => [...(CSS.highlights.get(name) ?? [])].map(range => range.toString())"""
IN_VIEW = """() => {
    const [range] = CSS.highlights.get('found-current') ?? [];
    if (!range) return false;
    const place = range.getBoundingClientRect();
    const view = document.querySelector('.scroller').getBoundingClientRect();
    return place.height > 0 && place.top >= view.top && place.bottom <= view.bottom;
}"""


def press_find(page):
    page.keyboard.press("Control+f")
    page.locator(".find-input").wait_for()


def find(page, text):
    press_find(page)
    page.keyboard.type(text)


def current(page):
    return page.evaluate(MARKED, "found-current")


def count(page):
    return page.locator(".find-count").inner_text().strip()


def shows(page, text):
    """Wait until the current hit is marked with a text, and visible."""
    wait_until(page, lambda: current(page) == [text] and page.evaluate(IN_VIEW))


def fill(server, number):
    for each in range(0, number, 2):
        server.entries += [
            prompt(each, f"Prompt {each}."),
            answer(each + 1, f"Answer {each}. " * 9),
        ]
    server.seq = number


def test_an_entry_that_is_not_loaded_is_found_and_shown(server, open_session):
    fill(server, 3000)
    server.entries[40]["text"] = "Where is the needle?"
    server.entries[2991]["text"] = "Here is the **nee**dle."
    page = open_session()
    find(page, "the needle")
    shows(page, "the needle")
    assert count(page) == "1 of 1"
    page.locator(".find-input").fill("needle")
    page.keyboard.press("Enter")
    shows(page, "needle")
    assert page.locator(".row").first.get_attribute("aria-setsize") >= "2960"


def test_enter_and_shift_enter_go_round(server, open_session):
    server.entries = [prompt(0, "one Word, two words"), answer(1, "three `word`s, **wo**rd")]
    page = open_session()
    find(page, "word")
    wait_until(page, lambda: count(page) == "1 of 3")
    shows(page, "Word")
    assert len(page.evaluate(MARKED, "found")) == 3
    for key, place in [("Enter", "2"), ("Enter", "3"), ("Enter", "1"), ("Shift+Enter", "3")]:
        page.keyboard.press(key)
        wait_until(page, lambda place=place: count(page) == f"{place} of 3")
    shows(page, "word")


def test_what_is_folded_is_opened(server, open_session):
    server.entries = [
        prompt(0, "Go", attached="a first needle"),
        answer(1, "Yes.", thinking="Let me think of the second **needle**."),
        card(2, "bash", {"command": "x", "note": "third needle"}, result=result("fourth needle")),
        card(3, "edit_file", {"path": "a", "text": "fifth needle"}, result=result("ok", diff=DIFF)),
    ]
    page = open_session()
    find(page, "needle")
    wait_until(page, lambda: count(page) == "1 of 5")
    for words in ["first", "second", "third", "fourth", "fifth"]:
        wait_until(page, lambda words=words: words in page.locator(".find-excerpt").inner_text())
        shows(page, "needle")
        page.keyboard.press("Enter")


def test_a_hit_in_the_middle_of_a_long_result_is_loaded(server, open_session):
    text = "line\n" * 20_000 + "the needle\n" + "line\n" * 20_000
    short = {"cut": {"result": len(text)}}
    whole = card(1, "bash", {"command": "x"}, result=result(text))
    server.entries = [prompt(0, "Go"), whole]
    sent = {**whole, **short, "result": result("head\n\n…\n\ntail")}
    server.replies["GET /calls/c1/result"] = (200, {"text": text, "total": len(text), "data": {}})
    page = open_session()
    server.push({"type": "entry", "entry": sent})
    find(page, "needle")
    shows(page, "needle")


def test_hits_of_other_agents_open_their_conversation(server, open_session):
    server.entries = [
        prompt(0, "Go"),
        {**prompt(1, "Look for the needle"), "agent": "explore-1"},
        {**answer(2, "Nothing."), "agent": "explore-1"},
        answer(3, "No needle."),
    ]
    server.state["started"] = [started("1", "Look")]
    page = open_session()
    find(page, "needle")
    shows(page, "needle")
    assert page.locator(".answer-text").inner_text() == "No needle."
    page.keyboard.press("Shift+Enter")
    wait_until(page, lambda: page.locator(".answer-text").inner_text() == "Nothing.")
    shows(page, "needle")


def test_escape_closes_and_returns_the_focus(server, open_session):
    server.entries = [prompt(0, "a needle"), answer(1, "Yes.")]
    page = open_session()
    page.locator(".composer textarea").focus()
    find(page, "needle")
    shows(page, "needle")
    page.keyboard.press("Escape")
    assert page.locator(".find-bar").count() == 0
    assert page.evaluate("CSS.highlights.size") == 0
    assert page.evaluate("document.activeElement.matches('.composer textarea')")


def test_pressed_twice_the_key_is_the_browsers_own(server, open_session):
    server.entries = [prompt(0, "Go"), answer(1, "Yes.")]
    page = open_session()
    page.evaluate(
        "addEventListener('keydown', event => setTimeout(() => {"
        " if (event.key === 'f') (window.taken ??= []).push(event.defaultPrevented); }))"
    )
    press_find(page)
    page.keyboard.press("Control+f")
    wait_until(page, lambda: page.evaluate("window.taken?.length") == 2)
    assert page.evaluate("window.taken") == [True, False]


def test_what_arrives_is_searched_too(server, open_session):
    server.entries = [prompt(0, "a needle"), answer(1, "", state="streaming")]
    page = open_session()
    find(page, "needle")
    wait_until(page, lambda: count(page) == "1 of 1")
    server.add(answer(1, "another needle"))
    wait_until(page, lambda: count(page) == "1 of 2")
    server.add(card(2, "bash", {"command": "needle"}, result=result("")))
    wait_until(page, lambda: count(page) == "1 of 3")


def test_hostile_text_stays_text(server, open_session):
    server.entries = [prompt(0, HOSTILE), answer(1, HOSTILE), card(2, "bash", {"command": HOSTILE})]
    page = open_session()
    find(page, "<img src=x onerror=")
    wait_until(page, lambda: count(page).startswith("1 of"))
    for _ in range(3):
        page.keyboard.press("Enter")
        page.wait_for_timeout(50)
    assert page.locator(".find-excerpt img").count() == 0
    assert "<img" in page.locator(".find-excerpt").inner_text()
    assert page.evaluate("window.hacked") is None


def test_nothing_is_found_and_errors_are_reported(server, open_page, open_session):
    server.entries = [prompt(0, "Go"), answer(1, "Yes.")]
    page = open_session(expected="status of 4|500")
    find(page, "nowhere")
    wait_until(page, lambda: count(page) == "Nothing found.")
    server.replies["GET /search"] = (500, {"code": "E_FAILED", "message": "It broke.", "hint": ""})
    page.keyboard.type("x")
    page.get_by_text("It broke.").first.wait_for()


@pytest.mark.parametrize("size", ["phone", "wide"])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_bar_fits(server, open_session, size, language):
    server.entries = [prompt(0, "a needle"), answer(1, "a **needle** in code `needle`")]
    page = open_session(size, language=language)
    page.locator(".scroller").focus()
    find(page, "needle")
    shows(page, "needle")
    keep_screenshot(page, f"find-{size}-{language}")
    bar = page.locator(".find-bar").bounding_box()
    assert bar["x"] >= 0
    assert bar["x"] + bar["width"] <= page.viewport_size["width"]


def test_the_bar_is_accessible(server, open_session, axe):
    server.entries = [prompt(0, "a needle"), answer(1, "Yes.")]
    page = open_session()
    find(page, "needle")
    shows(page, "needle")
    assert axe(page) == []


@pytest.mark.parametrize("size", ["phone", "tablet"])
def test_the_bar_does_not_cover_a_hit_in_the_first_line(server, open_session, size):
    server.entries = [prompt(0, "Find the needle, which is in the first line of all.")]
    page = open_session(size)
    find(page, "needle")
    shows(page, "needle")
    excerpt = page.locator(".find-excerpt")
    wait_until(page, lambda: excerpt.inner_text().startswith("prompt"))
    bar = page.locator(".find-bar").bounding_box()
    hit = page.evaluate("""() => {
        const [range] = CSS.highlights.get('found-current');
        return range.getBoundingClientRect().top;
    }""")
    assert hit >= bar["y"] + bar["height"]
