#!/usr/bin/env python3
"""Turns the driver protocol into commands of a lock of our own on one server, rightly or, by its first argument, subtly wrongly.

It needs nothing but Python's standard library. Modes:
  right           as the protocol says: SET NX PX with a value of its own, compare-and-delete, compare-and-expire
  child           as right, but the driver is the child of another process, as when a script starts it
  banner          prints a line for people first
  no-flush        writes into a buffer that nobody empties
  renew-unchecked extends whatever has the key
  delete-unchecked deletes whatever has the key
  twice           answers each acquire twice
  wrong-id        answers with the next id
  deaf            stops reading after its first grant
  one-by-one      answers one request after the other
  any-version     claims every version of the protocol
  ends-badly      exits with code 3 on bye
  blind           answers ok to every release of a grant that it gave, and says so by its features
  blind-silent    the same, and does not say so
  fenced          as right, of the kind fenced: with tokens, and the holder is not let in again
  fenced-reentrant the same, and claims by its features to be re-entrant
  fenced-falling  the same, and each token is less than the one before it
  fenced-bare     the same, and gives no tokens
  multi           as right, of the kind multi: every name, or none
  multi-first     the same, but takes the first name only
  load-claimed    claims that it has the loop, and answers failed
  notices         as right, and says that a grant is lost when its lease has ended, and so by its features
  notices-never   claims that it does so
  notices-at-once does so, and says it of every grant as soon as it is given
  stamped         as right, with the moments of a grant by the machine's clock
  stamped-ahead   the same, by a clock that is hours ahead
  busy-failed     answers failed where another has the lock
  cluster-only    as right, and works on a cluster only, by its hello
  cluster-refused the same, and refuses any other servers at hello
  cluster-terse   works on a cluster only, and says no more than `failed` to a hello elsewhere
  masters-terse   the same, of independent masters
  nowhere         lists no topology at all
  ring            lists a topology that there is not
  later           as right, and has a kind of a later version too
  unblocked       claims that it was blocked for as long as it was asked to be, and answers at once
  eager           says of each grant that it was extended: before its answer, at once after it and after its release; and of one that it never gives
  single-only     as right, and works on a single server only, by its hello
  garbage         prints a line that is no JSON at its third grant
  long-grant      as right, with names of grants that are longer than they may be
  chatter         as right, and says more than anybody keeps
  loud            as right, and logs more than is kept of it
  together        as right, but clients c2 to c6 say hello only once all of them have been asked to, whom files in its directory count
  moody           as right, but ends at once when it is asked for a lease of 777 ms, and answers none of 888 ms
"""
import json
import os
import socket
import subprocess
import sys
import threading
import time
import uuid

MODE = sys.argv[1] if len(sys.argv) > 1 else "right"
DELETE = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end"
EXPIRE = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end"
out_lock = threading.Lock()
KIND = next((kind for kind in ("fenced", "multi") if MODE.startswith(kind)), "redlock" if MODE == "masters-terse" else "plain")
TERSE = {"cluster-terse": "redis-cluster:", "masters-terse": "redlock:"}
FEATURES = {"blind": ["release_blind"], "fenced-reentrant": ["reentrant"], "unblocked": ["block"], "load-claimed": ["load"]}.get(MODE, [])
FEATURES += ["lost"] * MODE.startswith("notices") + ["mono"] * MODE.startswith("stamped")
TOPOLOGIES = {"single-only": ["single"], "cluster-only": ["cluster"], "cluster-refused": ["cluster"], "nowhere": [], "ring": ["single", "ring"]}.get(MODE)
PARTY = ["c2", "c3", "c4", "c5", "c6"]
grants = {}
given = 0


class Moved(Exception):
    """A cluster has the key on another node."""


