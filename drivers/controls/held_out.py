#!/usr/bin/env python3
"""Six locks with one defect each that no scenario was made after: `held_out.py NAME`; `held_out.py` lists them.

Each is a defect of a public report, which its docstring names. They were twelve, written on 2026-11-30 and audited once before anybody looked at what
finds them (docs/src/audit.md has the figures). A scenario that is written to find one of them moves it to `defects.py`, whose sound locks these are but
for their defect, as it has moved six. What an audit had missed of all twelve was known when those scenarios were written.
"""
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from defects import Busy, DELETE, Ending, RenewsWhatWasGivenUp, Sound, SoundReentrant, SoundRenewed, Unknown, serve  # noqa: E402


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


if __name__ == "__main__":
    serve(sys.modules[__name__])
