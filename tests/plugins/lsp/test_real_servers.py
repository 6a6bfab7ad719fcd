"""Definitions, references and renames with ty, and with nothing installed."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import hilum_files
import pytest
import trio
from hilum import allow, deny, hookimpl
from hilum.events import ApprovalAsked, RoundEnded
from hilum.testing import say, use
from hilum_lsp import LanguageServers, renames
from hilum_lsp.servers import SERVERS

MANY = 31


@pytest.fixture
def project(put, install):
    """A project whose files all use one function; other names are spelled the same."""
    files = {"pyproject.toml": "[tool.ty]\n", "core.py": "def helper(value):\n    return value\n"}
    for number in range(MANY):
        files[f"part{number:02}.py"] = (
            "from core import helper\n\n\n"
            f"def use{number}():\n    helper = 1  # helper\n    return helper\n\n\n"
            f'print(helper({number}), "helper", helper)\n'
        )
    files["other.py"] = 'def helper():\n    return "helper"\n'
    put(files)
    install("ty")
    return files


RENAME = {"name": "helper", "new_name": "assist", "path": "core.py"}


async def approve_rename(bench, before=lambda: None):
    """Make the rename with the user's approval; return the question and the result."""
    bench.model.next(use("rename_symbol", **RENAME), say("Done."))
    run = await bench.start("Rename it.")
    asked = await bench.wait_for(ApprovalAsked)
    before()
    bench.session.answer(asked.id, True)
    with bench.guard():
        await run.wait()
    return asked, bench.result("rename_symbol")


def history(bench):
    return bench.session.plugin(hilum_files.Changes)


async def test_names_are_found_where_they_are_defined_and_used(project, opened):
    """Other names that are spelled the same are not found."""
    async with opened() as bench:
        where = await bench.call("find_definition", name="helper", path="part03.py")
        assert where.text == "helper is defined at:\ncore.py:1: def helper(value):"
        uses = await bench.call("find_references", name="helper", path="core.py")
        assert f"{1 + 3 * MANY} uses of helper in {1 + MANY} files" in uses.text
        assert "part00.py:9: print(helper(0)" in uses.text
        assert "part00.py:5" not in uses.text
        local = await bench.call("find_references", name="helper", path="part03.py", line=5)
        assert "2 uses of helper in 1 file," in local.text
        symbols = await bench.call("list_symbols", path="part03.py")
        assert "4: function use3" in symbols.text
        found = await bench.call("list_symbols", query="use1")
        assert "part17.py:4: function use17" in found.text


async def test_a_rename_over_many_files_is_one_call_and_one_step_of_undo(project, opened, root):
    """Every reference changes, and nothing else; the user sees all changes before."""
    (root / "link.py").symlink_to("part00.py")
    async with opened(approve="ask_first") as bench:
        asked, result = await approve_rename(bench)
        assert not result.code, result.text
        assert f"in {1 + 3 * MANY} places in {1 + MANY} files" in result.text
        assert "although the word helper occurs there: other.py." in result.text
        assert "Changed, but the word helper still occurs there: part00.py" in result.text
        assert "link.py" not in result.text
        assert asked.call.arguments.count("+print(assist(") == MANY
        for name, text in project.items():
            if name.startswith(("core", "part")):
                wanted = re.sub(r"(import |print\(|def |, )helper\b", r"\1assist", text)
                assert (root / name).read_text() == wanted
        await history(bench).undo("call")
        for name, text in project.items():
            assert (root / name).read_text() == text


