"""The pages: current, linked, complete, and true where a page shows what a program prints."""

import ast
import os
import pkgutil
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hilum import Kernel, Session, SettingsError, errors, open_kernel

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PLUGIN = DOCS / "examples" / "plugin"
PAGES = [*sorted(DOCS.glob("*.md")), ROOT / "README.md"]
SOURCES = [p for f in ("kernel", "plugins") for p in sorted((ROOT / f).rglob("*.py"))]


def run(*command, cwd=ROOT, **environ):
    """Run a Python program as a reader would; gives what it printed, errors included.

    A program that hangs prints where each of its threads is.
    """
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HILUM_", "PYTEST_"))
    }
    process = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", *command],
        cwd=cwd, env=clean | environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=100)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        output, _ = process.communicate(timeout=100)
    assert process.returncode == 0, output
    return output


@pytest.mark.parametrize(
    "script",
    [
        "make_api.py",
        "make_keys.py",
        "make_output.py",
        "make_pages.py",
        "make_settings.py",
        "make_state.py",
    ],
)
def test_generated_pages_are_current(script):
    """What a page includes or lists is what stands in the files and in the code."""
    run(DOCS / script, "--check")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    """Every link to a file, and every anchor in it, is there.

    Benchmarks are written by a measurement, when there is one.
    """
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in link or link == "docs/benchmarks.md":
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        assert target.exists(), f"{page.name}: {link}"
        if anchor:
            titles = re.findall(r"^#+ (.*)", target.read_text(), re.MULTILINE)
            assert anchor in {
                re.sub(r"[^\w -]", "", t).lower().replace(" ", "-") for t in titles
            }, f"{page.name}: {link}"


def test_the_readme_lists_all_pages():
    """Its last section links every page."""
    last = (ROOT / "README.md").read_text().rpartition("\n## ")[2]
    assert {page.name for page in DOCS.glob("*.md")} <= set(re.findall(r"docs/([\w-]+\.md)", last))


def test_all_error_codes_are_documented():
    """The codes in the page are those in the sources of kernel and plugins."""
    used = {
        code
        for path in SOURCES
        for code in re.findall(r"\bE_[A-Z0-9_]*[A-Z0-9]\b", path.read_text())
    }
    declared = set(errors.CODES)
    listed = re.findall(r"^\| `(E_\w+)` \|", (DOCS / "errors.md").read_text(), re.MULTILINE)
    assert used == declared == set(listed)


def test_exit_codes_in_the_page_are_those_of_the_command_line():
    """Each code of the help stands in the page, and no other."""
    from hilum_cli.exits import HELP

    page = (DOCS / "first-run.md").read_text().partition("## Exit codes")[2].partition("\n## ")[0]
    assert re.findall(r"^\| (\d+) \|", page, re.MULTILINE) == re.findall(
        r"^  (\d+) ", HELP, re.MULTILINE
    )


def test_options_in_the_page_are_those_of_hilum_run():
    """The table names every option of the program."""
    from hilum_cli.run import make_parser

    page = (
        (DOCS / "first-run.md").read_text().partition("| option | effect |")[2].partition("\n\n")[0]
    )
    known = {option for action in make_parser()._actions for option in action.option_strings} - {
        "-h",
        "--help",
    }
    assert set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", page)) == known


def test_floors_in_the_page_are_those_of_the_walls():
    """The table of modules is the one the tests hold the kernel to."""
    walls = ast.parse((ROOT / "tests" / "kernel" / "test_walls.py").read_text())
    floors = next(
        ast.literal_eval(n.value)
        for n in walls.body
        if isinstance(n, ast.Assign) and n.targets[0].id == "FLOORS"
    )
    rows = re.findall(
        r"^\| (\d+) \| ([^|]+) \|", (DOCS / "architecture.md").read_text(), re.MULTILINE
    )
    assert {int(n): set(re.findall(r"`(\w+)`", names)) for n, names in rows} == dict(
        enumerate(map(set, floors))
    )


def test_phase_events_in_the_page_are_events():
    """Every event named in the table and the text below it exists, and none is left out."""
    from hilum.events import AnyEvent

    text = (
        (DOCS / "architecture.md")
        .read_text()
        .partition("## The log and the phases")[2]
        .partition("\n## ")[0]
    )
    names = {kind.__struct_config__.tag for kind in AnyEvent.__args__}
    assert set(re.findall(r"`([a-z]+_[a-z_]+|compacted|heartbeat)`", text)) == names


def test_the_tutorial_passes_its_own_tests(tmp_path):
    """The plugins of the tutorial, tested as it says: pytest in their folder, with their
    pyproject.toml.
    """
    options = "-q -p no:cacheprovider -p no:schemathesis -o pythonpath=.".split()
    # In the usual folder, it would remove the files of earlier runs of all tests, which takes minutes.
    folder = f"--basetemp={tmp_path / 'tutorial'}"
    text = run("-m", "pytest", *options, folder, cwd=PLUGIN)
    assert re.search(r"\d+ passed", text)


@pytest.mark.parametrize("name", ["try_words", "try_failing"])
def test_the_tutorial_prints_what_it_shows(name, tmp_path):
    """The programs of the tutorial print what the page says."""
    assert run(PLUGIN / f"{name}.py", cwd=tmp_path) == (PLUGIN / f"{name}.txt").read_text()


