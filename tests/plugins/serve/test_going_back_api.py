"""Operations that undo: previews change nothing, and nothing is lost."""

import pytest
import trio
from api_calls import Api, open_api, refusal
from hilum.testing import pause, say, use
from served import serving

PREVIEWS = ("diffs", "merged", "skipped", "unrecorded", "still_running")


def write(name, text):
    return use("write_file", path=name, content=text)


async def test_undo_and_redo_with_previews(project):
    async with (
        serving(project, answers=[write("a.txt", "one\n"), "Done."]) as served,
        open_api(served, project, approve="auto") as api,
    ):
        await api.run("Write.")
        preview = await api.post("/undo/preview", {})
        assert tuple(preview) == PREVIEWS
        (diff,) = preview["diffs"]
        assert (diff["path"], diff["what"], diff["removed"]) == ("a.txt", "deleted", 1)
        assert (project / "a.txt").exists()
        assert not (await api.get("/files"))["redoable"]
        done = await api.post("/undo", {})
        assert done["diffs"] == preview["diffs"]
        assert (await api.get("/files"))["redoable"]
        assert not (project / "a.txt").exists()
        preview = await api.post("/redo/preview")
        assert preview["diffs"][0]["what"] == "created"
        assert not (project / "a.txt").exists()
        await api.post("/redo")
        assert (project / "a.txt").read_text() == "one\n"
        assert not (await api.get("/files"))["redoable"]


async def test_an_undo_of_changes_that_the_client_has_not_seen_is_refused(project):
    async with (
        serving(project, answers=[write("a.txt", "one\n"), "Done."]) as served,
        open_api(served, project, approve="auto") as api,
    ):
        before = api.seen
        await api.run("Write.")
        assert refusal(await api.call("POST", "/undo", {}, seen=before)) == (409, "E_STALE")
        assert refusal(await api.call("POST", "/redo", seen=before)) == (409, "E_STALE")
        assert (project / "a.txt").exists()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"scope": "run", "name": "missing"}, (400, 404)),
        ({"scope": "since", "name": "x"}, (404,)),
        ({"scope": "since", "name": "99999999999999999999"}, (400, 404)),
        ({"scope": "everything"}, (400,)),
        ({"scope": "call", "name": "../x"}, (400, 404)),
        ({"unknown": 1}, (400,)),
    ],
)
async def test_parts_that_do_not_exist(project, body, expected):
    async with (
        serving(project, answers=[write("a.txt", "one\n"), "Done."]) as served,
        open_api(served, project, approve="auto") as api,
    ):
        await api.run("Write.")
        for path in ("/undo/preview", "/undo"):
            response = await api.call("POST", path, body)
            assert response.status_code in expected, response.text
        assert (project / "a.txt").exists()


async def test_changes_of_others_are_kept_or_skipped(project):
    answers = [write("a.txt", "one\ntwo\nthree\nfour\nfive\n"), "Done."]
    async with (
        serving(project, answers=answers) as served,
        open_api(served, project, approve="auto") as api,
    ):
        await api.run("Write.")
        (project / "a.txt").write_text("something else\n")
        preview = await api.post("/undo/preview", {"merge": False})
        assert list(preview["skipped"]) == ["a.txt"]
        await api.call("POST", "/undo", {"merge": False})
        assert (project / "a.txt").read_text() == "something else\n"


async def test_going_back_to_a_prompt(project):
    answers = [write("a.txt", "one\n"), "First.", write("b.txt", "two\n"), "Second."]
    async with (
        serving(project, answers=answers) as served,
        open_api(served, project, approve="auto") as api,
    ):
        await api.run("Write a.")
        await api.run("Write b.")
        points = (await api.get("/rewind"))["points"]
        assert [(p["text"], p["files"]) for p in points] == [
            ("Write a.", ["a.txt"]),
            ("Write b.", ["b.txt"]),
        ]
        to = points[1]["to"]
        preview = await api.post("/rewind/preview", {"to": to})
        assert [diff["path"] for diff in preview["diffs"]] == ["b.txt"]
        assert (project / "b.txt").exists()
        both = {"to": to, "conversation": True, "files": True}
        stale = await api.call("POST", "/rewind", both, seen=to)
        assert refusal(stale) == (409, "E_STALE")
        result = await api.post("/rewind", both)
        assert result["text"] == "Write b."
        assert result["session"] != api.session
        assert (project / "a.txt").exists()
        assert not (project / "b.txt").exists()
        copy = Api(api.client, result["session"])
        runs = (await copy.get("/runs"))["runs"]
        assert [run["text"] for run in runs] == ["First."]
        # Nothing is lost: the original has everything, and its undo can be undone.
        assert len((await api.get("/runs"))["runs"]) == 2
        await api.post("/redo")
        assert (project / "b.txt").exists()


async def test_only_the_files_or_only_the_conversation(project):
    answers = [write("a.txt", "one\n"), "First."]
    async with (
        serving(project, answers=answers) as served,
        open_api(served, project, approve="auto") as api,
    ):
        await api.run("Write a.")
        (point,) = (await api.get("/rewind"))["points"]
        to = point["to"]
        talk = await api.post("/rewind", {"to": to, "conversation": True, "files": False})
        assert talk["session"] != api.session
        assert (project / "a.txt").exists()
        files = await api.post("/rewind", {"to": to, "conversation": False, "files": True})
        assert files == {"session": api.session, "text": ""}
        assert not (project / "a.txt").exists()
        nothing = {"to": to, "conversation": False, "files": False}
        assert refusal(await api.call("POST", "/rewind", nothing)) == (400, "E_BAD_ARGS")
        wrong = {"to": to + 1, "conversation": True, "files": False}
        assert refusal(await api.call("POST", "/rewind", wrong)) == (404, "E_UNKNOWN")


async def test_a_working_agent_is_not_rewound(project):
    answers = [say("Working.") + pause(trio.Event())]
    async with serving(project, answers=answers) as served, open_api(served, project) as api:
        await api.post("/prompts", {"text": "Go."})
        points = (await api.wait_until("/rewind", lambda each: each["points"]))["points"]
        body = {"to": points[0]["to"], "conversation": True, "files": False}
        response = await api.call("POST", "/rewind", body, seen=(await api.get())["last"])
        assert refusal(response) == (409, "E_BUSY")


@pytest.mark.parametrize("operation", ["undo", "redo", "rewind"])
async def test_of_two_decisions_at_once_the_second_one_is_stale(project, operation):
    """It would undo what its user has not seen: the run before."""
    answers = [write("a.txt", "1\n"), "Done.", write("b.txt", "2\n"), "Done."]
    async with (
        serving(project, answers=answers) as served,
        open_api(served, project, approve="auto") as api,
    ):
        await api.run("Write.")
        await api.run("Write.")
        points = (await api.get("/rewind"))["points"]
        body = {}
        if operation == "redo":
            await api.post("/undo", {})
            body = None
        elif operation == "rewind":
            body = {"to": points[-1]["to"], "conversation": False, "files": True}
        await api.get()
        seen = api.seen
        answered = []

        async def decide():
            answered.append(await api.call("POST", f"/{operation}", body, seen=seen))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(decide)
            nursery.start_soon(decide)
        first, second = sorted(answered, key=lambda response: response.status_code)
        assert first.status_code == 200
        assert refusal(second) == (409, "E_STALE")
        assert (project / "a.txt").exists()
        assert (project / "b.txt").exists() == (operation == "redo")
