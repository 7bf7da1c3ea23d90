#!/usr/bin/env python3
"""Locks with one defect each, to measure what an audit finds: `defects.py NAME`; `defects.py` lists them.

Every lock is the sound one of its family but for its defect. A class is a defect, its docstring says what is wrong, and its name in lower case with
dashes is its name. Those that begin with `sound` have none: an audit that convicts one of them accuses a sound lock. The defects are those of public
reports (docs/src/audit.md), and were written on 2026-11-28. Nine scenarios were written after them, because an audit had missed some: `renewed-key-lost`
(`renews-without-owner`), `late-answers` (`lease-from-reply`), `releases-held-up` (`stale-release-counts`), `readers-killed` (`readers-counted`),
`reentered-renewed` (`inner-release-ends-renewal`), `reentered-short-lease` (`enters-by-memory`, `entry-does-not-prolong`, `release-counts-below-zero`),
`masters-extended-cut` (`masters-extend-from-reply`), `masters-given-back` (`masters-give-back-where-granted`) and `masters-halves`. Twelve defects were in
`held_out.py` until two scenarios were written after six of them and four changed, since an audit had missed them: `renewed-reply-lost`
(`renews-what-was-given-up`), `readers-short-leases` (`readers-share-one-lease`), `lost-reply-release` (`forgets-before-it-releases`), `script-flush`
(`scripts-by-hash-only`), `masters-halves` (`quorum-of-the-reachable`) and `masters-minority` (`one-master-down-is-an-error`). The other six were looked
at then too: `never-renewed-again`, `waits-for-the-signal`, `zero-wait-waits`, `releases-later`, `resend-enters-twice` and `reentry-overwrites`. Twelve more
were in `held_out.py` until steps of `conform` were written after six of them: `endless wait` (`waits-for-one-lease`, `masters-lease-of-the-wait`), `lease
after a wait` (`counts-from-the-first-try`), `renewal` (`begins-with-the-last-lease`), `late release` (`expired-stays-locked-within`) and `reading in
writing` (`read-release-ends-the-write`). Sixteen more, and two sound locks, were in `held_out.py` until a step of `conform` was written and three ask more
after six of them: `extend` (`extends-by-adding`, `masters-extend-in-seconds`), `wait` (`lease-is-the-wait`, `release-ends-with-the-wait`), `renewal`
(`reentry-leaves-a-renewal`) and `readers` (`wakes-one-reader`). Fourteen more, and two sound locks, were in `held_out.py` until `conform` drew calls, which
finds `extends-to-nothing` and `release-tries-again`. So a figure of these is in part one of what scenarios and steps were made for.
"""
import collections
import concurrent.futures
import copy
import hashlib
import itertools
import pathlib
import random
import re
import sys
import threading
import time
import uuid
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "sdk" / "python"))

from driver import DELETE, EXPIRE, Held  # noqa: E402
from locklab_driver import Busy, Ending, Failed, Granted, NotHeld, Unknown, run  # noqa: E402
from resp import Redis  # noqa: E402


def watchdog_ms(hello):
    """The lease that is renewed: what is wished for."""
    return hello.watchdog_ms or 3000


class Hold(Held):
    def __init__(self, call, value):
        super().__init__(call)
        self.lock, self.value, self.released = call.lock, value, threading.Event()
        self.timed = threading.Lock()

    def keep(self, sent_s, lease_ms):
        with self.timed:
            return super().keep(sent_s, lease_ms)

    def is_kept(self):
        """Whether no lease has ended. A renewal and an extension may come at once, and each has another timer then."""
        with self.timed:
            return self.timer.is_alive()


class Sound:
    """Nothing is wrong."""

    family, kinds, topology = "one key", ["plain"], "single"
    timeout_s = 2
    renews = False
    told = True
    every = 1 / 3

    def __init__(self, hello):
        self.watchdog_ms = watchdog_ms(hello)
        self.redis, self.client = Redis(hello, self.timeout_s), uuid.uuid4().hex
        self.do = self.redis.command

    def value(self):
        return uuid.uuid4().hex

    def hold(self, call):
        return Hold(call, self.value())

    def take(self, hold, lease_ms):
        return self.do("SET", hold.lock, hold.value, "NX", "PX", lease_ms) == "OK"

    def acquire(self, call):
        hold, lease_ms = self.hold(call), call.lease_ms or self.watchdog_ms
        while True:
            call.sent()
            sent_s = time.monotonic()
            if self.take(hold, lease_ms):
                if not self.told or hold.keep(self.lease_begins_s(sent_s), lease_ms):
                    break
                self.delete(hold)
            if call.left_s() == 0:
                raise Busy()
            self.pause(call)
        if call.lease_ms is None and self.renews:
            threading.Thread(target=self.renew_until_released, args=(hold,), daemon=True).start()
        return hold

    def pause(self, call):
        time.sleep(min(call.left_s(), random.uniform(0.005, 0.015)))

    def lease_begins_s(self, sent_s):
        return sent_s

    def renew(self, hold):
        return self.do("EVAL", EXPIRE, 1, hold.lock, hold.value, self.watchdog_ms) == 1

    def renew_until_released(self, hold):
        while not hold.released.wait(self.every * self.watchdog_ms / 1000):
            sent_s = time.monotonic()
            try:
                renewed = self.renew(hold)
            except Ending:
                continue
            if hold.released.is_set() or not hold.is_kept():
                return
            if not renewed:
                hold.timer.cancel()
                return hold.call.lost("the key is gone")
            if not hold.keep(sent_s, self.watchdog_ms):
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
        if not extended or self.told and not (hold.is_kept() and hold.keep(sent_s, lease_ms)):
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
    """The value is the number of the caller's thread, and each process counts its threads from 1."""

    def __init__(self, hello):
        super().__init__(hello)
        self.threads = collections.defaultdict(itertools.count(1).__next__)

    def hold(self, call):
        return Hold(call, self.threads[call.owner])


# How the key is taken.


class GetThenSet(Sound):
    """GET, and SET without NX where nothing was found."""

    def take(self, hold, lease_ms):
        return self.do("GET", hold.lock) is None and self.do("SET", hold.lock, hold.value, "PX", lease_ms) == "OK"


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


class WaitsForTheSignal(Sound):
    """A waiter sleeps until a release pushes a signal, and a lease that ends pushes none (python-redis-lock#26, python-redis-lock#71)."""

    def pause(self, call):
        while not self.do("BLPOP", f"{call.lock}:signal", max(0.01, min(1.0, call.left_s()))):
            if call.left_s() == 0:
                raise Busy()

    def delete(self, hold):
        signal = "redis.call('del', KEYS[2]) redis.call('lpush', KEYS[2], 1) redis.call('pexpire', KEYS[2], 1000) return redis.call('del', KEYS[1])"
        return self.do("EVAL", DELETE.replace("return redis.call('del', KEYS[1])", signal), 2, hold.lock, f"{hold.lock}:signal", hold.value) == 1


class ZeroWaitWaits(Sound):
    """A wait of zero is taken for one without a bound (dv/redis-semaphore#37)."""

    def acquire(self, call):
        if call.wait_ms == 0:
            call._until_s = float("inf")
        return super().acquire(call)


# How it is renewed.


class RenewerEndsAtAnError(Sound):
    """The renewal ends at its first error, and nobody is told."""

    renews, told = True, False

    def renew_until_released(self, hold):
        try:
            while not hold.released.wait(self.every * self.watchdog_ms / 1000):
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
        return self.do("PEXPIRE", hold.lock, self.watchdog_ms) == 1


class RenewsBySetXx(SoundRenewed):
    """The renewal is SET XX, which overwrites whoever has the key."""

    def renew(self, hold):
        return self.do("SET", hold.lock, hold.value, "XX", "PX", self.watchdog_ms) == "OK"


