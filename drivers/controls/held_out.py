#!/usr/bin/env python3
"""Twelve locks with one defect each that nobody has looked for: `held_out.py NAME`; `held_out.py` lists them.

Each is a defect of a public report, which its docstring names. They were taken in the order in which a search of issue threads gave them, where a report
says what goes wrong and `defects.py` does not have it: six on one key, two re-entrant, two on several masters, one fair and one for readers and writers.
They were written on 2026-11-30 and audited once before anybody looked at what finds them (docs/src/audit.md has the figures). A scenario that is written
to find one of them moves it to `defects.py`, whose sound locks these are but for their defect, as the dozen before them did.
"""
import pathlib
import random
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from defects import Busy, DELETE, EXPIRE, Ending, NotHeld, NOW, RenewsWhatWasGivenUp, Sound, SoundFair, SoundMasters  # noqa: E402
from defects import SoundReadWrite, SoundReentrant, SoundRenewed, Unknown, WRITE, serve  # noqa: E402


class WaitsForAKeyThatIsGone(Sound):
    """A waiter that finds the key taken, and gone when it looks again, sleeps for a whole lease (errorception/redis-lock#4)."""

    def take(self, hold, lease_ms):
        if super().take(hold, lease_ms):
            return True
        if self.do("GET", hold.lock) is None:
            time.sleep(min(hold.call.left_s(), lease_ms / 1000))
        return False


class MissesTheRelease(SoundRenewed):
    """A waiter listens for the release only after it found the key taken; it misses one in between, and waits until the lease ends (redisson#5761)."""

    def take(self, hold, lease_ms):
        if super().take(hold, lease_ms):
            return True
        ends_s = time.monotonic() + self.do("PTTL", hold.lock) / 1000
        heard = self.do("GET", f"{hold.lock}:released")
        while hold.call.left_s() > 0 and time.monotonic() < ends_s and self.do("GET", f"{hold.lock}:released") == heard:
            time.sleep(min(hold.call.left_s(), 0.01))
        return False

    def delete(self, hold):
        tell = "redis.call('incr', KEYS[2]) redis.call('pexpire', KEYS[2], 60000) return redis.call('del', KEYS[1])"
        return self.do("EVAL", DELETE.replace("return redis.call('del', KEYS[1])", tell), 2, hold.lock, f"{hold.lock}:released", hold.value) == 1


class FailedReleaseIsRenewed(SoundRenewed):
    """The renewal ends with a release that worked: what a failed one has left is renewed for as long as the process lives (redisson#4232)."""

    def release(self, hold):
        try:
            super().release(hold)
        except NotHeld:
            raise
        except Ending:
            if hold.call.lease_ms is None:
                threading.Thread(target=self.renew_for_ever, args=(hold,), daemon=True).start()
            raise

    renew_for_ever = RenewsWhatWasGivenUp.renew_for_ever


class WaitsForOneLease(SoundRenewed):
    """A wait without a bound ends when nothing was released for as long as a lease, though the holder renews it (python-redis-lock#35)."""

    def take(self, hold, lease_ms):
        if super().take(hold, lease_ms):
            return True
        holder, now_s = self.do("GET", hold.lock), time.monotonic()
        if holder != getattr(hold, "holder", None):
            hold.holder, hold.until_s = holder, now_s + lease_ms / 1000
        if hold.call.wait_ms is None and holder is not None and now_s >= hold.until_s:
            raise Busy()
        return False


class BeginsWithTheLastLease(SoundRenewed):
    """A renewed hold begins with the lease that was last asked for on that lock, until its first renewal (redisson#4818)."""

    def __init__(self, hello):
        super().__init__(hello)
        self.leases = {}

    def take(self, hold, lease_ms):
        if hold.call.lease_ms is not None:
            self.leases[hold.lock] = lease_ms
        return super().take(hold, self.leases.get(hold.lock, lease_ms))


class CountsFromTheFirstTry(Sound):
    """The lease is counted from the first try: what was waited for longer than a lease is over when it is granted (node-redlock#296)."""

    def acquire(self, call):
        hold, first_s = self.hold(call), time.monotonic()
        call.sent()
        while not self.take(hold, call.lease_ms):
            if call.left_s() == 0:
                raise Busy()
            time.sleep(min(call.left_s(), random.uniform(0.005, 0.015)))
            call.sent()
        if time.monotonic() >= first_s + 0.9 * call.lease_ms / 1000 or not hold.keep(first_s, call.lease_ms):
            call.lost("the lease is over")
        return hold


# Re-entrant, with a lock within the client that is taken before the one on the server.


