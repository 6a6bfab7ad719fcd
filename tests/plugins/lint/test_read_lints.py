"""read_lints: what the project's checkers find, which of them run, and what becomes of those that
misbehave.
"""

import os
import shutil
import sys
from pathlib import Path

import hilum_lint
import pytest
import trio
from hilum import SettingsError, ToolDenied, Workspace, hookimpl
from hilum.errors import E_FILE_NOT_FOUND, E_PATH_TRAVERSAL
from hilum.settings import use_environment
from hilum.testing import open_bench, use
from hilum.trust import TrustedFolders
from hilum_lint.checkers import CHECKERS
from hilum_lint.project import LintProject

TOOLCHAINS = os.environ.get("RUSTUP_HOME") or str(Path.home() / ".rustup")
RUFF = '[tool.ruff.lint]\nselect = ["E", "F"]\n'


# --- Python ---------------------------------------------------------------------------------------


async def test_ruff_of_the_project_is_run_and_errors_come_first(opened, put, install) -> None:
    """Each finding has its place, severity, code, message and checker."""
    put({"pyproject.toml": RUFF, "a.py": "import os\n\nx = missing\n"})
    install("ruff")
    async with opened() as bench:
        result = await bench.call("read_lints", paths=["a.py"])
    lines = result.text.split("\n")
    assert lines[0] == "1 error, 1 warning in 1 file:"
    assert lines[1] == "a.py:3:5 error F821 Undefined name `missing` (ruff)"
    assert lines[2] == "a.py:1:8 warning F401 `os` imported but unused (ruff)"
    assert lines[3].startswith("Checked with: ruff (")
    assert result.data["count"] == 2
    assert result.data["diagnostics"][0]["code"] == "F821"


async def test_nothing_found_is_said_and_nothing_is_written(opened, put, install, root) -> None:
    """A clean file is clean, fixes that the configuration asks for are not made, and no cache is
    left.
    """
    put(
        {"ruff.toml": "fix = true\nunsafe-fixes = true\n", "a.py": "import os\n", "b.py": "x = 1\n"}
    )
    install("ruff")
    async with opened() as bench:
        assert "F401" in (await bench.call("read_lints", paths=["a.py"])).text
        assert (await bench.call("read_lints", paths=["b.py"])).text.startswith(
            "Nothing was found.\nChecked with: ruff"
        )
    assert (root / "a.py").read_text() == "import os\n"
    assert sorted(path.name for path in root.iterdir()) == [".venv", "a.py", "b.py", "ruff.toml"]


async def test_mypy_is_run_with_the_configuration_of_the_nearest_folder(
    opened, put, install
) -> None:
    """In a repository of several projects each has its own checkers, run in its own folder."""
    put({
        "api/mypy.ini": "[mypy]\n",
        "api/a.py": "def f(x: int) -> str:\n    return x\n",
        "web/b.py": "def f(x: int) -> str:\n    return x\n",
    })  # fmt: skip
    install("mypy")
    async with opened() as bench:
        result = await bench.call("read_lints", paths=["api/a.py", "web/b.py"])
    assert "api/a.py:2:12 error return-value Incompatible return value type" in result.text
    assert "web/b.py" not in result.text
    assert "mypy (" in result.text
    assert "syntax (" in result.text


async def test_the_whole_workspace_without_paths(opened, put, install) -> None:
    """Also configurations in folders below are found."""
    put({
        "api/mypy.ini": "[mypy]\nfiles = a.py\n", "api/a.py": "x: int = ''\n", "api/other.py": "x: int = ''\n",
        "tool/ruff.toml": "", "tool/b.py": "import os\n", "c.py": "x = (\n",
    })  # fmt: skip
    install("mypy", "ruff")
    async with opened() as bench:
        text = (await bench.call("read_lints")).text
    assert "api/a.py:1:10 error assignment" in text
    assert "api/other.py" not in text  # the project's configuration says what is checked
    assert "tool/b.py:1:8 warning F401" in text