class RenewsByGetThenExpire(SoundRenewed):
    """The renewal is GET, a comparison and PEXPIRE."""

    def renew(self, hold):
        return self.do("GET", hold.lock) == hold.value and self.do("PEXPIRE", hold.lock, self.watchdog_ms) == 1


class RenewalRevives(SoundRenewed):
    """A renewal that finds no key takes the lock anew, and the hold goes on."""

    def renew(self, hold):
        return super().renew(hold) or self.do("SET", hold.lock, hold.value, "NX", "PX", self.watchdog_ms) == "OK"


class RenewsForLess(SoundRenewed):
    """A renewal sets half of the lease that it counts on."""

    def renew(self, hold):
        return self.do("EVAL", EXPIRE, 1, hold.lock, hold.value, self.watchdog_ms // 2) == 1

    every = 0.6


class RenewsWhatWasGivenUp(SoundRenewed):
    """An acquire that was given up before its answer is renewed for as long as the process lives (redisson#2714, redisson#5358)."""

    def take(self, hold, lease_ms):
        try:
            return super().take(hold, lease_ms)
        except Unknown:
            if hold.call.lease_ms is None:
                threading.Thread(target=self.renew_for_ever, args=(hold,), daemon=True).start()
            raise

    def renew_for_ever(self, hold):
        while True:
            try:
                if not self.renew(hold):
                    return
            except Ending:
                pass
            time.sleep(self.every * self.watchdog_ms / 1000)


class NeverRenewedAgain(SoundRenewed):
    """After a renewal that failed, later locks of that name are taken for renewed and are not (redisson#2515, redisson#3194)."""

    def __init__(self, hello):
        super().__init__(hello)
        self.renewed = set()

    def renew_until_released(self, hold):
        if hold.lock in self.renewed:
            return hold.timer.cancel()
        self.renewed.add(hold.lock)
        super().renew_until_released(hold)
        if not getattr(hold, "has_failed", False):
            self.renewed.discard(hold.lock)

    def renew(self, hold):
        try:
            return super().renew(hold)
        except Ending:
            hold.has_failed = True
            raise


# How it is given back.


class ReleaseDeletes(Sound):
    """The release is a plain DEL."""

    def delete(self, hold):
        return self.do("DEL", hold.lock) == 1


class ReleaseGetsThenDeletes(Sound):
    """The release is GET, a comparison and DEL."""

    def delete(self, hold):
        return self.do("GET", hold.lock) == hold.value and self.do("DEL", hold.lock) == 1


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


class ScriptsByHashOnly(Sound):
    """Scripts are loaded once and called by their hash, whatever the server has forgotten since (redlock-rb#27, redlock-rb#148)."""

    def __init__(self, hello):
        super().__init__(hello)
        self.hashes = [self.do("SCRIPT", "LOAD", script) for script in (DELETE, EXPIRE)]

    def delete(self, hold):
        return self.do("EVALSHA", self.hashes[0], 1, hold.lock, hold.value) == 1

    def prolong(self, hold, lease_ms):
        return self.do("EVALSHA", self.hashes[1], 1, hold.lock, hold.value, lease_ms) == 1


class ForgetsBeforeItReleases(Sound):
    """A release forgets its value before it is answered, so that one which was cut off cannot be repeated (redis-py#3847)."""

    def delete(self, hold):
        value, hold.value = hold.value, None
        return value is not None and self.do("EVAL", DELETE, 1, hold.lock, value) == 1


class ReleasesLater(Sound):
    """A release is answered before its key is removed, which another thread does later, once (spring-integration#11049)."""

    def delete(self, hold):
        def remove():
            time.sleep(0.1)
            try:
                Sound.delete(self, hold)
            except Ending:
                pass

        threading.Thread(target=remove, daemon=True).start()
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


# What a step of `conform` was made after, and what nothing finds yet.


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


# Re-entrant: a hash of owners and their counts, in one script each.

ENTER = """if redis.call('exists', KEYS[1]) == 1 and redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('hincrby', KEYS[1], ARGV[1], 1) redis.call('pexpire', KEYS[1], ARGV[2]) return 1"""
LEAVE = """if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
if redis.call('hincrby', KEYS[1], ARGV[1], -1) < 1 then redis.call('del', KEYS[1]) end return 1"""
PROLONG = "if redis.call('hexists', KEYS[1], ARGV[1]) == 1 then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0"


class SoundReentrant(Sound):
    """Nothing is wrong: what an owner enters while an earlier hold of its own goes on has that hold's value."""

    family, kinds, renews = "re-entrant", ["reentrant"], True
    leave = LEAVE

    def __init__(self, hello):
        super().__init__(hello)
        self.holds = {}

    def owner(self, call):
        return f"{self.client}:{call.owner}"

    def hold(self, call):
        own = self.holds.setdefault((call.lock, call.owner), [])
        own[:] = [hold for hold in own if hold.is_kept() and not hold.released.is_set()]
        hold = Hold(call, own[0].value if own else f"{self.owner(call)}:{self.value()}")
        own.append(hold)
        return hold

    def take(self, hold, lease_ms):
        return self.do("EVAL", ENTER, 1, hold.lock, hold.value, lease_ms) == 1

    def renew(self, hold):
        return self.do("EVAL", PROLONG, 1, hold.lock, hold.value, self.watchdog_ms) == 1

    def delete(self, hold):
        return self.do("EVAL", self.leave, 1, hold.lock, hold.value) == 1

    def prolong(self, hold, lease_ms):
        return self.do("EVAL", PROLONG, 1, hold.lock, hold.value, lease_ms) == 1


class EntersByMemory(SoundReentrant):
    """Who holds by the client's own count enters again without asking the server."""

    def take(self, hold, lease_ms):
        inner = self.holds[hold.call.lock, hold.call.owner][0] is not hold
        hold.inner = inner
        return inner or super().take(hold, lease_ms)

    def delete(self, hold):
        return getattr(hold, "inner", False) or super().delete(hold)


class OwnerWithoutClient(SoundReentrant):
    """The owner is named by its thread alone, which another client has too."""

    def hold(self, call):
        hold = super().hold(call)
        hold.value = call.owner
        return hold


class StaleReleaseCounts(SoundReentrant):
    """An owner has one name for ever: the late release of a hold that was lost counts down its next one."""

    def hold(self, call):
        hold = super().hold(call)
        hold.value = self.owner(call)
        return hold


class EntryDoesNotProlong(SoundReentrant):
    """An inner hold counts on a lease of its own, and the server keeps that of the outer one."""

    def take(self, hold, lease_ms):
        script = ENTER.replace("redis.call('pexpire', KEYS[1], ARGV[2])", "if redis.call('pttl', KEYS[1]) < 0 then redis.call('pexpire', KEYS[1], ARGV[2]) end")
        return self.do("EVAL", script, 1, hold.lock, hold.value, lease_ms) == 1


class ReleaseCountsBelowZero(SoundReentrant):
    """A release counts down without a look whether its owner is there, and leaves its name in another's lock."""

    leave = "if redis.call('hincrby', KEYS[1], ARGV[1], -1) == 0 then redis.call('del', KEYS[1]) end return 1"


class InnerReleaseShortens(SoundReentrant):
    """An inner release sets the lease to a default of 200 ms."""

    leave = LEAVE.replace(" end return 1", " else redis.call('pexpire', KEYS[1], 200) end return 1")


class InnerReleaseEndsRenewal(SoundReentrant):
    """The first release of an owner ends the renewal of all its holds, and nobody is told."""

    def release(self, hold):
        for other in self.holds[hold.call.lock, hold.call.owner] if hold.call.lease_ms is None else []:
            other.timer.cancel()
            other.released.set()
        super().release(hold)


class ResendEntersTwice(SoundReentrant):
    """An entry without an answer is sent again and counts twice; one release leaves the lock, and its renewal, behind (redisson#7367)."""

    leave = """if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
    if redis.call('hincrby', KEYS[1], ARGV[1], -1) < 1 then redis.call('del', KEYS[1]) return 1 end return 2"""

    def take(self, hold, lease_ms):
        try:
            return super().take(hold, lease_ms)
        except Unknown:
            return super().take(hold, lease_ms)

    def delete(self, hold):
        left = self.do("EVAL", self.leave, 1, hold.lock, hold.value)
        others = [one for one in self.holds[hold.lock, hold.call.owner] if one.is_kept() and not one.released.is_set()]
        if left == 2 and not others and hold.call.lease_ms is None:
            threading.Thread(target=self.renew_for_ever, args=(hold,), daemon=True).start()
        return left > 0

    renew_for_ever = RenewsWhatWasGivenUp.renew_for_ever


class ReentryOverwrites(SoundReentrant):
    """An entry looks whose the key is, and writes its count in the next command, whoever has it by then (redisson#84)."""

    mine = "local value = redis.call('get', KEYS[1]) if not value or value:sub(1, #ARGV[1] + 1) ~= ARGV[1] .. '|' then return 0 end "
    leave = mine + """local left = tonumber(value:sub(#ARGV[1] + 2)) - 1
    if left < 1 then redis.call('del', KEYS[1]) else redis.call('set', KEYS[1], ARGV[1] .. '|' .. left, 'KEEPTTL') end return 1"""

    def take(self, hold, lease_ms):
        if self.do("SET", hold.lock, f"{hold.value}|1", "NX", "PX", lease_ms) == "OK":
            return True
        owner, _, count = (self.do("GET", hold.lock) or "").rpartition("|")
        return owner == hold.value and self.do("SET", hold.lock, f"{owner}|{int(count) + 1}", "PX", lease_ms) == "OK"

    def prolong(self, hold, lease_ms):
        return self.do("EVAL", self.mine + "return redis.call('pexpire', KEYS[1], ARGV[2])", 1, hold.lock, hold.value, lease_ms) == 1

    def renew(self, hold):
        return self.prolong(hold, self.watchdog_ms)


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
        others = [one for one in self.holds[hold.lock, hold.call.owner] if one is not hold and one.is_kept() and not one.released.is_set()]
        return not others and self.count(self.name(hold.call)) > 1 or super().delete(hold)


# Several independent masters.


class SoundMasters(Sound):
    """Nothing is wrong: a majority of masters, and what was not granted is given back everywhere."""

    family, kinds, topology = "several masters", ["redlock"], "masters"
    timeout_s = 0.5

    def __init__(self, hello):
        self.watchdog_ms, self.masters = watchdog_ms(hello), []
        for server in hello.servers:
            one = copy.copy(hello)
            one.servers = [server]
            self.masters.append(Redis(one, self.timeout_s))
        self.pool = concurrent.futures.ThreadPoolExecutor(64)

    def ask_all(self, *words, of=None):
        def ask(master):
            try:
                return master.command(*words)
            except Ending as ending:
                return ending

        return list(self.pool.map(ask, self.masters if of is None else of))

    def is_vote(self, reply):
        return reply == "OK"

    def take(self, hold, lease_ms):
        replies = self.ask_all("SET", hold.lock, hold.value, "NX", "PX", lease_ms)
        hold.of = [master for master, reply in zip(self.masters, replies) if reply == "OK"]
        if 2 * sum(map(self.is_vote, replies)) > len(self.masters):
            return True
        undone = self.ask_all("EVAL", DELETE, 1, hold.lock, hold.value, of=self.given_back(hold))
        if any(isinstance(reply, Unknown) for reply in undone):
            raise Unknown("what was not granted may not be given back")
        return False

    def given_back(self, hold):
        return self.masters

    def majority(self, replies):
        agreed, known = sum(reply == 1 for reply in replies), sum(not isinstance(reply, Ending) for reply in replies)
        if 2 * agreed > len(self.masters):
            return True
        if 2 * (len(self.masters) - known + agreed) > len(self.masters):
            raise Unknown("too few masters answered")
        return False

    def delete(self, hold):
        return self.majority(self.ask_all("EVAL", DELETE, 1, hold.lock, hold.value, of=self.given_back(hold)))

    def prolong(self, hold, lease_ms):
        return self.majority(self.ask_all("EVAL", EXPIRE, 1, hold.lock, hold.value, lease_ms))


class MastersErrorIsAVote(SoundMasters):
    """A master that does not answer counts as one that granted."""

    def is_vote(self, reply):
        return reply == "OK" or isinstance(reply, Ending)


class MastersGiveBackWhereGranted(SoundMasters):
    """Only masters whose answer came are asked to give back."""

    def given_back(self, hold):
        return hold.of


class MastersReleaseTheFirst(SoundMasters):
    """A release ends with the first master that has done it."""

    def delete(self, hold):
        return any(reply == 1 for reply in self.ask_all("EVAL", DELETE, 1, hold.lock, hold.value, of=self.masters[:1]))


class MastersExtendByOne(SoundMasters):
    """An extension worked if one master did it."""

    def prolong(self, hold, lease_ms):
        return any(reply == 1 for reply in self.ask_all("EVAL", EXPIRE, 1, hold.lock, hold.value, lease_ms))


class MastersExtendFromReply(SoundMasters):
    """An extended lease is counted from the replies, and so is what is over by then."""

    def extend(self, hold, lease_ms):
        if not (self.prolong(hold, lease_ms) and hold.keep(time.monotonic(), lease_ms)):
            raise NotHeld()


class QuorumOfTheReachable(SoundMasters):
    """A majority is one of the masters that answer (redlock-py#6)."""

    def take(self, hold, lease_ms):
        replies = self.ask_all("SET", hold.lock, hold.value, "NX", "PX", lease_ms)
        answered = [reply for reply in replies if not isinstance(reply, Ending)]
        if 2 * answered.count("OK") > len(answered):
            return True
        undone = self.ask_all("EVAL", DELETE, 1, hold.lock, hold.value)
        if any(isinstance(reply, Unknown) for reply in undone):
            raise Unknown("what was not granted may not be given back")
        return False


class OneMasterDownIsAnError(SoundMasters):
    """An error of one master is that of the acquire, whatever the majority says (redlock-rb#60, redlock-rb#129, node-redlock#262)."""

    def take(self, hold, lease_ms):
        replies = self.ask_all("SET", hold.lock, hold.value, "NX", "PX", lease_ms)
        if 2 * replies.count("OK") > len(self.masters) and not any(isinstance(reply, Ending) for reply in replies):
            return True
        undone = self.ask_all("EVAL", DELETE, 1, hold.lock, hold.value)
        if any(isinstance(reply, Unknown) for reply in undone):
            raise Unknown("what was not granted may not be given back")
        for reply in replies:
            if isinstance(reply, Ending):
                raise Failed(str(reply))
        return False


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


# Fair: whoever comes later waits for all who wait, and whoever was not seen for a second waits no more.

LINE_UP = """if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
local time = redis.call('time') local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, gone in ipairs(redis.call('zrangebyscore', KEYS[3], 0, now)) do redis.call('zrem', KEYS[2], gone) redis.call('zrem', KEYS[3], gone) end
if not redis.call('zscore', KEYS[2], ARGV[1]) then redis.call('zadd', KEYS[2], redis.call('incr', KEYS[4]), ARGV[1]) end
redis.call('zadd', KEYS[3], now + 1000, ARGV[1])
if redis.call('exists', KEYS[1]) == 1 or redis.call('zrange', KEYS[2], 0, 0)[1] ~= ARGV[1] then return 0 end
redis.call('zrem', KEYS[2], ARGV[1]) redis.call('zrem', KEYS[3], ARGV[1]) end """
STEP_OUT = "redis.call('zrem', KEYS[2], ARGV[1]) redis.call('zrem', KEYS[3], ARGV[1]) return 1"


class SoundFair(SoundReentrant):
    """Nothing is wrong: a line of those who wait, which is left by who gives up."""

    family, kinds = "fair, read-write, fenced", ["fair"]

    def script(self, text, hold, *more):
        keys = [hold.lock, f"{hold.lock}:line", f"{hold.lock}:seen", f"{hold.lock}:ticket"]
        return self.do("EVAL", text, 4, *keys, hold.value, *more) == 1

    def hold(self, call):
        call.place = super().hold(call)
        return call.place

    def acquire(self, call):
        try:
            return super().acquire(call)
        except Busy:
            self.give_up(call.place)
            raise

    def take(self, hold, lease_ms):
        return self.script(LINE_UP + ENTER, hold, lease_ms)

    def give_up(self, hold):
        try:
            self.script(STEP_OUT, hold)
        except Ending:
            pass


class GivenUpStaysInLine(SoundFair):
    """Who gave up stays in the line, and all behind wait until that place ends (redisson#757)."""

    def give_up(self, hold):
        pass


# Readers and writers: a re-entrant writer, and a sorted set of readers by the ends of their leases.

CLOCK = "local time = redis.call('time') local now = time[1] * 1000 + math.floor(time[2] / 1000) "
NOW = CLOCK + "redis.call('zremrangebyscore', KEYS[2], 0, now) "
WRITE = NOW + "if redis.call('zcard', KEYS[2]) > 0 then return 0 end " + ENTER
READ = NOW + "if redis.call('exists', KEYS[1]) == 1 then return 0 end return redis.call('zadd', KEYS[2], now + ARGV[2], ARGV[1])"
READ_ON = NOW + "return redis.call('zadd', KEYS[2], 'XX', 'CH', now + ARGV[2], ARGV[1])"


class SoundReadWrite(SoundReentrant):
    """Nothing is wrong: readers share, and leave when their leases end."""

    family, kinds, renews = "fair, read-write, fenced", ["write", "read"], False

    def script(self, text, hold, *more):
        return self.do("EVAL", text, 2, hold.lock, f"{hold.lock}:readers", hold.value, *more) == 1

    def hold(self, call):
        return Sound.hold(self, call) if call.kind == "read" else super().hold(call)

    def take(self, hold, lease_ms):
        return self.script(READ if hold.call.kind == "read" else WRITE, hold, lease_ms)

    def delete(self, hold):
        if hold.call.kind == "read":
            return self.do("ZREM", f"{hold.lock}:readers", hold.value) == 1
        return super().delete(hold)

    def prolong(self, hold, lease_ms):
        return self.script(READ_ON, hold, lease_ms) if hold.call.kind == "read" else super().prolong(hold, lease_ms)


class WriterLooksThenTakes(SoundReadWrite):
    """A writer looks for readers, and takes the key in the next command."""

    def take(self, hold, lease_ms):
        if hold.call.kind == "read":
            return super().take(hold, lease_ms)
        return self.do("ZCARD", f"{hold.lock}:readers") == 0 and SoundReentrant.take(self, hold, lease_ms)


class ReadersCounted(SoundReadWrite):
    """Readers are a number without a lease: one that dies keeps writers out for ever."""

    def take(self, hold, lease_ms):
        count = WRITE.replace(NOW, "").replace("redis.call('zcard', KEYS[2])", "tonumber(redis.call('get', KEYS[2]) or 0)")
        enter = "if redis.call('exists', KEYS[1]) == 1 then return 0 end redis.call('incr', KEYS[2]) return 1"
        return self.script(enter, hold) if hold.call.kind == "read" else self.script(count, hold, lease_ms)

    def delete(self, hold):
        if hold.call.kind == "read":
            return self.do("DECR", f"{hold.lock}:readers") >= 0
        return super().delete(hold)

    def prolong(self, hold, lease_ms):
        return hold.call.kind == "read" or super().prolong(hold, lease_ms)


class ReadersShareOneLease(SoundReadWrite):
    """The latest reader sets the lease of all of them (redisson#2144)."""

    def take(self, hold, lease_ms):
        if hold.call.kind != "read":
            return super().take(hold, lease_ms)
        enter = READ.replace("return redis.call('zadd'", "redis.call('zadd'") + " redis.call('pexpire', KEYS[2], ARGV[2]) return 1"
        return self.script(enter, hold, lease_ms)

    def prolong(self, hold, lease_ms):
        if hold.call.kind != "read":
            return super().prolong(hold, lease_ms)
        go_on = READ_ON.replace("return redis.call('zadd'", "local on = redis.call('zadd'") + " if on == 1 then redis.call('pexpire', KEYS[2], ARGV[2]) end return on"
        return self.script(go_on, hold, lease_ms)


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
        own = [one.value for one in self.holds.get((hold.lock, hold.call.owner), []) if one.is_kept() and not one.released.is_set()]
        return self.script(self.read, hold, lease_ms, own[0] if own else "")

    def delete(self, hold):
        return self.script(self.leave_read, hold) if hold.call.kind == "read" else super().delete(hold)


# Fencing tokens.

TAKE_A_TOKEN = "if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return redis.call('incr', KEYS[2]) end return 0"


class SoundFenced(Sound):
    """Nothing is wrong: the token is counted in the step that takes the key."""

    family, kinds, script = "fair, read-write, fenced", ["fenced"], TAKE_A_TOKEN

    def take(self, hold, lease_ms):
        hold.token = self.do("EVAL", self.script, 2, hold.lock, f"{hold.lock}:token", hold.value, lease_ms)
        return hold.token > 0

    def acquire(self, call):
        hold = super().acquire(call)
        return Granted(hold, token=hold.token)


class TokenForgotten(SoundFenced):
    """The counter of tokens ends with the lease, and begins at 1 again."""

    script = TAKE_A_TOKEN.replace("return redis.call('incr', KEYS[2])", "local token = redis.call('incr', KEYS[2]) redis.call('pexpire', KEYS[2], ARGV[2]) return token")


class TokenBeforeTheLock(SoundFenced):
    """The token is drawn before the key is taken: who waits has an old one."""

    def take(self, hold, lease_ms):
        if not hasattr(hold, "token"):
            hold.token = self.do("INCR", f"{hold.lock}:token")
        return Sound.take(self, hold, lease_ms)


# Sound ones, which are written otherwise than those above, and what reports say of other locks.


class SoundScripted(Sound):
    """Nothing is wrong: every step is a script that is called by its hash, and loaded again where the server forgot it; who waits asks ever less often."""

    enter = "if redis.call('exists', KEYS[1]) == 1 then return 0 end redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1"
    on = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('pexpire', KEYS[1], ARGV[2])"
    leave = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('del', KEYS[1])"

    def script(self, text, hold, *more):
        try:
            reply = self.do("EVALSHA", hashlib.sha1(text.encode()).hexdigest(), 1, hold.lock, hold.value, *more)
        except Failed as failed:
            if not str(failed).startswith("NOSCRIPT"):
                raise
            reply = self.do("EVAL", text, 1, hold.lock, hold.value, *more)
        return reply == 1

    def take(self, hold, lease_ms):
        return self.script(self.enter, hold, lease_ms)

    def pause(self, call):
        call.tries = getattr(call, "tries", 0) + 1
        time.sleep(min(call.left_s(), random.uniform(0.25, 1) * min(0.05, 0.004 * 2 ** min(call.tries, 10))))

    def prolong(self, hold, lease_ms):
        return self.script(self.on, hold, lease_ms)

    def delete(self, hold):
        return self.script(self.leave, hold)


class SoundSubscribed(SoundReentrant):
    """Nothing is wrong: a release is published, and who waits asks again when it hears of one, or after a while in which it heard nothing."""

    leave = LEAVE.replace("redis.call('del', KEYS[1]) end", "redis.call('del', KEYS[1]) redis.call('publish', KEYS[1] .. ':freed', 1) end")

    def __init__(self, hello):
        super().__init__(hello)
        self.heard, self.freed = threading.Condition(), collections.Counter()
        threading.Thread(target=self.listen, args=(hello,), daemon=True).start()

    def listen(self, hello):
        while True:
            try:
                server = Redis(hello, self.timeout_s)
                connection = server.idle.pop()
                connection.settimeout(None)
                connection.sendall(b"*2\r\n$10\r\nPSUBSCRIBE\r\n$7\r\n*:freed\r\n")
                with connection.makefile("rb") as answer:
                    while True:
                        message = server._read(answer)
                        if isinstance(message, list) and message[0] == "pmessage":
                            self.hear(message[2])
            except (OSError, Ending):
                time.sleep(0.2)

    def hear(self, channel):
        with self.heard:
            self.freed[channel] += 1
            self.heard.notify_all()

    def pause(self, call):
        channel = f"{call.lock}:freed"
        with self.heard:
            before = self.freed[channel]
            self.heard.wait_for(lambda: self.freed[channel] != before, min(call.left_s(), random.uniform(0.02, 0.06)))


# One key.


class AllSeeEachOther(Sound):
    """Callers of one moment see each other, all step back, and all sleep equally long (wolph/portalocker#101).

    A caller looks whether anybody is there, enters, and counts: who is alone has the lock. It shows where several clients ask in the same moment for a free
    lock. Each sees the others, none is granted, and they meet again after the same 100 ms. One that comes at another time gets the lock.
    """

    count = CLOCK + "redis.call('zremrangebyscore', KEYS[1], 0, now) "

    def take(self, hold, lease_ms):
        if self.do("EVAL", self.count + "return redis.call('zcard', KEYS[1])", 1, hold.lock) > 0:
            return False
        self.do("EVAL", CLOCK + "return redis.call('zadd', KEYS[1], now + ARGV[2], ARGV[1])", 1, hold.lock, hold.value, lease_ms)
        try:
            if self.do("EVAL", self.count + "return redis.call('zcard', KEYS[1])", 1, hold.lock) == 1:
                return True
            self.do("ZREM", hold.lock, hold.value)
        except Ending as ending:
            raise Unknown(f"who entered may be there still: {ending}") from ending
        return False

    def pause(self, call):
        time.sleep(min(call.left_s(), 0.1))

    def delete(self, hold):
        return self.do("EVAL", self.count + "return redis.call('zrem', KEYS[1], ARGV[1])", 1, hold.lock, hold.value) == 1

    def prolong(self, hold, lease_ms):
        on = "if not redis.call('zscore', KEYS[1], ARGV[1]) then return 0 end redis.call('zadd', KEYS[1], now + ARGV[2], ARGV[1]) return 1"
        return self.do("EVAL", self.count + on, 1, hold.lock, hold.value, lease_ms) == 1


class ReleaseWipesTheNextToken(Sound):
    """The token of a lock is forgotten after the release was answered, whoever of the client has written its own by then (redis/redis-py#489).

    It shows where two callers of one client want one lock: the second is granted while the answer to the first's release is on its way. The second's release
    and extension are then answered that it does not hold the lock, and the key stays until its lease ends.
    """

    def __init__(self, hello):
        super().__init__(hello)
        self.tokens = {}

    def take(self, hold, lease_ms):
        taken = super().take(hold, lease_ms)
        if taken:
            self.tokens[hold.lock] = hold.value
        return taken

    def delete(self, hold):
        if self.tokens.get(hold.lock) != hold.value:
            return False
        deleted = super().delete(hold)
        self.tokens[hold.lock] = None
        return deleted

    def prolong(self, hold, lease_ms):
        return self.tokens.get(hold.lock) == hold.value and super().prolong(hold, lease_ms)


class ExtendsByAdding(Sound):
    """An extension adds its lease to what is left of the one before (redis/redis-py#629).

    It shows where a holder extends well before its lease ends, and then dies or lets the lease end: others are kept out for longer than the lease that it
    asked for, and after several extensions for the sum of them.
    """

    add = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], redis.call('pttl', KEYS[1]) + ARGV[2]) end return 0"

    def prolong(self, hold, lease_ms):
        return self.do("EVAL", self.add, 1, hold.lock, hold.value, lease_ms) == 1