async def test_a_rename_goes_through_packages_that_export_the_name_again(
    put, install, opened, root
):
    """ty lists these uses, but its own rename stops at the package."""
    put(
        {
            "pkg/__init__.py": "from .core import Fault as Fault\nfrom .core import other\n",
            "pkg/core.py": "class Fault(Exception):\n    pass\n\n\ndef other():\n    return Fault\n",
            "use.py": (
                "import pkg\nimport pkg as p\nfrom pkg import Fault\nfrom pkg import Fault as Mine\n"
                "from pkg.core import Fault as Core\n\n"
                "print(Fault, pkg.Fault, p.Fault, Mine, Core, 'Fault')\n"
            ),
        }
    )
    install("ty")
    async with opened() as bench:
        result = await bench.call(
            "rename_symbol", name="Fault", new_name="Failure", path="pkg/core.py"
        )
    assert not result.code, result.text
    assert "in 10 places in 3 files" in result.text
    exported = (root / "pkg/__init__.py").read_text()
    assert exported == "from .core import Failure as Failure\nfrom .core import other\n"
    assert (
        "print(Failure, pkg.Failure, p.Failure, Mine, Core, 'Fault')"
        in (root / "use.py").read_text()
    )
    # It fails if an import does not find the name.
    await trio.run_process([sys.executable, "use.py"], cwd=root, capture_stdout=True)


async def test_an_alias_of_one_file_is_renamed_in_that_file(put, install, opened, root):
    """Another file may have an alias of the same name for the same function."""
    text = "from core import helper as h\n\nprint(h(1))\n"
    put({"core.py": "def helper(value):\n    return value\n", "a.py": text, "b.py": text})
    install("ty")
    async with opened() as bench:
        result = await bench.call("rename_symbol", name="h", new_name="short", path="a.py", line=3)
    assert not result.code, result.text
    assert (root / "a.py").read_text() == "from core import helper as short\n\nprint(short(1))\n"
    assert (root / "b.py").read_text() == text


async def test_a_rename_whose_diff_is_too_long_names_the_other_files(
    project, opened, root, monkeypatch
):
    """What the user approves includes the name of every file and its number of places."""
    monkeypatch.setattr(renames, "MAX_PREVIEW", 500)
    async with opened(approve="ask_first") as bench:
        asked, result = await approve_rename(bench)
    assert not result.code, result.text
    preview = json.loads(asked.call.arguments)["preview"]
    shown = {name for name in project if f"+++ {name}" in preview}
    listed = {name for name in project if f"\n{name}: 3 places\n" in preview}
    changed = {name for name in project if name.startswith(("core", "part"))}
    assert shown
    assert listed
    assert shown | listed == changed
    assert not shown & listed
    assert preview.startswith("[The diff is too long to be shown.")


async def test_diagnostics_of_a_rename_are_told(put, install, opened, root):
    """A name in a text, which the rename leaves, is an error now."""
    put(
        {
            "pyproject.toml": "[tool.ty]\n",
            "ruff.toml": 'lint.select = ["F"]\n',
            "core.py": '__all__ = ["helper"]\n\n\ndef helper():\n    return 1\n',
        }
    )
    install("ty", "ruff")
    async with opened() as bench:
        bench.model.next(
            use("call_tool", name="rename_symbol", arguments=RENAME), say("Done."), say("Seen.")
        )
        await bench.run("Rename it.")
        result = bench.result("call_tool")
        notes = "".join("".join(event.notes) for event in bench.of(RoundEnded))
    assert (root / "core.py").read_text().startswith('__all__ = ["helper"]\n\n\ndef assist')
    assert "files, preview]" in result.text
    assert "without" not in result.text
    assert "F822" in notes


async def test_a_keyword_is_no_new_name(project, opened, root):
    async with opened() as bench:
        result = await bench.call("rename_symbol", **{**RENAME, "new_name": "class"})
    assert result.code == "E_BAD_ARGS"
    assert "keyword" in result.text
    for name, text in project.items():
        assert (root / name).read_text() == text


async def test_a_search_that_was_cut_off_is_not_taken_for_complete(project, opened, monkeypatch):
    monkeypatch.setattr(renames, "MAX_SEARCHED", 2)
    async with opened() as bench:
        result = await bench.call("rename_symbol", **RENAME)
    assert "(Only the first 2 files were searched for the word.)" in result.text


