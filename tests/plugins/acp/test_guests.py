"""Other agents as workers: what they ask of their client goes through hilum's tools and rules."""

import json
import sys

import hilum_acp.guests.guest
import hilum_files
import hilum_guard
import hilum_plan
import hilum_rules
import pytest
import trio
from hilum import FileHistory, ToolError, UsageError, hookimpl
from hilum.events import (
    ApprovalAnswered,
    ApprovalAsked,
    CallDone,
    CallStarted,
    Compacted,
    ModelAnswered,
)
from hilum.messages import Compaction, Thinking
from hilum.testing import say, use
from hilum.trust import TrustedFolders
from hilum_agents.runs import Runs
from hilum_view import Card, SessionView

from tests.plugins.acp.conftest import wait_for_text

pytestmark = pytest.mark.slow(cases=24, of="file")


def tools(guest):
    return [event.call.name for event in guest.bench.of(CallStarted)]


def events_of_view(guest):
    view = SessionView()
    for event in guest.bench.events:
        view.apply(event)
    return view


async def answer_next(bench, accepted, **more):
    """Answer the next question as the user would."""
    asked = await bench.wait_for(ApprovalAsked)
    bench.session.answer(asked.id, accepted, **more)
    return asked


# --- messages -------------------------------------------------------------------------------------


async def test_what_a_guest_says_is_the_answer_of_the_agent(open_guest):
    async with open_guest("courteous") as guest:
        result = await guest.run(["think", "Let me see."], ["say", "All is well."])
        assert result["status"] == "completed"
        assert result["text"] == "All is well."
        thoughts = [
            part.text
            for event in guest.bench.of(ModelAnswered)
            for part in event.message.parts
            if isinstance(part, Thinking)
        ]
        assert thoughts == ["Let me see."]


async def test_instructions_of_the_file_reach_the_guest(open_guest, tmp_path):
    async with open_guest("bypassing") as guest:
        path = tmp_path / "config" / "agents" / "guest.md"
        path.write_text(path.read_text() + "Always be brief.\n")
        result = await guest.execute("print(globals().get('x', 'ran'))")
        assert result["text"] == "ran\n"
        started = guest.bench.of(ModelAnswered)
        assert started


async def test_a_tool_call_that_a_guest_reports_is_shown_as_its_claim(open_guest):
    async with open_guest("courteous") as guest:
        result = await guest.run(["tool", "npm test", "3 passed"], ["say", "Done."])
        assert result["status"] == "completed"
        assert tools(guest) == ["guest_report"]
        done = guest.bench.of(CallDone)[0].result
        assert done.text == "The program reports: completed.\n3 passed"
        cards = [entry for entry in events_of_view(guest).entries if isinstance(entry, Card)]
        assert [(card.agent, card.state) for card in cards] == [(done_agent(guest), "completed")]


def done_agent(guest):
    return guest.bench.of(CallDone)[0].agent


async def test_the_plan_of_a_guest_becomes_the_todo_list_of_the_agent(open_guest):
    async with open_guest("courteous", plugins=(hilum_plan,)) as guest:
        await guest.run(["plan", ["Read", "in_progress"], ["Write", "pending"]], ["say", "Done."])
        call = next(e.call for e in guest.bench.of(CallStarted) if e.call.name == "todo_write")
        assert [todo["content"] for todo in json.loads(call.arguments)["todos"]] == [
            "Read",
            "Write",
        ]
        assert guest.bench.result("todo_write").code == ""


async def test_an_unknown_request_is_refused_and_the_guest_goes_on(open_guest):
    async with open_guest("courteous") as guest:
        result = await guest.run(["unknown"], ["say", "Still here."])
        assert result["text"] == "unknown: -32601\nStill here."


async def test_a_guest_whose_last_act_is_a_call_has_answered_before(open_guest):
    async with open_guest("courteous", plugins=(hilum_plan,)) as guest:
        result = await guest.run(["say", "All done."], ["plan", ["Read", "completed"]])
        assert result["text"] == "All done."
        result = await guest.run(["think", "Nothing to say."])
        assert result["text"] == "The program has ended its work without an answer."


