#!/bin/sh
# Builds this peer: the versions of package-lock.json in a node_modules of its own.
set -eu
cd "$(dirname "$0")"
command -v npm >/dev/null || { echo "there is no npm; \`apt-get install npm\` provides it and Node" >&2; exit 69; }
npm ci --silent --no-fund --no-audit
