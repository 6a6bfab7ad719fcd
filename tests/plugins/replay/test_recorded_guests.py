"""Sessions with guests are replayed: a guest's run is answered from the log, without its program."""

import json
import shutil
import sys
import time

import pytest
import trio
import trio.testing
from guest_bench import open_guest_bench
from hilum.events import (
    ApprovalAsked,
    CallDone,
    CallStarted,
    Delta,
    ModelAnswered,
    ModelUsed,
    RunEnded,
    RunStarted,
)
from hilum.store import MemoryStore
from hilum.testing import use
from hilum_files import Changes as FileChanges
from hilum_files.journal.content_store import ContentStore
from hilum_replay import serve
from hilum_replay.sessions.comparison import describe
from hilum_replay.sessions.exporting import export_test, make_recording, make_repeatable
from hilum_replay.sessions.player import Changes
from hilum_replay.sessions.recording import load_recording, save_recording
from hilum_replay.sessions.session_test import run_recording
from scripted_editor import ScriptedEditor

pytestmark = pytest.mark.slow(cases=4, of="file")

FORTY_DAYS = 40 * 86_400
FILES = {"a.txt": "old\n", "b.txt": "b\n"}


def task(*steps, agent="guest", **more):
    """Return a call that gives a guest some steps."""
    return use("task", description="do it", prompt=json.dumps(steps), agent=agent, **more)


def code(text):
    return f"#begin\n{text}"


def task_code(text, agent="guest", **more):
    return use("task", description="do it", prompt=code(text), agent=agent, **more)


def find_said(events):
    """Return everything that guests said."""
    return "".join(event.message.text for event in events if isinstance(event, ModelAnswered))


def make(events, folder):
    """Return a recording of events; this function blocks."""
    store = ContentStore(folder / "data" / "objects")
    recording = make_recording(events, store.get)
    store.close()
    return recording


async def wait_for_said(bench, text):
    """Wait until a guest has said a text."""
    said = ""
    with trio.fail_after(20):
        async for item in bench.session.events(0, deltas=True):
            if isinstance(item, Delta) and item.kind == "text":
                said += item.text
                if text in said:
                    break
    # The result of the agent contains what has been read of its text.
    await trio.testing.wait_all_tasks_blocked(0.1)


async def settle(bench):
    """Return all events when nothing happens in the session any more."""
    while True:
        last = bench.session.journal.last
        await trio.testing.wait_all_tasks_blocked(0.1)
        if not bench.session.runs and bench.session.journal.last == last:
            return list(bench.events)


async def replay_elsewhere(events, folder, monkeypatch):
    """Check that a session replays identically elsewhere, later and without its program."""
    recording, outcome = await make_repeatable(make(events, folder))
    assert outcome.comparison.identical, describe(outcome.comparison)
    save_recording(recording, folder / "recording")
    # Neither the file of the agent nor the plugin that runs guests is needed.
    await trio.to_thread.run_sync(shutil.rmtree, folder / "config")
    for name in ("hilum_acp", "hilum_acp.guests"):
        monkeypatch.setitem(sys.modules, name, None)
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + FORTY_DAYS)
    recording = load_recording(folder / "recording")
    outcome = await run_recording(recording, folder / "other place" / "work")
    assert outcome.comparison.identical, describe(outcome.comparison)
    return recording, outcome


async def test_a_guest_that_another_agent_started(tmp_path, monkeypatch):
    steps = [
        ["think", "Let me see."],
        ["read", "a.txt"],
        ["write", "a.txt", "new\n"],
        ["disk", "made.txt", "by itself\n"],
        ["tool", "npm test", "3 passed"],
        ["terminal", "cat a.txt"],
        ["say", "Done."],
    ]
    answers = [task(*steps), "The guest did it."]
    async with open_guest_bench(tmp_path, files=FILES, answers=answers) as bench:
        await bench.run("Let the guest do it.")
        events = await settle(bench)
    recording, _ = await replay_elsewhere(events, tmp_path, monkeypatch)
    work = tmp_path / "other place" / "work"
    assert (work / "a.txt").read_text() == "new\n"
    assert (work / "made.txt").read_text() == "by itself\n"
    assert any(key.startswith("guest-") for key in recording.header.from_log)


async def test_the_report_of_an_export_names_the_runs_of_guests(tmp_path, monkeypatch):
    answers = [task(["disk", "made.txt", "x"], ["say", "Done."]), "The guest did it."]
    async with open_guest_bench(tmp_path, files=FILES, answers=answers) as bench:
        await bench.run("Let the guest do it.")
        events = await settle(bench)
    monkeypatch.setenv("HILUM_DATA", str(tmp_path / "data"))
    exported = await export_test(events, "guest", tmp_path / "out")
    run = next(each for each in events if isinstance(each, RunStarted) and each.agent != "main")
    report = exported.describe()
    assert f"Answered from the log: {run.agent}/{run.run}: a guest is another program" in report


