#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# ./x try-in SUITE [COMMAND]: runs README's commands, or COMMAND, in a bare root of another release of Debian or Ubuntu.
# The root is made by debootstrap in target/roots/SUITE and kept. Its tree is this checkout's files, without its build.
# README.md says how it works and what is not isolated.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
roots=$(realpath -m "${CARGO_TARGET_DIR:-$top/target}")/roots

say() { printf '%s\n' "$*" >&2; }
die() { say "try-in: $*"; exit 1; }

help() {
  cat <<'HELP'
./x try-in SUITE [COMMAND]   COMMAND, by default each of README's: ./x demo, ./x demo --bgp, ./x test
  SUITE     bookworm, trixie, testing, another release of Debian's, or noble and newer of Ubuntu's
  --list    the roots there are
  --fresh   makes the root again first; without it, packages and builds of earlier runs are kept
  --expired accepts a mirror whose lists are past their date, as a snapshot's are
  --user    runs COMMAND as an ordinary user instead of root
  --offline COMMAND has no network, so that what it downloads is seen
HELP
}

# Where packages of a suite come from, in three lines: mirror, components, keyring. Mirrors are this machine's own where
# it has them.
source_of() {
  local suite=$1 keyrings=/usr/share/keyrings
  case $suite in
    noble | oracular | plucky | questing | resolute)
      printf '%s\n' "${TRY_IN_UBUNTU:-http://archive.ubuntu.com/ubuntu}" 'main,universe' "$keyrings/ubuntu-archive-keyring.gpg" ;;
    *) printf '%s\n' "${TRY_IN_DEBIAN:-http://deb.debian.org/debian}" 'main' "$keyrings/debian-archive-keyring.gpg" ;;
  esac
}

# Debian 12 has no keys of Ubuntu's; Debian 13 has them in a package, whose signature apt checks in its root.
ubuntu_keyring() {
  local key=/usr/share/keyrings/ubuntu-archive-keyring.gpg
  [ ! -e "$key" ] || { echo "$key"; return; }
  if [ ! -e "$roots/trixie$key" ]; then
    make_root trixie
    chroot "$roots/trixie" sh -c 'apt-get -q update && apt-get -qy install --no-install-recommends ubuntu-keyring' >&2
  fi
  echo "$roots/trixie$key"
}

# make_root SUITE: the smallest root that apt works in, unless it is there.
make_root() {
  local suite=$1 root=$roots/$1 mirror components keyring script=() known=/usr/share/debootstrap/scripts
  [ ! -e "$root/.perigee-root" ] || return 0
  command -v debootstrap >/dev/null || die 'there is no debootstrap: apt-get install debootstrap'
  { read -r mirror; read -r components; read -r keyring; } < <(source_of "$suite")
  case $keyring in *ubuntu*) keyring=$(ubuntu_keyring) ;; esac
  [ -e "$keyring" ] || die "found no $keyring, which the packages of $suite are checked with: install the package that has it"
  # A debootstrap that is older than the suite: all of Ubuntu's since gutsy, and Debian's since sid, are made alike.
  [ -e "$known/$suite" ] || case $components in *universe*) script=("$known/gutsy") ;; *) script=("$known/sid") ;; esac
  say "== Making a root of $suite in $root, once"
  rm -rf --one-file-system "$root"
  mkdir -p "$roots"
  debootstrap --variant=minbase --components="$components" --keyring="$keyring" "$suite" "$root" "$mirror" "${script[@]}" \
    >"$root.log" 2>&1 || { tail -20 "$root.log" >&2; die "debootstrap failed: $root.log"; }
  trust "$root"
  touch "$root/.perigee-root"
}

