"""Approvals, questions and plans, and that a stale page cannot decide."""

import time

import pytest

from .conftest import keep_screenshot, wait_until
from .fake_server import RULES, main_agent
from .samples import DIFF, answer, approval, card, prompt, started

pytestmark = pytest.mark.slow(cases=6, of="file")

QUESTION = {
    "kind": "question",
    "id": "q1",
    "seq": 1,
    "agent": "main",
    "call": "",
    "question": "Which one?",
    "options": [],
    "multiple": False,
    "deadline": 0,
}


def ask(server, *, count=1, file=RULES, **fields):
    cards = [card(n + 1, "bash", {"command": f"pytest {n}"}, "waiting_for_approval", risk="execute")
             for n in range(count)]  # fmt: skip
    server.entries = [prompt(0, "Go"), *cards]
    server.state["waiting"] = [approval(f"a{n}", each, **fields) for n, each in enumerate(cards)]
    for n in range(count):
        server.replies[f"facts a{n}"] = {
            "text": f"pytest {n}",
            "covers": "commands: pytest",
            "rule": "bash: pytest *",
            "file": file,
        }


def test_accepting_once_and_being_told_that_it_was_seen(server, open_session):
    ask(server)
    page = open_session()
    bar = page.locator(".decision")
    assert "hilum wants to use bash" in bar.inner_text()
    server.wait_for("/approvals/a0/shown")
    page.locator(".decision .accept:enabled").click()
    asked = server.wait_for("/approvals/a0")
    assert asked.body == {"accepted": True, "remember": "once"}
    assert asked.seen == str(server.seq)
    server.change(waiting=[])
    bar.wait_for(state="detached")


def test_rejecting_with_a_reason(server, open_session):
    ask(server)
    page = open_session()
    page.locator(".decision .reject").click()
    page.locator(".decision .reason").fill("Use uv instead.")
    page.keyboard.press("Enter")
    assert server.wait_for("/approvals/a0").body["reason"] == "Use uv instead."


def test_the_rule_is_shown_before_a_lasting_approval(server, open_session):
    ask(server)
    page = open_session()
    page.locator(".decision .accept:enabled").wait_for()
    assert page.locator(".decision .rule").count() == 0
    page.get_by_role("button", name="This session").click()
    page.locator(".decision .rule", has_text="commands: pytest").wait_for()
    page.get_by_role("button", name="Always").click()
    page.locator(".decision .rule", has_text="bash: pytest *").wait_for()
    page.locator(".rule-file", has_text=RULES).wait_for()
    page.locator(".decision .accept").click()
    assert server.wait_for("/approvals/a0").body["remember"] == "always"


def test_an_approval_that_is_not_stored_cannot_be_given_for_ever(server, open_session):
    ask(server, file="")
    page = open_session()
    page.locator(".decision .accept:enabled").wait_for()
    assert page.get_by_role("button", name="This session").is_enabled()
    assert page.get_by_role("button", name="Always").is_disabled()


def test_code_and_bold_text_are_drawn_in_reasons_and_questions(server, open_session):
    waiting = card(0, "bash", {"command": "pytest"}, "waiting_for_approval", began=0)
    reason = (
        "The rule `a < b` **asks**, see __init__.py and src/**/x, y/** [link](https://x.test) <b>"
    )
    server.state["waiting"] = [
        approval("a0", waiting, reason=reason),
        {**QUESTION, "question": "Use `pytest` or **nose**?", "options": ["`pytest` (*new*)"]},
    ]
    page = open_session()
    shown = page.locator(".decision .reason-text")
    shown.locator("code", has_text="a < b").wait_for()
    assert shown.locator("strong").all_inner_texts() == ["asks"]
    assert shown.inner_text() == (
        "The rule a < b asks, see __init__.py and src/**/x, y/** [link](https://x.test) <b>"
    )
    assert shown.locator("a, b").count() == 0
    page.get_by_role("button", name="Next").click()
    page.locator(".question-text code", has_text="pytest").wait_for()
    page.locator(".question-text strong", has_text="nose").wait_for()
    assert page.locator(".option span").inner_text() == "pytest (*new*)"
    assert page.locator(".option code").inner_text() == "pytest"