async def test_use_is_shown_by_a_requirement_as_well(opened, put, install, root) -> None:
    """A project that requires ruff and configures nothing uses it as it is."""
    install("ruff")
    for shown in (
        '[dependency-groups]\ndev = ["ruff>=0.5"]\n',
        '[project.optional-dependencies]\ndev = ["pytest", "ruff"]\n',
        '[tool.poetry.group.dev.dependencies]\nruff = "^0.5"\n',
    ):
        put({"pyproject.toml": shown, "a.py": "import os\n"})
        async with opened() as bench:
            assert "F401" in (await bench.call("read_lints", paths=["a.py"])).text, shown
    put(
        {
            "pyproject.toml": '[project]\ndependencies = ["ruff-lsp"]\n',
            ".pre-commit-config.yaml": "- id: ruff\n",
        }
    )
    async with opened() as bench:
        assert "F401" in (await bench.call("read_lints", paths=["a.py"])).text


async def test_what_the_project_does_not_use_is_not_run(opened, put, install) -> None:
    """Ruff is there, but nothing says that this project uses it: only the syntax is checked."""
    put(
        {
            "pyproject.toml": '[project]\nname = "x"\n',
            "a.py": "import os\nx = (\n",
            "b.txt": "hello",
        }
    )
    install("ruff")
    async with opened() as bench:
        result = await bench.call("read_lints", paths=["a.py", "b.txt"])
    assert result.text.startswith(
        "1 error in 1 file:\na.py:2:5 error invalid-syntax '(' was never closed (syntax)\n"
    )
    assert "ruff" not in result.text
    assert "The project has no checker for: b.txt." in result.text


async def test_syntax_is_not_judged_for_a_python_that_is_newer(opened, put) -> None:
    """What is wrong for one version may be right for the next."""
    put({"pyproject.toml": '[project]\nrequires-python = ">=3.99"\n', "a.py": "x = (\n"})
    async with opened() as bench:
        text = (await bench.call("read_lints", paths=["a.py"])).text
    assert "Not checked with syntax: the project needs Python 3.99, and hilum runs on 3." in text


async def test_odd_python_files(opened, put, root) -> None:
    """Null bytes, wrong encodings and very deep nesting are findings, not failures."""
    (root / "zero.py").write_bytes(b"x = 1\0\n")
    (root / "latin.py").write_bytes("x = 'ä'\n".encode("latin-1"))
    put({"deep.py": "(" * 10_000, "-x.py": "x = (", "warn.py": "x = '\\d'\n"})
    (root / "loop.py").symlink_to("loop.py")
    async with opened() as bench:
        text = (await bench.call("read_lints")).text
    for name in ("zero.py", "latin.py", "deep.py", "-x.py"):
        assert f"\n{name}" in text, text
    assert "warn.py:1 warning invalid-syntax" in text


# --- what is not there, and what must not run -----------------------------------------------------


