"""Going back to an earlier prompt loses nothing, and destroys nothing by default."""

import hilum_files
import hilum_store
import msgspec
import pytest
import trio
from hilum import UsageError, find_rewind_points, tool
from hilum.errors import E_BUSY
from hilum.events import PromptQueued, RunEnded, RunRetried, RunStarted
from hilum.messages import Text, UserMessage
from hilum.testing import pause, plugin, say, use

from .slash_chat import open_chat


def write(path, text):
    return [use("write_file", path=path, content=text), say(f"Wrote {path}.")]


@tool(risk="execute", effect="once")
def change_something() -> str:
    """Change something."""
    return "changed"


@pytest.fixture
def three_prompts():
    """The answers to three prompts, of which two change files."""
    return [*write("a.txt", "one\n"), say("Just words."), *write("b.txt", "two\nthree\n")]


async def prompt(chat, *texts):
    for text in texts:
        await chat.session.run(text)


def texts_of(session):
    return [
        message.parts[0].text
        for message in session.agents["main"].conversation.messages
        if isinstance(message, UserMessage)
    ]


def files_in(chat):
    return sorted(path.name for path in chat.bench.workspace.iterdir())


# --- what one can go back to ----------------------------------------------------------------------


def queued(seq, run, agent="main"):
    return PromptQueued(seq=seq, run=run, agent=agent, text=run)


def started(seq, run, agent="main"):
    message = UserMessage((Text(run),))
    return RunStarted(seq=seq, run=run, agent=agent, text=run, message=message)


def ended(seq, run, agent="main"):
    return RunEnded(seq=seq, run=run, agent=agent, state="completed")


def test_each_started_prompt_is_a_point_after_all_earlier_work():
    """(events, [(run, number of the last event before it)])"""
    cases = [
        ([], []),
        ([queued(3, "r1"), started(4, "r1"), ended(5, "r1")], [("r1", 2)]),
        # Queued while the first one runs: it belongs after the end of that run.
        (
            [queued(3, "r1"), started(4, "r1"), queued(5, "r2"), ended(6, "r1"), started(7, "r2")],
            [("r1", 2), ("r2", 6)],
        ),
        # Two are queued at once.
        (
            [queued(3, "r1"), queued(4, "r2"), started(5, "r1"), ended(6, "r1"), started(7, "r2")],
            [("r1", 2), ("r2", 6)],
        ),
        # Stopped before it began.
        ([queued(3, "r1"), ended(4, "r1"), queued(5, "r2"), started(6, "r2")], [("r2", 4)]),
        # A retry is no prompt, but work.
        (
            [
                queued(3, "r1"),
                started(4, "r1"),
                ended(5, "r1"),
                RunRetried(seq=6, run="r2", agent="main", previous="r1"),
                queued(7, "r3"),
                ended(8, "r2"),
                started(9, "r3"),
            ],
            [("r1", 2), ("r3", 8)],
        ),
        # Other agents.
        ([queued(3, "r1", "helper"), started(4, "r1", "helper")], []),
    ]
    wrong = []
    for events, expected in cases:
        found = [(point.run, point.before) for point in find_rewind_points(events)]
        if found != expected:
            wrong.append((events, found))
    assert not wrong


def test_a_command_is_found_as_it_was_typed():
    """Not as the instructions that a plugin made of it."""
    typed = msgspec.structs.replace(queued(3, "r1"), typed="/init")
    (point,) = find_rewind_points([typed, started(4, "r1")])
    assert point.text == "/init"


# --- choosing -------------------------------------------------------------------------------------


async def test_prompts_are_listed_newest_first_with_their_changes(three_prompts):
    async with open_chat(hilum_files, answers=three_prompts) as chat:
        assert "no prompt to go back to" in await chat.type("/rewind")
        await prompt(chat, "first", "second\nline", "third")
        before = chat.session.journal.last
        # Enter keeps everything.
        await chat.type("/rewind", 0)
        labels = chat.labels()
        assert labels[0] == "Now · keep everything"
        assert [label.split(" · ")[0] for label in labels[1:]] == ["third", "second", "first"]
        changes = [label.split(" · ", 2)[2] for label in labels[1:]]
        assert changes == ["1 file +2 −0", "no files", "1 file +1 −0"]
        _, choices = chat.questions[-1]
        assert "line" in choices[2].preview
        assert "Changed: b.txt" in choices[1].preview
        await chat.type("/rewind")
        await chat.type("/rewind", None)
        await chat.type("/rewind", "first", None)
        await chat.type("/rewind", "first", "Cancel")
        await chat.type("/rewind", "first", "Files only", False)
        await chat.type("/rewind", "first", "Conversation and files", False)
        assert files_in(chat) == ["a.txt", "b.txt"]
        assert chat.session.journal.last == before


