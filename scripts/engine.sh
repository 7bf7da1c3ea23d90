#!/bin/sh
# Gives the tests a container engine for a while: `engine.sh start DIR` prints its DOCKER_HOST, `engine.sh stop DIR` ends it.
# An engine that answers already is used and left alone. Where none can run, start says why and exits with 69; the tests that need
# one then say that they were skipped.
set -eu

fail() {
    printf 'engine: %s\n' "$1" >&2
    exit 69
}

start() {
    dir=$1
    if command -v docker >/dev/null 2>&1 && docker version >/dev/null 2>&1; then
        printf '%s\n' "${DOCKER_HOST:-}"
        return
    fi
    [ "$(id -u)" = 0 ] || fail 'no container engine answers, and only root can start one'
    if ! command -v dockerd >/dev/null 2>&1; then
        command -v apt-get >/dev/null 2>&1 || fail 'no dockerd here, and no apt-get to install docker.io with'
        printf 'engine: installing docker.io\n' >&2
        apt-get update -qq >&2 || true
        # RUNLEVEL=1 keeps the package from starting an engine of its own.
        env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
            apt-get install -y -qq --no-install-recommends docker.io >/dev/null || fail 'docker.io cannot be installed'
    fi
    mkdir -p "$dir"
    # Ports are published by a proxy process and only on loopback, so no rule of a firewall is needed or touched.
    dockerd --data-root "$dir/root" --exec-root "$dir/exec" --pidfile "$dir/pid" -H "unix://$dir/docker.sock" \
        --iptables=false --ip6tables=false --ip-forward=false >"$dir/log" 2>&1 </dev/null &
    daemon=$!
    tries=0
    until DOCKER_HOST="unix://$dir/docker.sock" docker version >/dev/null 2>&1; do
        tries=$((tries + 1))
        if ! kill -0 "$daemon" 2>/dev/null || [ "$tries" -gt 120 ]; then
            tail -n 3 "$dir/log" >&2
            stop "$dir"
            fail 'dockerd does not run here; the end of its log is above'
        fi
        sleep 0.5
    done
    printf 'unix://%s\n' "$dir/docker.sock"
}

stop() {
    dir=$1
    # Made only for an engine that was started here.
    [ -d "$dir" ] || return 0
    if [ -f "$dir/pid" ]; then
        daemon=$(cat "$dir/pid")
        kill "$daemon" 2>/dev/null || true
        tries=0
        while kill -0 "$daemon" 2>/dev/null && [ "$tries" -lt 60 ]; do
            tries=$((tries + 1))
            sleep 0.5
        done
    fi
    # dockerd leaves the mount of its own network namespace and its bridge behind.
    umount "$dir"/exec/netns/* 2>/dev/null || true
    rm -rf "$dir"
    # The bridge is that of all engines.
    if command -v ip >/dev/null 2>&1 && [ ! -e /var/run/docker.sock ] && ! pgrep -x dockerd >/dev/null 2>&1; then
        ip link delete docker0 2>/dev/null || true
    fi
}

case "${1:-} ${2:-}" in
'start '?*) start "$2" ;;
'stop '?*) stop "$2" ;;
*) fail 'say: engine.sh start DIR, or engine.sh stop DIR' ;;
esac
