"""Calls, answers and contexts judged by checks.

The cases stand in ``enforcement``, for the benchmark too.
"""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hilum_files
import hilum_guard
import hilum_rules
import hilum_shell
import pytest
from hilum import Tool, Verdict
from hilum.events import Compacted
from hilum.testing import Bench, ScriptedModel, open_bench
from hilum_checks import (
    check_context,
    compile_lines,
    compile_rule,
    find_protected_paths,
    judge,
    judge_answer,
)

CASES = Path(__file__).parent / "enforcement"
RISKS = {
    "write_file": "write", "edit_file": "write", "multi_edit": "write", "delete_file": "write",
    "run_terminal_cmd": "execute", "write_service": "execute", "web_fetch": "network", "web_search": "network",
}  # fmt: skip
ASKS = ("24", "25", "26", "34")


def cases(name: str) -> list[str]:
    text = (CASES / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def made(name: str) -> Tool:
    foreign = name.startswith("mcp__")
    return Tool(
        name,
        "",
        lambda: "",
        risk=RISKS.get(name, "network" if foreign else "read"),  # type: ignore[arg-type]
        writes=("path",) if RISKS.get(name) == "write" else (),
        schema={} if foreign else None,
    )


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("cases").resolve() / "workspace"
    for name, text in json.loads((CASES / "files.json").read_text(encoding="utf-8")).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "link").symlink_to("migrations")
    return root


@pytest.fixture(scope="module")
def rules() -> list[Any]:
    return [rule for rule in hilum_rules.load_rules(CASES / "AGENTS.md").rules if rule.check]


@pytest.fixture(scope="module")
def verdict(root: Path, rules: list[Any]) -> Callable[[str], Verdict | None]:
    def verdict(line: str) -> Verdict | None:
        line = line.replace("{root}", str(root))
        if found := re.match(r"(?:@(\S+) )?\$ (.*)", line):
            text = found[2].replace("~", "\n") if "<<" in found[2] else found[2]
            arguments = {"command": text, "working_directory": found[1] or "."}
            return judge(rules, json.dumps(arguments), made("run_terminal_cmd"), root)
        name, _, text = line.partition(" ")
        return judge(rules, text, made(name), root)

    return verdict


def test_all_forty_rules_are_enforced(rules: list[Any]) -> None:
    assert len(rules) == 40


def violations() -> dict[str, list[str]]:
    """Return the violations of each rule, by the rule's number."""
    found: dict[str, list[str]] = {}
    for line in cases("violations.txt"):
        number, _, case = line.partition("\t")
        found.setdefault(number, []).append(case)
    return found


@pytest.mark.parametrize(("number", "lines"), violations().items(), ids=violations())
def test_what_a_rule_forbids_does_not_pass(
    number: str,
    lines: list[str],
    rules: list[Any],
    verdict: Callable[[str], Verdict | None],
) -> None:
    for line in lines:
        found = verdict(line)
        assert found is not None, line
        assert found.kind in ("deny", "ask"), line
        if number in ASKS and "delet" not in found.reason:
            # Only another rule may deny it.
            is_own = f"“{rules[int(number) - 1].sentence}”" in found.reason
            assert is_own is (found.kind == "ask"), line


def test_what_no_rule_forbids_passes(verdict: Callable[[str], Verdict | None]) -> None:
    verdicts = {line: verdict(line) for line in cases("harmless.txt")}
    assert {line: found for line, found in verdicts.items() if found is not None} == {}


def test_a_denial_quotes_the_rule_its_place_and_says_what_to_do(
    verdict: Callable[[str], Verdict | None],
) -> None:
    found = verdict('write_file {"path": "migrations/2.py", "content": ""}')
    assert found is not None
    assert "“Never edit files in `migrations/`.” (" in found.reason
    assert "AGENTS.md:7)" in found.reason
    assert "tell the user" in found.reason