async def test_files_of_the_same_language_are_searched_for_the_old_name(put, project, opened):
    put({"typed.pyi": "# helper\n", "notes.md": "helper\n"})
    async with opened() as bench:
        result = await bench.call("rename_symbol", **RENAME)
    assert "occurs there: other.py, typed.pyi." in result.text
    assert "were searched" not in result.text


async def test_a_rename_is_denied_by_rules_about_the_files_that_it_would_change(
    project, opened, root
):
    """The other gates judge what the server said, not what the model said."""

    class Rules:
        @hookimpl
        def on_tool_call(self, call, tool):
            written = tool.paths_written(tool.check(call.arguments))
            return deny("No.") if "part07.py" in written else allow()

    Rules.gates = ("on_tool_call",)
    async with opened(Rules()) as bench:
        result = await bench.call("rename_symbol", **RENAME, files=["core.py"])
        assert result.code == "E_DENIED"
    assert (root / "core.py").read_text() == project["core.py"]


async def test_line_ends_marks_and_wide_characters_are_kept(put, install, opened, root):
    put({"pyproject.toml": "[tool.ty]\n"})
    install("ty")
    before = '\ufeffdef caf\u00e9():\r\n    return "\U0001f600"\r\n\r\n\r\nx = "\U0001f600\U0001f600", caf\u00e9()\r\n'
    (root / "a.py").write_bytes(before.encode())
    (root / "b.py").write_bytes(
        'from a import caf\u00e9; y = "\U0001f600\u4e2d"; café()\r'.encode()
    )
    async with opened() as bench:
        result = await bench.call("rename_symbol", name="caf\u00e9", new_name="tea", path="a.py")
    assert not result.code, result.text
    assert (root / "a.py").read_bytes().decode() == before.replace("caf\u00e9", "tea")
    assert (
        root / "b.py"
    ).read_bytes().decode() == 'from a import tea; y = "\U0001f600\u4e2d"; tea()\r'


async def test_a_name_behind_a_mark_in_the_first_line_is_renamed(put, install, opened, root):
    """ty counts the mark of a file that it reads itself as a character."""
    put({"pyproject.toml": "[tool.ty]\n", "a.py": "def helper():\n    return 1\n"})
    install("ty")
    before = "\ufefffrom a import helper; helper()\nhelper()\n"
    (root / "b.py").write_text(before)
    async with opened() as bench:
        result = await bench.call("rename_symbol", **RENAME | {"path": "a.py"})
        assert not result.code, result.text
        assert (root / "b.py").read_text() == before.replace("helper", "assist")
        # Now the server has the text of the file from hilum, without the mark.
        back = {"name": "assist", "new_name": "helper", "path": "b.py"}
        result = await bench.call("rename_symbol", **back)
    assert not result.code, result.text
    assert (root / "b.py").read_text() == before


async def test_a_name_that_means_something_else_there_is_refused(put, install, opened, root):
    """The server would rename it all the same."""
    put({"pyproject.toml": "[tool.ty]\n", "core.py": "def helper(): ...\n"})
    before = "from core import helper\n\nassist = helper()\n"
    put({"b.py": before})
    install("ty")
    async with opened() as bench:
        result = await bench.call("rename_symbol", **RENAME)
    assert result.code == "E_BAD_ARGS"
    assert "assist already means something else in the module of b.py" in result.text
    assert (root / "b.py").read_text() == before
    assert (root / "core.py").read_text() == "def helper(): ...\n"


async def test_the_user_reads_that_the_new_name_occurs_there(put, install, opened):
    put({"pyproject.toml": "[tool.ty]\n"})
    put({"core.py": "def helper(): ...\n\n\n# They assist.\n"})
    install("ty")
    async with opened(approve="ask_first") as bench:
        asked, result = await approve_rename(bench)
    assert "Warning: the word assist already occurs in core.py." in asked.call.arguments
    assert "Warning: the word assist already occurs in core.py." in result.text


