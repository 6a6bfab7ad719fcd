"""Bad input: one clear message that says what to do, the right exit code, and never a traceback."""

import json
import os

import pytest
from hilum_replay import Fault

BAD = [
    (["run"], 2, "E_BAD_ARGS", "hilum run"),
    (["run", "hi", "--modle", "x"], 2, "E_BAD_ARGS", "--model"),
    (["run", "hi", "--approve", "maybe"], 2, "E_BAD_ARGS", "readonly"),
    (["run", "hi", "--model", "gpt"], 2, "E_UNKNOWN", "openai/gpt"),
    (["run", "hi", "--model", "opneai/gpt"], 2, "E_UNKNOWN", "openai"),
    (["run", "hi", "--mode", "agnet"], 2, "E_UNKNOWN", "agent"),
    (["run", "hi", "--plugins", "filse"], 2, "E_UNKNOWN", "files"),
    (["run", "hi", "--no-plugin", "filse"], 2, "E_UNKNOWN", "files"),
    (["run", "hi", "--set", "turns"], 2, "E_SETTINGS", "key=value"),
    (["run", "hi", "--set", "trns=3"], 2, "E_SETTINGS", "turns"),
    (["run", "hi", "--set", "turns=many"], 2, "E_SETTINGS", "whole number"),
    (["run", "hi", "--set", f"turns={'9' * 5000}"], 2, "E_SETTINGS", "whole number"),
    (["run", "hi", "--workspace", "nowhere"], 2, "E_UNKNOWN", "nowhere"),
    # No user has this name, so the path has no home folder.
    (["run", "hi", "--workspace", "~no-such-user/x"], 2, "E_UNKNOWN", "does not exist"),
    (["run", "hi", "--state", "~no-such-user/x"], 2, "E_BAD_ARGS", "cannot be read"),
    (["plugins", "list", "-C", "~no-such-user/x"], 2, "", "is not a folder"),
    (["rules", "list", "-C", "~no-such-user/x"], 2, "", "folder"),
    (["run", "hi", "--resume", "1234"], 2, "E_UNKNOWN", "hilum sessions"),
    (["run", "hi", "--cassette", "none.toml"], 2, "E_FILE_NOT_FOUND", "--record"),
    (["run", "hi", "--cassette", "x", "--model", "a/b"], 2, "E_BAD_ARGS", "--cassette"),
    (["run", "hi", "--record", "nowhere/x.toml"], 2, "E_UNKNOWN", "cannot be written"),
    (["sessions", "shwo"], 2, "E_BAD_ARGS", "show"),
    (["sessions", "show", "1234"], 2, "E_UNKNOWN", "hilum sessions list"),
    (["sessions", "delete", "1234", "--yes"], 2, "E_UNKNOWN", "hilum sessions list"),
    (["sessions", "list", "-C", "nowhere"], 0, "", "There are no sessions"),
    (["config", "trns"], 2, "E_UNKNOWN", "turns"),
    (["config", "--jsn"], 2, "E_BAD_ARGS", "--json"),
    (["plugins", "frobnicate"], 2, "E_BAD_ARGS", "unblock"),
    (["plugins", "block", "filse"], 2, "E_UNKNOWN", "files"),
    (["plugins", "block"], 2, "E_BAD_ARGS", "block NAME"),
    (["rnu", "hi"], 2, "", "run"),
    (["demo", "--frob"], 2, "E_BAD_ARGS", "--help"),
]


@pytest.mark.slow(cases=4)
@pytest.mark.parametrize(
    ("arguments", "code", "error", "word"),
    BAD,
    ids=lambda v: " ".join(v) if isinstance(v, list) else None,
)
async def test_a_mistake_is_named_with_what_to_do(cli, arguments, code, error, word):
    """On standard error, in one message; nothing is left in the store."""
    async with cli.model("never"):
        done = await cli(*arguments)
    assert done.code == code, done
    assert error in done.err
    assert word in done.err + (done.out if code == 0 else "")
    if code:
        assert done.out == ""
        assert done.err.count("hilum: ") == 1, done.err
        assert (await cli("sessions", "list", "--all", "--json")).out == "[]\n"


