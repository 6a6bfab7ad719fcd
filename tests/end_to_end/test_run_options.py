"""Options of ``hilum run``: settings with dots in their names, lists of plugins, kinds of
sessions.
"""

import json

import pytest


async def test_set_can_name_a_model_with_a_dot(cli):
    """Quoted as in TOML; a mistake in it is an error."""
    key = 'models.models."openai/scripted-4.1"'
    async with cli.model("Done."):
        done = await cli(
            "run",
            "hi",
            "--model",
            "openai/scripted-4.1",
            "--set",
            f"{key}.window=90000",
            "--output-format",
            "json",
        )
        assert (done.code, done.result["model"]) == (0, "openai/scripted-4.1"), done
        for wrong in (f"{key}.windwo=1", '"turns.x"=1', '"trns"=1', 'roles."a=1'):
            done = await cli("run", "hi", "--set", wrong, "--output-format", "json")
            assert (done.code, done.result["code"]) == (2, "E_SETTINGS"), (wrong, done)


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("name", ["scripted", "/scripted", "openai/"])
async def test_a_model_without_its_provider_is_a_mistake_in_settings(cli, name):
    """It would name nothing: neither from the command line nor from a file is it accepted."""
    async with cli.model("Done."):
        done = await cli("run", "hi", "--set", f'models.models."{name}".window=8192')
        assert done.code == 2, done
        assert "provider/name" in done.err
        (cli.folder / "config").mkdir(exist_ok=True)
        (cli.folder / "config" / "settings.toml").write_text(
            f'[models.models."{name}"]\nwindow = 8192\n'
        )
        done = await cli("run", "hi")
    assert done.code == 2, done
    assert "settings.toml" in done.err
    assert "provider/name" in done.err


async def test_no_plugin_takes_several_names(cli):
    """As --plugins does."""
    async with cli.model(*["Done."] * 2) as server:
        await cli("run", "hi", "--no-plugin", "web,image", "--no-plugin", "search")
        await cli("run", "hi", "--plugins", "guard,files, models,store", "--plugins", "prompt")
    some, few = (set(request.tools) for request in server.requests)
    assert "read_file" in some & few
    assert not {"web_search", "generate_image", "search_files"} & some
    assert "run_terminal_cmd" in some - few


@pytest.mark.parametrize("choice", [["--no-plugin", "web"], ["--set", 'plugins.block=["web"]']])
async def test_the_tool_of_a_plugin_that_is_left_out_is_explained(cli, asks, choice):
    """The model learns which plugins are not there, and so what to tell the user."""
    async with cli.model(asks("web_fetch", url="https://example.org/"), "Done."):
        done = await cli("run", "fetch", *choice, "--output-format", "json")
    (call,) = done.result["calls"]
    assert call["code"] == "E_UNKNOWN_TOOL"
    assert call["result"].endswith("These plugins are not loaded, so their tools are missing: web.")


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize(
    ("arguments", "settings", "kind"),
    [
        ([], "", "headless"),
        (["--kind", "shared"], "", "shared"),
        ([], 'session_kind = "shared"', "shared"),
        (["--kind", "main"], 'session_kind = "shared"', "main"),
        (["--kind", "headless"], 'session_kind = "shared"', "headless"),
    ],
)
async def test_the_kind_of_a_session_can_be_chosen(cli, asks, arguments, settings, kind):
    """It holds although nobody can be asked, and a call that would be asked is denied at once."""
    cli.write_settings(settings)
    async with cli.model(asks("write_file", path="x.txt", content="x"), "No.", "Again."):
        done = await cli("run", "write", *arguments, "--output-format", "json")
        again = await cli("run", "--resume", "more", "--output-format", "json")
    assert (done.result["kind"], done.result["denied"]) == (kind, 1), done
    assert again.result["kind"] == ("headless" if kind == "main" else kind)


async def test_a_rule_for_shared_sessions_holds(cli):
    """A file that a rule keeps out of them is in the prompt of others only."""
    (cli.workspace / "AGENTS.md").write_text(
        "# Rules\n\n- Notes are private.\n  enforce: deny context CLAUDE.md in shared\n"
    )
    (cli.workspace / "CLAUDE.md").write_text("# Notes\n\n- The heron nests in May.\n")
    async with cli.model("Done.", "Done.") as server:
        await cli("run", "hi", "--kind", "shared")
        await cli("run", "hi", "--kind", "headless")
    bodies = [request.body.decode() for request in server.requests]
    assert ["heron" in body for body in bodies] == [False, True]


async def test_an_unknown_kind_is_an_error(cli):
    """In the settings, too."""
    assert (await cli("run", "hi", "--kind", "public")).code == 2
    done = await cli("run", "hi", "--set", "session_kind=public")
    assert done.code == 2
    assert "E_SETTINGS" in done.err


async def test_a_run_that_was_killed_is_listed_as_interrupted(cli, asks, wait_until):
    """Its agents too: nothing is running any more, and both say how it goes on."""
    slow = asks("run_terminal_cmd", command="touch begun; sleep 1000")
    task = asks("task", description="do it all now", prompt="Do it.")
    async with cli.model(task, slow), cli.started("run", "go", "--approve", "auto") as process:
        await wait_until((cli.workspace / "begun").exists)
        (busy,) = json.loads((await cli("sessions", "list", "--json")).out)
        process.kill()
        await process.wait()
    (info,) = json.loads((await cli("sessions", "list", "--json")).out)
    assert (busy["state"], info["state"]) == ("waiting_for_tool", "interrupted")
    results = (await cli("agents", "results")).out
    assert "interrupted" in results
    assert f"hilum run --resume {info['id']}" in results
    assert "running" not in results
    identity = results.split()[0]
    one = await cli("agents", "result", identity)
    assert one.code == 1 or one.code == 2
    assert "was interrupted" in one.err