async def test_imports_and_keywords_keep_their_names(put, install, opened, root):
    """What a server may write besides the new name."""
    put({"pyproject.toml": "[tool.ty]\n", "a.py": "def f(helper):\n    return helper\n"})
    put({"b.py": "from a import f\n\nhelper = 1\nf(helper=helper)\n"})
    install("ty")
    async with opened() as bench:
        result = await bench.call("rename_symbol", **RENAME | {"path": "b.py", "line": 3})
    assert not result.code, result.text
    assert (root / "b.py").read_text().endswith("assist = 1\nf(helper=assist)\n")


async def test_changes_by_commands_are_known_before_the_next_answer(project, opened, root):
    """In files that are open, and in others."""
    async with opened() as bench:
        await bench.call("find_references", name="helper", path="core.py")
        await bench.call("find_definition", name="helper", path="part01.py")
        (root / "part01.py").write_text("\n\nfrom core import helper\n")
        (root / "new.py").write_text("from core import helper\n")
        (root / "part00.py").unlink()
        (root / "core.py").write_text("\n\n" + project["core.py"])
        uses = await bench.call("find_references", name="helper", path="core.py")
    assert "new.py:1: from core import helper" in uses.text
    assert "core.py:3: def helper(value):" in uses.text
    assert "part00.py" not in uses.text
    assert "part01.py:3: from core import helper" in uses.text
    assert "part01.py:9" not in uses.text


async def test_a_file_that_changes_before_the_approval_is_not_written(project, opened, root):
    """Neither is any other file."""
    async with opened(approve="ask_first") as bench:

        def change() -> None:
            (root / "part09.py").write_text("# mine\n" + project["part09.py"])

        _, result = await approve_rename(bench, change)
    assert result.code == "E_STALE"
    assert "assist" not in "".join(path.read_text() for path in root.glob("*.py"))


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ({"name": "nowhere", "path": "core.py"}, "E_NOT_FOUND", "does not occur in core.py"),
        ({"name": "helper", "path": "core.py", "line": 2}, "E_NOT_FOUND", "it is on line 1"),
        ({"name": "helper", "path": "gone.py"}, "E_FILE_NOT_FOUND", "gone.py"),
        ({"name": "helper", "path": "../x.py"}, "E_PATH_TRAVERSAL", "../x.py"),
        ({"name": "go", "path": "twice.py"}, "E_MULTIPLE_MATCHES", "on lines 2, 5"),
        ({"name": "x", "path": "a.zig"}, "E_NOT_INSTALLED", "no language server for .zig files"),
    ],
)
async def test_errors_name_the_next_step(put, install, opened, arguments, code, text):
    put(
        {
            "core.py": "def helper():\n    return 1\n",
            "twice.py": "class A:\n    def go(self): ...\n\nclass B:\n    def go(self): ...\n",
            "a.zig": "x",
        }
    )
    install("ty")
    async with opened() as bench:
        result = await bench.call("find_definition", **arguments)
        assert result.code == code
        assert text in result.text
        if code == "E_MULTIPLE_MATCHES":
            found = await bench.call("find_definition", name="B.go", path="twice.py")
            assert "twice.py:5" in found.text


async def test_a_server_of_the_project_only_runs_if_the_user_trusts_it(project, opened):
    async with opened(trusted=False, environ={"PATH": ""}) as bench:
        result = await bench.call("find_definition", name="helper", path="core.py")
        assert result.code == "E_NOT_INSTALLED"
        assert "not trusted" in result.text
        assert bench.session.processes.alive == 0


async def test_servers_can_be_switched_off(project, opened):
    async with opened(**{"lsp.enabled": False}) as bench:
        result = await bench.call("find_definition", name="helper", path="core.py")
    assert result.code == "E_NOT_CONFIGURED"


