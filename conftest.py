"""Tests everywhere in this repository may use the fixtures of ``hilum.testing``."""

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

pytest_plugins = ["hilum.testing"]

# Under nohup, and in the background of a script, signals are ignored, and whatever is started
# inherits that.
for _name in ("SIGINT", "SIGQUIT", "SIGHUP", "SIGTERM"):
    _number = getattr(signal, _name, None)
    if _number is not None and signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _name == "SIGINT" else signal.SIG_DFL)

# How fast examples are made is not what a test of hilum is about, and on a busy machine it is slow.
hypothesis.settings.register_profile(
    "hilum", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("hilum")

# Caches of programs that tests start. They stay where they are, because filling them takes the
# network.
_CACHES = {"UV_CACHE_DIR": ".cache/uv", "PIP_CACHE_DIR": ".cache/pip", "npm_config_cache": ".npm"}
_PRIVATE_SUFFIXES = ("_API_KEY", "_BASE_URL", "_TOKEN")
_PRIVATE_PREFIXES = ("HILUM_", "XDG_", "GIT_", "OTEL_")


@pytest.fixture(scope="session")
def homes() -> Iterator[Path]:
    """Create the folder for the home folders of tests.

    It is below the user's cache folder: the temporary folder is not like a home folder, because
    sandboxes replace it and rules allow more there.
    """
    cache = Path.home() / ".cache"
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix="hilum-tests-", dir=cache, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def isolated_environment(homes: Path) -> Iterator[None]:
    """Keep each test apart from the user's home folder, settings and keys, and from the variables
    that other tests set.
    """
    before = dict(os.environ)
    home = Path.home()
    for name in before:
        if name.startswith(_PRIVATE_PREFIXES) or name.endswith(_PRIVATE_SUFFIXES):
            del os.environ[name]
    for name, folder in _CACHES.items():
        os.environ.setdefault(name, str(home / folder))
    own = tempfile.mkdtemp(dir=homes)
    os.environ["HOME"] = own
    yield
    os.environ.clear()
    os.environ.update(before)
    shutil.rmtree(own, ignore_errors=True)


@pytest.fixture
def open_files() -> Callable[[], int]:
    """Counts the descriptors this process has open, without those that another test has left to the
    collector.
    """

    def open_files() -> int:
        gc.collect()
        return len(os.listdir("/dev/fd"))

    return open_files
