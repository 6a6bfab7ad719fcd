import hilum_lookup
import trio
from hilum.events import PluginFault, UserNeeded
from hilum.testing import open_bench


async def main() -> None:
    async with open_bench(hilum_lookup, faults=True) as bench:
        for key in ("capital/France", "capital/Atlantis", "salary/boss", "licence/this", "capital"):
            result = await bench.call("look_up", key=key)
            print(f"{key}: {result.text}")
        for need in bench.of(UserNeeded):
            print("the user is told:", need.message)
        for fault in bench.of(PluginFault):
            print("the log says:", fault.plugin, fault.hook, fault.error)


trio.run(main)
