#!/usr/bin/env python3
"""A driver of the lock `SET key value NX PX lease`, whose holder is told before the lease ends. Put your own library in the place of its commands."""
import threading
import time
import uuid

from locklab_driver import Busy, NotHeld, run
from resp import Redis

DELETE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
EXPIRE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0"


class Held:
    def __init__(self, call):
        self.call, self.key = call, (call.lock, uuid.uuid4().hex)
        self.timer = threading.Timer(0, print)

    def keep(self, sent_s, lease_ms):
        """False: the lease is over already. A tenth of it is kept for a timer, or an answer, that is late."""
        self.timer.cancel()
        until_s = sent_s + 0.9 * lease_ms / 1000
        self.timer = threading.Timer(max(0, until_s - time.monotonic()), self.call.lost, ["the lease ends"])
        self.timer.start()
        # To start a thread may take as long as a short lease.
        if time.monotonic() < until_s:
            return True
        self.timer.cancel()
        return False


class Lock:
    def __init__(self, hello):
        self.redis = Redis(hello)

    def acquire(self, call):
        held = Held(call)
        while True:
            call.sent()
            sent_s = time.monotonic()
            if self.redis.command("SET", *held.key, "NX", "PX", call.lease_ms) == "OK":
                if held.keep(sent_s, call.lease_ms):
                    return held
                self.redis.command("EVAL", DELETE, 1, *held.key)
            if call.left_s() == 0:
                raise Busy()
            time.sleep(min(call.left_s(), 0.01))

    def release(self, held):
        held.timer.cancel()
        if self.redis.command("EVAL", DELETE, 1, *held.key) == 0:
            raise NotHeld()

    def extend(self, held, lease_ms):
        sent_s = time.monotonic()
        extended = self.redis.command("EVAL", EXPIRE, 1, *held.key, lease_ms) == 1
        if not (extended and held.timer.is_alive() and held.keep(sent_s, lease_ms)):
            raise NotHeld()

    def held(self, held):
        return held.timer.is_alive()  # until it was told, whatever the server knows


if __name__ == "__main__":
    run(Lock, name="set-nx-px", version="1.0", kinds=["plain"], topologies=["single"], features=["lost"])