class LockedWithin:
    """The locks within a client: an owner and a count by name."""

    def __init__(self, hello):
        super().__init__(hello)
        self.freed, self.owners = threading.Condition(), {}

    def name(self, call):
        return call.lock

    def count(self, name):
        return self.owners.get(name, (None, 0))[1]

    def acquire(self, call):
        name = self.name(call)
        with self.freed:
            if not self.freed.wait_for(lambda: self.owners.get(name, (call.owner, 0))[0] == call.owner, min(call.left_s(), threading.TIMEOUT_MAX)):
                raise Busy()
            self.owners[name] = (call.owner, self.count(name) + 1)
        try:
            return super().acquire(call)
        except Exception:
            self.leave_within(call)
            raise

    def leave_within(self, call):
        with self.freed:
            name = self.name(call)
            owner, count = self.owners.pop(name)
            if count > 1:
                self.owners[name] = (owner, count - 1)
            self.freed.notify_all()

    def release(self, hold):
        try:
            super().release(hold)
        except Ending as ending:
            self.after_release(hold, ending)
            raise
        self.after_release(hold, None)

    def after_release(self, hold, ending):
        if not getattr(hold, "has_left", False):
            hold.has_left = True
            self.leave_within(hold.call)


class ExpiredStaysLockedWithin(LockedWithin, SoundReentrant):
    """A release that finds its lease over leaves the lock within the client: no other thread there gets it again (spring-integration#1888)."""

    def after_release(self, hold, ending):
        if not isinstance(ending, NotHeld):
            super().after_release(hold, ending)


class LocksShareACount(LockedWithin, SoundReentrant):
    """Names share 256 counts within the client: of an owner's two locks with one count the first release sends nothing (spring-integration#11146)."""

    def name(self, call):
        number = 0
        for letter in call.lock:
            number = 31 * number + ord(letter)
        return number % 256

    def delete(self, hold):
        others = [one for one in self.holds[hold.lock, hold.call.owner] if one is not hold and one.timer.is_alive() and not one.released.is_set()]
        return not others and self.count(self.name(hold.call)) > 1 or super().delete(hold)


# Several masters.


class MastersOneAfterAnother(SoundMasters):
    """Masters are waited for one after another, and the lease is counted from the last: the first may be over by then (redisson#624)."""

    def take(self, hold, lease_ms):
        votes = [self.wait_for(master, hold, lease_ms) for master in self.masters]
        if 2 * sum(votes) > len(votes):
            return True
        undone = self.ask_all("EVAL", DELETE, 1, hold.lock, hold.value)
        if any(isinstance(reply, Unknown) for reply in undone):
            raise Unknown("what was not granted may not be given back")
        return False

    def wait_for(self, master, hold, lease_ms):
        while True:
            try:
                if master.command("SET", hold.lock, hold.value, "NX", "PX", lease_ms) == "OK":
                    return True
            except Ending:
                return False
            if hold.call.left_s() == 0:
                return False
            time.sleep(min(hold.call.left_s(), random.uniform(0.005, 0.015)))

    def lease_begins_s(self, sent_s):
        return time.monotonic()


class MastersLeaseOfTheWait(SoundMasters):
    """The lease is first set to twice the wait: of a wait without a bound, which is -1, the keys are gone at once (redisson#2172)."""

    def take(self, hold, lease_ms):
        taken = super().take(hold, lease_ms)
        if taken and hold.call.wait_ms is None:
            self.ask_all("EVAL", EXPIRE, 1, hold.lock, hold.value, -2)
        return taken


# Fair, and readers and writers.


class GivenUpStaysInLine(SoundFair):
    """Who gave up stays in the line, and all behind wait until that place ends (redisson#757)."""

    def give_up(self, hold):
        pass


class ReadReleaseEndsTheWrite(SoundReadWrite):
    """A writer may read, and the release of its read deletes the whole lock with its write (redisson#891)."""

    write = WRITE.replace("> 0 then", "> 0 and redis.call('hexists', KEYS[1], ARGV[1]) == 0 then")
    read = NOW + """if redis.call('exists', KEYS[1]) == 1 and redis.call('hexists', KEYS[1], ARGV[3]) == 0 then return 0 end
    return redis.call('zadd', KEYS[2], now + ARGV[2], ARGV[1])"""
    leave_read = """if redis.call('zrem', KEYS[2], ARGV[1]) == 0 then return 0 end
    if redis.call('zcard', KEYS[2]) == 0 then redis.call('del', KEYS[1]) end return 1"""

    def take(self, hold, lease_ms):
        if hold.call.kind != "read":
            return self.script(self.write, hold, lease_ms)
        own = [one.value for one in self.holds.get((hold.lock, hold.call.owner), []) if one.timer.is_alive() and not one.released.is_set()]
        return self.script(self.read, hold, lease_ms, own[0] if own else "")

    def delete(self, hold):
        return self.script(self.leave_read, hold) if hold.call.kind == "read" else super().delete(hold)


if __name__ == "__main__":
    serve(sys.modules[__name__])
