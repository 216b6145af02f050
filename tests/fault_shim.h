/* fault_shim.h - calls of the C library and the system, each use of which can be made to fail, and a record of what reaches
   the disk. The linker puts fault_shim.c between the program and the C library (--wrap, see trust.mk). Streams of fopen()
   are cookies, so that a read, a write, a seek or a close below stdio fails as well. What a fork() of the program counts
   and records is seen by both. */
#ifndef FAULT_SHIM_H
#define FAULT_SHIM_H

#include <stddef.h>

enum {
    FAULT_FOPEN,
    FAULT_READ,
    FAULT_SHORT_READ, /* the file ends early */
    FAULT_WRITE,
    FAULT_HALF_WRITE, /* half of the bytes are written, then it fails */
    FAULT_SEEK,
    FAULT_FCLOSE,
    FAULT_FFLUSH,
    FAULT_OPEN,
    FAULT_FSYNC,
    FAULT_CLOSE,
    FAULT_RENAME,
    FAULT_REMOVE,
    FAULT_MKDIR,
    FAULT_STAT,
    FAULT_ACCESS,
    FAULT_REALPATH,
    FAULT_SETVBUF,
    FAULT_POPEN,
    FAULT_THREAD,
    FAULT_MEMORY,
    FAULT_CALLS
};

typedef struct fault_call {
    const char *name;
    int errors[3]; /* errno that it may leave; 0: no more of them */
} fault_call;
extern const fault_call fault_calls[FAULT_CALLS];

typedef struct fault {
    int call, use, error; /* use: 1, 2, ... of the call; 0: none fails */
    int for_good;         /* 1: all later uses fail, too */
} fault;

/* Counts uses, and lets those of a fault fail, until the end, which returns how many failed. */
void fault_begin(const fault *f);
int fault_end(void);
int fault_uses(int call); /* since the beginning */
int fault_pause(void);    /* for what is not to be tested; returns what fault_go_on() needs */
void fault_go_on(int paused);

/* Blocks of memory and streams that are in use, and descriptors below 64. */
long fault_blocks(void), fault_streams(void);
int fault_descriptors(void);
void fault_forget(long blocks, long streams); /* sets the numbers after a leak was told */

/* What the disk is told between fault_record(1) and fault_record(0), in the order of the calls. */
enum { DISK_CREATE, DISK_EMPTY, DISK_WRITE, DISK_SYNC, DISK_RENAME, DISK_REMOVE, DISK_MKDIR };
typedef struct disk_event {
    int what;
    char path[120], to[120]; /* from the folder in which it was called; to: of a rename */
    size_t at, bytes;        /* of a write */
    const unsigned char *data;
} disk_event;
void fault_record(int on);
int fault_events(const disk_event **events);

#endif
