"""A lock without a server, on the Python SDK: the name of a lock says what becomes of it. `sdk.py async` has `async def` methods."""
import asyncio
import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "drivers" / "sdk" / "python"))
from locklab_driver import Busy, Failed, Granted, NotHeld, run  # noqa: E402


class Lock:
    def __init__(self, hello):
        if hello.client == "echo":
            servers = ",".join(f"{host} {port}" for host, port in hello.servers)
            raise Failed("; ".join(map(str, (hello.topology, servers, hello.user, hello.password, hello.master, str(hello.tls).lower()))))
        if hello.client == "away":
            raise ConnectionRefusedError("nobody there")
        self.mutex, self.released = threading.Lock(), None

    def acquire(self, call):
        print("a library that prints")
        if self.released:
            self.released.lost("after its release")
        if call.lock == "busy":
            raise Busy()
        if call.lock == "failed":
            raise Failed("no")
        if call.lock == "odd":
            raise NotHeld()
        if call.lock == "throws":
            raise KeyError("a mistake")
        if call.lock == "loses":
            call.lost("gone")
        if call.lock == "renews":
            call.extended(5000, 1)
        if call.lock == "fenced":
            call.sent()
            return Granted("fenced", token=17, lease_ms=900)
        if call.kind == "queued" and not self.mutex.acquire(timeout=call.left_s()):
            raise Busy()
        return call

    def release(self, held):
        if held == "fenced":
            raise NotHeld()
        if held.lock == "breaks":
            held.lock = "works again"
            raise OSError("lost")
        if held.kind == "queued":
            self.mutex.release()
        self.released = held


class AsyncLock:
    def __init__(self, hello):
        self.mutex = asyncio.Lock()

    async def acquire(self, call):
        if call.lock == "waits":
            await asyncio.sleep(60)
        if call.kind == "queued":
            await self.mutex.acquire()
        return call

    async def release(self, held):
        if held.kind == "queued":
            self.mutex.release()


lock = AsyncLock if sys.argv[1:] == ["async"] else Lock
# `queued` excludes here, so that a loop of `plain` sees two holders and one of `queued` does not.
run(lock, name="scripted", version="1.0", kinds=["plain", "queued", "semaphore"], leaseless=["semaphore"], watchdog_ms=lambda hello: hello.watchdog_ms)
