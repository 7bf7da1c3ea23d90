"""The driver protocol of locklab: with this file a driver is only what its lock library needs.

One file, nothing but the standard library, Python 3.8 or newer. The author writes a class and hands it to `run`:

    class Lock:
        def __init__(self, hello): ...         # connects to hello.servers; an OSError: nobody answers
        def acquire(self, call): ...           # returns what the other methods need of a held lock
        def release(self, held): ...
        def extend(self, held, lease_ms): ...  # may be left out
        def held(self, held): ...              # may be left out: what the library believes, without asking a server

    run(Lock, name="my-lock", version="1.0", kinds=["plain"], topologies=["single"])

A method returns when the server has done it, and else raises `Busy`, `NotHeld`, `Failed` (certainly not done) or `Unknown`; anything
else that it raises counts as unknown. Each call has a thread of its own; methods that are `async def` share one event loop, and then
`cancel` cancels their task. Standard output belongs to the protocol: what anybody prints goes to standard error.
"""
import asyncio
import base64
import ctypes
import inspect
import itertools
import json
import os
import queue
import struct
import sys
import threading
import time
import traceback
import urllib.parse
import zlib

PROTOCOL = 1
SHAPES = {"redis": "single", "redis-sentinel": "sentinel", "redis-cluster": "cluster", "redlock": "masters"}
SHARED_KINDS = {"read", "semaphore", "permits"}
LONGEST_WAIT_MS = 60_000
FAILED_PAUSE_S = 0.01


class Ending(Exception):
    """How a call ended that did not do what was asked."""

    ending = "unknown"
    more = {}


class Busy(Ending):
    """Certainly not acquired within the wait: another has it."""

    ending = "busy"


class NotHeld(Ending):
    """This grant did not have the lock when the server looked."""

    ending = "not_held"


class Failed(Ending):
    """It certainly did not happen."""

    ending = "failed"


class Unknown(Ending):
    """It may or may not have happened: an answer was lost, a connection broke."""


class Unreachable(Failed):
    """While connecting: no server answered."""

    more = {"unreachable": True}


class NotApplicable(Failed):
    """While connecting: the library has nothing to lock with on such servers."""

    more = {"not_applicable": True}


def _place(function):
    """Where a function of the driver is written, as `lock.py:41`."""
    function = inspect.unwrap(function)
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return code and f"{os.path.relpath(code.co_filename)}:{code.co_firstlineno}"


class Granted:
    """A held lock with what else the library says of it: its fencing token, a lease shorter than the one asked for."""

    def __init__(self, held, token=None, lease_ms=None):
        self.held, self.token, self.lease_ms = held, token, lease_ms


class Hello:
    """Where the servers are and what is wished for."""

    def __init__(self, request):
        options = request.get("options") or {}
        self.target = request["target"]
        self.client = request.get("client") or "c1"
        self.seed = request.get("seed") or 0
        self.durability = options.get("durability") or "none"
        self.watchdog_ms = options.get("watchdog_ms")
        scheme, _, rest = self.target.partition("://")
        self.tls = scheme in ("rediss", "rediss-sentinel", "rediss-cluster", "redlocks")
        plain = scheme.replace("rediss", "redis").replace("redlocks", "redlock")
        if plain not in SHAPES:
            raise Failed(f"no target is a {scheme}://")
        # One of `single`, `sentinel`, `cluster`, `masters`.
        self.topology = SHAPES[plain]
        rest, _, settings = rest.partition("?")
        who, _, where = rest.rpartition("@")
        user, _, password = who.partition(":")
        self.user, self.password = (urllib.parse.unquote(text) or None for text in (user, password))
        hosts, _, path = where.partition("/")
        # Pairs of host and port; of a sentinel group those of the sentinels, and `master` is the group's name.
        self.servers = [_address(host) for host in hosts.split(",")]
        self.master = path if self.topology == "sentinel" else None
        # The file of the authority that signed the servers' certificates, where it is not one of the machine's own.
        self.tls_ca = dict(urllib.parse.parse_qsl(settings)).get("tls-ca")


def _address(text):
    host, colon, port = text.rpartition(":")
    return (host.strip("[]"), int(port)) if colon and port.isdigit() else (text.strip("[]"), 6379)


