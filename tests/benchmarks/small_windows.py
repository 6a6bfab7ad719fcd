"""Long work in small windows: ``python tests/benchmarks/small_windows.py``.

``hilum run`` with all plugins, in a git repository and with a home of its own, asks a scripted
model over HTTP. The model runs commands whose output is dense (numbers, hashes, a lock file,
base64), 30,000 characters at each turn. The requests are checked as they went over the wire: the
user's request must be in each, and each call must have its result. The bar: the request is in every
request, and at 32k a compaction serves five turns or more.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import trio
from hilum import AssistantMessage, Text, ToolCall, Usage, estimate
from hilum_replay import Answer, serve

PROMPT = "Find out why the totals of the report differ, and write what you found into NOTES.md. Keep the public API."
SUMMARY = "\n".join(
    f"## {name}\nThe totals in src/report.py are compared with git history.\n"
    for name in ("Goal", "Decisions", "Files", "Facts", "Open work")
)
COMMANDS = (
    "seq 1 6000",
    "git log --format='%H %T %P'",
    "cat uv.lock",
    "base64 -w 76 data.bin",
    "cat access.log",
)
WINDOWS = (8_192, 16_384, 32_768, 131_072)


def make_project(folder: Path) -> None:
    """Make a git repository with a history, a lock file, a log and a file of random bytes."""
    folder.mkdir(parents=True)
    for number in range(40):
        path = folder / "src" / f"part_{number}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"def total_{number}(rows):\n    return sum(row.value for row in rows)\n")
    hashes = [f"{number * 7_919**9 % 16**64:064x}" for number in range(1, 500)]
    (folder / "uv.lock").write_text(
        "".join(f'wheel = {{ hash = "sha256:{digest}" }}\n' for digest in hashes)
    )
    (folder / "data.bin").write_bytes(bytes(number * 167 % 251 for number in range(23_000)))
    lines = [
        f'10.0.{n % 256}.{n % 99} - - [23/Nov/2026:04:{n % 60:02}:11] "GET /api/{n}" 200 {n * 37}\n'
        for n in range(450)
    ]
    (folder / "access.log").write_text("".join(lines))
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *arguments], check=True)
    for number in range(12):
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", f"step {number}"], check=True)


def is_paired(body: dict) -> bool:
    """Whether each call of a chat request has its result right after it, and no result is alone."""
    waiting: list[str] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            if not waiting or message["tool_call_id"] != waiting.pop(0):
                return False
            continue
        if waiting:
            return False
        waiting = [call["id"] for call in message.get("tool_calls", ())]
    return not waiting


async def measure(folder: Path, window: int, turns: int, *, plugins: tuple[str, ...] = ()) -> dict:
    """Run the task in a window; return what the requests and the events show.

    Args:
        folder: An empty folder for project, home, settings and data.
        window: The model's window in tokens.
        turns: Turns before the answer.
        plugins: More arguments of the command.
    """
    project, home = folder / "project", folder / "home"
    make_project(project)
    home.mkdir()
    config = folder / "config"
    config.mkdir()
    (config / "settings.toml").write_text(
        f'turns = {turns + 5}\n[models.models."openai/m"]\nwindow = {window}\n'
    )
    bodies: list[dict] = []

    def answer(request) -> Answer:
        body = json.loads(request.body)
        used = Usage(input=estimate(request.body), output=50)
        if request.system.startswith("You summarize"):
            return Answer(AssistantMessage((Text(SUMMARY, "model"),)), usage=used)
        bodies.append(body)
        number = len(bodies)
        if number > turns:
            return Answer(
                AssistantMessage((Text("The totals differ by rounding.", "model"),)), usage=used
            )
        arguments = json.dumps({"command": COMMANDS[number % len(COMMANDS)]})
        call = ToolCall(f"call_{number:012}", "run_terminal_cmd", arguments)
        return Answer(
            AssistantMessage((Text(f"Step {number}.", "model"), call), stop="calls"), usage=used
        )

    keep = {
        name: os.environ[name]
        for name in ("PATH", "LANG", "VIRTUAL_ENV", "PYTHONPATH")
        if name in os.environ
    }
    async with serve(answer) as server:
        environ = keep | {
            "HOME": str(home),
            "HILUM_CONFIG": str(config),
            "HILUM_DATA": str(folder / "data"),
            "OPENAI_BASE_URL": f"{server.url}/v1",
            "OPENAI_API_KEY": "none",
        }
        argv = [sys.executable, "-m", "hilum", "run", PROMPT, "--model", "openai/m", "--approve", "auto",
                "--output-format", "stream-json", "--workspace", str(project), *plugins]  # fmt: skip
        done = await trio.run_process(
            argv, env=environ, capture_stdout=True, capture_stderr=True, check=False
        )
    events = [json.loads(line) for line in done.stdout.splitlines()]
    ended = [event for event in events if event["type"] == "run_ended"]
    built = next(
        (event for event in events if event["type"] == "prompt_built"), {"layers": (), "tools": ()}
    )
    asked = [
        any(PROMPT in str(m["content"]) for m in body["messages"] if m["role"] == "user")
        for body in bodies
    ]
    return {
        "exit": done.returncode,
        "state": ended[-1]["state"] if ended else done.stderr.decode()[-500:],
        "code": ended[-1].get("code", "") if ended else "",
        "error": ended[-1].get("error", "") if ended else "",
        "requests": len(bodies),
        "with_request": sum(asked),
        "paired": sum(map(is_paired, bodies)),
        "largest": max(
            (estimate(json.dumps(body, ensure_ascii=False)) for body in bodies), default=0
        ),
        "head": estimate(json.dumps([built["layers"], built["tools"]])),
        "compactions": sum(event["type"] == "compacted" for event in events),
        "answer": ended[-1].get("text", "") if ended else "",
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=40)
    options = parser.parse_args()
    print(
        "window    ends                   requests   with the request   paired   largest   compactions   turns for each"
    )
    for window in WINDOWS:
        with tempfile.TemporaryDirectory() as folder:
            found = trio.run(lambda: measure(Path(folder), window, options.turns))  # noqa: B023
        each = (
            f"{found['requests'] / found['compactions']:8.1f}"
            if found["compactions"]
            else "       –"
        )
        state = f"{found['state']} {found['code']}".strip()[:22]
        row = f"{window:7,}   {state:22} {found['requests']:8} {found['with_request']:18} {found['paired']:8}"
        print(f"{row} {found['largest']:9,} {found['compactions']:13} {each}", flush=True)
        if found["error"]:
            print(f"          {found['error']}")


if __name__ == "__main__":
    main()