async def test_a_guest_may_ask_for_files_while_its_own_tool_calls_run(open_guest):
    code = """
client.update("tool_call", toolCallId="1", title="Edit", kind="edit", status="in_progress")
path = os.path.abspath("a.txt")
for number in range(3):
    text, _ = client.request("fs/read_text_file", path=path)
    client.request("fs/write_text_file", path=path, content=f"{text['content']}{number}")
client.update("tool_call_update", toolCallId="1", status="completed")
print(client.permission("1", "Again", "edit", locations=[{"path": path}]))
"""
    async with open_guest("bypassing", files={"a.txt": "-"}) as guest:
        result = await guest.execute(code)
        assert result["text"] == "True\n"
        assert (guest.bench.workspace / "a.txt").read_text() == "-012"


async def test_hilum_itself_works_as_a_guest(open_guest):
    command = [sys.executable, "-m", "hilum", "acp", "--model", "openai/priced"]
    answers = [
        use("read_file", path="a.txt"),
        use("edit_file", path="a.txt", old_string="old", new_string="new"),
        say("Done by another hilum."),
    ]
    async with open_guest(command, script=answers, files={"a.txt": "old\n"}) as guest:
        result = await guest.prompt("Change old to new in a.txt.")
        assert result["status"] == "completed", result["error"]
        assert result["text"] == "Done by another hilum."
        assert (guest.bench.workspace / "a.txt").read_text() == "new\n"
        # The inner hilum wrote through the outer one, whose models it used.
        assert "write_file" in tools(guest)
        assert not guest.bench.result("write_file").code
        assert guest.models.count == 3
        assert result["usage"]["total"] > 0


async def test_a_new_process_receives_the_conversation_so_far(open_guest):
    async with open_guest("bypassing") as guest:
        await guest.prompt("My name is Ada.", keep=True)
        result = await guest.prompt("#begin\nprint('Ada' in prompt)", keep=True)
        assert result["text"] == "True\n"


async def test_a_new_process_receives_the_end_of_a_long_conversation(open_guest, monkeypatch):
    monkeypatch.setattr("hilum_acp.guests.guests.MAX_TRANSCRIPT", 100)
    async with open_guest("bypassing") as guest:
        await guest.prompt(f"My name is Ada. {'x' * 100}", keep=True)
        await guest.prompt("My name is Grace.", keep=True)
        # The code is a part of the prompt, too.
        code = "print('A' + 'da' in prompt, 'Gra' + 'ce' in prompt)"
        result = await guest.prompt(f"#begin\n{code}", keep=True)
        assert result["text"] == "False True\n"


async def test_what_the_user_sends_meanwhile_reaches_the_guest_after_its_work(open_guest):
    code = """#begin
client.say("begun")
while not os.path.exists("go"):
    time.sleep(0.01)
"""
    async with open_guest("bypassing") as guest:
        job = await guest.start(code, keep=True)
        await wait_for_text(guest, "begun")
        await guest.bench.session.steer("Stop there.", agent="guest")
        (guest.bench.workspace / "go").write_text("")
        await guest.bench.session.plugin(Runs).wait(job)
        assert guest.said.endswith("I was told: Stop there.")


class Editor:
    """An editor with a buffer that is not saved, as a plugin object of a session."""

    can_write_in_editor = True

    def __init__(self):
        self.buffers = {}

    async def read_in_editor(self, path):
        return self.buffers.get(path.name)

    async def write_in_editor(self, path, text):
        self.buffers[path.name] = text
        path.write_text(text)
        return True

    @hookimpl
    def open_session(self, session):
        return self


async def test_a_guest_reads_text_that_is_not_saved_and_never_overwrites_it_unread(open_guest):
    editor = Editor()
    editor.buffers["a.txt"] = "unsaved\n"
    async with open_guest("courteous", plugins=(editor,), files={"a.txt": "saved\n"}) as guest:
        await guest.run(["read", "a.txt"], ["say", "|"])
        assert guest.said.startswith("read: unsaved\n")
        code = json.dumps([["read", "a.txt"], ["wait", "go"], ["write", "a.txt", "mine\n"]])
        job = await guest.start(code)
        await guest.bench.wait_for(CallDone, lambda done: done.agent.endswith(job))
        editor.buffers["a.txt"] = "typed meanwhile\n"
        (guest.bench.workspace / "go").write_text("")
        await guest.bench.session.plugin(Runs).wait(job)
        assert "write: E_STALE" in guest.said
        assert editor.buffers["a.txt"] == "typed meanwhile\n"