class Call:
    """What an acquire asks for, and where its library says what becomes of the lock."""

    def __init__(self, driver, request, grant=None):
        self._driver, self._grant = driver, grant
        self._sent_ns = None
        self._said = []
        self._open = False
        self.locks = request.get("locks") or [request["lock"]]
        self.lock = self.locks[0]
        self.kind = request["kind"]
        # Somebody new where nobody is named. At a release or an extend: who does it, which another owner may with the feature `owner_moves`.
        self.owner = request.get("owner") or f"somebody-{next(driver.numbers)}"
        # None: no bound; 0: one try.
        self.wait_ms = request.get("wait_ms")
        # None: the library renews the lock until it is released.
        self.lease_ms = request.get("lease_ms")
        self.permits = request.get("permits") or 1
        self._until_s = float("inf") if self.wait_ms is None else time.monotonic() + self.wait_ms / 1000

    def left_s(self):
        """The seconds of the wait that are left, 0 if it is over, infinity without a bound."""
        return max(0.0, self._until_s - time.monotonic())

    def sent(self):
        """An attempt is sent now: the lease of a grant counts from the last one. Where it is never called, nobody knows."""
        self._sent_ns = _now()

    def lost(self, reason=""):
        """The library has notified its caller that the lock is gone."""
        self._say({"event": "lost", "grant": self._grant, "reason": str(reason), "at_mono_ns": _now()})

    def extended(self, lease_ms, sent_ns=None):
        """The library has renewed the lock. `sent_ns` is when that was sent, by time.monotonic_ns(); without it no lease is lengthened."""
        self._say({"event": "extended", "grant": self._grant, "lease_ms": lease_ms, "at_mono_ns": sent_ns})

    def _say(self, event):
        if self._grant is None:
            return
        with self._driver.printing:
            # Nothing is said of a grant before the harness knows it, nor after it was released.
            if self._open:
                self._driver.line(event)
            elif self._said is not None:
                self._said.append(event)

    def _grants(self, answer):
        with self._driver.printing:
            self._driver.line(answer)
            for event in self._said:
                self._driver.line(event)
            self._open = True

    def _over(self):
        with self._driver.printing:
            self._open, self._said = False, None


def run(factory, name, version, kinds, topologies=None, watchdog_ms=None, features=(), leaseless=None, language="python"):
    """Speaks the protocol until `bye` or the end of the input, then ends the process.

    `factory` is called with a `Hello`. `watchdog_ms` is the lease that the library renews by itself; without it an acquire without a lease
    fails, but of the kinds that are `leaseless`, such as a semaphore whose permits have no lease. `features` are those that only the author
    knows: `open_busy`, `release_blind`, `nested_leases`, `reentrant`, `redlock`. Watchdog and features may be functions of the `Hello`.
    """
    said = {"protocol": PROTOCOL, "name": name, "version": version, "language": language, "kinds": list(kinds), "topologies": topologies, "leaseless": leaseless}
    _Driver(factory, said, {"watchdog_ms": watchdog_ms, "features": features}).serve()


