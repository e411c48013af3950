#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# fetch.sh VERSION FOLDER: one of Debian's kernels, as FOLDER/vmlinuz, FOLDER/release (its full name) and
# FOLDER/lib/modules, with no trace elsewhere. apt gets it, from the mirror that the machine uses if that one is
# Debian's, and checks the signatures; lists and settings are private to the folder, so that this takes no root and
# works on Ubuntu, too.
set -euo pipefail

die() { printf 'fetch.sh: %s\n' "$*" >&2; exit 1; }

KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

# What the guest has no use for is most of what there is: devices.
UNUSED='gpu media sound staging infiniband iio usb scsi hwmon input hid ata md mtd mmc bluetooth nvme firmware
  platform thunderbolt isdn i2c video comedi accel crypto power edac pinctrl gpio leds rtc watchdog target
  message misc net/ethernet net/wireless net/can net/usb net/wwan net/ieee802154 net/arcnet net/fddi
  net/hamradio'

# suite_of VERSION: where Debian has it.
suite_of() {
  case $1 in
    5.10) echo bullseye ;;
    6.1) echo bookworm ;;
    6.12) echo trixie ;;
    testing) echo testing ;;
    *) die "found the kernel $1, expected 5.10, 6.1, 6.12 or testing" ;;
  esac
}

# The machine's mirror of Debian, as apt knows it, or the one that all know.
mirror() {
  local uri
  # shellcheck disable=SC2016 # apt fills this in
  uri=$(apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Identifier: Packages' 2>/dev/null |
    sed -n 's/^Debian Debian //p' | head -1)
  printf '%s\n' "${uri:-http://deb.debian.org/debian}"
}

# private SUITE FOLDER: apt's settings for it, in a file that apt reads after its own. Who acquires what, and by which
# proxy, stays.
private() {
  mkdir -p "$2/lists/partial" "$2/cache/archives/partial" "$2/parts"
  : >"$2/status"
  printf 'deb [arch=amd64 signed-by=%s] %s %s main\n' "$KEYRING" "$(mirror)" "$1" >"$2/sources.list"
  cat >"$2/apt.conf" <<END
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Post-Invoke;
APT::Architecture "amd64";
APT::Architectures { "amd64"; };
APT::Sandbox::User "";
Acquire::Languages "none";
Dir::Etc::SourceList "$2/sources.list";
Dir::Etc::SourceParts "$2/parts";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "$2/parts";
Dir::State::Lists "$2/lists";
Dir::State::Status "$2/status";
Dir::Cache "$2/cache";
END
}

# What linux-image-amd64 stands for: the image, and its modules where they are a package of their own.
packages() {
  apt-cache -c "$1/apt.conf" depends --recurse --important linux-image-amd64 |
    grep -xE 'linux-(image|binary|modules|base)-[0-9][^ ]*' | sort -u
}

# unpack PACKAGE FOLDER: its kernel and modules.
unpack() {
  local folder exclude=()
  for folder in $UNUSED; do exclude+=(--exclude="*/kernel/drivers/$folder"); done
  dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" --exclude='*/kernel/sound' --exclude=./usr/share "${exclude[@]}"
}

fetch() {
  local version=$1 to=$2 suite apt new package release
  suite=$(suite_of "$version")
  command -v apt-get >/dev/null || die "there is no apt-get, by which Debian's kernels come"
  [ -e "$KEYRING" ] || die "there is no $KEYRING, by which kernels are checked: apt-get install debian-archive-keyring"
  # An interrupted run may have left one.
  rm -rf "$to.new"
  mkdir -p "$to.new"
  new=$(realpath "$to.new") apt=$new/apt
  private "$suite" "$apt"
  apt-get -c "$apt/apt.conf" -qq update || die "no list of Debian's $suite; apt's message is above"
  for package in $(packages "$apt"); do
    printf '== Fetching %s of Debian %s, once\n' "$package" "$suite" >&2
    (cd "$apt" && apt-get -c apt.conf -qq download "$package") || die "no $package; apt's message is above"
  done
  for package in "$apt"/*.deb; do
    [ -e "$package" ] || die "Debian's $suite has no linux-image-amd64"
    unpack "$package" "$new"
  done
  # Since Debian 13 all of it is below /usr, and in later ones the kernel itself is in the folder of its modules.
  [ -d "$new/lib/modules" ] || { mkdir -p "$new/lib" && mv "$new/usr/lib/modules" "$new/lib/modules"; }
  mkdir -p "$new/usr" && rm -rf "$new/usr/lib" && ln -s ../lib "$new/usr/lib"
  release=$(basename "$new"/lib/modules/*)
  PATH=$PATH:/usr/sbin:/sbin depmod -b "$new" "$release"
  mv "$new/boot/vmlinuz-$release" "$new/vmlinuz" 2>/dev/null || mv "$new/lib/modules/$release/vmlinuz" "$new/vmlinuz"
  printf '%s\n' "$release" >"$new/release"
  rm -rf "$apt" "${new:?}/boot" "$to"
  mv "$new" "$to"
}

[ $# = 2 ] || die 'expected VERSION FOLDER'
fetch "$@"