async def test_configured_and_not_installed_is_told_with_the_projects_own_way(
    opened, put, monkeypatch
) -> None:
    """Nothing is installed by itself."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    put(
        {
            "pyproject.toml": "[tool.flake8x]\n",
            "setup.cfg": "[flake8]\n",
            "uv.lock": "",
            "a.py": "x = 1\n",
        }
    )
    put({"web/eslint.config.js": "", "web/package-lock.json": "{}", "web/a.js": "x\n"})
    async with opened() as bench:
        text = (await bench.call("read_lints", paths=["a.py", "web/a.js"])).text
    assert (
        "Not checked with flake8 (setup.cfg[flake8]): it is not installed; the project installs it with: uv sync."
        in text
    )
    assert (
        "Not checked with eslint (web/eslint.config.js): it is not installed; the project installs it with: npm ci."
        in text
    )


async def test_what_no_file_tells_how_to_install_is_installed_with_pip(
    opened, put, monkeypatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    put({"pyproject.toml": "[tool.mypy]\n", "a.py": "x = 1\n"})
    async with opened() as bench:
        text = (await bench.call("read_lints", paths=["a.py"])).text
    assert "it is not installed; install it in the project's environment: pip install mypy." in text


def test_the_environment_of_the_kernel_tells_where_programs_are(put, root, monkeypatch) -> None:
    """Not that of the process, in which other kernels may run."""
    put({"setup.cfg": "[flake8]\n", "a.py": "x = 1\n"})
    checkers = [checker for checker in CHECKERS if checker.name == "flake8"]
    programs = {}
    for name in ("path", "active/bin", "process"):
        folder = root.parent / name
        folder.mkdir(parents=True)
        programs[name] = folder / "flake8"
        programs[name].write_text("#!/bin/sh\n")
        programs[name].chmod(0o755)

    def find(environ: dict[str, str]) -> str:
        with use_environment(environ):
            (use,) = LintProject(Workspace(root), checkers, True).plan([root / "a.py"])
        return use.program

    monkeypatch.setenv("PATH", str(programs["process"].parent))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    path = {"PATH": str(programs["path"].parent)}
    assert find(path) == str(programs["path"])
    active = {**path, "VIRTUAL_ENV": str(root.parent / "active")}
    assert find(active) == str(programs["active/bin"])


async def test_in_an_untrusted_folder_nothing_of_the_project_runs(
    opened, put, root, monkeypatch
) -> None:
    """Neither its programs nor, whose ever the program is, its plugins and configuration.

    Also not through the PATH.
    """
    proof = root / "ran"
    for name in ("ruff", "mypy", "eslint"):
        for folder in (".venv/bin", "node_modules/.bin"):
            put({f"{folder}/{name}": f"#!/bin/sh\ntouch {proof}\n"})
            (root / folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{root}/.venv/bin:.venv/bin:{root}/link:/usr/bin:/bin")
    monkeypatch.setenv("VIRTUAL_ENV", f"{root}/.venv")
    (root / "link").symlink_to(root / ".venv/bin")
    put(
        {
            "ruff.toml": "",
            "mypy.ini": "[mypy]\n",
            "eslint.config.js": "",
            "a.py": "x = (\n",
            "a.js": "x\n",
        }
    )
    async with opened(trusted=False) as bench:
        text = (await bench.call("read_lints", paths=["a.py", "a.js"])).text
    assert not proof.exists()
    assert (
        "ruff (ruff.toml): its program is part of the project, and this folder is not trusted."
        in text
    )
    assert (
        "mypy (mypy.ini[mypy]): it runs the project's code, and this folder is not trusted." in text
    )
    assert "eslint (eslint.config.js): it runs the project's code" in text
    assert "a.py:1:5 error invalid-syntax" in text  # what needs nothing of it still works


async def test_a_folder_that_the_user_trusts_by_command_may_run_its_programs(
    opened, put, root, monkeypatch, tmp_path
):
    """``hilum trust`` counts, and what it says holds at the next look."""
    monkeypatch.setenv("HILUM_CONFIG", str(tmp_path / "config"))
    put({".venv/bin/ruff": f"#!/bin/sh\ntouch {root}/ran\n", "ruff.toml": "", "a.py": "x = 1\n"})
    (root / ".venv/bin/ruff").chmod(0o755)
    async with opened(trusted=False) as bench:
        await bench.call("read_lints", paths=["a.py"])
        assert not (root / "ran").exists()
        TrustedFolders().add(root)
        await bench.call("read_lints", paths=["a.py"])
        assert (root / "ran").exists()


async def test_in_an_untrusted_folder_the_users_own_ruff_runs(
    opened, put, monkeypatch, tmp_path
) -> None:
    """It only reads."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    put({"ruff.toml": "", "a.py": "import os\n"})
    async with opened(trusted=False) as bench:
        assert "F401" in (await bench.call("read_lints", paths=["a.py"])).text


