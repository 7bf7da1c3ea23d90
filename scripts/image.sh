#!/bin/sh
# Builds the image of the Dockerfile where no image registry can be reached: image.sh DIR [TAG]. The two images that it starts from are made in DIR
# from Debian's packages and this machine's Rust toolchain, with the certificates that this machine trusts. Needs root, debootstrap and an engine.
set -eu
dir=${1:?say: image.sh DIR [TAG]}
export DOCKER_BUILDKIT=0

if ! docker image inspect debian:trixie-slim >/dev/null 2>&1; then
    root=$dir/root
    debootstrap --variant=minbase trixie "$root"
    # What `slim` leaves out, now and of packages that come later.
    for unused in man locale info; do
        rm -rf "$root/usr/share/$unused"
        echo "path-exclude /usr/share/$unused/*"
    done >"$root/etc/dpkg/dpkg.cfg.d/slim"
    # No second copy of the lists in apt's cache, as in the image of that name.
    echo 'Dir::Cache { pkgcache ""; srcpkgcache ""; }' >"$root/etc/apt/apt.conf.d/slim"
    printf 'path-exclude /usr/share/doc/*\npath-include /usr/share/doc/*/copyright\n' >>"$root/etc/dpkg/dpkg.cfg.d/slim"
    find "$root/usr/share/doc" ! -type d ! -name copyright -delete
    find "$root/var/cache/apt" "$root/var/lib/apt/lists" -type f -delete
    tar -C "$root" -c . | docker import --change 'CMD ["bash"]' - debian:trixie-slim
    rm -rf "$root"
fi

if ! docker image inspect rust:1-slim-trixie >/dev/null 2>&1; then
    mkdir -p "$dir/rust/toolchain"
    for part in bin lib libexec; do cp -a "$(rustc --print sysroot)/$part" "$dir/rust/toolchain"; done
    cp -L /etc/ssl/certs/ca-certificates.crt "$dir/rust/"
    docker build --network host -t rust:1-slim-trixie -f - "$dir/rust" <<'END'
FROM debian:trixie-slim
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY ca-certificates.crt /etc/ssl/certs/
COPY toolchain /usr/local
ENV CARGO_HOME=/usr/local/cargo
END
    rm -rf "$dir/rust"
fi

docker build --network host -t "${2:-locklab}" "$(dirname "$0")/.."