class Server:
    """One connection; a command at a time."""

    def __init__(self, url):
        rest = url.split("://", 1)[1].split("/", 1)[0]
        host, port = rest.rsplit("@", 1)[-1].split(",")[0].rsplit(":", 1)
        self.address = (host, int(port))
        self.lock = threading.Lock()
        self.file = None

    def connect(self):
        self.socket = socket.create_connection(self.address, timeout=3)
        self.socket.settimeout(3)
        self.file = self.socket.makefile("rb")

    def command(self, *words):
        """The answer; an OSError after which nobody knows whether it was done."""
        with self.lock:
            try:
                if self.file is None:
                    self.connect()
                parts = [str(word).encode() for word in words]
                text = b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)
                self.socket.sendall(text)
                return self.answer()
            except OSError:
                self.file = None
                raise
            except Moved as moved:
                self.file, self.address = None, moved.args[0]
        return self.command(*words)

    def answer(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise OSError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-" and rest.startswith(b"MOVED "):
            host, port = rest.decode().split()[2].rsplit(":", 1)
            raise Moved((host, int(port)))
        if kind == b"-":
            raise ValueError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            if rest == b"-1":
                return None
            return self.file.read(int(rest) + 2)[:-2].decode()
        return rest.decode()


def say(line):
    text = json.dumps(line) + "\n"
    with out_lock:
        sys.stdout.write(text)
        if MODE != "no-flush":
            sys.stdout.flush()


def reply(request, ending, **body):
    number = request["id"] + (1 if MODE == "wrong-id" and request["op"] == "acquire" else 0)
    say({"id": number, ending: body})
    if MODE == "twice" and request["op"] == "acquire":
        say({"id": number, ending: body})


def take(server, names, value, lease_ms):
    """Every name, or none."""
    for place, name in enumerate(names):
        if server.command("SET", name, value, "NX", "PX", lease_ms) != "OK":
            for had in names[:place]:
                server.command("EVAL", DELETE, 1, had, value)
            return False
    return True


def notice(grant):
    """Says that a grant is lost when its lease has ended."""
    while MODE != "notices-never" and (held := grants.get(grant)):
        left = 0 if MODE == "notices-at-once" else held[2] - time.monotonic()
        if left <= 0:
            return say({"event": "lost", "grant": grant, "reason": "its lease has ended"})
        time.sleep(left)


def acquire(server, request):
    global given
    if request.get("kind", KIND) != KIND:
        return reply(request, "failed", error="no such kind")
    lease_ms = request.get("lease_ms")
    if lease_ms is None:
        return reply(request, "failed", error="this lock does not renew")
    if MODE == "moody" and lease_ms == 777:
        os._exit(7)
    if MODE == "moody" and lease_ms == 888:
        return None
    wait_ms = request.get("wait_ms")
    end = None if wait_ms is None else time.monotonic() + wait_ms / 1000
    value = uuid.uuid4().hex
    names = request.get("locks") or [request["lock"]]
    names = names[:1] if MODE == "multi-first" else names
    while True:
        sent = time.monotonic()
        if take(server, names, value, lease_ms):
            grant = "g-" + value[:12] + "x" * (MODE == "long-grant") * 2000
            grants[grant] = (names, value, sent + lease_ms / 1000)
            given += 1
            if MODE == "garbage" and given == 3:
                sys.stdout.write("panic: nil map\n")
                sys.stdout.flush()
                print("a reason of its own", file=sys.stderr, flush=True)
            age_ms = (time.monotonic() - sent) * 1000
            more = {}
            if KIND == "fenced" and MODE != "fenced-bare":
                token = server.command("INCR", names[0] + ":token")
                more = {"token": 1000 - token if MODE == "fenced-falling" else token}
            if MODE.startswith("stamped"):
                ahead_s = 10_000 if MODE == "stamped-ahead" else 0
                more = {"sent_mono_ns": int((sent + ahead_s) * 1e9), "returned_mono_ns": time.monotonic_ns()}
            extended = {"event": "extended", "grant": grant, "lease_ms": lease_ms, "age_ms": 0}
            eager = [extended] if MODE == "eager" else []
            [say(event) for event in eager * 2 + [dict(extended, grant="nobody's")] * (given == 1 and len(eager))]
            reply(request, "ok", grant=grant, age_ms=age_ms, **more)
            if "lost" in FEATURES:
                threading.Thread(target=notice, args=(grant,), daemon=True).start()
            [say(event) for event in eager]
            return None
        if end is not None and time.monotonic() >= end:
            return reply(request, "failed", error="another has it") if MODE == "busy-failed" else reply(request, "busy")
        left = 0.01 if end is None else min(0.01, end - time.monotonic())
        time.sleep(max(left, 0.001))


def of_grant(server, request):
    held = grants.get(request["grant"])
    if request["op"] == "held":
        return reply(request, "ok", held=held is not None)
    if held is None:
        return reply(request, "not_held")
    names, value, _ = held
    if request["op"] == "release":
        if not MODE.startswith("blind"):
            grants.pop(request["grant"], None)
        if MODE == "delete-unchecked":
            done = [server.command("DEL", key) for key in names]
        else:
            done = [server.command("EVAL", DELETE, 1, key, value) for key in names]
    elif MODE == "renew-unchecked":
        done = [server.command("PEXPIRE", key, request["lease_ms"]) for key in names]
    else:
        grants[request["grant"]] = (names, value, time.monotonic() + request["lease_ms"] / 1000)
        done = [server.command("EVAL", EXPIRE, 1, key, value, request["lease_ms"]) for key in names]
    blind = MODE.startswith("blind") and request["op"] == "release"
    reply(request, "ok" if all(done) or blind else "not_held")
    if MODE == "eager":
        say({"event": "extended", "grant": request["grant"], "lease_ms": 99, "age_ms": 0})


def handle(server, request):
    try:
        if request["op"] == "acquire":
            acquire(server, request)
        elif request["op"] in ("release", "extend", "held"):
            of_grant(server, request)
        elif MODE == "unblocked" and request["op"] == "block":
            reply(request, "ok", blocked_ns=request["for_ms"] * 1_000_000)
        else:
            reply(request, "failed", error="not offered")
    except OSError as error:
        reply(request, "unknown", error=str(error))
    except ValueError as error:
        reply(request, "failed", error=str(error))


def main():
    if MODE == "banner":
        print("Lock driver, ready.", flush=True)
    if MODE == "child":
        # The parent only waits: its child is the one with the connections.
        os.environ["LOCKLAB_CHILD"] = "1"
        sys.exit(subprocess.call([sys.executable, os.path.abspath(__file__), "right"]))
    if MODE == "loud":
        sys.stderr.write(("x" * 99 + "\n") * 700_000)
    server = None
    for line in sys.stdin:
        request = json.loads(line)
        if request["op"] == "hello" and MODE == "together" and request["client"] != "c1":
            open("asked-" + request["client"], "w").close()
            while request["client"] in PARTY and not all(os.path.exists("asked-" + client) for client in PARTY):
                time.sleep(0.02)
        if request["op"] == "hello":
            if request["protocol"] != 1 and MODE != "any-version":
                reply(request, "failed", error="this driver speaks version 1")
                continue
            if MODE == "cluster-refused" and not request["target"].startswith("redis-cluster:"):
                reply(request, "failed", not_applicable=True, error="it needs a cluster")
                continue
            if MODE in TERSE and not request["target"].startswith(TERSE[MODE]):
                reply(request, "failed", error="not there")
                continue
            server = Server(request["target"])
            reply(request, "ok", protocol=request["protocol"], name="set-nx-px", version="1.0", language="python",
                  kinds=[KIND] + ["braid"] * (MODE == "later"), features=["extend", "held"] + FEATURES,
                  **({} if TOPOLOGIES is None else {"topologies": TOPOLOGIES}))
            for _ in range(12_000 * (MODE == "chatter")):
                say({"event": "lost", "grant": "nobody's", "reason": "none"})
        elif request["op"] == "bye":
            reply(request, "ok")
            os._exit(3 if MODE == "ends-badly" else 0)
        elif MODE == "one-by-one":
            handle(server, request)
        else:
            threading.Thread(target=handle, args=(server, request), daemon=True).start()
            while MODE == "deaf" and given:
                time.sleep(1)


main()
