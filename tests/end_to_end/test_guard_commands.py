"""The commands of the guard, and hilum run with it: as a user types them."""

import json
import tomllib

import pytest

pytestmark = pytest.mark.slow(cases=11, of="file")


async def test_permissions_lists_changes_and_removes_rules(cli):
    """Every rule with what it means and where it stands."""
    assert "No rules are stored" in (await cli("permissions")).out
    assert (await cli("permissions", "deny", "run_terminal_cmd(git push --force *)")).code == 0
    assert (await cli("permissions", "allow", "write_file(docs/**)", "--workspace")).code == 0
    listed = (await cli("permissions")).out
    assert listed.index("deny   run_terminal_cmd(git push --force *)") < listed.index(
        "allow  write_file(docs/**)"
    )
    assert "begins with 'git push --force' is refused" in listed
    assert "permissions.toml, for this folder" in listed
    rows = json.loads((await cli("permissions", "list", "--json")).out)["rules"]
    assert [(row["effect"], row["everywhere"]) for row in rows] == [
        ("deny", True),
        ("allow", False),
    ]
    assert (
        "it already existed"
        in (await cli("permissions", "allow", "write_file(docs/**)", "--workspace")).out
    )
    assert "allow write_file" in (await cli("permissions", "remove", "write_file(docs/**)")).out
    assert (await cli("permissions", "remove", "write_file(docs/**)")).code == 2
    assert "write_file" not in (await cli("permissions")).out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("deny",), "takes exactly one rule"),
        (("deny", "read_file(x"), "closing parenthesis"),
        (("deny", "a", "b"), "Put it in quotes"),
        (("deny", "rm -rf /"), "is not a rule"),
        (("forbid", "x"), "invalid choice"),
        (("test",), "takes a tool"),
        (("test", "run_terminal_comd", "ls"), "Did you mean run_terminal_cmd?"),
    ],
)
async def test_what_is_no_rule_is_told_and_nothing_is_changed(cli, words, told):
    """Exit code 2, a message, and no file."""
    done = await cli("permissions", *words)
    assert done.code == 2
    assert told in done.err
    assert not (cli.folder / "config" / "permissions.toml").exists()


@pytest.mark.slow(cases=4)
@pytest.mark.parametrize(
    ("words", "outcome"),
    [
        (("run_terminal_cmd", "git push --force"), "refused (E_DENIED)"),
        (("run_terminal_cmd", "rm -rf /"), "refused (E_BLOCKED)"),
        (("run_terminal_cmd", "git status"), "It would run"),
        (("run_terminal_cmd", "git commit -m x"), "run_terminal_cmd(git commit *)"),
        (("write_file", "path=docs/a.md"), "It would run"),
        (("write_file", "docs/../src/a.py"), "It would need approval"),
        (("write_file", '{"path": "/etc/passwd", "content": ""}'), "refused (E_PATH_TRAVERSAL)"),
        (("write_file", "src/a.py", "--approve", "readonly"), "It would be refused"),
        (("read_file", ".env"), "keys and passwords"),
    ],
)
async def test_permissions_test_says_what_would_happen_and_why(cli, words, outcome):
    """By the real guard of a session that is not kept."""
    await cli("permissions", "deny", "run_terminal_cmd(git push --force *)")
    await cli("permissions", "allow", "write_file(docs/**)")
    done = await cli("permissions", "test", *words)
    assert outcome in done.out
    assert "because:" in done.out
    assert json.loads((await cli("sessions", "list", "--all", "--json")).out) == []


async def test_mistakes_are_listed_and_the_exit_code_tells(cli):
    """Of the user's file and of the project's."""
    (cli.folder / "config").mkdir()
    (cli.folder / "config" / "permissions.toml").write_text("alow = []\n")
    (cli.workspace / ".hilum").mkdir()
    (cli.workspace / ".hilum" / "permissions.toml").write_text('allow = ["*"]\n')
    done = await cli("permissions")
    assert done.code == 1
    assert "did you mean allow?" in done.out
    assert "only the user may allow" in done.out
    doctor = await cli("doctor")
    assert doctor.code == 1
    assert doctor.out.count("fail  permissions") == 2