async def test_a_guest_is_refused_before_the_question_to_change_text_that_is_not_saved(open_guest):
    """The editor follows links, which the guest's own process could create meanwhile."""
    editor = Editor()
    editor.buffers["a.txt"] = "unsaved\n"
    files = {"a.txt": "saved\n", "b.txt": "b\n"}
    async with open_guest(
        "courteous", plugins=(editor,), files=files, approve="ask_first"
    ) as guest:
        job = await guest.start(
            json.dumps([["read", "a.txt"], ["write", "a.txt", "mine\n"], ["write", "b.txt", "B\n"]])
        )
        # The only question is about the file that has no unsaved text.
        asked = await answer_next(guest.bench, True)
        assert "b.txt" in asked.call.arguments
        await guest.bench.session.plugin(Runs).wait(job)
        assert "write: E_STALE" in guest.said
        assert "Ask the user to save the file." in guest.said
        assert guest.said.endswith("write: written\n")
        assert editor.buffers == {"a.txt": "unsaved\n"}
        assert (guest.bench.workspace / "a.txt").read_text() == "saved\n"
        assert (guest.bench.workspace / "b.txt").read_text() == "B\n"


# --- files ----------------------------------------------------------------------------------------


async def test_a_guest_reads_and_writes_files_through_the_tools(open_guest):
    async with open_guest("courteous", files={"a.txt": "old\n"}) as guest:
        result = await guest.run(["read", "a.txt"], ["write", "a.txt", "new\n"])
        assert guest.said == "read: old\n\nwrite: written\n"
        assert tools(guest) == ["read_file", "write_file"]
        assert (guest.bench.workspace / "a.txt").read_text() == "new\n"
        assert result["files_changed"] == ["a.txt"]


@pytest.mark.parametrize(("turns", "code"), [(2, "E_TURN_LIMIT"), (3, "")])
async def test_each_exchange_with_a_guest_is_a_turn(open_guest, turns, code):
    front = f"limits: {{turns: {turns}}}"
    async with open_guest("courteous", front, files={"a.txt": "old\n"}) as guest:
        # The file is read before it is written, and the answer is a turn of its own.
        result = await guest.run(["write", "a.txt", "new\n"])
        assert code in str(result["error"])
        assert result["status"] == ("completed" if not code else "partial_success")


async def test_a_guest_may_write_a_file_that_it_has_read_by_itself(open_guest):
    async with open_guest("courteous", files={"a.txt": "old\n"}) as guest:
        await guest.run(["write", "a.txt", "new\n"], ["write", "b.txt", "more\n"])
        assert guest.said == "write: written\nwrite: written\n"
        assert tools(guest) == ["read_file", "write_file", "write_file"]


async def test_a_write_over_content_that_was_served_differently_is_refused(open_guest):
    async with open_guest("courteous", files={"a.txt": "old\n"}) as guest:
        await guest.run(
            ["read", "a.txt"],
            # Somebody else, here a process that hilum did not ask, changes the file meanwhile.
            ["disk", "a.txt", "the user's own words\n"],
            ["write", "a.txt", "old with my change\n"],
        )
        assert "write: E_STALE" in guest.said
        assert (guest.bench.workspace / "a.txt").read_text() == "the user's own words\n"


async def test_files_outside_the_workspace_are_neither_read_nor_written(open_guest, tmp_path):
    (tmp_path / "outside.txt").write_text("private")
    outside = str(tmp_path / "outside.txt")
    async with open_guest("courteous") as guest:
        await guest.run(["read", outside], ["write", outside, "x"], ["read", "no.txt"])
        assert "private" not in guest.said
        assert "write: E_" in guest.said
        assert "read: E_FILE_NOT_FOUND" in guest.said
        assert (tmp_path / "outside.txt").read_text() == "private"


