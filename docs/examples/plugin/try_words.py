import hilum_words
import trio
from hilum.testing import open_bench


async def main() -> None:
    async with open_bench(hilum_words, files={"poem.txt": "so much\ndepends upon\n"}) as bench:
        for arguments in ({"path": "poem.txt"}, {"path": "peom.txt"}, {"file": "poem.txt"}):
            result = await bench.call("count_words", **arguments)
            print(result.text)


trio.run(main)
