"""The synchronous API of hilum: the kernel's functions and classes with blocking calls.

::

    with hilum.blocking.open_kernel(model="openai/gpt-5") as kernel:
        with kernel.open_session(".") as session:
            print(session.run("Fix the failing test").text)
"""

from __future__ import annotations

from hilum.hosts import blocking
from hilum.kernel import Kernel
from hilum.kernel import open_kernel as open_on_trio
from hilum.runs import Run
from hilum.session import Session
from hilum.standard import open_standard_session as open_standard_on_trio

open_kernel = blocking.hosted(open_on_trio, wraps=(Kernel, Session, Run), name="hilum")
open_standard_session = blocking.hosted(
    open_standard_on_trio, wraps=(Kernel, Session, Run), name="hilum"
)
