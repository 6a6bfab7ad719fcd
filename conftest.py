"""Options and fixtures for all tests in this repository, including those of ``hilum.testing``."""

import gc
import os
import shutil
import signal
import stat
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from pathlib import Path

import attrs
import hypothesis
import pytest
from compiled_files import compile_share
from warm_start import WarmStarter, python_environment

pytest_plugins = ["hilum.testing", "span_check"]

# Under nohup, and in the background of a script, these signals are ignored, and child processes
# inherit that.
for _name in ("SIGINT", "SIGQUIT", "SIGHUP", "SIGTERM"):
    _number = getattr(signal, _name, None)
    if _number is not None and signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _name == "SIGINT" else signal.SIG_DFL)

# No test is about how fast examples are generated, which is slow on a busy machine. The examples are
# the same in every run, so that a change fails only because of its own faults; ``--all`` generates
# new ones.
hypothesis.settings.register_profile(
    "hilum",
    deadline=None,
    derandomize=True,
    max_examples=50,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile(
    "all",
    hypothesis.settings.get_profile("hilum"),
    derandomize=False,
    max_examples=300,
)
hypothesis.settings.load_profile("hilum")

# Without compiled modules, each program that a test starts would compile hilum again, which takes
# longer than most tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Caches of programs that tests start. Tests use the user's own, because filling new ones requires
# network access.
_CACHES = {"UV_CACHE_DIR": ".cache/uv", "PIP_CACHE_DIR": ".cache/pip", "npm_config_cache": ".npm"}
_PRIVATE_SUFFIXES = ("_API_KEY", "_BASE_URL", "_TOKEN")
_PRIVATE_PREFIXES = ("HILUM_", "XDG_", "GIT_", "OTEL_")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option ``--all``."""
    parser.addoption(
        "--all",
        action="store_true",
        help="Run all cases of the tests marked slow instead of a sample, and generate new random "
        "examples (about 20 min).",
    )


def pytest_xdist_auto_num_workers() -> int:
    """Return more workers than there are processors: tests spend half their time waiting."""
    return len(os.sched_getaffinity(0)) * 2 if hasattr(os, "sched_getaffinity") else 4


def pytest_configure(config: pytest.Config) -> None:
    """Generate new random examples with ``--all``; compile what this process is to import."""
    if config.getoption("--all"):
        hypothesis.settings.load_profile("all")
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        number = int(worker["workerid"].removeprefix("gw"))
        compile_share(config, number, worker["workercount"])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep a sample of the cases of each test that is marked ``slow``, unless ``--all`` is given.

    The sample is the same in every run: evenly spaced cases, from the first to the last, or only the
    first for a sample of one. The cases are those of a parametrized test or, with ``of="file"``, all
    tests in the file. A case named on the command line is always kept.
    """
    if config.getoption("--all"):
        return
    families: dict[str, list[pytest.Item]] = {}
    for item in items:
        marker = item.get_closest_marker("slow")
        if marker is not None:
            end_of_family = "::" if _is_sampled_by_file(marker) else "["
            families.setdefault(item.nodeid.partition(end_of_family)[0], []).append(item)
    named = [argument for argument in config.invocation_params.args if "::" in argument]
    left_out: set[pytest.Item] = set()
    for cases in families.values():
        marker = cases[0].get_closest_marker("slow")
        assert marker is not None
        kept = sample(cases, marker.kwargs.get("cases", 1))
        for case in cases:
            names = {case.nodeid}
            if _is_sampled_by_file(marker):
                names.add(case.nodeid.partition("[")[0])
            is_named = any(name.endswith(argument) for name in names for argument in named)
            if case not in kept and not is_named:
                left_out.add(case)
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def _is_sampled_by_file(marker: pytest.Mark) -> bool:
    return bool(marker.kwargs.get("of") == "file")


def pytest_collection() -> None:
    """Keep the garbage collector from examining what is collected while it grows."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Keep the garbage collector from examining all collected tests again and again.

    With ten thousand tests, each full collection would take a third of a second. What is garbage by
    now is kept as well: to find it would take each worker almost a second.
    """
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report why an async test was skipped: pytest-trio drops the reason."""
    report = yield
    group = call.excinfo.value.__context__ if call.excinfo is not None else None
    if not report.skipped or not isinstance(group, BaseExceptionGroup):
        return report
    while isinstance(group, BaseExceptionGroup):
        group = group.exceptions[0]
    path, line, _ = item.location
    report.longrepr = (path, (line or 0) + 1, f"Skipped: {group}")
    return report


def sample(cases: list[pytest.Item], count: int) -> list[pytest.Item]:
    """Return ``count`` evenly spaced cases, from the first to the last; for one, the first."""
    if count >= len(cases):
        return cases
    if count < 2:
        return cases[:count]
    step = (len(cases) - 1) / (count - 1)
    return [cases[round(number * step)] for number in range(count)]


@pytest.fixture
def trials(request: pytest.FixtureRequest) -> Callable[[int, int], int]:
    """Return a function that chooses the number of trials: the second number with ``--all``."""
    whole = bool(request.config.getoption("--all"))

    def trials(few: int, many: int) -> int:
        return many if whole else few

    return trials


@pytest.fixture(scope="session")
def homes() -> Iterator[Path]:
    """Create the folder that contains the home folders of tests.

    It is in the user's cache folder. A temporary folder would not behave like a home folder, because
    sandboxes replace it and rules allow more there.
    """
    cache = Path.home() / ".cache"
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix="hilum-tests-", dir=cache, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


@attrs.define
class HomeFolders:
    """Gives each test an empty home folder.

    Most tests leave it empty, and the next test gets the same one: creating and removing a folder
    for each of so many tests would keep the disk busy.
    """

    parent: Path
    unused: str = ""

    def take(self) -> str:
        """Return an empty folder, which only the user may read."""
        folder = self.unused or tempfile.mkdtemp(dir=self.parent)
        self.unused = ""
        return folder

    def give_back(self, folder: str) -> None:
        """Keep a folder that is as it was created for the next test, and remove any other."""
        with suppress(OSError):
            if os.lstat(folder).st_mode == stat.S_IFDIR | 0o700 and not os.listdir(folder):
                self.unused = folder
                return
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def home_folders(homes: Path) -> HomeFolders:
    """Return what gives each test its home folder."""
    return HomeFolders(homes)


@pytest.fixture(autouse=True)
def isolated_environment(home_folders: HomeFolders) -> Iterator[None]:
    """Isolate each test from the user's home folder, settings and keys.

    A test is also isolated from environment variables that other tests set.
    """
    before = dict(os.environ)
    home = Path.home()
    for name in before:
        if name.startswith(_PRIVATE_PREFIXES) or name.endswith(_PRIVATE_SUFFIXES):
            del os.environ[name]
    for name, folder in _CACHES.items():
        os.environ.setdefault(name, str(home / folder))
    own = home_folders.take()
    os.environ["HOME"] = own
    yield
    os.environ.clear()
    os.environ.update(before)
    home_folders.give_back(own)


@pytest.fixture(scope="session")
def warm() -> Iterator[WarmStarter]:
    """Return a starter of ``hilum`` processes that do not import hilum again."""
    with WarmStarter(python_environment()) as starter:
        yield starter


@pytest.fixture
def open_files() -> Callable[[], set[str]]:
    """Return a function that lists the open descriptors of this process, with what they refer to.

    Descriptors that other tests left to the garbage collector are not listed. Compare two lists by
    what is new: a thread of an earlier test may close its own in the meantime.
    """

    def open_files() -> set[str]:
        gc.collect()
        # The next collection, as a rule of the same test, then examines only what is new.
        gc.freeze()
        found = set[str]()
        for descriptor in os.listdir("/dev/fd"):
            # The list itself is read through a descriptor that is closed by now.
            with suppress(OSError):
                found.add(f"{descriptor} {os.readlink(f'/dev/fd/{descriptor}')}")
        return found

    return open_files
