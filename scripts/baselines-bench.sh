#!/bin/sh
# One run of Redis, etcd, ZooKeeper, MariaDB and PostgreSQL in the same rounds, as they are shipped and once more with Redis on disk before it
# answers, in under 10 minutes on two quiet cores; both into the directory that is named (usual: runs/baselines).
# `make setup-baselines` installs the servers.
set -eu
cd "$(dirname "$0")/.."
locklab="${CARGO_TARGET_DIR:-target}/release/locklab"
"${CARGO:-cargo}" build --release --locked -p cli --no-default-features --features baselines,tls

out=${1:-runs/baselines}
bench() {
    name=$1
    shift
    "$locklab" --seed 7 --out "$out/$name" bench --topology single,etcd,etcd-3,zookeeper,zookeeper-3,mysql,postgres --warmup 200ms "$@"
}
# etcd hands its lock on some 80 times a second, so a round of less than a second would say nothing of it.
bench shipped --workload uncontended,contended,chain --tasks 16 --rounds 6 --duration 1s
# Those that write a grant to a disk before they answer, beside Redis that does so too.
bench fsync --fsync --workload uncontended --tasks 1,16 --rounds 6 --duration 700ms --subject \
    lock-core:reentrant,baseline:set-nx-px,etcd:lock,zookeeper:ephemeral,mysql:row,postgres:row
echo "written: $out/shipped and $out/fsync"
