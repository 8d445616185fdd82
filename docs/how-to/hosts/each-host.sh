#!/bin/sh
# Measures one spec on several hosts at the same time, and gathers their campaigns into one:
#   sh each-host.sh files.toml db1 db2 db3
# Each host needs storagelab on its PATH, and a login by SSH without a password. Relative paths of volumes start at ~/lab there.
set -eu
spec=$1
shift
name=$(sed -n 's/^name *= *"\(.*\)"/\1/p' "$spec" | head -n 1)
seed=0 pids='' folders=''
for host; do
    at=lab
    seed=$((seed + 1)) # another order of runs on each host
    ssh "$host" mkdir -p $at
    { echo "seed = $seed"; sed '/^seed *=/d' "$spec"; } | ssh "$host" "cat > $at/$name.toml"
    ssh "$host" "cd $at && STORAGELAB_HOST=$host storagelab run $name.toml" >"$host.log" 2>&1 </dev/null &
    pids="$pids $!" folders="$folders $host/$name"
done
failed=0
for pid in $pids; do wait "$pid" || failed=1; done
if [ "$failed" = 1 ]; then
    echo "a host failed: see the .log of each, then run this again: every host goes on where it stopped" >&2
    exit 1
fi
for host; do
    at=lab
    mkdir -p "$host"
    scp -qr "$host:$at/results/$name" "$host/"
done
# shellcheck disable=SC2086 # one word for each folder
storagelab gather $folders --results gathered
