"""Sessions that were only opened are not the last session of a folder."""

import pytest
from hilum import StoreError
from hilum.shell_lines import attach_output
from hilum.store import MemoryStore, find_session
from hilum.testing import open_bench


async def test_a_session_that_was_only_opened_is_not_the_last_one(tmp_path):
    store = MemoryStore()
    async with open_bench(folder=tmp_path, store=store, answers=["ok"]) as kit:
        folder = kit.session.workspace.root
        kit.session.note("settings.ignored", say="A warning at the start.")
        kit.session.note("workspace.home", say="Another one.")
        with pytest.raises(StoreError):
            await find_session(store, "last", folder)
        await kit.run("Go")
        assert await find_session(store, "last", folder) == kit.session.id


async def test_a_command_of_the_user_counts(tmp_path):
    store = MemoryStore()
    async with open_bench(folder=tmp_path, store=store) as kit:
        attach_output(kit.session, "1", "The user ran: ls")
        found = await find_session(store, "last", kit.session.workspace.root)
        assert found == kit.session.id
