-- SPDX-License-Identifier: MIT
-- lib.pcap.pcap: reads and writes capture files of the classic pcap format (draft-ietf-opsawg-pcap).
--
-- What differs from Snabb: files of the other byte order, and with timestamps in nanoseconds, are read, too; a file
-- that is cut off, of another format, or damaged is an error that says so; a record may be written with a timestamp.
local ffi = require("ffi")
local bit = require("bit")

ffi.cdef [[
struct pcap_file {
   uint32_t magic_number;
   uint16_t version_major;
   uint16_t version_minor;
   int32_t thiszone;
   uint32_t sigfigs;
   uint32_t snaplen;
   uint32_t network;
};
struct pcap_record {
   uint32_t ts_sec;
   uint32_t ts_usec;
   uint32_t incl_len;
   uint32_t orig_len;
};
struct pcap_record_extra {
   uint32_t port_id;
   uint32_t flags;
   uint64_t reserved0, reserved1, reserved2, reserved3;
};
]]

local MAGIC_USEC, MAGIC_NSEC, MAGIC_PCAPNG = 0xa1b2c3d4, 0xa1b23c4d, 0x0a0d0d0a
local LINKTYPE_ETHERNET = 1
local SNAPLEN = 65535
-- What libpcap takes for the longest record of any capture.
local MAX_RECORD = 262144

local file_t, record_t = ffi.typeof("struct pcap_file"), ffi.typeof("struct pcap_record")
local extra_t = ffi.typeof("struct pcap_record_extra")
local FILE_SIZE, RECORD_SIZE, EXTRA_SIZE = ffi.sizeof(file_t), ffi.sizeof(record_t), ffi.sizeof(extra_t)

local M = {}

--- Writes the header of a capture of Ethernet frames to the open `file`, and flushes it.
function M.write_file_header(file)
   local header = file_t(MAGIC_USEC, 2, 4, 0, 0, SNAPLEN, LINKTYPE_ETHERNET)
   file:write(ffi.string(header, FILE_SIZE))
   file:flush()
end

local record, extra = record_t(), extra_t()

--- Writes the header of a record of `length` bytes, which the caller writes next, to the open `file`. Its timestamp is
-- 0.
function M.write_record_header(file, length)
   record.ts_sec, record.ts_usec, record.incl_len, record.orig_len = 0, 0, length, length
   file:write(ffi.string(record, RECORD_SIZE))
end

