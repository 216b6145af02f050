/* fault_shim.c - see fault_shim.h. */
#define _GNU_SOURCE
#include "fault_shim.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

const fault_call fault_calls[FAULT_CALLS] = {
    {"fopen", {EMFILE, EACCES, ENOSPC}},
    {"read", {EIO, EINTR}},
    {"read: ends", {EIO}},
    {"write", {ENOSPC, EIO, EINTR}},
    {"write: half", {ENOSPC}},
    {"lseek", {EIO}},
    {"fclose", {EIO}},
    {"fflush", {ENOSPC}},
    {"open", {EMFILE}},
    {"fsync", {EIO, ENOSPC}},
    {"close", {EIO}},
    {"rename", {EACCES, EIO}},
    {"remove", {EACCES}},
    {"mkdir", {EACCES, ENOSPC}},
    {"stat", {EACCES, EIO}},
    {"access", {EACCES}},
    {"realpath", {EACCES}},
    {"setvbuf", {ENOMEM}},
    {"popen", {EMFILE}},
    {"pthread_create", {EAGAIN}},
    {"malloc", {ENOMEM}},
};

enum { MOST_EVENTS = 20000, MOST_BYTES = 64 << 20, MOST_DESCRIPTORS = 64 };

/* Shared with the children of fork(). */
static struct shared {
    fault now;
    int on, recording, failed, uses[FAULT_CALLS];
    long blocks, streams;
    int count; /* of events */
    size_t bytes;
    disk_event event[MOST_EVENTS];
    unsigned char data[MOST_BYTES];
} * shared;

static char path_of[MOST_DESCRIPTORS][120];

__attribute__((constructor)) static void share(void) {
    void *memory = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) abort();
    shared = (struct shared *)memory;
}

void fault_begin(const fault *f) {
    shared->now = *f;
    shared->failed = 0;
    memset(shared->uses, 0, sizeof shared->uses);
    shared->on = 1;
}

int fault_end(void) {
    shared->on = 0;
    return shared->failed;
}

int fault_pause(void) {
    const int on = shared->on;
    shared->on = 0;
    return on;
}

void fault_go_on(int paused) { shared->on = paused; }

int fault_uses(int call) { return shared->uses[call]; }
long fault_blocks(void) { return __atomic_load_n(&shared->blocks, __ATOMIC_SEQ_CST); }
long fault_streams(void) { return shared->streams; }

void fault_forget(long blocks, long streams) {
    shared->blocks = blocks;
    shared->streams = streams;
}

int fault_descriptors(void) {
    int n = 0;
    for (int k = 0; k < MOST_DESCRIPTORS; ++k) n += fcntl(k, F_GETFD) >= 0;
    return n;
}

/* Is this use of a call one that fails? errno says why. */
static int fails(int call) {
    if (!shared || !shared->on) return 0;
    const fault *f = &shared->now;
    const int use = __atomic_add_fetch(&shared->uses[call], 1, __ATOMIC_SEQ_CST);
    if (call != f->call || !f->use || use < f->use || (use > f->use && !f->for_good)) return 0;
    __atomic_add_fetch(&shared->failed, 1, __ATOMIC_SEQ_CST);
    errno = f->error;
    return 1;
}

/* -- the record -- */

void fault_record(int on) {
    if (on) shared->count = 0, shared->bytes = 0;
    shared->recording = on;
}

int fault_events(const disk_event **events) {
    *events = shared->event;
    return shared->count;
}

static void record(int what, const char *path, const char *to, off_t at, const void *data, size_t bytes) {
    if (!shared->recording || !shared->on) return;
    if (shared->count == MOST_EVENTS || shared->bytes + bytes > MOST_BYTES) abort();
    disk_event *e = &shared->event[shared->count++];
    e->what = what;
    snprintf(e->path, sizeof e->path, "%s", path);
    snprintf(e->to, sizeof e->to, "%s", to);
    e->at = (size_t)at;
    e->bytes = bytes;
    e->data = bytes ? (unsigned char *)memcpy(shared->data + shared->bytes, data, bytes) : NULL;
    shared->bytes += bytes;
}

