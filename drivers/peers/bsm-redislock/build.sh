#!/bin/sh
# Fetches the pinned library (go.mod, go.sum) and builds the driver into build/.
set -eu
cd "$(dirname "$0")"
command -v go >/dev/null || { echo "there is no go; \`apt-get install golang-go\` provides it" >&2; exit 69; }
go build -trimpath -o build/driver .
