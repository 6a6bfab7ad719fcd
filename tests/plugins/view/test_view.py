"""What a face is shown: entries, what each event changes, what waits, what is used."""

import json

import pytest
from hilum import events as ev
from hilum.errors import E_DENIED, GATE_SHUT, RULE, UNATTENDED
from hilum.messages import (
    AssistantMessage,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from hilum_view import (
    Answer,
    Approval,
    Card,
    Notice,
    Outcome,
    Prompt,
    Question,
    SessionView,
    StreamedText,
    count_changes,
    describe_arguments,
    describe_end,
    format_duration,
    format_money,
    format_tokens,
    parse_partial_arguments,
)

CALL = ToolCall("c1", "read_file", '{"path": "a"}')


def started(view, agent="main", run="r1", **more):
    parts = (Text("do it"), Text("a log", "piped"), Text("x = 1", "context:open_file"))
    message = UserMessage(parts)
    return view.apply(
        ev.RunStarted(
            seq=1, agent=agent, run=run, text="do it", message=message, model="a/b", **more
        )
    )


def answered(view, *parts, agent="main", turn=1, usage=None, seq=3):
    view.apply(ev.ModelStarted(seq=seq - 1, agent=agent, run="r1", turn=turn, model="a/b"))
    stop = "calls" if any(isinstance(part, ToolCall) for part in parts) else "end"
    return view.apply(
        ev.ModelAnswered(
            seq=seq,
            agent=agent,
            run="r1",
            message=AssistantMessage(parts, "a/b", stop),
            usage=usage or Usage(10, output=5),
        )
    )


def done(view, text="", code="", agent="main", call=CALL, data=None, seconds=0.5):
    result = ToolResult(call.id, call.name, (Text(text),), code, data or {})
    return view.apply(ev.CallDone(agent=agent, run="r1", result=result, seconds=seconds))


def test_a_run_is_a_prompt_answers_calls_and_an_outcome():
    view = SessionView()
    started(view)
    answered(view, Thinking("hm"), Text("I look."), CALL)
    view.apply(ev.CallStarted(agent="main", run="r1", call=CALL, risk="read", at=7.0))
    done(view, "one")
    answered(view, Text("Done."), turn=2)
    view.apply(ev.RunEnded(agent="main", run="r1", state="completed", text="Done.", turns=2))
    assert [type(entry) for entry in view.entries] == [Prompt, Answer, Card, Answer, Outcome]
    assert [entry.id for entry in view.entries] == [0, 1, 2, 3, 4]
    prompt, first, card, last, outcome = view.entries
    assert (prompt.text, prompt.attached, prompt.request) == ("do it", "a log", "do it\na log")
    assert [source.source for source in prompt.context] == ["context:open_file"]
    assert (str(first.text), str(first.thinking), first.state) == ("I look.", "hm", "done")
    assert (card.title, card.summary, card.state) == ("read_file path=a", "one", "completed")
    assert str(last.text) == "Done."
    assert (outcome.next_step, view.outcome) == ("", outcome)
    assert view.lead_actor.activity == "completed"
    assert view.lead_actor.last_words == "Done."
    assert view.totals.usage.total == 30
    assert view.totals.runs == 1
    started(view, run="r2")
    assert view.outcome is None
    assert (view.lead_actor.activity, view.lead_actor.turn) == ("preparing", 0)


def test_calls_with_the_same_id_in_two_answers_are_two():
    """Some servers count the calls of each answer from one."""
    view = SessionView()
    started(view)
    for turn in (1, 2):
        answered(view, CALL, turn=turn)
        view.apply(ev.CallStarted(agent="main", call=CALL))
        assert len(view.running()) == 1
        card = done(view, f"turn {turn}", "E_X" if turn == 2 else "").card
        assert card.call.arguments == '{"path": "a"}'
    assert [card.text for card in view.cards] == ["turn 1", "turn 2"]
    assert [card.turn for card in view.cards] == [1, 2]
    assert [card.state for card in view.cards] == ["completed", "failed"]
    assert not view.running()


def test_an_answer_streams_and_a_new_attempt_begins_anew():
    view = SessionView()
    started(view)
    view.apply(ev.ModelStarted(seq=2, agent="main", run="r1", turn=1))
    for kind, text in (("thinking", "hm"), ("text", "Hel"), ("text", "lo"), ("arguments", "{")):
        changes = view.apply(ev.Delta(2, "main", "r1", kind, text, "c1" * (kind == "arguments")))
        assert changes.entries == (view.streaming(),)
    answer = view.streaming()
    assert (str(answer.text), str(answer.thinking)) == ("Hello", "hm")
    assert {key: str(text) for key, text in answer.arguments.items()} == {"c1": "{"}
    failed = ev.ModelFailed(
        agent="main", attempt=1, model="a/b", kind="server", code="E_LLM_FAIL",
        message="It broke.", action="retry", wait=2.0,
    )  # fmt: skip
    notice = view.apply(failed).notice
    assert (notice.about, notice.text) == ("retry", "It broke.; again in 2 s")
    assert view.lead_actor.retry == "again in 2 s"
    view.apply(ev.ModelStarted(seq=4, agent="main", run="r1", turn=1, attempt=2))
    assert view.lead_actor.retry == ""
    view.apply(ev.Delta(2, "main", "r1", "text", "late"))
    assert str(answer.text) == ""
    view.apply(ev.Delta(4, "main", "r1", "text", "Again"))
    assert (str(answer.text), answer.attempt) == ("Again", 2)
    assert len([entry for entry in view.entries if isinstance(entry, Answer)]) == 1


def test_an_answer_that_never_came_is_dropped():
    view = SessionView()
    started(view)
    view.apply(ev.ModelStarted(seq=2, agent="main", run="r1", turn=1))
    view.apply(ev.Delta(2, "main", "r1", "text", "Hel"))
    answer = view.streaming()
    changes = view.apply(ev.RunEnded(agent="main", run="r1", state="stopped"))
    assert changes.entries[0] is answer
    assert (answer.state, str(answer.text), view.streaming()) == ("dropped", "", None)
    assert view.outcome.next_step == "retry"


def test_output_of_a_running_call_is_kept_by_its_end():
    view = SessionView()
    answered(view, CALL)
    view.apply(ev.CallStarted(agent="main", call=CALL))
    for number in range(3_000):
        view.apply(ev.Delta(1, "main", "r1", "output", f"line {number}\n", "c1"))
    (card,) = view.running()
    assert card.output.endswith("line 2999\n")
    assert len(card.output) == 4_000
    done(view, "all")
    assert card.output == ""
    assert not view.apply(ev.Delta(1, "main", "r1", "output", "late", "c1")).parts


def test_a_card_says_why_it_failed_what_it_changed_and_who_rewrote_it():
    view = SessionView()
    answered(view, CALL)
    new = ToolCall("c1", "read_file", '{"path": "b"}')
    view.apply(
        ev.CallStarted(
            agent="main", call=new, original=CALL.arguments, rewritten_by=("guard",), plugin="files"
        )
    )
    card = done(view, "E_STALE: Read it again.\nMore.", "E_STALE", data={"diff": "-a\n+b"}).card
    assert (card.reason, card.code, card.diff) == ("Read it again.", "E_STALE", "-a\n+b")
    assert (card.call, card.rewritten, card.rewritten_by) == (CALL, new.arguments, ("guard",))
    assert done(view, data={"diff": 3}).card.diff == ""


def test_a_run_that_was_cut_off_leaves_no_running_call():
    view = SessionView()
    started(view)
    answered(view, CALL)
    view.apply(ev.CallStarted(agent="main", call=CALL))
    started(view, run="r2")
    assert not view.running()
    assert view.cards[0].state == "interrupted"


def test_approvals_wait_until_they_are_answered():
    view = SessionView()
    started(view)
    answered(view, CALL)
    asked = ev.ApprovalAsked(id="q", agent="main", call=CALL, risk="write", seconds=9.0)
    changes = view.apply(asked)
    assert "waiting" in changes.parts
    (approval,) = view.waiting
    assert isinstance(approval, Approval)
    assert view.cards[0].state == "waiting_for_approval"
    view.apply(ev.ApprovalShown(id="q", deadline=99.0))
    assert approval.deadline == 99.0
    # A resumed session asks again.
    view.apply(ev.ApprovalAsked(id="q2", agent="main", call=CALL, risk="write"))
    assert [one.id for one in view.waiting] == ["q2"]
    notice = view.apply(ev.ApprovalAnswered(id="q2", accepted=False, reason="no\nway")).notice
    assert notice.text == "rejected: no"
    assert not list(view.waiting)
    assert view.cards[0].state == "pending"


@pytest.mark.parametrize(
    "end",
    [
        ev.CallDone(agent="main", result=ToolResult("c1", "ask_question", ())),
        ev.RunEnded(agent="main", state="stopped"),
        ev.PluginEvent(name="plan.question_answered", data={"id": "q", "call": "c1"}),
    ],
)
def test_questions_wait_until_they_end(end):
    view = SessionView()
    data = {"id": "q", "agent": "main", "call": "c1", "question": "Which?", "options": ["a", "b"]}
    view.apply(ev.PluginEvent(name="plan.question_asked", data=data, agent="main"))
    (question,) = view.waiting
    assert isinstance(question, Question)
    assert (question.call_id, question.options) == ("c1", ("a", "b"))
    assert "waiting" in view.apply(end).parts
    assert not list(view.waiting)


def test_agents_make_a_tree_with_their_usage_and_last_words():
    view = SessionView()
    for identity, actor, owner in (("a", "t1", "main"), ("b", "t2", "t1")):
        data = {"agent_id": identity, "agent": "task", "actor": actor, "owner": owner}
        view.apply(ev.PluginEvent(name="agents.queued", data=data, at=1.0))
        running = {"agent_id": identity, "status": "running", "progress": 0.5}
        moved = view.apply(ev.PluginEvent(name="agents.status", data=running, at=2.0)).agent
        assert (moved.status, moved.since) == ("running", 2.0)
        view.apply(ev.AgentStarted(agent=actor, parent=owner))
    answered(view, Text("Found it."), agent="t2", usage=Usage(7, output=1))
    view.apply(ev.ModelUsed(agent="t1", model="a/b", purpose="agent b", usage=Usage(7, output=1)))
    answered(view, Text("Mine."), agent="main")
    (top,) = view.agents.started_by("main")
    (below,) = view.agents.started_by(top.actor)
    assert (below.last_words, below.usage.total, top.usage.total) == ("Found it.", 8, 0)
    assert view.actors["t2"].parent == "t1"
    assert view.totals.usage.total == 8 + 15
    ended = {"agent_id": "b", "status": "completed", "text": "It is x.", "seconds": 3.0}
    view.apply(ev.PluginEvent(name="agents.result", data=ended))
    assert [one.answer for one in view.agents.ended()] == ["It is x."]
    assert [one.id for one in view.agents.open()] == ["a"]


def test_todo_lists_and_plans_belong_to_their_agents():
    view = SessionView()
    items = [{"id": "1", "content": "a", "status": "in_progress"}, {"id": "2", "content": "b"}]
    data = {"items": items, "progress": {"completed": 0, "total": 2}}
    assert "todos" in view.apply(ev.PluginEvent(name="plan.todos", data=data, agent="main")).parts
    todos = view.lead_actor.todos
    assert (todos.current.content, todos.total, todos.is_new) == ("a", 2, True)
    items[1]["status"] = "completed"
    view.apply(ev.PluginEvent(name="plan.todos", data=data, agent="main"))
    assert [item.id for item in todos.changed] == ["2"]
    view.apply(ev.PluginEvent(name="plan.proposed", data={"text": "1. x"}, agent="main", run="r1"))
    assert view.lead_actor.proposal.text == "1. x"
    view.apply(ev.PluginEvent(name="plan.rejected", data={}, agent="main"))
    assert view.lead_actor.proposal is None


@pytest.mark.parametrize(
    ("event", "about", "text", "level"),
    [
        (
            ev.Compacted(upto=3, before=1200),
            "compacted",
            "older messages were replaced by a summary to fit the model's window (about 1,200 tokens before)",
            "warning",
        ),
        (ev.Compacted(), "compacted", "the conversation could not be compacted", "info"),
        (ev.SessionChanged(model="a/c"), "settings", "model: a/c", "info"),
        (
            ev.PluginFault(plugin="p", hook="remind", error="x\ny", switched_off=True),
            "plugin_failed",
            "the plugin p failed in remind: x; it is switched off",
            "warning",
        ),
        (ev.PluginEvent(name="p.x", data={"say": "a\nb"}), "said", "a\nb", "info"),
        (
            ev.PluginEvent(name="files.changed", data={"tool": "undo", "what": "the last run"}),
            "undo",
            "undone: the last run",
            "info",
        ),
        (
            ev.PluginEvent(
                name="files.changed",
                data={
                    "tool": "undo",
                    "what": "undo run r1",
                    "changes": [["new"], *([f"new/{n}.py"] for n in range(9)), ["b.py"]],
                },
            ),
            "undo",
            f"undone: {', '.join(f'new/{n}.py' for n in range(8))} and 2 more",
            "info",
        ),
        (
            ev.PluginEvent(
                name="files.changed",
                data={"tool": "undo", "what": "undo undo 1", "changes": [["a.py"]]},
            ),
            "undo",
            "redone: a.py",
            "info",
        ),
        (ev.UserNeeded(code="E_X", message="Log in."), "user_needed", "Log in.", "warning"),
        (ev.ErrorRaised(code="E_X", message="m", hint="h"), "error", "m", "warning"),
    ],
)
def test_notices(event, about, text, level):
    view = SessionView()
    notice = view.apply(event).notice
    assert isinstance(notice, Notice)
    assert (notice.about, notice.text, notice.level) == (about, text, level)
    assert view.entries == [notice]


def test_denials_effects_files_and_secrets_are_counted():
    view = SessionView()
    answered(view, CALL)
    done(view, f"E_DENIED: {UNATTENDED}.", E_DENIED, data={RULE: "write_file"})
    answered(view, CALL, turn=2)
    view.apply(ev.CallStarted(agent="main", call=CALL, risk="write"))
    done(view, "ok")
    for paths in (["a", "b"], ["b", "\0ff61"]):
        changes = [[path, None, None] for path in paths]
        view.apply(ev.PluginEvent(name="files.changed", data={"changes": changes}))
    view.apply(ev.PluginEvent(name="redaction.prompt", data={"names": ["KEY", "KEY"]}))
    assert (view.unattended, view.denied_rules, view.effects) == (1, ["write_file"], 1)
    assert view.files == ["a", "b", "\\xffa"]
    assert view.redacted == ["KEY"]


@pytest.mark.parametrize(
    ("end", "step", "text"),
    [
        (ev.RunEnded(state="completed"), "", "completed"),
        (ev.RunEnded(state="failed", code="E_LLM_FAIL", error="No.", hint="Retry."), "retry",
         "E_LLM_FAIL: No.\nRetry."),
        (ev.RunEnded(state="failed", code="E_FAILED", error="No."), "prompt", "E_FAILED: No."),
        (ev.RunEnded(state="partial_success", left="x"), "prompt", "partial success\nx"),
        (ev.RunEnded(state="stopped"), "retry", "stopped. Everything it had started has ended."),
    ],
)  # fmt: skip
def test_an_outcome_says_what_happened_and_what_is_next(end, step, text):
    view = SessionView()
    view.apply(end)
    outcome = view.entries[-1]
    assert (outcome.next_step, outcome.text, describe_end(end)) == (step, text, text)


def test_the_end_of_a_queued_prompt_ends_no_run():
    """Two prompts wait for one agent; a stop ends the one that never began."""
    view = SessionView()
    view.apply(ev.PromptQueued(agent="main", run="r1", text="one"))
    view.apply(ev.PromptQueued(agent="main", run="r2", text="two"))
    started(view)
    view.apply(ev.ModelStarted(seq=2, agent="main", run="r1", turn=1))
    assert view.lead_actor.queued == {"r2": "two"}
    view.apply(ev.RunEnded(agent="main", run="r2", state="stopped"))
    assert view.lead_actor.activity == "thinking"
    assert view.streaming() is not None
    assert view.outcome is None


def test_malformed_events_of_plugins_are_skipped():
    """Any plugin may write an event of any name."""
    view = SessionView()
    names = (
        "agents.queued", "agents.status", "agents.result", "plan.todos", "plan.proposed",
        "plan.question_asked", "plan.question_answered", "files.changed", "redaction.prompt",
    )  # fmt: skip
    for data in ({}, {"agent_id": 7}, {"agent_id": "x", "status": None}, {"items": [{}]},
                 {"changes": [[], [3]], "names": 3, "id": [], "say": 4, "tool": "undo",
                  "kind": "approval"}):  # fmt: skip
        for name in names:
            view.apply(ev.PluginEvent(name=name, data=data, agent="main"))
    assert not list(view.waiting)
    assert not view.lead_actor.todos.items


def test_an_event_of_a_later_version_is_skipped():
    class Unheard(ev.Event, frozen=True):
        what: str = ""

    view = SessionView()
    assert not view.apply(Unheard(seq=4)).parts
    assert view.seq == 4


def test_arguments_are_shortened():
    """Long and many-lined values by their beginning; what is no JSON as it is."""
    assert describe_arguments('{"path": "a.py", "n": 3}') == "path=a.py n=3"
    assert describe_arguments('{"command": "ls -l"}') == 'command="ls -l"'
    assert describe_arguments('{"text": "\\n  one\\ntwo\\n"}') == 'text="one… (3 lines)"'
    assert describe_arguments("{broken") == "{broken"
    assert describe_arguments("[1, 2]") == "[1, 2]"


def test_the_last_line_of_a_command_is_part_of_its_summary():
    """Test runners say there how it went."""
    view = SessionView()
    card = done(view, "Exit code 1 after 0.1 s\nnoise\nFAILED (failures=2)\n").card
    assert card.summary == "Exit code 1 after 0.1 s … FAILED (failures=2)"


def test_numbers_are_written_for_people():
    """Short, and small amounts stay visible."""
    assert [format_duration(s) for s in (0.04, 9.96, 61, 300, 3600, 3700)] == [
        "0.0 s", "10.0 s", "1 min 1 s", "5 min", "1 h", "1 h 1 min",
    ]  # fmt: skip
    assert [format_money(d) for d in (0, 0.0123, 1.5)] == ["$0.00", "$0.0123", "$1.50"]
    assert format_tokens(Usage(1200, 800, output=30)) == "1.2k in (800 cached), 30 out"


@pytest.mark.parametrize("limit", [0, 1, 4, 5, 9, 20])
def test_the_tail_of_a_streamed_text(limit):
    text = StreamedText()
    for piece in ("one", " ", "", "two", " three"):
        text.add(piece)
    assert text.tail(limit) == ("one two three"[-limit:] if limit else "")
    assert len(text) == 13
    assert str(text) == "one two three"
    assert text.tail(limit) == ("one two three"[-limit:] if limit else "")


def test_streaming_arguments_are_parsed_as_far_as_they_have_arrived():
    """Cut anywhere, an argument is never shown wrongly."""
    arguments = {
        "command": 'echo "日本\t\\" \N{PARTY POPPER}x',
        "number": 12,
        "list": [1, {"a": 2}],
    }
    for ascii_only in (True, False):
        text = json.dumps(arguments, ensure_ascii=ascii_only)
        for end in range(len(text) + 1):
            found = parse_partial_arguments(text[:end])
            assert arguments["command"].startswith(found.get("command", ""))
            assert found.get("number", 12) in (1, 12)
            assert found.get("list", [1, {"a": 2}]) == [1, {"a": 2}]
        assert parse_partial_arguments(text) == arguments
    for text in ("", "[1]", "null", "{", "{1: 2}", '{"a": 1' + "0" * 5_000, '{"a":' + "[" * 9_999):
        assert parse_partial_arguments(text) == {}


def test_changes_are_counted_in_hunks_only():
    diff = "--- a/x\n+++ b/x\n@@ -1,3 +1,2 @@\n--- one\n+++ two\n-three\n four\n\\ No newline\n-no hunk"
    assert count_changes(diff) == (1, 2)
    assert count_changes("") == (0, 0)
    assert count_changes("+a\n-b") == (0, 0)
    assert count_changes("@@ -1,9 +1,9 @@\n+a\n@@ -5 +5 @@\n-b\n+c") == (2, 1)


def test_a_card_says_whether_its_command_failed():
    view = SessionView()
    for data, code in [
        ({"exit_code": 3}, 3),
        ({"exit_code": -9}, -9),
        ({"exit_code": 0}, 0),
        ({"exit_code": None}, None),
        ({"exit_code": True}, None),
        ({"exit_code": "1"}, None),
        ({}, None),
    ]:
        assert done(view, "x", data=data).card.exit_code == code


def test_a_card_says_who_refused_it():
    def refuse(code, text="no", asked=False, began=False, by="user"):
        view = SessionView()
        answered(view, CALL)
        if asked:
            view.apply(ev.ApprovalAsked(agent="main", id="q", call=CALL, risk="write"))
            view.apply(ev.ApprovalAnswered(agent="main", id="q", accepted=False, by=by))
        if began:
            view.apply(ev.CallStarted(agent="main", call=CALL, at=5.0))
        return done(view, f"{code}: {text}", code).card

    assert refuse("E_REJECTED", asked=True).refused_by == "user"
    assert refuse("E_REJECTED", asked=True).decided_by == "user"
    assert refuse("E_REJECTED", asked=True, by="headless").refused_by == "nobody"
    assert refuse("E_APPROVAL_TIMEOUT", asked=True, by="timeout").refused_by == "timeout"
    assert refuse("E_BLOCKED").refused_by == "rule"
    assert refuse("E_DENIED").refused_by == "rule"
    assert refuse("E_DENIED", f"{UNATTENDED}: x").refused_by == "nobody"
    assert refuse("E_PLUGIN", f"guard {GATE_SHUT}.").refused_by == "gate"
    assert refuse("E_DENIED", began=True).refused_by == ""
    assert refuse("E_FAILED").refused_by == ""
    assert refuse("E_STOPPED").was_stopped
    assert not refuse("E_FAILED").was_stopped


def test_a_card_has_the_arguments_with_which_it_runs():
    view = SessionView()
    answered(view, CALL)
    assert view.cards[0].arguments == CALL.arguments
    rewritten = ToolCall(CALL.id, CALL.name, '{"path": "b"}')
    view.apply(ev.CallStarted(agent="main", call=rewritten, original=CALL.arguments))
    assert view.cards[0].arguments == '{"path": "b"}'
    card = done(view, data={"diff": "@@ -1 +1,2 @@\n-a\n+b\n+c"}).card
    assert card.line_counts == (2, 1)


def test_the_head_of_a_streamed_text():
    text = StreamedText("ab")
    text.add("cd")
    text.add("ef")
    assert [text.head(limit) for limit in (0, 1, 3, 6, 9)] == ["", "a", "abc", "abcdef", "abcdef"]
