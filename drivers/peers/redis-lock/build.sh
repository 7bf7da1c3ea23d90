#!/bin/sh
# Builds this driver with the others of its shelf.
exec sh "$(dirname "$0")/../rust-shelf/build.sh"
