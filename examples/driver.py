#!/usr/bin/env python3
"""A driver of the lock `SET key value NX PX lease`, for one Redis server. It needs nothing but Python.

Put your own library in the place of `acquire`, `release` and `extend`: the rest is the driver protocol.

  locklab conform 'python3 examples/driver.py'
  locklab bench --subject 'exec:python3 examples/driver.py'
"""
import json
import os
import socket
import sys
import threading
import time
import uuid
from urllib.parse import urlsplit

DELETE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
EXPIRE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0"
address = None
grants = {}
printing = threading.Lock()


class Refused(Exception):
    """The server said no: certainly not done. Any OSError means that nobody knows."""


def command(connection, *words):
    parts = [str(word).encode() for word in words]
    connection.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts))
    reply = connection.makefile("rb").readline()
    if not reply.endswith(b"\r\n"):
        raise OSError("the server closed the connection")
    if reply.startswith(b"-"):
        raise Refused(reply[1:-2].decode())
    return reply


def connect():
    try:
        connection = socket.create_connection(address, timeout=2)
    except OSError as error:
        raise Refused(f"not sent: {error}") from error
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def acquire(request):
    if request.get("lease_ms") is None:
        return "failed", {"error": "this lock does not renew"}
    if request.get("kind", "plain") != "plain":
        return "failed", {"error": "this lock is plain"}
    wait_ms, value = request.get("wait_ms"), uuid.uuid4().hex
    end = float("inf") if wait_ms is None else time.monotonic() + wait_ms / 1000
    with connect() as connection:
        while True:
            sent = time.monotonic()
            if command(connection, "SET", request["lock"], value, "NX", "PX", request["lease_ms"]) == b"+OK\r\n":
                grants[value] = request["lock"]
                return "ok", {"grant": value, "age_ms": (time.monotonic() - sent) * 1000}
            left = end - time.monotonic()
            if left <= 0:
                return "busy", {}
            time.sleep(min(left, 0.01))


def on_grant(request, script, *args):
    value = request["grant"]
    if value not in grants:
        return "not_held", {}
    with connect() as connection:
        done = command(connection, "EVAL", script, 1, grants[value], value, *args) == b":1\r\n"
    if not done or script is DELETE:
        grants.pop(value, None)
    return ("ok" if done else "not_held"), {}


def answer(request):
    try:
        if request["op"] == "acquire":
            ending, body = acquire(request)
        elif request["op"] == "release":
            ending, body = on_grant(request, DELETE)
        elif request["op"] == "extend":
            ending, body = on_grant(request, EXPIRE, request["lease_ms"])
        elif request["op"] == "held":
            ending, body = "ok", {"held": request["grant"] in grants}
        else:
            ending, body = "failed", {"error": "not offered"}
    except Refused as error:
        ending, body = "failed", {"error": str(error)}
    except OSError as error:
        ending, body = "unknown", {"error": str(error)}
    say(request, ending, body)


def say(request, ending, body):
    with printing:
        print(json.dumps({"id": request["id"], ending: body}), flush=True)


for line in sys.stdin:
    request = json.loads(line)
    if request["op"] == "hello" and request["protocol"] != 1:
        say(request, "failed", {"error": "this driver speaks version 1"})
    elif request["op"] == "hello":
        url = urlsplit(request["target"])
        address = (url.hostname, url.port or 6379)
        say(request, "ok", {"protocol": 1, "name": "set-nx-px", "version": "1.0", "language": "python", "kinds": ["plain"],
                            "topologies": ["single"], "features": ["extend", "held"]})
    elif request["op"] == "bye":
        say(request, "ok", {})
        os._exit(0)
    else:
        threading.Thread(target=answer, args=(request,), daemon=True).start()
