#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# under-load.sh FOLDER [N] [WORDS]: the scenarios N times (10) beside busy loops, two for each core, and N times on one
# core alone. WORDS are those of the scenarios' runner, such as a part of names. FOLDER gets the log of each run, and
# the table that is printed. Ends with 1 if a scenario has failed. ./x test --under-load builds perigee, and then calls
# this.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$1 times=10
shift
case ${1:-} in
  '' | *[!0-9]*) ;;
  0) printf 'under-load: found 0 times, expected 1 or more\n' >&2; exit 2 ;;
  *) times=$1; shift ;;
esac

# The runner of the scenarios, as cargo names it.
program=$(cargo test -p perigee-tests --test scenarios --no-run 2>&1 | tee >(cat >&2) | sed -n 's/^ *Executable .*(\(.*\))$/\1/p')
[ -x "$program" ] || { printf 'under-load: found no program of the scenarios; cargo says above why\n' >&2; exit 2; }
mkdir -p "$folder"
rm -f "$folder"/*.log "$folder/table.txt"

loops=() running=
# Ends what this script has started, by number.
end() {
  [ -z "$running" ] || kill -TERM "$running" 2>/dev/null || true
  [ ${#loops[@]} = 0 ] || kill "${loops[@]}" 2>/dev/null || true
  loops=() running=
}
trap end EXIT
trap 'exit 130' INT TERM

# busy: two loops for each core that this process may use.
busy() {
  local n
  for ((n = 2 * $(nproc); n > 0; n--)); do
    while :; do :; done &
    loops+=($!)
  done
}

# run NAME COMMAND...: runs it with its log kept, and says how it went.
run() {
  local log=$folder/$1.log start=$SECONDS
  shift
  tests/within.sh 7200 "$@" >"$log" 2>&1 &
  running=$!
  wait "$running" || true
  running=
  printf '%s: %s, %d s\n' "$(basename "$log" .log)" "$(sed -n 's/^test result: //p' "$log" | grep . || echo 'it did not come to its end')" \
    $((SECONDS - start))
}

busy
for ((i = 1; i <= times; i++)); do run "busy-$i" "$program" "$@"; done
end
core=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
for ((i = 1; i <= times; i++)); do run "one-core-$i" taskset -c "$core" "$program" "$@"; done

# A row for each scenario that has failed, with the runs in which it has; runs that ended early are a row, too.
awk '
  FNR == 1 { runs++; run = FILENAME; sub(".*/", "", run) }
  /^test .* \.\.\. +(ok|FAILED|ignored)/ {
    name = $2; seen[name]++
    if ($0 ~ /FAILED$/) { failed[name]++; where[name] = where[name] " " run }
    if ($0 ~ /ignored/) ignored[name] = 1
  }
  /^test result: / { ended[run] = 1 }
  END {
    for (name in seen) scenarios++
    for (name in ignored) left_out++
    printf "%d scenarios, %d of them ignored, in %d runs\n", scenarios, left_out, runs
    printf "%-70s %5s %8s  %s\n", "scenario", "runs", "failures", "logs"
    for (name in failed) { bad = 1; printf "%-70s %5d %8d %s\n", name, seen[name], failed[name], where[name] | "sort"; }
    close("sort")
    for (i = 1; i < ARGC; i++) {
      run = ARGV[i]; sub(".*/", "", run)
      if (!(run in ended)) { bad = 1; printf "%-70s %5d %8d  %s\n", "a run that did not come to its end", 1, 1, run }
    }
    if (!bad) print "no failure"
    exit bad || scenarios == 0
  }
' "$folder"/*.log >"$folder/table.txt" && status=0 || status=1
cat "$folder/table.txt"
printf 'logs: %s\n' "$folder"
exit "$status"
