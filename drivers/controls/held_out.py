#!/usr/bin/env python3
"""Locks with one defect each that no scenario and no step was made after: `held_out.py NAME`; `held_out.py` lists them.

Every lock is the sound one of its family in `defects.py` but for its defect, and those that begin with `sound` have none. The defects are those of
public reports, in the order in which a search of issue threads gave them, where a report says what goes wrong and no lock of `defects.py` behaves so. They
were written on 2026-11-30 by an author who had read no scenario, and before any of them was audited.

| name | report | what goes wrong |
|---|---|---|
| `all-see-each-other` | wolph/portalocker#101 | callers of one moment refuse each other, sleep equally long, and meet again: nobody gets a free lock |
| `release-wipes-the-next-token` | redis/redis-py#489 | a release forgets the token that the client's next holder has written meanwhile, and that one cannot release |
| `extends-by-adding` | redis/redis-py#629 | an extension adds to what is left of the lease, and the lock outlives the lease that was asked for |
| `wait-is-not-passed-on` | redis/redis-py#498 | the bound of a wait has no effect: the caller waits without one |
| `lease-is-the-wait` | StackExchange/StackExchange.Redis#861 | the lock is kept for as long as its caller would have waited, whatever lease was asked for |
| `endless-wait-tries-never` | songzhibin97/gkit#183 | a wait without a bound makes no try at all, and is granted |
| `release-ends-with-the-wait` | kalbasit/ncps#913, blnkfinance/blnk#354 | a release that comes after the end of its acquire's wait is given up at once, and the key stays |
| `inner-release-believes-its-count` | jefferyjob/go-redislock#30 | an inner release asks the count alone, and says that it worked where the lock is gone |
| `reentry-leaves-a-renewal` | redisson/redisson#7251 | an entry that was renewed leaves a renewal behind, which keeps whatever its owner takes later |
| `inner-release-frees` | zeromicro/go-zero#1338 | the first release of an owner frees the lock of its other holds |
| `masters-clear-what-one-lost` | minio/minio#9138 | a lock that one master does not have is taken for stale, and cleared from all |
| `masters-extend-in-seconds` | leandromoreira/redlock-rb#44 | an extension takes milliseconds for seconds |
| `dead-place-stays` | Yogdunana/StarByte#127 | who died in the line is waited for, for ever |
| `places-drift` | redisson/redisson#1104 | places end ever later, and who died in the line is waited for very long |
| `wakes-one-reader` | redisson/redisson#1542 | the end of a write wakes one reader, and the others wait for that one's release |
| `sets-permits-at-zero` | redisson/redisson#4678 | who sets the number of permits while all are taken sets it anew, and more are given than there are |
"""
import collections
import hashlib
import random
import sys
import threading
import time

from defects import DELETE, ENTER, LEAVE, LINE_UP, Sound, SoundFair, SoundMasters, SoundReadWrite, SoundReentrant, serve
from locklab_driver import Ending, Failed, Unknown
from resp import Redis

NOW = "local time = redis.call('time') local now = time[1] * 1000 + math.floor(time[2] / 1000) "


# Sound ones, which are written otherwise than those of defects.py.


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

    count = NOW + "redis.call('zremrangebyscore', KEYS[1], 0, now) "

    def take(self, hold, lease_ms):
        if self.do("EVAL", self.count + "return redis.call('zcard', KEYS[1])", 1, hold.lock) > 0:
            return False
        self.do("EVAL", NOW + "return redis.call('zadd', KEYS[1], now + ARGV[2], ARGV[1])", 1, hold.lock, hold.value, lease_ms)
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
            if not any(one.timer.is_alive() and not one.released.is_set() for one in self.holds[own]) and self.notes.pop(own, 0) > 1:
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


# Several independent masters.


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
    end = NOW + """if not redis.call('get', KEYS[1]) then return -1 end
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


if __name__ == "__main__":
    serve(sys.modules[__name__])