# Certificates that this machine trusts beyond its distribution's, as behind a proxy of a company's.
trust() {
  local root=$1 certificate
  for certificate in /usr/local/share/ca-certificates/*.crt; do
    [ -e "$certificate" ] || continue
    mkdir -p "$root/usr/local/share/ca-certificates"
    cp "$certificate" "$root/usr/local/share/ca-certificates/"
  done
}

# The checkout's files as they stand, committed or not; what was built in the root stays.
copy_tree() {
  local to=$1
  mkdir -p "$to"
  find "$to" -mindepth 1 -maxdepth 1 ! -name target -exec rm -rf --one-file-system {} +
  (cd "$top" && git ls-files -coz --exclude-standard | tar --null --ignore-failed-read -cf - -T -) | tar -C "$to" -xf -
  # `./x check` lists files by git.
  git -C "$to" -c init.defaultBranch=main init -q
  git -C "$to" add -A
}

# Mounts, in a namespace of mounts that ends with us, what a machine has beneath its root, and goes there. A plain
# chroot would not do: the kernel refuses user namespaces in one.
enter() {
  local root=$1 user=$2 command=$3 cargo=${CARGO_HOME:-$HOME/.cargo} rustup=${RUSTUP_HOME:-$HOME/.rustup} node home=/root
  mount --make-rprivate /
  mount --bind "$root" "$root"
  mkdir -p "$root/perigee" "$root/.outside"
  mount -t proc proc "$root/proc"
  mount -t sysfs sysfs "$root/sys"
  mount -t tmpfs -o mode=755 tmpfs "$root/dev"
  mkdir -p "$root/dev/pts" "$root/dev/shm" "$root/dev/net"
  mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts "$root/dev/pts"
  mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
  ln -s pts/ptmx "$root/dev/ptmx"
  ln -s /proc/self/fd "$root/dev/fd"
  for node in null zero full random urandom tty net/tun kvm; do
    [ ! -e "/dev/$node" ] || { touch "$root/dev/$node"; mount --bind "/dev/$node" "$root/dev/$node"; }
  done
  mount -t tmpfs -o mode=755 tmpfs "$root/run"
  mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
  cp --remove-destination -L /etc/resolv.conf "$root/etc/resolv.conf"
  cp /etc/hosts "$root/etc/hosts"
  [ "$user" = root ] || home=/home/$user
  # The toolchain is the user's to install, and is this machine's here; crates are downloaded once for all roots.
  mkdir -p "$root$home/.rustup" "$root$home/.cargo"
  [ ! -d "$rustup" ] || mount --bind -o ro "$rustup" "$root$home/.rustup"
  [ ! -d "$cargo" ] || mount --bind "$cargo" "$root$home/.cargo"
  cd "$root"
  pivot_root . .outside
  umount -l /.outside
  rmdir /.outside 2>/dev/null || true
  cd /perigee
  # Nothing of this machine's environment but what says how the network is reached.
  set -- env -i HOME="$home" USER="$user" PATH="$home/.cargo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" TERM="${TERM:-dumb}" \
    LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive ${CI:+CI="$CI"} ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
    bash -c "$command"
  if [ "$user" = root ]; then exec "$@"; else exec setpriv --reuid "$user" --regid "$user" --init-groups "$@"; fi
}

# timed COMMAND...: each in turn, and a table of what they took. Stops at the first that fails.
timed() {
  local command status=0 start table=
  for command in "$@"; do
    start=$SECONDS
    printf '\n== %s\n' "$command"
    bash -c "$command" || status=$?
    table+=$(printf '%6d s  %-6s  %s' $((SECONDS - start)) "$([ $status = 0 ] && echo ok || echo FAILED)" "$command")$'\n'
    [ $status = 0 ] || break
  done
  printf '\n%s: %s, %s cores\n%s' "$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release)" "$(uname -r)" "$(nproc)" "$table"
  return $status
}

suite='' user=root fresh='' offline='' expired='' commands=()
while [ $# -gt 0 ]; do
  case $1 in
    --list) ls -d "$roots"/*/ 2>/dev/null || say 'none'; exit ;;
    --fresh) fresh=yes ;;
    --expired) expired=yes ;;
    --user) user=student ;;
    --offline) offline=--net ;;
    -h | --help) help; exit ;;
    --enter) shift; enter "$@" ;;
    -*) die "found the option $1, expected one that --help names" ;;
    *) suite=$1; shift; commands=("$@"); break ;;
  esac
  shift
done
[ -n "$suite" ] || { help >&2; exit 1; }
[[ $suite =~ ^[a-z]+$ ]] || die "found the suite $suite, expected a name such as trixie"
[ ${#commands[@]} -eq 0 ] || commands=("${commands[*]}")
[ ${#commands[@]} -gt 0 ] || commands=('./x demo' './x demo --bgp' './x test')
[ "$(id -u)" = 0 ] || die "a root is made and entered by root: sudo ./x try-in $suite"
root=$roots/$suite
[ -z "$fresh" ] || rm -rf --one-file-system "$root"
make_root "$suite"
[ -z "$expired" ] || echo 'Acquire::Check-Valid-Until "false";' >"$root/etc/apt/apt.conf.d/99expired"
copy_tree "$root/perigee"
# What a fresh machine has, and README asks for: packages' lists, and certificates for whoever installs Rust.
prepare='[ -e /.perigee-prepared ] || { apt-get -q update && apt-get -qy install --no-install-recommends ca-certificates git &&
  touch /.perigee-prepared; } >/dev/null'
unshare --mount --pid --fork --kill-child "$0" --enter "$root" root "$prepare" || die "apt-get failed in $root"
if [ "$user" != root ]; then
  chroot "$root" sh -c "id $user >/dev/null 2>&1 || useradd --create-home --shell /bin/bash $user; chown -R $user /perigee"
fi
# shellcheck disable=SC2086 # no option is no word
exec unshare --mount --pid --fork --kill-child $offline "$0" --enter "$root" "$user" \
  "$(declare -f timed); timed $(printf '%q ' "${commands[@]}")"