async def test_a_guest_that_the_user_called(tmp_path, monkeypatch):
    text = code(
        "text, _ = client.request('fs/read_text_file', path=os.path.abspath('a.txt'))\n"
        "open('a.txt', 'a').write('more\\n')\nprint(text['content'])"
    )
    async with open_guest_bench(tmp_path, files=FILES, guests={"guest": "bypassing"}) as bench:
        ended = await bench.run(f"@guest {text}")
        assert ended.text == "old\n\n"
        # The next run starts the program again, in the same conversation.
        ended = await bench.run(f"@guest {text}")
        assert ended.text == "old\nmore\n\n"
        events = await settle(bench)
    recording, _ = await replay_elsewhere(events, tmp_path, monkeypatch)
    assert len(recording.header.from_log) == 2


CALLS = """
client.say("begun")
for number in range({count}):
    print(call_model("Hello")[0])
open("made.txt", "w").write("made")
client.say(" made")
time.sleep({seconds})
"""


async def test_what_a_guest_used_is_in_the_replay(tmp_path, monkeypatch):
    answers = [task_code(CALLS.format(count=3, seconds=0)), "Done."]
    async with open_guest_bench(tmp_path, guests={"guest": "bypassing"}, answers=answers) as bench:
        await bench.run("Let the guest do it.")
        events = await settle(bench)
    _, outcome = await replay_elsewhere(events, tmp_path, monkeypatch)
    used = [each for each in outcome.replayed.events if isinstance(each, ModelUsed)]
    assert [each.usage.total for each in used if each.purpose == "guest"] == [100] * 3


@pytest.mark.parametrize(
    "text",
    [
        "client.say('begun'); time.sleep(0.3); sys.exit(3)",
        "open('made.txt', 'w').write('made'); os._exit(4)",
        "client.say('x'); os._exit(0)",
        "client.permission('1', 'Run it', 'execute', rawInput={'command': 'true'}); os._exit(1)",
    ],
)
async def test_a_guest_that_fails(tmp_path, monkeypatch, text):
    answers = [task_code(text), "It failed."]
    async with open_guest_bench(tmp_path, guests={"guest": "bypassing"}, answers=answers) as bench:
        await bench.run("Let the guest do it.")
        events = await settle(bench)
        assert "cannot continue" in bench.result("task").text
    await replay_elsewhere(events, tmp_path, monkeypatch)


async def test_a_guest_whose_program_does_not_exist(tmp_path, monkeypatch):
    async with open_guest_bench(tmp_path, answers=[task(["say", "x"]), "No."]) as bench:
        path = tmp_path / "config/agents/guest.md"
        path.write_text(path.read_text().replace("python3", "no-such-program"))
        await bench.run("Let the guest do it.")
        events = await settle(bench)
        assert "There is no program" in bench.result("task").text
    await replay_elsewhere(events, tmp_path, monkeypatch)


@pytest.mark.parametrize("by_name", [True, False])
async def test_a_guest_that_the_user_stopped(tmp_path, monkeypatch, by_name):
    text = CALLS.format(count=1, seconds=99)
    answers = ["Stopped."] if by_name else [task_code(text), "Stopped."]
    async with open_guest_bench(tmp_path, guests={"guest": "bypassing"}, answers=answers) as bench:
        prompt = f"@guest {code(text)}" if by_name else "Let the guest do it."
        run = await bench.start(prompt)
        await wait_for_said(bench, "made")
        bench.session.stop()
        ended = await run.wait()
        assert ended.state == "stopped"
        await trio.testing.wait_all_tasks_blocked(0.1)
        await bench.run("And now?")
        events = await settle(bench)
    await replay_elsewhere(events, tmp_path, monkeypatch)


async def test_a_guest_that_is_stopped_in_a_call(tmp_path, monkeypatch):
    steps = [["disk", "made.txt", "x"], ["terminal", "echo begun; sleep 99"], ["say", "never"]]
    async with open_guest_bench(tmp_path, answers=[task(*steps), "Stopped."]) as bench:
        run = await bench.start("Let the guest do it.")
        await bench.wait_for(CallStarted, lambda event: event.call.name == "guest_terminal")
        await trio.testing.wait_all_tasks_blocked(0.3)
        bench.session.stop()
        await run.wait()
        await bench.run("And now?")
        events = await settle(bench)
    await replay_elsewhere(events, tmp_path, monkeypatch)


