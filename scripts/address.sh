#!/bin/sh
# Prints the public address of this repository: REPOSITORY, else the remote `origin` of this clone. The tree names none, since copies of it
# have different ones. Exits with 64 where there is none.
set -eu
cd "$(dirname "$0")/.."
address=${REPOSITORY:-$(git remote get-url origin 2>/dev/null || true)}
# git@host:path is https://host/path; what stands before an @ may be a token, which must not be published.
address=$(printf '%s' "$address" | sed -E 's|^(ssh://)?git@([^:/]+)[:/]|https://\2/|; s|^https://[^/@]*@|https://|; s|\.git/?$||')
if ! printf '%s' "$address" | grep -Eq '^https://[A-Za-z0-9.-]+(:[0-9]+)?/[A-Za-z0-9._~/-]+$'; then
    echo 'this clone has no remote `origin` with a public address; give one: REPOSITORY=https://example.org/locklab' >&2
    exit 64
fi
printf '%s\n' "$address"
