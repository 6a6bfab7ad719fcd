"""The page of a trace in a real Chromium without a network, with texts that try to be markup."""

import hashlib
import itertools
import json
import re
from importlib.resources import files
from pathlib import Path

import pytest
from hilum import events as ev
from hilum.messages import AssistantMessage, Text, ToolCall, ToolResult, Usage, UserMessage
from hilum_trace import UnreadableEvent, fold_spans
from hilum_trace.formatting import describe_details, format_seconds, make_title
from hilum_trace.languages import TEXTS
from hilum_trace.page import make_page
from msgspec.structs import replace

pytestmark = pytest.mark.slow(cases=11, of="file")

CHROMIUM = Path("/usr/bin/chromium")
MISSING = "needs Playwright (a development dependency) and Chromium (Debian: apt install chromium)"
VENDOR = Path(str(files("hilum_trace"))) / "page_files" / "vendor"
HOSTILE = (
    "\ue00099\ue001window.hacked=1\ue002\ue000",
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
    contexts = []
    problems = []
    requests = []

    def open_trace(events, locale="en-US"):
        context = browser.new_context(
            viewport={"width": 1280, "height": 900}, offline=True, locale=locale
        )
        contexts.append(context)
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
    for context in contexts:
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


def test_the_details_name_all_values_and_use_the_clock_of_the_axis(open_trace):
    page = open_trace(number(make_run("main", "r1", "Prompt.")))
    bar(page, "turn 1").click()
    details = page.locator("#details")
    names = details.locator("dt").all_inner_texts()
    assert names[:4] == ["Kind", "Duration", "Start", "Details"]
    assert re.search(r"Start\s+2023-11-1\d \d\d:\d\d:\d\d\.\d{3}", details.inner_text())
    assert details.locator(".path").inner_text().endswith("run Prompt.")
    assert "turn 1 · 6.0 s" in bar(page, "turn 1").inner_text()


def test_the_timeline_has_a_width_in_any_window_and_beside_any_name(open_trace):
    """Otherwise, the library draws too many lines, and warns in the console."""
    name = "An agent with a very long name that says all that it does " * 2
    parts = make_run("main", "r1", "Prompt.")[:-1]
    parts.append((name, "r2", ev.AgentStarted(parent="main")))
    parts += make_run(name, "r2", "Look.")
    events = number(parts)
    ended = ev.RunEnded(state="completed", seq=len(events) + 1, agent="main", run="r1")
    page = open_trace([*events, replace(ended, at=events[0].at + 86_400)])
    for width in (1, 200, 400, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function("innerWidth === " + str(width))
        page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)))")
        page.get_by_role("button", name="Whole session").evaluate("(button) => button.click()")
        assert page.evaluate("timeline.dom.center.clientWidth") > 100


def test_turns_that_follow_each_other_are_in_one_row(open_trace):
    """Whatever the fractions of their milliseconds."""
    started, *turn, _ = make_run("main", "r0", "x")
    parts = [started]
    for count in range(1, 9):
        parts += [
            (*whose, replace(event, turn=count) if isinstance(event, ev.ModelStarted) else event)
            for *whose, event in turn
        ]
    events = number(parts)
    page = open_trace([replace(event, at=1e9 + event.seq * 0.1001) for event in events])
    spans = page.evaluate("spans.filter((span) => span.kind === 'turn')")
    assert len(spans) > 4
    for one, two in itertools.pairwise(spans):
        assert one["end"] <= two["start"]


def test_durations_on_the_page_are_those_of_the_tree(open_trace):
    page = open_trace(number(make_run("main", "r1", "Prompt.")))
    for seconds in (0.25, 3.04, 9.99, 10.6, 59.7, 60.0, 3599.6, 3661.0, 90_000.0):
        shown = page.evaluate("(value) => formatSeconds(value)", seconds * 1000)
        assert shown == format_seconds(seconds)


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


ENGLISH = re.compile(r"[A-Za-z]{2,}(?: [A-Za-z]{2,})+")
"""Two English words in a row."""