class WaitIsNotPassedOn(Sound):
    """The bound of a wait is not passed on to the loop, which has none of its own (redis/redis-py#498).

    It shows where the lock is taken for longer than a caller would wait: it is not told busy when its wait is over, but waits on. A wait of zero is one try.
    """

    def acquire(self, call):
        if call.wait_ms:
            call._until_s = float("inf")
        return super().acquire(call)


class LeaseIsTheWait(Sound):
    """The key is kept for the wait that was asked for, and not for the lease (StackExchange/StackExchange.Redis#861, of ServiceStack.Redis).

    It shows where the wait is shorter than the lease, as then another is granted while the first counts on its lease, and where it is longer and the
    holder dies. Without a wait, or without a bound of it, the lease is the one that was asked for.
    """

    def take(self, hold, lease_ms):
        return super().take(hold, hold.call.wait_ms or lease_ms)


class EndlessWaitTriesNever(Sound):
    """A wait without a bound is the greatest number of retries; one more is none, and what was never refused is granted (songzhibin97/gkit#183).

    It shows with every wait without a bound, where another has the lock, and in the release, which finds nothing.
    """

    def take(self, hold, lease_ms):
        return hold.call.wait_ms is None or super().take(hold, lease_ms)


class ReleaseEndsWithTheWait(Sound):
    """A release has the deadline of its acquire's wait, and is not sent after it (kalbasit/ncps#913, blnkfinance/blnk#354).

    It shows where a lock is held past the end of the wait that its acquire had: the release fails, and again when it is tried again, and the key stays
    until its lease ends.
    """

    def delete(self, hold):
        if hold.call.wait_ms and hold.call.left_s() == 0:
            raise Failed("not sent: the deadline is over")
        return super().delete(hold)