class Ruled:
    """A rule as judging sees it."""

    def __init__(self, sentence: str, *lines: str) -> None:
        self.sentence, self.path, self.line = sentence, "AGENTS.md", 1
        self.check = (
            compile_lines(lines)[0].check if lines else compile_rule(sentence, hard=True).check
        )
        assert self.check is not None


def shell(text: str, root: Path, *rules: Ruled) -> str:
    found = judge(rules, json.dumps({"command": text}), made("run_terminal_cmd"), root)
    return found.kind if found else ""


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("git push origin main", "deny"),
        ("git push origin HEAD:main", "deny"),
        ("git push origin HEAD:refs/heads/main", "deny"),
        ("git push origin +main", "deny"),
        ("git push --all", "deny"),
        ("git push", "deny"),
        ("git push origin HEAD", "deny"),
        ("git switch -c feature && git push", ""),
        ("git checkout feature; git push origin HEAD", ""),
        ("git push origin feature", ""),
        ("git push -u origin feature", ""),
        ("git push -u origin main", "deny"),
        ("git push -o ci.skip origin feature", ""),
        ("git push origin main:feature", ""),
        ("git push origin $B", "ask"),
        ("git checkout $B; git push", "ask"),
    ],
)
def test_a_rule_on_a_branch_means_that_branch(command: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    assert shell(command, tmp_path, Ruled("Never push directly to `main`.")) == kind


@pytest.mark.parametrize(
    ("line", "command", "kind"),
    [
        ("deny command dotnet test except dotnet test --verbosity", "dotnet test", "deny"),
        (
            "deny command dotnet test except dotnet test --verbosity",
            "dotnet test --verbosity q",
            "",
        ),
        ("deny command dotnet test except dotnet test --verbosity", "dotnet test $OPTIONS", "deny"),
        ("deny command adb install except adb install -r", "adb install -r a.apk", ""),
        ("deny command adb install except adb install -r", "adb install a.apk", "deny"),
        ("ask command git stash except git stash list", "git stash list", ""),
        ("ask command git stash except git stash list", "git stash && git stash list", "ask"),
        ("deny command pytest except .venv/bin/pytest", ".venv/bin/pytest -q", ""),
        ("deny command pytest except .venv/bin/pytest", "pytest -q", "deny"),
        ("deny command git commit, git push to branch main", "git commit -m x", "deny"),
        ("deny command git commit, git push to branch main", "git push origin x", ""),
    ],
)
def test_a_command_may_have_exceptions(line: str, command: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    assert shell(command, tmp_path, Ruled("x", line)) == kind


def test_files_that_exist_may_be_protected_alone(tmp_path: Path) -> None:
    (tmp_path / "migrations").mkdir()
    (tmp_path / "migrations/1.sql").write_text("SELECT 1;\n")
    rule = Ruled("x", "deny change migrations/**")
    assert shell("echo > migrations/1.sql", tmp_path, rule) == "deny"
    assert shell("rm migrations/1.sql", tmp_path, rule) == "deny"
    assert shell("echo > migrations/2.sql", tmp_path, rule) == ""


@pytest.mark.parametrize(
    ("sentence", "path", "text", "kind"),
    [
        ("Never use `print()`.", "src/a.py", "print(1)", "deny"),
        ("Never use `print()`.", "src/a.py", "print('a', b)", "deny"),
        ("Never use `print()`.", "src/a.py", "pprint(1); log.print(1)", ""),
        ("Never use `print()`.", "docs/a.md", "Call `print()`.", ""),
        ("Never use `JSON.parse` in production code.", "src/a.ts", "JSON.parse(x)", "deny"),
        ("Never use `JSON.parse` in production code.", "src/a.test.ts", "JSON.parse(x)", ""),
        ("Never use `JSON.parse` in production code.", "src/a.ts", "JSON.parser(x)", ""),
        ("Never `async void`.", "a.cs", "public async  void F()", "deny"),
        ("Never `async void`.", "a.cs", "public async Task F()", ""),
    ],
)
def test_code_that_a_sentence_names_is_not_written(
    sentence: str, path: str, text: str, kind: str, tmp_path: Path
) -> None:
    arguments = json.dumps({"path": path, "content": text})
    found = judge([Ruled(sentence)], arguments, made("write_file"), tmp_path)
    assert (found.kind if found else "") == kind


def test_commands_of_a_nested_file_are_meant_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "web").mkdir()
    rule = Ruled("x", "deny command npm")
    from pathlib import PurePosixPath

    rule.check = compile_rule("Never use `npm`.", hard=True, folder=PurePosixPath("web")).check
    assert shell("npm test", tmp_path, rule) == ""
    assert shell("cd web && npm test", tmp_path, rule) == "deny"


def test_a_script_that_is_run_is_read(tmp_path: Path) -> None:
    (tmp_path / "inner.sh").write_text("git push\n")
    (tmp_path / "outer.sh").write_text("#!/bin/bash\nset -e\nbash inner.sh\n")
    (tmp_path / "fine.sh").write_text("echo git pull\n")
    rule = Ruled("Never push.", "deny command git push")
    assert shell("bash outer.sh", tmp_path, rule) == "deny"
    assert shell("bash < outer.sh", tmp_path, rule) == "deny"
    assert shell("bash fine.sh", tmp_path, rule) == ""
    assert shell("bash later.sh", tmp_path, rule) == "ask"


def test_the_strictest_rule_wins(tmp_path: Path) -> None:
    ask, deny = Ruled("a", "ask command git push"), Ruled("b", "deny command git push")
    assert shell("git push", tmp_path, ask, deny) == "deny"
    assert shell("git push", tmp_path, deny, ask) == "deny"


# --- answers and contexts -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sentence", "bad", "good"),
    [
        ("Never use emojis in your answers.", "Done 🎉", "Done ✓ → `🎉`"),
        ("Never end your answers with a question.", "Shall I go on?", "Why? Because."),
        ("Answers must not exceed 3 words.", "one two three four", "one two three"),
        ("Answers must not exceed 2 sentences.", "One. Two. Three.", "One 1.5 two. Two."),
        ("Final answers must end with `DONE`.", "It works.", "It works.\n\n**DONE**"),
        ("Never start your replies with “Certainly”.", "Certainly! Here", "Here, certainly."),
        ("Answers must not contain `foo`.", "a foo b", "a food b"),
        ("回答必须以「完毕」结尾", "好了。", "好了。完毕。"),
        ("回复不得超过 5 字", "一二三四五六", "一二三四五"),
    ],
)
def test_an_answer_is_judged_by_its_form(sentence: str, bad: str, good: str) -> None:
    rules = [Ruled(sentence)]
    assert judge_answer(rules, good) is None
    objection = judge_answer(rules, bad)
    assert objection is not None
    assert sentence in objection


