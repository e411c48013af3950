#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# run.sh KERNEL COMMAND...: boots the kernel of a folder that fetch.sh made, on this machine's own root file system, and
# runs the command there as it would run here: the same paths, user, folder and programs. Its output and exit status are
# ours. Nothing that it writes stays. A guest that does not boot, panics, hangs or ends without a word is a failure,
# with the end of its console.
#
# KERNEL_ACCEL=kvm or tcg says how; else KVM where a guest comes up by it, and QEMU's own translation (TCG) otherwise.
set -euo pipefail

say() { printf '%s\n' "$*" >&2; }
die() { say "run.sh: $*"; exit 1; }

here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
# Seconds until a guest has to be up, and the longest silence of a guest that is, for a patience of 1: a scenario
# prints at its end only.
BOOT=300 BOOT_KVM=60 SILENCE=1500
# QEMU's translation takes five to ten times as long as the machine itself.
PATIENCE_TCG=4
CORES=2 MEMORY=3072

# The kernel's modules that the root file system needs, and those that they need, in order.
needed_modules() {
  local module
  for module in virtio_pci 9pnet_virtio 9p overlay; do
    PATH=$PATH:/usr/sbin:/sbin modprobe -d "$kernel" -S "$release" --show-depends "$module"
  done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++'
}

# plain FILE: a module as busybox loads it.
plain() {
  case $1 in
    *.xz) xz -dc "$1" ;;
    *.zst) zstd -dcq "$1" ;;
    *.gz) gzip -dc "$1" ;;
    *) cat "$1" ;;
  esac
}

# initramfs FOLDER COMMAND...: made in the folder, written to standard output.
initramfs() {
  local root=$1 modules module name
  shift
  mkdir -p "$root"/{bin,proc,memory,lower,system}
  cp "$(command -v busybox)" "$root/bin/busybox"
  cp "$here/init.sh" "$root/init"
  modules=$(needed_modules)
  for module in $modules; do
    name=$(basename "${module%.ko*}").ko
    plain "$module" >"$root/$name"
    printf '%s\n' "$name" >>"$root/modules"
  done
  job "$@" >"$root/job"
  (cd "$root" && find . | cpio --quiet -o -H newc)
}

# job COMMAND...: the script of the guest's first process once the root file system is there. ttyS1 is the command's
# output, ttyS2 says that the guest is up, and how the command ended.
job() {
  local variable
  cat <<'END'
set -u
stty -F /dev/ttyS1 raw -echo
stty -F /dev/ttyS2 raw -echo
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
END
  printf 'modules=%q release=%q\n' "$kernel/lib/modules/$release" "$release"
  cat <<'END'
mkdir -p "/lib/modules/$release" && mount --bind "$modules" "/lib/modules/$release"
# A kernel loads most modules when they are wanted, but not these for a user who is root in a namespace only.
for module in tun veth vhost-net; do modprobe "$module"; done
ip link set lo up
echo up >/dev/ttyS2
END
  for variable in PATH HOME USER LANG LC_ALL TERM RUST_BACKTRACE CI; do
    [ -z "${!variable:-}" ] || printf 'export %s=%q\n' "$variable" "${!variable}"
  done
  printf 'export PERIGEE_PATIENCE=%q\n' "$patience"
  printf 'cd %q\n' "$PWD"
  printf 'setpriv --reuid %d --regid %d --clear-groups --' "$(id -u)" "$(id -g)"
  printf ' %q' "$@"
  printf ' 2>&1 </dev/null | cat >/dev/ttyS1\n'
  cat <<'END'
echo "ended ${PIPESTATUS[0]}" >/dev/ttyS2
echo o >/proc/sysrq-trigger
# The end comes from outside.
sleep 600
END
}

