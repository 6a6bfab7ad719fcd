import pytest, trio
from hilum_acp.guests.client import MAX_INVALID

async def test_close(open_guest):
    async with open_guest("bypassing") as guest:
        b=trio.current_time()
        with trio.move_on_after(15):
            r = await guest.execute("client.say('x')\nos.close(1)\ntime.sleep(60)")
            print(r)
        print("TIME", trio.current_time()-b)
        procs=guest.bench.session
        import subprocess
        print(subprocess.run("ps -eo pid,ppid,args | grep -c bwrap",shell=True,capture_output=True,text=True).stdout)
        assert 0
