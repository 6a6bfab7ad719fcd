"""Edits that a guest announces and then makes: one question, which covers nothing else."""

import json

import pytest
import trio
from hilum.events import ApprovalAsked, CallStarted
from hilum_agents.runs import Runs

OLD = "first\nsecond\nthird\n"
NEW = "first\nSECOND\nthird\n"


def announce(old=OLD, new=NEW, path="a.txt"):
    change = {"type": "diff", "path": path, "oldText": old, "newText": new}
    return ["ask", f"Edit {path}", "edit", {"content": [change]}]


async def run_with_answers(guest, steps, answers):
    """Run steps of the courteous guest and answer the questions; return the tools asked about."""
    job = await guest.start(json.dumps(steps))
    asked = []
    async with trio.open_nursery() as nursery:

        async def respond():
            async for event in guest.bench.session.events(0):
                if isinstance(event, ApprovalAsked):
                    asked.append(event.call.name)
                    guest.bench.session.answer(event.id, answers[len(asked) - 1])

        nursery.start_soon(respond)
        with trio.fail_after(30):
            await guest.bench.session.plugin(Runs).wait(job)
        nursery.cancel_scope.cancel()
    return asked


@pytest.mark.parametrize(
    "step",
    [announce(), announce("second\n", "SECOND\n")],
    ids=["whole file", "part"],
)
async def test_an_approved_edit_is_written_without_a_second_question(open_guest, step):
    async with open_guest("courteous", approve="ask_first", files={"a.txt": OLD}) as guest:
        steps = [["read", "a.txt"], step, ["write", "a.txt", NEW]]
        assert await run_with_answers(guest, steps, [True]) == ["guest_edit"]
        assert (guest.bench.workspace / "a.txt").read_text() == NEW
        # The write is a call like any other, so it is recorded.
        tools = [event.call.name for event in guest.bench.of(CallStarted)]
        assert tools[-1] == "write_file"


async def test_a_new_file_needs_one_question(open_guest):
    async with open_guest("courteous", approve="ask_first") as guest:
        steps = [announce("", "new\n", "b.txt"), ["write", "b.txt", "new\n"]]
        assert await run_with_answers(guest, steps, [True]) == ["guest_edit"]
        assert (guest.bench.workspace / "b.txt").read_text() == "new\n"


@pytest.mark.parametrize(
    ("path", "content"),
    [("a.txt", "other\n"), ("b.txt", NEW), ("a.txt", NEW + "rm -rf /\n")],
)
async def test_another_write_is_asked_about(open_guest, path, content):
    files = {"a.txt": OLD, "b.txt": "b\n"}
    async with open_guest("courteous", approve="ask_first", files=files) as guest:
        steps = [["read", path], announce(), ["write", path, content]]
        asked = await run_with_answers(guest, steps, [True, False])
        assert asked == ["guest_edit", "write_file"]
        assert {name: (guest.bench.workspace / name).read_text() for name in files} == files


@pytest.mark.parametrize(
    ("announced", "written"),
    [("link.txt", "link.txt"), ("link.txt", "a.txt"), ("folder/a.txt", "folder/a.txt")],
)
async def test_a_change_that_was_announced_through_a_link_is_asked_about(
    open_guest, announced, written
):
    """The question shows the name of the link, and not the file that the write changes."""
    async with open_guest("courteous", approve="ask_first", files={"a.txt": OLD}) as guest:
        (guest.bench.workspace / "link.txt").symlink_to("a.txt")
        (guest.bench.workspace / "folder").symlink_to(".")
        steps = [["read", written], announce(path=announced), ["write", written, NEW]]
        asked = await run_with_answers(guest, steps, [True, False])
        assert asked == ["guest_edit", "write_file"]
        assert (guest.bench.workspace / "a.txt").read_text() == OLD


async def test_an_approval_covers_one_write(open_guest):
    async with open_guest("courteous", approve="ask_first", files={"a.txt": OLD}) as guest:
        steps = [
            ["read", "a.txt"],
            announce(),
            ["write", "a.txt", NEW],
            ["write", "a.txt", OLD],
            ["write", "a.txt", NEW],
        ]
        asked = await run_with_answers(guest, steps, [True, True, False])
        assert asked == ["guest_edit", "write_file", "write_file"]