async def test_a_guest_that_is_stopped_by_its_budget(tmp_path, monkeypatch):
    answers = [task_code(CALLS.format(count=50, seconds=99)), "Too much."]
    async with open_guest_bench(
        tmp_path,
        guests={"guest": "bypassing"},
        front="limits: {token_limit: 250}",
        answers=answers,
    ) as bench:
        await bench.run("Let the guest do it.")
        events = await settle(bench)
        assert "token" in bench.result("task").text
    await replay_elsewhere(events, tmp_path, monkeypatch)


async def test_a_guest_that_is_stopped_by_the_budget_of_the_session(tmp_path, monkeypatch):
    answers = [task_code(CALLS.format(count=50, seconds=99)), "Too much."]
    async with open_guest_bench(
        tmp_path,
        "budgets",
        guests={"guest": "bypassing"},
        settings={"budgets.session": {"tokens": 500}},
        answers=answers,
    ) as bench:
        await bench.run("Let the guest do it.")
        events = await settle(bench)
    await replay_elsewhere(events, tmp_path, monkeypatch)


async def test_a_guest_that_takes_too_long(tmp_path, monkeypatch):
    answers = [task_code(CALLS.format(count=1, seconds=99)), "Too slow."]
    async with open_guest_bench(
        tmp_path, guests={"guest": "bypassing"}, front="limits: {timeout: 2}", answers=answers
    ) as bench:
        await bench.run("Let the guest do it.")
        events = await settle(bench)
        assert "time limit" in bench.result("task").text
    await replay_elsewhere(events, tmp_path, monkeypatch)


async def answer_all(bench, *accepted):
    """Answer the session's questions in order."""
    last = 0
    for each in accepted:
        asked = await bench.wait_for(ApprovalAsked, after=last)
        last = asked.seq
        bench.session.answer(asked.id, each, reason="" if each else "Not now.")


async def test_approvals_asked_and_denied(tmp_path, monkeypatch):
    command = {"rawInput": {"command": "touch x.txt"}}
    diff = {"content": [{"type": "diff", "path": "a.txt", "oldText": "old\n", "newText": "new\n"}]}
    steps = [
        ["ask", "Touch", "execute", command],
        ["read", "a.txt"],
        ["write", "b.txt", "B\n"],
        ["ask", "Edit", "edit", diff],
        ["write", "a.txt", "new\n"],
        ["terminal", "rm a.txt"],
        ["say", "Done."],
    ]
    answers = [task(*steps), "The guest did it."]
    async with open_guest_bench(
        tmp_path, files=FILES, answers=answers, approve="ask_first"
    ) as bench:
        run = await bench.start("Let the guest do it.")
        await answer_all(bench, True, False, True, False)
        await run.wait()
        events = await settle(bench)
        said = find_said(events)
    assert "ask: allowed" in said
    assert said.count("E_REJECTED") == 2
    # The change that was announced is not asked about again.
    assert "write: written" in said
    await replay_elsewhere(events, tmp_path, monkeypatch)


async def test_rules_that_denied_calls_of_a_guest(tmp_path, monkeypatch):
    (tmp_path / "config").mkdir()
    (tmp_path / "config/permissions.toml").write_text('deny = ["write_file(locked/**)"]\n')
    steps = [["write", "locked/a.txt", "x"], ["terminal", "touch b.txt"], ["say", "Done."]]
    front = "permissions: {deny: ['run_terminal_cmd(touch *)'], ask: ['read_file(b.txt)']}"
    async with open_guest_bench(
        tmp_path, answers=[task(*steps), "Denied."], front=front, files=FILES
    ) as bench:
        await bench.run("Let the guest do it.")
        events = await settle(bench)
        assert find_said(events).count("E_DENIED") == 2
    await replay_elsewhere(events, tmp_path, monkeypatch)


async def test_two_guests_at_the_same_time(tmp_path, monkeypatch):
    one = [["disk", "one.txt", "1"], ["wait", "two.txt"], ["write", "c.txt", "c"], ["say", "One."]]
    two = [["wait", "one.txt"], ["disk", "two.txt", "2"], ["read", "a.txt"], ["say", "Two."]]
    calls = task(*one) + task(*two, agent="other")
    guests = {"guest": "courteous", "other": "courteous"}
    async with open_guest_bench(
        tmp_path, answers=[calls, "Both."], guests=guests, files=FILES
    ) as bench:
        await bench.run("Let both do it.")
        events = await settle(bench)
    recording, _ = await replay_elsewhere(events, tmp_path, monkeypatch)
    assert len(recording.header.from_log) == 2