async def test_without_a_record_of_changes_they_are_unknown():
    writer = plugin("writer", provide_tools=lambda: [change_something])
    answers = [use("change_something"), say("Done."), say("Hello.")]
    async with open_chat(writer, answers=answers) as chat:
        await prompt(chat, "change", "greet")
        await chat.type("/rewind", "change", "Cancel")
        assert chat.labels(-2)[1].endswith("no files")
        assert chat.labels(-2)[2].endswith("unknown changes")
        assert [label.split(" · ")[0] for label in chat.labels()] == [
            "Conversation only",
            "Cancel",
        ]


async def test_commands_whose_changes_nothing_watched_are_unknown():
    writer = plugin("writer", provide_tools=lambda: [change_something])
    answers = [use("change_something"), say("Done.")]
    settings = {"files.snapshots": False}
    async with open_chat(hilum_files, writer, answers=answers, settings=settings) as chat:
        await prompt(chat, "change")
        await chat.type("/rewind", None)
        assert chat.labels()[1].endswith("unknown changes")


# --- going back -----------------------------------------------------------------------------------


async def test_the_conversation_alone_goes_back_by_default(three_prompts):
    answers = [*three_prompts, say("Another way.")]
    async with open_chat(hilum_files, answers=answers) as chat:
        await prompt(chat, "first", "second", "third")
        old = chat.session.id
        # Enter in the second question.
        said = await chat.type("/rewind", "second", 0)
        assert chat.session.id != old
        assert chat.draft == "second"
        assert texts_of(chat.session) == ["first"]
        assert files_in(chat) == ["a.txt", "b.txt"]
        assert f"/resume {old}" in said
        assert chat.view.forked == old
        await prompt(chat, "second, better")
        assert texts_of(chat.session) == ["first", "second, better"]
        # The old branch is as it was.
        await chat.type(f"/resume {old}")
        assert texts_of(chat.session) == ["first", "second", "third"]


async def test_conversation_and_files_go_back_together(three_prompts):
    async with open_chat(hilum_files, answers=three_prompts) as chat:
        await prompt(chat, "first", "second", "third")
        old = chat.session.id
        said = await chat.type("/rewind", "third", "Conversation and files", True)
        assert files_in(chat) == ["a.txt"]
        assert texts_of(chat.session) == ["first", "second"]
        assert chat.draft == "third"
        # What changes was shown before the question, with what does not change.
        assert "will delete b.txt (+0 −2)" in said
        assert "- three" in said
        assert "Not undone: what was sent over the network" in chat.details[-1]
        assert f"hilum undo undo --session {old}" in said
        # Nothing is lost: the other session restores the files again.
        await chat.type(f"/resume {old}")
        await chat.type("/redo", True)
        assert files_in(chat) == ["a.txt", "b.txt"]


async def test_files_alone_go_back_and_the_agent_is_told(three_prompts):
    answers = [*three_prompts, say("I see.")]
    async with open_chat(hilum_files, answers=answers) as chat:
        await prompt(chat, "first", "second", "third")
        old = chat.session.id
        said = await chat.type("/rewind", "first", "Files only", True)
        assert files_in(chat) == []
        assert chat.session.id == old
        assert chat.draft == ""
        assert "/redo" in said
        await prompt(chat, "Continue.")
        message = chat.bench.requests[-1].messages[-1]
        assert "The user undid changes to: a.txt, b.txt" in message.parts[-1].text


