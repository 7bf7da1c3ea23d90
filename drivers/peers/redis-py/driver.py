"""redis-py's `Lock`: SET NX PX, tried anew every 0.1 s, and released and extended by scripts that compare the token.

Settings are the library's own: ten retries of a command with backoff, 5 s for an answer. `thread_local` is off, as its documentation has it for
locks that another thread releases. It renews nothing by itself.
"""
import pathlib
import sys
import threading

import redis
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import ConnectionError, LockError, LockNotOwnedError
from redis.retry import Retry
from redis.sentinel import Sentinel

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "sdk" / "python"))
from locklab_driver import Busy, Failed, Granted, NotHeld, Unknown, Unreachable, run  # noqa: E402


class Seen(Retry):
    """The library's retries, seen: a SET that is sent again is refused by its own first copy, if that arrived and has not lapsed."""

    thread = threading.local()

    def call_with_retry(self, do, fail, *args, **named):
        def tried():
            call = getattr(self.thread, "call", None)
            if call:
                call.sent()
            return do()

        def failed(*error):
            self.thread.retried = True
            return fail(*error)

        return super().call_with_retry(tried, failed, *args, **named)


class Lock:
    def __init__(self, hello):
        tls = {"ssl": True, "ssl_ca_certs": hello.tls_ca} if hello.tls else {}
        shared = dict(tls, username=hello.user, password=hello.password)
        retry = Seen(ExponentialWithJitterBackoff(base=0.01, cap=1), 10)  # the library's own figures
        try:
            if hello.topology == "cluster":
                nodes = [redis.cluster.ClusterNode(host, port) for host, port in hello.servers]
                self.redis = redis.RedisCluster(startup_nodes=nodes, **shared)
            elif hello.topology == "sentinel":
                self.redis = Sentinel(hello.servers, sentinel_kwargs=tls).master_for(hello.master, retry=retry, **shared)
            else:
                host, port = hello.servers[0]
                self.redis = redis.Redis(host=host, port=port, retry=retry, **shared)
            self.redis.ping()
        except ConnectionError as error:
            raise Unreachable(str(error)) from error

    def acquire(self, call):
        lock = self.redis.lock(
            call.lock, timeout=call.lease_ms / 1000, thread_local=False,
            blocking=call.wait_ms != 0, blocking_timeout=None if call.wait_ms is None else call.wait_ms / 1000,
        )
        Seen.thread.call, Seen.thread.retried = call, False
        try:
            acquired = lock.acquire()
        finally:
            Seen.thread.call = None
        if acquired:
            # The library cuts what is left of a millisecond.
            return Granted(lock, lease_ms=int(lock.timeout * 1000))
        if Seen.thread.retried:
            raise Unknown("not acquired, after a command that was sent again")
        raise Busy()

    def release(self, lock):
        self.give(lock.release)

    def extend(self, lock, lease_ms):
        self.give(lock.extend, lease_ms / 1000, replace_ttl=True)

    def give(self, method, *args, **named):
        try:
            method(*args, **named)
        except LockNotOwnedError as error:
            raise NotHeld() from error
        except LockError as error:
            # Said without a question to the server: the lock was released before, with whatever ending.
            raise Failed(str(error)) from error


def features(hello):
    # The cluster's client does not show its retries.
    return ["owner_moves"] + ["open_busy"] * (hello.topology == "cluster")


run(
    Lock, name="redis-py", version=redis.__version__, kinds=["plain"], topologies=["single", "sentinel", "cluster"], features=features,
)
