#!/bin/sh
# For Jenkins, a hook of git, or any shell: audits a lock, and ends with 1 where it was lost, 2 where too little is known.
# In a Jenkinsfile: sh 'ci/plain.sh "python3 my-lock/driver.py"'; then junit 'locklab-run/junit.xml' and archiveArtifacts 'locklab-run/**'.
# usage: plain.sh LOCK [SUITE]   with `locklab` on the PATH, or LOCKLAB naming it
set -eu
LOCKLAB_SUBJECT=${1:?usage: plain.sh LOCK [SUITE]} LOCKLAB_SUITE=${2:-quick} exec sh "$(dirname "$0")/run-and-gate.sh" locklab-run
