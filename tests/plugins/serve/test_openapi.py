"""The OpenAPI document is true: schemathesis finds no answer that it does not describe.

Schemathesis sends what the document allows and what it forbids, to a real server with a real
session. Usually a sample; ``--all`` sends many more, and sequences of requests.
"""

import json
import os
import shutil
import subprocess
import sys

import msgspec
import pytest
import trio
from api_calls import check, open_api
from hilum.testing import use
from hilum_serve import door
from hilum_serve.api import load_operations
from hilum_serve.openapi import make_document
from hilum_serve.operations import OPERATIONS
from hilum_serve.settings import ServeSettings
from served import serving

load_operations()
PARTS = 9
# Tests also run in an environment that is not activated.
_PATH = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
SCHEMATHESIS = shutil.which("schemathesis", path=_PATH)
CONFIG = """
[parameters]
"path.session" = "{session}"
"path.run" = "{run}"
"path.call" = "{call}"

[checks]
# A missing Hilum-Seen has a status of its own, and so has an address that is too long.
missing_required_header.expected-statuses = [400, 401, 403, 428]
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 409, 413, 415, 428, 431]

[[operations]]
include-name = "POST /api/sessions/{{session}}/prompts"
# No document can say which bytes are an image, or that a text must be more than white space.
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 401, 403, 404, 409]

[[operations]]
include-name = "POST /api/sessions/{{session}}/steering"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 401, 403, 404, 409]
"""
# Which numbers a session has reached is not part of the document: a valid one becomes 0.
HOOKS = """
import schemathesis

@schemathesis.hook
def before_call(context, case, kwargs):
    seen = case.headers.get("Hilum-Seen") if case.headers else None
    if seen is not None and str(seen).isdecimal() and int(seen) < 2**53:
        case.headers["Hilum-Seen"] = "0"
    after = case.query.get("after") if case.query else None
    if after is not None and str(after).isdecimal() and int(after) < 2**53:
        case.query["after"] = 0
"""


def test_each_operation_has_a_name_a_summary_and_described_fields():
    document = json.loads(msgspec.json.encode(make_document(OPERATIONS), enc_hook=str))
    names = []
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            names.append(described["operationId"])
            assert described["summary"], (method, path)
            for parameter in described["parameters"]:
                assert parameter["schema"], (method, path, parameter)
            assert "401" in described["responses"]
    assert len(names) == len(set(names)) == len(OPERATIONS)
    for name, schema in document["components"]["schemas"].items():
        assert schema.get("description") or schema.get("title"), name


needs_schemathesis = pytest.mark.skipif(
    SCHEMATHESIS is None, reason="needs schemathesis: pip install schemathesis"
)


@needs_schemathesis
async def test_schemathesis_finds_nothing(project, tmp_path, monkeypatch):
    """A sample of requests for each operation."""
    names = [operation.handler.__name__ for operation in OPERATIONS]
    # One process for all operations: each further one would take five seconds to get started.
    options = ["--max-examples=1", "--phases=examples,coverage,fuzzing", "--seed=1"]
    await examine(project, tmp_path, monkeypatch, names, options)


@needs_schemathesis
@pytest.mark.slow(cases=0)
@pytest.mark.parametrize("part", range(PARTS))
async def test_schemathesis_finds_nothing_in_many_requests(project, tmp_path, monkeypatch, part):
    """Fifty requests for each operation, and sequences of them."""
    names = [operation.handler.__name__ for operation in OPERATIONS]
    await examine(project, tmp_path, monkeypatch, names[part::PARTS], ["--max-examples=50"])


async def examine(project, tmp_path, monkeypatch, names, options):
    """Run schemathesis on some operations of a real server."""
    # Requests without a token are a part of the checks, and must not look like guessing here.
    monkeypatch.setattr(door, "MAX_FAILURES", 10**9)
    monkeypatch.setattr(door, "FAILURE_DELAY", 0.0)
    answers = [
        use("write_file", path="a.txt", content="a\n"),
        use("read_file", path="missing.txt"),
        "Done.",
    ]
    settings = ServeSettings(requests_per_minute=10**9)
    async with (
        serving(project, answers=answers, settings=settings) as served,
        open_api(served, project, approve="auto") as api,
    ):
        run = await api.run("Go.")
        entries = (await api.get("/entries"))["entries"]
        failed = [entry for entry in entries if entry.get("state") == "failed"]
        config = tmp_path / "schemathesis.toml"
        call = failed[0]["call"]["id"]
        config.write_text(CONFIG.format(session=api.session, run=run["id"], call=call))
        (tmp_path / "seen_hooks.py").write_text(HOOKS)
        command = [
            SCHEMATHESIS,
            f"--config-file={config}",
            "run",
            f"{served.url}/openapi.json",
            "--checks=all",
            "--no-color",
            f"--header=Authorization: Bearer {served.token}",
            *options,
        ]
        environ = {**os.environ, "SCHEMATHESIS_HOOKS": "seen_hooks"}
        with trio.fail_after(110):
            done = await trio.run_process(
                [*command, *(f"--include-operation-id={name}" for name in names)],
                check=False,
                capture_stdout=True,
                stderr=subprocess.STDOUT,
                cwd=tmp_path,
                env=environ,
            )
        if done.returncode:
            lines = [line[:300] for line in done.stdout.decode().splitlines()]
            pytest.fail("\n".join(lines[-200:]))
        # The server and its sessions still work.
        check(await api.client.get("/api/me"))
        assert (await api.get())["id"] == api.session