def test_an_expression_that_never_ends_objects_in_time() -> None:
    objection = judge_answer([Ruled("x", "deny answer /(a+)+$/")], "a" * 5000 + "b")
    assert objection is not None
    assert "too long" in objection


@pytest.mark.parametrize(
    ("path", "kind", "may"),
    [
        ("MEMORY.md", "shared", False),
        ("memory.md", "shared", False),
        ("memory", "shared", False),
        ("notes/MEMORY.md", "shared", False),
        ("docs/memory.md", "shared", False),
        ("MEMORY.md", "main", True),
        ("MEMORY.md", "headless", True),
        ("README.md", "shared", True),
    ],
)
def test_a_context_is_kept_out_of_the_kinds_that_are_named(path: str, kind: str, may: bool) -> None:
    assert (
        check_context([Ruled("Do not load `MEMORY.md` in shared sessions.")], path, kind) == ""
    ) is may


# --- through the loop -----------------------------------------------------------------------------


FILES = {
    "AGENTS.md": "# Safety\n\n- Never edit files in `migrations/`.\n- Never read `secrets/`.\n- Never run `make deploy`.\n",
    "migrations/1.py": "a\n",
    "secrets/key": "KEY\n",
}
OBSCURE = "import os; os.chdir('mig' + chr(114) + 'ations'); open('2.py', 'w').write('x')"


