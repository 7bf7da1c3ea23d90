#!/bin/sh
# Makes what a release hands out, in dist/: dist.sh [DIR]. An archive of the program with its completions, manual pages and licences, the same as a
# .deb, and where the repository's address is known the Homebrew formula and the installing script that fetch the archive from there.
#
# The program needs the libc that it was built with, or a newer one; the oldest that we build with is Debian 12's (2.36), and a release's is
# Ubuntu 22.04's (2.35). It is not static: musl's allocator would be what a benchmark measures.
set -eu
cd "$(dirname "$0")/.."
dir=${1:-dist}
cargo=${CARGO:-cargo}
target_dir=${CARGO_TARGET_DIR:-target}
host=$("${RUSTC:-rustc}" -vV | sed -n 's/^host: //p')
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
name=locklab-$version-$host
features=${LOCKLAB_FEATURES:-kube}

"$cargo" build --profile dist --locked -p cli --features "$features"
program=$target_dir/dist/locklab

rm -rf "$dir"
mkdir -p "$dir/$name/completions" "$dir/$name/man"
cp "$program" README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE "$dir/$name/"
# A linker may leave the names of symbols, which the profile asks it not to.
! command -v strip >/dev/null 2>&1 || strip --strip-all "$dir/$name/locklab"
"$cargo" run --locked --quiet -p xtask -- notices --filter-platform "$host" --features "cli/$features" >"$dir/$name/LICENSES-OF-DEPENDENCIES"
"$program" completions bash >"$dir/$name/completions/locklab.bash"
"$program" completions fish >"$dir/$name/completions/locklab.fish"
"$program" completions zsh >"$dir/$name/completions/_locklab"
"$program" man --out "$dir/$name/man" --quiet

# The same bytes for the same commit: names sorted, no owner, the commit's time.
time=$(git log -1 --format=%ct 2>/dev/null || echo 0)
export SOURCE_DATE_EPOCH="$time"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$time" -C "$dir" -c "$name" | gzip -9 -n >"$dir/$name.tar.gz"

if command -v dpkg-deb >/dev/null 2>&1; then
    # The newest symbol of the libc that the program asks for is the oldest libc that it runs on.
    libc=$(tr -c 'A-Za-z0-9_.' '\n' <"$program" | sed -n 's/^GLIBC_\([0-9.]*\)$/\1/p' | sort -V | tail -n 1)
    architecture=$(dpkg --print-architecture)
    root=$dir/deb
    mkdir -p "$root/DEBIAN" "$root/usr/bin" "$root/usr/share/man/man1" "$root/usr/share/doc/locklab" \
        "$root/usr/share/bash-completion/completions" "$root/usr/share/fish/vendor_completions.d" "$root/usr/share/zsh/vendor-completions"
    cp "$dir/$name/locklab" "$root/usr/bin/"
    cp "$dir/$name/man"/*.1 "$root/usr/share/man/man1/"
    gzip -9 -n "$root/usr/share/man/man1"/*.1
    cp "$dir/$name"/LICENSE* "$dir/$name/README.md" "$dir/$name/CHANGELOG.md" "$root/usr/share/doc/locklab/"
    cp "$dir/$name/completions/locklab.bash" "$root/usr/share/bash-completion/completions/locklab"
    cp "$dir/$name/completions/locklab.fish" "$root/usr/share/fish/vendor_completions.d/"
    cp "$dir/$name/completions/_locklab" "$root/usr/share/zsh/vendor-completions/"
    cat >"$root/DEBIAN/control" <<END
Package: locklab
Version: $version
Architecture: $architecture
Maintainer: the locklab authors <locklab@localhost>
Depends: libc6 (>= $libc), libgcc-s1
Recommends: redis-server (>= 5:7.0) | valkey-server
Section: utils
Priority: optional
Description: laboratory for distributed locks on Redis
 It starts Redis servers, lets clients contend for a lock, breaks the servers
 on purpose, and proves whether two clients held the lock at once.
END
    dpkg-deb --root-owner-group -Zxz --build "$root" "$dir/locklab_${version}_$architecture.deb" >/dev/null
    rm -rf "$root"
fi
rm -rf "${dir:?}/$name"

# What fetches the archive: the tree names no address, since copies of it have different ones.
if address=$(sh scripts/address.sh 2>/dev/null); then
    sum=$(sha256sum "$dir/$name.tar.gz" | cut -d ' ' -f 1)
    sed -e "s|@ADDRESS@|$address|g" -e "s|@VERSION@|$version|g" -e "s|@TARGET@|$host|g" -e "s|@SHA256@|$sum|g" deploy/install/locklab.rb.in >"$dir/locklab.rb"
    sed -e "s|@ADDRESS@|$address|g" -e "s|@VERSION@|$version|g" deploy/install/install.sh.in >"$dir/install.sh"
else
    echo 'dist: no address of a repository, so no formula and no installing script (REPOSITORY=https://example.org/locklab gives it)' >&2
fi
(cd "$dir" && for file in *.tar.gz *.deb; do [ ! -e "$file" ] || sha256sum -- "$file"; done >SHA256SUMS)
ls -l "$dir"