static int keep_path(int descriptor, const char *path) {
    if (descriptor >= MOST_DESCRIPTORS) abort();
    if (descriptor >= 0) snprintf(path_of[descriptor], sizeof path_of[descriptor], "%s", path);
    return descriptor;
}

/* -- streams -- */

int __real_open(const char *path, int flags, ...);
int __real_close(int descriptor);
void *__real_malloc(size_t size);
void __real_free(void *block);

typedef struct cookie {
    int descriptor;
    FILE *stream;
    struct cookie *next;
} cookie;
static cookie *cookies; /* that are open; the programs under test open files on one thread */

static ssize_t read_cookie(void *user, char *to, size_t n) {
    if (fails(FAULT_READ)) return -1;
    if (fails(FAULT_SHORT_READ)) return 0;
    return read(((cookie *)user)->descriptor, to, n);
}

static ssize_t write_some(int descriptor, const char *from, size_t n) {
    const off_t at = lseek(descriptor, 0, fcntl(descriptor, F_GETFL) & O_APPEND ? SEEK_END : SEEK_CUR);
    const ssize_t written = write(descriptor, from, n);
    if (written > 0) record(DISK_WRITE, path_of[descriptor], "", at, from, (size_t)written);
    return written;
}

static ssize_t write_cookie(void *user, const char *from, size_t n) {
    const int descriptor = ((cookie *)user)->descriptor;
    size_t at = 0;
    if (fails(FAULT_WRITE)) return 0; /* of a cookie: an error */
    if (fails(FAULT_HALF_WRITE)) {
        const int error = errno;
        const ssize_t written = write_some(descriptor, from, n / 2);
        errno = error;
        return written < 0 ? 0 : written;
    }
    while (at < n) {
        const ssize_t written = write_some(descriptor, from + at, n - at);
        if (written <= 0) break;
        at += (size_t)written;
    }
    return (ssize_t)at;
}

static int seek_cookie(void *user, off64_t *offset, int whence) {
    if (fails(FAULT_SEEK)) return -1;
    const off64_t at = lseek64(((cookie *)user)->descriptor, *offset, whence);
    if (at >= 0) *offset = at;
    return at < 0 ? -1 : 0;
}

static int close_cookie(void *user) {
    cookie *c = (cookie *)user, **at = &cookies;
    const int failed = fails(FAULT_FCLOSE), error = errno, result = __real_close(c->descriptor);
    while (*at != c) at = &(*at)->next;
    *at = c->next;
    __real_free(c);
    --shared->streams;
    if (failed) errno = error;
    return failed ? -1 : result;
}

FILE *__wrap_fopen(const char *path, const char *mode) {
    const cookie_io_functions_t functions = {read_cookie, write_cookie, seek_cookie, close_cookie};
    const int update = strchr(mode, '+') != NULL;
    const char kept[] = {*mode, update ? '+' : '\0', '\0'};
    int flags = update ? O_RDWR : *mode == 'r' ? O_RDONLY : O_WRONLY;
    if (fails(FAULT_FOPEN)) return NULL;
    flags |= *mode == 'w' ? O_CREAT | O_TRUNC : *mode == 'a' ? O_CREAT | O_APPEND : 0;
    if (strchr(mode, 'x')) flags |= O_EXCL;
    const int existed = !access(path, F_OK);
    const int descriptor = keep_path(__real_open(path, flags | O_CLOEXEC, 0666), path);
    if (descriptor < 0) return NULL;
    if (!existed) record(DISK_CREATE, path, "", 0, NULL, 0);
    else if (flags & O_TRUNC) record(DISK_EMPTY, path, "", 0, NULL, 0);
    cookie *c = (cookie *)__real_malloc(sizeof *c);
    c->descriptor = descriptor;
    c->next = cookies;
    cookies = c;
    ++shared->streams;
    return c->stream = fopencookie(c, kept, functions);
}

