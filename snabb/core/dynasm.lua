-- SPDX-License-Identifier: MIT
-- core.dynasm: loads .dasl files, Lua with assembler in it, of a user's Snabb tree. The tree has the translator
-- (dynasm.lua, dasm.lua, dasm_x86.lua); perigee has the encoder, DynASM's own C code, which dasm.lua calls through the
-- FFI.

local ffi = require("ffi")

local M = {}

--- The function of a .dasl file: *text*, and *name*, "@" and its path. Errors if the tree has no dynasm.lua.
function M.load (text, name)
   local found, dynasm = pcall(require, "dynasm")
   if not found then
      error(name:sub(2)..": this file needs DynASM's translator: expected dynasm.lua and dasm.lua in the tree", 0)
   end
   -- From a string it would leave out a last line without an end.
   if name:sub(1, 1) == "@" then return assert(dynasm.loadfile(name:sub(2))) end
   return assert(dynasm.loadstring(text))
end

-- The encoder makes of a list of actions the bytes that it stands for: 0 .. 232 are copied, 255 ends.
local function test_encoder ()
   ffi.cdef[[
   typedef struct perigee_dasm_state { struct dasm_State *p; } perigee_dasm_state;
   void perigee_dasm_init(perigee_dasm_state *, int sections) __asm__("dasm_init");
   void perigee_dasm_free(perigee_dasm_state *) __asm__("dasm_free");
   void perigee_dasm_setupglobal(perigee_dasm_state *, void **globals, unsigned int n) __asm__("dasm_setupglobal");
   void perigee_dasm_setup(perigee_dasm_state *, const void *actions) __asm__("dasm_setup");
   void perigee_dasm_put(perigee_dasm_state *, int start, ...) __asm__("dasm_put");
   int perigee_dasm_link(perigee_dasm_state *, size_t *size) __asm__("dasm_link");
   int perigee_dasm_encode(perigee_dasm_state *, void *to) __asm__("dasm_encode");
   ]]
   local C = ffi.C
   local state, globals, size = ffi.new("perigee_dasm_state"), ffi.new("void *[8]"), ffi.new("size_t[1]")
   local actions = ffi.new("const uint8_t[8]", {0x55, 0x5d, 0x90, 0xc3, 255}) -- push rbp; pop rbp; nop; ret; the end
   C.perigee_dasm_init(state, 1)
   C.perigee_dasm_setupglobal(state, globals, 8)
   C.perigee_dasm_setup(state, actions)
   C.perigee_dasm_put(state, 0)
   assert(C.perigee_dasm_link(state, size) == 0 and size[0] == 4)
   local code = ffi.new("uint8_t[16]")
   assert(C.perigee_dasm_encode(state, code) == 0)
   assert(ffi.string(code, 4) == "\x55\x5d\x90\xc3")
   C.perigee_dasm_free(state)
end

function M.selftest ()
   if not pcall(require, "dynasm") then
      local ok, why = pcall(M.load, "", "@x.dasl")
      assert(not ok and why:match("expected dynasm.lua"))
   end
   if ffi.arch == "x64" then test_encoder() end
end

return M
