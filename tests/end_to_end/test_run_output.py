"""``hilum run`` for programs: every line of real runs against the JSON Schema, and the result line
in every case.
"""

import json
import os
import pty
import signal
from pathlib import Path

import jsonschema
import msgspec
import pytest
import trio
from hilum.messages import AssistantMessage, Text, ToolCall, Usage
from hilum_cli.output import ResultLine, encode
from hilum_cli.signals import early_result
from hilum_replay import Answer, Fault

pytestmark = pytest.mark.slow(cases=6, of="file")

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "output.schema.json").read_text())


def strict(schema):
    """The schema without the freedom that it leaves to later versions: what is not described is an
    error.
    """
    for definition in schema["$defs"].values():
        definition["additionalProperties"] = False
    return schema


VALIDATOR = jsonschema.Draft202012Validator(strict(json.loads(json.dumps(SCHEMA))))


def check(out):
    """Validate every line.

    Return the lines, and the result, which is the last one and the only one of its kind.
    """
    lines = [json.loads(line) for line in out.splitlines()]
    for line in lines:
        errors = [error.message for error in VALIDATOR.iter_errors(line)]
        if errors:
            (kind,) = (
                d
                for d in SCHEMA["$defs"].values()
                if line["type"] in d["properties"].get("type", {}).get("enum", ())
            )
            jsonschema.validate(
                line, kind | {"$defs": VALIDATOR.schema["$defs"], "additionalProperties": False}
            )
            raise AssertionError(errors)
    assert [line["type"] for line in lines].count("result") == 1
    assert lines[-1]["type"] == "result"
    return lines, lines[-1]


def of(lines, kind):
    """The lines of a type."""
    return [line for line in lines if line["type"] == kind]


def said(text, usage):
    """An answer that used so much."""
    return Answer(AssistantMessage((Text(text, "model"),)), usage)


FORMATS = pytest.mark.parametrize("format", ["json", "stream-json"])


@FORMATS
async def test_a_run_that_completes(cli, asks, format):
    """Both formats end with the same object: arguments, totals, changed files, exit code."""
    write = asks("write_file", path="a.txt", content="alpha\n")
    async with cli.model(
        Answer(write, Usage(input=100, output=5)), said("Done.", Usage(input=120, output=7))
    ):
        done = await cli("run", "write", "--approve", "auto", "--output-format", format)
    lines, result = check(done.out)
    assert len(lines) == 1 or format == "stream-json"
    assert (done.code, done.err) == (0, "")
    assert (result["state"], result["text"], result["turns"], result["exit_code"]) == (
        "completed",
        "Done.",
        2,
        0,
    )
    assert result["files_changed"] == ["a.txt"]
    assert result["calls"][0]["arguments"] == {"path": "a.txt", "content": "alpha\n"}
    assert result["usage"] == result["session_usage"]
    assert (result["usage"]["input"], result["usage"]["total"], result["session_runs"]) == (
        220,
        232,
        1,
    )
    if format == "stream-json":
        assert lines[0]["type"] == "session"
        (started,) = of(lines, "call_started")
        assert started["call"]["arguments"] == result["calls"][0]["arguments"]


async def test_the_prompt_is_named_and_repeated_only_where_it_is_asked_for(cli):
    """25 KB less in every stream."""
    async with cli.model("one", "two"):
        short = (await cli("run", "hi", "--output-format", "stream-json")).out
        long = (await cli("run", "hi", "--output-format", "stream-json", "--include-prompt")).out
    (named,), (whole,) = of(check(short)[0], "prompt_built"), of(check(long)[0], "prompt_built")
    assert len(short) < 12_000
    assert {layer["text"] for layer in named["layers"]} == {""}
    assert [layer["name"] for layer in named["layers"]] == [
        layer["name"] for layer in whole["layers"]
    ]
    assert sum(layer["characters"] for layer in named["layers"]) == sum(
        len(layer["text"]) for layer in whole["layers"]
    )
    assert all(tool["parameters"] and tool["description"] for tool in whole["tools"])


