#!/usr/bin/env python3
"""A driver of the lock `SET key value NX PX lease`. Put your own library in the place of its commands."""
import time
import uuid

from locklab_driver import Busy, NotHeld, run
from resp import Redis

DELETE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
EXPIRE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0"


class Lock:
    def __init__(self, hello):
        self.redis = Redis(hello)

    def acquire(self, call):
        value = uuid.uuid4().hex
        while True:
            call.sent()
            if self.redis.command("SET", call.lock, value, "NX", "PX", call.lease_ms) == "OK":
                return call.lock, value
            if call.left_s() == 0:
                raise Busy()
            time.sleep(min(call.left_s(), 0.01))

    def release(self, held):
        if self.redis.command("EVAL", DELETE, 1, *held) == 0:
            raise NotHeld()

    def extend(self, held, lease_ms):
        if self.redis.command("EVAL", EXPIRE, 1, *held, lease_ms) == 0:
            raise NotHeld()

    def held(self, held):
        return True  # until its release, whatever the server knows


run(Lock, name="set-nx-px", version="1.0", kinds=["plain"], topologies=["single"])
