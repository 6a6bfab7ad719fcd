"""What is not installed, or does not start, is said with what to do; without a browser."""

import hilum_browser
import hilum_files
import pytest
from hilum.checks import Check
from hilum.testing import open_bench
from hilum_browser import checks, installation

NAVIGATE = {"action": "navigate", "url": "http://localhost:1234/"}


async def call(settings: dict[str, object], **arguments: object) -> tuple[str, str]:
    async with open_bench(
        hilum_files,
        hilum_browser,
        settings={"browser": {**settings, "hosts": ["localhost"]}},
        patience=60,
    ) as bench:
        result = await bench.call("browser_use", **(arguments or NAVIGATE))
        return result.code, result.text


async def test_playwright_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hilum_browser.tool.has_playwright", lambda: False)
    code, text = await call({})
    assert code == "E_NOT_INSTALLED"
    assert "pip install 'hilum[browser]'" in text


@pytest.mark.parametrize("executable", ["", "/nowhere/chromium", "relative"])
async def test_chromium_is_missing(monkeypatch: pytest.MonkeyPatch, executable: str) -> None:
    monkeypatch.setattr("hilum_browser.tool.has_playwright", lambda: True)
    monkeypatch.setattr(installation, "_candidates", lambda: iter(()))
    code, text = await call({"executable": executable})
    assert code == "E_NOT_INSTALLED"
    assert "browser.executable" in text
    assert executable in text


@pytest.mark.skipif(
    not installation.has_playwright(), reason="needs Playwright, a development dependency"
)
async def test_a_program_that_is_no_browser() -> None:
    code, text = await call({"executable": "/bin/false"})
    assert code == "E_CMD_FAIL"
    assert "/bin/false does not start" in text


async def test_no_plugin_checks_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then no page is opened, whatever the address: an unchecked one is not contacted."""
    monkeypatch.setattr("hilum.services.entry_points", lambda group: {})
    code, text = await call({}, action="navigate", url="http://example.org/")
    assert code == "E_NOT_INSTALLED"
    assert "pip install 'hilum[web]'" in text


async def test_no_page_is_open() -> None:
    """Only navigate opens one."""
    if installation.has_playwright() and installation.find_chromium():
        code, text = await call({}, action="click", selector="a")
        assert (code, "Navigate first" in text) == ("E_BAD_ARGS", True)
    assert await call({}, action="close") == ("", "No browser was open.")


async def test_it_can_be_switched_off() -> None:
    assert (await call({"enabled": False}))[0] == "E_UNKNOWN_TOOL"


def test_what_doctor_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "has_playwright", lambda: False)
    monkeypatch.setattr(installation, "_candidates", lambda: iter(()))
    assert [(row.grade, "install" in row.fix.lower()) for row in checks.check_programs()] == [
        ("warn", True)
    ] * 2
    monkeypatch.setattr(checks, "has_playwright", lambda: True)
    assert list(checks.check_programs("/bin/sh")) == [
        Check("ok", "browser", "/bin/sh, with Playwright")
    ]
