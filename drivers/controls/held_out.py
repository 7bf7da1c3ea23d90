#!/usr/bin/env python3
"""Twelve locks with one defect each that no scenario was made after: `held_out.py NAME`; `held_out.py` lists them.

Each is a defect of a public report, which its docstring names, written on 2026-11-30 and audited once before anybody looked at what finds it
(docs/src/audit.md has the figures). A scenario that is written to find one of them moves it to `defects.py`, whose sound locks these are but for
their defect: what is here stays unseen.
"""
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from defects import Ending, Sound, SoundMasters, SoundReadWrite, SoundReentrant, SoundRenewed, serve  # noqa: E402
from defects import Busy, DELETE, EXPIRE, Failed, READ, READ_ON, Unknown  # noqa: E402


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


class ScriptsByHashOnly(Sound):
    """Scripts are loaded once and called by their hash, whatever the server has forgotten since (redlock-rb#27, redlock-rb#148)."""

    def __init__(self, hello):
        super().__init__(hello)
        self.hashes = [self.do("SCRIPT", "LOAD", script) for script in (DELETE, EXPIRE)]

    def delete(self, hold):
        return self.do("EVALSHA", self.hashes[0], 1, hold.lock, hold.value) == 1

    def prolong(self, hold, lease_ms):
        return self.do("EVALSHA", self.hashes[1], 1, hold.lock, hold.value, lease_ms) == 1


class WaitsForTheSignal(Sound):
    """A waiter sleeps until a release pushes a signal, and a lease that ends pushes none (python-redis-lock#26, python-redis-lock#71)."""

    def acquire(self, call):
        hold, lease_ms = self.hold(call), call.lease_ms or self.watchdog_ms
        while True:
            call.sent()
            sent_s = time.monotonic()
            if self.take(hold, lease_ms):
                if hold.keep(sent_s, lease_ms):
                    return hold
                self.delete(hold)
            while True:
                if call.left_s() == 0:
                    raise Busy()
                if self.do("BLPOP", f"{hold.lock}:signal", max(0.01, min(1.0, call.left_s()))):
                    break

    def delete(self, hold):
        signal = "redis.call('del', KEYS[2]) redis.call('lpush', KEYS[2], 1) redis.call('pexpire', KEYS[2], 1000) return redis.call('del', KEYS[1])"
        return self.do("EVAL", DELETE.replace("return redis.call('del', KEYS[1])", signal), 2, hold.lock, f"{hold.lock}:signal", hold.value) == 1


class ZeroWaitWaits(Sound):
    """A wait of zero is taken for one without a bound (dv/redis-semaphore#37)."""

    def acquire(self, call):
        if call.wait_ms == 0:
            call._until_s = float("inf")
        return super().acquire(call)


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
        others = [one for one in self.holds[hold.lock, hold.call.owner] if one.timer.is_alive() and not one.released.is_set()]
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


if __name__ == "__main__":
    serve(sys.modules[__name__])