def test_the_entry_point_of_the_tutorial_is_found(tmp_path):
    """Installed with the entry point that the page shows, the plugin is loaded by its name."""
    point = tomllib.loads((PLUGIN / "pyproject.toml").read_text())["project"]["entry-points"][
        "hilum"
    ]
    info = tmp_path / "hilum_words-0.1.0.dist-info"
    info.mkdir()
    info.joinpath("entry_points.txt").write_text(
        "[hilum]\n" + "".join(f"{k} = {v}\n" for k, v in point.items())
    )
    program = (
        "import trio, hilum\n"
        "async def main():\n"
        "    async with hilum.open_kernel(['words']) as kernel, kernel.open_session('.') as session:\n"
        "        print(list(session.tools))\n"
        "trio.run(main)\n"
    )
    path = os.pathsep.join(map(str, [PLUGIN, tmp_path]))
    own = {"HILUM_CONFIG": str(tmp_path), "HILUM_DATA": str(tmp_path)}
    assert run("-c", program, cwd=tmp_path, PYTHONPATH=path, **own) == "['count_words']\n"


def test_the_sub_command_of_the_tutorial_works(tmp_path):
    """With the entry point that the page shows; its help and its error are as the page says."""
    page = (DOCS / "write-a-plugin.md").read_text()
    (point,) = re.findall(r'\[project\.entry-points\."hilum\.commands"\]\n(\w+ = )"([\w:]+)"', page)
    info = tmp_path / "hilum_words-0.1.0.dist-info"
    info.mkdir()
    info.joinpath("entry_points.txt").write_text(f"[hilum.commands]\n{''.join(point)}\n")
    tmp_path.joinpath("poem.txt").write_text("so much\ndepends upon\n")
    path = os.pathsep.join(map(str, [PLUGIN, tmp_path]))
    own = {"HILUM_CONFIG": str(tmp_path), "HILUM_DATA": str(tmp_path), "PYTHONPATH": path}
    assert run("-m", "hilum", "words", "poem.txt", cwd=tmp_path, **own) == "4 poem.txt\n"
    assert re.search(
        r"words +Count the words in text files", run("-m", "hilum", "--help", cwd=tmp_path, **own)
    )
    wrong = subprocess.run(
        [sys.executable, "-m", "hilum", "words"], cwd=tmp_path, env=os.environ | own, capture_output=True, text=True,
        timeout=100, check=False,
    )  # fmt: skip
    assert wrong.returncode == 2
    assert "E_BAD_ARGS: No file is named." in wrong.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_in_the_pages_exist(page):
    """Each dotted name of hilum's modules, and each method of a session or a kernel."""
    text = page.read_text()
    for name in sorted(set(re.findall(r"(?<![\w./@\"-])hilum(?:_\w+)?(?:\.\w+)+(?!\.?py)", text))):
        if name.endswith(".py"):
            continue
        assert pkgutil.resolve_name(name) is not None, name
    for method in sorted(set(re.findall(r"\bsession\.(\w+)\(", text))):
        assert hasattr(Session, method), method
    for method in sorted(set(re.findall(r"\bkernel\.(\w+)\(", text))):
        assert hasattr(Kernel, method), method


async def test_mistakes_in_settings_read_as_shown(tmp_path):
    """All mistakes of both files at once, in the words of the page."""
    examples = DOCS / "examples" / "settings"
    user, project = tmp_path / "user", tmp_path / "project"
    (project / ".hilum").mkdir(parents=True)
    user.mkdir()
    (user / "settings.toml").write_text((examples / "wrong_user.toml").read_text())
    (project / ".hilum" / "settings.toml").write_text((examples / "wrong_project.toml").read_text())
    with pytest.raises(SettingsError) as caught:
        async with open_kernel(
            ["shell", "files"], workspace=project, environ={"HILUM_CONFIG": str(user)}
        ):
            pass
    said = (
        str(caught.value).replace(str(user), "~/.config/hilum").replace(str(project), "~/project")
    )
    assert said + "\n" == (examples / "mistakes.txt").read_text()


async def test_example_of_settings_is_right(tmp_path):
    """The file shown has no mistake and does what it says."""
    (tmp_path / "settings.toml").write_text(
        (DOCS / "examples" / "settings" / "user.toml").read_text()
    )
    environ = {
        "LAB_API_KEY": "none",
        "HILUM_CONFIG": str(tmp_path),
        "HILUM_ROLES": '{fast = "openai/gpt-5-mini"}',
        "HILUM_TURNS": "7",
    }
    async with open_kernel(["files", "models", "shell"], environ=environ) as kernel:
        assert (kernel.options.model, kernel.options.turns) == ("anthropic/claude-sonnet-4-5", 7)
        assert kernel.options.roles == {"summarize": "ollama/qwen3", "fast": "openai/gpt-5-mini"}
        assert kernel.host.plugins["shell"].state == "blocked"
        assert kernel.router.model("lab/qwen3-coder").info.window == 65536


def test_where_to_look_names_what_there_is():
    """Every file of that table exists, and has the function or class that is named after it."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    table = page.partition("## Where to look")[2].partition("\n## ")[0]
    found = re.findall(r"`([\w/]+\.py)`(?:: `(\w+)`(?:, `(\w+)`(?!:))?)?", table)
    assert len(found) > 20
    for path, *names in found:
        source = (ROOT / path).read_text()
        for name in filter(None, names):
            assert re.search(rf"^\s*(?:async )?(?:def|class) {name}\b", source, re.M), (path, name)
