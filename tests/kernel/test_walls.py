"""The walls of the architecture: floors, cycles, sizes, names, and hooks that are documented,
tested and used.
"""

import ast
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hilum import hookspecs

ROOT = Path(__file__).resolve().parents[2]
KERNEL = ROOT / "kernel" / "hilum"
PACKAGES = sorted(
    path
    for path in (*ROOT.glob("plugins/*/hilum_*"), *ROOT.glob("contrib/*/hilum_*"))
    if path.is_dir()
)

# Each module may import only modules of floors below its own.
FLOORS = [
    ["errors", "discovery", "bounds", "services", "prompt_order"],
    ["messages"],
    ["events", "arguments"],
    ["context", "workspace", "processes", "tools", "models", "store", "repetition", "refusals"],
    ["compaction"],
    ["state", "order"],
    ["agents", "settings", "late", "journal", "underway", "redaction"],
    ["hookspecs"],
    ["plugin_objects"],
    ["plugins"],
    ["prompt", "halves", "verdicts"],
    ["calls", "routing"],
    ["loop"],
    ["session"],
    ["kernel"],
    ["standard"],
    ["aio", "blocking", "inventory"],
    ["__main__"],
]
FLOOR = {name: number for number, names in enumerate(FLOORS) for name in names}


def modules(folder: Path) -> list[Path]:
    """The Python files of a package, without the test kit."""
    return [p for p in sorted(folder.rglob("*.py")) if "testing" not in p.parts]


def imports(path: Path, *, typing: bool = False) -> list[tuple[str, ast.stmt]]:
    """The absolute names a file imports, without those for type checkers only."""
    tree = ast.parse(path.read_text())
    skipped = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for child in ast.walk(node)
    }
    found: list[tuple[str, ast.stmt]] = []
    for node in ast.walk(tree):
        if id(node) in skipped and not typing:
            continue
        if isinstance(node, ast.Import):
            found += [(alias.name, node) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            # `from hilum import x` may name a module or a public name: both spellings are looked
            # at.
            found += [(f"{node.module}.{alias.name}", node) for alias in node.names]
    return found


def test_every_kernel_module_has_a_floor():
    """A new module must be given its place."""
    assert {path.stem for path in modules(KERNEL)} - {"__init__"} == set(FLOOR)


@pytest.mark.parametrize("path", modules(KERNEL), ids=lambda path: path.stem)
def test_kernel_imports_go_down_the_floors_only(path):
    """An import of the same floor or above would tie a knot."""
    if path.stem == "__init__":
        return
    for name, _ in imports(path):
        parts = name.split(".")
        if parts[0] == "hilum" and len(parts) > 1 and parts[1] in FLOOR:
            assert FLOOR[parts[1]] < FLOOR[path.stem], f"{path.stem} imports {parts[1]}"


@pytest.mark.parametrize(
    "path", [p for f in PACKAGES for p in modules(f)], ids=lambda p: f"{p.parent.name}.{p.stem}"
)
def test_plugins_import_the_public_face_and_declared_plugins_only(path):
    """What a plugin imports of the kernel is public, and of plugins what its pyproject names."""
    package = next(f for f in PACKAGES if f in path.parents)
    project = (package.parent / "pyproject.toml").read_text()
    public = {
        "compaction",
        "errors",
        "events",
        "messages",
        "models",
        "store",
        "testing",
        "aio",
        "blocking",
    }
    for name, _ in imports(path, typing=True):
        top, _, rest = name.partition(".")
        if top == "hilum" and rest.split(".")[0] in FLOOR:
            assert rest.split(".")[0] in public, f"{path} imports {name}"
        if top.startswith("hilum_") and top != package.name:
            assert f'"{top.replace("_", "-")}' in project, (
                f"{path} imports {name}, which its pyproject does not name"
            )


# What the kernel stands on: packages that know nothing of hilum, with the kernel modules that may
# import them (None: any).
LIBRARIES = {
    "hilum_hooks": None,
    "hilum_portal": {"aio", "blocking"},
    "hilum_settings": {"settings", "inventory"},
    "hilum_signature": {"arguments", "calls", "tools"},
    "hilum_tokens": {"compaction", "context", "events", "prompt", "state"},
    "hilum_warden": {"processes"},
    "hilum_workspace": {"workspace"},
}


def test_the_kernel_knows_no_plugin_but_its_own_libraries():
    """Of all other packages here the kernel knows nothing."""
    named = {
        (path.stem, name.split(".")[0])
        for path in modules(KERNEL)
        for name, _ in imports(path, typing=True)
    }
    for stem, top in named:
        if top.startswith("hilum_"):
            assert top in LIBRARIES, f"{stem} imports {top}"
            assert LIBRARIES[top] is None or stem in LIBRARIES[top], f"{stem} imports {top}"


# Libraries of the same kind that only plugins stand on.
PLUGINS_LIBRARIES = ["hilum_frontmatter"]


@pytest.mark.parametrize("name", [*LIBRARIES, *PLUGINS_LIBRARIES])
def test_a_library_knows_nothing_of_hilum(name):
    """It imports neither hilum nor any other package of this repository."""
    package = ROOT / "plugins" / name.removeprefix("hilum_") / name
    tops = {name.split(".")[0] for p in modules(package) for name, _ in imports(p, typing=True)}
    assert not tops & {"hilum", *(f.name for f in PACKAGES if f != package)}
    assert "entry-points" not in (package.parent / "pyproject.toml").read_text()


def test_the_wardens_process_needs_nothing_but_the_standard_library():
    """It starts with the first command of a session, and at once."""
    path = ROOT / "plugins" / "warden" / "hilum_warden" / "warden.py"
    assert {name.split(".")[0] for name, _ in imports(path, typing=True)} <= sys.stdlib_module_names


@pytest.mark.parametrize("name", list(hookspecs.HOOKS))
def test_every_hook_is_documented_tested_and_used(name):
    """A hook has a docstring, a place in the reference, a test that names it, and somebody who
    calls it.
    """
    assert inspect.getdoc(getattr(hookspecs, name))
    assert f"## `{name}`" in (ROOT / "docs" / "hooks.md").read_text()
    tests = "".join(
        path.read_text() for path in (ROOT / "tests").rglob("*.py") if path.name != "test_walls.py"
    )
    assert re.search(rf"\b{name}\b", tests), f"no test names {name}"
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
        "bad = [m for m in sys.modules if m.startswith('hilum_') or m in ('trio', 'attrs', 'pluggy', 'argparse')];"
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code, argument], check=True, capture_output=True)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda p: p.name)
def test_importing_a_plugin_loads_nothing_heavy(package):
    """Heavy libraries are loaded at first use."""
    code = (
        f"import sys; import {package.name};"
        "bad = {'httpx', 'httpcore', 'rich', 'sqlite3', 'cattrs', 'mcp', 'git', 'asyncio', 'anyio', 'h11', 'yaml'};"
        "bad &= set(sys.modules);"
        "assert not bad, bad"
    )
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        env={**os.environ, "PYTHONPATH": str(package.parent)},
    )


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
