"""The budget of a day, which all sessions and processes of the user share.

What was spent is in the logs of the sessions, which the store provides. A file contains the requests
in flight and what was read of the logs, so that deleting a session gives nothing back.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import suppress
from functools import partial

import trio
from hilum import Kernel, ModelCallDenied, StoreError
from hilum.errors import E_UNKNOWN
from hilum.settings import data_folder
from hilum.store import SessionInfo

from hilum_trace.bill.budgets.amounts import Amount, Decision, Estimate, Limits, decide
from hilum_trace.bill.budgets.budget_file import BudgetFile
from hilum_trace.bill.budgets.spending_fold import PriceFinder, SpendingFold
from hilum_trace.reading import read_pages
from hilum_trace.spans import Trace

FILE = "budgets.db"
REFUSED_HINT = "Repair it, or remove the setting budgets.day to continue without this budget."


class DayBudget:
    """The budget of the current day, in local time.

    Args:
        kernel: The kernel whose store has the sessions.
        find_price: A function that returns the price of a model's tokens.
        lifetime: Seconds after which a request in flight counts as lost.

    Attributes:
        known: What all sessions had spent since midnight when that was last found out.
    """

    def __init__(self, kernel: Kernel, find_price: PriceFinder, lifetime: float) -> None:
        self._kernel = kernel
        self._find_price = find_price
        self._lifetime = lifetime
        self._file = BudgetFile(data_folder(kernel.environ) / FILE)
        self.known = Amount()
        self._day = 0.0
        self._folds: dict[str, SpendingFold] = {}
        self._reading = trio.Lock()

    async def reserve(self, limits: Limits, request: Estimate) -> tuple[Decision, int]:
        """Reserve an amount for a request, if the budget allows it.

        Returns:
            The decision, and the number of the reservation, which must be released if the request
            may be sent.

        Raises:
            ModelCallDenied: The file or the store cannot be used.
        """
        try:
            # The request is added before the logs are read. A request that ends meanwhile is thus
            # counted twice, which is safe, and never missed.
            add = partial(self._file.add, request, self._lifetime)
            number, in_flight = await trio.to_thread.run_sync(add)
            try:
                spent = await self.spent()
                decision = decide(limits, spent, in_flight, request)
            except BaseException:
                await self.release(number)
                raise
            if decision.exceeded is not None or decision.must_wait:
                await self.release(number)
        except (OSError, sqlite3.Error, StoreError) as error:
            message = f"The budget of the day cannot be checked: {error}"
            raise ModelCallDenied(message, code="E_STORE", hint=REFUSED_HINT) from error
        return decision, number

    async def release(self, number: int) -> None:
        """Remove a reservation.

        Raises:
            OSError: The file cannot be written.
            sqlite3.Error: The file is damaged or locked.
        """
        # A reservation that stays would lower the budget of all sessions until it expires. The
        # file is written within seconds (BUSY_TIMEOUT).
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._file.remove, number)

    async def end_request(self, number: int, session: str) -> None:
        """Record what a session has spent, and remove the reservation of a request that has ended.

        Args:
            number: The number of the reservation. If it cannot be removed, it expires.
            session: The id of the session.
        """
        try:
            with suppress(OSError, sqlite3.Error, StoreError):
                async with self._reading:
                    info = await self._kernel.store.info(session)
                    await self._read_log(info, self._begin_day())
                    await self._record()
        finally:
            with suppress(OSError, sqlite3.Error):
                await self.release(number)

    async def spent(self) -> Amount:
        """Return what all sessions have spent since midnight, also those that were deleted.

        Raises:
            StoreError: The store or the file cannot be read.
        """
        async with self._reading:
            midnight = self._begin_day()
            for info in await self._kernel.store.list():
                if info.updated >= midnight:
                    await self._read_log(info, midnight)
            try:
                return await self._record()
            except (OSError, sqlite3.Error) as error:
                raise StoreError(f"{FILE} cannot be used: {error}", hint=REFUSED_HINT) from error

    def _begin_day(self) -> float:
        """Return the time at which the current day began, and forget the day before."""
        midnight = find_midnight(time.time())
        if midnight != self._day:
            self._day = midnight
            self._folds = {}
        return midnight

    async def _read_log(self, info: SessionInfo, midnight: float) -> None:
        """Fold the events of a session that were written since the last time.

        What cannot be read of a damaged log is left out; what follows it counts. Such a log must
        not stop all work.

        Raises:
            StoreError: The store cannot read the log, and has no raw access to its entries.
        """
        fold = self._folds.get(info.id)
        if fold is None:
            # A copy of a session begins with events that the original has paid for.
            start = max(midnight, info.created) if info.forked else midnight
            fold = SpendingFold(self._find_price, start)
            self._folds[info.id] = fold
        try:
            async for events in read_pages(self._kernel.store, info, Trace(), fold.last):
                fold.apply(events)
        except StoreError as error:
            # A session that was deleted meanwhile has no log; the file contains what it had spent.
            if error.code != E_UNKNOWN:
                raise

    async def _record(self) -> Amount:
        """Record what the sessions have spent, and return the sum of the day."""
        day = time.strftime("%Y-%m-%d", time.localtime(self._day))
        spent = {session: fold.total for session, fold in self._folds.items()}
        self.known = await trio.to_thread.run_sync(self._file.record, day, spent)
        return self.known


def find_midnight(now: float) -> float:
    """Return the Unix time at which the day of a Unix time began, in local time."""
    day = time.localtime(now)
    # -1 lets the system find out whether daylight saving time applied at midnight.
    return time.mktime((day.tm_year, day.tm_mon, day.tm_mday, 0, 0, 0, 0, 0, -1))
