"""What ``hilum run`` loads before its first request; ``benchmarks/first_request.py`` measures how long that takes."""

import sys

import trio


async def loaded(cli, *arguments):
    """The modules that a command imports."""
    done = await trio.run_process(
        [sys.executable, "-X", "importtime", "-m", "hilum", *arguments],
        stdin=b"",
        capture_stdout=True,
        capture_stderr=True,
        check=False,
        cwd=cli.workspace,
        env=cli.env,
    )
    return {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines() if "import time:" in line}


async def test_a_run_loads_only_what_it_uses(cli):
    """Nothing to draw with, nothing to read files with that are not there, no cassettes, no judge before the first call."""
    async with cli.model("Done."):
        del cli.env["HILUM_MODEL"]
        modules = await loaded(cli, "run", "hi", "--model", "openai/scripted")
    assert "httpx" in modules
    unwanted = {
        "rich",
        "rich.console",
        "cattrs",
        "tomllib",
        "hilum_cli.live",
        "hilum_cli.sessions",
        "hilum_replay.format",
        "yaml",
        "hilum_frontmatter.reading",
        "hilum_agents.definitions",
        "hilum_guard.environment",
        "hilum_guard.gate",
        "hilum_guard.landlock",
        "hilum_guard.rules",
        "hilum_rules.loading",
        "hilum_search.engine.patterns",
        "importlib.metadata",
    }
    found = sorted(modules & unwanted)
    assert not found


async def test_help_and_mistakes_load_no_kernel(cli):
    """They answer at once."""
    for arguments in (["run", "--help"], ["run", "hi", "--modle"], ["demo", "--help"], ["sessions", "--help"]):
        modules = await loaded(cli, *arguments)
        assert not modules & {"hilum.kernel", "httpx", "sqlite3", "rich"}, arguments


async def test_agents_are_read_when_somebody_wrote_one(cli):
    """What is wrong with them is told at the first prompt, whatever it says."""
    folder = cli.workspace / ".claude" / "agents"
    folder.mkdir(parents=True)
    (folder / "odd.md").write_text("No front matter.")
    async with cli.model("Done."):
        done = await cli("run", "hi", "--output-format", "stream-json")
    assert [line["name"] for line in done.lines if line.get("name", "").startswith("agents.")] == ["agents.problems"]