def make_eventful_run():
    """A run in which everything happens that a span can show."""
    call = ToolCall("c1", "act", "{}")
    answered = ev.ModelAnswered(
        message=AssistantMessage((call,), "a/b", "calls"),
        usage=Usage(9000, 8000, output=10, cost=0.25),
        first=0.5,
    )
    failed = ev.ModelFailed(
        model="a/b",
        kind="server",
        code="E_LLM_FAIL",
        message="x",
        action="retry",
        wait=1.0,
        attempt=1,
    )
    frozen = ev.PromptFrozen(layers=(), tools=(), changed=tuple(f"layer l{n}" for n in range(6)))
    asked = ev.ApprovalAsked(id="a1", call=call, risk="execute", reason="r", scope="", seconds=9)
    question = {"id": "q1", "question": "q", "call": "c1"}
    parts = [
        ev.PromptQueued(text="p"),
        ev.RunStarted(text="p", message=UserMessage((Text("p"),))),
        ev.PromptFrozen(layers=(), tools=()),
        frozen,
        ev.ModelStarted(turn=1, model="a/b"),
        failed,
        ev.ModelStarted(turn=1, model="a/b"),
        failed,
        ev.ModelStarted(turn=1, model="a/b"),
        answered,
        asked,
        ev.ApprovalAnswered(id="a1", accepted=True, by="user"),
        ev.PluginEvent(name="plan.question_asked", data=question),
        ev.PluginEvent(name="plan.question_answered", data={"id": "q1", "by": "user"}),
        ev.CallStarted(call=call, plugin="files", waited=0.5),
        ev.HookCalled(plugin="guard", hook="on_tool_call", seconds=0.5, call="c1"),
        ev.CallDone(result=ToolResult("c1", "act", (Text("E_X"),), "E_X"), seconds=0.1),
        ev.RoundEnded(),
        ev.Compacted(upto=1, summary="s", cause="window"),
        ev.ModelUsed(model="a/b", purpose="summary", usage=Usage(100, output=5)),
        ev.ModelStarted(turn=2, model="c/d"),
        ev.ModelAnswered(message=AssistantMessage((), "c/d"), usage=Usage(9000, output=10)),
        ev.RunRetried(previous="r1"),
        ev.ModelStarted(turn=1, model="c/d"),
    ]
    return [("main", "r1", event) for event in parts]


def test_the_page_is_chinese_in_a_chinese_browser(open_trace):
    events = number(make_eventful_run())
    damaged = [UnreadableEvent(len(events) + 1), UnreadableEvent(len(events) + 2, "dreamt")]
    page = open_trace([*events, *damaged], locale="zh-CN")
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    assert page.title() == "s 的追踪"
    names = page.evaluate("spans.map((span) => [span.name, ...span.details]).flat()")
    for each in page.locator("#slowest button").all():
        each.click()
        names.append(page.locator("#details").inner_text())
    names.append(page.locator("body").inner_text())
    left = {found for name in names for found in ENGLISH.findall(name)}
    assert left <= set(), left
    assert any("缓存中断：新的运行：更改 layer l0" in name for name in names)
    assert any("第 1 轮" in name for name in names)
    assert any("2 次尝试失败" in name for name in names)


def test_the_page_shows_the_same_texts_as_the_tree_in_an_english_browser(open_trace):
    trace = fold_spans(number(make_eventful_run()))
    page = open_trace(number(make_eventful_run()))
    totals = trace.totals()
    waits = trace.total_waits()
    expected = [
        [make_title(span), *describe_details(span, totals[span.id], waits[span.id])]
        for span in trace.spans
    ]
    assert page.evaluate("spans.map((span) => [span.name, ...span.details])") == expected


def test_every_text_has_a_translation_with_the_same_values():
    for english, chinese in TEXTS.items():
        values = [sorted(re.findall(r"\{(\w+)\}", text)) for text in (english, chinese)]
        assert values[0] == values[1]
        is_frame = not re.search(r"[a-z]{2}", re.sub(r"\{\w+\}", "", english))
        assert is_frame or re.search(r"[\u4e00-\u9fff]", chinese)


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
