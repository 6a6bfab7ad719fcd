"""Titles, changed files, the timeline and notices: what the page shows about a session."""

import pytest

from .conftest import keep_screenshot, wait_until
from .fake_server import main_agent
from .samples import answer, card, prompt

pytestmark = pytest.mark.slow(cases=3, of="file")

RUNNING = [main_agent(running=True, state="running")]
NOBODY = {"input": 0, "cached": 0, "output": 0, "cost": None}
WINDOW = {"window": {"window": 1_000, "total": 130}}


@pytest.mark.parametrize("size", ["phone", "tablet"])
def test_titles_of_copies_are_told_apart_though_they_are_long(server, open_session, size):
    long = "Mend the calculator, which adds numbers wrongly since the last release"
    marks = [" (from prompt 3)", "", " (copy)", " (copy 2)"]
    server.sessions = [
        server.listed(f"s{number}", f"{long}{mark}", "/home/ada/calc")
        for number, mark in enumerate(marks, 1)
    ]
    server.state["title"] = f"{long} (from prompt 3)"
    page = open_session(size)
    wait_until(page, lambda: page.locator("h1 .title-mark").inner_text() == " (from prompt 3)")
    assert page.locator("h1 .title-mark").bounding_box()["width"] > 60
    if size == "phone":
        page.get_by_role("button", name="Sessions", exact=True).click()
    shown = page.locator(".sessions .title-mark")
    shown.first.wait_for()
    assert shown.all_inner_texts() == [mark for mark in marks if mark]
    row = page.locator(".session a").first.bounding_box()
    for number in range(3):
        box = shown.nth(number).bounding_box()
        assert box["x"] + box["width"] <= row["x"] + row["width"]
    keep_screenshot(page, f"copies-{size}")


@pytest.mark.parametrize("size", ["phone", "tablet"])
def test_notices_do_not_cover_the_input(server, open_session, size):
    server.replies["POST /prompts"] = (
        409,
        {"code": "E_BUSY", "message": "No.", "hint": "Wait. " * 40},
    )
    page = open_session(size, expected="409")
    page.locator(".composer textarea").fill("Go")
    page.locator(".send").click()
    toast = page.locator(".toast")
    toast.wait_for()
    keep_screenshot(page, f"toast-{size}")
    dock = page.locator(".dock").bounding_box()
    top = page.locator(".top").bounding_box()
    box = toast.bounding_box()
    assert box["y"] + box["height"] < dock["y"]
    assert box["y"] >= top["y"] + top["height"]


def test_changed_files_say_what_happened_to_them(server, open_session):
    files = [
        {"path": "src/new.py", "what": "created", "added": 3, "removed": 0, "note": ""},
        {"path": "src/old.py", "what": "changed", "added": 1, "removed": 2, "note": ""},
        {"path": "gone.py", "what": "deleted", "added": 0, "removed": 4, "note": ""},
        {
            "path": "run.sh",
            "what": "changed",
            "added": 0,
            "removed": 0,
            "note": "mode 644 became 755",
        },
    ]
    server.state["files_seq"] = 3
    server.replies["GET /files"] = (200, {"files": files, "redoable": False})
    page = open_session(size="wide")
    rows = page.locator(".files button")
    wait_until(page, lambda: rows.count() == 4)
    shown = [" ".join(text.split()) for text in rows.all_inner_texts()]
    assert shown == [
        "new.py src/ new +3",
        "old.py src/ +1 −2",
        "gone.py deleted −4",
        "run.sh",
    ]
    assert "755" in rows.nth(3).get_attribute("title")


def test_lines_that_look_like_headers_are_counted(server, open_session):
    diff = "--- a/a.sql\n+++ b/a.sql\n@@ -1,2 +1,2 @@\n--- old comment\n+++ new\n same\n"
    server.entries = [
        card(0, "edit_file", {"path": "a.sql"}, risk="write",
             result={"parts": [], "code": "", "data": {"diff": diff}}),
    ]  # fmt: skip
    page = open_session()
    assert page.locator(".card .line-counts").first.inner_text() == "+1 −1"


def test_undo_and_redo_name_the_files(server, open_session):
    server.state["files_seq"] = 3
    server.replies["GET /files"] = (200, {"files": [], "redoable": True})
    names = ["src/", "src/a.py", "b.py", "c.py", "d.py", "e.py"]
    diffs = [{"path": name, "what": "deleted", "diff": "", "note": "", "added": 0, "removed": 1}
             for name in names]  # fmt: skip
    for operation in ("undo", "redo"):
        server.replies[f"POST /{operation}/preview"] = (200, {"diffs": diffs})
        server.replies[f"POST /{operation}"] = (200, {"diffs": diffs})
    page = open_session(size="wide")
    for name, done in (("Redo", "Redone"), ("Undo", "Undone")):
        page.locator(".panel-actions").get_by_role("button", name=name).click()
        page.locator(".preview-files").get_by_text("will be deleted").first.wait_for()
        page.locator(".dialog").get_by_role("button", name=name).click()
        page.locator(".toast", has_text=f"{done}: src/a.py, b.py, c.py and 2 more").wait_for()


def test_no_share_of_the_window_is_shown_before_it_is_used(server, open_session):
    server.state["usage"] = NOBODY
    server.replies["GET /usage"] = (200, WINDOW)
    page = open_session()
    server.wait_for("/usage", "GET")
    page.wait_for_function(
        "performance.getEntriesByType('resource').some((each) => each.name.endsWith('/usage'))"
    )
    assert page.locator(".facts-line", has_text="context").count() == 0
    server.change(agents=RUNNING)
    server.change(usage={**NOBODY, "input": 130}, agents=[main_agent()])
    page.locator(".facts-line", has_text="87 % context left").wait_for()


def fill_run(server, count):
    """Fill a session with one long run, of which the page loads only the end."""
    server.entries = [prompt(0, "Go")]
    for number in range(1, count):
        server.entries.append(card(number, "bash", {"command": f"make {number}"}))


def test_the_timeline_has_what_is_not_loaded(server, open_session):
    fill_run(server, 400)
    page = open_session(size="wide")
    wait_until(page, lambda: page.locator(".timeline .bar").count() == 399)
    assert server.wait_for("/timeline", "GET").query == "run=r1"
    assert page.locator(".card[data-call='c1']").count() == 0
    page.locator(".timeline .bar").first.dispatch_event("click")
    page.locator(".card[data-call='c1']").wait_for()


def test_the_timeline_follows_a_running_session(server, open_session):
    server.entries = [prompt(0, "Go"), answer(1, "Yes.")]
    server.state["agents"] = RUNNING
    page = open_session(size="wide")
    wait_until(page, lambda: page.locator(".timeline .bar").count() == 1)
    server.add(card(2, "bash", {"command": "make"}, "running"))
    server.change(running=True)
    page.locator(".timeline .bar.running").wait_for()
    server.add(card(2, "bash", {"command": "make"}))
    server.change(running=False, agents=[main_agent()])
    page.locator(".timeline .bar.completed").wait_for()


def test_a_bar_of_an_agent_opens_its_conversation(server, open_session):
    server.entries = [prompt(0, "Go"), {**card(1, "grep", {"pattern": "x"}), "agent": "explore-1"}]
    page = open_session(size="wide")
    page.locator(".timeline .bar").first.dispatch_event("click")
    page.locator(".card[data-call='c1']").wait_for()
    assert page.url.endswith("/a/explore-1")
