"""Operations on files: what changed, and content that never leaves the session's folder."""

import os
import subprocess

import pytest
from api_calls import check, open_api, refusal
from hilum.testing import use
from served import serving

WRITE = use("write_file", path="made.txt", content="one\ntwo\n")


async def test_changed_files_and_their_diffs(project):
    (project / "old.txt").write_text("before\n")
    answers = [
        WRITE,
        "Written.",
        use("read_file", path="old.txt"),
        use("edit_file", path="old.txt", old_string="before", new_string="after"),
        "Edited.",
    ]
    async with (
        serving(project, answers=answers) as served,
        open_api(served, project, approve="auto") as api,
    ):
        empty = await api.get("/files")
        assert empty == {"files": [], "added": 0, "removed": 0, "redoable": False}
        first = await api.run("Write.")
        await api.run("Edit.")
        changed = await api.get("/files")
        assert [(each["path"], each["what"]) for each in changed["files"]] == [
            ("made.txt", "created"),
            ("old.txt", "changed"),
        ]
        assert (changed["added"], changed["removed"]) == (3, 1)
        (diff,) = (await api.get("/files/diff", path="old.txt"))["diffs"]
        assert "-before\n+after" in diff["diff"]
        run = await api.get("/files/diff", scope="run", name=first["id"])
        assert [each["path"] for each in run["diffs"]] == ["made.txt"]
        missing = await api.call("GET", "/files/diff", path="other.txt")
        assert refusal(missing) == (404, "E_NOT_FOUND")
        missing = await api.call("GET", "/files/diff", scope="run", name="missing")
        assert missing.status_code in (400, 404)


def read_git(folder, *arguments):
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


async def test_changed_files_are_those_of_git(project):
    """Also for files in new folders, and with separators that end lines only in Python."""
    (project / "old.sql").write_text("-- a\n++ b\nsame\n")
    (project / "gone.txt").write_text("1\n2\n")
    read_git(project, "init", "-q")
    read_git(project, "add", "-A")
    read_git(project, "commit", "-q", "-m", "First")
    answers = [
        use("write_file", path="new/deep/made.txt", content="a\x0cb\u2028c\nd\n"),
        use("write_file", path="top.txt", content="no newline"),
        use("read_file", path="old.sql"),
        use("edit_file", path="old.sql", old_string="-- a\n++ b\n", new_string="x\n"),
        use("read_file", path="gone.txt"),
        use("delete_file", path="gone.txt"),
        use("edit_file", path="top.txt", old_string="no newline", new_string="one\ntwo\n"),
        "Done.",
    ]
    async with (
        serving(project, answers=answers) as served,
        open_api(served, project, approve="auto") as api,
    ):
        await api.run("Go.")
        changed = await api.get("/files")
    read_git(project, "add", "-A")
    lines = read_git(project, "diff", "--cached", "--numstat", "HEAD").splitlines()
    counts = {path: (int(a), int(b)) for a, b, path in (line.split("\t") for line in lines)}
    states = read_git(project, "diff", "--cached", "--name-status", "HEAD").splitlines()
    kinds = {"A": "created", "M": "changed", "D": "deleted"}
    whats = {path: kinds[kind] for kind, path in (line.split("\t") for line in states)}
    found = {each["path"]: (each["added"], each["removed"]) for each in changed["files"]}
    assert found == counts
    assert {each["path"]: each["what"] for each in changed["files"]} == whats


async def test_the_content_of_a_file(project):
    (project / "ünï code.txt").write_text("text 😀\n")
    (project / "image.bin").write_bytes(b"\x00\x01")
    (project / "large.txt").write_bytes(b"x" * 1_000_001)
    async with serving(project) as served, open_api(served, project) as api:
        found = await api.get("/files/content", path="ünï code.txt")
        assert (found["path"], found["text"]) == ("ünï code.txt", "text 😀\n")
        binary = await api.get("/files/content", path="image.bin")
        assert (binary["binary"], binary["text"], binary["size"]) == (True, "", 2)
        large = await api.call("GET", "/files/content", path="large.txt")
        assert refusal(large) == (413, "E_TOO_LARGE")


