#!/bin/sh
# Builds this peer: the versions of package-lock.json in a node_modules of its own.
set -eu
cd "$(dirname "$0")"
npm ci --silent --no-fund --no-audit
