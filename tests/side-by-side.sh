#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs test programs side by side: `cargo test` runs one after the other, and most of them wait more than they compute.
#
#   cargo test --workspace --no-run --message-format=json-render-diagnostics | tests/side-by-side.sh JOBS [ARGUMENT...]
#
# Each program runs in its crate's folder, as under cargo, with the arguments; a line says how it ended, and what it
# printed follows if a test failed. JOBS programs run at once, each with as many threads as its harness takes. A program
# that hangs is ended after two hours, and says what it was doing (within.sh). The last line is "N passed, N failed, N
# ignored". It exits with 1 if anything failed.
set -euo pipefail

limit=7200
# The programs that take longest come first, so that none of them is left alone at the end.
first='scenarios conformance structures whole tester rib fuzz'

# Reads cargo's messages; prints a line for each program: its crate's folder, its path.
programs() {
  # The profile's "test": a target has one, too, which says whether it can be tested.
  grep '"reason":"compiler-artifact"' | grep -E '"profile":\{[^}]*"test":true' | grep -v '"executable":null' |
    sed -E 's/.*"manifest_path":"([^"]*)\/Cargo.toml".*"executable":"([^"]*)".*/\1\t\2/'
}

# The programs of `first` before the others.
in_order() {
  awk -F'\t' -v first="$first" 'BEGIN { n = split(first, names, " ") }
    { rank = n + 1; name = $2; sub(/.*\//, "", name); sub(/-[0-9a-f]+$/, "", name)
      for (i = 1; i <= n; i++) if (names[i] == name) rank = i
      print rank "\t" $0 }' | sort -s -n -k1,1 | cut -f2-
}

# run FOLDER PROGRAM ARGUMENT...: runs one program; results are printed in the order in which programs end.
run() {
  local folder=$1 program=$2 name log start=$SECONDS status=0 counts p f i user system took
  shift 2
  name=${program##*/}
  log=$LOGS/$name
  name=${folder#"$TOP"/}:${name%-*}
  TIMEFORMAT='%0U %0S'
  {
    time (cd "$folder" && CARGO_MANIFEST_DIR=$folder "$TOP/tests/within.sh" "$limit" "$program" "$@" >"$log" 2>&1) || status=$?
  } 2>"$log.cpu"
  read -r user system <"$log.cpu"
  counts=$(awk '/^test result: / { p += $4; f += $6; i += $8 } END { print p + 0, f + 0, i + 0 }' "$log")
  read -r p f i <<<"$counts"
  took=$(printf '%5d s %5d s CPU' $((SECONDS - start)) $((user + system)))
  # A program that ended without a result has failed, whatever it counted before.
  if [ "$status" != 0 ] && [ "$f" = 0 ]; then f=1; fi
  {
    flock 9
    printf '%s\n' "$p $f $i" >>"$LOGS/counts"
    if [ "$f" = 0 ]; then
      [ $((p + i)) = 0 ] || printf '%s  %s: %d passed%s\n' "$took" "$name" "$p" "$([ "$i" = 0 ] || printf ', %d ignored' "$i")"
      grep -E '^test .* \.\.\. ignored' "$log" || true
    else
      cat "$log"
      printf '%s  %s: FAILED, %d passed, %d failed, exit status %d\n' "$took" "$name" "$p" "$f" "$status"
    fi
  } 9>"$LOGS/lock"
}

jobs=$1
shift
TOP=$(cd "$(dirname "$0")/.." && pwd)
LOGS=$(mktemp -d)
trap 'rm -rf "$LOGS"' EXIT
export -f run
export LOGS TOP limit
: >"$LOGS/counts"
# shellcheck disable=SC2016 # bash -c expands it
programs | in_order | tr '\t\n' '\0\0' |
  xargs -0 -r -n2 -P "$jobs" bash -c 'arguments=("${@:1:$#-2}"); run "${@: -2}" "${arguments[@]}"' run "$@"
awk '{ p += $1; f += $2; i += $3 } END { printf "%d passed, %d failed, %d ignored\n", p, f, i; exit f > 0 }' "$LOGS/counts"
