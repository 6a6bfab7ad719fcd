"""The guard and the enforced rules judge a command line by one look at the project."""

import pytest
import trio
from hilum_guard.commands import loaded_files


@pytest.fixture
def searches(monkeypatch):
    """The programs whose loaded files were searched for, in order."""
    found = []
    search = loaded_files._search

    def note(name, *arguments, **options):
        found.append(name)
        return search(name, *arguments, **options)

    monkeypatch.setattr(loaded_files, "_search", note)
    return found


async def test_a_command_is_read_once_for_guard_and_rules(bench, searches):
    """A call is judged as the project is now, so the next one is read anew."""
    files = {
        "AGENTS.md": "# Rules\n\n- Never edit `vendor/`.\n",
        "vendor/a.py": "x = 1\n",
        "helper.py": "x = 1\n",
    }
    b = await bench("guard", "rules", "shell", files=files, approve="auto")
    await trio.run_process(["git", "init", "-q", b.workspace])
    command = "python3 -c 'import helper'"
    assert (await b.call("run_terminal_cmd", command=command)).code == ""
    assert searches.count("python3") == 1
    (b.workspace / "helper.py").write_text("open('vendor/a.py', 'w').write('x')\n")
    result = await b.call("run_terminal_cmd", command=command)
    assert searches.count("python3") == 2
    assert result.code == "E_DENIED"
    assert "Never edit `vendor/`." in result.text