# Re-entrant.


class InnerReleaseBelievesItsCount(SoundReentrant):
    """A release that leaves a count above zero does not look whether the lock is still its owner's (jefferyjob/go-redislock#30).

    The owner is one key and its count another. It shows where the owner's key is gone before the lease ends, as it was evicted or deleted by hand, and the
    owner had entered twice: its inner release works, though another may have the lock.
    """

    enter = """local owner = redis.call('get', KEYS[1]) if owner and owner ~= ARGV[1] then return 0 end
    if not owner then redis.call('set', KEYS[1], ARGV[1]) redis.call('del', KEYS[2]) end
    redis.call('incr', KEYS[2]) redis.call('pexpire', KEYS[1], ARGV[2]) redis.call('pexpire', KEYS[2], ARGV[2]) return 1"""
    leave = """if tonumber(redis.call('get', KEYS[2]) or 0) > 1 then redis.call('decr', KEYS[2]) return 1 end
    if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end redis.call('del', KEYS[1], KEYS[2]) return 1"""
    on = """if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
    redis.call('pexpire', KEYS[2], ARGV[2]) return redis.call('pexpire', KEYS[1], ARGV[2])"""

    def script(self, text, hold, *more):
        return self.do("EVAL", text, 2, hold.lock, f"{hold.lock}:count:{hold.value}", hold.value, *more) == 1

    def take(self, hold, lease_ms):
        return self.script(self.enter, hold, lease_ms)

    def renew(self, hold):
        return self.script(self.on, hold, self.watchdog_ms)

    def delete(self, hold):
        return self.script(self.leave, hold)

    def prolong(self, hold, lease_ms):
        return self.script(self.on, hold, lease_ms)