async def bench_call(kit: Bench, command: str) -> str:
    return (await kit.call("run_terminal_cmd", command=command, timeout=20)).text


async def test_the_rules_hold_in_the_loop_and_the_sandbox_holds_what_no_reader_sees() -> None:
    async with open_bench(
        hilum_guard,
        hilum_files,
        hilum_shell,
        hilum_rules,
        files=FILES,
        settings={"guard.unsandboxed": "run"},
    ) as kit:
        root = kit.session.workspace.root
        assert "“Never edit files in `migrations/`.” (AGENTS.md:3)" in await bench_call(
            kit, "touch migrations/2.py"
        )
        assert "“Never run `make deploy`.”" in await bench_call(kit, "make -C . deploy")
        assert "“Never read `secrets/`.”" in (await kit.call("read_file", path="secrets/key")).text
        guard = kit.session.plugin(hilum_guard.Guard)
        assert guard is not None
        if (await guard.sandbox.enforced()).protected:
            await bench_call(kit, f'python3 -c "{OBSCURE}"')
            assert sorted(os.listdir(root / "migrations")) == ["1.py"]
            assert "KEY" not in await bench_call(kit, "grep -rh K . --include=k*")


async def test_a_rule_that_is_edited_holds_from_the_next_turn() -> None:
    """Besides the rule that was there before, until the user lifts it."""
    async with open_bench(hilum_guard, hilum_files, hilum_rules, files=FILES) as kit:
        root = kit.session.workspace.root
        assert "The rule" in (await kit.call("write_file", path="migrations/2.py", content="")).text
        (root / "AGENTS.md").write_text("# Safety\n\n- Never edit files in `docs/`.\n")
        assert (
            "no longer in AGENTS.md"
            in (await kit.call("write_file", path="migrations/2.py", content="")).text
        )
        await kit.run("/reload-rules")
        assert (
            "The rule"
            not in (await kit.call("write_file", path="migrations/2.py", content="")).text
        )
        assert "The rule" in (await kit.call("write_file", path="docs/2.md", content="")).text


async def test_an_answer_that_a_rule_forbids_goes_back_to_the_model() -> None:
    files = {"AGENTS.md": "# Safety\n\n- Never end your answers with a question.\n"}
    async with open_bench(hilum_rules, files=files, answers=["Shall I?", "I shall."]) as kit:
        assert (await kit.run("Go.")).text == "I shall."


# --- what the sandbox is asked to hold ------------------------------------------------------------


def test_what_may_not_be_written_at_all_is_held(root: Path, rules: list[Any]) -> None:
    held, hidden = find_protected_paths(rules, root)
    shown = sorted(os.path.relpath(path, root) for path in held if Path(path).is_relative_to(root))
    assert shown == [
        ".env", "app/migrations", "archive/2020.md", "config/production.yaml", "deploy", "incoming/migrations", "migrations",
        "schema/tables.sql", "schema/v1/tables.sql", "vendor",
    ]  # fmt: skip
    assert sorted(os.path.relpath(path, root) for path in hidden) == ["private", "secrets"]


def test_nothing_is_looked_for_without_rules_on_paths(root: Path) -> None:
    assert find_protected_paths([Ruled("Do not commit.")], root) == ((), ())