def test_what_waits_in_other_sessions_is_shown_counted_and_notified(server, open_session):
    other = server.listed("s2", "Other work", "/home/ada/calc", waiting=2, asked=7)
    server.sessions.append(other)
    page = open_session(permissions=["notifications"])
    page.locator(".session", has_text="Other work").get_by_text("2 wait for you").wait_for()
    wait_until(page, lambda: page.title().startswith("(2) "))
    page.evaluate("""() => {
        localStorage.setItem('hilum.preferences', '{"notifications": true}');
    }""")
    page.add_init_script("""
        window.noted = [];
        window.Notification = class {
            constructor(title, options) { window.noted.push(options.body); window.note = this; }
            close() {}
            static permission = 'granted';
        };
        Object.defineProperty(document, 'hidden', {value: true, configurable: true});
    """)
    page.clock.install()
    page.reload()
    wait_until(page, lambda: page.evaluate("window.noted.length") == 1)
    assert page.evaluate("window.noted") == ["Other work"]
    # The same items are reported once, and later ones again, though the page is hidden.
    page.clock.run_for(11_000)
    other.update(waiting=3, asked=9)
    page.clock.run_for(11_000)
    wait_until(page, lambda: page.evaluate("window.noted.length") == 2)
    page.evaluate("window.note.onclick()")
    wait_until(page, lambda: page.url.endswith("#/s/s2"))


def test_dangerous_calls_are_marked_and_cannot_be_remembered(server, open_session):
    ask(server)
    server.replies["facts a0"]["dangers"] = [
        {"text": "deletes files outside of Git", "grave": True}
    ]
    page = open_session()
    page.locator(".danger-line.grave").get_by_text("deletes files outside of Git").wait_for()
    assert page.get_by_role("button", name="Always").count() == 0


def test_editing_the_arguments(server, open_session):
    ask(server)
    page = open_session()
    page.locator(".decision .edit:enabled").click()
    page.locator(".fields textarea").fill("pytest -x")
    page.locator(".decision .accept").click()
    body = server.wait_for("/approvals/a0").body
    assert body["arguments"] == '{"command":"pytest -x"}'
    assert body["remember"] == "once"


def test_all_calls_of_an_answer_at_once_and_one_of_several(server, open_session):
    ask(server, count=3)
    page = open_session()
    page.locator(".decision-count").get_by_text("1 of 3").wait_for()
    page.get_by_role("button", name="Next").click()
    page.locator(".decision-count").get_by_text("2 of 3").wait_for()
    keep_screenshot(page, "batch")
    page.locator(".accept-all:enabled", has_text="Accept all 3").click()
    body = server.wait_for("/approvals").body
    assert body == {"ids": ["a0", "a1", "a2"], "accepted": True, "remember": "once"}


def test_hidden_characters_of_a_command_are_visible(server, open_session):
    ask(server)
    server.replies["facts a0"]["text"] = "rm \u202e txt.elif\u200b"
    page = open_session()
    page.locator(".decision .accept:enabled").wait_for()
    assert page.locator(".decision .command").inner_text() == "rm ⟨U+202E⟩ txt.elif⟨U+200B⟩"


def test_changes_are_shown_as_a_diff(server, open_session):
    ask(server)
    server.replies["facts a0"]["text"] = (
        f"── edit_file (write) wants to run\n   changes src/calc.py\n{DIFF}"
    )
    page = open_session()
    page.locator(".decision tr.added").first.wait_for()
    assert page.locator(".decision tr.removed mark").inner_text() == "-"


def test_the_policy_is_switched_from_the_bar(server, open_session):
    ask(server)
    page = open_session()
    page.locator(".decision .policy select").select_option("auto")
    assert server.wait_for("", "PATCH").body == {"approve": "auto"}


def test_the_last_minute_is_counted_down(server, open_session):
    ask(server, deadline=time.time() + 200)
    page = open_session()
    page.locator(".decision .accept:enabled").wait_for()
    assert page.locator(".countdown").count() == 0
    item = {**server.state["waiting"][0], "deadline": time.time() + 30}
    server.change(waiting=[item])
    page.locator(".countdown").get_by_text("s left").wait_for()


def test_a_card_decides_too(server, open_session):
    ask(server)
    page = open_session()
    page.locator(".decision .accept:enabled").wait_for()
    page.locator(".card.waiting").get_by_role("button", name="Accept").click()
    assert server.wait_for("/approvals/a0").body["accepted"] is True


