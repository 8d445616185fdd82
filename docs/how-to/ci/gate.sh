#!/bin/sh
# A gate for CI: gate.sh BASE.toml CHANGE.toml [MARGIN]
# Runs both specs in turns on this machine, and writes the answer with a picture into gate.md.
# Ends with 0 if the change is surely not slower by more than MARGIN (default 5%), 1 if it surely is, 3 if the runs can't tell,
# 2 if something is wrong with a spec or the machine, and 4 if a run failed.
set -u
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
storagelab run "$1" --against "$2" --results "$results"
code=$?
case $code in
    0) ;;
    1) exit 4 ;;
    *) exit $code ;;
esac
name=$(ls "$results")
storagelab compare "$name" c01 c02 --results "$results" --fail-if-slower "${3:-5%}" --format md --output gate.md
code=$?
storagelab export "$name" --results "$results" --output gate.json
cat gate.md
exit $code