class ReentryLeavesARenewal(SoundReentrant):
    """Each renewed entry notes its owner, the last release strikes out one note, and the rest are renewed while the process lives (redisson/redisson#7251).

    It shows where an owner has entered a renewed lock twice and released both, and takes the lock again with a lease that it lets end: the key is renewed, and
    others are kept out until the owner releases or its process ends. The report is of read locks.
    """

    def __init__(self, hello):
        super().__init__(hello)
        self.notes = collections.Counter()

    def acquire(self, call):
        hold = super().acquire(call)
        if call.lease_ms is None:
            self.notes[call.lock, call.owner] += 1
        return hold

    def release(self, hold):
        try:
            super().release(hold)
        finally:
            own = hold.lock, hold.call.owner
            if not any(one.is_kept() and not one.released.is_set() for one in self.holds[own]) and self.notes.pop(own, 0) > 1:
                threading.Thread(target=self.renew_for_ever, args=(own,), daemon=True).start()

    def renew_for_ever(self, own):
        while True:
            time.sleep(self.every * self.watchdog_ms / 1000)
            left = [one for one in self.holds[own] if not one.released.is_set()]
            try:
                if left:
                    self.renew(left[-1])
            except Ending:
                pass


class InnerReleaseFrees(SoundReentrant):
    """An owner may enter again, and its first release deletes the key (zeromicro/go-zero#1338).

    It shows with every re-entry: another is granted after the inner release while the owner counts on its outer hold, whose release finds nothing.
    """

    leave = "if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end return redis.call('del', KEYS[1])"


