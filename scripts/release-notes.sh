#!/bin/sh
# Prints what CHANGELOG.md says of a version: release-notes.sh VERSION. Exits with 65 where it says nothing.
set -eu
version=${1:?say: release-notes.sh VERSION}
notes=$(awk -v head="## $version" 'index($0, "## ") == 1 { inside = ($0 == head || index($0, head " ") == 1); next } inside' "$(dirname "$0")/../CHANGELOG.md")
if [ -z "$notes" ]; then
    echo "release-notes: CHANGELOG.md has no section \"## $version\"" >&2
    exit 65
fi
printf '%s\n' "$notes"
