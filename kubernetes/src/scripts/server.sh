#!/bin/sh
# One server of a part: its number says which part it serves and what it is there. Masters come first, then replicas, then sentinels.
set -eu
node=$((${HOSTNAME##*-} % NODES))
first=$((${HOSTNAME##*-} - node))
host() { echo "$HOST_BEFORE$((first + $1))$HOST_AFTER"; }
resolved() { getent ahosts "$1" | awk 'NR == 1 { print $1 }'; }
known() { until [ -n "$(resolved "$1")" ]; do sleep 0.5; done; }

cd /data
if [ "$node" -ge "$DATA" ]; then
    known "$(host 0)"
    # It rewrites this file while it runs, and finds it again when only its container was started anew.
    [ -e sentinel.conf ] || cat >sentinel.conf <<END
bind $POD_IP
port 6379
bind-source-addr $POD_IP
protected-mode no
sentinel resolve-hostnames yes
sentinel announce-hostnames yes
sentinel announce-ip $(host "$node")
sentinel monitor locklab $(host 0) 6379 $QUORUM
sentinel down-after-milliseconds locklab 1000
sentinel failover-timeout locklab 1500
sentinel parallel-syncs locklab 5
$SENTINEL_LINES
END
    exec "$SERVER" sentinel.conf --sentinel
fi

set -- /locklab/server.conf --dir /data --bind "$POD_IP" --bind-source-addr "$POD_IP" --port 6379
case $KIND in
cluster)
    set -- "$@" --cluster-enabled yes --cluster-node-timeout 1500 --cluster-replica-validity-factor 0 --cluster-announce-ip "$POD_IP"
    # The first of a part joins them once all are there, unless they know each other already.
    [ "$node" != 0 ] || (
        nodes=
        for other in $(seq 0 $((NODES - 1))); do
            known "$(host "$other")"
            address=$(resolved "$(host "$other")")
            until "$CLI" -h "$address" ping 2>/dev/null | grep -q PONG; do sleep 0.5; done
            nodes="$nodes $address:6379"
        done
        # shellcheck disable=SC2086
        "$CLI" -h "$POD_IP" cluster info | grep -q 'cluster_known_nodes:1[^0-9]*$' &&
            "$CLI" --cluster create $nodes --cluster-replicas "$REPLICAS" --cluster-yes
    ) &
    ;;
*)
    set -- "$@" --replica-announce-ip "$(host "$node")"
    if [ "$node" -ge "$MASTERS" ]; then
        master=$(host $(((node - MASTERS) % MASTERS)))
        known "$master"
        set -- "$@" --replicaof "$master" 6379
    fi
    ;;
esac
exec "$SERVER" "$@"
