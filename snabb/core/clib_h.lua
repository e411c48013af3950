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
]]

return {}
