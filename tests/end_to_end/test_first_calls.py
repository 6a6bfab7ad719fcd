"""The first call of a tool waits for no import: hilum imports while the model works on the request."""

import sys
from subprocess import PIPE

import pytest
import trio

from .conftest import LIMIT, call

TELLS = """
import os
import sys
from hilum import late_imports
from hilum_models.http_client import HttpClient

known = set()
at_request = set()
run = late_imports.LateImports.run
send = HttpClient.send

async def run_and_tell(self):
    await run(self)
    known.update(sys.modules)
    os.write(1, b"imported\\n")

def send_and_look(self, *arguments):
    at_request.clear()
    at_request.update(sys.modules)
    return send(self, *arguments)

late_imports.LateImports.run = run_and_tell
HttpClient.send = send_and_look
sys.argv = ["-m", "run", "Work.", "--approve", "auto"]
from hilum.__main__ import main
code = main(sys.argv[1:])
own = {name for name in at_request - known if name.startswith("hilum")}
# The index works in the background, whatever the model does.
late = sorted(name for name in own if not name.startswith("hilum_semantic_search"))
print(f"late: {late}, code: {code}")
"""
ENFORCED = "# Rules\n\n- Never run `git push`.\n- Never edit `poetry.lock`.\n"


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("rules", ["", ENFORCED])
async def test_the_first_calls_import_nothing(cli, rules):
    """Neither what judges them nor what runs them and checks their results."""
    (cli.workspace / "a.py").write_text("x = 1\n")
    if rules:
        (cli.workspace / "AGENTS.md").write_text(rules)
    imported = trio.Event()

    async def read_when_imported():
        await imported.wait()
        return call("read_file", path="a.py")

    answers = [
        read_when_imported,
        call("edit_file", path="a.py", old_string="x = 1", new_string="x = 2", id="c2"),
        call("run_terminal_cmd", command="ls && echo done", id="c3"),
        call("search_files", pattern="x", id="c4"),
        "Done.",
    ]
    async with cli.model(*answers), trio.open_nursery() as nursery:
        with trio.fail_after(LIMIT):
            process = await trio.lowlevel.open_process(
                [sys.executable, "-P", "-c", TELLS], stdout=PIPE, cwd=cli.workspace, env=cli.env
            )
            nursery.start_soon(process.wait)
            output = b""
            async for piece in process.stdout:
                output += piece
                if b"imported\n" in output:
                    imported.set()
    assert output.splitlines()[-1] == b"late: [], code: 0", output