# Of several independent masters.


class MastersClearWhatOneLost(SoundMasters):
    """Who waits clears a lock as stale when one master answers that it does not have it (minio/minio#9138, of its own lock servers).

    A caller that has seen the same owner for half a second asks all masters for it. It shows where a lock is held by a majority only, since a master was away
    when it was taken or came back empty, and another waits for it: the lock is deleted under its holder, and granted.
    """

    def take(self, hold, lease_ms):
        if super().take(hold, lease_ms):
            return True
        if not hasattr(hold, "seen"):
            hold.seen = {}
        found = [reply for reply in self.ask_all("GET", hold.lock) if not isinstance(reply, Ending)]
        for owner in set(found) - {None}:
            seen_s = hold.seen.setdefault(owner, time.monotonic())
            if None in found and time.monotonic() > seen_s + 0.5:
                self.ask_all("EVAL", DELETE, 1, hold.lock, owner)
        return False


class MastersExtendInSeconds(SoundMasters):
    """An extension takes milliseconds for seconds, and sets a thousand times the lease (leandromoreira/redlock-rb#44).

    It shows where a holder extends and then dies, or lets its lease end: others are kept out for hours.
    """

    def prolong(self, hold, lease_ms):
        return super().prolong(hold, 1000 * lease_ms)


# Fair.


class DeadPlaceStays(SoundFair):
    """A place in the line has no end, and only its owner leaves it (Yogdunana/StarByte#127).

    It shows where a client dies while it waits, or its acquire ends without an answer: all who come later wait behind that place, and nobody is granted again.
    """

    line_up = LINE_UP.replace(
        "for _, gone in ipairs(redis.call('zrangebyscore', KEYS[3], 0, now)) do redis.call('zrem', KEYS[2], gone) redis.call('zrem', KEYS[3], gone) end\n", ""
    )

    def take(self, hold, lease_ms):
        return self.script(self.line_up + ENTER, hold, lease_ms)


class PlacesDrift(SoundFair):
    """A place ends a second after the last place in the line does, and who leaves makes nobody's earlier (redisson/redisson#1104).

    It shows where callers wait, give up or are served, and ask again, so that the line is never empty: places end ever later. When a client dies in the line
    then, all behind it wait until its place ends, which is not a second but as long as the drift.
    """

    line_up = LINE_UP.replace(
        "redis.call('zadd', KEYS[3], now + 1000, ARGV[1])",
        """local place, last = redis.call('zscore', KEYS[3], ARGV[1]), redis.call('zrange', KEYS[3], -1, -1, 'WITHSCORES')[2]
        redis.call('zadd', KEYS[3], place and math.max(place, now + 1000) or math.max(last or 0, now) + 1000, ARGV[1])""",
    )

    def take(self, hold, lease_ms):
        return self.script(self.line_up + ENTER, hold, lease_ms)


# Readers and writers, permits.


class WakesOneReader(SoundReadWrite):
    """Of a client's readers that wait for a writer one asks for the lock, and each release of a reader wakes one more (redisson/redisson#1542).

    It shows where several readers of one client wait and the writer releases well before its lease ends: one of them reads, and the others wait until that
    one releases, or until the writer's lease would have ended.
    """

    def __init__(self, hello):
        super().__init__(hello)
        self.waiting, self.asking = {}, {}

    def hold(self, call):
        call.place = super().hold(call)
        return call.place

    def acquire(self, call):
        try:
            return super().acquire(call)
        except Exception:
            self.asks_no_more(call.place)
            self.wake_one(call.place)
            raise

    def take(self, hold, lease_ms):
        if super().take(hold, lease_ms):
            self.asks_no_more(hold)
            return True
        if hold.call.kind != "read":
            return False
        until_s = time.monotonic() + max(0, self.do("PTTL", hold.lock)) / 1000
        woken = self.woken(hold)
        with woken:
            if self.asking.setdefault(hold.lock, hold) is hold:
                return False
            woken.wait(max(0.0, min(hold.call.left_s(), until_s - time.monotonic())))
        return super().take(hold, lease_ms)

    def delete(self, hold):
        deleted = super().delete(hold)
        self.wake_one(hold)
        return deleted

    def woken(self, hold):
        return self.waiting.setdefault(hold.lock, threading.Condition())

    def asks_no_more(self, hold):
        with self.woken(hold):
            if self.asking.get(hold.lock) is hold:
                del self.asking[hold.lock]

    def wake_one(self, hold):
        if hold.call.kind == "read":
            woken = self.woken(hold)
            with woken:
                woken.notify()


class SetsPermitsAtZero(Sound):
    """The number of permits is set where there is none yet, or where none is left (redisson/redisson#4678).

    Each client sets the number when it first uses a name. It shows where a client begins with a name while all its permits are taken: the number of free ones
    is set anew, and up to twice as many are held.
    """

    family, kinds = "fair, read-write, fenced", ["permits"]
    set_permits = "if (redis.call('get', KEYS[1]) or '0') ~= '0' then return 0 end redis.call('set', KEYS[1], ARGV[1]) return 1"
    end = CLOCK + """if not redis.call('get', KEYS[1]) then return -1 end
    local ended = redis.call('zremrangebyscore', KEYS[2], 0, now) if ended > 0 then redis.call('incrby', KEYS[1], ended) end """
    enter = end + """if tonumber(redis.call('get', KEYS[1])) < 1 then return 0 end
    redis.call('decr', KEYS[1]) return redis.call('zadd', KEYS[2], now + ARGV[2], ARGV[1])"""
    leave = end + "if redis.call('zrem', KEYS[2], ARGV[1]) == 0 then return 0 end redis.call('incr', KEYS[1]) return 1"
    on = end + "if not redis.call('zscore', KEYS[2], ARGV[1]) then return 0 end redis.call('zadd', KEYS[2], now + ARGV[2], ARGV[1]) return 1"

    def __init__(self, hello):
        super().__init__(hello)
        self.used = set()

    def script(self, text, hold, *more):
        return self.do("EVAL", text, 2, hold.lock, f"{hold.lock}:holders", hold.value, *more)

    def take(self, hold, lease_ms):
        if hold.lock not in self.used:
            self.do("EVAL", self.set_permits, 1, hold.lock, hold.call.permits)
            self.used.add(hold.lock)
        taken = self.script(self.enter, hold, lease_ms)
        # The server has forgotten the name, and with it who had permits.
        if taken == -1:
            self.do("SET", hold.lock, hold.call.permits, "NX")
            taken = self.script(self.enter, hold, lease_ms)
        return taken == 1

    def delete(self, hold):
        return self.script(self.leave, hold) == 1

    def prolong(self, hold, lease_ms):
        return self.script(self.on, hold, lease_ms) == 1


# Fourteen that were held out until calls were drawn in `conform`, and two sound ones.


