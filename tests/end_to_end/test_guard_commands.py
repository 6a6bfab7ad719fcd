"""The commands of the guard, and hilum run with it: as a user types them."""

import json

import pytest


async def test_permissions_lists_changes_and_removes_rules(cli):
    """Every rule with what it means and where it stands."""
    assert "no rules" in (await cli("permissions")).out
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
        "it was there already"
        in (await cli("permissions", "allow", "write_file(docs/**)", "--workspace")).out
    )
    assert "allow write_file" in (await cli("permissions", "remove", "write_file(docs/**)")).out
    assert (await cli("permissions", "remove", "write_file(docs/**)")).code == 2
    assert "write_file" not in (await cli("permissions")).out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("deny",), "takes one rule"),
        (("deny", "read_file(x"), "closing parenthesis"),
        (("deny", "a", "b"), "Put it in quotes"),
        (("deny", "rm -rf /"), "is no rule"),
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


@pytest.mark.parametrize(
    ("words", "outcome"),
    [
        (("run_terminal_cmd", "git push --force"), "refused (E_DENIED)"),
        (("run_terminal_cmd", "rm -rf /"), "refused (E_BLOCKED)"),
        (("run_terminal_cmd", "git status"), "It would run"),
        (("run_terminal_cmd", "git commit -m x"), "run_terminal_cmd(git commit *)"),
        (("write_file", "path=docs/a.md"), "It would run"),
        (("write_file", "docs/../src/a.py"), "It would be asked"),
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
    assert "trusted no more" in (await cli("trust", "--remove")).out
    assert (await cli("trust", "--list")).out == "No folder is trusted.\n"
    assert (await cli("trust", "/nowhere")).code == 2


async def test_doctor_tells_what_is_enforced_and_found(cli):
    """One row each, and the same as JSON; a folder that others can write fails."""
    done = await cli("doctor", "--json")
    rows = {row["what"]: row for row in json.loads(done.out)}
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
    assert "nobody is there" in call["result"]


async def test_mistakes_in_the_rules_are_shown_on_the_terminal(cli, asks):
    """The user reads every one of them when the run begins."""
    (cli.folder / "config").mkdir()
    (cli.folder / "config" / "permissions.toml").write_text("alow = []\ndeny = 1\n")
    async with cli.model(asks("write_file", path="a", content=""), "I may not."):
        done = await cli("run", "go", "--approve", "auto")
    assert "did you mean allow?" in done.err
    assert "deny: is no list" in done.err
    assert not (cli.workspace / "a").exists()


async def test_a_rule_that_names_no_tool_is_refused_when_it_is_given(cli):
    """The nearest names are in the message; nothing is written."""
    for wrong, near in (("wirte_file(docs/**)", "write_file"), ("netwrok", "network")):
        result = await cli("permissions", "deny", wrong)
        assert result.code == 2
        assert near in result.err
    assert "There are no rules" in (await cli("permissions")).out
    assert (await cli("permissions", "deny", "network")).code == 0
    assert "so is a command that uses the network" in (await cli("permissions")).out


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
    assert "There are no rules" in (await cli("permissions")).out
