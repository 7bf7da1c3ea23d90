#!/usr/bin/env python3
"""Locks with one defect each, to measure what an audit finds: `defects.py NAME`; `defects.py` lists them.

Every lock is the sound one but for its defect. A class is a defect, its docstring says what is wrong, and its name in lower case with dashes is its
name. `sound` and `sound-renewed` have none: an audit that convicts one of them accuses a sound lock. No scenario was made for these locks.
"""
import pathlib
import re
import sys
import threading
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "sdk" / "python"))

from driver import DELETE, EXPIRE, Held  # noqa: E402
from locklab_driver import Busy, Ending, Failed, NotHeld, Unknown, run  # noqa: E402
from resp import Redis  # noqa: E402

WATCHDOG_MS = 3000


class Hold(Held):
    def __init__(self, call, value):
        super().__init__(call)
        self.lock, self.value, self.released = call.lock, value, threading.Event()


class Sound:
    """Nothing is wrong."""

    timeout_s = 2
    renews = False
    told = True
    every_s = WATCHDOG_MS / 3000

    def __init__(self, hello):
        self.redis, self.client = Redis(hello, self.timeout_s), uuid.uuid4().hex
        self.do = self.redis.command

    def value(self):
        return uuid.uuid4().hex

    def take(self, hold, lease_ms):
        return self.do("SET", hold.lock, hold.value, "NX", "PX", lease_ms) == "OK"

    def acquire(self, call):
        hold, lease_ms = Hold(call, self.value()), call.lease_ms or WATCHDOG_MS
        while True:
            call.sent()
            sent_s = time.monotonic()
            if self.take(hold, lease_ms):
                if not self.told or hold.keep(self.lease_begins_s(sent_s), lease_ms):
                    break
                self.do("EVAL", DELETE, 1, hold.lock, hold.value)
            if call.left_s() == 0:
                raise Busy()
            time.sleep(min(call.left_s(), 0.01))
        if call.lease_ms is None and self.renews:
            threading.Thread(target=self.renew_until_released, args=(hold,), daemon=True).start()
        return hold

    def lease_begins_s(self, sent_s):
        return sent_s

    def renew(self, hold):
        return self.do("EVAL", EXPIRE, 1, hold.lock, hold.value, WATCHDOG_MS) == 1

    def renew_until_released(self, hold):
        while not hold.released.wait(self.every_s):
            sent_s = time.monotonic()
            try:
                renewed = self.renew(hold)
            except Ending:
                continue
            if hold.released.is_set() or not hold.timer.is_alive():
                return
            if not renewed:
                hold.timer.cancel()
                return hold.call.lost("the key is gone")
            if not hold.keep(sent_s, WATCHDOG_MS):
                return

    def delete(self, hold):
        return self.do("EVAL", DELETE, 1, hold.lock, hold.value) == 1

    def release(self, hold):
        hold.timer.cancel()
        hold.released.set()
        if not self.delete(hold):
            raise NotHeld()

    def prolong(self, hold, lease_ms):
        return self.do("EVAL", EXPIRE, 1, hold.lock, hold.value, lease_ms) == 1

    def extend(self, hold, lease_ms):
        sent_s = time.monotonic()
        extended = self.prolong(hold, lease_ms)
        if not extended or self.told and not (hold.timer.is_alive() and hold.keep(sent_s, lease_ms)):
            raise NotHeld()


class SoundRenewed(Sound):
    """Nothing is wrong, and it renews."""

    renews = True


# How the owner is named.


class ValuePerClient(Sound):
    """All holds of a client write one value."""

    def value(self):
        return self.client


class ValueIsThread(Sound):
    """The value is the number of a thread, which another process has too."""

    def value(self):
        return threading.get_ident()


class ValueIsConstant(Sound):
    """Every hold writes the same value."""

    def value(self):
        return "locked"


class ValueCounts(Sound):
    """The value is a counter of the client's own, which begins at 1 in each."""

    counted = 0

    def value(self):
        self.counted += 1
        return self.counted


# How the key is taken.


class GetThenSet(Sound):
    """GET, and SET without NX where nothing was found."""

    def take(self, hold, lease_ms):
        return self.do("GET", hold.lock) is None and self.do("SET", hold.lock, hold.value, "PX", lease_ms) == "OK"


class ExistsThenSet(Sound):
    """EXISTS, and SET without NX where nothing was found."""

    def take(self, hold, lease_ms):
        return self.do("EXISTS", hold.lock) == 0 and self.do("SET", hold.lock, hold.value, "PX", lease_ms) == "OK"


