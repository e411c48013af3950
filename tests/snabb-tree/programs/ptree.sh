# SPDX-License-Identifier: MIT
# A tree of processes for a schema of our own: workers come and go as its configuration changes, their counters are recorded, and
# `rrdcat` reads what was recorded.
cat >"$WORK/count-v1.yang" <<'Y'
module count-v1 {
  namespace snabb:count-v1;
  prefix count-v1;
  container count {
    leaf workers { type uint8; default 1; }
    leaf size { type uint16; default 60; }
  }
}
Y
cat >"$WORK/setup.lua" <<'L'
return function (conf)
   local workers = {}
   for i = 1, conf.count.workers do
      local c = require("core.config").new()
      local basic = require("apps.basic.basic_apps")
      require("core.config").app(c, "source", basic.Source, conf.count.size)
      require("core.config").app(c, "sink", basic.Sink)
      require("core.config").link(c, "source.output -> sink.input")
      workers[i] = c
   end
   return workers
end
L
echo "count { workers 2; size 100; }" >"$WORK/count.conf"
$SNABB ptree --name counting -D 120 "$WORK/count-v1.yang" "$WORK/setup.lua" "$WORK/count.conf" &
tree=$!
workers() { # how many running processes share the group of the tree's first one
  local n=0 link pid
  for link in "$SNABB_SHM_ROOT"/*/group; do
    [ -L "$link" ] || continue
    pid=$(basename "$(dirname "$link")")
    [ "$(realpath -m "$link")" != "$SNABB_SHM_ROOT/$tree/group" ] || [ ! -d /proc/$pid ] || n=$((n + 1))
  done
  echo $n
}
until_workers() {
  for try in $(seq 400); do [ "$(workers)" != "$1" ] || return 0; sleep 0.1; done
  echo "expected $1 workers, found $(workers)"
  return 1
}
until_workers 2
[ "$($SNABB config get counting /count/size)" = 100 ]
$SNABB config set counting /count/workers 3
until_workers 3
$SNABB config set counting /count/workers 1
until_workers 1
# Sums over its workers are the tree's own.
recorded=$SNABB_SHM_ROOT/$tree/engine/breaths.rrd
until $SNABB rrdcat --interval 2 "$recorded" | tee "$WORK/out" | grep -q 'avg:[0-9]'; do
  [ $SECONDS -lt 90 ] || { echo 'no breaths were recorded'; exit 1; }
  sleep 0.5
done
grep -m1 "avg:[0-9]" "$WORK/out"
$SNABB rrdcat --list-contents "$recorded" | grep -q 'value (type: counter'
kill $tree
status=0
wait $tree || status=$?
[ $status = 0 ] || [ $status = 143 ]
