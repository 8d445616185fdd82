#!/bin/busybox sh
# The guest's first program: puts the root together from what was unpacked and the host's own files, lets udev name the
# drives, runs the script, and switches the guest off. An emulated machine gets the host's folders by 9p. A kernel that runs
# as a program gets them by their names: $unpacked, $kernel, $results; and $drives, the options of its drives in memory.
busybox=/bin/busybox
$busybox mount -t devtmpfs none /dev
$busybox mount -t proc none /proc
$busybox mount -t sysfs none /sys
for module in /modules/*.ko; do $busybox insmod "$module"; done

if [ -n "$results" ]; then
    $busybox mount -t hostfs -o ro,/ none /host
    $busybox mount -t hostfs -o "ro,$unpacked" none /unpacked
    $busybox mount -t hostfs -o "ro,$kernel" none /kernel
    lower=/kernel:/unpacked:/host
else
    shared="trans=virtio,version=9p2000.L,msize=512000"
    $busybox mount -t 9p -o "$shared,ro,cache=loose" host /host
    $busybox mount -t 9p -o "$shared,ro,cache=loose" unpacked /unpacked
    lower=/unpacked:/host
fi
$busybox mount -t tmpfs none /written
$busybox mkdir /written/upper /written/work
$busybox mount -t overlay -o "lowerdir=$lower,upperdir=/written/upper,workdir=/written/work" root /new
for folder in dev proc sys; do
    $busybox mkdir -p /new/$folder
    $busybox mount -o move /$folder /new/$folder
done
for folder in run dev/shm; do
    $busybox mkdir -p /new/$folder
    $busybox mount -t tmpfs none /new/$folder
done
$busybox mkdir -p /new/dev/pts /new/run/results
$busybox mount -t devpts none /new/dev/pts
if [ -n "$results" ]; then $busybox mount -t hostfs -o "$results" none /new/run/results
else $busybox mount -t 9p -o "$shared" results /new/run/results; fi
$busybox mount -t cgroup2 none /new/sys/fs/cgroup

export drives
exec $busybox switch_root /new /bin/sh -c '
    export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root RESULTS=/run/results LC_ALL=C.UTF-8
    /usr/bin/busybox ip link set lo up
    modprobe -q virtio_rng; modprobe -q nvme; modprobe -q dm_mod
    /lib/systemd/systemd-udevd --daemon 2>/dev/null
    [ -z "$drives" ] || { modprobe sd_mod; modprobe scsi_debug $(echo "$drives" | tr , " "); }
    udevadm trigger --action=add --subsystem-match=nvme --subsystem-match=block && udevadm settle
    cd "$RESULTS"
    sh ./command >output 2>&1
    echo $? >exit_code
    sync
    /usr/bin/busybox poweroff -f
'
