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
    """Nothing to draw with, nothing to read settings with, no cassettes."""
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
    }
    assert not modules & unwanted


async def test_help_and_mistakes_load_no_kernel(cli):
    """They answer at once."""
    for arguments in (["run", "--help"], ["run", "hi", "--modle"], ["demo", "--help"], ["sessions", "--help"]):
        modules = await loaded(cli, *arguments)
        assert not modules & {"hilum.kernel", "httpx", "sqlite3", "rich"}, arguments