# start ACCELERATION COMMAND...: the guest, as $qemu.
start() {
  local accel=$1 cpu=max how=tcg,thread=multi file
  shift
  [ "$accel" = tcg ] || { cpu=host how=$accel; }
  patience=${PERIGEE_PATIENCE:-$([ "$accel" = tcg ] && echo $PATIENCE_TCG || echo 1)}
  [[ $patience =~ ^[1-9][0-9]*$ ]] || die "PERIGEE_PATIENCE: found $patience, expected a whole number"
  rm -rf "${scratch:?}"/* # a guest before this one
  # On a busy machine the kernel hears too little of its timer in time, and panics: no_timer_check.
  local line='console=ttyS0 panic=-1 quiet random.trust_cpu=on no_timer_check'
  initramfs "$scratch/root" "$@" >"$scratch/initrd"
  for file in console out status; do : >"$scratch/$file"; done
  # Whatever becomes of this script, the guest ends with it.
  setpriv --pdeathsig KILL qemu-system-x86_64 -accel "$how" -cpu "$cpu" -smp "$CORES" -m "$MEMORY" \
    -nodefaults -display none -no-reboot -kernel "$kernel/vmlinuz" -initrd "$scratch/initrd" -append "$line" \
    -virtfs local,path=/,mount_tag=root,security_model=none,multidevs=remap,readonly=on \
    -serial "file:$scratch/console" -serial "file:$scratch/out" -serial "file:$scratch/status" >"$scratch/qemu" 2>&1 &
  qemu=$!
}

stop() {
  [ -z "$qemu" ] || kill "$qemu" 2>/dev/null || true
  [ -z "$qemu" ] || wait "$qemu" 2>/dev/null || true
  qemu=
}

is_up() { grep -qx up "$scratch/status"; }

# comes_up SECONDS: whether the guest does in that time.
comes_up() {
  local end=$((SECONDS + $1))
  until is_up; do
    kill -0 "$qemu" 2>/dev/null && [ $SECONDS -lt $end ] || return 1
    sleep 0.2
  done
}

# failed SENTENCE: the end, with what the guest's console and QEMU said last.
failed() {
  stop
  say "--- the end of the console of Linux $release"
  tail -n 40 "$scratch/console" | tr -d '\r' >&2
  cat "$scratch/qemu" >&2
  say '---'
  die "Linux $release $*"
}

# Shows what the command prints, until QEMU has ended.
follow() {
  local size last='' since=$SECONDS
  tail -n +1 -f --pid="$qemu" "$scratch/out" &
  while kill -0 "$qemu" 2>/dev/null; do
    size=$(stat -c %s "$scratch/out" "$scratch/console" "$scratch/status")
    [ "$size" = "$last" ] || last=$size since=$SECONDS
    [ $((SECONDS - since)) -lt $((SILENCE * patience)) ] || failed "has been silent for $((SILENCE * patience / 60)) minutes, and was ended"
    sleep 1
  done
  wait $! || true
}

[ $# -ge 2 ] || die 'expected KERNEL COMMAND...'
[ -s "$1/release" ] || die "there is no $1/release: fetch.sh makes it"
case $PWD/ in
  /run/* | /dev/* | /proc/* | /sys/*) die "found the folder $PWD, which is another one in a guest: go somewhere else" ;;
esac
kernel=$(realpath "$1") release=$(cat "$1/release")
shift
scratch=$(mktemp -d) qemu=
trap 'stop; rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

accel=${KERNEL_ACCEL:-}
case $accel in
  kvm | tcg) ;;
  '') if [ -r /dev/kvm ] && [ -w /dev/kvm ]; then accel=kvm; else accel=tcg; fi ;;
  *) die "KERNEL_ACCEL: found $accel, expected kvm or tcg" ;;
esac
start "$accel" "$@"
# What the shell says of a QEMU that aborts is no news.
if [ "$accel" = kvm ] && ! comes_up $BOOT_KVM 2>/dev/null; then
  [ -z "${KERNEL_ACCEL:-}" ] || failed "did not come up by KVM within $BOOT_KVM s"
  say "/dev/kvm is there, but no guest comes up by it: QEMU translates"
  stop
  accel=tcg
  start tcg "$@"
fi
comes_up $BOOT || failed "did not come up: it has ended, or takes longer than $((BOOT / 60)) minutes"
say "Linux $release is up after $SECONDS s, by $accel"
follow
status=$(sed -n 's/^ended \([0-9]\{1,3\}\)$/\1/p' "$scratch/status")
[ -n "$status" ] || failed 'has ended without a word of how its command did'
exit "$status"
