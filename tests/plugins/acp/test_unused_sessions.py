"""Sessions without a prompt, which editors create whenever they open a panel."""

import time

from hilum.store import MemoryStore
from hilum.testing import open_bench
from hilum_acp.agent import UNUSED_SECONDS, _delete_unused
from msgspec.structs import replace


async def test_unused_sessions_are_deleted_after_a_day():
    store = MemoryStore()
    async with open_bench(store=store):
        pass
    async with open_bench(store=store, answers=["Hello."]) as bench:
        await bench.run("Hello")
    infos = await store.list("")
    assert len(infos) == 2
    await _delete_unused(store, infos)
    assert len(await store.list("")) == 2
    old = time.time() - UNUSED_SECONDS - 1
    await _delete_unused(store, [replace(info, updated=old) for info in infos])
    assert [info.id for info in await store.list("")] == [bench.session.id]