async def test_rules_of_the_user_deny_what_a_guest_asks(open_guest, tmp_path):
    (tmp_path / "config").mkdir(exist_ok=True)
    (tmp_path / "config" / "permissions.toml").write_text(
        'deny = ["write_file(locked/**)", "run_terminal_cmd(rm *)"]\n'
    )
    async with open_guest("courteous", files={"locked/a.txt": "a"}) as guest:
        await guest.run(
            ["write", "locked/a.txt", "b"],
            ["terminal", "rm locked/a.txt"],
            ["ask", "Remove", "execute", {"rawInput": {"command": "rm locked/a.txt"}}],
            ["ask", "Edit", "edit", {"locations": [{"path": "locked/a.txt"}]}],
        )
        assert "write: E_DENIED" in guest.said
        assert "terminal: E_DENIED" in guest.said
        assert guest.said.count("ask: rejected") == 2
        assert (guest.bench.workspace / "locked/a.txt").read_text() == "a"


async def test_rules_in_the_file_of_the_agent_apply_to_its_requests(open_guest):
    front = "permissions: {deny: ['write_file(docs/**)']}"
    async with open_guest("courteous", front) as guest:
        await guest.run(["write", "docs/a.md", "x"], ["write", "b.md", "x"])
        assert guest.said.startswith("write: E_DENIED")
        assert guest.said.endswith("write: written\n")


async def test_rules_of_the_file_about_commands_apply_to_the_commands_of_a_guest(open_guest):
    front = "permissions: {deny: ['run_terminal_cmd(touch *)', 'edit_file(docs/**)']}"
    async with open_guest("courteous", front) as guest:
        await guest.run(
            ["terminal", "touch a.txt"],
            ["ask", "Touch", "execute", {"rawInput": {"command": "echo x; touch b.txt"}}],
            ["ask", "Edit", "edit", {"locations": [{"path": "docs/a.md"}]}],
            ["ask", "Echo", "execute", {"rawInput": {"command": "echo x"}}],
        )
        assert guest.said.startswith("terminal: E_DENIED")
        assert guest.said.endswith("ask: rejected\nask: rejected\nask: allowed\n")
        assert not (guest.bench.workspace / "a.txt").exists()


async def test_rules_of_the_project_apply_to_a_guest(open_guest):
    files = {
        "AGENTS.md": "- Never edit files in `locked/`.\n- Never run `git init`.\n- No secrets.\n"
        "  enforce: deny content /secret/\n",
        "locked/a.txt": "a",
    }
    async with open_guest("courteous", plugins=(hilum_rules,), files=files) as guest:
        await guest.run(
            ["write", "locked/a.txt", "b"],
            ["write", "b.txt", "a secret"],
            ["terminal", "git init"],
            ["ask", "Init", "execute", {"rawInput": {"command": "echo x; git init"}}],
            ["ask", "Edit", "edit", {"locations": [{"path": "locked/a.txt"}]}],
        )
        assert guest.said.count("write: E_DENIED") == 2
        assert "terminal: E_DENIED" in guest.said
        assert guest.said.count("ask: rejected") == 2
        assert not (guest.bench.workspace / ".git").exists()


# --- permissions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["edit", "read", "execute", "fetch"])
async def test_a_permission_request_without_details_asks_the_user(open_guest, kind):
    async with open_guest("courteous", approve="ask_first") as guest:
        job = await guest.start(json.dumps([["ask", "Do something", kind, {}]]))
        asked = await answer_next(guest.bench, True)
        assert asked.call.name == "guest_other"
        result = await guest.bench.session.plugin(Runs).wait(job)
        assert result["text"] == "ask: allowed\n"


async def test_a_permission_request_asks_the_user_with_the_command(open_guest):
    async with open_guest("courteous", approve="ask_first") as guest:
        step = ["ask", "Install", "execute", {"rawInput": {"command": ["pip", "install", "x"]}}]
        job = await guest.start(json.dumps([step]))
        asked = await answer_next(guest.bench, True)
        assert asked.call.name == "guest_run"
        assert json.loads(asked.call.arguments)["command"] == "pip install x"
        result = await guest.bench.session.plugin(Runs).wait(job)
        assert result["text"] == "ask: allowed\n"
        assert guest.bench.result("guest_run").text.endswith("done by itself")


