#!/bin/sh
# Builds the drivers of other libraries (drivers/peers/) whose language is on this machine, and says what the others need.
# Exits with 69 where none could be built, with 1 where one failed to build.
set -u
cd "$(dirname "$0")/../drivers/peers"

built='' left='' failed=''
for build in */build.sh; do
    name=${build%/build.sh}
    echo "== $name"
    sh "$build"
    case $? in
    0) built="$built $name" ;;
    69) left="$left $name" ;;
    *) failed="$failed $name" ;;
    esac
done
echo "built:${built:- none}; left out:${left:- none}; failed:${failed:- none}"
if [ -n "$failed" ]; then
    exit 1
fi
if [ -z "$built" ]; then
    exit 69
fi