class SetnxThenExpire(Sound):
    """SETNX, then PEXPIRE: who dies in between locks everybody out."""

    def take(self, hold, lease_ms):
        return self.do("SETNX", hold.lock, hold.value) == 1 and self.do("PEXPIRE", hold.lock, lease_ms) == 1


class IncrThenExpire(Sound):
    """INCR, PEXPIRE for who counted 1, and DEL."""

    def take(self, hold, lease_ms):
        return self.do("INCR", hold.lock) == 1 and self.do("PEXPIRE", hold.lock, lease_ms) == 1

    def delete(self, hold):
        return self.do("DEL", hold.lock) == 1


class NoExpiry(Sound):
    """SET NX without an end of the lease."""

    def take(self, hold, lease_ms):
        return self.do("SET", hold.lock, hold.value, "NX") == "OK"


class GetsetOfTimes(Sound):
    """The value is the end of the lease by the client's clock, and the next caller that finds it over writes its own by GETSET."""

    def take(self, hold, lease_ms):
        hold.value = str(time.time() + lease_ms / 1000)
        if self.do("SETNX", hold.lock, hold.value) == 1:
            return True
        found = self.do("GET", hold.lock)
        if found is None or float(found) > time.time():
            return False
        before = self.do("GETSET", hold.lock, hold.value)
        return before is not None and float(before) < time.time()


