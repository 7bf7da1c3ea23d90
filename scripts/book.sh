#!/bin/sh
# Builds the book into docs/book where mdbook is installed; says how to install it where it is not. Links are checked by `xtask tidy`.
set -eu
cd "$(dirname "$0")/.."
if ! command -v mdbook >/dev/null 2>&1; then
    echo 'book: left out, mdbook is missing (cargo install --locked mdbook)'
    exit 0
fi
mdbook build docs
# An include whose file is missing stays in the page as it is written.
if grep -rl '{{#include' docs/book --include='*.html'; then
    echo 'book: the pages above include files that are not there' >&2
    exit 1
fi
echo 'book: docs/book/index.html'
