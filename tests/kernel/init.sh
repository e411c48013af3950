#!/bin/busybox sh
# SPDX-License-Identifier: MIT
# shellcheck shell=dash
# The guest's first process, from the initramfs: the machine's root file system by 9p, read-only, under a layer in
# memory that takes what is written; then /job on it. Whatever fails here ends the guest, and its console says where.
set -e
b=/bin/busybox
$b mount -t proc proc /proc
for module in $($b cat /modules); do $b insmod "/$module"; done
$b mount -t tmpfs -o size=50% memory /memory
$b mkdir /memory/upper /memory/work
# Changes by the host while the guest runs do not matter: each page is read once.
$b mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=262144,cache=loose root /lower
$b mount -t overlay -o lowerdir=/lower,upperdir=/memory/upper,workdir=/memory/work overlay /system
$b mount -t devtmpfs dev /system/dev
$b mkdir -p /system/dev/pts /system/dev/shm
$b mount -t devpts -o ptmxmode=666 devpts /system/dev/pts
$b mount -t tmpfs shm /system/dev/shm
$b mount -t proc proc /system/proc
$b mount -t sysfs sys /system/sys
$b mount -t tmpfs -o mode=755 run /system/run
$b cp /job /system/run/job
$b umount /proc
exec $b switch_root /system /bin/bash /run/job