class _Driver:
    def __init__(self, factory, said, of_hello):
        self.factory, self.said, self.of_hello = factory, said, of_hello
        self.own = [feature for feature in ("extend", "held") if hasattr(factory, feature)]
        is_async = inspect.iscoroutinefunction(getattr(factory, "acquire", None))
        self.own += ["load", "prefix", "overlap", "mono", "block"] + ["cancel"] * is_async
        self.runner = _Asyncio() if is_async else _Threads()
        self.lock = self.hello = self.watchdog_ms = None
        self.numbers = itertools.count(1)
        self.grants, self.running = {}, {}
        # The protocol keeps a descriptor of its own: a library that prints does not get between its lines.
        self.out = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
        os.dup2(2, 1)
        self.printing = threading.RLock()

    def line(self, fields):
        with self.printing:
            self.out.write(json.dumps({key: value for key, value in fields.items() if value is not None}) + "\n")
            self.out.flush()

    def serve(self):
        code = 0
        for line in sys.stdin:
            try:
                request = json.loads(line)
                known, op = request["id"], request["op"]
            except (ValueError, KeyError, TypeError) as error:
                print(f"not a request ({error!r}): {line!r}", file=sys.stderr)
                code = 1
                break
            if op == "bye":
                self.line({"id": known, "ok": {}})
                break
            self.runner.start(self.answer(request))
        sys.stderr.flush()
        # Threads may still wait for a lock.
        os._exit(code)

    async def answer(self, request):
        known, op = request["id"], request["op"]
        self.running[known] = self.runner.current()
        try:
            method = getattr(self, "on_" + op, None)
            if method is None:
                raise Failed(f"no `{op}` here")
            if self.lock is None and op != "hello":
                raise Failed("the first request is hello")
            body = await method(request)
            if body is not None:
                self.line({"id": known, "ok": body})
        except (Exception, asyncio.CancelledError) as error:
            ending, body = _ending(op, error)
            self.line({"id": known, ending: body})
        finally:
            self.running.pop(known, None)

    async def on_hello(self, request):
        if self.lock is not None:
            raise Failed("hello was said already")
        if request.get("protocol") != PROTOCOL:
            raise Failed(f"this driver speaks version {PROTOCOL}")
        hello = Hello(request)
        listed = self.said["topologies"]
        if listed and hello.topology not in listed:
            raise NotApplicable(f"{self.said['name']} does not work on `{hello.topology}`, but on {', '.join(listed)}")
        try:
            lock = self.factory(hello)
            if hasattr(lock, "connect"):
                await _maybe(lock.connect())
        except OSError as error:
            raise Unreachable(_text(error)) from error
        except Ending:
            raise
        except Exception as error:
            raise Failed(_text(error)) from error
        of_hello = {key: value(hello) if callable(value) else value for key, value in self.of_hello.items()}
        of_hello["features"] = list(dict.fromkeys([*self.own, *of_hello["features"]]))
        self.watchdog_ms = of_hello["watchdog_ms"]
        self.said.update(of_hello)
        self.lock, self.hello = lock, hello
        return {key: value for key, value in self.said.items() if value is not None}

    def check(self, kind, lease_ms):
        if kind not in self.said["kinds"]:
            raise Failed(f"no kind `{kind}` here, but {', '.join(self.said['kinds'])}")
        if lease_ms is None and self.watchdog_ms is None and kind not in (self.said["leaseless"] or ()):
            raise Failed("this library does not renew: a lease is needed")

    async def on_acquire(self, request):
        request = dict(request, kind=request.get("kind") or self.said["kinds"][0])
        self.check(request["kind"], request.get("lease_ms"))
        grant = f"g{next(self.numbers)}"
        call = Call(self, request, grant)
        try:
            got = await _maybe(self.lock.acquire(call))
        except BaseException:
            call._over()
            raise
        returned = _now()
        got = got if isinstance(got, Granted) else Granted(got)
        self.grants[grant] = (call, got.held)
        body = {"grant": grant, "token": got.token, "sent_mono_ns": call._sent_ns, "returned_mono_ns": returned, "lease_ms": got.lease_ms, "at": _place(self.lock.acquire)}
        call._grants({"id": request["id"], "ok": {key: value for key, value in body.items() if value is not None}})

    def granted(self, request):
        if request["grant"] not in self.grants:
            raise NotHeld()
        call, held = self.grants[request["grant"]]
        call.owner = request.get("owner") or call.owner
        return call, held

    async def on_release(self, request):
        call, held = self.granted(request)
        try:
            await _maybe(self.lock.release(held))
        except NotHeld:
            self.forget(request["grant"], call)
            raise
        self.forget(request["grant"], call)
        return {}

    def forget(self, grant, call):
        call._over()
        self.grants.pop(grant, None)

    async def on_extend(self, request):
        if not hasattr(self.lock, "extend"):
            raise Failed("this library cannot extend")
        await _maybe(self.lock.extend(self.granted(request)[1], request["lease_ms"]))
        return {}

    async def on_held(self, request):
        if not hasattr(self.lock, "held"):
            raise Failed("this library cannot be asked")
        known = request["grant"] in self.grants
        return {"held": known and bool(await _maybe(self.lock.held(self.grants[request["grant"]][1])))}

    async def on_cancel(self, request):
        if "cancel" not in self.own:
            raise Failed("calls of this library cannot be cancelled")
        task = self.running.get(request["of"])
        if task is not None:
            task.cancel()
        return {}

    async def on_block(self, request):
        began = _now()
        self.runner.block(request["for_ms"])
        return {"blocked_ns": _now() - began}

    async def on_load(self, request):
        return await _Loop(self, request).run()


ENDINGS = {"acquire": {"busy", "failed", "unknown"}, "release": {"not_held", "failed", "unknown"}, "extend": {"not_held", "failed", "unknown"}}


def _ending(op, error):
    """The ending of a call that raised, and its body."""
    ending = error.ending if isinstance(error, Ending) else "unknown"
    if ending not in ENDINGS.get(op, {"failed", "unknown"}):
        ending = "unknown"
    if not isinstance(error, (Ending, OSError, asyncio.CancelledError)):
        # Perhaps a mistake of the author's: the log says where.
        traceback.print_exception(type(error), error, error.__traceback__, file=sys.stderr)
    if ending in ("busy", "not_held"):
        return ending, {}
    return ending, dict({"error": _text(error)}, **getattr(error, "more", {}))