class SoundSignalled(Sound):
    """Nothing is wrong: who waits sleeps on a list that each release pushes to, and looks again by itself after a quarter of a second at most."""

    leave = """if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
    redis.call('del', KEYS[1], KEYS[2]) redis.call('lpush', KEYS[2], 1) redis.call('pexpire', KEYS[2], 1000) return 1"""

    def pause(self, call):
        try:
            self.do("BLPOP", f"{call.lock}:signal", max(0.01, min(call.left_s(), random.uniform(0.15, 0.25))))
        except Ending:
            # The next try says what is wrong.
            super().pause(call)

    def delete(self, hold):
        return self.do("EVAL", self.leave, 2, hold.lock, f"{hold.lock}:signal", hold.value) == 1


class SoundTextReentrant(SoundReentrant):
    """Nothing is wrong: the owner and its count are one text, an entry and a renewal never shorten the lease, and who waits sleeps by chance."""

    mine = """local value, count = redis.call('get', KEYS[1]), 0
    if value then local owner, number = string.match(value, '^(.*)|(%d+)$') if owner == ARGV[1] then count = tonumber(number) end end """
    longer = "local lease = math.max(redis.call('pttl', KEYS[1]), tonumber(ARGV[2])) "
    enter = mine + "if value and count == 0 then return 0 end " + longer + "redis.call('set', KEYS[1], ARGV[1] .. '|' .. (count + 1), 'PX', lease) return 1"
    leave = mine + """if count == 0 then return 0 end if count == 1 then return redis.call('del', KEYS[1]) end
    redis.call('set', KEYS[1], ARGV[1] .. '|' .. (count - 1), 'KEEPTTL') return 1"""
    on = mine + "if count == 0 then return 0 end return redis.call('pexpire', KEYS[1], ARGV[2])"
    renewed = mine + "if count == 0 then return 0 end " + longer + "return redis.call('pexpire', KEYS[1], lease)"

    def take(self, hold, lease_ms):
        return self.do("EVAL", self.enter, 1, hold.lock, hold.value, lease_ms) == 1

    def pause(self, call):
        time.sleep(min(call.left_s(), random.uniform(0.002, 0.03)))

    def renew(self, hold):
        return self.do("EVAL", self.renewed, 1, hold.lock, hold.value, self.watchdog_ms) == 1

    def prolong(self, hold, lease_ms):
        return self.do("EVAL", self.on, 1, hold.lock, hold.value, lease_ms) == 1


class ReleaseTriesAgain(Sound):
    """A release that finds nothing is tried again for as long as its acquire would have waited (mike-marcacci/node-redlock#313).

    One setting bounds the retries of both. It shows where a lock is released after its lease: the release is answered late, by the wait that its acquire had,
    and where that had no bound, never.
    """

    def release(self, hold):
        until_s = time.monotonic() + (float("inf") if hold.call.wait_ms is None else hold.call.wait_ms / 1000)
        while True:
            try:
                return super().release(hold)
            except NotHeld:
                if time.monotonic() >= until_s:
                    raise
            time.sleep(random.uniform(0.005, 0.015))


class ExtendsToNothing(SoundRenewed):
    """An extension of a lock that was taken without a lease sets a lease of 0, which deletes the key, and says that it worked (redis/redis-py#4279).

    It shows where the holder of a renewed lock extends it: another is granted at once, and the holder learns it at its next renewal. A lock that was taken
    with a lease is extended as it should be.
    """

    def prolong(self, hold, lease_ms):
        return super().prolong(hold, 0 if hold.call.lease_ms is None else lease_ms)


class ExtendsByReleasing(Sound):
    """An extension runs the script of the release, which works (py-sherlock/sherlock#66).

    It shows with every extension: the key is gone, another is granted, and the holder counts on the lease that it asked for.
    """

    def prolong(self, hold, lease_ms):
        return self.do("EVAL", DELETE, 1, hold.lock, hold.value) == 1


class LongHold(Hold):
    """A hold whose timer tells nobody."""

    def keep(self, sent_s, lease_ms):
        if self.call.lease_ms is not None:
            return super().keep(sent_s, lease_ms)
        self.timer.cancel()
        self.until_s = sent_s + 0.9 * lease_ms / 1000
        if time.monotonic() >= self.until_s:
            return False
        self.timer = threading.Timer(86_400, print)
        self.timer.start()
        return True


class ToldAfterTheAttempt(SoundRenewed):
    """Whether the lease of a renewed lock is over is asked only when an attempt to renew it has returned (agent-substrate/substrate#482).

    An attempt may take a third of the lease, and one that failed is made again after a tenth of it. It shows where the server does not answer, as it is cut
    off or stands still, for so long that the last attempt begins before the end of the lease and returns after it: its holder goes on until then, while
    another may be granted. Where the server refuses at once, the holder is told in time.
    """

    def __init__(self, hello):
        super().__init__(hello)
        self.renewer = Redis(hello, self.watchdog_ms / 3000)

    def hold(self, call):
        return LongHold(call, self.value())

    def renew(self, hold):
        return self.renewer.command("EVAL", EXPIRE, 1, hold.lock, hold.value, self.watchdog_ms) == 1

    def renew_until_released(self, hold):
        pause_s = self.every * self.watchdog_ms / 1000
        while not hold.released.wait(pause_s):
            sent_s, renewed = time.monotonic(), None
            try:
                renewed = self.renew(hold)
            except Ending:
                pass
            if hold.released.is_set():
                return
            if renewed is False or not (renewed and hold.keep(sent_s, self.watchdog_ms)) and time.monotonic() >= hold.until_s:
                hold.timer.cancel()
                return hold.call.lost("the lease was not renewed")
            pause_s = (self.every if renewed else 0.1) * self.watchdog_ms / 1000


class RenewsWhatShouldEnd(Sound):
    """What keeps a lease alive while a caller waits goes on when it has the lock (lablup/etcetra#18, of a lock on etcd).

    It shows where a lock is taken with a lease, and its holder lives and does not release it when the lease is over: others are kept out until it does, or
    until its process ends.
    """

    def acquire(self, call):
        hold = super().acquire(call)
        hold.lease_ms = call.lease_ms
        threading.Thread(target=self.keep_alive, args=(hold,), daemon=True).start()
        return hold

    def prolong(self, hold, lease_ms):
        hold.lease_ms = lease_ms
        return super().prolong(hold, lease_ms)

    def keep_alive(self, hold):
        while not hold.released.wait(self.every * hold.lease_ms / 1000):
            try:
                if not super().prolong(hold, hold.lease_ms):
                    return
            except Ending:
                pass


class AskingKeepsItAlive(Sound):
    """The script of an acquire sets the lease of the key whether it took it or not (rogermadjos/node-mutex#2).

    It shows where a holder dies, or lets its lease end, while others ask again and again: the lock stays taken until nobody has asked for as long as a lease.
    Who asks for a shorter lease than the holder's makes that one shorter, too.
    """

    enter = "local taken = redis.call('setnx', KEYS[1], ARGV[1]) redis.call('pexpire', KEYS[1], ARGV[2]) return taken"

    def take(self, hold, lease_ms):
        return self.do("EVAL", self.enter, 1, hold.lock, hold.value, lease_ms) == 1


class OwnerIsAPooledThread(SoundReentrant):
    """The owner is the thread that runs a task, and a client's tasks share four threads (redisson/redisson#4956, redisson/redisson#3750).

    It shows where two tasks of one client want one lock and run on one thread, as one pair in four does: the second enters the lock of the first.
    """

    def hold(self, call):
        thread = zlib.crc32(call.owner.encode()) % 4
        own = self.holds.setdefault((call.lock, thread), [])
        own[:] = [hold for hold in own if hold.is_kept() and not hold.released.is_set()]
        hold = Hold(call, own[0].value if own else f"{self.client}:{thread}:{self.value()}")
        own.append(hold)
        return hold


