"""The table of known tools agrees with the plugins."""

import hilum_files
import hilum_lint
import hilum_memory
import hilum_plan
import hilum_search
import hilum_shell
from hilum.testing import open_bench
from hilum_agents.definitions.tools import KNOWN, RISKS


async def test_the_table_of_tools_is_true(tmp_path):
    plugins = [hilum_files, hilum_search, hilum_shell, hilum_lint, hilum_memory, hilum_plan]
    async with open_bench(*plugins, folder=tmp_path) as bench:
        found = {name: tool.risk for name, tool in bench.session.tools.items()}
        assert found == {name: risk for name, risk in KNOWN.items() if name in found}
        assert len(found) >= 15
        assert set(KNOWN.values()) <= RISKS