async def test_tools_are_deferred_until_a_server_runs(project, opened):
    async with opened() as bench:
        tools = [bench.session.tools[name] for name in ("find_definition", "rename_symbol")]
        agent = bench.session.agents["main"]
        assert all(each.is_deferred(agent) for each in tools)
        await bench.call("find_definition", name="helper", path="core.py")
        assert not any(each.is_deferred(agent) for each in tools)


async def test_an_idle_server_ends_and_starts_again(project, opened, monkeypatch):
    from hilum_lsp import server_process

    monkeypatch.setattr(server_process, "LOOK_SECONDS", 0.02)
    async with opened() as bench:
        await bench.call("find_definition", name="helper", path="core.py")
        pool = bench.session.plugin(LanguageServers).pool
        (server,) = pool.running()
        server.last_use -= 10_000
        while bench.session.processes.alive:
            await server.changed.wait()
        result = await bench.call("find_definition", name="helper", path="core.py")
        assert not result.code


@pytest.mark.parametrize("name", ["ty", "pyright-langserver"])
async def test_a_server_cannot_write_to_the_workspace(put, opened, root, name):
    """It runs in the sandbox of processes that only look at files, also if it runs code."""
    program = root / ".venv/bin" / name
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\ntouch {root}/written && echo written >&2\nexit 3\n")
    program.chmod(0o755)
    put({"a.py": "x = 1\n"})
    # The other server may be installed in this environment.
    off = [each for each in ("ty", "basedpyright", "pyright") if not name.startswith(each)]
    async with opened("guard", **{"lsp.off": off}) as bench:
        result = await bench.call("find_definition", name="x", path="a.py")
    assert result.code in ("E_FAILED", "E_NOT_INSTALLED", "E_TIMEOUT")
    assert "ead-only file system" in result.text
    assert not (root / "written").exists()


def hide(bench, path: str) -> None:
    """Write a rule of the user that holds from the next call on."""
    rules = bench.folder / "config" / "permissions.toml"
    rules.parent.mkdir(exist_ok=True)
    rules.write_text(f'deny = ["read_file({path})"]\n')


async def test_files_that_were_hidden_since_are_neither_quoted_nor_renamed(project, opened, root):
    """The running server has read them before the user made the rule."""
    async with opened("guard") as bench:
        await bench.call("find_references", name="helper", path="core.py")
        hide(bench, "part05.py")
        uses = await bench.call("find_references", name="helper", path="core.py")
        assert "part04.py:1: from core import helper" in uses.text
        assert "part05.py:1\n" in uses.text
        assert "part05.py:1:" not in uses.text
        found = await bench.call("list_symbols", query="use")
        assert "part04.py:4" in found.text
        assert "part05.py" not in found.text
        assert (await bench.call("list_symbols", path="part05.py")).code == "E_DENIED"
        renamed = await bench.call("rename_symbol", **RENAME)
        assert renamed.code == "E_DENIED"
        assert "part05.py" in renamed.text
    assert (root / "core.py").read_text() == project["core.py"]


async def test_a_server_does_not_see_hidden_files_and_the_model_reads_so(project, opened, root):
    async with opened("guard") as bench:
        hide(bench, "part05.py")
        uses = await bench.call("find_references", name="helper", path="core.py")
        assert "(Rules hide part05.py from the language server.)" in uses.text
        renamed = await bench.call("rename_symbol", **RENAME)
        assert "(Rules hide part05.py from the language server.)" in renamed.text
    assert "assist" in (root / "part04.py").read_text()
    assert (root / "part05.py").read_text() == project["part05.py"]


GO = {
    "go.mod": "module example.org/x\n\ngo 1.19\n",
    "main.go": 'package main\n\nimport "example.org/x/sub"\n\nfunc main() { println(sub.Double(2)) }\n',
    "sub/a.go": "package sub\n\nfunc Double(n int) int { return 2 * n }\n",
}
C = {
    "compile_flags.txt": "-Wall\n",
    "a.h": "int twice(int n);\n",
    "a.c": '#include "a.h"\nint twice(int n) { return 2 * n; }\n',
    "main.c": '#include "a.h"\nint main(void) { return twice(2); }\n',
}


