/* SPDX-License-Identifier: MIT
 * Calls of Lua that can be left from a signal handler: see exit.rs, which says when that is safe.
 *
 * Between sigsetjmp and the code that is left there are only frames of C and of LuaJIT, none of Rust. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* LuaJIT's own headers, of the version that is linked: see machine code below. */
#include "lj_obj.h"
#include "lj_dispatch.h"
#include "lj_frame.h"
#include "lj_jit.h"
#include "lj_vm.h"
#include "lua.h"

/* The size that exit.rs has room for. */
_Static_assert(sizeof(sigjmp_buf) <= 512 && _Alignof(sigjmp_buf) <= 16, "sigjmp_buf fits");

/* What calls before this one have left on the stack looks like return addresses: without it, the handler has less to
 * doubt. */
static __attribute__((noinline)) void clear_stack(void) {
  char old[32 << 10];
  memset(old, 0, sizeof old);
  __asm__ volatile("" : : "r"(old) : "memory");
}

/* A way out: what exit.rs keeps of it for the handler. `armed` is 1 while the call can be left, `frame` is where the
 * stack of the code that may be left begins. */
struct way {
  void *jump;
  atomic_int *armed;
  _Atomic uintptr_t *frame;
};

/* lua_pcall, or lua_close if `close` is set; -1 if it was left. */
int perigee_exit_call(const struct way *way, struct lua_State *L, int arguments, int results, int close) {
  sigset_t before;
  /* The kernel fills a part of it. */
  memset(&before, 0, sizeof before);
  pthread_sigmask(SIG_SETMASK, NULL, &before);
  clear_stack();
  /* The signal mask is saved, too: inside a handler its signal is blocked. */
  if (sigsetjmp(*(sigjmp_buf *)way->jump, 1) != 0) return -1;
  atomic_store(way->frame, (uintptr_t)__builtin_frame_address(0));
  atomic_store(way->armed, 1);
  int status = 0;
  if (close) {
    lua_close(L);
  } else {
    /* Finalizers are the script's code, too: between two calls, where nothing is watched, the collector stands still. -1: it goes on
     * when the heap has grown as the script's `setpause` says. Both only set a threshold. */
    lua_gc(L, LUA_GCRESTART, -1);
    status = lua_pcall(L, arguments, results, 0);
    lua_gc(L, LUA_GCSTOP, 0);
  }
  atomic_store(way->armed, 0);
  /* A C module that blocks signals blocks them for itself. */
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return status;
}

/* Goes back to where the thread called perigee_exit_call. */
_Noreturn void perigee_exit_leave(void *jump) {
  siglongjmp(*(sigjmp_buf *)jump, 1);
}

/* LuaJIT's machine code has no description of its frames, but runs in the frame of an interpreter, which has one.
 *
 * Returns the stack pointer of that interpreter for code at `at` which runs above `stack`; 0 if `at` is no machine code
 * of this VM. To be called by the VM's thread, from a signal handler: reads only. */
uintptr_t perigee_exit_interpreter(lua_State *L, uintptr_t at, uintptr_t stack) {
  /* Each area begins with a link to the one before (lj_mcode.c, MCLink). */
  struct link {
    struct link *next;
    size_t size;
  };
  const struct link *area = (const struct link *)L2J(L)->mcarea;
  while (area != NULL && !(at >= (uintptr_t)area && at < (uintptr_t)area + area->size)) area = area->next;
  if (area == NULL) return 0;
  const lua_State *running = gco2th(gcref(G(L)->cur_L));
  for (const void *frame = running->cframe; frame != NULL; frame = cframe_prev(cframe_raw(frame)))
    if ((uintptr_t)cframe_raw(frame) >= stack) return (uintptr_t)cframe_raw(frame);
  return 0;
}

/* An address in the interpreter, at which its frame is as described. */
uintptr_t perigee_exit_in_interpreter(void) { return (uintptr_t)lj_vm_asm_begin + 1; }
