-- SPDX-License-Identifier: MIT
-- Colours of texts on terminals, as programs of libmoon call them. Elsewhere, texts stay as they are.
local ffi = require "ffi"

ffi.cdef "int isatty(int);"

local codes = {
  none = "0", black = "30", dgrey = "1;30", red = "31", bred = "1;31", green = "32", bgreen = "1;32", brown = "33", yellow = "1;33",
  blue = "34", bblue = "1;34", dblue = "2;34", dpurple = "35", bpurple = "1;35", dcyan = "36", cyan = "36", bgrey = "37", white = "1;37",
}
local colors = { colorPallet = { "blue", "bgreen", "dpurple", "bred", "brown", "cyan", "green", "yellow", "red" } }
local terminal = ffi.C.isatty(1) == 1

-- The sequence that switches to a colour, given by its name or a number; without one, back to the usual.
function getColorCode(color)
  if not terminal then return "" end
  if type(color) == "number" then color = colors.colorPallet[(color - 1) % #colors.colorPallet + 1] end
  return "\27[" .. (codes[color] or codes.none) .. "m"
end

function getColorizedString(text, color) return getColorCode(color) .. text .. getColorCode() end

for _, color in ipairs { "red", "bred", "yellow", "green", "white" } do
  _G[color] = function(text, ...)
    return getColorizedString(select("#", ...) > 0 and tostring(text):format(...) or tostring(text), color)
  end
end

return colors