@pytest.mark.parametrize(
    ("program", "files", "name", "path", "uses", "defined"),
    [
        ("gopls", GO, "Double", "sub/a.go", 2, "sub/a.go:3"),
        ("clangd", C, "twice", "a.h", 3, "a.c:2"),
    ],
)
async def test_servers_that_read_the_project_in_the_background(
    put, opened, root, program, files, name, path, uses, defined
):
    """In the sandbox, which has no writable cache for them but its own."""
    if not shutil.which(program):
        pytest.skip(f"needs {program}")
    compiled = [each for each in files if each.endswith(".c")]
    commands = [{"directory": str(root), "command": f"cc -c {n}", "file": n} for n in compiled]
    put({**files, **({"compile_commands.json": json.dumps(commands)} if compiled else {})})
    names = set(os.listdir(root))
    async with opened("guard") as bench:
        found = await bench.call("find_references", name=name, path=path)
        assert found.text.startswith(f"{uses} uses of {name} in {uses} files"), found.text
        where = await bench.call("find_definition", name=name, path=path)
        assert f"\n{defined}:" in where.text
        renamed = await bench.call("rename_symbol", name=name, new_name="Other", path=path)
        assert f"in {uses} places in {uses} files" in renamed.text
        await history(bench).undo("call")
    assert set(os.listdir(root)) == names
    for each, text in files.items():
        assert (root / each).read_text() == text


TYPESCRIPT = {
    "tsconfig.json": "{}\n",
    "a.ts": "export function twice(n: number): number { return 2 * n; }\n",
    "b.ts": 'import { twice } from "./a";\nconsole.log(twice(1));\n',
}


async def test_typescript_7_is_its_own_server(put, opened, root):
    packages = Path(os.environ.get("NPM_SERVERS", ""), "node_modules")
    if not (packages / "typescript").is_dir():
        pytest.skip("needs typescript 7 in NPM_SERVERS")
    put(TYPESCRIPT)
    (root / "node_modules").symlink_to(packages)
    async with opened() as bench:
        found = await bench.call("find_references", name="twice", path="a.ts")
        assert found.text.startswith("3 uses of twice in 2 files"), found.text
        put({"c.ts": TYPESCRIPT["b.ts"]})
        renamed = await bench.call("rename_symbol", name="twice", new_name="double", path="a.ts")
        assert "in 5 places in 3 files" in renamed.text


@pytest.mark.parametrize(
    ("described", "problem"),
    [
        ({"name": "typescript", "version": "7.0.2"}, ""),
        ({"name": "typescript", "version": "10.1.0-beta"}, ""),
        ({"name": "typescript", "version": "6.2.0"}, "typescript 6 has no language server"),
        ({"name": "other", "version": "7.0.2"}, "its version of typescript is unknown"),
        ({"name": "typescript", "version": 7}, "its version of typescript is unknown"),
        ([], "its version of typescript is unknown"),
    ],
)
@pytest.mark.parametrize("is_link", [True, False])
def test_an_older_typescript_is_no_server(tmp_path, described, problem, is_link):
    """The program is a link to the package's own, or a script of the package manager."""
    package = tmp_path / "node_modules/typescript"
    (package / "bin").mkdir(parents=True)
    (package / "bin/tsc").touch()
    (package / "package.json").write_text(json.dumps(described))
    program = tmp_path / ("elsewhere" if is_link else "node_modules/.bin") / "tsc"
    program.parent.mkdir()
    if is_link:
        program.symlink_to(package / "bin/tsc")
    else:
        program.touch()
    server = next(each for each in SERVERS if each.name == "tsc")
    assert server.find_problem(str(program)) == problem