int __real_fileno(FILE *stream);
int __wrap_fileno(FILE *stream) {
    for (cookie *c = cookies; c; c = c->next)
        if (c->stream == stream) return c->descriptor;
    return __real_fileno(stream);
}

int __real_fflush(FILE *stream);
int __wrap_fflush(FILE *stream) { return fails(FAULT_FFLUSH) ? EOF : __real_fflush(stream); }

int __real_setvbuf(FILE *stream, char *buffer, int mode, size_t size);
int __wrap_setvbuf(FILE *stream, char *buffer, int mode, size_t size) {
    return fails(FAULT_SETVBUF) ? -1 : __real_setvbuf(stream, buffer, mode, size);
}

FILE *__real_popen(const char *command, const char *mode);
FILE *__wrap_popen(const char *command, const char *mode) {
    return fails(FAULT_POPEN) ? NULL : __real_popen(command, mode);
}

/* -- files -- */

int __wrap_open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    const int mode = flags & O_CREAT ? va_arg(more, int) : 0;
    va_end(more);
    return fails(FAULT_OPEN) ? -1 : keep_path(__real_open(path, flags, mode), path);
}

/* The disk is not waited for: the record says what was to be on it. */
int __wrap_fsync(int descriptor) {
    if (fails(FAULT_FSYNC)) return -1;
    record(DISK_SYNC, path_of[descriptor], "", 0, NULL, 0);
    return 0;
}

int private_fsync(int descriptor);
int private_fsync(int descriptor) { return __wrap_fsync(descriptor); }

int __wrap_close(int descriptor) {
    const int failed = fails(FAULT_CLOSE), error = errno, result = __real_close(descriptor);
    if (failed) errno = error;
    return failed ? -1 : result;
}

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to) {
    const int result = fails(FAULT_RENAME) ? -1 : __real_rename(from, to);
    if (!result) record(DISK_RENAME, from, to, 0, NULL, 0);
    return result;
}

int __real_remove(const char *path);
int __wrap_remove(const char *path) {
    const int result = fails(FAULT_REMOVE) ? -1 : __real_remove(path);
    if (!result) record(DISK_REMOVE, path, "", 0, NULL, 0);
    return result;
}

int __real_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode) {
    const int result = fails(FAULT_MKDIR) ? -1 : __real_mkdir(path, mode);
    if (!result) record(DISK_MKDIR, path, "", 0, NULL, 0);
    return result;
}

int __real_stat(const char *path, struct stat *found);
int __wrap_stat(const char *path, struct stat *found) {
    return fails(FAULT_STAT) ? -1 : __real_stat(path, found);
}

int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode) { return fails(FAULT_ACCESS) ? -1 : __real_access(path, mode); }

char *__real_realpath(const char *path, char *whole);
char *__wrap_realpath(const char *path, char *whole) {
    return fails(FAULT_REALPATH) ? NULL : __real_realpath(path, whole);
}

/* -- threads and memory -- */

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *user);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *user) {
    return fails(FAULT_THREAD) ? errno : __real_pthread_create(thread, attributes, run, user);
}

static void *count_block(void *block) {
    if (block && shared) __atomic_add_fetch(&shared->blocks, 1, __ATOMIC_SEQ_CST);
    return block;
}

void *__wrap_malloc(size_t size) { return fails(FAULT_MEMORY) ? NULL : count_block(__real_malloc(size)); }

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size) {
    return fails(FAULT_MEMORY) ? NULL : count_block(__real_calloc(n, size));
}

void *__real_realloc(void *block, size_t size);
void *__wrap_realloc(void *block, size_t size) {
    if (fails(FAULT_MEMORY)) return NULL;
    void *moved = __real_realloc(block, size);
    return block ? moved : count_block(moved);
}

void __wrap_free(void *block) {
    if (block && shared) __atomic_sub_fetch(&shared->blocks, 1, __ATOMIC_SEQ_CST);
    __real_free(block);
}