async def test_a_project_cannot_add_checkers_or_trust_itself(opened, put, root, fake) -> None:
    """Its settings may only switch checkers off."""
    for wrong in (
        'trusted = ["/"]',
        '[lint.checkers.x]\ncommand = ["sh"]\npattern = "x"\nfiles = [""]',
    ):
        put({".hilum/settings.toml": f"[lint]\n{wrong}\n"})
        with pytest.raises(SettingsError, match="only the user may set this"):
            async with opened():
                pass
    put({".hilum/settings.toml": '[lint]\noff = ["syntax"]\n', "a.py": "x = (\n"})
    async with opened() as bench:
        assert (
            await bench.call("read_lints", paths=["a.py"])
        ).text == "The project has no checker for: a.py."


async def test_paths_stay_in_the_workspace(opened, put) -> None:
    """As for every tool."""
    async with opened() as bench:
        assert (await bench.call("read_lints", paths=["../x.py"])).code == E_PATH_TRAVERSAL
        assert (await bench.call("read_lints", paths=["none.py"])).code == E_FILE_NOT_FOUND


async def test_reading_is_what_it_counts_as(opened) -> None:
    """It may run under the policy that only reads."""
    async with opened(approve="readonly") as bench:
        assert bench.session.tools["read_lints"].risk == "read"
        assert not (await bench.call("read_lints")).code


# --- a user's own checkers, and bad ones ----------------------------------------------------------


async def test_a_checker_of_the_users_own(opened, put, fake, root) -> None:
    """A command and a pattern are enough; it runs where its configuration stands."""
    put({"sub/fake.cfg": "", "sub/a.txt": "hello", "b.txt": "hello"})
    settings = fake(
        'echo "a.txt:7: warning W1 in $(pwd)"; for f; do echo "$f:1: fatal E1 bad"; done',
        configs=["fake.cfg"],
    )
    async with opened(**settings) as bench:
        result = await bench.call("read_lints", paths=["sub/a.txt", "b.txt"])
    assert "sub/a.txt:1 error E1 bad (fake)\n" in result.text
    assert f"sub/a.txt:7 warning W1 in {root}/sub (fake)\n" in result.text
    assert "no checker for: b.txt" in result.text


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("pattern", "(", "is not a regular expression"),
        ("pattern", "x", "has no group line, message, path"),
        ("command", [], "is empty"),
    ],
)
async def test_mistakes_in_a_users_checker_are_told(opened, fake, key, value, words) -> None:
    """The plugin does not open, and says why."""
    async with opened(**fake("true", **{key: value})) as bench:
        bench.allow_faults()
        assert "read_lints" not in bench.session.tools
        assert words in str(bench.kernel.faults[0])


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("yes | head -c 100000000", "it printed more than 32 MB and was ended"),
        ("yes | head -c 100000000 >&2", "it printed more than 32 MB and was ended"),
        ("kill -SEGV $$", "signal 11"),
        ("head -c 10000 /dev/urandom; exit 3", "(exit code 3)"),
        ("echo trying; echo 'fetch error: no network'; echo bye; exit 1", "fetch error: no network (exit code 1)."),
        ("echo '  File \"x\"' >&2; echo 'ValueError: no' >&2; exit 1", "ValueError: no (exit code 1)."),
    ],
)  # fmt: skip
async def test_a_checker_that_misbehaves_is_told_in_one_line(
    opened, put, fake, script, words
) -> None:
    """The others go on."""
    put({"a.txt": "hello"})
    good = fake('echo "$1:1: error E1 bad"', name="good")
    async with opened(**fake(script), **good) as bench:
        text = (await bench.call("read_lints", paths=["a.txt"])).text
    (line,) = [line for line in text.split("\n") if "Not checked" in line]
    assert line.startswith("Not checked with fake: ")
    assert words in line
    assert len(line) < 300
    assert "a.txt:1 error E1 bad (good)" in text


@pytest.mark.parametrize("script", ["sleep 1000", "trap '' TERM; while :; do sleep 5; done"])
async def test_a_checker_that_does_not_end_is_ended(
    clock, opened, put, fake, checked, script
) -> None:
    """When its time is over, and the others are heard."""
    put({"a.txt": "hello"})
    good = fake('echo "$1:1: error E1 bad"', name="good")
    async with (
        opened(**fake(script), **good, **{"lint.timeout": 9}) as bench,
        trio.open_nursery() as nursery,
    ):

        @nursery.start_soon
        async def wait() -> None:
            await checked("good").wait()
            clock.jump(9)

        text = (await bench.call("read_lints", paths=["a.txt"])).text
    assert "Not checked with fake: it took longer than 9 s and was ended" in text
    assert "a.txt:1 error E1 bad (good)" in text