async def test_a_permission_request_that_the_user_denies_is_rejected(open_guest):
    async with open_guest("courteous", approve="ask_first") as guest:
        change = {"type": "diff", "path": "a.txt", "oldText": "a", "newText": "b"}
        step = ["ask", "Edit a.txt", "edit", {"content": [change]}]
        job = await guest.start(json.dumps([step]))
        asked = await answer_next(guest.bench, False)
        assert asked.risk == "write"
        assert "+b" in json.loads(asked.call.arguments)["change"]
        result = await guest.bench.session.plugin(Runs).wait(job)
        assert result["text"] == "ask: rejected\n"


async def test_a_write_that_the_guest_withdraws_does_not_happen(open_guest):
    code = """#begin
def write(number, path):
    params = {"sessionId": client.session, "path": os.path.abspath(path), "content": "x"}
    client.send({"id": number, "method": "fs/write_text_file", "params": params})

write(901, "a.txt")
while not os.path.exists("go"):
    time.sleep(0.01)
write(902, "b.txt")
# The second write begins when the first one ends, so it is withdrawn first.
for number in (902, 901):
    client.send({"method": "$/cancel_request", "params": {"requestId": number}})
print(sorted((client.read()["id"], client.read()["id"])))
write(903, "c.txt")
client.read()
"""
    async with open_guest("bypassing", approve="ask_first") as guest:
        job = await guest.start(code)
        with trio.fail_after(30):
            first = await guest.bench.wait_for(ApprovalAsked)
            # The user is being asked about the first write, and the second one waits.
            (guest.bench.workspace / "go").write_text("")
            answered = await guest.bench.wait_for(ApprovalAnswered)
            assert (answered.id, answered.accepted) == (first.id, False)
            third = await guest.bench.wait_for(ApprovalAsked, lambda event: event.id != first.id)
            guest.bench.session.answer(third.id, True)
            await guest.bench.session.plugin(Runs).wait(job)
        assert guest.said == "[901, 902]\n"
        assert tools(guest) == ["write_file"]
        assert [path.name for path in guest.bench.workspace.glob("*.txt")] == ["c.txt"]


async def wait_for_file(guest, name):
    with trio.fail_after(20):
        while not (guest.bench.workspace / name).exists():  # noqa: ASYNC110 (the guest writes it)
            await trio.sleep(0.01)


async def test_the_call_of_a_withdrawn_write_that_waits_for_another_write_is_denied(open_guest):
    code = """#begin
def send(number, method, **params):
    params["sessionId"] = client.session
    client.send({"id": number, "method": method, "params": params})

path = os.path.abspath("a.txt")
client.request("fs/read_text_file", path=path)
send(901, "fs/write_text_file", path=os.path.abspath("b.txt"), content="b")
while not os.path.exists("asked"):
    time.sleep(0.01)
send(902, "fs/write_text_file", path=path, content="first")
send(903, "fs/write_text_file", path=path, content="second")
# The response shows that the requests before this one were read.
client.request("terminal/output", terminalId="none")
open("sent", "w").close()
client.read()
while not os.path.exists("go"):
    time.sleep(0.01)
client.send({"method": "$/cancel_request", "params": {"requestId": 903}})
print(client.read()["error"]["code"])
open("withdrawn", "w").close()
client.read()
"""
    async with open_guest("bypassing", approve="ask_first", files={"a.txt": "old"}) as guest:
        session = guest.bench.session
        job = await guest.start(code)
        other = await guest.bench.wait_for(ApprovalAsked)
        (guest.bench.workspace / "asked").write_text("")
        await wait_for_file(guest, "sent")
        session.answer(other.id, True)
        # Both writes are now calls; the second one waits for the first one.
        write = await guest.bench.wait_for(ApprovalAsked, lambda event: event.id != other.id)
        (guest.bench.workspace / "go").write_text("")
        await wait_for_file(guest, "withdrawn")
        session.answer(write.id, True)
        with trio.fail_after(20):
            await session.plugin(Runs).wait(job)
        assert guest.said == "-32800\n"
        assert [event.id for event in guest.bench.of(ApprovalAsked)] == [other.id, write.id]
        results = [event.result for event in guest.bench.of(CallDone)]
        assert [each.code for each in results if each.name == "write_file"] == ["", "", "E_DENIED"]
        assert (guest.bench.workspace / "a.txt").read_text() == "first"


