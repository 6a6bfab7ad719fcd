"""``hilum agents run`` against a model over HTTP; what it found is found again by other processes."""

import json
import os
import sys
from pathlib import Path

import trio
from hilum.messages import AssistantMessage, Text


async def test_a_result_is_there_for_other_processes(tmp_path: Path) -> None:
    """And the agent remembers."""
    from hilum_replay import Answer, serve

    asked = []

    def answer(request):  # type: ignore[no-untyped-def]
        asked.append(json.loads(request.body)["messages"])
        return Answer(AssistantMessage((Text(f"Answer {len(asked)}.", "model"),)))

    work = tmp_path / "work"
    work.mkdir()
    async with serve(answer) as server:
        environ = os.environ | {
            "HILUM_DATA": str(tmp_path / "own"), "HILUM_CONFIG": str(tmp_path / "own"), "HILUM_MODEL": "openai/m",
            "OPENAI_BASE_URL": f"{server.url}/v1" if not server.url.endswith("/v1") else server.url, "OPENAI_API_KEY": "none",
        }  # fmt: skip
        (work / ".hilum" / "agents").mkdir(parents=True)

        async def hilum(*argv: str) -> str:
            command = [sys.executable, "-m", "hilum", "agents", *argv, "-C", str(work)]
            done = await trio.run_process(command, env=environ, capture_stdout=True, capture_stderr=True, check=False)
            assert done.returncode == 0, done.stderr.decode()
            return done.stdout.decode()

        folder = tmp_path / "own" / "agents"
        folder.mkdir(parents=True)
        (folder / "helper.md").write_text("---\nname: helper\ndescription: Helps.\ntools: []\n---\nYou help.\n")
        with trio.fail_after(60):
            assert "Answer 1." in await hilum("run", "helper", "Help", "me.")
            await hilum("run", "helper", "Again.")
            rows = json.loads(await hilum("results", "--json"))
            assert [row["status"] for row in rows] == ["completed"] * 2
            assert "Answer 1." in await hilum("result", rows[0]["agent_id"][:6])
            assert "forgotten" in await hilum("clear", "helper")
            await hilum("run", "helper", "Third.")
    assert "Answer 1." in json.dumps(asked[1])
    assert "Answer 1." not in json.dumps(asked[2])