def test_a_stale_decision_says_so(server, open_session):
    ask(server)
    server.replies["POST /approvals/a0"] = (
        409,
        {"code": "E_STALE", "message": "Newer.", "hint": ""},
    )
    page = open_session(expected="409")
    page.locator(".decision .accept:enabled").click()
    page.locator(".toast").get_by_text("This has changed since you saw it.").wait_for()


def test_who_may_only_watch_cannot_decide(server, open_session):
    ask(server)
    server.replies["GET /me"] = (200, {"name": "eve", "rights": "watch"})
    page = open_session()
    page.locator(".decision .card-text").wait_for()
    assert page.locator(".decision .accept").is_disabled()
    assert page.locator(".composer textarea").is_disabled()
    page.locator(".scroller").focus()
    page.keyboard.press("a")
    assert not any(each.path == "/approvals/a0" for each in server.asked)


def test_all_counts_only_what_it_accepts_and_tells_what_remains(server, open_session):
    ask(server, count=3)
    server.replies["facts a1"]["dangers"] = [{"text": "deletes files", "grave": True}]
    page = open_session()
    page.locator(".alone-note").get_by_text(
        "1 dangerous call must be accepted on its own"
    ).wait_for()
    page.locator(".accept-all:enabled", has_text="Accept all 2").click()
    assert server.wait_for("/approvals").body["ids"] == ["a0", "a2"]


def test_nothing_is_decided_while_the_server_is_unreachable(server, open_session):
    ask(server)
    page = open_session(expected="WebSocket")
    page.locator(".decision .accept:enabled").wait_for()
    server.refuses_streams = True
    server.disconnect()
    page.locator(".connection.reconnecting").wait_for()
    for button in ("accept", "reject", "edit"):
        page.locator(f".decision .{button}:disabled").wait_for()
    page.locator(".card-decision").get_by_role("button", name="Accept", disabled=True).wait_for()
    page.locator(".scroller").focus()
    page.keyboard.press("a")
    server.refuses_streams = False
    page.locator(".decision .accept:enabled").wait_for()
    page.locator(".card-decision").get_by_role("button", name="Accept", disabled=False).wait_for()
    assert not any(each.path == "/approvals/a0" for each in server.asked)


def test_questions_by_click_and_in_own_words(server, open_session):
    question = {"kind": "question", "id": "q1", "seq": 1, "agent": "main", "call": "", "question": "Which one?",
                "options": ["red", "blue"], "multiple": False, "deadline": 0}  # fmt: skip
    server.state["waiting"] = [question]
    page = open_session()
    page.locator(".option", has_text="blue").click()
    assert server.wait_for("/questions/q1").body == {"answers": ["blue"]}
    server.change(waiting=[{**question, "id": "q2", "multiple": True}])
    page.locator(".decision[data-id='q2']").wait_for()
    page.locator(".option", has_text="red").click()
    page.get_by_label("Your own answer").fill("green")
    page.get_by_role("button", name="Answer").click()
    assert server.wait_for("/questions/q2").body == {"answers": ["red", "green"]}


def test_plans_are_accepted_edited_and_rejected(server, open_session):
    plan = {"kind": "plan", "id": "r1", "seq": 1, "agent": "main", "text": "1. Read\n2. **Write**"}
    server.state["waiting"] = [plan]
    page = open_session()
    page.locator(".plan-text strong").wait_for()
    page.get_by_role("button", name="Change the plan").click()
    page.locator(".decision textarea").fill("Test first.")
    page.get_by_role("button", name="Change the plan").click()
    assert server.wait_for("/plans/r1").body == {"accepted": False, "reason": "Test first."}
    server.change(waiting=[{**plan, "id": "r2"}])
    page.locator(".decision[data-id='r2']").wait_for()
    page.get_by_role("button", name="Edit").click()
    page.locator(".decision textarea").fill("1. Read only")
    page.get_by_role("button", name="Carry out").click()
    assert server.wait_for("/plans/r2").body == {"accepted": True, "text": "1. Read only"}


def test_what_an_earlier_process_left_is_continued(server, open_session):
    server.state["left"] = 2
    page = open_session()
    page.locator(".decision.left").get_by_role("button", name="Continue").click()
    server.wait_for("/resume")


