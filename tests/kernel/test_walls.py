"""The walls of the architecture: floors, cycles, names, and hooks that are documented, tested and
used.
"""

import ast
import functools
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import hilum
import pytest
from hilum import hookspecs

ROOT = Path(__file__).resolve().parents[2]
KERNEL = ROOT / "kernel" / "hilum"
PACKAGES = sorted(
    path
    for path in (*ROOT.glob("plugins/*/hilum_*"), *ROOT.glob("contrib/*/hilum_*"))
    if path.is_dir()
)

# Each module or sub-package may import only those of floors below its own.
FLOORS = [
    [
        "errors",
        "discovery",
        "time_limits",
        "prompt_order",
        "hooks",
        "hosts",
        "signature",
        "tokens",
        "frontmatter",
        "network",
        "folder_trees",
        "private_folders",
        "copy_titles",
        "identifiers",
        "json_sizes",
        "wall_clock",
        "inotify",
        "unread_outputs",
        "fork_client",
        "compile_cache",
        "program_start",
        "shared_reads",
    ],
    [
        "messages",
        "temporary",
        "command",
        "processes",
        "services",
        "settings",
        "workspace",
        "extras",
        "checks",
        "sub_commands",
        "listening",
        "config_files",
        "foreign_files",
        "module_archive",
    ],
    ["events", "arguments", "images", "model_calls"],
    [
        "context",
        "tools",
        "models",
        "store",
        "repetition",
        "refusals",
        "slow_hooks",
        "approval_facts",
    ],
    ["compaction", "trust", "model_access", "repeated_calls"],
    ["state", "order"],
    ["agents", "deferred_tools", "journal", "calls_in_flight", "redaction", "runs"],
    ["hookspecs", "event_writer", "call_finder", "fork_restrictions"],
    ["plugin_objects", "heartbeats", "late_imports"],
    ["plugins"],
    ["prompt", "instances", "verdicts"],
    ["calls", "routing"],
    ["loop"],
    ["session", "window"],
    ["rewinding", "shell_lines", "workspace_files"],
    ["kernel", "sharing"],
    ["standard"],
    ["aio", "blocking", "inventory"],
    ["__main__"],
    ["script"],
]
FLOOR = {name: number for number, names in enumerate(FLOORS) for name in names}

# Packages of the kernel with a subject of their own, which know nothing of agents and models.
SUBJECTS = [
    "command",
    "frontmatter",
    "hooks",
    "hosts",
    "processes",
    "settings",
    "signature",
    "tokens",
    "workspace",
]


@functools.cache
def modules(folder: Path) -> list[Path]:
    """The Python files of a package, without the test kit."""
    return [p for p in sorted(folder.rglob("*.py")) if "testing" not in p.parts]


@functools.cache
def parse(path: Path) -> ast.Module:
    """The syntax tree of a file, which several tests look at."""
    return ast.parse(path.read_text())