@FORMATS
async def test_a_failure(cli, format):
    """Error, hint and exit code."""
    async with cli.model("never", faults=[Fault(status=401)]):
        done = await cli("run", "hi", "--output-format", format)
    _, result = check(done.out)
    assert (done.code, result["exit_code"], result["state"], result["code"]) == (
        4,
        4,
        "failed",
        "E_LLM_AUTH",
    )
    assert result["error"]
    assert result["hint"]


@pytest.mark.slow(cases=4)
@FORMATS
@pytest.mark.parametrize(
    "arguments",
    [
        ["hi", "--bogus"],
        ["hi", "--set", "bogus=1"],
        ["hi", "--no-plugin", "nobody"],
        [],
        ["--resume"],
        ["hi", "-C", "/nowhere"],
    ],
)
async def test_wrong_usage_ends_with_a_result_too(cli, format, arguments):
    """For programs on standard output, for people on standard error."""
    done = await cli("run", *arguments, "--output-format", format)
    lines, result = check(done.out)
    assert len(lines) == 1
    assert (done.code, result["exit_code"], result["state"]) == (2, 2, "failed")
    assert result["code"]
    assert result["code"] in done.err


@FORMATS
async def test_arguments_that_are_not_an_object(cli, format):
    """Broken JSON and another type keep their text; what is nested too deeply is not kept.

    The session stays readable.
    """
    texts = ["{broken", "[1]", '{"path": ' + "[" * 5000 + "]" * 5000 + "}"]
    calls = tuple(ToolCall(f"c{number}", "read_file", text) for number, text in enumerate(texts))
    async with cli.model(AssistantMessage(calls, stop="calls"), "Sorry."):
        done = await cli("run", "hi", "--output-format", format)
    lines, result = check(done.out)
    kept = ["{broken", "[1]", ""]
    assert [call["invalid_arguments"] for call in result["calls"]] == kept
    assert {json.dumps(call["arguments"]) for call in result["calls"]} == {"{}"}
    if format == "stream-json":
        assert [
            call["invalid_arguments"] for call in of(lines, "model_answered")[0]["calls"]
        ] == kept


@FORMATS
async def test_everything_denied_is_not_a_success(cli, asks, format):
    """Exit code 3, and the option that lets calls run."""
    async with cli.model(asks("write_file", path="x.txt", content="x"), "I could not."):
        done = await cli("run", "write", "--output-format", format)
    _, result = check(done.out)
    assert (done.code, result["exit_code"], result["state"], result["code"]) == (
        3,
        3,
        "partial_success",
        "E_DENIED",
    )
    assert "--approve auto" in result["hint"]
    assert (result["denied"], result["text"]) == (1, "I could not.")


async def test_everything_denied_is_said_to_people(cli, asks):
    """On standard error."""
    async with cli.model(asks("write_file", path="x.txt", content="x"), "I could not."):
        done = await cli("run", "write")
    assert done.code == 3
    assert "--approve auto" in done.err
    assert done.out == "I could not.\n"


async def test_a_sub_agent(cli, asks):
    """Its lines, its part of the usage, its summary."""
    task = asks("task", description="look around here", prompt="Say hi.", readonly=True)
    used = Usage(input=100, output=10)
    async with cli.model(Answer(task, used), said("Hi from below.", used), said("Done.", used)):
        done = await cli("run", "delegate", "--output-format", "stream-json")
    lines, result = check(done.out)
    assert (done.code, result["text"], result["usage"]["input"]) == (0, "Done.", 300)
    assert result["usage"] == result["session_usage"]
    assert [agent["text"] for agent in result["agents"]] == ["Hi from below."]
    assert len({line["agent"] for line in of(lines, "run_started")}) == 2


async def test_a_resumed_session_counts_all_its_runs(cli):
    """Usage of the run, and of the session."""
    used = Usage(input=100, output=10)
    async with cli.model(said("one", used), said("two", used)):
        await cli("run", "first", "--output-format", "json")
        done = await cli("run", "--resume", "second", "--output-format", "stream-json")
        lines, result = check(done.out)
        people = await cli("sessions", "list")
        shown = await cli("sessions", "show", result["session"])
    assert lines[0]["resumed"] is True
    assert (result["usage"]["input"], result["session_usage"]["input"], result["session_runs"]) == (
        100,
        200,
        2,
    )
    assert "220" in people.out
    assert "200 in, 20 out" in shown.out


