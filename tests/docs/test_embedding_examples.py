"""The examples of docs/embedding.md, each run as its reader would run it, against a scripted model
behind real HTTP.
"""

import os
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import trio
from hilum.messages import AssistantMessage, ToolCall
from hilum_replay import serve

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"


def use(tool, **arguments):
    """An answer that calls a tool."""
    return AssistantMessage(
        (ToolCall(f"call-{tool}", tool, msgspec.json.encode(arguments).decode()),)
    )


@asynccontextmanager
async def model(*answers):
    """A server that gives these answers, one for each request."""
    async with serve(lambda request: answers[request.number - 1]) as server:
        yield server
        assert server.failures == []
        assert server.count == len(answers)


async def run_example(name, task, server, folder, *more):
    """Run an example in an empty folder; gives what it printed."""
    for part in ("work", "data", "config"):
        (folder / part).mkdir()
    clean = {
        n: v
        for n, v in os.environ.items()
        if not n.startswith("HILUM_") and not n.endswith(("_API_KEY", "_BASE_URL"))
    }
    own = {
        "HILUM_DATA": str(folder / "data"),
        "HILUM_CONFIG": str(folder / "config"),
        "HILUM_MODEL": "openai/m",
    }
    own |= {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "none"}
    with trio.fail_after(60):
        done = await trio.run_process(
            [sys.executable, EXAMPLES / name, task, *more],
            cwd=folder / "work", env=clean | own, capture_stdout=True, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
    text = done.stdout.decode()
    assert done.returncode == 0, text
    return text


async def test_trio_example_allows_edits_and_refuses_commands(tmp_path):
    """The file is written, the command is not run, and the program prints both and the answer."""
    answers = [
        use("write_file", path="a.txt", content="hello\n"),
        use("run_terminal_cmd", command="touch b.txt"),
        "I wrote the file and may run nothing.",
        "Nothing else.",
    ]
    async with model(*answers) as server:
        text = await run_example("embed_trio.py", "Write hello.", server, tmp_path, "What else?")
    assert text.splitlines() == [
        "write_file: ok",
        "run_terminal_cmd: E_REJECTED",
        "completed I wrote the file and may run nothing.",
        "completed Nothing else.",
    ]
    assert (tmp_path / "work" / "a.txt").read_text() == "hello\n"
    assert not (tmp_path / "work" / "b.txt").exists()


async def test_asyncio_example_gives_the_model_a_tool_of_its_own(tmp_path):
    """The tool runs on the program's loop, and its result goes to the model."""
    async with model(use("stock", item="pencils"), "There are 12.") as server:
        text = await run_example("embed_asyncio.py", "How many pencils?", server, tmp_path)
        assert b"12 pencils" in server.bodies[1]
    assert text == "completed There are 12.\n"


async def test_blocking_example_runs_without_a_loop(tmp_path):
    """The plain script gets the result, and names turns, tokens and the session."""
    async with model(use("run_terminal_cmd", command="echo hi"), "It says hi.") as server:
        text = await run_example("embed_blocking.py", "Run it.", server, tmp_path)
    first, second = text.splitlines()
    assert first == "completed It says hi."
    assert second.startswith("2 turns, ")
    assert "tokens; session 2" in second


async def test_face_example_prints_what_happens_and_lets_edits_run(tmp_path):
    """Calls with their results, refusals with their reasons, answers and the outcome of each run."""
    answers = [
        use("write_file", path="a.txt", content="hello\n"),
        use("run_terminal_cmd", command="touch b.txt"),
        "I wrote the file\x1b[2J.",
        "Nothing else.",
    ]
    async with model(*answers) as server:
        text = await run_example("embed_face.py", "Write hello.", server, tmp_path, "What else?")
    lines = text.splitlines()
    assert lines[0].startswith("  write_file path=a.txt content=hello: ")
    assert "Only edits are allowed." in lines[2]
    assert lines[3:7] == [
        "I wrote the file\\x1b[2J.",
        "[completed]",
        "Nothing else.",
        "[completed]",
    ]
    assert lines[7].startswith("2 runs, 2 calls, ")
    assert (tmp_path / "work" / "a.txt").exists()
    assert not (tmp_path / "work" / "b.txt").exists()


def test_the_page_on_faces_shows_how_one_is_tested(tmp_path):
    """Its last example runs."""
    page = (EXAMPLES.parent / "faces.md").read_text()
    script = tmp_path / "example.py"
    script.write_text(page.rpartition("```python\n")[2].partition("```")[0])
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
