"""Code that hides a path, a host or a text hides it from every check in the same way."""

from pathlib import Path

import pytest

from tests.support.judged_commands import judge_command

DECODING = (
    "chr(46)", "bytes([46, 101])", "'vne.'[::-1]", "bytes.fromhex('2e')", "base64.b64decode('LmVudg==')",
    "binascii.unhexlify('2e')", "''.join(reversed('vne.'))", "struct.pack('B', 46)",
)  # fmt: skip
ASSEMBLING = ("f'{a}'", "'%s' % a", "''.join(a)", "os.environ['A']")
LINES = {
    "deny write *.snap": "python3 -c \"open({}, 'w').write(1)\"",
    "deny host example.com": 'python3 -c "urlopen({})"',
    "deny content SECRET": "python3 -c \"open('a.txt', 'w').write({})\"",
}


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("code", DECODING)
def test_decoded_text_is_asked_about(code: str, line: str, tmp_path: Path) -> None:
    assert judge_command(line, LINES[line].format(code), tmp_path) == "ask"


@pytest.mark.parametrize("line", ["deny write *.snap", "deny content SECRET"])
@pytest.mark.parametrize("code", ASSEMBLING)
def test_assembled_text_is_asked_about(code: str, line: str, tmp_path: Path) -> None:
    assert judge_command(line, LINES[line].format(code), tmp_path) == "ask"


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("code", ["'100%'", "'a.txt'", "'https://example.org'"])
def test_plain_text_is_free(code: str, line: str, tmp_path: Path) -> None:
    assert judge_command(line, LINES[line].format(code), tmp_path) == ""