--- Reads an object of the C type with the name `ctype` from the open `file`. Returns a pointer to it, or nil at the
-- file's end. Errors, if it is cut off.
function M.readc(file, ctype)
   local bytes = file:read(ffi.sizeof(ctype))
   if bytes == nil then return nil end
   if #bytes ~= ffi.sizeof(ctype) then error(("short read of %s from %s"):format(ctype, tostring(file))) end
   local object = ffi.new(ffi.typeof("$[1]", ffi.typeof(ctype)))
   ffi.copy(object, bytes, #bytes)
   return object
end

--- Writes a frame of `length` bytes at `buffer` to the open `file`, and flushes it. With `port`, a number, a struct
-- pcap_record_extra follows the frame in the record, with that port_id and flags 0 (`input` is true) or 1. The
-- timestamp is `time`, in seconds (default 0).
function M.write_record(file, buffer, length, port, input, time)
   time = time or 0
   record.ts_sec = math.floor(time)
   record.ts_usec = math.floor(time % 1 * 1e6)
   record.incl_len = length + (port ~= nil and EXTRA_SIZE or 0)
   record.orig_len = length
   file:write(ffi.string(record, RECORD_SIZE), ffi.string(buffer, length))
   if port ~= nil then
      extra.port_id, extra.flags = port, input and 0 or 1
      file:write(ffi.string(extra, EXTRA_SIZE))
   end
   file:flush()
end

-- `size` bytes of the file; nil at its end. Errors, if there are fewer.
local function read_bytes(file, size, filename, what)
   local bytes = size == 0 and "" or file:read(size)
   if bytes == nil then return nil end
   if #bytes < size then
      error(("%s: truncated: %d of %d bytes of %s"):format(filename, #bytes, size, what), 0)
   end
   return bytes
end

local function swap16(n) return bit.rshift(bit.bswap(n), 16) end
local function swap32(n) return tonumber(ffi.cast("uint32_t", bit.bswap(n))) end

-- Reads the file's header. Returns whether numbers are of the other byte order, and whether timestamps are in
-- nanoseconds.
local function read_file_header(file, filename)
   local bytes = read_bytes(file, FILE_SIZE, filename, "the file header")
   if bytes == nil then error(filename..": empty file, not a pcap file", 0) end
   local header = file_t()
   ffi.copy(header, bytes, FILE_SIZE)
   local magic, swapped = header.magic_number, false
   if swap32(magic) == MAGIC_USEC or swap32(magic) == MAGIC_NSEC then
      magic, swapped = swap32(magic), true
   end
   if magic == MAGIC_PCAPNG then error(filename..": a pcapng file; expected a file of the classic pcap format", 0) end
   if magic ~= MAGIC_USEC and magic ~= MAGIC_NSEC then
      error(("%s: not a pcap file (Bad PCAP magic number 0x%s)"):format(filename, bit.tohex(magic)), 0)
   end
   local major = swapped and swap16(header.version_major) or header.version_major
   if major ~= 2 then error(filename..": pcap version "..major..", expected 2", 0) end
   return swapped, magic == MAGIC_NSEC
end

-- Reads a record's header. Returns a struct in host byte order and in microseconds, and the nanoseconds; nil at the
-- file's end.
local function read_record_header(file, filename, swapped, nanoseconds)
   local bytes = read_bytes(file, RECORD_SIZE, filename, "a record header")
   if bytes == nil then return nil end
   local header = record_t()
   ffi.copy(header, bytes, RECORD_SIZE)
   if swapped then
      header.ts_sec, header.ts_usec = swap32(header.ts_sec), swap32(header.ts_usec)
      header.incl_len, header.orig_len = swap32(header.incl_len), swap32(header.orig_len)
   end
   if header.incl_len > MAX_RECORD then
      error(("%s: damaged: a record of %d bytes"):format(filename, header.incl_len), 0)
   end
   local ns = nanoseconds and header.ts_usec or header.ts_usec * 1000
   header.ts_usec = math.floor(ns / 1000)
   return header, ns
end

-- The frame of a record and, if there is one, the struct behind it.
local function read_body(file, filename, header, swapped)
   local length = math.min(header.incl_len, header.orig_len)
   local body = read_bytes(file, header.incl_len, filename, "a record")
   if body == nil then error(filename..": truncated: a record header without its record", 0) end
   if header.incl_len ~= length + EXTRA_SIZE then return body:sub(1, length) end
   local behind = extra_t()
   ffi.copy(behind, body:sub(length + 1), EXTRA_SIZE)
   if swapped then behind.port_id, behind.flags = swap32(behind.port_id), swap32(behind.flags) end
   return body:sub(1, length), behind
end

--- An iterator over the records of the file `filename`. It gives the frame (a string), the record's header (struct
-- pcap_record, in host byte order, microseconds), the struct pcap_record_extra written with it or nil, and the
-- nanoseconds of the timestamp (a number). Errors, at once: "Unable to open file", or no pcap file; later: truncated
-- or damaged.
function M.records(filename)
   local file = io.open(filename, "rb")
   if file == nil then error("Unable to open file: "..filename) end
   local swapped, nanoseconds = read_file_header(file, filename)
   return function ()
      if file == nil then return nil end
      local header, ns = read_record_header(file, filename, swapped, nanoseconds)
      if header == nil then
         file:close()
         file = nil
         return nil
      end
      local frame, behind = read_body(file, filename, header, swapped)
      return frame, header, behind, ns
   end, true, true
end

local function write_file(name, ...)
   local file = assert(io.open(name, "wb"))
   file:write(...)
   file:close()
end

local function read_all(name)
   local all = {}
   for frame, header, behind, ns in M.records(name) do
      all[#all + 1] = {frame = frame, header = header, extra = behind, ns = ns}
   end
   return all
end

local function test_round_trip(name)
   local file = assert(io.open(name, "wb"))
   M.write_file_header(file)
   M.write_record(file, "first", 5)
   M.write_record(file, ffi.new("uint8_t[3]", 1, 2, 3), 3, 7, true, 1.5)
   M.write_record(file, "", 0, 8, false)
   file:close()
   local contents = io.open(name, "rb"):read("*a")
   assert(#contents == 24 + 16 + 5 + 16 + 3 + 40 + 16 + 40)
   assert(contents:sub(1, 24) == "\xd4\xc3\xb2\xa1\2\0\4\0\0\0\0\0\0\0\0\0\xff\xff\0\0\1\0\0\0")
   assert(contents:sub(25, 45) == "\0\0\0\0\0\0\0\0\5\0\0\0\5\0\0\0first")
   local all = read_all(name)
   assert(#all == 3 and all[1].frame == "first" and all[1].extra == nil and all[1].ns == 0)
   assert(all[2].frame == "\1\2\3" and all[2].extra.port_id == 7 and all[2].extra.flags == 0)
   assert(all[2].header.ts_sec == 1 and all[2].header.ts_usec == 500000 and all[2].header.orig_len == 3)
   assert(all[3].frame == "" and all[3].extra.port_id == 8 and all[3].extra.flags == 1)
   file = assert(io.open(name, "wb"))
   M.write_file_header(file)
   M.write_record_header(file, 4)
   file:write("four", "tail")
   file:close()
   file = io.open(name, "rb")
   assert(M.readc(file, "struct pcap_file")[0].network == LINKTYPE_ETHERNET)
   assert(M.readc(file, "struct pcap_record")[0].incl_len == 4)
   assert(M.readc(file, "uint32_t")[0] == 0x72756f66 and not pcall(M.readc, file, "uint64_t"))
   file:close()
end

local function test_variants(name)
   local big = "\0\2\0\4"..("\0"):rep(8).."\0\0\xff\xff\0\0\0\1".."\0\0\0\5\0\0\0\7\0\0\0\2\0\0\0\9ab"
   write_file(name, "\xa1\xb2\xc3\xd4", big)
   local all = read_all(name)
   assert(#all == 1 and all[1].frame == "ab" and all[1].header.ts_sec == 5 and all[1].header.ts_usec == 7)
   assert(all[1].header.orig_len == 9 and all[1].ns == 7000)
   write_file(name, "\xa1\xb2\x3c\x4d", big)
   all = read_all(name)
   assert(all[1].header.ts_usec == 0 and all[1].ns == 7)
   write_file(name, "\x4d\x3c\xb2\xa1\2\0\4\0", ("\0"):rep(16), "\1\0\0\0\xd0\x07\0\0\1\0\0\0\1\0\0\0x")
   all = read_all(name)
   assert(all[1].frame == "x" and all[1].header.ts_usec == 2 and all[1].ns == 2000)
end

local function test_bad(name)
   local good = "\xd4\xc3\xb2\xa1\2\0\4\0"..("\0"):rep(16)
   local function fails(wanted, ...)
      write_file(name, ...)
      local ok, message = pcall(read_all, name)
      assert(not ok and message:find(wanted, 1, true) and message:find(name, 1, true), tostring(message))
   end
   fails("empty file", "")
   fails("truncated: 10 of 24 bytes of the file header", good:sub(1, 10))
   fails("not a pcap file", "#!/bin/sh\n", ("x"):rep(30))
   fails("a pcapng file", "\x0a\x0d\x0d\x0a", ("\0"):rep(30))
   fails("pcap version 3", "\xd4\xc3\xb2\xa1\3\0\4\0", ("\0"):rep(16))
   fails("truncated: 15 of 16 bytes of a record header", good, ("\0"):rep(15))
   fails("truncated: 3 of 5 bytes of a record", good, ("\0"):rep(8), "\5\0\0\0\5\0\0\0abc")
   fails("without its record", good, ("\0"):rep(8), "\5\0\0\0\5\0\0\0")
   fails("damaged", good, ("\0"):rep(8), "\0\0\0\xff\0\0\0\xff")
   write_file(name, good)
   assert(#read_all(name) == 0)
   assert(select(2, pcall(M.records, "/nonexistent/file")):find("Unable to open file: /nonexistent/file", 1, true))
end

function M.selftest()
   local name = os.tmpname()
   local ok, message = pcall(function ()
      test_round_trip(name)
      test_variants(name)
      test_bad(name)
   end)
   os.remove(name)
   assert(ok, message)
end

return M