async def test_a_guest_with_a_plan_that_the_user_steers(tmp_path, monkeypatch):
    text = """
entries = [{"content": "Wait", "priority": "high", "status": "in_progress"}]
client.update("plan", entries=entries)
client.say("begun")
while not os.path.exists("go"):
    time.sleep(0.01)
"""
    async with open_guest_bench(tmp_path, guests={"guest": "bypassing"}) as bench:
        run = await bench.start(f"@guest {code(text)}")
        await bench.wait_for(CallDone)
        await bench.session.steer("Stop there.", agent="guest")
        (bench.workspace / "go").write_text("")
        ended = await run.wait()
        assert "I was told: Stop there." in ended.text
        events = await settle(bench)
    await replay_elsewhere(events, tmp_path, monkeypatch)


async def test_a_write_behind_the_back_makes_a_write_through_hilum_stale(tmp_path, monkeypatch):
    steps = [
        ["read", "a.txt"],
        ["disk", "a.txt", "typed meanwhile\n"],
        ["write", "a.txt", "mine\n"],
        ["read", "a.txt"],
        ["write", "a.txt", "merged\n"],
        ["disk", "b.txt", "B\n"],
        ["read", "b.txt"],
        ["say", "Done."],
    ]
    async with open_guest_bench(tmp_path, answers=[task(*steps), "Done."], files=FILES) as bench:
        await bench.run("Let the guest do it.")
        events = await settle(bench)
        assert "E_STALE" in find_said(events)
    await replay_elsewhere(events, tmp_path, monkeypatch)
    work = tmp_path / "other place" / "work"
    assert (work / "a.txt").read_text() == "merged\n"
    assert (work / "b.txt").read_text() == "B\n"


# --- the user's editor ----------------------------------------------------------------------------


async def test_a_guest_and_an_editor_with_unsaved_texts(tmp_path, monkeypatch):
    editor = ScriptedEditor()
    work = tmp_path / "workspace"

    def type_draft(request):
        editor.texts[work / "draft.txt"] = "only in the editor\n"
        return use("read_file", path="draft.txt")

    def save(request):
        (work / "a.txt").write_text("made\nsaved by the user\n")
        return use("read_file", path="a.txt")

    answers = [
        type_draft,
        use("run_terminal_cmd", command="echo made > a.txt; echo made > b.txt"),
        save,
        "Read.",
        task(["read", "draft.txt"], ["disk", "half.txt", "half"], ["say", "I did."]),
        "Done.",
    ]
    async with open_guest_bench(tmp_path, editor, answers=answers, files=FILES) as bench:
        await bench.run("Read what I have open.")
        await settle(bench)
        await bench.session.plugin(FileChanges).undo("run", keep_going=True)
        await bench.run("Let a guest do it.")
        events = await settle(bench)
    # The guest reads through hilum, which asks the editor.
    read = [each for each in events if isinstance(each, CallDone) and each.agent != "main"]
    assert "only in the editor" in str(read[0].result)
    recording, _ = await replay_elsewhere(events, tmp_path, monkeypatch)
    assert not [key for key in recording.header.from_log if key.startswith("main/")]
    replayed = tmp_path / "other place" / "work"
    # The undo leaves what the user has saved.
    assert (replayed / "a.txt").read_text() == "made\nsaved by the user\n"
    assert (replayed / "b.txt").read_text() == "b\n"
    assert (replayed / "half.txt").read_text() == "half"
    assert not (replayed / "draft.txt").exists()


# --- the end of hilum -----------------------------------------------------------------------------


async def record_interrupted(folder, text, prompt, *, kill, resumed=True):
    """Record a session that is closed while a guest works, and opened again."""
    store = MemoryStore()
    options = {"guests": {"guest": "bypassing"}, "files": FILES, "store": store}
    answers = [] if prompt.startswith("@") else [task_code(text)]
    async with open_guest_bench(folder, answers=answers, **options) as bench:
        await bench.start(prompt)
        await wait_for_said(bench, "made")
        session = bench.session.id
        events = list(bench.events)
    if kill:
        # What hilum writes while it is closed is missing if it is killed.
        info = await store.info(session)
        store = options["store"] = MemoryStore()
        log = await store.create(info)
        log.append(events)
        await log.close()
    async with open_guest_bench(
        folder, answers=["Done.", "Done."], resume=session, **options
    ) as bench:
        for run in bench.session.resume() if resumed else ():
            await run.wait()
        await bench.run("And now?")
        return await settle(bench)