@pytest.mark.parametrize(
    "printed", ["null", "[1]", '[{"code": 1}]', "{", "Segmentation fault", '{"a": []}']
)
async def test_json_that_is_none_is_told(opened, put, fake, printed, root) -> None:
    """A ruff that prints something else than it should."""
    put(
        {
            "ruff.toml": "",
            "a.py": "x = 1\n",
            ".venv/bin/ruff": f"#!/bin/sh\nprintf '%s' '{printed}'\n",
        }
    )
    (root / ".venv/bin/ruff").chmod(0o755)
    async with opened() as bench:
        text = (await bench.call("read_lints", paths=["a.py"])).text
    assert "Not checked with ruff (ruff.toml): " in text


async def test_a_refused_process_is_told(put, root) -> None:
    """A sandbox that cannot be built, or a rule of the user's."""

    class Refuser:
        @hookimpl
        def wrap_process(self, command):
            raise ToolDenied("There is no sandbox.")

    put({"a.py": "x = (\n"})
    async with open_bench(hilum_lint, Refuser(), workspace=root) as bench:
        text = (await bench.call("read_lints", paths=["a.py"])).text
    assert text.startswith(
        "Not checked with syntax: The command may not start. There is no sandbox."
    )


async def test_files_of_a_project_that_are_not_what_they_seem(opened, put, root) -> None:
    """Broken, binary, nested without end, folders, pipes and links: they show no use, and nothing
    waits for them.
    """
    (root / "pyproject.toml").write_bytes(b"\xff\0[tool.ruff]")
    (root / "setup.cfg").write_text("flake8]\n[flake8")
    (root / "package.json").write_text("[" * 100_000)
    (root / "tsconfig.json").mkdir()
    (root / ".flake8").symlink_to("nowhere")
    put({"a.py": "x = (\n", "a.js": "x", "pipe/a.py": "x = 1\n", "deep/a.py": "x = 1\n"})
    os.mkfifo(root / "pipe" / "pyproject.toml")
    (root / "deep" / "pyproject.toml").write_text("a = " + "[" * 100_000)
    async with opened(**{"lint.off": ["flake8", "tsc"]}) as bench:
        with trio.fail_after(60):
            text = (await bench.call("read_lints")).text
    assert "a.py:1:5 error invalid-syntax" in text
    assert "Not checked" not in text


async def test_a_wrong_configuration_is_told(opened, put, install) -> None:
    """In the words of the checker."""
    put(
        {
            "ruff.toml": "selct = 1\n",
            "mypy.ini": "[mypy]\nplugins = nothing_here\n",
            "a.py": "x = 1\n",
        }
    )
    install("ruff", "mypy")
    async with opened() as bench:
        text = (await bench.call("read_lints", paths=["a.py"])).text
    assert "Not checked with ruff (ruff.toml): " in text
    assert "selct" in text
    assert 'Error importing plugin "nothing_here"' in text


async def test_output_is_bounded(opened, put, install) -> None:
    """Errors are what is kept; what is cut is counted."""
    put({"ruff.toml": "", "a.py": "import os, sys\n" * 50 + "x = missing\n"})
    install("ruff")
    async with opened(**{"lint.limit": 3}) as bench:
        text = (await bench.call("read_lints", paths=["a.py"])).text
    lines = text.split("\n")
    assert lines[1].startswith("a.py:51:5 error F821")
    assert len([line for line in lines if line.startswith("a.py:")]) == 3
    assert "more are not shown: " in lines[4]


