import hilum_lookup
import trio
from hilum.events import PluginFault, UserNeeded
from hilum.testing import open_bench


async def main():
    async with open_bench(hilum_lookup, faults=True) as bench:
        for key in ("capital/France", "capital/Atlantis", "salary/boss", "licence/this", "capital"):
            result = await bench.call("look_up", key=key)
            print(f"{key}: {result.text}")
        for event in bench.of(UserNeeded):
            print("the user is told:", event.message)
        for event in bench.of(PluginFault):
            print("the log says:", event.plugin, event.hook, event.error)


trio.run(main)
