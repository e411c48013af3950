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
#include "lj_ccall.h"
#include "lj_dispatch.h"
#include "lj_frame.h"
#include "lj_jit.h"
#include "lj_vm.h"
#include "lua.h"
#include "luajit.h"

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

/* Where LuaJIT's frames lie. Its machine code has no description of its frames. Its assembly has one, which holds only
 * while the stack pointer is at the interpreter's frame. LuaJIT knows where that is: `cframe` of the coroutine.
 *
 * All of this reads the VM from a signal handler on the VM's own thread. */

/* Links only with the LuaJIT whose headers these are. */
static __attribute__((used)) void (*const version)(void) = LUAJIT_VERSION_SYM;

/* The longest frame of machine code: spilled values, and what the way out of it saves. A frame further away is not
 * the one in which it runs. */
enum { LONGEST_FRAME = 2048 };

/* The stack pointer of the interpreter in whose frame code of `coroutine` runs above `stack`; 0 if there is none. */
static uintptr_t interpreter_under(const lua_State *coroutine, uintptr_t stack) {
  for (const void *frame = coroutine->cframe; frame != NULL; frame = cframe_prev(cframe_raw(frame))) {
    uintptr_t at = (uintptr_t)cframe_raw(frame);
    if (at >= stack) return at - stack <= LONGEST_FRAME ? at : 0;
  }
  return 0;
}

static const lua_State *running(lua_State *L) {
  return gcref(G(L)->cur_L) != NULL ? gco2th(gcref(G(L)->cur_L)) : NULL;
}

/* The same for code at `at`; 0 if that is no machine code of this VM. */
uintptr_t perigee_exit_interpreter(lua_State *L, uintptr_t at, uintptr_t stack) {
  /* Each area begins with a link to the one before (lj_mcode.c, MCLink). */
  struct link {
    struct link *next;
    size_t size;
  };
  const struct link *area = (const struct link *)L2J(L)->mcarea;
  while (area != NULL && !(at >= (uintptr_t)area && at < (uintptr_t)area + area->size)) area = area->next;
  return area != NULL && running(L) != NULL ? interpreter_under(running(L), stack) : 0;
}

/* Whether `at` is on the way out of machine code, which saves all registers above the interpreter's frame. */
int perigee_exit_leaves_machine_code(uintptr_t at) {
  return at >= (uintptr_t)lj_vm_exit_handler && at <= (uintptr_t)lj_vm_exit_interp;
}

/* The same for a call of that way out: `coroutine` is what it keeps in a register (vm_*.dasc, L:RB and L). */
uintptr_t perigee_exit_interpreter_of(const lua_State *coroutine, uintptr_t stack) {
  return interpreter_under(coroutine, stack);
}

/* Whether the description of frames holds for a thread that was interrupted at `at`. Only in LuaJIT's assembly it may
 * not. */
int perigee_exit_is_described(lua_State *L, uintptr_t at, uintptr_t stack) {
  if (at < (uintptr_t)lj_vm_asm_begin || at >= (uintptr_t)lj_vm_ffi_call) return 1;
  return running(L) != NULL && (uintptr_t)cframe_raw(running(L)->cframe) == stack;
}

/* An address in the interpreter, at which its frame is as described. */
uintptr_t perigee_exit_in_interpreter(void) { return (uintptr_t)lj_vm_asm_begin + 4; }

/* The size of that frame. */
uintptr_t perigee_exit_frame_size(void) { return CFRAME_SIZE; }