def _text(error):
    return f"{type(error).__name__}: {error}" if not isinstance(error, Ending) else str(error) or type(error).__name__


def _now():
    """Nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


async def _maybe(value):
    return await value if inspect.isawaitable(value) else value


class _Threads:
    """Each call in a thread of a pool that grows: a call that waits for a lock holds up nobody."""

    def __init__(self):
        self.calls, self.mutex = queue.SimpleQueue(), threading.Lock()
        # Threads that wait for a call, less the calls that wait for a thread.
        self.spare = 0

    def start(self, coroutine):
        with self.mutex:
            self.spare -= 1
            if self.spare < 0:
                self.spare += 1
                threading.Thread(target=self.work, args=(coroutine,), daemon=True).start()
                return
        self.calls.put(coroutine)

    def work(self, coroutine):
        while True:
            _drive(coroutine)
            with self.mutex:
                self.spare += 1
            coroutine = self.calls.get()

    def current(self):
        return None

    async def sleep(self, seconds):
        time.sleep(seconds)

    def block(self, ms):
        # As a module in C does that keeps the interpreter's lock: threads that are none of Python's go on.
        ctypes.PyDLL(None).poll(None, 0, ms)

    async def all(self, coroutines):
        threads = [threading.Thread(target=_drive, args=(one,), daemon=True) for one in coroutines]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def event(self):
        return threading.Event()

    async def wait(self, event, seconds):
        event.wait(seconds)


def _drive(coroutine):
    """Runs to its end what waits by blocking its thread, and so never awaits anything."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise RuntimeError("`acquire` is no `async def`, and another method is")