async def test_trust_is_given_listed_and_taken_back(cli):
    """With the files that may execute."""
    (cli.workspace / ".hilum").mkdir()
    (cli.workspace / ".hilum" / "mcp.toml").write_text("")
    assert ".hilum/mcp.toml" in (await cli("trust")).out
    assert json.loads((await cli("trust", "--list", "--json")).out) == {
        str(cli.workspace): "trusted"
    }
    (cli.workspace / ".hilum" / "mcp.toml").write_text("x = 1")
    assert "CHANGED" in (await cli("trust", "--list")).out
    assert "has changed" in (await cli("doctor")).out
    assert "no longer trusted" in (await cli("trust", "--remove")).out
    assert (await cli("trust", "--list")).out == "No folder is trusted.\n"
    assert (await cli("trust", "/nowhere")).code == 2


async def test_doctor_tells_what_is_enforced_and_found(cli):
    """One row each, and the same as JSON; a folder that others can write fails."""
    done = await cli("doctor", "--json")
    rows = {row["subject"]: row for row in json.loads(done.out)}
    assert {"settings", "plugins", "config folder", "data folder", "permissions", "trust", "sandbox: files", "search",
            "git", "terminal"} <= set(rows)  # fmt: skip
    assert {row["grade"] for row in rows.values()} <= {"ok", "warn"}
    assert done.code == 0
    (cli.folder / "config").mkdir(exist_ok=True)
    (cli.folder / "config").chmod(0o777)
    done = await cli("doctor")
    assert done.code == 1
    assert "chmod go-w" in done.out
    (cli.folder / "config").chmod(0o700)
    (cli.folder / "config" / "settings.toml").write_text("nonsense = 1\n")
    assert "fail  settings" in (await cli("doctor")).out


async def models_of(cli, *words, **env):
    """The rows of hilum doctor about models, and its exit code."""
    done = await cli("doctor", "--json", *words, **env)
    return [row for row in json.loads(done.out) if row["subject"] == "model"], done.code


async def test_doctor_says_what_hilum_run_says_where_there_is_no_model(cli):
    """The same sentence and the same ways out; what works without a model still works."""
    # The developer may run a server of models at one of the usual addresses.
    cli.env |= {"OLLAMA_HOST": "127.0.0.1:9"}
    for name in ("LMSTUDIO", "LLAMACPP", "VLLM"):
        cli.env[f"{name}_BASE_URL"] = "http://127.0.0.1:9/v1"
    (row,), code = await models_of(cli)
    run = await cli("run", "hi", "--output-format", "json")
    assert (row["grade"], code) == ("warn", 0)
    assert row["found"] == run.result["error"]
    assert row["fix"] == run.result["hint"]
    shown = (await cli("doctor")).out
    assert "export OPENAI_API_KEY" in shown
    for line in run.result["hint"].splitlines():
        assert line in shown


async def test_doctor_names_the_model_its_address_and_the_variable_of_its_key(cli):
    """For the model, roles and fallbacks; the key itself is nowhere."""
    cli.write_settings(
        'model = "openai/gpt-x"\nfallback = ["anthropic/claude-x", "nowhere/x"]\n'
        '[roles]\nfast = "openai/small"\n'
    )
    key = "sk-very-secret-0123456789"
    rows, code = await models_of(cli, OPENAI_API_KEY=key)
    found = {row["found"].partition(":")[0]: row for row in rows}
    assert code == 1
    assert found["model"]["found"] == (
        "model: openai/gpt-x, https://api.openai.com, key in OPENAI_API_KEY"
    )
    assert "openai/small" in found["role fast"]["found"]
    claude, nowhere = [row for row in rows if row["grade"] == "fail"]
    assert "anthropic/claude-x cannot be used: no API key is set." in claude["found"]
    run = await cli("run", "hi", "--model", "anthropic/claude-x", "--output-format", "json")
    assert run.result["error"] in claude["found"]
    assert (run.result["hint"], claude["fix"]) == (claude["fix"],) * 2
    assert "nowhere" in nowhere["found"]
    assert key not in json.dumps(rows)