class LeaseInWholeSeconds(Sound):
    """The lease is rounded down to whole seconds."""

    def take(self, hold, lease_ms):
        return self.do("SET", hold.lock, hold.value, "NX", "EX", max(1, lease_ms // 1000)) == "OK"


class LeaseOfOneSecond(Sound):
    """The lease that is asked for is not passed on: it is always 1 s."""

    def take(self, hold, lease_ms):
        return self.do("SET", hold.lock, hold.value, "NX", "PX", 1000) == "OK"


class LeaseOfAMinute(Sound):
    """The lease that is asked for is not passed on: it is always 60 s."""

    def take(self, hold, lease_ms):
        return self.do("SET", hold.lock, hold.value, "NX", "PX", 60_000) == "OK"


class StealsWhatEndsSoon(Sound):
    """A lock with less than 100 ms left is taken from its holder."""

    def take(self, hold, lease_ms):
        if super().take(hold, lease_ms):
            return True
        return self.do("PTTL", hold.lock) < 100 and self.do("SET", hold.lock, hold.value, "PX", lease_ms) == "OK"


class ErrorIsGranted(Sound):
    """Any error is taken for a grant."""

    def take(self, hold, lease_ms):
        try:
            return super().take(hold, lease_ms)
        except Ending:
            return True


class UnknownIsFailed(Sound):
    """An acquire that timed out is called failed, and nothing is given back."""

    def take(self, hold, lease_ms):
        try:
            return super().take(hold, lease_ms)
        except Unknown as unknown:
            raise Failed(str(unknown)) from unknown


class TimeoutIsBusy(Sound):
    """An answer that does not come within 200 ms means busy, and nothing is given back."""

    timeout_s = 0.2

    def take(self, hold, lease_ms):
        try:
            return super().take(hold, lease_ms)
        except Unknown:
            raise Busy() from None


class ErrorTriesAgain(Sound):
    """An acquire without an answer is sent again, and finds its own key: busy."""

    def take(self, hold, lease_ms):
        try:
            return super().take(hold, lease_ms)
        except Ending:
            return super().take(hold, lease_ms)


class LeaseFromReply(Sound):
    """The lease is counted from the reply."""

    def lease_begins_s(self, sent_s):
        return time.monotonic()


# How it is renewed.


class RenewerEndsAtAnError(Sound):
    """The renewal ends at its first error, and nobody is told."""

    renews, told = True, False

    def renew_until_released(self, hold):
        try:
            while not hold.released.wait(self.every_s):
                self.renew(hold)
        except Ending:
            pass


class RenewerGoesOn(RenewerEndsAtAnError):
    """The renewal goes on whatever it finds, and nobody is told."""

    def renew(self, hold):
        try:
            return super().renew(hold)
        except Ending:
            return True


class RenewsWithoutOwner(SoundRenewed):
    """The renewal is a plain PEXPIRE."""

    def renew(self, hold):
        return self.do("PEXPIRE", hold.lock, WATCHDOG_MS) == 1


class RenewsBySetXx(SoundRenewed):
    """The renewal is SET XX, which overwrites whoever has the key."""

    def renew(self, hold):
        return self.do("SET", hold.lock, hold.value, "XX", "PX", WATCHDOG_MS) == "OK"


class RenewsBySet(SoundRenewed):
    """The renewal is a plain SET, which takes the lock anew from anybody."""

    def renew(self, hold):
        return self.do("SET", hold.lock, hold.value, "PX", WATCHDOG_MS) == "OK"


class RenewsByGetThenExpire(SoundRenewed):
    """The renewal is GET, a comparison and PEXPIRE."""

    def renew(self, hold):
        return self.do("GET", hold.lock) == hold.value and self.do("PEXPIRE", hold.lock, WATCHDOG_MS) == 1


class RenewalRevives(SoundRenewed):
    """A renewal that finds no key takes the lock anew, and the hold goes on."""

    def renew(self, hold):
        return super().renew(hold) or self.do("SET", hold.lock, hold.value, "NX", "PX", WATCHDOG_MS) == "OK"


class RenewsForLess(SoundRenewed):
    """A renewal sets half of the lease that it counts on."""

    def renew(self, hold):
        return self.do("EVAL", EXPIRE, 1, hold.lock, hold.value, WATCHDOG_MS // 2) == 1

    every_s = WATCHDOG_MS / 1000 * 0.6


class RenewsTooLate(SoundRenewed):
    """It renews once the lease is over, and nobody is told."""

    told, every_s = False, WATCHDOG_MS / 1000 * 1.2

    def renew_until_released(self, hold):
        while not hold.released.wait(self.every_s):
            self.renew(hold)


# How it is given back.


class ReleaseDeletes(Sound):
    """The release is a plain DEL."""

    def delete(self, hold):
        return self.do("DEL", hold.lock) == 1


class ReleaseGetsThenDeletes(Sound):
    """The release is GET, a comparison and DEL."""

    def delete(self, hold):
        return self.do("GET", hold.lock) == hold.value and self.do("DEL", hold.lock) == 1


class ReleaseExpires(Sound):
    """The release is a plain PEXPIRE of 1 ms."""

    def delete(self, hold):
        return self.do("PEXPIRE", hold.lock, 1) == 1


class ReleaseLooksAtTheEnd(Sound):
    """The release is DEL, where the key still has time left."""

    def delete(self, hold):
        return self.do("PTTL", hold.lock) > 0 and self.do("DEL", hold.lock) == 1


class ReleaseSaysOk(Sound):
    """A release that failed says that it worked."""

    def delete(self, hold):
        try:
            super().delete(hold)
        except Ending:
            pass
        return True


class ReleaseForgets(Sound):
    """A release says that it worked, and sends nothing."""

    def delete(self, hold):
        return True


# How it is extended.


class ExtendsWithoutOwner(Sound):
    """The extension is a plain PEXPIRE, and a hold that was told lost goes on."""

    def prolong(self, hold, lease_ms):
        return self.do("PEXPIRE", hold.lock, lease_ms) == 1

    def extend(self, hold, lease_ms):
        sent_s = time.monotonic()
        if not (self.prolong(hold, lease_ms) and hold.keep(sent_s, lease_ms)):
            raise NotHeld()


class ExtendsBySet(ExtendsWithoutOwner):
    """The extension is a plain SET."""

    def prolong(self, hold, lease_ms):
        return self.do("SET", hold.lock, hold.value, "PX", lease_ms) == "OK"


class ExtendSaysOk(Sound):
    """An extension says that it worked, and sends nothing."""

    def prolong(self, hold, lease_ms):
        return True


class ExtendsForLess(Sound):
    """An extension sets half of the lease that it counts on."""

    def prolong(self, hold, lease_ms):
        return super().prolong(hold, lease_ms // 2)


class TellsNobody(Sound):
    """Nobody is told that the lease is over."""

    told = False


def name_of(defect):
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=A)(?=[A-Z])", "-", defect.__name__).lower()


DEFECTS = {name_of(one): one for one in list(globals().values()) if isinstance(one, type) and issubclass(one, Sound)}

if __name__ == "__main__" and len(sys.argv) < 2:
    for name, one in DEFECTS.items():
        print(name, one.__doc__, sep="\t")
elif __name__ == "__main__":
    defect = DEFECTS[sys.argv[1]]
    features = ["lost"] if defect.told else []
    run(defect, name=sys.argv[1], version="1.0", kinds=["plain"], topologies=["single"], watchdog_ms=WATCHDOG_MS if defect.renews else None, features=features)
