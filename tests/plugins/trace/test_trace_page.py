"""The page of a trace in a real Chromium without a network, with texts that try to be markup."""

import hashlib
import json
import re
from importlib.resources import files
from pathlib import Path

import pytest
from hilum import events as ev
from hilum.messages import AssistantMessage, Text, ToolCall, ToolResult, Usage, UserMessage
from hilum_trace import fold_spans
from hilum_trace.page import make_page
from msgspec.structs import replace

CHROMIUM = Path("/usr/bin/chromium")
MISSING = "needs Playwright (a development dependency) and Chromium (Debian: apt install chromium)"
VENDOR = Path(str(files("hilum_trace"))) / "page_files" / "vendor"
HOSTILE = (
    "</script><script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=1>",
    "<!--<script>window.hacked=1",
    "javascript:window.hacked=1",
    "\u2028\u2029\ud800'\"`${window.hacked=1}",
)


@pytest.fixture(scope="module")
def browser():
    library = pytest.importorskip("playwright.sync_api", reason=MISSING)
    if not CHROMIUM.exists():
        pytest.skip(MISSING)
    with library.sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"]
        )
        yield found
        found.close()


@pytest.fixture
def open_trace(browser, tmp_path):
    """Return a function that opens the page of a log; any message in its console fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
    problems = []
    requests = []

    def open_trace(events):
        file = tmp_path / "trace.html"
        file.write_text(make_page(fold_spans(events)), encoding="utf-8")
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready]")
        page.wait_for_selector(".vis-item")
        return page

    yield open_trace
    context.close()
    assert problems == []
    assert len(requests) == 1, requests


def number(parts):
    """Events with their numbers, a second apart."""
    events = [ev.SessionOpened(seq=1, at=1_700_000_000.0, session="s", workspace="/w")]
    for agent, run, event in parts:
        seq = len(events) + 1
        events.append(replace(event, seq=seq, at=1_700_000_000.0 + seq, agent=agent, run=run))
    return events


def make_run(agent, run, text):
    """A run whose texts are all the same."""
    call = ToolCall(f"c-{run}", text, text)
    message = AssistantMessage((call,), text, "calls")
    result = ToolResult(call.id, text, (Text(text),), "E_X")
    parts = [
        ev.RunStarted(text=text, message=UserMessage((Text(text),))),
        ev.ModelStarted(turn=1, model=text),
        ev.ModelAnswered(message=message, usage=Usage(1000, 500, output=10, cost=0.25)),
        ev.CallStarted(call=call, plugin=text),
        ev.HookCalled(plugin=text, hook=text, seconds=0.5, call=call.id),
        ev.CallDone(result=result),
        ev.RoundEnded(),
        ev.RunEnded(state="failed", code="E_X", error=text),
    ]
    return [(agent, run, event) for event in parts]


def bar(page, title):
    return page.locator(".vis-item", has_text=title)


def test_a_bar_shows_its_details_and_leads_to_what_it_is_part_of(open_trace):
    page = open_trace(number(make_run("main", "r1", "Prompt.")))
    assert bar(page, "run Prompt.").count() == 1
    bar(page, "turn 1").click()
    details = page.locator("#details")
    assert details.locator("h2").inner_text() == "turn 1"
    assert "1.0k in (50% cached), 10 out, $0.25" in details.inner_text()
    details.get_by_role("button", name="run Prompt.").click()
    assert details.locator("h2").inner_text() == "run Prompt."
    assert "E_X: Prompt." in details.inner_text()


def test_the_slowest_and_the_runs_are_listed_and_lead_to_their_bars(open_trace):
    parts = [*make_run("main", "r1", "One."), *make_run("main", "r2", "Two.")]
    page = open_trace(number(parts))
    runs = page.locator("#runs button")
    assert runs.all_inner_texts() == ["run One.", "run Two."]
    runs.nth(1).click()
    assert page.locator("#details h2").inner_text() == "run Two."
    page.get_by_role("button", name="Previous run").click()
    assert page.locator("#details h2").inner_text() == "run One."
    assert page.locator("#slowest tr").count() == 6


def test_sub_agents_have_rows_of_their_own(open_trace):
    parts = make_run("main", "r1", "Prompt.")
    inner = make_run("<b>t1</b>", "r2", "Task.")
    started = ("<b>t1</b>", "", ev.AgentStarted(parent="main"))
    page = open_trace(number([*parts[:4], started, *inner, *parts[4:]]))
    assert "<b>t1</b>" in page.locator(".vis-labelset").inner_text()
    assert bar(page, "run Task.").count() == 1


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_of_the_session_are_only_texts(open_trace, text):
    parts = make_run(text, "r1", text)
    page = open_trace(number([*make_run("main", "r0", text), *parts]))
    for each in page.locator("#runs button").all():
        each.click()
    for each in page.locator("#slowest button").all():
        each.click()
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0
    assert all("hacked=1" in each for each in page.locator("#runs button").all_text_contents())


def test_a_log_without_events_has_a_page(tmp_path):
    assert "Trace of a session" in make_page(fold_spans([]))


def test_the_policy_allows_the_two_scripts_of_the_page_and_nothing_else():
    page = make_page(fold_spans(number(make_run("main", "r1", "Prompt."))))
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)[1]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert policy.count("sha256-") == 2
    assert "unsafe-eval" not in policy
    assert "unsafe-inline" not in policy.partition("style-src")[0]
    assert not re.search(r"""(?:src|href)=["']?https?:""", page)


def test_a_page_of_5000_turns_stays_below_5_megabytes():
    parts = []
    for count in range(5_000):
        parts += make_run("main", f"r{count}", f"Prompt {count}, which is as long as prompts are.")
    assert len(make_page(fold_spans(number(parts))).encode()) < 5_000_000


def test_vendored_files_are_those_of_the_manifest_with_their_licence():
    listed = {}
    for package in json.loads((VENDOR / "manifest.json").read_text()):
        assert package["version"]
        assert package["license"]
        assert any(name.endswith("LICENSE") for name in package["files"])
        listed.update(package["files"])
    found = {
        path.relative_to(VENDOR).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in VENDOR.rglob("*")
        if path.is_file() and path.name != "manifest.json"
    }
    assert found == listed
