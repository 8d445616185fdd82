#!/bin/sh
# A gate for CI: gate.sh BASE.toml CHANGE.toml [MARGIN]
# Runs both specs in turns on this machine, and writes the answer with a picture into gate.md.
# Ends with 0 if the change is surely not slower by more than MARGIN (default 5%) in any layout, 1 if it surely is in one, 3 if
# the runs can't tell, 2 if something is wrong with a spec or the machine, 4 if a run failed, 70 for an error of storagelab's own.
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
# Each layout of the change against the same layout of the base: chosen by the spec that they come from, not by number.
storagelab compare "$name" --by spec --results "$results" --fail-if-slower "${3:-5%}" --format md --output gate.md
code=$?
storagelab export "$name" --results "$results" --output gate.json
cat gate.md
exit $code
