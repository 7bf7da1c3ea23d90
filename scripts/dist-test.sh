#!/bin/sh
# Unpacks an archive of `make dist` into an empty Debian that has redis-server and nothing else, without a network but loopback, and runs the
# quickstart there: dist-test.sh ARCHIVE [DIR]. DIR keeps the empty Debian for the next time. Needs root and debootstrap; says SKIPPED without them.
set -eu
archive=$(realpath "${1:?say: dist-test.sh ARCHIVE [DIR]}")
if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null 2>&1 || ! command -v unshare >/dev/null 2>&1; then
    echo 'SKIPPED the archive in an empty Debian: it needs root, debootstrap and unshare'
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
root=${2:-$work/root}
if [ ! -x "$root/usr/bin/redis-server" ]; then
    debootstrap --variant=minbase --include=redis-server,redis-sentinel bookworm "$root" >"$work/log" 2>&1 || { tail -n 5 "$work/log" >&2; exit 69; }
fi
rm -rf "$root/locklab" "$root/runs"
mkdir "$root/locklab"
tar -xzf "$archive" --strip-components=1 -C "$root/locklab"

# With no compiler, no Rust and no git; and none of what this machine has. Its processes end with the namespace.
cat >"$root/locklab/try.sh" <<'END'
set -eu
export PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/root
mount -t proc proc /proc
mount -t tmpfs tmpfs /tmp
cd /root && rm -rf runs
! command -v cc && ! command -v cargo && ! command -v git && ! command -v python3
/locklab/locklab --version
/locklab/locklab quickstart --seed 7
test -s runs/latest/report.html
END
unshare --net --mount --pid --fork --kill-child sh -c 'ip link set lo up 2>/dev/null || ifconfig lo up; exec chroot "$0" sh /locklab/try.sh' "$root"
