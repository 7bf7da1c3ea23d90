#!/bin/sh
# Fetches the servers whose commands Debian's stable releases do not have yet: Redis and Valkey from Debian's unstable and experimental.
# Nothing is installed: each server runs on libraries of its own from the same directory.
#
# usage: newer-servers.sh DIRECTORY     prints the value for LOCK_CORE_NEWER_SERVER: both programs, with `:` between them.
# The archive is the one that this machine's package sources name; DEBIAN_ARCHIVE=URL names another, or one where they name none (Ubuntu).
# Exits with 69 if there is no archive, it cannot be reached, or a server does not start.
set -eu

fail() {
    printf 'newer-servers: %s\n' "$1" >&2
    exit 69
}

[ $# = 1 ] || { printf 'usage: newer-servers.sh DIRECTORY\n' >&2; exit 64; }
command -v apt-get >/dev/null 2>&1 || fail 'this needs apt-get'
mkdir -p "$1/lists/partial" "$1/cache/archives/partial" "$1/debs"
dir=$(cd "$1" && pwd)
case $(uname -m) in
    x86_64) loader=lib64/ld-linux-x86-64.so.2 triplet=x86_64-linux-gnu ;;
    aarch64) loader=lib/ld-linux-aarch64.so.1 triplet=aarch64-linux-gnu ;;
    *) fail "no packages for $(uname -m) are known here" ;;
esac

# What apt itself makes of its sources, whatever their format. The archive of security updates has a path of its own.
archive=${DEBIAN_ARCHIVE:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep '/debian/*$' | head -n 1)}
[ -n "$archive" ] || fail 'no package source of this machine is a Debian archive; name one: DEBIAN_ARCHIVE=URL'

keyring=/usr/share/keyrings/debian-archive-keyring.gpg
signed=''
[ ! -e "$keyring" ] || signed="[signed-by=$keyring] "
for suite in sid experimental; do
    printf 'deb %s%s %s main\n' "$signed" "$archive" "$suite"
done >"$dir/sources.list"
apt() {
    program=$1
    shift
    "$program" -o Dir::Etc::SourceList="$dir/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$dir/lists" \
        -o Dir::Cache="$dir/cache" -o APT::Sandbox::User=root -o APT::Get::List-Cleanup=false "$@"
}
apt apt-get update -qq >&2 || fail "the Debian archive $archive cannot be reached"

libraries='libc6 libssl3t64 libsystemd0 libjemalloc2 libstdc++6 libgcc-s1 libcap2 libatomic1 zlib1g
    liblzf1 liblzma5 libzstd1 liblz4-1 libgcrypt20 liblua5.1-0 lua-cjson lua-bitop libhiredis1.1.0'
# shellcheck disable=SC2086
(cd "$dir/debs" && apt apt-get download -qq redis-server/experimental redis-tools/experimental valkey-server valkey-tools $libraries) >&2 ||
    fail 'the packages cannot be had'
programs=''
for server in redis valkey; do
    root=$dir/$server
    mkdir -p "$root"
    for package in "$dir"/debs/*.deb; do
        case $(basename "$package") in
            redis-* | valkey-*)
                case $(basename "$package") in "$server"-*) ;; *) continue ;; esac ;;
        esac
        dpkg-deb -x "$package" "$root"
    done
    cat >"$dir/$server-server" <<END
#!/bin/sh
root='$root'
exec "\$root/usr/$loader" --argv0 $server-server --library-path "\$root/usr/lib/$triplet:\$root/lib/$triplet" "\$root/usr/bin/$server-server" "\$@"
END
    chmod +x "$dir/$server-server"
    "$dir/$server-server" --version >&2 || fail "$server-server does not start"
    programs="$programs${programs:+:}$dir/$server-server"
done
printf '%s\n' "$programs"
