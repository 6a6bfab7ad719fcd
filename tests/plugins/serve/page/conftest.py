"""A real Chromium for the page. Any error in the console of a page fails its test."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .fake_server import SESSION, FakeServer

CHROMIUM = Path("/usr/bin/chromium")
MISSING = "needs Playwright (a development dependency) and Chromium (Debian: apt install chromium)"
SIZES = {"phone": (390, 844), "tablet": (1024, 768), "wide": (1920, 1080)}
SCREENSHOTS = os.environ.get("HILUM_SCREENSHOTS", "")


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """Return a browser that the tests of this folder share: each page has a context of its own."""
    library = pytest.importorskip("playwright.sync_api", reason=MISSING)
    if not CHROMIUM.exists():
        pytest.skip(MISSING)
    with library.sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"]
        )
        yield found
        found.close()


@pytest.fixture
def server() -> Iterator[FakeServer]:
    """Return a running server with a scripted session; the test fills it before it opens a page."""
    server = FakeServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def open_page(browser: Any, request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Return a function that opens a page in a context of its own."""
    contexts = []
    problems: list[str] = []

    def open_page(
        url: str,
        size: str = "tablet",
        language: str = "en",
        theme: str = "light",
        expected: str = "",
        **options: Any,
    ) -> Any:
        """Open a page.

        Args:
            url: Its address.
            size: A key of ``SIZES``.
            language: Language of the browser: en or zh.
            theme: The system's colour scheme.
            expected: Pattern of console errors that the test causes itself.
            options: Further options of the browser's context.
        """
        width, height = SIZES[size]
        context = browser.new_context(
            viewport={"width": width, "height": height},
            locale="zh-CN" if language == "zh" else "en-GB",
            color_scheme=theme,
            has_touch=size == "phone",
            is_mobile=size == "phone",
            reduced_motion="reduce",
            **options,
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(8_000)

        def note(message: Any) -> None:
            is_problem = message.type in ("error", "warning")
            if is_problem and not (expected and re.search(expected, message.text)):
                problems.append(f"{message.type}: {message.text}")

        page.on("console", note)
        page.on("pageerror", lambda error: problems.append(f"exception: {error} {error.stack}"))
        page.goto(url)
        return page

    yield open_page
    for number, context in enumerate(contexts):
        for page in context.pages:
            keep_screenshot(page, f"last-{request.node.name}-{number}")
        context.close()
    assert problems == []


@pytest.fixture
def open_session(server: FakeServer, open_page: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that opens the page of the server's session, and waits until it is there."""

    def open_session(size: str = "tablet", **options: Any) -> Any:
        page = open_page(server.session_url, size, **options)
        page.locator(".connection.open").wait_for(state="attached")
        return page

    return open_session


def wait_until(page: Any, condition: Callable[[], object]) -> None:
    """Wait until a condition about a page holds; the page draws only in the next frame."""
    for _ in range(400):
        if condition():
            return
        page.wait_for_timeout(20)
    raise AssertionError("the condition never held")


@pytest.fixture(scope="session")
def axe() -> Callable[[Any], list[str]]:
    """Return a function that lists the serious findings of axe-core about a page."""
    folder = Path(os.environ.get("NPM_SERVERS", "")) / "node_modules" / "axe-core"
    script = folder / "axe.min.js"
    if not script.is_file():
        folder = Path(__file__).parents[4] / ".ci" / "npm" / "node_modules" / "axe-core"
        script = folder / "axe.min.js"
    if not script.is_file():
        pytest.skip("needs axe-core: npm install --prefix .ci/npm axe-core@4.14.1")
    source = script.read_text(encoding="utf-8")

    def axe(page: Any) -> list[str]:
        page.evaluate(f"{source};0")
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{each['id']}: {node['html'][:160]} {node['failureSummary']}"
            for each in found["violations"]
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"]
        ]

    return axe


def keep_screenshot(page: Any, name: str) -> None:
    """Write a screenshot to the folder in HILUM_SCREENSHOTS, if it is set."""
    if SCREENSHOTS:
        Path(SCREENSHOTS).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(Path(SCREENSHOTS) / f"{name}.png"))


__all__ = ["SESSION"]