# --- terminals ------------------------------------------------------------------------------------


async def test_a_command_runs_in_a_terminal_of_hilum(open_guest):
    async with open_guest("courteous") as guest:
        result = await guest.run(["terminal", "echo out; echo err >&2; exit 3"])
        assert result["text"] == "terminal: out\nerr exit 3\n"
        assert guest.bench.result("guest_terminal").data["exit_code"] == 3


async def test_a_terminal_does_not_hold_up_other_requests_and_can_be_killed(open_guest):
    code = """
terminal, _ = client.request("terminal/create", command="echo begun; sleep 1000")
name = terminal["terminalId"]
while "begun" not in client.request("terminal/output", terminalId=name)[0]["output"]:
    pass
text, _ = client.request("fs/read_text_file", path=os.path.abspath("a.txt"))
client.request("terminal/kill", terminalId=name)
status, _ = client.request("terminal/wait_for_exit", terminalId=name)
print(text["content"], status["signal"])
"""
    async with open_guest("bypassing", files={"a.txt": "text"}) as guest:
        result = await guest.execute(code)
        assert result["text"] == "text SIGTERM\n"


# --- what a guest changes by itself ---------------------------------------------------------------


async def test_an_undo_restores_what_a_guest_changed_without_asking(open_guest):
    async with open_guest("bypassing", files={"a.txt": "a\n", "b.txt": "b\n"}) as guest:
        result = await guest.execute(
            "open('a.txt', 'w').write('changed')\nos.unlink('b.txt')\nopen('c.txt', 'w').write('c')"
        )
        assert result["files_changed"] == ["a.txt"]
        assert result["files_made"] == ["c.txt"]
        assert result["files_deleted"] == ["b.txt"]
        history = guest.bench.session.plugin(FileHistory)
        await wait_until_undoable(history, result["run"])
        files = {path.name: path.read_text() for path in guest.bench.workspace.glob("*.txt")}
        assert files == {"a.txt": "a\n", "b.txt": "b\n"}


async def test_what_a_guest_writes_while_an_allowed_call_is_open_belongs_to_its_program(open_guest):
    code = """
client.permission("1", "Push", "execute", rawInput={"command": "git status"})
client.update("tool_call_update", toolCallId="1", status="in_progress")
open("a.txt", "w").write("beside the call")
client.update("tool_call_update", toolCallId="1", status="completed")
"""
    async with open_guest("bypassing", files={"a.txt": "a"}) as guest:
        await guest.execute(code)
        records = guest.bench.session.plugin(hilum_files.Changes).records("session")
        assert [(record.tool, record.call.partition("-")[0]) for record in records] == [
            ("", "program")
        ]


async def wait_until_undoable(history, run):
    """Undo a run as soon as the guest's process has ended, which its last record waits for."""
    with trio.fail_after(20):
        while True:
            try:
                await history.undo("run", run)
                return
            except UsageError as error:
                if error.code != "E_BUSY":
                    raise
                await trio.sleep(0.01)


async def test_what_a_child_changes_after_the_answer_is_recorded_and_the_child_ends(open_guest):
    code = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        number = 0
        while True:
            number += 1
            open("late.txt", "w").write(str(number))
            time.sleep(0.01)
    os._exit(0)
while not os.path.exists("late.txt"):
    time.sleep(0.01)
