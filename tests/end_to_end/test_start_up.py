"""What ``hilum run`` loads before its first request.

``benchmarks/first_request.py`` measures how long that takes.
"""

import sys
from pathlib import Path

import pytest
import trio

RUNS = """
import sys
from hilum import session
# What is imported while the model works does not count.
session.REQUEST_SECONDS = 1_000
from hilum.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


async def loaded(cli, *arguments, code=""):
    """The modules that a command imports."""
    begin = ["-c", code] if code else ["-m", "hilum"]
    done = await trio.run_process(
        [sys.executable, "-X", "importtime", *begin, *arguments],
        stdin=b"",
        capture_stdout=True,
        capture_stderr=True,
        check=False,
        cwd=cli.workspace,
        env=cli.env,
    )
    return {
        line.rpartition("|")[2].strip()
        for line in done.stderr.decode().splitlines()
        if "import time:" in line
    }


async def test_a_run_loads_only_what_it_uses(cli):
    """Nothing to draw with, nothing to read files with that are not there, no cassettes, no judge
    before the first call.
    """
    async with cli.model("Done."):
        del cli.env["HILUM_MODEL"]
        modules = await loaded(cli, "run", "hi", "--model", "openai/scripted", code=RUNS)
    assert "httpx" in modules
    unwanted = {
        "rich",
        "rich.console",
        "cattrs",
        "tomllib",
        "hilum_cli.live",
        "hilum_cli.sessions",
        "hilum_replay.cassette_reader",
        "yaml",
        "hilum.frontmatter.reader",
        "hilum_agents.definitions",
        "hilum_guard.sandbox.environment",
        "hilum_guard.gate",
        "hilum_guard.sandbox.landlock",
        "hilum_guard.rules.matching",
        "hilum_rules.loading",
        "hilum_search.mentions",
        "importlib.metadata",
    }
    found = sorted(modules & unwanted)
    assert not found


async def test_help_and_mistakes_load_no_kernel(cli):
    """They answer at once."""
    for arguments in (
        ["run", "--help"],
        ["run", "hi", "--modle"],
        ["demo", "--help"],
        ["sessions", "--help"],
    ):
        modules = await loaded(cli, *arguments)
        assert not modules & {"hilum.kernel", "httpx", "sqlite3", "rich"}, arguments


async def test_agents_are_read_when_somebody_wrote_one(cli):
    """What is wrong with them is told at the first prompt, whatever it says."""
    folder = cli.workspace / ".claude" / "agents"
    folder.mkdir(parents=True)
    (folder / "odd.md").write_text("No front matter.")
    async with cli.model("Done."):
        done = await cli("run", "hi", "--output-format", "stream-json")
    assert [line["name"] for line in done.lines if line.get("name", "").startswith("agents.")] == [
        "agents.problems"
    ]


WITH_LOADER = """
import sys
sys.argv = ["-m", "run", "hi"]
from hilum.__main__ import main
code = main(sys.argv[1:])
print(type(sys.modules["httpx"].__spec__.loader).__name__, code)
"""


async def test_a_run_leaves_an_archive_of_its_modules_for_the_next_one(cli):
    cli.env.pop("PYTHONDONTWRITEBYTECODE", None)
    for _ in range(2):
        async with cli.model("Done."):
            done = await trio.run_process(
                [sys.executable, "-P", "-c", WITH_LOADER],
                stdin=b"",
                capture_stdout=True,
                capture_stderr=True,
                check=False,
                cwd=cli.workspace,
                env=cli.env,
            )
    assert done.stdout.split()[-2:] == [b"_ArchiveLoader", b"0"], done.stderr


LATE_MODULES = """
import sys
from hilum import session
# What is imported while the model works does not count.
session.REQUEST_SECONDS = 1_000
sys.argv = ["-m", "run", "hi"]
from hilum.__main__ import main
code = main(sys.argv[1:])
print([name for name in ("difflib", "html", "hilum_files.edits") if name in sys.modules], code)
"""


async def test_a_run_without_calls_does_not_import_what_only_later_work_needs(cli):
    """Each of these modules would delay the first request by a millisecond or more."""
    async with cli.model("Done."):
        done = await trio.run_process(
            [sys.executable, "-P", "-c", LATE_MODULES],
            stdin=b"",
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            cwd=cli.workspace,
            env=cli.env,
        )
    assert done.stdout.splitlines()[-1] == b"[] 0", done.stderr


INTERRUPTS_ITSELF = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["INTERRUPTED_AT"]:
            os.kill(os.getpid(), signal.SIGINT)
            for number in range(100_000):
                pass
sys.meta_path.insert(0, Finder())
"""


@pytest.mark.parametrize("module", ["hilum.__main__", "hilum.discovery", "hilum_cli.signals"])
@pytest.mark.parametrize("start", ["module", "script"])
async def test_an_interrupt_while_hilum_starts_ends_it_without_a_traceback(cli, module, start):
    """From the first line of hilum's own on; before it, Python's own handler is there."""
    (cli.folder / "early").mkdir()
    (cli.folder / "early" / "sitecustomize.py").write_text(INTERRUPTS_ITSELF)
    script = Path(sys.executable).with_name("hilum")
    begin = [sys.executable, "-m", "hilum"] if start == "module" else [script]
    done = await trio.run_process(
        [*begin, "run", "hi"],
        capture_stdout=True,
        capture_stderr=True,
        check=False,
        cwd=cli.workspace,
        env=cli.env | {"PYTHONPATH": str(cli.folder / "early"), "INTERRUPTED_AT": module},
    )
    assert done.returncode in (-2, 130)
    assert b"Traceback" not in done.stderr
    assert b"KeyboardInterrupt" not in done.stderr


async def test_a_program_that_uses_hilum_keeps_its_handler():
    """An interrupt there is its own business."""
    code = "import signal, hilum, hilum.__main__; print(signal.getsignal(2) is signal.default_int_handler)"
    done = await trio.run_process([sys.executable, "-c", code], capture_stdout=True)
    assert done.stdout == b"True\n"


async def test_listing_sessions_loads_no_other_plugin_than_the_store(cli):
    """The tools, models and gates of the others are of no use to it."""
    modules = await loaded(cli, "sessions", "list")
    assert "hilum_store.store" in modules
    unwanted = {"hilum_browser.tool", "hilum_files", "hilum_guard", "hilum_models.settings"}
    found = sorted(modules & unwanted)
    assert not found


async def test_a_store_of_another_distribution_is_listed(cli):
    """Where a plugin of others is installed, all plugins load: it may need any of them."""
    folder = cli.folder / "plugins"
    info = folder / "hilum_shelf-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hilum-shelf\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[hilum]\nshelf = hilum_shelf\n")
    (folder / "hilum_shelf.py").write_text(
        "from hilum import hookimpl\n"
        "from hilum.store import SessionInfo\n"
        "from hilum_store import SqliteStore, database_path\n"
        "class Shelf(SqliteStore):\n"
        "    async def list(self, workspace=''):\n"
        "        return [SessionInfo(id='shelved', title='From the shelf', workspace=workspace)]\n"
        "    async def read(self, session, after=0, limit=1000):\n"
        "        return []\n"
        "@hookimpl(tryfirst=True)\n"
        "def provide_store(kernel):\n"
        "    return Shelf(database_path(''))\n"
    )
    done = await cli("sessions", "list", PYTHONPATH=str(folder))
    assert "From the shelf" in done.out, done.err
