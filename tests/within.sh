#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# within.sh SECONDS PROGRAM ARGS...: cargo's runner for test programs. One that has not ended by then is ended, and what
# it was doing is said: its threads, which the test harness names after tests (the first 15 letters), the scenarios that
# it runs, and its other children.
set -uo pipefail

# report PROCESS: what it was doing.
report() {
  local task child name
  printf '%s has not ended after %s s and is ended now; it is at work in\n' "$program" "$limit"
  for task in /proc/"$1"/task/*; do
    name=$(cat "$task/comm" 2>/dev/null) || continue
    printf '  thread %s, waiting in %s\n' "$name" "$(cat "$task/wchan" 2>/dev/null || true)"
    for child in $(cat "$task/children" 2>/dev/null); do
      name=$(tr '\0' '\n' <"/proc/$child/environ" 2>/dev/null | sed -n 's/^PERIGEE_SCENARIO=//p')
      printf '  process %s: %s%s\n' "$child" "${name:+scenario $name, }" "$(tr '\0' ' ' <"/proc/$child/cmdline" 2>/dev/null)"
    done
  done
}

limit=$1 program=$2
shift
# A process group for each program: it is ended with all that it has started, as by timeout(1).
set -m
"$@" <&0 &
test=$!
{
  trap 'kill %% 2>/dev/null; exit' TERM
  sleep "$limit" &
  wait $!
  report "$test"
  kill -TERM -- "-$test"
  sleep 10
  kill -KILL -- "-$test"
} >&2 2>/dev/null &
watch=$!
trap 'kill -INT -- "-$test"' INT
trap 'kill -TERM -- "-$test"' TERM HUP
# Once more where a signal has ended the wait and not the program.
while :; do
  # -f: for its end, not for a stop.
  wait -f "$test" 2>/dev/null
  code=$?
  kill -0 "$test" 2>/dev/null || break
done
kill -TERM -- "-$watch" 2>/dev/null
exit "$code"