@pytest.mark.slow(cases=3)
@pytest.mark.parametrize("format", ["json", "stream-json"])
@pytest.mark.parametrize(
    "arguments", [["--modle"], ["--model", "gpt"], ["--set", "turns=x"]], ids=lambda a: a[0]
)
async def test_in_json_formats_errors_are_json(cli, format, arguments):
    """On standard output, with code, message and hint; and for people on standard error."""
    done = await cli("run", "hi", "--output-format", format, *arguments)
    assert done.code == 2
    (line,) = done.lines
    assert line["type"] == "result"
    assert line["code"].startswith("E_")
    assert line["hint"]
    assert line["code"] in done.err
    assert "Traceback" not in done.err


async def test_all_mistakes_in_the_settings_are_reported_at_once(cli):
    """In the user's file, in the project's, in the environment, and on the command line."""
    cli.write_settings('turns = "x"\n[shell]\ntimeot = 5\n')
    (cli.workspace / ".hilum").mkdir()
    (cli.workspace / ".hilum" / "settings.toml").write_text('approve = "auto"\n')
    for arguments in (["run", "hi"], ["config"]):
        done = await cli(*arguments, HILUM_FILES_READ_LIMIT="much")
        assert done.code == 2
        for part in (
            "4 mistakes",
            "turns",
            "timeout",
            "only the user may set this",
            "HILUM_FILES_READ_LIMIT",
        ):
            assert part in done.err
    assert (await cli("plugins")).code == 0


async def test_settings_that_are_no_toml_name_the_place(cli):
    """File and line."""
    cli.write_settings("turns = \n")
    done = await cli("config")
    assert done.code == 2
    assert str(cli.settings) in done.err
    assert "line 1" in done.err
    blocked = await cli("plugins", "block", "files")
    assert blocked.code == 2
    assert "by hand" in blocked.err
    assert cli.settings.read_text() == "turns = \n"


async def test_arguments_and_input_that_are_not_text(cli):
    """UTF-8 is asked for, and the place named."""
    async with cli.model("never"):
        argument = await cli("run", b"gr\xfc\xdfe")
        piped = await cli("run", "read this", stdin=b"ab\xff")
        folder = await cli("run", "hi", "-C", b"x\xff")
    assert [argument.code, piped.code, folder.code] == [2, 2, 2]
    assert "gr\\xfc\\xdfe is not UTF-8" in argument.err
    assert "Standard input is not UTF-8 text (byte 2)" in piped.err
    assert "iconv" in piped.err
    assert "not UTF-8" in folder.err


async def test_the_whole_file_system_is_no_workspace(cli):
    """In every face; commands there could change what all other programs execute."""
    async with cli.model("never"):
        run = await cli("run", "hi", "-C", "/", "--approve", "auto")
        served = await cli("serve", "-C", "/", "--port", "0")
        for_agents = await cli("mcp", "serve", "-C", "/", stdin=b"")
    assert [run.code, served.code, for_agents.code] == [2, 2, 2]
    for done in (run, served, for_agents):
        assert "E_BAD_ARGS" in done.err
        assert "'/' is the whole file system" in done.err


async def test_a_file_that_is_not_text_is_told_to_the_model(cli, asks):
    """The run goes on."""
    (cli.workspace / "x.txt").write_bytes(b"\xff\xfe\x00\x01")
    async with cli.model(asks("read_file", path="x.txt"), "It is binary."):
        done = await cli("run", "read", "--output-format", "json")
    assert (done.code, done.result["text"]) == (0, "It is binary.")
    assert done.result["calls"][0]["state"] == "failed"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
async def test_a_workspace_that_cannot_be_written_is_told_to_the_model(cli, asks):
    """Reading works; the tool says why it could not write."""
    cli.workspace.chmod(0o500)
    async with cli.model(asks("write_file", path="x.txt", content="x"), "I cannot."):
        done = await cli("run", "write", "--approve", "auto", "--output-format", "json")
    cli.workspace.chmod(0o700)
    assert done.result["calls"][0]["state"] == "failed"


