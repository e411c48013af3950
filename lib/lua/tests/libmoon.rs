// SPDX-License-Identifier: MIT
//! Programs in the style of libmoon and MoonGen, on heap packets: what they call is there, and means what they expect.

#[path = "common/tasks.rs"]
mod machine;

use machine::{fails, run, runs};
use perigee_lua::Script;
use perigee_lua::task::Tasks;
use std::time::Duration;

#[test]
fn the_command_line_is_read_as_configure_says() {
    let source = r##"
        local lm = require "moongen"
        function configure(parser)
          parser:description("A test.")
          parser:argument("dev", "Devices."):args("+"):convert(tonumber)
          parser:argument("file"):args("?")
          parser:option("-r --rate", "A rate."):default(10000):convert(tonumber)
          parser:option("-n --name-of-it"):target("what")
          parser:option("-c"):choices { "a", "b" }:default("b")
          parser:option("--many"):args("*"):combine()
          parser:option("-i --include"):count("*")
          parser:flag("-v --verbose"):count("0-3")
          parser:flag("-q"):default(false)
          parser:mutex(parser:flag("--one"), parser:flag("--two"))
          return parser:parse()
        end
        function master(args, first, ...)
          local got = {}
          for _, key in ipairs { "rate", "what", "c", "many", "verbose", "q", "one", "two", "file" } do
            got[#got + 1] = key .. "=" .. tostring(args[key])
          end
          local include = args.include and table.concat(args.include, "+") or ""
          local text = ("%s|%s|%s|%s|%s"):format(table.concat(args.dev, ","), table.concat(got, " "), include, tostring(first), select("#", ...))
          assert(text == EXPECTED, text)
          return function() end -- of no interest to anybody
        end"##;
    let case = |expected: &str, words: &[&str]| {
        run(&format!("EXPECTED = {expected:?}\n{source}"), words).unwrap_or_else(|error| panic!("{words:?}: {error}"));
    };
    case("0|rate=10000 what=nil c=b many=nil verbose=nil q=false one=nil two=nil file=nil||0|0", &["0"]);
    case(
        "0,1|rate=5 what=x c=a many=1 22 verbose=2 q=true one=true two=nil file=nil|p+q|-r|13",
        &["-r", "5", "-nx", "-c", "a", "-ip", "-vvq", "--one", "--include=q", "0", "1", "--many", "1", "22"],
    );
    let refused = |expected: &str, words: &[&str]| {
        let error = run(&format!("EXPECTED = ''\n{source}"), words).unwrap_err();
        assert!(error.contains(expected) && error.contains("Usage: perigee task test.lua"), "{words:?}: {error}");
    };
    refused("<dev> ... is missing", &[]);
    refused("unknown option --rat", &["0", "--rat", "5"]);
    refused("dev is \"x\"", &["x"]);
    refused("-c is \"d\", expected one of a, b", &["0", "-c", "d"]);
    refused("--two cannot be given together with --one", &["0", "--one", "--two"]);
    refused("-r has 0 values", &["0", "-r"]);
    // Help ends the program, without an error and without master.
    run(&format!("EXPECTED = ''\n{source}"), &["--help"]).unwrap();
}

#[test]
fn words_become_numbers_without_configure() {
    let source = r##"
        require "dpdk"
        function master(a, b, ...) assert(a == 3 and b == "x3" and select("#", ...) == 0 and LIBMOON_TASK_NAME == "master") end"##;
    run(source, &["3", "x3"]).unwrap();
    fails("function configure() end", "has no function main(...)");
    fails("local lm = require 'libmoon'\nfunction master() error 'oh' end", "task main: test.lua:2: oh");
}

#[test]
fn tasks_share_values_and_wait_for_each_other() {
    runs(
        r##"
        local lm, memory = require "libmoon", require "memory"
        local namespaces, pipe, lock, barrier = require "namespaces", require "pipe", require "lock", require "barrier"
        local timer = require "timer"
        local ns = namespaces:get()
        local other = namespaces:get()
        function master()
          ns.n, ns.t = 0, { x = { 1 } }
          assert(ns.t.x[1] == 1 and other.n == nil and namespaces:get("by name") ~= nil)
          local l, b, slow, fast = lock:new(), barrier:new(3), pipe:newSlowPipe(), pipe:newFastPipe()
          for i = 1, 3 do lm.startTask("count", l, b, slow, i) end
          local sum = 0
          for i = 1, 9 do
            local name, n, nothing, t = slow:recv()
            assert(name == "count" and nothing == nil and t.i >= 1)
            sum = sum + n
          end
          assert(sum == 9 + 27 * 10, sum)
          lm.waitForTasks()
          assert(ns.n == 30 and other.n == nil)
          local keys = {}
          ns:forEach(function(key, value) keys[#keys + 1] = key .. "=" .. type(value) end)
          assert(table.concat(keys, " ") == "n=number t=table")
          assert(not l:tryLock(0) == false)
          l:unlock()
          l(function() ns.n = nil end)
          assert(ns.n == nil and slow:count() == 0 and slow:tryRecv(10) == nil)
          local n = memory.alloc("uint32_t *", 4)
          n[0] = 7
          assert(lm.startTask("pointer", fast):isRunning())
          fast:send(n)
          assert(slow:tryRecv(0) == nil and not pcall(fast.send, fast, {}))
          lm.waitForTasks()
          assert(n[0] == 8)
          memory.free(n)
          local t = timer:new(0.01)
          assert(t:running() and t:timeLeft() > 0)
          t:wait()
          assert(t:expired())
          lm.setRuntime(0)
          assert(not lm.running() and lm.running(60000))
        end
        function count(l, b, slow, i)
          for round = 1, 3 do
            for _ = 1, 10 do
              if round == 1 then l(function() ns.n = ns.n + 1 end) end
            end
            b:wait()
            -- All three tasks are here: 30 in each round.
            slow:send(LIBMOON_TASK_NAME, ns.n + 1, nil, { i = i })
          end
        end
        function pointer(fast)
          local n = require("ffi").cast("uint32_t *", fast:recv())
          n[0] = n[0] + 1
        end"##,
    );
}

#[test]
fn packets_that_are_filled_are_those_of_perigee() {
    runs(
        r##"
        local memory, device, frame = require "memory", require "device", require "perigee.frame"
        function master()
          local dev = device.config { port = 0 }
          local function same(fill, expected)
            local bufs = memory.createMemPool(fill):bufArray(3)
            bufs:alloc(#expected)
            bufs:offloadUdpChecksums()
            for i, buf in ipairs(bufs) do
              local got = bufs.batch:frame(buf.slot)
              if got ~= expected then
                for k = 1, #expected do assert(got:byte(k) == expected:byte(k), ("byte %d is 0x%02x, not 0x%02x"):format(k, got:byte(k), expected:byte(k))) end
              end
            end
            bufs:freeAll()
          end
          local macs = { source_mac = dev:getMacString(), destination_mac = "02:00:00:00:00:99" }
          local function with(options) for k, v in pairs(macs) do options[k] = v end return options end
          local queue = dev:getTxQueue(0)
          same(function(buf)
            local pkt = buf:getUdpPacket()
            pkt:fill { ethSrc = queue, ethDst = "02:00:00:00:00:99", ip4Src = "10.0.0.1", ip4Dst = "10.0.0.2", ip4TTL = 9, ip4ID = 0x1234,
              udpSrc = 7, udpDst = 53, pktLength = 80 }
            pkt.ip4:setFlags(2)
            assert(pkt.ip4:getFlags() == 2 and pkt.ip4:getFragment() == 0 and pkt.ip4:getHeaderLength() == 5 and pkt.ip4:getVersion() == 4)
          end, frame.udp(with { source = "10.0.0.1", destination = "10.0.0.2", ttl = 9, id = 0x1234, source_port = 7, destination_port = 53,
            length = 80 }))
          same(function(buf)
            buf:getTcpPacket(false):fill { ethSrc = dev, ethDst = "02:00:00:00:00:99", ip6Src = "2001:db8::1", ip6Dst = "2001:db8::2",
              tcpSrc = 1, tcpDst = 2, tcpSyn = 1, tcpAck = 1, tcpSeqNumber = 3e9, tcpWindow = 10, pktLength = 80 }
          end, frame.tcp(with { source = "2001:db8::1", destination = "2001:db8::2", source_port = 1, destination_port = 2, flags = "SA",
            sequence = 3e9, window = 10, length = 80 }))
          same(function(buf)
            buf:getArpPacket():fill { ethSrc = dev, ethDst = "ff:ff:ff:ff:ff:ff", arpHardwareSrc = dev, arpProtoSrc = "10.0.0.1",
              arpHardwareDst = "00:00:00:00:00:00", arpProtoDst = "10.0.0.9" }
          end, frame.arp(1, { sender_mac = dev:getMacString(), sender = "10.0.0.1", target = "10.0.0.9" }))
          -- Defaults, and reading back.
          local mem = memory.createMemPool(function(buf) buf:getUdpPacket():fill { pktLength = 100 } end)
          local bufs = mem:bufArray()
          assert(#bufs == 63 and bufs.size == 63)
          bufs:alloc(100)
          local pkt = bufs[7]:getUdpPacket()
          local all = pkt:get()
          assert(all.ip4Length == 86 and all.udpLength == 66 and all.udpSrcPort == 1024 and all.ip4Protocol == 17 and all.ethType == 0x800)
          pkt.ip4.src:set(parseIPAddress("192.168.200.1") + 5)
          assert(pkt.ip4.src:getString() == "192.168.200.6" and pkt.ip4:getSrc() == parseIPAddress "192.168.200.6")
          pkt.ip4.src:add(255)
          assert(tostring(pkt.ip4.src) == "192.168.201.5" and pkt.ip4.src + 1 == parseIPAddress "192.168.201.6")
          pkt.eth:setDst(pkt.eth:getSrc())
          assert(pkt.eth.dst == pkt.eth.src and pkt.eth:getDstString() == "01:02:03:04:05:06")
          pkt.eth.dst:setString "fe:dc:ba:98:76:54"
          assert(pkt.eth:getDstString() == "fe:dc:ba:98:76:54" and pkt.eth:getDst() == parseMacAddress("fe:dc:ba:98:76:54", true))
          local six = bufs[1]:getUdpPacket(false)
          six.ip6.src:set((parseIPAddress "2001:db8::ffff:ffff:ffff:ffff"))
          six.ip6.src:add(1)
          assert(six.ip6.src:getString() == "2001:db8:0:1::", six.ip6.src:getString())
          bufs:freeAll()
        end"##,
    );
}

#[test]
fn arrays_of_buffers_send_receive_and_exchange_packets() {
    runs(
        r##"
        local lm, memory, device = require "libmoon", require "memory", require "device"
        function master()
          local dev = device.config { port = 0 }
          assert(device.waitForLinks() == 1)
          lm.startTask("work", dev:getRxQueue(0), dev:getTxQueue(0)):wait()
        end
        local function number(buf) return buf:getRawPacket().payload.uint32[0] end
        function work(rx, tx)
          assert(tx.dev == rx.dev and tx.qid == 0 and tostring(tx) == "[TxQueue: id=0, qid=0]")
          local mem = memory.createMemPool()
          local bufs, got, out = mem:bufArray(20), memory.bufArray(), memory.bufArray(40)
          local function send(from, to)
            bufs:allocN(60, to - from + 1)
            for i, buf in ipairs(bufs) do buf:getRawPacket().payload.uint32[0] = from + i - 1 end
            assert(tx:send(bufs) == to - from + 1)
            bufs:resize(20)
          end
          send(1, 20)
          assert(rx:tryRecv(got, 1e6) == 20 and got[20].pkt_len == 60 and got[21] ~= nil and got[64] == nil)
          -- The even ones are freed, the odd ones go on: the buffer that was put stays the same packet.
          local j = 0
          for i, buf in ipairs(got) do
            if number(buf) % 2 == 0 then buf:free() else
              j = j + 1
              out[j] = buf
              assert(number(buf) == number(out[j]) and number(buf) == 2 * j - 1)
            end
          end
          assert(j == 10 and tx:sendN(out, 4) == 4 and rx:tryRecv(got, 1e6) == 4 and number(got[4]) == 7 and number(out[5]) == 9)
          -- More are put beside what is left, and a place gets another packet.
          send(101, 101)
          assert(rx:tryRecv(got, 1e6) == 1)
          out[11] = got[1]
          assert(tx:sendN(out, 11) == 7 and rx:tryRecv(got, 1e6) == 7 and number(got[6]) == 19 and number(got[7]) == 101)
          got:free(3)
          assert(tx:send(got) == 4 and rx:recv(got) == 4)
          got:freeAll()
          -- Thousands through one array, some of which wait in it: its places are tidied up.
          local kept, seen = memory.bufArray(2), 0
          for round = 1, 300 do
            send(round, round + 1)
            assert(rx:tryRecv(got, 1e6) == 2)
            if round % 3 == 1 then kept[1] = got[1] else out[1] = got[1] seen = seen + tx:sendN(out, 1) end
            got:freeAll()
            if round % 3 == 0 then
              kept[2] = kept[1]
              assert(number(kept[2]) == round - 2, number(kept[2]))
              kept:freeAll()
            end
            seen = seen - rx:tryRecv(got, 0)
            got:freeAll()
          end
          assert(seen == 0)
          -- Sizes, single packets, tags.
          send(5, 5)
          assert(rx:tryRecv(got, 1e6) == 1)
          got[1].pkt_len = 70
          assert(got[1]:getSize() == 70 and got[1]:getVlan() == nil)
          got[1]:setVlan(7, 3)
          local vlan, priority = got[1]:getVlan()
          assert(vlan == 7 and priority == 3 and got[1].pkt_len == 74 and got[1]:getEthernetVlanPacket().eth:getType() == 0)
          assert(tx:sendSingle(got[1]) == 1 and rx:tryRecv(got, 1e6) == 1 and got[1].pkt_len == 74)
          got[1]:setRawPacket "0123456789abcdef"
          assert(got[1]:getSize() == 16 and got.batch:frame(0) == "0123456789abcdef")
          got:freeAll()
          local one, two = mem:alloc(60), mem:alloc(64)
          assert(one.pkt_len == 60 and two.pkt_len == 64)
          assert(tx:sendSingle(one) == 1 and tx:trySendSingle(two) == 1 and rx:tryRecv(got, 1e6) == 2)
          got:free(2)
          assert(not pcall(function() got[1] = 3 end) and not pcall(function() got[65] = one end) and not pcall(memory.bufArray, 257))
          local ok, why = pcall(got.alloc, got, 60)
          assert(not ok and why:find "has no pool")
          -- A full device keeps what it has no room for; the task frees what is left.
          local many = mem:bufArray(200)
          many:alloc(60)
          assert(tx:trySend(many) == 128)
        end"##,
    );
}

#[test]
fn packets_go_to_other_tasks_by_rings() {
    runs(
        r##"
        local lm, memory, pipe = require "libmoon", require "memory", require "pipe"
        function master()
          local ring = pipe:newPacketRing(512)
          local t = lm.startTask("take", ring)
          local bufs, n = memory.createMemPool(function(buf) buf:getRawPacket().payload.uint8[0] = 9 end):bufArray(50), 0
          while n < 5000 do
            bufs:alloc(60)
            while not ring:send(bufs) do end
            n = n + 50
          end
          assert(t:wait() == 5000)
        end
        function take(ring)
          local bufs, n = memory.bufArray(), 0
          while n < 5000 do
            local got = ring:recv(bufs)
            for i = 1, got do assert(bufs[i]:getBytes()[0] == 9) end
            n = n + got
            bufs:freeAll()
          end
          return n
        end"##,
    );
}

#[test]
fn latencies_are_measured_beside_other_traffic() {
    runs(
        r##"
        local mg, memory, device = require "moongen", require "memory", require "device"
        local ts, hist = require "timestamping", require "histogram"
        function master()
          local dev = device.config { port = 0, rxQueues = 3, txQueues = 2 }
          local load = mg.startTask("load", dev:getTxQueue(0))
          for _, kind in ipairs { "newTimestamper", "newUdpTimestamper" } do
            local t, h = ts[kind](ts, dev:getTxQueue(1), dev:getRxQueue(kind == "newTimestamper" and 1 or 2)), hist:new()
            for i = 1, 20 do
              local ns, packets = t:measureLatency(function(buf)
                buf:getEthernetPacket().eth.dst:setString("02:00:00:00:00:99")
                if i > 10 then buf:setVlan(7) end
              end, 60000)
              assert(ns and ns > 0 and packets == 1, packets)
              h:update(ns)
            end
            h:update(nil)
            assert(h.numSamples == 20 and h:totals() == 20 and h:percentile(100) == h:max())
          end
          mg.stop()
          assert(load:wait() > 0)
        end
        function load(queue)
          local bufs, n = memory.createMemPool(function(buf) buf:getUdpPacket():fill { udpDst = 319, pktLength = 76 } end):bufArray(), 0
          repeat
            bufs:alloc(76)
            n = n + queue:send(bufs)
            mg.sleepMicros(100)
          until not mg.running()
          return n
        end"##,
    );
}

#[test]
fn arp_answers_and_asks() {
    // The device leads back to itself: the task answers its own question.
    runs(
        r##"
        local lm, device, arp, memory = require "libmoon", require "device", require "proto.arp", require "memory"
        function master()
          local dev = device.config { port = 0, rxQueues = 2, txQueues = 2 }
          arp.startArpTask { { rxQueue = dev:getRxQueue(1), txQueue = dev:getTxQueue(1), ips = { "10.0.0.1", "10.0.0.2" } } }
          assert(arp.blockingLookup("10.0.0.2", 60) == dev:getMacString())
          local mac, when = arp.lookup(parseIPAddress "10.0.0.2")
          assert(mac == dev:getMacString() and math.abs(when - time()) < 600 and arp.lookup "10.0.0.3" == nil)
          assert(arp.blockingLookup("10.0.0.3", 0.05) == nil)
          -- A packet that another task received.
          local bufs = memory.createMemPool(function(buf)
            buf:getArpPacket():fill { arpOperation = arp.OP_REPLY, arpHardwareSrc = "02:00:00:00:00:44", arpProtoSrc = "10.0.0.4" }
          end):bufArray(1)
          bufs:alloc(60)
          arp.handlePacket(bufs[1])
          assert(arp.blockingLookup("10.0.0.4", 60) == "02:00:00:00:00:44")
          arp.stopArpTask()
          lm.waitForTasks()
        end"##,
    );
}

#[test]
fn counters_write_what_they_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (plain, csv) = (folder.path().join("plain.txt"), folder.path().join("all.csv"));
    let source = format!(
        r##"
        local lm, stats, memory, device = require "libmoon", require "stats", require "memory", require "device"
        function master()
          local dev = device.config {{ port = 0 }}
          local one, two = stats:newManualTxCounter("Port 7", "plain", {plain:?}), stats:newPktRxCounter("[some]", "CSV", {csv:?})
          local bufs = memory.createMemPool():bufArray(10)
          bufs:alloc(96)
          one:updateWithSize(0, 96)
          two:update()
          for _, buf in ipairs(bufs) do two:countPacket(buf) end
          one:updateWithSize(dev:getTxQueue(0):send(bufs), 96)
          one:finalize(0)
          two:finalize(0)
          local mpps, mbit, wire, packets, bytes = one:getStats()
          assert(packets == 10 and bytes == 1000 and mpps.avg > 0 and wire.avg > mbit.avg)
          local quiet = stats:newDevRxCounter("device", dev, "nil")
          quiet:update()
          quiet:finalize(0)
          assert(select(4, quiet:getStats()) == 0 and dev:getStats().ipackets == 7)
          assert(not pcall(stats.newManualRxCounter, stats, "x", "xml") and not pcall(stats.newDevTxCounter, stats, "x"))
          lm.setRuntime(0.05)
          stats.startStatsTask {{ devices = {{ dev }}, format = "nil" }}
          lm.waitForTasks()
          assert(stats.median {{ 3, 1, 2 }} == 2 and stats.stdDev {{ 1, 3 }} == math.sqrt(2))
        end"##
    );
    run(&source, &[]).unwrap();
    let plain = std::fs::read_to_string(plain).unwrap();
    assert!(
        plain.starts_with("[Port 7] TX: ") && plain.ends_with("total 10 packets with 1000 bytes (incl. CRC)\n"),
        "{plain}"
    );
    let csv = std::fs::read_to_string(csv).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines[0], "Time,Device,Direction,PacketRate,Mbit,MbitWithFraming,TotalPackets,TotalBytes");
    assert!(lines[1].contains(",some,RX,") && lines[1].ends_with(",10,1000"), "{csv}");
}

#[test]
fn captures_are_written_and_read_and_filters_compiled() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.pcap");
    let source = format!(
        r##"
        require "libmoon"
        local memory, pcap, pf, frame = require "memory", require "pcap", require "pf", require "perigee.frame"
        function master()
          local mem = memory.createMemPool()
          local bufs, writer = mem:bufArray(3), pcap:newWriter({file:?}, 1000)
          bufs:alloc(60)
          for i, buf in ipairs(bufs) do
            buf:setRawPacket(frame.udp {{ destination_port = i, length = 60 + i }})
            writer:writeBuf(i + 0.25, buf, i == 3 and 50 or nil)
          end
          writer:close()
          bufs:freeAll()
          local reader, matches = pcap:newReader({file:?}), pf.compile_filter "udp port 2"
          assert(reader:read(bufs) == 3 and reader:read(bufs) == 0)
          for i, buf in ipairs(bufs) do
            assert(buf.pkt_len == 60 + i and buf.udata64 == 1001250000ULL + (i - 1) * 1000000ULL)
            assert(buf:getUdpPacket().udp:getDstPort() == i and matches(buf:getBytes(), buf:getSize()) == (i == 2))
          end
          assert(bufs[3]:getBytes()[50] == 0)
          bufs:freeAll()
          reader:reset()
          local one = reader:readSingle(mem)
          assert(one.pkt_len == 61 and one:getUdpPacket().udp:getDstPort() == 1)
          one:free()
          reader:close()
          assert(not pcall(pcap.newReader, pcap, "/nowhere/a.pcap"))
        end"##
    );
    run(&source, &[]).unwrap();
}

#[test]
fn rates_are_set_by_any_task_and_gaps_kept() {
    // 100 frames of 60 bytes at 5.12 Mbit/s with their FCS are 10,000 a second; 100 us of backlog may be caught up
    // with.
    runs(
        r##"
        local lm, device, memory, limiter = require "libmoon", require "device", require "memory", require "software-ratecontrol"
        function master()
          local dev = device.config { port = 0 }
          local tx = dev:getTxQueue(0)
          tx:setRate(5.12)
          assert(lm.startTask("send", tx, "send"):wait() >= 0.0098)
          tx:setRate(0)
          assert(lm.startTask("send", tx, "sendWithDelay"):wait() >= 0.0098)
          assert(lm.startTask("limited", limiter:new(tx, "cbr", 100000), dev:getRxQueue(0)):wait() >= 0.0098)
          assert(not pcall(tx.setRate, tx, "fast") and not pcall(limiter.new, limiter, tx, "slow"))
        end
        local function filled()
          local bufs = memory.createMemPool():bufArray(100)
          bufs:alloc(60)
          for _, buf in ipairs(bufs) do buf:setDelay(100000 / 0.8 - 84) end
          return bufs
        end
        local function drain(rx)
          local got = memory.bufArray()
          repeat
            local n = rx:tryRecv(got, 0)
            got:freeAll()
          until n == 0
        end
        function send(tx, how)
          local bufs, start = filled(), lm.getTime()
          assert(tx[how](tx, bufs) == 100)
          local took = lm.getTime() - start
          drain(tx.dev:getRxQueue(0))
          return took
        end
        function limited(l, rx)
          local bufs, start = filled(), lm.getTime()
          assert(l:send(bufs) == 100)
          local took = lm.getTime() - start
          drain(rx)
          return took
        end"##,
    );
}

#[test]
fn what_is_not_there_says_so() {
    let case = |body: &str, expected: &str| {
        fails(&format!("local lm = require 'libmoon'\nfunction master() {body} end"), expected);
    };
    case("require('webserver').startWebserverTask { port = 1 }", "test.lua:2: webserver: there is no web server");
    case(
        "assert(not require('webserver').running()) require('kni').createKNI()",
        "kni: there are no kernel interfaces",
    );
    case("require('proto.lacp').startLacpTask()", "proto.lacp: LACP is not there");
    case("require('hs')()", "hs: Hyperscan is not there");
    case("require('proto.vxlan').defaultPort()", "proto.vxlan: there is no such header");
    case("require('device').config { port = 5 }", "there is no port 5: one, 0, is on the command line");
    case("require('device').config { port = 0 } require('device').get(0):getTxQueue(3)", "has transmit queues 0 to 0");
    case("createStack('eth', 'ipx')", "there is no header ipx");
    case(
        "require('memory').createMemPool(function(buf) buf:getVxlanPacket() end)",
        "getVxlanPacket: there is no header",
    );
    case("require('log'):fatal('%d is odd', 3)", "3 is odd");
    case("lm.startTask('nobody')", "there is no global function nobody");
    case("require('proto.arp').lookup('10.0.0.300')", "10.0.0.300 is no IPv4 address");
}

/// It never ended.
#[test]
fn a_text_is_not_split_between_all_characters() {
    runs(
        r##"
        require "libmoon"
        function master()
          for _, pattern in ipairs { "", "x*" } do
            local ok, why = pcall(strSplit, "abc", pattern)
            assert(not ok and why:find("matches between characters", 1, true), why)
          end
        end"##,
    );
}

#[test]
fn names_that_programs_use_are_there() {
    runs(
        r##"
        local lm, mg, dpdk = require "libmoon", require "moongen", require "dpdk"
        local log, hist, icmp, ip = require "log", require "histogram", require "proto.icmp", require "proto.ip4"
        local eth, timer = require "proto.ethernet", require "timer"
        function master()
          assert(mg.startTask == lm.startTask and dpdk.launchLua == lm.startTask and dpdk.running())
          assert(hton16(0x1234) == 0x3412 and ntoh(hton(7)) == 7 and bswap16(1) == 256 and incAndWrap(3, 4) == 0 and incAndWrap(1, 4) == 2)
          assert(parseIPAddress "1.2.3.4" == 0x01020304 and select(2, parseIPAddress "::1") == false and parseIPAddress "x" == nil)
          assert(parseIPAddress "255.0.0.1" + 0 < 0 and ip4ToString(parseIPAddress "255.0.0.1") == "255.0.0.1")
          assert(parseMacAddress "01:02:03" == nil and tostring(parseMacAddress "01:02:03:04:05:06") == "01:02:03:04:05:06")
          assert(trim "  a b " == "a b" and toCsv(1, "a,b") == '1,"a,b"' and #strSplit("a,b,c", ",") == 3)
          assert(select("#", range(3)) == 3 and mergeTables({ a = 1 }, { b = 2 }).b == 2 and #concatArrays({ 1 }, { 2, 3 }) == 3)
          assert(green("%d", 3):find "3" and getColorCode "red" and eth.TYPE_ARP == 0x806 and ip.PROTO_ICMP == 1 and icmp.ECHO_REPLY.type == 0)
          local before = lm.getCycles()
          lm.sleepMicros(50)
          assert(tonumber(lm.getCycles() - before) >= 50000 * lm.getCyclesFrequency() / 1e9 and math.abs(time() - os.time()) < 60)
          local sum = 0
          for i = 1, 1000 do sum = sum + poissonDelay(100) end
          assert(sum / 1000 > 70 and sum / 1000 < 140, sum)
          log:setLevel "ERROR"
          log:warn("not seen: %s", {})
          local h = hist:create()
          for _, n in ipairs { 5, 3, 3, 9 } do h:update(n) end
          local values = {}
          for sample in h:samples() do values[#values + 1] = sample.k .. "x" .. sample.v end
          assert(table.concat(values, " ") == "3x2 5x1 9x1" and h.avg == 5 and h:median() == 3 and h:min() == 3 and h:max() == 9)
          assert(select(3, h:quartiles()) == 5 and h.numSamples == 4)
          assert(lm.startTask("back", h):wait() == 4 and type((lm.getCore())) == "number")
        end
        function back(h) return h.numSamples end"##,
    );
}

#[test]
fn files_beside_a_script_come_first_until_it_is_a_program_of_libmoon() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["stats", "log"] {
        std::fs::write(folder.path().join(format!("{name}.lua")), "return { mine = true }").unwrap();
    }
    // Named like a module, which it is not.
    let script = folder.path().join("timer.lua");
    let source =
        "function main() assert(require('stats').mine and require('timer').new and not require('log').mine) end";
    std::fs::write(&script, source).unwrap();
    let tasks = Tasks::new(machine::heap(), Script::read(&script).unwrap(), vec![]);
    tasks.run(&[], Duration::from_secs(180)).unwrap();
}

#[test]
fn functions_of_arrays_have_no_loops_that_keep_their_callers_interpreted() {
    // LuaJIT gives up on a loop when it finds another one inside: "inner loop in root trace".
    runs(
        r##"
        local memory, device = require "memory", require "device"
        local jutil, vmdef = require "jit.util", require "jit.vmdef"
        function master()
          local dev = device.config { port = 0 }
          local bufs = memory.createMemPool(function(buf) buf:getUdpPacket():fill { pktLength = 60 } end):bufArray()
          local got, tx, rx = memory.bufArray(), dev:getTxQueue(0), dev:getRxQueue(0)
          local traces, inner = 0, ""
          local function watch(what, trace, func, pc, code)
            if what == "stop" then traces = traces + 1 end
            if what ~= "abort" or vmdef.traceerr[code] ~= "inner loop in root trace" then return end
            local at = jutil.funcinfo(func, pc).loc
            if at:match "^libmoon" then inner = inner .. " " .. at end
          end
          jit.off(watch)
          jit.attach(watch, "trace")
          for _ = 1, 2000 do
            bufs:alloc(60)
            bufs:offloadUdpChecksums()
            tx:send(bufs)
            rx:tryRecv(got, 0)
            tx:sendN(got, got.n)
            rx:recv(got)
            got:freeAll()
          end
          jit.attach(watch)
          assert(traces > 0 and inner == "", inner)
        end"##,
    );
}