async def test_a_plugin_that_does_not_load_is_in_the_output(cli):
    """As a fault of the result."""
    folder = cli.folder / "plugins"
    folder.mkdir()
    (folder / "hilum_broken.py").write_text("import nothing_of_that_name\n")
    info = folder / "hilum_broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hilum-broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[hilum]\nbroken = hilum_broken\n")
    async with cli.model("one", "two"):
        done = await cli("run", "hi", "--output-format", "json", PYTHONPATH=str(folder))
        people = await cli("run", "hi", PYTHONPATH=str(folder))
    (fault,) = check(done.out)[1]["faults"]
    assert (fault["plugin"], fault["hook"]) == ("broken", "load")
    assert "nothing_of_that_name" in fault["error"]
    assert "broken" in people.err


@FORMATS
async def test_a_run_that_a_signal_stops(cli, asks, wait_until, format):
    """The result says so, with the exit code of the signal."""
    async with (
        cli.model(asks("run_terminal_cmd", command="touch begun; sleep 1000")),
        cli.started("run", "go", "--approve", "auto", "--output-format", format) as process,
    ):
        await wait_until((cli.workspace / "begun").exists)
        process.send_signal(signal.SIGTERM)
        out = b"".join([piece async for piece in process.stdout]).decode()
        assert await process.wait() == 143
    _, result = check(out)
    assert (result["state"], result["code"], result["exit_code"]) == ("stopped", "E_STOPPED", 143)
    assert result["session"]


async def test_approvals_of_a_user_at_a_terminal(cli, asks):
    """Asked on standard error, which is a terminal; lines on standard output, which is none."""
    ours, theirs = pty.openpty()
    async with cli.model(asks("write_file", path="x.txt", content="x"), "Done."):
        process = await trio.lowlevel.open_process(
            cli.argv("run", "write", "--output-format", "stream-json"),
            stdin=theirs,
            stderr=theirs,
            stdout=-1,
            cwd=cli.workspace,
            env=cli.env,
        )
        os.close(theirs)
        out = b""
        with trio.fail_after(60):
            async for piece in process.stdout:
                if b'"approval_asked"' in piece:
                    seen = b""
                    while b"Run it?" not in seen:
                        await trio.lowlevel.wait_readable(ours)
                        seen += os.read(ours, 4096)
                    os.write(ours, b"y\n")
                out += piece
            code = await process.wait()
        await process.stdout.aclose()
        os.close(ours)
    lines, result = check(out.decode())
    assert (code, result["state"], result["kind"]) == (0, "completed", "main")
    (asked,), (answered,) = of(lines, "approval_asked"), of(lines, "approval_answered")
    assert (asked["call"]["arguments"]["path"], answered["accepted"], answered["by"]) == (
        "x.txt",
        True,
        "user",
    )


def test_the_result_of_a_signal_before_the_run_is_what_the_class_encodes_to():
    """It is spelled out in the handler, because nothing can be imported there."""
    line = ResultLine(
        state="stopped",
        code="E_STOPPED",
        error="The run was stopped before it began.",
        exit_code=143,
    )
    assert early_result(15) == encode(line)
    assert msgspec.json.decode(early_result(2))["exit_code"] == 130


async def test_escapes_of_the_model_are_not_passed_on_through_a_pipe(cli):
    """``hilum run … | tee`` ends at a terminal. --raw passes them on.

    Emoji and the like stay as they are.
    """
    answer = AssistantMessage(
        (Text("\x1b]0;gotcha\x07\x1b[31mred\x1b[0m 👩\u200d💻\x9b5n", "model"),)
    )
    async with cli.model(answer, answer, answer):
        plain = await cli("run", "hi")
        raw = await cli("run", "hi", "--raw")
        lines = await cli("run", "hi", "--output-format", "json")
    assert plain.out == "\\x1b]0;gotcha\\x07red 👩\u200d💻\\x9b5n\n"
    assert raw.out == answer.text + "\n"
    assert "\x9b" not in lines.out
    assert check(lines.out)[1]["text"] == answer.text