async def test_a_store_that_cannot_be_made_is_exit_code_5(cli):
    """The data folder is a file."""
    (cli.folder / "data").write_text("")
    async with cli.model("never"):
        done = await cli("run", "hi")
    assert done.code == 5, done
    assert "E_STORE" in done.err


async def test_a_session_in_use_is_exit_code_5(cli, wait_until):
    """The message says who has it."""
    async with (
        cli.model("never", faults=[Fault(delay=60)]) as server,
        cli.started("run", "go") as process,
    ):
        await wait_until(lambda: server.count)
        done = await cli("run", "--resume", "more")
        process.terminate()
        await process.wait()
    assert done.code == 5
    assert "E_BUSY" in done.err


async def test_a_recording_never_overwrites_something_else(cli):
    """Only what is a cassette is recorded anew."""
    (cli.workspace / "precious.txt").write_text("my notes")
    async with cli.model("never"):
        done = await cli("run", "hi", "--record", "precious.txt")
    assert done.code == 2
    assert (cli.workspace / "precious.txt").read_text() == "my notes"


def broken_plugins(folder):
    """Four distributions whose plugins break in four ways at import."""
    texts = {
        "raises": "1 / 0",
        "leaves": "raise SystemExit(3)",
        "misses": "import no_such_module",
        "prints": "print(7)",
    }
    for name, text in texts.items():
        (folder / f"hilum_{name}.py").write_text(text)
        info = folder / f"hilum_{name}-1.0.dist-info"
        info.mkdir()
        (info / "entry_points.txt").write_text(
            f"[hilum]\n{name} = hilum_{name}\n[hilum.commands]\n{name} = hilum_{name}:main\n"
        )
    return str(folder)


async def test_broken_plugins_are_rows_and_stop_nothing(cli, tmp_path):
    """hilum plugins shows them with the reason, a run goes on without them, and a broken command
    says whose it is.
    """
    folder = tmp_path / "site"
    folder.mkdir()
    path = broken_plugins(folder)
    done = await cli("plugins", "--json", PYTHONPATH=path)
    rows = {row["name"]: row for row in json.loads(done.out)}
    assert done.code == 0
    assert {name: rows[name]["state"] for name in ("raises", "leaves", "misses", "prints", "files")} == {
        "raises": "failed", "leaves": "failed", "misses": "failed", "prints": "ready", "files": "ready",
    }  # fmt: skip
    assert "ZeroDivisionError" in rows["raises"]["error"]
    assert "no_such_module" in rows["misses"]["error"]
    shown = await cli("plugins", "show", "raises", "files", PYTHONPATH=path)
    assert "read_file (read)" in shown.out
    async with cli.model("Still here."):
        run = await cli("run", "hi", PYTHONPATH=path)
    assert (run.code, run.out) == (0, "Still here.\n")
    command = await cli("raises", PYTHONPATH=path)
    assert command.code == 1
    assert "hilum-raises" in command.err


async def test_everything_works_with_every_plugin_broken(cli, tmp_path):
    """Plugins can be listed and blocked, and what cannot work says why."""
    folder = tmp_path / "site"
    folder.mkdir()
    for name in ("files", "models", "shell", "prompt", "store", "replay"):
        (folder / f"hilum_{name}.py").write_text("raise RuntimeError('broken')")
    done = await cli("plugins", PYTHONPATH=str(folder))
    assert done.code == 0
    assert done.out.count("RuntimeError: broken") >= 6  # those that stand on one of them, too
    assert (await cli("plugins", "block", "files", PYTHONPATH=str(folder))).code == 0
    assert (await cli("--help", PYTHONPATH=str(folder))).code == 0
    run = await cli("run", "hi", PYTHONPATH=str(folder))
    assert run.code == 2
    assert "E_NO_MODEL" in run.err
    listed = await cli("sessions", "list", PYTHONPATH=str(folder))
    assert listed.code == 5