def test_where_files_may_be_made_those_that_are_there_are_held(root: Path) -> None:
    rule = Ruled("Never edit files in `migrations/`. Create a new migration instead.")
    held, _ = find_protected_paths([rule], root)
    shown = sorted(os.path.relpath(path, root) for path in held)
    assert shown == ["app/migrations/0001.py", "incoming/migrations/0001.py", "migrations/0001.py"]
    assert shell("touch migrations/0002.py", root, rule) == ""
    assert shell("touch migrations/0001.py", root, rule) == "deny"


async def test_the_rules_hold_after_a_trim() -> None:
    long = {"long.md": "a line of a long text\n" * 1200}
    async with open_bench(
        hilum_files, hilum_rules, files=FILES | long, model=ScriptedModel(window=24_000)
    ) as kit:
        while not kit.of(Compacted):
            await kit.call("read_file", path="long.md")
        assert "The rule" in (await kit.call("write_file", path="migrations/2.py", content="")).text
        assert "The rule" not in (await kit.call("write_file", path="docs/2.py", content="")).text


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("scripts/deploy.sh", "deny"),
        ("./scripts/deploy.sh --now", "deny"),
        ("bash scripts/deploy.sh", "deny"),
        ("cd scripts && ./deploy.sh", "deny"),
        ("cd scripts && sh deploy.sh", "deny"),
        ("timeout 5 ./scripts/../scripts/deploy.sh", "deny"),
        ("./deploy.sh", ""),
        ("cat scripts/deploy.sh", ""),
        ("scripts/check.sh", ""),
    ],
)
def test_a_script_of_a_folder_is_meant_wherever_it_is_run_from(
    command: str, kind: str, tmp_path: Path
) -> None:
    for name in ("scripts/deploy.sh", "scripts/check.sh", "deploy.sh"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("true\n")
    assert shell(command, tmp_path, Ruled("Never run `scripts/deploy.sh`.")) == kind


@pytest.mark.parametrize(
    "command",
    ["python manage.py migrate", "./manage.py migrate", "python3 -u manage.py migrate app"],
)
def test_a_script_is_meant_by_its_interpreter_too(command: str, tmp_path: Path) -> None:
    assert shell(command, tmp_path, Ruled("Never run `manage.py migrate`.")) == "deny"


SENTENCES = ("Never touch `node_modules/`.", "Don't change `*.snap` files.", "Never modify `proto/`.", "Do not rebase.",
             "Never use `git add -A` or `git add .`.", "Use `poetry`, never `pip`.", "Never push to `main`.",
             "Never use `git push --force`.", "Never run `docker compose down -v`.", "Never run `mvn deploy`.",
             "Never call `169.254.169.254`.")  # fmt: skip


@pytest.fixture
def judged(tmp_path: Path) -> Callable[[str], Verdict | None]:
    root = tmp_path.resolve() / "workspace"
    for name in ("node_modules/a/x.js", "src/__snapshots__/a.snap", "proto/a.proto"):
        (root / name).parent.mkdir(parents=True)
        (root / name).touch()
    (root.parent / "AGENTS.md").write_text(
        "# Hard rules\n" + "".join(f"- {each}\n" for each in SENTENCES)
    )
    rules = [rule for rule in hilum_rules.load_rules(root.parent / "AGENTS.md").rules if rule.check]
    assert len(rules) == len(SENTENCES)
    return lambda text: judge(rules, json.dumps({"command": text}), made("run_terminal_cmd"), root)


@pytest.mark.parametrize(
    "text",
    ["echo x > node_modules/a/x.js", "rm -rf node_modules", "sed -i s/a/b/ src/__snapshots__/a.snap", "git pull --rebase",
     "git add --all", "git add ./", "pip3.11 install x", "git push origin 'refs/heads/*'", "git push origin +feature",
     "docker compose down --volumes", "./mvnw deploy", "curl http://169.254.169.254/", "find / -name a.proto -delete",
     "find . -name '*.snap' -delete", "rm -rf /*/../*/workspace/proto"],
)  # fmt: skip
def test_other_spellings_of_what_is_forbidden_do_not_pass(
    text: str, judged: Callable[[str], Verdict | None]
) -> None:
    assert judged(text) is not None


@pytest.mark.parametrize(
    "text",
    ["npm install", "yarn add left-pad", "rsync -a src/ /tmp/src/", "cp -r src /tmp/copy", "git rebase --help",
     "git push origin feature", "docker compose down", "mvn test", "uv pip list", "cat proto/a.proto"],
)  # fmt: skip
def test_what_programs_write_and_copies_elsewhere_are_let_be(
    text: str, judged: Callable[[str], Verdict | None]
) -> None:
    assert judged(text) is None


def test_a_pattern_over_links_that_lead_to_each_other_ends(tmp_path: Path) -> None:
    from hilum_checks.glob_expansion import MAX_FOUND, expand_glob

    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "one/loop").symlink_to(tmp_path / "two")
    (tmp_path / "two/loop").symlink_to(tmp_path / "one")
    (tmp_path / "two/.hidden.py").touch()
    root = str(tmp_path.resolve())
    assert expand_glob(f"{root}/**/*.py", root) == ([f"{root}/two/.hidden.py"], True)
    assert expand_glob("/**/.hidden.py", root)[0][:1] == [f"{root}/two/.hidden.py"]
    assert expand_glob(f"{root}/t?o/loop/loop", root) == ([f"{root}/two/loop/loop"], True)
    for number in range(MAX_FOUND + 1):
        (tmp_path / f"one/{number}").touch()
    assert expand_glob(f"{root}/one/*", root)[1] is False


