/* SPDX-License-Identifier: MIT
 * A call of Lua that can be left from a signal handler: see exit.rs, which says when that is safe.
 *
 * Between sigsetjmp and the code that is left there are only frames of C and of LuaJIT, none of Rust. */
#include <setjmp.h>
#include <stdatomic.h>
#include <stddef.h>

struct lua_State;
int lua_pcall(struct lua_State *L, int arguments, int results, int handler);

/* The size that exit.rs has room for. */
_Static_assert(sizeof(sigjmp_buf) <= 512 && _Alignof(sigjmp_buf) <= 16, "sigjmp_buf fits");

/* lua_pcall; -1 if it was left. `armed` is 1 while it can be. */
int perigee_exit_pcall(void *jump, atomic_int *armed, struct lua_State *L, int arguments, int results) {
  /* The signal mask is saved, too: inside a handler its signal is blocked. */
  if (sigsetjmp(*(sigjmp_buf *)jump, 1) != 0) return -1;
  atomic_store(armed, 1);
  int status = lua_pcall(L, arguments, results, 0);
  atomic_store(armed, 0);
  return status;
}

/* Goes back to where the thread called perigee_exit_pcall. */
_Noreturn void perigee_exit_leave(void *jump) {
  siglongjmp(*(sigjmp_buf *)jump, 1);
}