def test_waiting_items_are_counted_in_the_title_and_notified(server, open_session):
    page = open_session(permissions=["notifications"])
    page.evaluate("""() => {
        localStorage.setItem('hilum.preferences', '{"notifications": true}');
    }""")
    page.reload()
    page.locator(".connection.open").wait_for(state="attached")
    page.evaluate("""() => {
        window.noted = [];
        window.Notification = class { constructor(title, options) { window.noted.push(options.body); }
            static permission = 'granted'; };
        Object.defineProperty(document, 'hidden', {value: true, configurable: true});
    }""")
    each = card(1, "bash", {"command": "make"}, "waiting_for_approval")
    server.change(waiting=[approval("a1", each)])
    page.locator(".decision").wait_for()
    wait_until(page, lambda: page.title().startswith("(1) "))
    wait_until(page, lambda: page.evaluate("window.noted") == ["bash: make"])


def test_the_shown_call_stays_when_an_earlier_one_is_answered_elsewhere(server, open_session):
    ask(server, count=3)
    page = open_session()
    page.get_by_role("button", name="Next").click()
    page.locator(".decision[data-id='a1'] .accept:enabled").wait_for()
    page.locator(".decision .reject").click()
    page.locator(".decision .reason").fill("Not this one.")
    server.change(waiting=server.state["waiting"][1:])
    page.locator(".decision-count").get_by_text("1 of 2").wait_for()
    assert page.locator(".decision").get_attribute("data-id") == "a1"
    assert page.locator(".decision .reason").input_value() == "Not this one."


def test_a_call_that_moves_under_the_pointer_cannot_be_accepted_at_once(server, open_session):
    ask(server, count=2)
    page = open_session()
    page.locator(".decision[data-id='a0'] .accept:enabled").wait_for()
    page.locator(".scroller").focus()
    server.change(waiting=server.state["waiting"][1:])
    page.locator(".decision[data-id='a1'] .accept:disabled").wait_for()
    page.keyboard.press("a")
    page.locator(".decision[data-id='a1'] .accept:enabled").wait_for()
    assert not any(each.path.startswith("/approvals/a1") and each.body.get("accepted")
                   for each in server.asked)  # fmt: skip
    page.keyboard.press("a")
    server.wait_for("/approvals/a1")


def test_a_key_that_is_held_down_decides_nothing(server, open_session):
    ask(server)
    page = open_session()
    page.locator(".decision .accept:enabled").wait_for()
    page.evaluate("""() => document.body.dispatchEvent(
        new KeyboardEvent('keydown', {key: 'a', repeat: true, bubbles: true}))""")
    page.locator(".scroller").focus()
    page.keyboard.press("x")
    page.locator(".decision .reason").wait_for()
    assert not any(each.path == "/approvals/a0" for each in server.asked)


def test_a_plan_is_not_accepted_by_a_key_while_its_changes_are_written(server, open_session):
    plan = {"kind": "plan", "id": "r1", "seq": 1, "agent": "main", "text": "1. Read"}
    server.state["waiting"] = [plan]
    page = open_session()
    page.get_by_role("button", name="Change the plan").click()
    page.locator(".scroller").focus()
    page.keyboard.press("a")
    page.keyboard.press("Escape")
    page.locator(".decision .accept").wait_for()
    assert not any(each.path == "/plans/r1" for each in server.asked)


def test_a_call_whose_facts_cannot_be_read_cannot_be_accepted(server, open_session):
    ask(server)
    server.replies["GET /approvals"] = (500, {"code": "E_BUG", "message": "No.", "hint": ""})
    page = open_session(expected="500")
    page.locator(".decision").get_by_text("cannot be accepted").wait_for()
    assert page.locator(".decision .accept").is_disabled()
    page.locator(".card.waiting").get_by_role("button", name="Accept").click()
    page.locator(".scroller").focus()
    page.keyboard.press("a")
    del server.replies["GET /approvals"]
    page.locator(".decision").get_by_role("button", name="Try again").click()
    page.locator(".decision .accept:enabled").wait_for()
    decided = [each for each in server.asked if each.path == "/approvals/a0"]
    assert decided == []