@functools.cache
def imports(path: Path, *, typing: bool = False) -> list[tuple[str, ast.stmt]]:
    """The absolute names a file imports, without those for type checkers only."""
    found: list[tuple[str, ast.stmt]] = []
    for node in statements(parse(path).body, typing=typing):
        if isinstance(node, ast.Import):
            found += [(alias.name, node) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            # `from hilum import x` may name a module or a public name: both spellings are looked
            # at.
            found += [(f"{node.module}.{alias.name}", node) for alias in node.names]
    return found


def statements(nodes: list[ast.stmt], *, typing: bool) -> Iterator[ast.stmt]:
    """Yield statements and those inside of them, without those for type checkers if not wanted.

    Expressions are not walked: they contain no imports, and most nodes are expressions.
    """
    for node in nodes:
        if not typing and isinstance(node, ast.If) and is_for_typing(node.test):
            continue
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from statements(getattr(node, field, []), typing=typing)


def is_for_typing(test: ast.expr) -> bool:
    """Return whether the condition of an import is ``TYPE_CHECKING``."""
    names = [node.id for node in ast.walk(test) if isinstance(node, ast.Name)]
    names += [node.attr for node in ast.walk(test) if isinstance(node, ast.Attribute)]
    return "TYPE_CHECKING" in names


def part(path: Path) -> str:
    """The name on the floors of a file of the kernel: its module's, or its sub-package's."""
    return path.relative_to(KERNEL).parts[0].removesuffix(".py")


def dotted(path: Path) -> str:
    """The name of the module that a file of the kernel holds."""
    parts = path.relative_to(KERNEL.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def test_every_kernel_module_has_a_floor():
    """A new module must be given its place."""
    assert {part(path) for path in modules(KERNEL)} - {"__init__"} == set(FLOOR)


def test_kernel_imports_go_down_the_floors_only():
    """An import of the same floor or above would tie a knot."""
    for path in modules(KERNEL):
        own = part(path)
        if own == "__init__":
            continue
        for name, _ in imports(path):
            parts = name.split(".")
            if parts[0] == "hilum" and len(parts) > 1 and parts[1] in FLOOR and parts[1] != own:
                assert FLOOR[parts[1]] < FLOOR[own], f"{dotted(path)} imports {parts[1]}"


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_subject_imports_the_error_tree_only(subject):
    """Sub-packages can be read, tested and used without the rest of the kernel."""
    for path in modules(KERNEL):
        if part(path) != subject:
            continue
        for name, _ in imports(path, typing=True):
            parts = name.split(".")
            if parts[0] == "hilum":
                assert parts[1] in {subject, "errors"}, f"{dotted(path)} imports {name}"


def test_modules_of_the_kernel_import_each_other_in_no_circle():
    """Imports inside functions count, because two modules that need each other are one."""
    paths = {dotted(path): path for path in modules(KERNEL)}
    edges = {}
    for module, path in paths.items():
        names = {name for name, _ in imports(path)}
        found = {target for target in paths if target in names}
        # `from hilum.settings.app import App` is the name hilum.settings.app.App.
        found |= {name.rpartition(".")[0] for name in names} & set(paths)
        edges[module] = found - {module, "hilum"}
    while edges:
        leaves = [module for module, targets in edges.items() if not targets & set(edges)]
        assert leaves, f"a circle among {sorted(edges)}"
        for module in leaves:
            del edges[module]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_plugins_import_the_public_face_and_declared_plugins_only(package):
    """What a plugin imports of the kernel is public, and of plugins what its pyproject names."""
    project = (package.parent / "pyproject.toml").read_text()
    found = [(path, name) for path in modules(package) for name, _ in imports(path, typing=True)]
    for path, name in found:
        top, _, rest = name.partition(".")
        if top == "hilum":
            parts = rest.split(".")
            assert parts[0] not in FLOOR or parts[0] in hilum._MODULES, f"{path} imports {name}"
            if parts[0] in SUBJECTS and name not in ("hilum.hosts.aio", "hilum.hosts.blocking"):
                below = KERNEL.joinpath(*parts).with_suffix(".py")
                is_on_face = len(parts) == 1 or (len(parts) == 2 and not below.exists())
                assert is_on_face, f"{path} imports {name} from below the face of {parts[0]}"
        if top.startswith("hilum_") and top != package.name:
            assert f'"{top.replace("_", "-")}' in project, (
                f"{path} imports {name}, which its pyproject does not name"
            )


def test_the_kernel_knows_no_plugin():
    """Whatever it needs is in the kernel."""
    for path in modules(KERNEL):
        for name, _ in imports(path, typing=True):
            assert not name.startswith("hilum_"), f"{dotted(path)} imports {name}"


def test_the_wardens_process_needs_nothing_but_the_standard_library():
    """It starts with the first command of a session, and at once."""
    path = KERNEL / "processes" / "warden.py"
    assert {name.split(".")[0] for name, _ in imports(path, typing=True)} <= sys.stdlib_module_names


@functools.cache
def words_of_tests() -> set[str]:
    """Return all words in the tests, except this file's."""
    files = [path for path in (ROOT / "tests").rglob("*.py") if path.name != "test_walls.py"]
    return {word for path in files for word in re.findall(r"\w+", path.read_text())}


@pytest.mark.parametrize("name", list(hookspecs.HOOKS))
def test_every_hook_is_documented_tested_and_used(name):
    """A hook has a docstring, a place in the reference, a test that names it, and somebody who
    calls it.
    """
    assert inspect.getdoc(getattr(hookspecs, name))
    assert f"## `{name}`" in (ROOT / "docs" / "hooks.md").read_text()
    assert name in words_of_tests(), f"no test names {name}"
    callers = "".join(path.read_text() for path in modules(KERNEL) if path.stem != "hookspecs")
    assert f'"{name}"' in callers, f"nobody calls {name}"


def test_the_hook_reference_is_current():
    """docs/hooks.md is what the generator writes."""
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "make_reference.py", "--check"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_importing_hilum_loads_neither_trio_nor_http():
    """The public face is lazy."""
    code = "import hilum, sys; bad = {'trio', 'httpx', 'attrs', 'pluggy', 'msgspec'} & set(sys.modules); assert not bad, bad"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_version_and_help_import_no_plugin(argument):
    """They answer before anything heavy is loaded."""
    code = (
        "import sys; from hilum.__main__ import main; main([sys.argv[1]]);"
        "few = {'hilum', 'hilum.__main__', 'hilum.discovery', 'hilum.errors', 'hilum.fork_client'};"
        "bad = {m for m in sys.modules if m.startswith('hilum')} - few;"
        "bad |= {'trio', 'attrs', 'pluggy', 'argparse'} & set(sys.modules);"
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code, argument], check=True, capture_output=True)


HEAVY = set(
    "httpx httpcore rich sqlite3 cattrs mcp git asyncio anyio h11 yaml tomllib tomlkit".split()
)


def test_importing_a_package_loads_nothing_heavy():
    """Heavy libraries are loaded at first use.

    One process imports the packages one after another: the first one that loads a heavy library is
    named.
    """
    names = [path.name for path in PACKAGES] + [f"hilum.{name}" for name in SUBJECTS]
    code = f"""
import importlib, sys
for name in {names!r}:
    importlib.import_module(name)
    heavy = {HEAVY!r} & set(sys.modules)
    assert not heavy, (name, heavy)
"""
    folders = os.pathsep.join(str(path.parent) for path in PACKAGES)
    environ = {**os.environ, "PYTHONPATH": folders}
    subprocess.run([sys.executable, "-c", code], check=True, env=environ)


def test_nothing_names_this_machine_or_a_registry():
    """Paths of a developer's machine and hosts of package registries do not belong in the
    repository.
    """
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True
    ).stdout.split("\n")
    words = re.compile(
        "|".join(
            [
                "/wo" + "rk/",
                "/ro" + r"ot/\.",
                "pyp" + r"i\.org",
                "python" + "hosted",
                r"registry\." + "npm",
            ]
        )
    )
    for name in listed:
        path = ROOT / name
        if (
            name
            and path.is_file()
            and path.suffix in {".py", ".md", ".toml", ".txt", ".json", ".jsonl", ""}
        ):
            assert not words.search(path.read_text(errors="replace")), name