async def test_doctor_asks_servers_only_when_it_is_told_to(cli):
    """No model is asked in either case."""
    async with cli.model("never") as server:
        (row,), code = await models_of(cli)
        assert (row["grade"], code) == ("ok", 0)
        assert "responds" not in row["found"]
        (row,), code = await models_of(cli, "--online")
        assert (row["grade"], code) == ("ok", 0), row
        assert row["found"].endswith(", responds")
        assert server.count == 0
    (row,), code = await models_of(cli, "--online")
    assert (row["grade"], code) == ("fail", 1)
    assert "cannot be reached" in row["found"]


async def test_the_user_can_leave_the_guard_out_by_name(cli, asks):
    """Nothing else turns it off."""
    async with cli.model(asks("run_terminal_cmd", command="touch made"), "Done."):
        done = await cli(
            "run", "go", "--approve", "auto", "--output-format", "json", "--no-plugin", "guard"
        )
    assert json.loads(done.out)["calls"][0]["code"] == ""
    assert (cli.workspace / "made").exists()


async def test_a_guard_that_does_not_load_stops_every_call(cli, asks):
    """Required by default: a broken installation fails closed."""
    (cli.folder / "broken").mkdir()
    (cli.folder / "broken" / "sitecustomize.py").write_text(
        "import sys\nclass Broken:\n    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'hilum_guard.settings':\n            raise RuntimeError('broken')\n"
        "sys.meta_path.insert(0, Broken())\n"
    )
    async with cli.model(asks("list_directory", path="."), "I cannot."):
        done = await cli("run", "go", "--approve", "auto", "--output-format", "json",
                         PYTHONPATH=str(cli.folder / "broken"))  # fmt: skip
    [call] = json.loads(done.out)["calls"]
    assert call["code"] == "E_DENIED"


async def test_a_headless_run_is_told_how_to_go_on(cli, asks):
    """With ask_first what would be asked is refused, with the reason and the policy that would let
    it run.
    """
    async with cli.model(asks("run_terminal_cmd", command="make test"), "I may not."):
        done = await cli("run", "go", "--output-format", "json")
    [call] = json.loads(done.out)["calls"]
    assert call["code"] == "E_DENIED"
    assert "no user is present" in call["result"]


async def test_mistakes_in_the_rules_are_shown_on_the_terminal(cli, asks):
    """The user reads every one of them when the run begins."""
    (cli.folder / "config").mkdir()
    (cli.folder / "config" / "permissions.toml").write_text("alow = []\ndeny = 1\n")
    async with cli.model(asks("write_file", path="a", content=""), "I may not."):
        done = await cli("run", "go", "--approve", "auto")
    assert "did you mean allow?" in done.err
    assert 'deny: found 1, expected a list: deny = ["write_file(docs/**)"]' in done.err
    assert not (cli.workspace / "a").exists()


async def test_a_rule_that_names_no_tool_is_refused_when_it_is_given(cli):
    """The nearest names are in the message; nothing is written."""
    for wrong, near in (("wirte_file(docs/**)", "write_file"), ("netwrok", "network")):
        result = await cli("permissions", "deny", wrong)
        assert result.code == 2
        assert near in result.err
    assert "No rules are stored" in (await cli("permissions")).out
    assert (await cli("permissions", "deny", "network")).code == 0
    assert "this includes commands that use the network" in (await cli("permissions")).out


