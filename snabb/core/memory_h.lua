-- SPDX-License-Identifier: MIT
-- core.memory_h: Snabb's declares C functions of its allocator. Ours has none; the module is here to be required.

return {}