async def test_files_that_others_changed_are_listed_and_skipped_by_default():
    content = "one\ntwo\nthree\nfour\nfive\n"
    answers = [
        use("read_file", path="mixed.txt"),
        use("write_file", path="mixed.txt", content=content),
        use("write_file", path="own.txt", content="own\n"),
        say("Written."),
    ]
    files = {"mixed.txt": content.replace("one", "1")}
    for merge in (None, False, True):
        async with open_chat(hilum_files, answers=answers, files=files) as chat:
            await prompt(chat, "write")
            mixed = chat.bench.workspace / "mixed.txt"
            mixed.write_text(content.replace("five", "FIVE"))
            answer = {None: 0, False: 1, True: 2}[merge]
            said = await chat.type("/rewind", "write", "Files only", answer)
            labels = chat.labels()
            assert labels[0] == "Cancel"
            assert labels[1].startswith("Restore 1 file · skip mixed.txt")
            assert labels[2].startswith("Restore 2 files · merge mixed.txt")
            assert "Will be skipped: mixed.txt: it was changed since" in said
            expected = content.replace("five", "FIVE")
            if merge:
                expected = expected.replace("one", "1")
            assert mixed.read_text() == expected
            assert (chat.bench.workspace / "own.txt").exists() == (merge is None)


async def test_the_first_prompt_can_be_taken_back(three_prompts):
    async with open_chat(hilum_files, answers=three_prompts) as chat:
        await prompt(chat, "first", "second", "third")
        await chat.type("/rewind", "first", "Conversation and files", True)
        assert texts_of(chat.session) == []
        assert chat.draft == "first"
        assert files_in(chat) == []


async def test_a_prompt_that_was_queued_does_not_run_in_the_copy():
    answers = [pause(0), say("one"), say("two"), say("again")]
    async with open_chat(answers=answers) as chat:
        run = await chat.session.prompt("first")
        second = await chat.session.prompt("second")
        await run.wait()
        await second.wait()
        await chat.type("/rewind", "second", 0)
        assert not chat.session.agents["main"].conversation.pending
        await prompt(chat, "other")
        assert texts_of(chat.session) == ["first", "other"]


async def test_work_is_stopped_only_if_the_user_agrees():
    async with open_chat(answers=[say("one"), pause(1_000_000), say("late")]) as chat:
        await prompt(chat, "first")
        run = await chat.session.prompt("second")
        while chat.view.lead_actor.activity != "thinking":
            await trio.testing.wait_all_tasks_blocked()
        old = chat.session.id
        await chat.type("/rewind", "first", 0, False)
        assert chat.session.id == old
        assert run.result is None
        await chat.type("/rewind", "first", 0, True)
        assert run.result.state == "stopped"
        assert texts_of(chat.session) == []


async def test_what_fails_leaves_everything_as_it_was(three_prompts, monkeypatch):
    async with open_chat(hilum_files, answers=three_prompts) as chat:
        await prompt(chat, "first", "second", "third")
        old = chat.session.id
        sessions = {info.id for info in await chat.session.kernel.store.list()}
        history = chat.session.plugin(hilum_files.Changes)

        async def fail(*arguments, **options):
            raise UsageError("Commands are running.", code=E_BUSY)

        monkeypatch.setattr(history, "undo", fail)
        await chat.type("/rewind", "third", "Conversation and files", True)
        assert "E_BUSY" in chat.error
        assert chat.session.id == old
        assert files_in(chat) == ["a.txt", "b.txt"]
        assert {info.id for info in await chat.session.kernel.store.list()} == sessions


async def test_the_copy_undoes_the_work_that_it_contains(three_prompts):
    """With the store that users have: the copy shows and undoes what its prompts changed."""
    async with open_chat(hilum_files, hilum_store, answers=three_prompts) as chat:
        await prompt(chat, "first", "second", "third")
        old = chat.session.id
        await chat.type("/rewind", "third", "Conversation and files", True)
        assert not chat.errors
        assert await chat.type("/diff --stat") == "created a.txt (+1 −0)"
        await chat.type("/undo", True)
        assert files_in(chat) == []
        await chat.type("/redo", True)
        assert files_in(chat) == ["a.txt"]
        await chat.type("/rewind", "first", "Conversation and files", True)
        assert files_in(chat) == []
        assert chat.draft == "first"
        infos = await chat.session.kernel.store.list()
        assert [info.forked for info in infos if info.forked].count(old) == 1
