#!/usr/bin/env python3
"""What a plain lock's release costs a server by its script and by DELEX or DELIFEQ, and what each does when its answer was lost or it arrives late.

    python3 scripts/release-cost.py redis-server /path/to/another-server …     # programs; `locklab list servers` has them

Starts each server on a port of its own, and takes turns: a round by script, a round by command, and so on. The script is the library's own
(lock-core/scripts/release_plain.lua). Prints rows of a Markdown table: the processor time of the server per release, from its INFO, as the
median of the rounds; the ratio is of two rounds that follow each other. A server without either command is named as such.
"""
import hashlib
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

SCRIPT = (pathlib.Path(__file__).parent.parent / "lock-core/scripts/release_plain.lua").read_text()
ROUNDS, RELEASES = 15, 20_000
# Releases in one write: one client alone, and a connection that many tasks share.
TOGETHER = (1, 50)


class Connection:
    """As much of RESP2 as is needed."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.answers = self.socket.makefile("rb")

    def send(self, *commands):
        words = [b"*%d\r\n%s" % (len(c), b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in map(to_bytes, c))) for c in commands]
        self.socket.sendall(b"".join(words))

    def read(self):
        line = self.answers.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"*":
            return [self.read() for _ in range(int(rest))]
        if kind == b"$":
            return None if rest == b"-1" else self.answers.read(int(rest) + 2)[:-2]
        return int(rest) if kind == b":" else (kind + rest).decode()

    def ask(self, *commands):
        self.send(*commands)
        return [self.read() for _ in commands]


def to_bytes(word):
    return word if isinstance(word, bytes) else str(word).encode()


def spent_us(connection):
    info = connection.ask(["INFO", "cpu"])[0].decode()
    fields = dict(line.split(":", 1) for line in info.splitlines() if ":" in line)
    return 1e6 * sum(float(fields[f"used_cpu_{part}_main_thread"]) for part in ("user", "sys"))


def ways(connection):
    digest = hashlib.sha1(SCRIPT.encode()).hexdigest()
    connection.ask(["SCRIPT", "LOAD", SCRIPT])
    both = {"script": lambda key: [["EVALSHA", digest, 1, key, "me"]]}
    for name, condition in (("DELEX", ["IFEQ"]), ("DELIFEQ", [])):
        if connection.ask(["COMMAND", "INFO", name])[0][0] and len(both) == 1:
            publish = lambda key: ["PUBLISH", "redisson_lock__channel:{%s}" % key, 0]
            both[name] = lambda key, name=name, condition=condition: [[name, key, *condition, "me"], publish(key)]
    return both


def round_us(connection, release, together):
    """The server's time per release of as many locks, which are taken before."""
    for first in range(0, RELEASES, 500):
        connection.ask(*[["SET", f"n{n}", "me", "NX", "PX", 600_000] for n in range(first, first + 500)])
    before = spent_us(connection)
    for first in range(0, RELEASES, together):
        connection.ask(*[command for n in range(first, first + together) for command in release(f"n{n}")])
    return (spent_us(connection) - before) / RELEASES


def told(connection, listener, release, holder):
    """What a release says of a lock that `holder` has by then, whether it is still there, and how many messages it sent."""
    connection.ask(["DEL", "n"], *([["SET", "n", holder]] if holder else []))
    said = connection.ask(*release("n"))[0]
    there = connection.ask(["EXISTS", "n"])[0]
    connection.ask(["PUBLISH", "redisson_lock__channel:{n}", "end"])
    messages = 0
    while listener.read()[2] != b"end":
        messages += 1
    return f"{'nil' if said is None else said}, {messages} message{'s' * (messages != 1)}" + ("" if there == bool(holder) else ", DELETED")


def measure(program):
    with tempfile.TemporaryDirectory() as directory, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        arguments = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", directory]
        server = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
        try:
            for _ in range(100):
                try:
                    connection = Connection(port)
                    break
                except OSError:
                    time.sleep(0.1)
            info = connection.ask(["INFO", "server"])[0].decode()
            is_valkey = "valkey_version:" in info
            name = "valkey " if is_valkey else "redis "
            name += info.split("valkey_version:" if is_valkey else "redis_version:")[1].split()[0]
            both = ways(connection)
            if len(both) == 1:
                print(f"| {name} | has neither command | | | | | |", flush=True)
                return
            native = next(way for way in both if way != "script")
            listener = Connection(port)
            listener.ask(["SUBSCRIBE", "redisson_lock__channel:{n}"])
            # A repetition finds nothing, one that arrives late another's lock.
            cells = [f"{way}: {told(connection, listener, both[way], holder)}" for holder in (None, "other") for way in both]
            for together in TOGETHER:
                times = {way: [] for way in both}
                for _ in range(ROUNDS):
                    for way, release in both.items():
                        times[way].append(round_us(connection, release, together))
                ratios = sorted(b / a for a, b in zip(times["script"], times[native]))
                script, command = (statistics.median(times[way]) for way in ("script", native))
                ratio = f"{statistics.median(ratios):.2f} ({ratios[1]:.2f} to {ratios[-2]:.2f})"
                print(f"| {name} | {native} | {together} | {script:.2f} µs | {command:.2f} µs | {ratio} |"
                      f" {'; '.join(cells[:2])} | {'; '.join(cells[2:])} |", flush=True)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    programs = sys.argv[1:] or ["redis-server"]
    missing = [program for program in programs if not shutil.which(program)]
    if missing:
        sys.exit(f"no such program: {', '.join(missing)}")
    print("| server | command | in one write | script | command | ratio | said again after a lost answer | arrives late, another holds |")
    print("|---|---|---|---|---|---|---|---|")
    for program in programs:
        measure(program)