async def test_remove_takes_a_rule_from_where_it_stands(cli):
    """Without --workspace from both places, each named.

    With it from this folder alone; spaces do not matter.
    """
    rule = "write_file(docs/**)"
    await cli("permissions", "deny", rule)
    await cli("permissions", "deny", rule, "--workspace")
    removed = await cli("permissions", "remove", "write_file( docs/** )", "--workspace")
    assert removed.out.count("Removed: deny") == 1
    assert "in every folder" not in removed.out
    again = await cli("permissions", "remove", rule, "--workspace")
    assert again.code == 2
    assert "without --workspace" in again.err
    await cli("permissions", "deny", rule, "--workspace")
    both = (await cli("permissions", "remove", rule)).out
    assert both.count("Removed: deny") == 2
    assert "in every folder" in both
    assert "No rules are stored" in (await cli("permissions")).out


async def test_rules_for_a_kind_of_session_are_written_listed_tested_and_removed(cli):
    """With --session: in the table of that kind, and nowhere else."""
    rule = "read_file(notes/**)"
    file = cli.folder / "config" / "permissions.toml"
    done = await cli("permissions", "deny", rule, "--session", "shared")
    assert (done.code, done.out.splitlines()[0]) == (
        0,
        f"deny {rule}, in sessions of the kind shared",
    )
    assert tomllib.loads(file.read_text()) == {"session": {"shared": {"deny": [rule]}}}
    assert "for sessions of the kind shared" in (await cli("permissions")).out
    shared = await cli("permissions", "list", "--session", "shared", "--json")
    assert [row["session"] for row in json.loads(shared.out)["rules"]] == ["shared"]
    main = await cli("permissions", "list", "--session", "main", "--json")
    assert json.loads(main.out)["rules"] == []
    test = ("permissions", "test", "read_file", "notes/a.md")
    assert "It would be refused" in (await cli(*test, "--session", "shared")).out
    assert "It would run" in (await cli(*test, "--session", "main")).out
    await cli("permissions", "deny", rule)
    removed = await cli("permissions", "remove", rule, "--session", "shared")
    assert removed.out == f"Removed: deny {rule}, in sessions of the kind shared\n"
    assert tomllib.loads(file.read_text())["deny"] == [rule]
    missing = await cli("permissions", "remove", rule, "--session", "shared")
    assert missing.code == 2
    assert "without --workspace and --session" in missing.err
    await cli("permissions", "ask", rule, "--session", "headless")
    assert (await cli("permissions", "remove", rule)).out.count("Removed: ") == 2
    assert "No rules are stored" in (await cli("permissions")).out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("deny", "network", "--session", "publik"), "invalid choice"),
        (("deny", "network", "--session", "shared", "--workspace"), "exclude each other"),
    ],
)
async def test_a_kind_that_there_is_not_writes_no_rule(cli, words, told):
    """Exit code 2, a message, and no file."""
    done = await cli("permissions", *words)
    assert (done.code, told in done.err) == (2, True), done.err
    assert not (cli.folder / "config" / "permissions.toml").exists()


async def test_doctor_reports_a_rule_for_a_tool_that_does_not_exist(cli):
    """It is a mistake for `hilum permissions` and for the gate as well."""
    folder = cli.folder / "config"
    folder.mkdir(exist_ok=True)
    (folder / "permissions.toml").write_text('deny = ["wirte_file(docs/**)"]\n')
    done = await cli("doctor")
    assert done.code == 1
    assert "wirte_file" in done.out


async def test_a_rule_for_a_parameter_that_the_tool_does_not_have_is_a_mistake(cli):
    """`hilum permissions` and `hilum doctor` report it, and it cannot be added."""
    folder = cli.folder / "config"
    folder.mkdir(exist_ok=True)
    told = "write_file has no parameter 'paht'; did you mean path?"
    added = await cli("permissions", "deny", "write_file(paht=x)")
    assert (added.code, told in added.err) == (2, True)
    (folder / "permissions.toml").write_text('deny = ["write_file(paht=x)"]\n')
    for command in ("permissions", "doctor"):
        done = await cli(command)
        assert (done.code, told in done.out) == (1, True)
