#!/bin/sh
# Make the pictures of simulated reports in docs/pictures anew: tools/make-pictures.sh
# Simulated runs depend on nothing but spec and version, so the same pictures come of it on any machine; some minutes.
set -eu
cd "$(dirname "$0")/.."
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
mkdir -p docs/pictures

# picture EXPERIMENT CHART NAME: the chart of that experiment's report as docs/pictures/NAME.png
picture() {
    if [ ! -d "$results/$1" ]; then
        .venv/bin/storagelab run "experiments/$1.toml" --results "$results" > /dev/null
        .venv/bin/storagelab report "$1" --results "$results" --format png > /dev/null
    fi
    cp "$results/$1/charts/$2.png" "docs/pictures/$3.png"
}

picture reads-join-in waits reads-join-in-waits
picture reads-join-in speed-ups reads-join-in-speed-up
picture cores-and-data-files cells cores-and-data-files