def test_the_facts_of_many_approvals_are_read_with_one_request(server, open_session):
    ask(server, count=12)
    page = open_session()
    page.locator(".accept-all:enabled", has_text="Accept all 12").wait_for()
    asked = [each for each in server.asked if (each.method, each.path) == ("GET", "/approvals")]
    assert len(asked) == 1


def test_refused_answers_of_a_batch_are_reported(server, open_session):
    ask(server, count=2)
    refused = {"id": "a1", "code": "E_GRAVE", "message": "Accept this call alone."}
    server.replies["POST /approvals"] = (200, {"answers": [{"id": "a0", "code": ""}, refused]})
    page = open_session()
    page.locator(".accept-all:enabled").click()
    page.locator(".toast").get_by_text("E_GRAVE: Accept this call alone.").wait_for()


def test_a_wrong_clock_of_the_browser_does_not_change_the_countdown(server, open_session):
    page = open_session()
    page.evaluate("() => { const now = Date.now; Date.now = () => now() - 3_600_000; }")
    each = card(1, "bash", {"command": "make"}, "waiting_for_approval")
    server.change(waiting=[approval("a1", each, deadline=time.time() + 40)])
    page.locator(".countdown").get_by_text("s left").wait_for()


def test_a_browser_that_cannot_construct_notifications_still_shows_the_call(server, open_session):
    """Chrome on Android has the class, and raises when it is called."""
    page = open_session()
    page.evaluate("""() => {
        localStorage.setItem('hilum.preferences', '{"notifications": true}');
    }""")
    page.reload()
    page.locator(".connection.open").wait_for(state="attached")
    page.evaluate("""() => {
        window.Notification = class { constructor() { throw new TypeError('Illegal constructor'); }
            static permission = 'granted'; };
        Object.defineProperty(document, 'hidden', {value: true, configurable: true});
    }""")
    each = card(1, "bash", {"command": "make"}, "waiting_for_approval")
    server.change(waiting=[approval("a1", each)], title="Another title")
    page.locator(".decision").wait_for()
    page.locator("h1", has_text="Another title").wait_for()


def test_a_page_that_slept_decides_nothing_before_it_is_current(server, open_session):
    """Its buttons were drawn yesterday, and no event tells it that it is awake."""
    ask(server)
    page = open_session()
    page.locator(".decision .accept:enabled").wait_for()
    page.evaluate("""() => {
        const now = Date.now;
        Date.now = () => now() + 86_400_000;
        document.querySelector('.decision .accept').click();
        document.querySelector('.card-decision button').click();
        document.querySelector('.scroller').focus();
    }""")
    page.keyboard.press("a")
    wait_until(page, lambda: len(server.connects) == 2)  # its beat notices the silence
    assert not any(each.path == "/approvals/a0" for each in server.asked)
    page.locator(".decision .accept:enabled").click()
    server.wait_for("/approvals/a0")


def test_another_history_under_the_same_numbers_replaces_everything(server, open_session):
    """A server that was restored from a copy: what was known about its calls is wrong."""
    ask(server)
    server.seq = 50
    page = open_session()
    page.locator(".decision .accept:enabled").wait_for()
    page.locator(".card .fold").click()
    page.get_by_role("button", name="Always").click()
    server.seq = 3
    other = card(1, "bash", {"command": "rm -rf build"}, "waiting_for_approval", risk="execute")
    server.entries = [prompt(0, "Another prompt"), other]
    server.state["waiting"] = [approval("a0", other)]
    server.replies["facts a0"] = {
        "text": "rm -rf build",
        "dangers": [{"text": "deletes files outside of Git", "grave": True}],
    }
    server.disconnect()
    page.locator(".decision .command", has_text="rm -rf build").wait_for()
    page.locator(".danger-line.grave").wait_for()
    page.get_by_text("Another prompt").wait_for()
    assert page.get_by_text("pytest 0").count() == 0
    assert page.locator(".card .fold").get_attribute("aria-expanded") == "true"
    page.locator(".decision .accept:enabled").click()
    assert server.wait_for("/approvals/a0").body == {"accepted": True, "remember": "once"}
    assert server.wait_for("/approvals/a0").seen == "3"


QUESTION = {"kind": "question", "id": "q1", "seq": 1, "agent": "main", "call": "", "question": "Which one?",
            "options": ["red", "blue"], "multiple": False, "deadline": 0}  # fmt: skip
