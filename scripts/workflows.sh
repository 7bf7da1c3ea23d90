#!/bin/sh
# Checks the workflows, ours and the example for other people's, by actionlint: one that is on the PATH, else one that Go builds. Says SKIPPED
# without either.
set -eu
cd "$(dirname "$0")/.."
version=v1.7.12
if command -v actionlint >/dev/null 2>&1; then
    lint=actionlint
elif command -v go >/dev/null 2>&1; then
    lint=$(go env GOPATH)/bin/actionlint
    [ -x "$lint" ] || go install "github.com/rhysd/actionlint/cmd/actionlint@$version" >/dev/null 2>&1 || lint=''
else
    lint=''
fi
if [ -z "$lint" ]; then
    echo 'SKIPPED the workflows: neither actionlint nor Go, which builds it, is here'
    exit 0
fi
"$lint" .github/workflows/*.yml ci/github-pull-request.yml
# What a tag names may change: an action is named by its commit.
if grep -nE 'uses: [^#]*@v?[0-9.]+ *$' .github/workflows/*.yml action.yml ci/github-pull-request.yml | grep -v 'my-group/locklab'; then
    echo 'workflows: the actions above are not pinned to a commit' >&2
    exit 1
fi