"""
    async with open_guest("bypassing") as guest:
        result = await guest.execute(code)
        history = guest.bench.session.plugin(FileHistory)
        await wait_until_undoable(history, result["run"])
        # No process is left that could write the file again.
        assert not (guest.bench.workspace / "late.txt").exists()
        await trio.sleep(0.1)
        assert not (guest.bench.workspace / "late.txt").exists()


# --- trust ----------------------------------------------------------------------------------------


async def test_a_runner_in_a_project_starts_nothing_before_the_user_trusts_it(open_guest, tmp_path):
    command = ["touch", str(tmp_path / "started")]
    text = (
        "---\nkind: agent\nname: theirs\ndescription: d\nrunner:\n"
        f"  command: {json.dumps(command)}\n---\n"
    )
    async with open_guest("courteous", files={".hilum/agents/theirs.md": text}) as guest:
        with pytest.raises(UsageError, match="not trusted"):
            await guest.run(["say", "x"], agent="theirs")
        assert not (tmp_path / "started").exists()
        TrustedFolders().add(guest.bench.workspace)
        result = await guest.run(["say", "x"], agent="theirs")
        # It now starts, in the sandbox, where it cannot write; and `touch` speaks no protocol.
        assert result["status"] == "failed"
        assert "cannot start" in result["error"]["message"]
        assert not (tmp_path / "started").exists()


async def test_a_runner_that_changed_after_the_trust_does_not_start(open_guest):
    text = "---\nkind: agent\nname: theirs\ndescription: d\nrunner:\n  command: 'true'\n---\n"
    async with open_guest("courteous", files={".hilum/agents/theirs.md": text}) as guest:
        TrustedFolders().add(guest.bench.workspace)
        path = guest.bench.workspace / ".hilum/agents/theirs.md"
        path.write_text(text.replace("'true'", "'false'"))
        with pytest.raises(UsageError, match="not trusted"):
            await guest.run(["say", "x"], agent="theirs")


async def test_without_the_plugin_no_other_model_works_in_place_of_the_program(
    open_guest, tmp_path
):
    async with open_guest("courteous") as guest:
        guest.bench.kernel.router.providers.pop("guest")
        with pytest.raises(UsageError, match="no plugin can run it"):
            await guest.run(["say", "x"])


# --- compaction -----------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["make_command", "find_http_model"])
async def test_a_guest_that_cannot_start_leaves_no_socket(open_guest, monkeypatch, step):
    opened = []
    open_listener = hilum_guard.Guard.open_listener

    async def note_listener(guard, **options):
        opened.append(await open_listener(guard, **options))
        return opened[-1]

    def fail(*args):
        raise ToolError("The program cannot start.")

    monkeypatch.setattr(hilum_guard.Guard, "open_listener", note_listener)
    module = hilum_acp.guests.guest
    monkeypatch.setattr(module.process if step == "make_command" else module, step, fail)
    async with open_guest("courteous") as guest:
        result = await guest.run(["say", "Hello."])
        assert result["status"] == "failed"
        assert "The program cannot start." in str(result)
    assert all(listener.fileno() == -1 for listener in opened)


async def test_a_compaction_does_not_disturb_a_guest(open_guest):
    """The positions of messages change; each message of the user still arrives once."""
    code = """#begin
client.say("begun")
for number in range(4):
    client.request("fs/read_text_file", path=os.path.abspath("a.txt"))
while not os.path.exists("go"):
    time.sleep(0.01)
text, _ = client.request("fs/read_text_file", path=os.path.abspath("a.txt"))
client.say(text["content"])
"""
    async with open_guest("bypassing", plugins=(Summaries(),), files={"a.txt": "text\n"}) as guest:
        job = await guest.start(code, keep=True)
        session = guest.bench.session
        reads = []
        async for event in session.events(0):
            if isinstance(event, CallDone):
                reads.append(event)
                if len(reads) == 4:
                    break
        name = reads[0].agent
        session.compact(name)
        await session.steer("Stop there.", agent="guest")
        (guest.bench.workspace / "go").write_text("")
        with trio.fail_after(30):
            result = await session.plugin(Runs).wait(job)
        assert result["status"] == "completed"
        assert guest.bench.of(Compacted)
        assert guest.said.count("text\n") == 1
        assert guest.said.count("I was told:") == 1
        assert guest.said.endswith("I was told: Stop there.")


class Summaries:
    """A plugin that compacts all but the last message."""

    @hookimpl
    async def trim_context(self, agent, messages, sizes, budget):
        return Compaction(len(messages) - 1, "Earlier work.")
