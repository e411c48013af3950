-- SPDX-License-Identifier: MIT
-- A worker that only computes: neither packets nor tables. What its rate loses under changes of routes is the machine's doing.
-- A round is counted as an empty poll of its queue, on which nothing ever comes.
return function(worker)
  local burst, n = worker:batch(), 1
  while worker:running() do
    for _ = 1, 4000 do n = (n * 1103515245 + 12345) % 2147483648 end
    worker:receive(1, burst)
    worker:housekeeping()
  end
  return n
end
