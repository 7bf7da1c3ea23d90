#!/bin/sh
# Installs the servers of other systems that locks are compared with: etcd, MariaDB and PostgreSQL from the machine's packages, ZooKeeper's
# jars by Maven into the cache of servers (or the directory that is given). Installs only what is missing, names what it cannot, and exits
# with 69 then. MongoDB is in no package source: give its URL with --target.
set -u
here=$(cd "$(dirname "$0")" && pwd)
cache=${1:-${LOCKLAB_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/locklab/servers}}
lacks=''

if [ "$(id -u)" = 0 ]; then
    sudo=''
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    sudo='sudo'
else
    sudo='none'
fi
updated=''
# One package and what it brings, without starting a server of its own.
install() {
    printf 'setup-baselines: installing %s\n' "$*" >&2
    if [ "$sudo" = none ] || ! command -v apt-get >/dev/null 2>&1; then
        return 1
    fi
    [ -n "$updated" ] || $sudo apt-get update -qq
    updated=yes
    $sudo env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}
# What a system is called, how its presence shows, and its packages.
ensure() {
    name=$1 there=$2
    shift 2
    $there || install "$@" && $there ||
        lacks="$lacks
  $name: apt-get install --no-install-recommends $*"
}
# A server that a variable names is one.
named() { [ -n "$1" ] && [ -x "$1" ]; }
has_etcd() { named "${LOCKLAB_ETCD:-}" || command -v etcd >/dev/null 2>&1 || [ -x "$cache/bin/etcd" ]; }
has_mysql() { named "${LOCKLAB_MARIADBD:-}" || command -v mariadbd >/dev/null 2>&1 || [ -x /usr/sbin/mariadbd ]; }
has_postgres() { named "${LOCKLAB_POSTGRES:-}" || ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1; }
has_java() { command -v java >/dev/null 2>&1; }
has_maven() { command -v mvn >/dev/null 2>&1; }
has_zookeeper() { ls "$cache"/zookeeper/zookeeper-[0-9]*.jar >/dev/null 2>&1; }

ensure etcd has_etcd etcd-server
ensure 'MariaDB' has_mysql mariadb-server-core
ensure 'PostgreSQL' has_postgres postgresql
ensure 'Java, for ZooKeeper' has_java default-jre-headless
if ! has_zookeeper; then
    ensure 'Maven, which gets ZooKeeper' has_maven maven
    printf 'setup-baselines: getting the jars of ZooKeeper into %s/zookeeper\n' "$cache" >&2
    # Beside its place until it is whole.
    draft="$cache/zookeeper.$$"
    mkdir -p "$cache"
    if has_maven && mvn -q -B -f "$here/zookeeper.pom.xml" dependency:copy-dependencies "-DoutputDirectory=$draft" >&2; then
        mv "$draft" "$cache/zookeeper"
    else
        rm -rf "$draft"
        lacks="$lacks
  ZooKeeper: mvn -f scripts/zookeeper.pom.xml dependency:copy-dependencies -DoutputDirectory=$cache/zookeeper"
    fi
fi

if [ -n "$lacks" ]; then
    printf 'setup-baselines: missing, with the command for each:%s\n' "$lacks" >&2
    exit 69
fi
