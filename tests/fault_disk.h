/* fault_disk.h - what a power failure may leave of a folder, from a record of the calls (fault_shim.h). A file's bytes are
   on the disk after fsync() of the file, names after fsync() of their folder. Until then names may be there or not, in any
   combination, and of the writes since the last fsync() all, none, the first half, or the last alone, or zeros in their
   place. */
#ifndef FAULT_DISK_H
#define FAULT_DISK_H

#include "fault_shim.h"

typedef struct disk disk;

/* Takes up the files of the current folder, and of those in it, as what the disk has. */
disk *disk_open(void);
void disk_free(disk *d);

/* The power fails after each of the calls. Every state that differs from the others in more than drafts (.tmp) is written to
   `folder`, and check() is called in it. ended 1: the operation had returned. check() returns NULL or what is wrong, of which
   the first is returned. most: the number of states of a moment; if there are more, they are drawn by `seed`. *states is
   increased by all of them. */
const char *disk_lose_power(disk *d, const disk_event *events, int count, const char *folder, int most,
                            unsigned seed, const char *(*check)(int ended, void *user), void *user,
                            int *states);

/* Removes all that is in the current folder. */
void disk_clear(void);

/* Calls visit() for each file (bytes; 0 after them) and folder (bytes NULL) below the current folder, for a folder before
   what is in it. */
void disk_walk(void (*visit)(const char *path, const unsigned char *bytes, size_t size, void *user),
               void *user);

#endif
