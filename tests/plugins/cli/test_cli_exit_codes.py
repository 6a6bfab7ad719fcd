"""The exit codes of the command line."""

import pytest
from hilum.events import RunEnded
from hilum_cli import exits


@pytest.mark.parametrize(
    ("state", "code", "signal", "exit"),
    [
        ("completed", "", 0, 0),
        ("failed", "E_FAILED", 0, 1),
        ("failed", "E_UNKNOWN", 0, 2),
        ("partial_success", "E_TURN_LIMIT", 0, 3),
        ("failed", "E_LLM_AUTH", 0, 4),
        ("failed", "E_LLM_FAIL", 0, 4),
        ("timed_out", "E_TIMEOUT", 0, 124),
        ("stopped", "E_STOPPED", 2, 130),
        ("stopped", "E_STOPPED", 15, 143),
        ("stopped", "E_STOPPED", 0, 130),
        ("interrupted", "E_INTERRUPTED", 0, 1),
    ],
)
def test_exit_codes(state, code, signal, exit):
    """As ``hilum run --help`` says."""
    assert exits.of_run(RunEnded(state=state, code=code), signal) == exit
