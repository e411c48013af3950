#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# test.sh PROGRAM FOLDER VERSION [NAME...]: scenarios, of the program that cargo built for them, on one of Debian's
# kernels, which is kept in FOLDER/VERSION. Without a name: those of `row`, which depend on the kernel; else those with
# one of the names in theirs.
set -euo pipefail

die() { printf 'test.sh: %s\n' "$*" >&2; exit 1; }

[ $# -ge 3 ] || die 'expected PROGRAM FOLDER VERSION'
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
program=$1 folder=$2 version=$3
shift 3
# What the runner of scenarios would only ignore.
for name in "$@"; do
  [ -n "$("$program" --list "$name")" ] || die "no scenario has $name in its name"
done
if [ $# = 0 ]; then
  readarray -t names < <(sed 's/ *#.*//; /^$/d' "$here/row")
  set -- "${names[@]}"
fi
[ -e "$folder/$version/release" ] || "$here/fetch.sh" "$version" "$folder/$version"
# The runner takes one name; each run ends with a line of results.
# shellcheck disable=SC2016 # expanded in the guest
all='status=0; for name; do "$0" "$name" || status=1; done; exit $status'
exec "$here/run.sh" "$folder/$version" bash -c "$all" "$program" "$@"
