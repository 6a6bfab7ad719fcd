"""Changes of files that cannot succeed are refused before the user is asked to approve them."""

import json

import hilum_files
import pytest
from hilum.errors import E_BAD_ARGS, E_FILE_NOT_FOUND, E_MULTIPLE_MATCHES, E_NOT_FOUND, E_STALE
from hilum.events import ApprovalAsked, CallDone, CallStarted
from hilum.testing import open_bench, say, use

READ = use("read_file", path="a.txt")


def edit(old, new="x", path="a.txt", **more):
    return use("edit_file", path=path, old_string=old, new_string=new, **more)


def edits(*pairs):
    replacements = [{"old_string": old, "new_string": new} for old, new in pairs]
    arguments = {"path": "a.txt", "edits": replacements}
    return use("call_tool", name="multi_edit", arguments=json.dumps(arguments))


@pytest.mark.parametrize(
    ("answers", "code", "text"),
    [
        ([READ, edit("four")], E_NOT_FOUND, "not in the file"),
        ([READ, edit("o")], E_MULTIPLE_MATCHES, "times"),
        ([edit("one")], E_STALE, "you have not read it"),
        ([edit("one", path="b.txt")], E_FILE_NOT_FOUND, "b.txt"),
        ([edit("", path="b.txt")], E_FILE_NOT_FOUND, "create_if_missing"),
        ([READ, edits(("one", "1"), ("one", "2"))], E_NOT_FOUND, "Edit 2"),
        ([use("write_file", path="a.txt", content="x")], E_STALE, "you have not read it"),
        ([use("write_file", path="a/", content="x")], E_BAD_ARGS, "is a folder"),
        ([use("delete_file", path="a.txt")], E_STALE, "you have not read it"),
        ([use("delete_file", path="b.txt")], E_FILE_NOT_FOUND, "b.txt"),
        ([use("delete_file", path=".")], E_BAD_ARGS, "workspace itself"),
    ],
)
async def test_the_model_gets_the_error_and_the_user_no_question(answers, code, text):
    opening = open_bench(hilum_files, answers=[*answers, say("Ok.")], approve="ask_first")
    async with opening as bench:
        (bench.workspace / "a.txt").write_text("one\ntwo\nthree\n")
        await bench.run("change it")
        done = bench.of(CallDone)[-1].result
        assert done.code == code
        assert text in done.text
        assert bench.of(ApprovalAsked) == []
        assert [event.call.name for event in bench.of(CallStarted)] in ([], ["read_file"])
        assert (bench.workspace / "a.txt").read_text() == "one\ntwo\nthree\n"


async def test_a_changed_file_is_not_quoted_before_the_user_has_approved():
    """The user may have approved reading it once; what it contains now is not the model's."""
    async with open_bench(
        hilum_files, answers=[READ, say("Read."), edit("one"), say("Ok.")], approve="ask_first"
    ) as bench:
        path = bench.workspace / "a.txt"
        path.write_text("one\n")
        await bench.run("read it")
        path.write_text("one\nnew secret\n")
        await bench.run("change it")
        result = bench.of(CallDone)[-1].result
        assert result.code == E_STALE
        assert "changed since you last saw it" in result.text
        assert "secret" not in result.text
        assert bench.of(ApprovalAsked) == []


@pytest.mark.parametrize(
    "call",
    [
        edit("one"),
        edits(("one", "1"), ("two", "2")),
        edit("", "new", path="b.txt", create_if_missing=True),
        use("write_file", path="a.txt", content="x"),
        use("write_file", path="new/b.txt", content="x"),
        use("delete_file", path="a.txt"),
        edit("one", "one"),
    ],
)
async def test_a_change_that_can_succeed_is_asked_about_as_usual(call):
    """Nothing is changed before the answer."""
    opening = open_bench(hilum_files, answers=[READ, call, say("Ok.")], approve="ask_first")
    async with opening as bench:
        (bench.workspace / "a.txt").write_text("one\ntwo\nthree\n")
        run = await bench.start("change it")
        asked = await bench.wait_for(ApprovalAsked)
        assert [path.name for path in bench.workspace.iterdir()] == ["a.txt"]
        assert (bench.workspace / "a.txt").read_text() == "one\ntwo\nthree\n"
        bench.session.answer(asked.id, True)
        with bench.guard():
            await run.wait()
        assert bench.of(CallDone)[-1].result.code == ""