class ReleaseEndsTheNextRenewal(SoundReentrant):
    """A release strikes out the renewals of its lock in the client, and with them that of an owner who was granted meanwhile (redisson/redisson#6844).

    It shows where two owners of one client want one renewed lock, and the second is granted before the first has the answer to its release: the second's key
    is not renewed and ends, nobody tells it, and another is granted.
    """

    def __init__(self, hello):
        super().__init__(hello)
        self.renewals, self.struck_out = {}, set()

    def acquire(self, call):
        hold = super().acquire(call)
        if call.lease_ms is None:
            self.renewals.setdefault(call.lock, []).append(hold)
        return hold

    def release(self, hold):
        others = [one for one in self.renewals.get(hold.lock, []) if one is not hold and one.is_kept() and not one.released.is_set()]
        try:
            super().release(hold)
        finally:
            self.struck_out.discard(hold)
            if not others:
                self.struck_out.update(one for one in self.renewals.pop(hold.lock, []) if not one.released.is_set())

    def renew(self, hold):
        return hold in self.struck_out or super().renew(hold)


class MastersKeepAMinority(SoundMasters):
    """A try that won no majority gives nothing back (xiaoxuxiansheng/redis_lock#3).

    It shows where callers ask in the same moment and split the masters, or where too few masters answer: the keys stay until their leases end, and keep
    everybody out, who left them too.
    """

    def take(self, hold, lease_ms):
        return 2 * sum(map(self.is_vote, self.ask_all("SET", hold.lock, hold.value, "NX", "PX", lease_ms))) > len(self.masters)


class MastersAskedOnceMore(SoundMasters):
    """A release asks all masters whether the lock is gone, and an error of one of them is its error (symfony/symfony#39470).

    It shows where one master is away when a lock is released: the lock is free, and the release does not say so, but fails each time.
    """

    def delete(self, hold):
        deleted = super().delete(hold)
        for reply in self.ask_all("GET", hold.lock):
            if isinstance(reply, Ending):
                raise Unknown(f"one master does not say whether the lock is gone: {reply}")
        return deleted


class GivingUpPopsTheHead(SoundFair):
    """Who leaves the line by an error takes its head out, which may be another (fedora-copr/copr#4389).

    The head of the line is who has the lock, and where nobody has it, the first who waits. It shows where a command of one who waits fails, as its
    connection breaks or its answer does not come: the lock is free under its holder, and granted. Who gives up since its wait is over leaves as it should.
    """

    pop = """if redis.call('del', KEYS[1]) == 1 then return 1 end
    local head = redis.call('zrange', KEYS[2], 0, 0)[1] if head then redis.call('zrem', KEYS[2], head) redis.call('zrem', KEYS[3], head) end return 1"""

    def acquire(self, call):
        try:
            return super().acquire(call)
        except Busy:
            raise
        except Ending:
            try:
                self.script(self.pop, call.place)
            except Ending:
                pass
            raise


class ClearedPlaceIsNotRenewed(SoundFair):
    """Who was struck out of the line as dead, and is alive, waits on without a place (redisson/redisson#3004).

    It shows where one who waits is not heard of for a second, as it stands still or its line is slow, and asks again after that: it is never granted, also
    when the lock is free and nobody else waits, until its wait is over.
    """

    no_place = "if not redis.call('zscore', KEYS[2], ARGV[1]) then "
    line_up = LINE_UP.replace(no_place, no_place + "if ARGV[3] == 'again' then return 0 end ")

    def take(self, hold, lease_ms):
        taken = self.script(self.line_up + ENTER, hold, lease_ms, getattr(hold, "asks", "first"))
        hold.asks = "first" if taken else "again"
        return taken


class PermitsUnderOneName(Sound):
    """A client has one name for all its permits of a semaphore, and they count as one (swarthy/redis-semaphore#155).

    It shows where a client acquires more than one permit: all are granted while its first one has a place, whatever the number of permits is, and the first
    release gives all of them back.
    """

    family, kinds, renews = "fair, read-write, fenced", ["semaphore"], True
    end = CLOCK + "redis.call('zremrangebyscore', KEYS[1], 0, now) "
    enter = end + """local before = redis.call('zscore', KEYS[1], ARGV[1])
    if not before and redis.call('zcard', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
    redis.call('zadd', KEYS[1], math.max(before or 0, now + ARGV[2]), ARGV[1]) return 1"""
    leave = end + "return redis.call('zrem', KEYS[1], ARGV[1])"
    on = end + "if not redis.call('zscore', KEYS[1], ARGV[1]) then return 0 end redis.call('zadd', KEYS[1], now + ARGV[2], ARGV[1]) return 1"

    def value(self):
        return self.client

    def script(self, text, hold, *more):
        return self.do("EVAL", text, 1, hold.lock, hold.value, *more) == 1

    def take(self, hold, lease_ms):
        return self.script(self.enter, hold, lease_ms, hold.call.permits)

    def renew(self, hold):
        return self.prolong(hold, self.watchdog_ms)

    def delete(self, hold):
        return self.script(self.leave, hold)

    def prolong(self, hold, lease_ms):
        return self.script(self.on, hold, lease_ms)


class DowngradeLetsAWriterIn(SoundReadWrite):
    """A writer may read; a writer who waited before it read does not wait for that reading (apache/curator#796, of a lock on ZooKeeper).

    Who waits to write has a place, and so has what is read while its owner writes: who waits looks only at those before it. It shows where one writes and
    another waits to write, and the first reads and then gives the writing up: the other writes while the first reads. Who asks later waits.
    """

    write = NOW + """if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    for _, reader in ipairs(redis.call('zrange', KEYS[2], 0, -1)) do
    local place = redis.call('zscore', KEYS[3], reader) if not place or tonumber(place) < tonumber(ARGV[3]) then return 0 end end end """ + ENTER
    read = NOW + """if redis.call('exists', KEYS[1]) == 1 then if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then return 0 end
    redis.call('zadd', KEYS[3], redis.call('incr', KEYS[4]), ARGV[1]) end
    return redis.call('zadd', KEYS[2], now + ARGV[2], ARGV[1])"""
    leave_read = "redis.call('zrem', KEYS[3], ARGV[1]) return redis.call('zrem', KEYS[2], ARGV[1])"

    def script(self, text, hold, *more):
        return self.do("EVAL", text, 4, hold.lock, *(f"{hold.lock}:{name}" for name in ("readers", "within", "place")), hold.value, *more) == 1

    def take(self, hold, lease_ms):
        if hold.call.kind == "read":
            own = [one.value for one in self.holds.get((hold.lock, hold.call.owner), []) if one.is_kept() and not one.released.is_set()]
            return self.script(self.read, hold, lease_ms, own[0] if own else "")
        if self.script(self.write, hold, lease_ms, getattr(hold, "place", 1 << 52)):
            return True
        if not hasattr(hold, "place"):
            hold.place = self.do("INCR", f"{hold.lock}:place")
        return False

    def delete(self, hold):
        return self.script(self.leave_read, hold) if hold.call.kind == "read" else super().delete(hold)


def name_of(defect):
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=A)(?=[A-Z])", "-", defect.__name__).lower()


def serve(module):
    """Speaks for the defect that the command line names, of the classes that a module has, or lists them."""
    defects = {name_of(one): one for one in vars(module).values() if isinstance(one, type) and issubclass(one, Sound) and one.__module__ == module.__name__}
    if len(sys.argv) < 2:
        for name, one in defects.items():
            print(name, one.family, one.__doc__.partition(" (")[0], sep="\t")
        return
    if sys.argv[1] not in defects:
        sys.exit(f"{sys.argv[1]} is none of {', '.join(defects)}")
    defect = defects[sys.argv[1]]
    features = ["lost"] if defect.told else []
    run(defect, name=sys.argv[1], version="1.0", kinds=defect.kinds, topologies=[defect.topology], watchdog_ms=watchdog_ms if defect.renews else None, features=features)


if __name__ == "__main__":
    serve(sys.modules[__name__])