async def test_a_denied_edit_is_asked_about_again(open_guest):
    async with open_guest("courteous", approve="ask_first", files={"a.txt": OLD}) as guest:
        steps = [["read", "a.txt"], announce(), ["write", "a.txt", NEW]]
        asked = await run_with_answers(guest, steps, [False, False])
        assert asked == ["guest_edit", "write_file"]
        assert (guest.bench.workspace / "a.txt").read_text() == OLD


async def test_a_change_that_the_question_does_not_show_is_asked_about(open_guest):
    new = "".join(f"line {number} of many\n" for number in range(2_000))
    async with open_guest("courteous", approve="ask_first") as guest:
        steps = [announce("", new, "b.txt"), ["write", "b.txt", new]]
        assert await run_with_answers(guest, steps, [True, False]) == ["guest_edit", "write_file"]


async def test_a_change_that_the_guest_replaces_while_the_question_is_open_is_not_covered(
    open_guest,
):
    """The guest reports another change for the call before the user has answered."""
    code = f"""
first = {{"type": "diff", "path": "a.txt", "oldText": {OLD!r}, "newText": {NEW!r}}}
other = {{**first, "newText": "other\\n"}}
call = {{"toolCallId": "1", "title": "Edit", "kind": "edit", "status": "pending"}}
client.send({{"id": 900, "method": "session/request_permission", "params": {{
    "sessionId": client.session,
    "toolCall": {{**call, "content": [first]}},
    "options": [{{"optionId": "yes", "name": "Allow", "kind": "allow_once"}}],
}}}})
client.update("tool_call_update", toolCallId="1", content=[other])
while client.read().get("id") != 900:
    pass
path = os.path.abspath("a.txt")
client.request("fs/read_text_file", path=path)
_, error = client.request("fs/write_text_file", path=path, content="other\\n")
print(bool(error))
"""
    async with open_guest("bypassing", approve="ask_first", files={"a.txt": OLD}) as guest:
        job = await guest.start(f"#begin\n{code}")
        first = await guest.bench.wait_for(ApprovalAsked)
        guest.bench.session.answer(first.id, True)
        second = await guest.bench.wait_for(
            ApprovalAsked, lambda event: event.call.name == "write_file"
        )
        guest.bench.session.answer(second.id, False)
        await guest.bench.session.plugin(Runs).wait(job)
        assert guest.said == "True\n"
        assert (guest.bench.workspace / "a.txt").read_text() == OLD


async def test_a_rule_that_denies_the_write_still_applies(open_guest, tmp_path):
    (tmp_path / "config").mkdir(exist_ok=True)
    (tmp_path / "config" / "permissions.toml").write_text('deny = ["write_file"]\n')
    async with open_guest("courteous", approve="ask_first", files={"a.txt": OLD}) as guest:
        steps = [["read", "a.txt"], announce(), ["write", "a.txt", NEW]]
        await run_with_answers(guest, steps, [True, True])
        assert "write: E_DENIED" in guest.said
        assert (guest.bench.workspace / "a.txt").read_text() == OLD


async def test_a_dangerous_write_is_asked_about_although_it_was_announced(open_guest):
    """An approval replaces only the question of the approval policy."""
    path = ".vscode/tasks.json"
    async with open_guest("courteous", approve="ask_first", files={path: OLD}) as guest:
        steps = [["read", path], announce(path=path), ["write", path, NEW]]
        asked = await run_with_answers(guest, steps, [True, False])
        assert asked == ["guest_edit", "write_file"]
        assert (guest.bench.workspace / path).read_text() == OLD


async def test_a_change_of_line_separators_is_shown(open_guest):
    """The new text runs a command that the old one has in a comment."""
    old, new = "# note\u2028run()\n", "# note\nrun()\n"
    async with open_guest("courteous", approve="ask_first", files={"a.py": old}) as guest:
        job = await guest.start(json.dumps([announce(old, new, "a.py")]))
        asked = await guest.bench.wait_for(ApprovalAsked)
        assert "+run()" in json.loads(asked.call.arguments)["change"]
        guest.bench.session.answer(asked.id, False)
        await guest.bench.session.plugin(Runs).wait(job)
