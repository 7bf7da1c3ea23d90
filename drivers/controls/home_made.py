#!/usr/bin/env python3
"""Locks as teams write them, each wrong in one thing, and told to nobody: controls that an audit must convict.

`renewer-dies`: a thread of each hold sends PEXPIRE each second, and ends at its first error. `never-renews`: says that it renews, and does not;
a second argument is the lease that it claims, in milliseconds. `release-without-owner-check`: DEL. `get-compare-del`: GET, a comparison, DEL.
`setnx-expire`: SETNX, then PEXPIRE. `renew-without-owner-check`: the thread goes on after errors, and its PEXPIRE asks for no owner, nor does extend.
"""
import pathlib
import sys
import threading
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "sdk" / "python"))

from locklab_driver import Busy, Ending, NotHeld, run  # noqa: E402
from resp import Redis  # noqa: E402

DELETE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
MODE = sys.argv[1]
LEASE_MS = int(sys.argv[2]) if len(sys.argv) > 2 else 3000
RENEWS = MODE in ("renewer-dies", "renew-without-owner-check")


class Lock:
    def __init__(self, hello):
        self.redis = Redis(hello)

    def acquire(self, call):
        value, released = uuid.uuid4().hex, threading.Event()
        while not self.take(call.lock, value, call.lease_ms or LEASE_MS):
            if call.left_s() == 0:
                raise Busy()
            time.sleep(min(call.left_s(), 0.01))
        if call.lease_ms is None and RENEWS:
            threading.Thread(target=self.renew, args=(call.lock, released), daemon=True).start()
        return call.lock, value, released

    def take(self, lock, value, lease_ms):
        if MODE == "setnx-expire":
            return self.redis.command("SETNX", lock, value) == 1 and self.redis.command("PEXPIRE", lock, lease_ms) == 1
        return self.redis.command("SET", lock, value, "NX", "PX", lease_ms) == "OK"

    def renew(self, lock, released):
        while not released.wait(1):
            try:
                self.redis.command("PEXPIRE", lock, LEASE_MS)
            except Ending:
                if MODE == "renewer-dies":
                    return

    if MODE == "renew-without-owner-check":

        def extend(self, held, lease_ms):
            if self.redis.command("PEXPIRE", held[0], lease_ms) != 1:
                raise NotHeld()

    def release(self, held):
        lock, value, released = held
        released.set()
        if MODE == "release-without-owner-check":
            self.redis.command("DEL", lock)
        elif MODE == "get-compare-del":
            if self.redis.command("GET", lock) == value:
                self.redis.command("DEL", lock)
        else:
            self.redis.command("EVAL", DELETE, 1, lock, value)


renewed_ms = LEASE_MS if RENEWS or MODE == "never-renews" else None
run(Lock, name=MODE, version="1.0", kinds=["plain"], topologies=["single"], watchdog_ms=renewed_ms, features=["release_blind"])
