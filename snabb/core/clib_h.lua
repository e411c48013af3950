-- SPDX-License-Identifier: MIT
-- C declarations of functions of the C library that Snabb programs call through `ffi.C` without declaring them.

local ffi = require("ffi")

ffi.cdef[[
int usleep(unsigned int microseconds);
unsigned int sleep(unsigned int seconds);
void *memcpy(void *to, const void *from, size_t n);
void *memmove(void *to, const void *from, size_t n);
void *memset(void *at, int value, size_t n);
int memcmp(const void *a, const void *b, size_t n);
size_t strlen(const char *text);
char *strncpy(char *to, const char *from, size_t n);
char *strerror(int number);
void *malloc(size_t n);
void free(void *at);
unsigned int geteuid(void);
char *basename(char *path);
char *dirname(char *path);
int64_t readlink(const char *path, char *to, size_t n);
unsigned int alarm(unsigned int seconds);
unsigned int ualarm(unsigned int microseconds, unsigned int interval);
int strncasecmp(const char *a, const char *b, size_t n);
int64_t read(int file, void *to, size_t n);
int64_t write(int file, const void *from, size_t n);
int64_t pread(int file, void *to, size_t n, int64_t offset);
int64_t pwrite(int file, const void *from, size_t n, int64_t offset);
int close(int file);
int fork(void);
int inet_pton(int family, const char *text, void *address);
const char *inet_ntop(int family, const void *address, char *text, uint32_t size);
uint16_t htons(uint16_t);
uint16_t ntohs(uint16_t);
uint32_t htonl(uint32_t);
uint32_t ntohl(uint32_t);
]]

-- What Snabb has in C of its own: functions whose call is all that matters, as the compiler moves no load or store over
-- it.
ffi.cdef[[
void nop() __asm__("full_memory_barrier");
void prefetch_for_read(const void *) __asm__("full_memory_barrier");
void prefetch_for_write(const void *) __asm__("full_memory_barrier");
]]

return {}
