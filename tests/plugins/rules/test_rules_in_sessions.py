"""Rules in a real session: in the prompt, reloaded, reminded of, enforced."""

import json
import threading
from pathlib import Path

import hilum_files
import hilum_rules
import hilum_shell
import pytest
from hilum import hookimpl, tool
from hilum.context import estimate
from hilum.events import PluginEvent, PromptFrozen, RoundEnded
from hilum.store import MemoryStore
from hilum.testing import Bench, open_bench, use
from hilum_rules import Rules, rule_store

RULES = """\
# House

## Safety

- Never edit files in `migrations/`.
- Be careful.

## Style

- Use tabs.
"""


class Edits:
    """A tool that edits files of rules as a person at another window would."""

    def __init__(self, **files: str | None) -> None:
        self.files = files

    @tool(risk="read", effect="once")
    def elsewhere(self, number: int) -> str:
        """Let something else happen.

        Args:
            number: Which.
        """
        path, text = list(self.files.items())[number]
        place = self.root / path.replace("__", ".").replace("_", "/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink() if text is None else place.write_text(text)
        return "done"

    @hookimpl
    def provide_tools(self, session):
        self.root = session.workspace.root
        return [self.elsewhere]


def sealed(b: Bench) -> list[dict[str, str]]:
    return [{layer.name: layer.text for layer in event.layers} for event in b.of(PromptFrozen)]


def notes(b: Bench) -> list[tuple[str, ...]]:
    return [event.notes for event in b.of(RoundEnded)]


def told(b: Bench, name: str) -> list[dict[str, object]]:
    return [event.data for event in b.of(PluginEvent) if event.name == f"rules.{name}"]


async def test_rules_are_numbered_layers_one_for_each_file_and_told_to_be_complied_with(
    bench,
) -> None:
    b = await bench(
        hilum_rules, answers=["ok"], files={"AGENTS.md": RULES, "CLAUDE.md": "- Answer briefly."}
    )
    await b.run("Hi")
    (layers,) = sealed(b)
    assert list(layers) == ["rules", "rules AGENTS.md", "rules CLAUDE.md"]
    assert "Comply with each one" in layers["rules"]
    assert layers["rules AGENTS.md"] == (
        "## 1. Rules of AGENTS.md (the project's): House\n### Safety\n1.1 [enforced] Never edit files in `migrations/`.\n"
        "1.2 [must] Be careful.\n### Style\n1.3 Use tabs."
    )
    assert "2.1 Answer briefly." in layers["rules CLAUDE.md"]
    assert b.requests[0].body.decode().count("Never edit files") == 1


async def test_without_rules_nothing_is_said(bench) -> None:
    b = await bench(
        hilum_rules,
        hilum_files,
        answers=[use("read_file", path="a.txt"), "ok"],
        files={"a.txt": "x"},
    )
    await b.run("Hi")
    assert sealed(b) == [{}]
    assert notes(b) == [()]
    assert [check["reloaded"] for check in told(b, "policy_check")] == [False, False]


async def test_after_a_round_there_is_one_short_reminder_that_is_always_the_same(bench) -> None:
    look = use("read_file", path="AGENTS.md")
    b = await bench(
        hilum_rules,
        hilum_files,
        answers=[look, use("read_file", path="AGENTS.md", start_line=2), "ok"],
        files={"AGENTS.md": RULES},
    )
    await b.run("Hi")
    (first,), (second,) = notes(b)
    assert first == second
    assert "rules" in first
    assert estimate(first) < 60


async def test_a_change_holds_from_the_next_turn_and_resends_that_file_only(bench) -> None:
    new = RULES.replace("Use tabs.", "Use spaces.").replace("Be careful.", "Never read `secrets/`.")
    b = await bench(
        hilum_rules,
        hilum_files,
        Edits(AGENTS__md=new),
        answers=[use("elsewhere", number=0), use("read_file", path="secrets/a"), "ok", "ok"],
        files={"AGENTS.md": RULES, "CLAUDE.md": "- Answer briefly.", "secrets/a": "s"},
    )
    await b.run("Hi")
    (change,) = [note for note in notes(b)[0] if "changed" in note]
    assert "1.3 Use spaces." in change
    assert "Answer briefly" not in change
    assert b.result("read_file").code == "E_DENIED"
    assert "Never read `secrets/`." in b.result("read_file").text
    assert [check["reloaded"] for check in told(b, "policy_check")] == [False, True, False]
    (reload,) = told(b, "policy_reload")
    assert (reload["cause"], reload["files"]) == ("changed", ["AGENTS.md"])
    assert reload["added"] == ["AGENTS.md:6: Never read `secrets/`.", "AGENTS.md:10: Use spaces."]
    assert reload["removed"] == ["AGENTS.md:6: Be careful.", "AGENTS.md:10: Use tabs."]
    first, second = (request.body for request in b.requests[:2])
    assert (
        json.loads(second)["messages"][: len(json.loads(first)["messages"])]
        == json.loads(first)["messages"]
    )
    await b.run("Again")
    assert "1.3 Use spaces." in sealed(b)[1]["rules AGENTS.md"]


async def test_a_change_that_leaves_size_and_time_as_they_were_is_seen(
    bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hilum_rules import source

    real = source._stamp_of
    monkeypatch.setattr(
        source,
        "_stamp_of",
        lambda status: real(status)._replace(
            changed=0, modified=status.st_mtime_ns // 10**9 * 10**9
        ),
    )
    b = await bench(
        hilum_rules,
        Edits(AGENTS__md="- Use tabz.\n"),
        answers=[use("elsewhere", number=0), "ok"],
        files={"AGENTS.md": "- Use tabs.\n"},
    )
    await b.run("Hi")
    assert any("tabz" in note for note in notes(b)[0])


async def test_a_file_that_goes_in_the_middle_takes_its_rules_along(bench) -> None:
    b = await bench(
        hilum_rules,
        Edits(CLAUDE__md=None, GEMINI__md="- new\n"),
        answers=[use("elsewhere", number=0), use("elsewhere", number=1), "ok"],
        files={"AGENTS.md": RULES, "CLAUDE.md": "- Answer briefly."},
    )
    await b.run("Hi")
    assert any("'rules CLAUDE.md' no longer holds." in note for note in notes(b)[0])
    assert any("3.1 new" in note for note in notes(b)[1])
    assert [reload["removed_files"] for reload in told(b, "policy_reload")] == [["CLAUDE.md"], []]


async def test_nested_rules_come_with_the_first_touch_and_hold_for_that_very_call(bench) -> None:
    nested = "## Hard rules\n- Never edit `gen.py`.\n- Look around.\n"
    b = await bench(
        hilum_rules,
        hilum_files,
        answers=[use("write_file", path="sub/gen.py", content="x"), "ok", "ok"],
        files={"AGENTS.md": RULES, "sub/AGENTS.md": nested, "sub/x": ""},
    )
    await b.run("Hi")
    assert list(sealed(b)[0]) == ["rules", "rules AGENTS.md"]
    assert b.result("write_file").code == "E_DENIED"
    assert "Never edit `gen.py`." in b.result("write_file").text
    (note,) = [note for note in notes(b)[0] if "'rules sub/AGENTS.md'" in note]
    assert "2.2 [must] Look around." in note
    assert told(b, "policy_reload")[0]["cause"] == "touched"
    await b.run("Again")
    assert list(sealed(b)[1]) == ["rules", "rules AGENTS.md", "rules sub/AGENTS.md"]


FOLDER = "services/pricing"
# Each uses a nested folder for the first time: by words, working folder, redirection, code, search.
FIRST_COMMANDS = (
    f"sed -i s/1/2/ {FOLDER}/rates.json",
    f"cd {FOLDER} && sed -i s/1/2/ rates.json",
    f"env -C {FOLDER} rm rates.json",
    f"echo 2 > {FOLDER}/rates.json",
    f"python3 -c \"open('{FOLDER}/rates.json', 'w').write('2')\"",
    "for d in services/*; do (cd $d && rm rates.json); done",
    "find . -name rates.json -exec rm {} +",
    "rm -rf services",
)


@pytest.mark.parametrize("rules", ["", RULES])
async def test_nested_rules_hold_for_the_first_command_that_uses_the_folder(
    bench, tmp_path: Path, rules: str
) -> None:
    files = {f"{FOLDER}/AGENTS.md": "- Never edit `rates.json`.\n", f"{FOLDER}/rates.json": "1"}
    for number, command in enumerate(FIRST_COMMANDS):
        b = await bench(
            hilum_rules,
            hilum_shell,
            answers=[use("run_terminal_cmd", command=command), "ok"],
            files=files | ({"AGENTS.md": rules} if rules else {}),
            folder=tmp_path / str(number),
        )
        await b.run("Hi")
        result = b.result("run_terminal_cmd")
        assert result.code == "E_DENIED", command
        assert f"“Never edit `rates.json`.” ({FOLDER}/AGENTS.md:1)" in result.text
        assert (b.workspace / FOLDER / "rates.json").read_text() == "1"


async def test_a_command_brings_the_rules_of_the_folders_that_it_uses_and_no_others(bench) -> None:
    commands = ["ls", "grep -rn 1 .", "echo 2 > a/b.txt", "cd a && touch c"]
    b = await bench(
        hilum_rules,
        hilum_shell,
        answers=[*(use("run_terminal_cmd", command=command) for command in commands), "ok"],
        files={"a/AGENTS.md": "- Never edit `x`.", "b/AGENTS.md": "- Never edit `x`.", "b/c": "1"},
    )
    await b.run("Hi")
    assert [result.code for result in b.results] == ["", "", "", ""]
    assert [file.path for file in b.session.plugin(Rules).snapshot.active] == ["a/AGENTS.md"]


@pytest.mark.parametrize(
    ("command", "known"),
    [
        ("pytest -q tests/test_a.py", True),
        ("git commit -m 'x: y' && ls", True),
        ("cat tests/unit/a.py", False),
        ("cd tests && cat unit/a.py", False),
        ("cat unit/a.py", False),
        ("rm -r .", False),
        ("rm te*", False),
        ("cd $X && rm a", False),
        ("find -delete", False),
    ],
)
def test_a_look_tells_that_a_command_uses_known_folders_only(
    put, current, command: str, known: bool
) -> None:
    put({"tests/unit/a.py": "", "tests/test_a.py": ""})
    store = current()
    store.touch(["tests/test_a.py"])
    assert store.names_known_folders(command) is known


async def test_rules_for_files_come_with_the_prompt_that_names_one_or_the_editor_that_has_it_open(
    bench,
) -> None:
    rule = "---\nglobs: *.{}\n---\n- for {}"
    files = {f".cursor/rules/{end}.mdc": rule.format(end, end) for end in ("ts", "py", "go")}
    b = await bench(
        hilum_rules,
        answers=["ok", "ok"],
        files={**files, ".cursor/rules/m.mdc": "---\n---\n- manual"},
    )
    await b.run("Mend src/a.ts", state={"open_files": [{"path": "b.py"}]})
    assert list(sealed(b)[0]) == [
        "rules",
        "rules .cursor/rules/py.mdc",
        "rules .cursor/rules/ts.mdc",
    ]
    await b.run("and @m")
    assert list(sealed(b)[1]) == [
        "rules",
        "rules .cursor/rules/m.mdc",
        "rules .cursor/rules/py.mdc",
        "rules .cursor/rules/ts.mdc",
    ]


async def test_of_very_many_open_files_the_first_ones_bring_their_rules(bench) -> None:
    rule = "---\nglobs: *.{}\n---\n- for {}"
    b = await bench(
        hilum_rules,
        answers=["ok"],
        files={f".cursor/rules/{e}.mdc": rule.format(e, e) for e in ("py", "go")},
    )
    opened = [
        "a.py",
        *(f"{number}.txt" for number in range(hilum_rules.session_rules.MAX_OPEN)),
        "b.go",
    ]
    await b.run("Hi", state={"open_files": [{"path": path} for path in opened]})
    assert list(sealed(b)[0]) == ["rules", "rules .cursor/rules/py.mdc"]


async def test_rules_to_ask_for_are_listed_and_hold_once_read(bench) -> None:
    b = await bench(
        hilum_rules,
        hilum_files,
        answers=[use("read_file", path=".cursor/rules/db.mdc"), "ok"],
        files={".cursor/rules/db.mdc": "---\ndescription: Work on the database\n---\n- Index."},
    )
    await b.run("Hi")
    assert "- .cursor/rules/db.mdc: Work on the database" in sealed(b)[0]["rules to ask for"]
    assert any("1.1 Index." in note for note in notes(b)[0])


async def test_a_resumed_session_keeps_the_rules_of_folders_it_was_in(tmp_path: Path) -> None:
    store = MemoryStore()
    files = {"AGENTS.md": RULES, "sub/AGENTS.md": "- nested", "sub/x": "x"}
    async with open_bench(
        hilum_rules,
        hilum_files,
        folder=tmp_path,
        store=store,
        files=files,
        answers=[use("read_file", path="sub/x"), "ok"],
    ) as b:
        await b.run("Hi")
        session = b.session.id
    async with open_bench(
        hilum_rules, hilum_files, folder=tmp_path, store=store, resume=session, answers=["ok"]
    ) as b:
        await b.run("Again")
        assert "rules sub/AGENTS.md" in sealed(b)[-1]


async def test_an_agent_does_not_rewrite_the_rules_that_hold_it_unasked(bench) -> None:
    b = await bench(
        hilum_rules,
        hilum_files,
        answers=[
            use("read_file", path="AGENTS.md"),
            use("write_file", path="AGENTS.md", content="- free"),
            use("read_file", path="CLAUDE.md"),
            use("write_file", path="CLAUDE.md", content="- other"),
            "ok",
        ],
        files={"AGENTS.md": RULES, "CLAUDE.md": "- soft"},
        kind="headless",
    )
    await b.run("Hi")
    codes = [result.code for result in b.results if result.name == "write_file"]
    assert codes[0]
    assert (b.workspace / "AGENTS.md").read_text() == RULES
    assert codes[1] == ""


@pytest.mark.parametrize("command", ["git clean -fdx", "git clean -fd", "find . -size -9k -delete"])
async def test_nor_does_it_clean_them_away(bench, command: str) -> None:
    import hilum_shell
    import trio

    answers = [use("run_terminal_cmd", command=command), "ok"]
    b = await bench(
        hilum_rules, hilum_shell, answers=answers, files={"AGENTS.md": RULES}, kind="headless"
    )
    await trio.run_process(["git", "init", "-q"], cwd=b.workspace)
    await b.run("Hi")
    assert "The agent wants to change rules that are enforced: it " in b.results[0].text
    assert (b.workspace / "AGENTS.md").exists()


@pytest.mark.parametrize(
    "path", ["AGENTS.md", "docs/house.md", "AGENTS.override.md", "docs/imported.md"]
)
async def test_nor_does_it_by_another_name(bench, path: str) -> None:
    """Not where the file is a link, not by what stands in the place of another, not in what is
    imported.
    """
    b = await bench(
        hilum_rules,
        hilum_files,
        answers=[use("read_file", path=path), use("write_file", path=path, content="- free"), "ok"],
        files={
            "docs/house.md": RULES + "\n@imported.md\n",
            "docs/imported.md": "## Safety\n- Never edit `x.txt`.",
        },
        kind="headless",
    )
    (b.workspace / "AGENTS.md").symlink_to("docs/house.md")
    await b.run("Hi")
    assert "no user is present" in b.result("write_file").text
    assert "The agent wants to change rules that are enforced: it " in b.result("write_file").text
    assert not (b.workspace / "AGENTS.override.md").exists()


@pytest.mark.parametrize(
    ("command", "runs"),
    [
        ("echo '- free' > AGENTS.md", False),
        ("sed -i s/Never/Always/ ./AGENTS.md", False),
        ("cp other.md AGENTS.override.md", False),
        ("rm -f AGENTS.md", False),
        ("cat AGENTS.md > copy.md", True),
        ("echo x > other.md", True),
    ],
)
async def test_nor_by_a_command(bench, command: str, runs: bool) -> None:
    """What reads the rules runs, and so does what writes something else."""
    files = {"AGENTS.md": RULES, "other.md": "- free"}
    answers = [use("run_terminal_cmd", command=command), "ok"]
    b = await bench(hilum_rules, hilum_shell, answers=answers, files=files, kind="headless")
    await b.run("Hi")
    assert ("rules that are enforced" not in b.results[0].text) is runs
    assert (b.results[0].code == "") is runs
    assert (b.workspace / "AGENTS.md").read_text() == RULES
    assert not (b.workspace / "AGENTS.override.md").exists()


async def test_what_is_not_for_this_kind_of_session_is_not_loaded(bench) -> None:
    text = "## Hard rules\n\n- Do not load `MEMORY.md` in shared sessions.\n"
    for kind, denied in (("shared", True), ("main", False)):
        b = await bench(
            hilum_rules,
            hilum_files,
            answers=[use("read_file", path="MEMORY.md"), "ok"],
            files={"AGENTS.md": text, "MEMORY.md": "secret"},
            kind=kind,
        )
        await b.run("Hi")
        assert bool(b.session.plugin(Rules).refusal("MEMORY.md")) is denied
        assert (b.result("read_file").code == "E_DENIED") is denied


async def test_a_final_answer_that_a_rule_forbids_goes_back(bench) -> None:
    text = "## Hard rules\n- Answers carry no marks.\n  enforce: deny answer /[!]/\n"
    b = await bench(hilum_rules, answers=["Great!", "Great."], files={"AGENTS.md": text})
    ended = await b.run("Hi")
    assert ended.text == "Great."
    assert any("carry no marks" in note for note in notes(b)[0])


async def test_rules_beyond_the_limit_are_enforced_and_said_not_to_be_shown(bench) -> None:
    text = "## Safety\n" + "".join(f"- Never edit files in `dir{n}/`.\n" for n in range(100))
    b = await bench(
        hilum_rules,
        hilum_files,
        answers=[use("write_file", path="dir99/x", content=""), "ok"],
        files={"AGENTS.md": text},
        settings={"rules.prompt_limit": 1_000},
    )
    await b.run("Hi")
    shown = sealed(b)[0]["rules AGENTS.md"]
    assert len(shown) < 1_200
    assert "to 1.100 are not shown" in shown
    assert b.result("write_file").code == "E_DENIED"


async def test_a_project_cannot_change_the_settings_of_rules(tmp_path: Path) -> None:
    from hilum import SettingsError

    project = tmp_path / "workspace"
    (project / ".hilum").mkdir(parents=True)
    (project / ".hilum" / "settings.toml").write_text('[rules]\nskip = ["AGENTS.md"]\n')
    with pytest.raises(SettingsError, match=r"rules\.skip"):
        async with open_bench(hilum_rules, folder=tmp_path):
            pass  # pragma: no cover


def test_importing_the_package_loads_nothing_heavy() -> None:
    import subprocess
    import sys

    heavy = {
        "yaml",
        "hilum.frontmatter",
        "pathspec",
        "hilum_rules.blocks",
        "hilum_checks",
        "hilum_guard",
    }
    code = f"import hilum_rules, sys; print(sorted({heavy!r} & set(sys.modules)))"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )


async def test_a_slow_file_system_is_looked_at_in_a_thread(bench, monkeypatch) -> None:
    """A few files are looked at in the event loop, unless that took long before."""
    monkeypatch.setattr(rule_store, "MAX_QUICK_SECONDS", -1.0)
    loop = threading.get_ident()
    looks: list[bool] = []
    read_stamp = rule_store.read_stamp

    def look(path):
        looks.append(threading.get_ident() == loop)
        return read_stamp(path)

    new = RULES.replace("Use tabs.", "Use spaces.")
    b = await bench(
        hilum_rules,
        Edits(AGENTS__md=new),
        answers=[use("elsewhere", number=0), "ok", "ok"],
        files={"AGENTS.md": RULES},
    )
    await b.run("Hi")
    assert [check["reloaded"] for check in told(b, "policy_check")] == [False, True]
    monkeypatch.setattr(rule_store, "read_stamp", look)
    await b.run("Again")
    assert looks
    assert not any(looks)