async def test_what_a_checker_says_is_one_plain_line(opened, put, fake) -> None:
    """Escapes, direction marks and length are taken out of what quotes a file."""
    put({"a.txt": "hello"})
    many = "$(head -c 5000 /dev/zero | tr '\\0' x)"
    script = (
        'printf \'%s:1: error E1 \\033[31mred\\033[0m \\342\\200\\256 %s\\n\' "$1" "' + many + '"'
    )
    async with opened(**fake(script)) as bench:
        text = (await bench.call("read_lints", paths=["a.txt"])).text
    assert "\033" not in text
    assert "\u202e" not in text
    assert len(text) < 600


async def test_stopping_ends_the_checkers(opened, put, fake, root, until) -> None:
    """At once, and nothing is left of them."""
    put({"a.txt": "hello"})
    answers = [use("read_lints", paths=["a.txt"])]
    async with opened(
        answers=answers, **fake(f"mkfifo {root}/begun; echo $$ >{root}/begun; sleep 1000")
    ) as bench:
        run = await bench.start("Look.")
        await until((root / "begun").exists)
        with trio.fail_after(60):
            pid = int(await trio.to_thread.run_sync((root / "begun").read_text))
            run.stop()
            assert (await run.wait()).state == "stopped"
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


# --- other languages, where their tools are -------------------------------------------------------


@pytest.mark.skipif(not shutil.which("cargo"), reason="needs cargo")
async def test_cargo(opened, put, monkeypatch) -> None:
    """The compiler's errors, with code and place."""
    monkeypatch.setenv("RUSTUP_HOME", TOOLCHAINS)
    put({
        "Cargo.toml": '[package]\nname = "c"\nversion = "0.1.0"\nedition = "2021"\n',
        "src/main.rs": 'fn main() { let x: i32 = "a"; }\n',
    })  # fmt: skip
    async with opened() as bench:
        text = (await bench.call("read_lints", paths=["src/main.rs"])).text
    if "Not checked" in text:
        pytest.skip("cargo finds no toolchain here")
    assert "src/main.rs:1:26 error E0308 mismatched types (cargo check)" in text


@pytest.mark.skipif(not shutil.which("eslint"), reason="needs eslint")
async def test_eslint(opened, put) -> None:
    """Findings, what cannot be parsed, and nothing of files it ignores.

    A broken configuration is told.
    """
    rules = 'export default [{rules: {"no-undef": "error", "no-unused-vars": "warn"}}, {ignores: ["c.js"]}]'
    put({"eslint.config.mjs": rules, "a.js": "var x = y;\n", "b.js": "var (", "c.js": "var ("})
    async with opened() as bench:
        text = (await bench.call("read_lints", paths=["a.js", "b.js", "c.js"])).text
        assert "a.js:1:9 error no-undef 'y' is not defined. (eslint)" in text
        assert "a.js:1:5 warning no-unused-vars" in text
        assert "b.js:1:5 error Parsing error" in text
        assert "c.js" not in text
        put({"eslint.config.mjs": "throw new Error('boo')"})
        text = (await bench.call("read_lints", paths=["a.js"])).text
    assert "Not checked with eslint (eslint.config.mjs): Error: boo." in text


@pytest.mark.skipif(not shutil.which("tsc"), reason="needs tsc")
async def test_tsc(opened, put, root) -> None:
    """One configuration, or one that is made of others; nothing is emitted."""
    put(
        {
            "tsconfig.json": '{"compilerOptions": {"strict": true}}',
            "src/a.ts": 'export const x: number = "a";\n',
        }
    )
    async with opened() as bench:
        found = "src/a.ts:1:14 error TS2322 Type 'string' is not assignable to type 'number'. (tsc)"
        assert found in (await bench.call("read_lints", paths=["src/a.ts"])).text
        put(
            {
                "tsconfig.json": '{"files": [], /* all */ "references": [{"path": "./tsconfig.app.json"}]}'
            }
        )
        put({"tsconfig.app.json": '{"compilerOptions": {"composite": true}, "include": ["src"]}'})
        assert found in (await bench.call("read_lints", paths=["src/a.ts"])).text
    assert not list(root.rglob("*.js"))
