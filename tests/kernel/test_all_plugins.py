"""Everything that is installed works together: no plugin is in another's way, and every gate is
open.
"""

import hilum
from hilum.testing import ScriptedModel, plugin, use
from hilum.testing.models import ModelProvider


async def test_all_installed_plugins_open_without_a_fault_and_calls_run(tmp_path, monkeypatch):
    """A gate that a plugin does not declare would close every call of every session."""
    for name in ("HOME", "HILUM_CONFIG", "HILUM_DATA"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("one\n")
    model = ScriptedModel(
        [use("read_file", path="a.txt"), use("run_terminal_cmd", command="cat a.txt"), "Done."]
    )
    provider = plugin("scripted", provide_models=lambda: [ModelProvider({"model": model})])
    async with hilum.open_standard_session(
        project, extra_plugins=[provider], model="scripted/model", approve="auto"
    ) as session:
        result = await session.run("Read a.txt.")
        assert session.kernel.faults == []
        assert session.hooks.refusal() == ""
    assert result.state == "completed"
    texts = [
        one.text
        for message in model.requests[-1].messages
        for one in getattr(message, "results", ())
    ]
    assert len(texts) == 2
    assert all("one" in text for text in texts)
