#!/usr/bin/env python3
"""A lock as teams write it, which loses its exclusion and tells nobody: a control that an audit must convict.

`renewer-dies`: a thread of each hold sends PEXPIRE each second, and ends at its first error. `never-renews`: says that it renews, and does not;
a second argument is the lease that it claims, in milliseconds.
"""
import pathlib
import sys
import threading
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "sdk" / "python"))

from locklab_driver import Busy, run  # noqa: E402
from resp import Redis  # noqa: E402

DELETE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
MODE = sys.argv[1]
LEASE_MS = int(sys.argv[2]) if len(sys.argv) > 2 else 3000


class Lock:
    def __init__(self, hello):
        self.redis = Redis(hello)

    def acquire(self, call):
        value, released = uuid.uuid4().hex, threading.Event()
        while self.redis.command("SET", call.lock, value, "NX", "PX", call.lease_ms or LEASE_MS) != "OK":
            if call.left_s() == 0:
                raise Busy()
            time.sleep(min(call.left_s(), 0.01))
        if call.lease_ms is None and MODE == "renewer-dies":
            threading.Thread(target=self.renew, args=(call.lock, released), daemon=True).start()
        return call.lock, value, released

    def renew(self, lock, released):
        while not released.wait(1):
            self.redis.command("PEXPIRE", lock, LEASE_MS)

    def release(self, held):
        lock, value, released = held
        released.set()
        self.redis.command("EVAL", DELETE, 1, lock, value)


run(Lock, name=MODE, version="1.0", kinds=["plain"], topologies=["single"], watchdog_ms=LEASE_MS, features=["release_blind"])