FOUND = {
    "ok": [
        "find . -name '*.pyc' -delete", "find . -name '*.pyc' -exec rm -f {} +", "find . -name '*.pyc' | xargs rm",
        "find . -name '*.tf' | grep -v infra | xargs rm",
        "find . -name '*.o' -print0 | xargs -0 rm -f", "find build -delete", "find . -type d -empty -delete",
        r"find . \( -name '*.pyc' -o -name '*.pyo' \) -delete", "find . -name '*.md' -exec cp {} {}.bak \\;",
        "find . -type f -not -path './infra/*' -not -path './.*' -exec sed -i s/a/b/ {} +",
        "find . -maxdepth 1 -type f -delete",
        "find . -path ./infra -prune -o -type f -exec sed -i s/a/b/ {} +", "find infra -name '*.tf' | xargs wc -l",
        "find . -name '*.md' | sort | head -3 | xargs -I F mv F /tmp/", "find src -execdir touch {} +",
    ],
    "deny": [
        "find . -name '*.tf' -delete", "find . -name '*.tf' -exec sed -i s/a/b/ {} +", "find . -name '*.tf' | xargs rm -f",
        "find . -type f -delete", "find . -name mod -exec rm -rf {} +", "find . -name '*.md' -exec cp {} infra/ \\;",
        "find . -name '*.tf' -exec cp {} {}.bak \\;", "find . -name '*.tf' -exec env A=1 truncate -s0 {} \\;",
        "find link/ -delete",
        "find ./src/../infra -type f -delete", "find . -delete -name '*.pyc'", "find . -iname 'MAIN*' -exec mv {} /tmp/ \\;",
        r"find . \( -name '*.pyc' -o -name '*.tf' \) -delete",
        "find . ! -name '*.md' -delete", "find src infra -type f -delete",
        "find . -path ./infra -prune -o -name '*.tf' -delete", "find . -name '*.tf' -print0 | xargs -0 -I F mv F /tmp/",
    ],
    "ask": [
        "find . -size +1M -delete", "find . -regex '.*f' -delete", "find -L . -name '*.pyc' -delete", "find $X -delete",
        "find . -name '*.tf' | grep -v mod | xargs rm", "find . -execdir rm main.tf \\;", r"find . -name 'main\.tf' -delete",
        "find . -name '*.md' -exec sh -c 'rm $1' _ {} \\;", "git checkout x && find . -name '*.pyc' -delete",
        "find . -name '*.tf' | while read f; do rm $f; done",
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind, texts in FOUND.items() for text in texts]
)
def test_what_is_done_to_what_is_found_is_judged_by_what_is_there(
    tmp_path: Path, kind: str, text: str
) -> None:
    for name in (
        "infra/main.tf",
        "infra/mod/a.tf",
        "infra/a.pyc",
        "src/a.py",
        "src/b.pyc",
        "build/a.o",
        "docs/a.md",
        "x.txt",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "infra/a.pyc").unlink()
    (tmp_path / "link").symlink_to("infra")
    assert (shell(text, tmp_path.resolve(), Ruled("Never edit files in `infra/`.")) or "ok") == kind


