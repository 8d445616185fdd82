#!/bin/sh
# What the tests need beyond Python packages: a browser for the report, the system's PostgreSQL as a third server to
# measure, MariaDB's server with its client, fio for raw I/O, sysbench, a pooler (pgbouncer), an SSH server, the programs that make XFS and
# btrfs, and QEMU for a guest with throw-away drives. They come from Debian's own packages, where this may install them.
# Where it may not, the tests that need them are skipped and say so: nothing here ever fails a build.
set -u
cd "$(dirname "$0")/.."

postgres_is_here() {
    for initdb in /usr/lib/postgresql/*/bin/initdb; do
        [ -x "$initdb" ] && return 0
    done
    return 1
}

browser_is_here() {
    command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null
}

mariadb_is_here() {
    for program in mariadbd mariadb-install-db mariadb; do
        PATH="$PATH:/usr/sbin" command -v "$program" >/dev/null || return 1
    done
}

wanted=
browser_is_here || wanted="chromium"
postgres_is_here || wanted="${wanted:+$wanted }postgresql"
# Of MariaDB the -core packages: they bring the programs alone, no account and nothing that starts.
command -v fio >/dev/null || wanted="${wanted:+$wanted }fio"
mariadb_is_here || wanted="${wanted:+$wanted }mariadb-server-core mariadb-client-core"
PATH="$PATH:/usr/sbin" command -v pgbouncer >/dev/null || wanted="${wanted:+$wanted }pgbouncer"
command -v sysbench >/dev/null || wanted="${wanted:+$wanted }sysbench"
PATH="$PATH:/usr/sbin" command -v sshd >/dev/null || wanted="${wanted:+$wanted }openssh-server"
PATH="$PATH:/usr/sbin" command -v mkfs.xfs >/dev/null || wanted="${wanted:+$wanted }xfsprogs"
PATH="$PATH:/usr/sbin" command -v mkfs.btrfs >/dev/null || wanted="${wanted:+$wanted }btrfs-progs"
command -v qemu-system-x86_64 >/dev/null || wanted="${wanted:+$wanted }qemu-system-x86"

# The guests' kernels and what they need for RAID, LVM and encryption are unpacked into build/guest, not installed.
unpack_the_guest() {
    ! command -v apt-get >/dev/null || .venv/bin/python -m bench.guest
    exit 0
}
[ -n "$wanted" ] || unpack_the_guest

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "note: not installed: $wanted. The tests that need them will be skipped (with apt-get: apt-get install $wanted)."
    exit 0
fi

# Debian's package makes a cluster and starts it. storagelab starts servers of its own, so no cluster is wanted: this
# setting is read by the package's installer, and is left alone where someone has chosen it already.
no_cluster() {
    settings=/etc/postgresql-common/createcluster.conf
    if ! grep -qsE '^[[:space:]]*create_main_cluster' "$settings"; then
        mkdir -p "${settings%/*}" && echo "create_main_cluster = false" >>"$settings"
    fi
}

# Debian's package starts an SSH server for the whole network. Tests start one of their own at 127.0.0.1, so none is wanted:
# this file says so to systemd and init, and is left out where there was a server before.
no_ssh_server() {
    mkdir -p /etc/ssh && touch /etc/ssh/sshd_not_to_be_run
}

install() {
    DEBIAN_FRONTEND=noninteractive UCF_FORCE_CONFFOLD=1 apt-get install -y -qq --no-install-recommends \
        -o Dpkg::Options::=--force-confold "$1" >"$log" 2>&1
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "installing what the tests need from the system's packages: $wanted ..."
apt-get update -qq >"$log" 2>&1 || echo "note: apt-get update failed; trying with the package lists at hand."
for package in $wanted; do
    if [ "$package" = postgresql ]; then
        no_cluster
        # The server alone, without the metapackage: 15 in Debian 12, another version elsewhere.
        ! apt-cache show postgresql-15 >/dev/null 2>&1 || package=postgresql-15
    fi
    [ "$package" != openssh-server ] || no_ssh_server
    if ! install "$package"; then
        echo "note: $package could not be installed; the tests that need it will be skipped. The last lines of apt-get:"
        tail -n 3 "$log" | sed 's/^/  /'
    fi
done
unpack_the_guest
