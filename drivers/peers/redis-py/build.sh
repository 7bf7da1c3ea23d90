#!/bin/sh
# Builds this peer: an environment of its own with the versions of requirements.txt.
set -eu
cd "$(dirname "$0")"
python3 -c 'import ensurepip, venv' 2>/dev/null || { echo "there is no python3 with venv; \`apt-get install python3-venv\` provides it" >&2; exit 69; }
python3 -m venv .venv
.venv/bin/pip install --quiet -r requirements.txt
touch .venv/built
