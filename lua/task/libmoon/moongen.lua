-- SPDX-License-Identifier: MIT
-- What MoonGen adds to libmoon is in the modules that libmoon has.
return setmetatable({ __name = "moongen" }, { __index = require "libmoon.libmoon" })