PLAN = {"kind": "plan", "id": "r1", "seq": 1, "agent": "main", "text": "1. **Read**"}


@pytest.mark.parametrize(("item", "key"), [(QUESTION, "1"), (PLAN, "a")], ids=["question", "plan"])
def test_who_may_only_watch_answers_nothing(server, open_session, item, key):
    server.state["waiting"] = [item]
    server.replies["GET /me"] = (200, {"name": "eve", "rights": "prompt"})
    page = open_session()
    page.locator(".decision h2").first.wait_for()
    wait_until(page, lambda: page.locator(".composer textarea").is_enabled())
    assert page.locator(".decision button:enabled").count() == 0
    page.locator(".scroller").focus()
    page.keyboard.press(key)
    page.wait_for_timeout(100)
    assert not any(each.path in ("/questions/q1", "/plans/r1") for each in server.asked)


def test_nothing_of_one_call_is_used_for_the_next(server, open_session):
    """Neither how long an approval lasts nor the reason of a rejection."""
    ask(server, count=2)
    page = open_session()
    page.locator(".decision .accept:enabled").wait_for()
    page.get_by_role("button", name="Always").click()
    page.get_by_role("button", name="Next").click()
    page.locator(".decision[data-id=a1]").wait_for()
    once = page.get_by_role("button", name="This call")
    assert once.get_attribute("aria-pressed") == "true"
    page.locator(".decision .reject").click()
    page.locator(".decision .reason").fill("Not the second one.")
    page.get_by_role("button", name="Previous").click()
    page.locator(".decision[data-id=a0]").wait_for()
    page.locator(".decision .reject").click()
    assert page.locator(".decision .reason").input_value() == ""
    page.keyboard.press("Escape")
    page.locator(".decision .accept:enabled").click()
    assert server.wait_for("/approvals/a0").body == {"accepted": True, "remember": "once"}


def test_an_edited_call_is_never_remembered(server, open_session):
    ask(server)
    page = open_session()
    page.locator(".decision .accept:enabled").wait_for()
    page.get_by_role("button", name="Always").click()
    page.locator(".decision .edit").click()
    page.locator(".fields textarea").fill("rm -rf build")
    page.locator(".decision .accept").click()
    body = server.wait_for("/approvals/a0").body
    assert body == {"accepted": True, "remember": "once", "arguments": '{"command":"rm -rf build"}'}


def test_a_card_decides_only_about_the_call_of_its_own_agent(server, open_session):
    """Models number their calls; two agents may use the same id."""
    mine = card(1, "bash", {"command": "ls"}, "waiting_for_approval", risk="execute")
    other = {**card(2, "bash", {"command": "rm x"}, "waiting_for_approval"), "agent": "explore-1"}
    other["call"]["id"] = mine["call"]["id"]
    server.entries = [prompt(0, "Go"), mine, other]
    server.state["agents"] = [main_agent(), main_agent(name="explore-1", running=True)]
    server.state["started"] = [started("1", "Explore it")]
    server.state["waiting"] = [approval("theirs", other)]
    page = open_session()
    page.locator(".decision .accept:enabled").wait_for()
    assert "Explore it wants to use bash" in page.locator(".decision h2").inner_text()
    assert page.locator(".card.waiting").get_by_role("button", name="Accept").count() == 0
    server.change(waiting=[approval("theirs", other), approval("mine", mine)])
    button = page.locator(".card.waiting").get_by_role("button", name="Accept")
    button.click()
    page.locator(".decision[data-id=mine] .accept:enabled").click()
    server.wait_for("/approvals/mine")
    assert not any(each.path == "/approvals/theirs" for each in server.asked)


def test_the_time_limit_does_not_start_while_nobody_looks(server, open_session):
    page = open_session()
    page.evaluate("""() => {
        window.isHidden = true;
        Object.defineProperty(document, 'hidden', {get: () => window.isHidden, configurable: true});
    }""")
    each = card(1, "bash", {"command": "make"}, "waiting_for_approval")
    server.change(waiting=[approval("a1", each)])
    page.locator(".decision .accept:enabled").wait_for()
    page.wait_for_timeout(100)
    assert not any(asked.path == "/approvals/a1/shown" for asked in server.asked)
    page.evaluate("""() => {
        window.isHidden = false;
        document.dispatchEvent(new Event('visibilitychange'));
    }""")
    server.wait_for("/approvals/a1/shown")


