#!/bin/sh
# Pin every package, with hashes, for Python 3.11 and later on every platform: tools/lock.sh [--upgrade]
# The locks name no index, so that they install from whichever one a machine is set up for.
set -eu
command -v uv >/dev/null || {
    echo "make lock needs uv on the PATH: python3 -m pip install uv" >&2
    exit 2
}
pin() {
    uv pip compile --quiet --no-config --universal --python-version 3.11 --fork-strategy fewest --generate-hashes \
        --no-emit-index-url --no-emit-find-links --no-annotate --custom-compile-command "make lock" "$@"
}
pin "$@" pyproject.toml requirements.in --output-file requirements.lock
pin "$@" pyproject.toml --extra cluster --constraint requirements.lock --output-file requirements-cluster.lock
pin "$@" pyproject.toml requirements.in requirements-dev.in --constraint requirements.lock --constraint requirements-cluster.lock \
    --output-file requirements-dev.lock
pin "$@" requirements-release.in --constraint requirements-dev.lock --output-file requirements-release.lock
if grep -nE 'https?://' requirements*.lock; then
    echo "the locks name a host: see above" >&2
    exit 1
fi