class _Asyncio:
    """All calls as tasks of one event loop, in a thread of its own."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def start(self, coroutine):
        asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def current(self):
        return asyncio.current_task()

    async def sleep(self, seconds):
        await asyncio.sleep(seconds)

    def block(self, ms):
        time.sleep(ms / 1000)

    async def all(self, coroutines):
        await asyncio.gather(*coroutines)

    def event(self):
        return asyncio.Event()

    async def wait(self, event, seconds):
        try:
            await asyncio.wait_for(event.wait(), seconds)
        except asyncio.TimeoutError:
            pass


class _Loop:
    """A `load`: tasks that acquire and release as fast as they can, and what was seen of that in a window of time."""

    def __init__(self, driver, request):
        self.driver, self.runner = driver, driver.runner
        self.workload = request.get("workload")
        if self.workload not in ("cycles", "contended", "chain"):
            raise Failed(f"no workload `{self.workload}` here, but cycles, contended and chain")
        self.kind = request.get("kind") or driver.said["kinds"][0]
        self.lease_ms = request.get("lease_ms")
        driver.check(self.kind, self.lease_ms)
        self.tasks = request.get("tasks") or 0
        count = 1 if self.workload != "cycles" else request.get("locks") or self.tasks
        measure_ms = request.get("measure_ms") or 0
        if min(self.tasks, count, measure_ms) < 1:
            raise Failed("a load needs `tasks`, `locks` and `measure_ms`, each at least 1")
        self.hold_s, self.think_s = ((request.get(field) or 0) / 1e6 for field in ("hold_us", "think_us"))
        prefix = f"{request.get('prefix') or 'locklab-load:'}{driver.hello.client}:{os.getpid()}:{next(driver.numbers)}:"
        self.names = [f"{prefix}{number}" for number in range(count)]
        self.warmup_ns, self.measure_ns = (request.get("warmup_ms") or 0) * 1_000_000, measure_ms * 1_000_000
        self.mutex = threading.Lock()
        self.acquires, self.releases, self.handoffs, self.others = (_Histogram() for _ in range(4))
        self.per_task = [0] * self.tasks
        self.endings = {"failed": 0, "unknown": 0}
        # By lock: who has it, and the last release: whose, when it was sent, and what its task waits on.
        self.holders, self.released = {}, {}
        self.overlap = None

    async def run(self):
        self.begin = _now() + self.warmup_ns
        self.end = self.begin + self.measure_ns
        spent = []
        await self.runner.all([self.watch(spent)] + [self.task(number) for number in range(self.tasks)])
        body = {
            "cycles": sum(self.per_task), **self.endings, "elapsed_ns": self.measure_ns, "client_cpu_ns": spent[1] - spent[0],
            "per_task": self.per_task, "acquire_hist": self.acquires.text(), "release_hist": self.releases.text(),
        }
        if self.workload != "cycles":
            body.update(handoff_hist=self.handoffs.text(), handoff_other_hist=self.others.text())
        return body if self.overlap is None else dict(body, overlap=self.overlap)

    async def watch(self, spent):
        for at in (self.begin, self.end):
            await self.runner.sleep(max(0, at - _now()) / 1e9)
            spent.append(time.process_time_ns())

    def counts(self, at):
        return self.begin <= at < self.end

    async def task(self, number):
        own = self.names[number::self.tasks] or [self.names[number % len(self.names)]]
        for name in itertools.cycle(own):
            if _now() >= self.end:
                return
            await self.cycle(number, name)

    async def cycle(self, number, name):
        left_ms = (self.end - _now()) // 1_000_000 + 5_000
        asked = {"lock": name, "kind": self.kind, "owner": f"t{number}", "wait_ms": min(left_ms, LONGEST_WAIT_MS), "lease_ms": self.lease_ms}
        asked.update({"locks": [name]} if self.kind == "multi" else {})
        call, sent = Call(self.driver, asked), _now()
        try:
            got = await _maybe(self.driver.lock.acquire(call))
        except Exception as error:
            return await self.ended("acquire", error)
        at = _now()
        self.granted(number, name, at)
        if self.hold_s:
            await self.runner.sleep(self.hold_s)
        next_has_it = self.runner.event()
        releasing = self.releasing(number, name, next_has_it)
        try:
            await _maybe(self.driver.lock.release(got.held if isinstance(got, Granted) else got))
        except Exception as error:
            return await self.ended("release", error)
        done = _now()
        if self.counts(done):
            with self.mutex:
                self.per_task[number] += 1
                self.acquires.record(at - sent)
                self.releases.record(done - releasing)
        if self.workload == "chain" and self.tasks > 1:
            await self.runner.wait(next_has_it, max(0, self.end - _now()) / 1e9)
        if self.think_s:
            await self.runner.sleep(self.think_s)

    async def ended(self, op, error):
        ending, body = _ending(op, error)
        if self.counts(_now()):
            with self.mutex:
                self.endings["unknown" if ending == "unknown" else "failed"] += 1
        await self.runner.sleep(FAILED_PAUSE_S)

    def granted(self, number, name, at):
        with self.mutex:
            before = self.holders.get(name)
            if before is not None and self.kind not in SHARED_KINDS:
                self.overlap = self.overlap or f"tasks {before} and {number} had {name} at once"
            self.holders[name] = number
            other, sent, waits = self.released.pop(name, (None, None, None))
            if waits is None:
                return
            waits.set()
            if self.counts(at):
                self.handoffs.record(at - sent)
                if other != number:
                    self.others.record(at - sent)

    def releasing(self, number, name, waits):
        with self.mutex:
            if self.holders.get(name) == number:
                self.holders[name] = None
            at = _now()
            self.released[name] = (number, at, waits)
            return at


class _Histogram:
    """Counts of nanoseconds as an HdrHistogram of three digits."""

    HIGHEST = 3_600_000_000_000
    HALF_BITS = 10

    def __init__(self):
        self.counts = {}

    def record(self, value):
        value = min(max(value, 0), self.HIGHEST)
        bucket = max(0, value.bit_length() - self.HALF_BITS - 1)
        index = (bucket << self.HALF_BITS) + (value >> bucket)
        self.counts[index] = self.counts.get(index, 0) + 1

    def text(self):
        """V2, compressed, in base64."""
        payload, following = bytearray(), 0
        for index, count in sorted(self.counts.items()):
            # A run of empty buckets is its length, negative.
            if index > following:
                _zigzag(payload, following - index)
            _zigzag(payload, count)
            following = index + 1
        head = struct.pack(">iiiiqqd", 0x1C849313, len(payload), 0, 3, 1, self.HIGHEST, 1.0)
        packed = zlib.compress(head + bytes(payload))
        return base64.b64encode(struct.pack(">ii", 0x1C849314, len(packed)) + packed).decode()


def _zigzag(to, value):
    value = value << 1 if value >= 0 else (-value << 1) - 1
    while value > 0x7F:
        to.append(value & 0x7F | 0x80)
        value >>= 7
    to.append(value)