@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize("by_name", [False, True])
async def test_hilum_ends_during_the_run_of_a_guest(tmp_path, monkeypatch, by_name, kill):
    text = """
client.say("begun")
seconds = 0 if os.path.exists("made.txt") else 99
open("made.txt", "a").write("made\\n")
client.say(" made")
time.sleep(seconds)
"""
    prompt = f"@guest {code(text)}" if by_name else "Let the guest do it."
    events = await record_interrupted(tmp_path, text, prompt, kill=kill)
    await replay_elsewhere(events, tmp_path, monkeypatch)
    made = (tmp_path / "other place" / "work" / "made.txt").read_text()
    assert made == "made\n" * 2


@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize("by_name", [False, True])
async def test_an_interrupted_guest_that_is_not_resumed_replays(
    tmp_path, monkeypatch, by_name, kill
):
    text = 'open("made.txt", "a").write("made\\n")\nclient.say("made")\ntime.sleep(99)'
    prompt = f"@guest {code(text)}" if by_name else "Let the guest do it."
    events = await record_interrupted(tmp_path, text, prompt, kill=kill, resumed=False)
    begun = {event.run for event in events if isinstance(event, RunStarted)}
    ended = {event.run: event.code for event in events if isinstance(event, RunEnded)}
    assert begun == set(ended)
    assert "E_INTERRUPTED" in ended.values()
    await replay_elsewhere(events, tmp_path, monkeypatch)


# --- changes --------------------------------------------------------------------------------------


async def record_steps(folder, *steps, **options):
    """Return the recording of a session in which a guest does some steps."""
    answers = [task(*steps), "The guest did it."]
    async with open_guest_bench(folder, files=FILES, answers=answers, **options) as bench:
        await bench.run("Let the guest do it.")
        events = await settle(bench)
    recording, outcome = await make_repeatable(make(events, folder))
    assert outcome.comparison.identical, describe(outcome.comparison)
    return recording


async def test_a_rule_shows_which_calls_of_a_guest_it_would_deny(tmp_path):
    command = {"rawInput": {"command": "rm a.txt"}}
    recording = await record_steps(
        tmp_path, ["read", "a.txt"], ["ask", "Remove", "execute", command], ["say", "Done."]
    )
    with trio.fail_after(60):
        outcome = await run_recording(
            recording, tmp_path / "work", changes=Changes(rules=("deny run_terminal_cmd(rm *)",))
        )
    titles = [each.title for each in outcome.comparison.failures]
    assert titles[0].startswith("call started (guest_run guest-2-")
    assert "E_DENIED" in describe(outcome.comparison)
    with trio.fail_after(60):
        outcome = await run_recording(
            recording, tmp_path / "work2", changes=Changes(rules=("ask read_file(a.txt)",))
        )
    titles = [each.title for each in outcome.comparison.differences]
    assert any(title.startswith("approval asked (read_file guest-1-") for title in titles)
    assert not outcome.comparison.failures


async def test_a_rule_that_denies_the_start_of_a_guest(tmp_path):
    recording = await record_steps(tmp_path, ["disk", "made.txt", "x"], ["say", "Done."])
    with trio.fail_after(60):
        outcome = await run_recording(
            recording, tmp_path / "work", changes=Changes(rules=("deny task",))
        )
    titles = [each.title for each in outcome.comparison.failures]
    assert "made.txt is missing after the replay" in titles
    assert not (tmp_path / "work" / "made.txt").exists()


async def test_another_model_gets_the_recorded_run_of_a_guest_only_for_the_same_work(
    tmp_path, monkeypatch
):
    recording = await record_steps(tmp_path, ["disk", "made.txt", "x"], ["say", "Done."])
    first = next(each.seq for each in recording.events if isinstance(each, ModelAnswered))
    monkeypatch.setenv("HILUM_CONFIG", str(tmp_path / "config"))
    for number, steps in enumerate(
        [[["say", "Other."]], [["disk", "made.txt", "x"], ["say", "Done."]]]
    ):
        async with serve([task(*steps), "I am another model."]) as server:
            for name, value in server.environ.items():
                monkeypatch.setenv(name, value)
            changes = Changes(at=first - 1, model="openai/other")
            work = tmp_path / f"work{number}"
            with trio.fail_after(60):
                outcome = await run_recording(recording, work, changes=changes)
        done = [each.result for each in outcome.replayed.events if isinstance(each, CallDone)]
        assert ("no such work" in done[-1].text) == (number == 0), done[-1].text
        assert (work / "made.txt").exists() == (number == 1)
