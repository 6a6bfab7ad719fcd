"""What the prompt costs in tokens, with everything installed.

Layers and tools of agent mode are counted, and a session of ten tools.

    uv run --group bench python tests/benchmarks/prompt_cost.py [--texts] [--limit 3500]

Counts with the vocabulary o200k (the group ``bench`` installs it). The session runs in a Git
repository with a home of its own and all plugins; a scripted model calls ten tools, one a turn, and
the input of all requests is added up: what a provider without a prefix cache would bill.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import hilum
import trio
from bpe_openai import get_encoding
from hilum.testing import ModelProvider, ScriptedModel, plugin, use

ENCODING = get_encoding("o200k_base")
CALLS = [
    use("list_directory"),
    use("read_file", path="app.py"),
    use("search_files", pattern="def"),
    use("glob_search", pattern="*.py"),
    use("edit_file", path="app.py", old_string="return 1", new_string="return 2"),
    use("write_file", path="new.py", content="x = 1\n"),
    use("run_terminal_cmd", command="python3 app.py"),
    use("read_lints", paths=["app.py"]),
    use("todo_write", todos=[{"id": "1", "content": "Do it", "status": "in_progress"}]),
    use("delete_file", path="new.py"),
]


def tokens(text: str) -> int:
    """Return how many tokens a text has."""
    return len(ENCODING.encode(text))


def tool_text(spec: hilum.ToolSpec) -> str:
    """Return a tool as chat completions send it."""
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return json.dumps(
        {"type": "function", "function": function}, ensure_ascii=False, separators=(",", ":")
    )


async def measure(folder: Path, texts: bool) -> tuple[int, int]:
    """Run the session; print each part's tokens.

    Returns:
        The tokens of layers and tools of the first request, and of all requests together.
    """
    model = ScriptedModel([*CALLS, "Done."])
    provider = plugin("scripted", provide_models=lambda: [ModelProvider({"model": model})])
    installed = list(hilum.discovery.entry_points("hilum"))
    settings = {"model": "scripted/model", "approve": "auto"}
    async with (
        hilum.open_kernel([*installed, provider], settings=settings, workspace=folder) as kernel,
        kernel.open_session(folder) as session,
    ):
        result = await session.run("Change app.py so that it returns 2, and check it.")
        assert result.state == "completed", result
    first = model.requests[0]
    prompt = 0
    for layer in first.layers:
        count = tokens(layer.text)
        prompt += count
        print(f"  layer {layer.name:18} {count:5}")
        if texts:
            print(layer.text)
    for spec in first.tools:
        count = tokens(tool_text(spec))
        prompt += count
        print(f"  tool  {spec.name:18} {count:5}")
        if texts:
            print(tool_text(spec))
    total = sum(tokens(request.body.decode()) for request in model.requests)
    return prompt, total


def main() -> int:
    """Measure, print, and compare with the limit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", action="store_true", help="print the texts, too")
    parser.add_argument(
        "--limit", type=int, default=3500, help="most tokens of layers and tools (default 3500)"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as base:
        os.environ["HOME"] = base
        for name in [name for name in os.environ if name.startswith(("XDG_", "HILUM_"))]:
            del os.environ[name]
        folder = Path(base, "project")
        folder.mkdir()
        (folder / "app.py").write_text("def one():\n    return 1\n\n\nprint(one())\n")
        for command in (
            ["init", "-q", "-b", "main"],
            ["add", "."],
            ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "one"],
        ):
            subprocess.run(["git", *command], cwd=folder, check=True)
        prompt, total = trio.run(measure, folder, options.texts)
    print(f"prompt and tools: {prompt} tokens (limit {options.limit})")
    print(f"session of {len(CALLS)} tools: {total} tokens of input in {len(CALLS) + 1} requests")
    return 0 if prompt <= options.limit else 1


if __name__ == "__main__":
    sys.exit(main())
