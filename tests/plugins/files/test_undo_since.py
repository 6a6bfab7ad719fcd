"""Everything after an event can be shown and undone, and faces get it as data."""

import json

import hilum_files
import hilum_shell
import pytest
from hilum import FileHistory, UsageError, judge_call
from hilum.events import CallDone, PromptQueued
from hilum.messages import ToolCall
from hilum.testing import Answer, open_bench, say, use


def write(path, text):
    return [use("write_file", path=path, content=text), say("Written.")]


async def test_everything_after_an_event_is_undone_at_once():
    answers = [*write("a.txt", "one\n"), *write("b.txt", "two\n"), *write("c.txt", "three\n")]
    async with open_bench(hilum_files, answers=answers) as bench:
        for prompt in ("first", "second", "third"):
            await bench.run(prompt)
        failed = [done.result.text for done in bench.of(CallDone) if done.result.code]
        assert not failed
        second = bench.of(PromptQueued)[1]
        history = bench.session.plugin(FileHistory)
        name = str(second.seq - 1)
        assert [diff.path for diff in await history.diff("since", name)] == ["b.txt", "c.txt"]
        preview = await history.preview_undo("since", name)
        assert [(diff.path, diff.what) for diff in preview.diffs] == [
            ("b.txt", "deleted"),
            ("c.txt", "deleted"),
        ]
        await history.undo("since", name)
        assert sorted(path.name for path in bench.workspace.iterdir()) == ["a.txt"]
        await history.undo("undo")
        assert sorted(path.name for path in bench.workspace.iterdir()) == [
            "a.txt",
            "b.txt",
            "c.txt",
        ]
        wrong = [("since", str(bench.session.journal.last)), ("since", "x"), ("since", "")]
        for scope, event in wrong:
            with pytest.raises(UsageError):
                await history.undo(scope, event)


async def test_files_that_others_changed_since_are_skipped_without_merging():
    answers = [
        use("write_file", path="mixed.txt", content="one\ntwo\nthree\nfour\nfive\n"),
        use("write_file", path="own.txt", content="own\n"),
        say("Written."),
    ]
    files = {"mixed.txt": "1\ntwo\nthree\nfour\nfive\n"}
    async with open_bench(
        hilum_files, answers=[use("read_file", path="mixed.txt"), *answers], files=files
    ) as bench:
        await bench.run("write")
        mixed = bench.workspace / "mixed.txt"
        mixed.write_text("one\ntwo\nthree\nfour\nFIVE\n")
        history = bench.session.plugin(FileHistory)
        merging = await history.preview_undo("since", "0")
        assert merging.merged == ("mixed.txt",)
        assert [diff.path for diff in merging.diffs] == ["mixed.txt", "own.txt"]
        skipping = await history.preview_undo("since", "0", merge=False)
        assert list(skipping.skipped) == ["mixed.txt"]
        assert [diff.path for diff in skipping.diffs] == ["own.txt"]
        await history.undo("since", "0", keep_going=True, merge=False)
        assert mixed.read_text() == "one\ntwo\nthree\nfour\nFIVE\n"
        assert not (bench.workspace / "own.txt").exists()


async def test_each_run_is_summarized_with_its_lines():
    answers = [
        *write("a.txt", "one\ntwo\n"),
        say("Nothing to do."),
        use("edit_file", path="a.txt", old_string="two\n", new_string="three\nfour\n"),
        say("Edited."),
    ]
    async with open_bench(hilum_files, answers=answers) as bench:
        for prompt in ("write", "think", "edit"):
            await bench.run(prompt)
        runs = [event.run for event in bench.of(PromptQueued)]
        found = await bench.session.plugin(FileHistory).summarize_runs(runs)
        assert [(found[run].files, found[run].added, found[run].removed) for run in found] == [
            (("a.txt",), 2, 0),
            (("a.txt",), 2, 1),
        ]
        assert list(found) == [runs[0], runs[2]]


async def test_calls_are_listed_with_names_that_are_unique_in_the_session():
    """A provider may use the same call id in two runs."""

    def same_id(path):
        arguments = {"path": path, "content": "text\n"}
        return Answer((ToolCall("same", "write_file", json.dumps(arguments)),))

    answers = [
        same_id("a.txt"),
        say("Written."),
        same_id("b.txt"),
        say("Written."),
    ]
    async with open_bench(hilum_files, answers=answers) as bench:
        history = bench.session.plugin(FileHistory)
        assert await history.list_calls() == []
        await bench.run("first")
        await bench.run("second")
        calls = await history.list_calls()
        runs = [event.run for event in bench.of(PromptQueued)]
        assert [(call.files, call.run, call.tool) for call in calls] == [
            (("b.txt",), runs[1], "write_file"),
            (("a.txt",), runs[0], "write_file"),
        ]
        assert len(await history.list_calls(1)) == 1
        await history.undo("call", calls[1].name)
        assert [path.name for path in bench.workspace.iterdir()] == ["b.txt"]
        # The call was undone, so it is no longer listed.
        assert await history.list_calls() == calls[:1]


async def test_a_call_that_is_only_judged_does_not_prevent_an_undo():
    """A face judges the commands that the user types."""
    async with open_bench(hilum_files, hilum_shell, answers=write("a.txt", "one\n")) as bench:
        await bench.run("write")
        await judge_call(bench.session.agents["main"], "run_terminal_cmd", '{"command": "true"}')
        history = bench.session.plugin(FileHistory)
        await history.undo("run")
        assert list(bench.workspace.iterdir()) == []
