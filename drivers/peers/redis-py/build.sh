#!/bin/sh
# Builds this peer: an environment of its own with the versions of requirements.txt.
set -eu
cd "$(dirname "$0")"
python3 -m venv .venv
.venv/bin/pip install --quiet -r requirements.txt
