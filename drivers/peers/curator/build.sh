#!/bin/sh
# Fetches the pinned library (pom.xml) and builds the driver into build/.
exec sh "$(dirname "$0")/../maven.sh" "$(dirname "$0")"