def test_a_dangerous_call_says_in_words_that_it_is_accepted_alone(server, open_session):
    ask(server)
    server.replies["facts a0"]["dangers"] = [{"text": "deletes files", "grave": True}]
    page = open_session(language="zh")
    page.locator(".scope-note", has_text="此调用有危险，因此只能同意这一次。").wait_for()
    assert page.locator(".segments").count() == 0


def test_an_entry_that_changes_appears_and_disappears(server, open_session):
    server.entries = [prompt(0, "Go"), answer(1, "", state="streaming"), prompt(2, "Next")]
    page = open_session()
    page.locator(".entry-answer").wait_for()
    server.add(answer(1, "", state="dropped"))
    page.locator(".entry-answer").wait_for(state="detached")
    server.add(answer(1, "It came back."))
    page.locator(".entry-answer", has_text="It came back.").wait_for()


def test_an_entry_that_takes_the_place_of_another_is_shown(server, open_session):
    """In one message: the number of shown entries stays the same."""
    hidden = answer(1, "", state="dropped")
    server.entries = [prompt(0, "Go"), hidden, answer(2, "The first try."), prompt(3, "Next")]
    page = open_session()
    page.get_by_text("The first try.").wait_for()
    changed = [answer(1, "The second try."), answer(2, "", state="dropped")]
    server.push(*({"type": "entry", "seq": server.seq, "entry": each} for each in changed))
    page.get_by_text("The second try.").wait_for()
    page.get_by_text("The first try.").wait_for(state="detached")


SIGHT = """(selector) => [...document.querySelectorAll(selector)].map((element) => {
    const box = element.getBoundingClientRect();
    const found = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
    const top = document.elementFromPoint(box.left + 4, box.top + 3);
    const bottom = document.elementFromPoint(box.left + 4, box.bottom - 3);
    const isSeen = [found, top, bottom].every(
        (each) => element.contains(each) || each?.contains(element) && each.closest('.decision'));
    return [element.className, isSeen && box.bottom <= innerHeight && box.top >= 0];
})"""
LONG_DIFF = "--- a/x.py\n+++ b/x.py\n@@ -1,60 +1,60 @@\n" + "".join(
    f"-old line {number} {'x' * 200}\n+new line {number}\n" for number in range(60)
)


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize("text", [DIFF, LONG_DIFF, "make\n" * 200], ids=["edit", "long", "command"])
@pytest.mark.parametrize("size", [(1280, 800), (1280, 657), (390, 667)], ids=str)
def test_only_the_text_of_a_call_scrolls(server, open_session, size, text):
    ask(server)
    server.replies["facts a0"]["text"] = f"Changes x.py:\n{text}"
    server.replies["facts a0"]["dangers"] = [{"text": "changes a file that runs", "grave": False}]
    page = open_session("phone" if size[0] == 390 else "tablet")
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.locator(".decision .accept:enabled").wait_for()
    parts = ".decision h2, .danger-line, .decision-scope, .decision-scope .segments, .accept, .reject, .edit"
    for choice in ("This call", "Always"):
        page.get_by_role("button", name=choice).click()
        found = page.evaluate(SIGHT, parts)
        assert len(found) == 7
        assert [name for name, is_seen in found if not is_seen] == []
        assert page.evaluate("""() => [...document.querySelectorAll('.decision-place, .decision')]
            .every((each) => each.scrollHeight <= each.clientHeight + 1)""")
    body = page.locator(".decision .diff-box, .decision .card-text").first
    assert body.bounding_box()["height"] >= 60
    # One scrollbar: nothing around the text scrolls, too.
    around = body.evaluate("""(element) => {
        const parts = [];
        for (let each = element.parentElement; each; each = each.parentElement) {
            const scrolls = ['auto', 'scroll'].includes(getComputedStyle(each).overflowY);
            if (scrolls && each.scrollHeight > each.clientHeight + 1) parts.push(each.className);
        }
        return parts;
    }""")
    assert around == []
    keep_screenshot(page, f"sight-{size[0]}-{size[1]}-{len(text)}")