async def test_secrets_and_withheld_files_are_not_shown(project):
    (project / ".env").write_text("TOKEN=x\n")
    key = "sk-ant-" + "api03-" + "a1B2c3D4" * 11
    (project / "notes.txt").write_text(f"the key is {key}\n")
    async with serving(project) as served, open_api(served, project) as api:
        hidden = await api.call("GET", "/files/content", path=".env")
        assert refusal(hidden) == (403, "E_DENIED")
        notes = await api.get("/files/content", path="notes.txt")
        assert key not in notes["text"]


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "a/../../secret.txt",
        "/etc/passwd",
        "..%2fsecret.txt",
        "%2e%2e/secret.txt",
        "link.txt",
        "folder-link/secret.txt",
        "nul\0.txt",
        "pipe",
        "/dev/zero",
        "/proc/self/environ",
        "~/secret.txt",
        ".",
        "missing.txt",
        "a" * 4000,
        "made.txt/x",
    ],
)
async def test_tricks_with_paths_reveal_nothing(project, tmp_path, path):
    (tmp_path / "secret.txt").write_text("the secret\n")
    (project / "link.txt").symlink_to(tmp_path / "secret.txt")
    (project / "folder-link").symlink_to(tmp_path)
    (project / "made.txt").write_text("")
    os.mkfifo(project / "pipe")
    async with serving(project) as served, open_api(served, project) as api:
        response = await api.call("GET", "/files/content", path=path)
        assert response.status_code in (400, 403, 404), response.text
        assert "the secret" not in response.text
        # Nor where a link leads. The client knows the path that it sent, and the folder.
        shown = response.json()["message"].replace(str(project), "").replace(repr(path), "")
        assert "secret.txt" not in shown
        assert str(tmp_path) not in shown
        # The same text in the path of the address, undecoded and decoded.
        for address in (f"/files/content/{path}", f"/files/{path}"):
            # The test's own client would send another address.
            if "\0" in address or path == ".":
                continue
            response = await api.client.get(f"/api/sessions/{api.session}{address}")
            assert response.status_code in (400, 404), (address, response.text)
        assert check(await api.client.get("/api/me"))["name"] == "owner"


KEY = "sk-ant-" + "api03-" + "a1B2c3D4" * 11
CERTIFICATE = "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0B\n" * 5 + "-----END"
CERTIFICATE += " PRIVATE KEY-----\n"


async def test_diffs_show_no_withheld_files_and_no_secrets(project):
    """Neither in what changed nor in what an undo, a redo or a rewind would do."""
    (project / ".env").write_text("OLD_PASSWORD=hunter2\n")
    (project / "notes.txt").write_text(f"the key is {KEY}\n")
    (project / "text.txt").write_text(CERTIFICATE)
    (project / "old.txt").write_text("shown\n")
    command = "echo X=1 >> .env; for f in notes text; do echo y >> $f.txt; done; rm old.txt"
    answers = [use("run_terminal_cmd", command=command), "Done."]
    async with serving(project, answers=answers) as served, open_api(served, project) as api:
        await api.post("/prompts", {"text": "Go."})
        item = await api.wait_for("approval")
        await api.post(f"/approvals/{item['id']}", {"accepted": True})
        await api.wait_until("", lambda state: not state["running"])
        (point,) = (await api.get("/rewind"))["points"]
        previews = [
            await api.get("/files/diff"),
            await api.get("/files/diff", path=".env"),
            await api.post("/undo/preview", {}),
            await api.post("/rewind/preview", {"to": point["to"]}),
            await api.post("/undo", {}),
            await api.post("/redo/preview"),
            await api.post("/redo"),
        ]
        for preview in previews:
            for diff in preview["diffs"]:
                assert "hunter2" not in diff["diff"]
                assert KEY not in diff["diff"]
                assert "MIIEvQ" not in diff["diff"]
        found = {diff["path"]: diff for diff in previews[0]["diffs"]}
        assert found[".env"]["diff"] == ""
        assert found[".env"]["note"].startswith("This file is not shown here: ")
        assert (found[".env"]["added"], found[".env"]["removed"]) == (1, 0)
        assert found["notes.txt"]["diff"].endswith("\n+y\n")
        assert found["old.txt"]["diff"].endswith("\n-shown\n")