def test_a_folder_with_too_many_names_is_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hilum_guard.effects import file_search

    for number in range(20):
        (tmp_path / f"{number}.pyc").touch()
    rule = Ruled("Never edit files in `infra/`.")
    assert shell("find . -name '*.pyc' -delete", tmp_path, rule) == ""
    monkeypatch.setattr(file_search, "MAX_NAMES", 10)
    assert shell("find . -name '*.pyc' -delete", tmp_path, rule) == "ask"


def test_a_refusal_names_what_would_be_found(tmp_path: Path) -> None:
    (tmp_path / "infra").mkdir()
    (tmp_path / "infra/main.tf").touch()
    found = judge(
        [Ruled("Never edit files in `infra/`.")],
        json.dumps({"command": "find . -name '*.tf' -delete"}),
        made("run_terminal_cmd"),
        tmp_path,
    )
    assert found is not None
    assert "it deletes or moves infra/main.tf." in found.reason


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("git clean -fdx", "deny"),
        ("git clean -fdx infra", "deny"),
        ("git -C infra clean -xdf", "deny"),
        ("git clean -fd", "ask"),
        ("git clean -fdx -e '*.tf'", "ask"),
        ("git clean -fdx src", ""),
        ("git clean -fdx infra/mod", ""),
        ("git clean -ndx", ""),
    ],
)
def test_git_clean_is_judged_by_what_is_not_tracked(tmp_path: Path, text: str, kind: str) -> None:
    import subprocess

    for name in ("infra/main.tf", "infra/mod/a.tf", "src/a.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    rule = Ruled("Never edit files in `infra/`.")
    assert shell("git clean -fdx", tmp_path, rule) == ""
    (tmp_path / "infra/new.tf").touch()
    assert shell(text, tmp_path, rule) == kind
    (tmp_path / ".git/index").write_bytes(b"DIRC\0\0\0\4\0\0\0\1")
    assert shell("git clean -fdx infra", tmp_path, rule) == "deny"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("python3 -c \"print('git push --force')\"", ""),
        ("python -c \"print('never', 'git push --force'); print('x')\"", ""),
        ("python3 -c \"print('git push --force')\" | bash", "deny"),
        ('eval "$(python3 -c "print(\'git push --force\')")"', "deny"),
        (
            "python3 -c \"print('git push --force')\" | python3 -c 'import os; os.system(input())'",
            "deny",
        ),
        ("python3 -c \"print('git push --force')\" > x.sh; sh x.sh", "deny"),
        ("python3 -c \"print(__import__('os').popen('git push --force').read())\"", "deny"),
        ("python3 -c \"import os; print('x'); os.system('git push --force')\"", "deny"),
        ("python3 -c \"print('git push --force', file=open('|sh'))\"", "deny"),
        ("python3 -c \"print = exec; print('git push --force')\"", "deny"),
    ],
)
def test_code_that_only_prints_is_judged_by_what_reads_it(
    tmp_path: Path, text: str, kind: str
) -> None:
    assert shell(text, tmp_path, Ruled("Never use `git push --force`.")) == kind
