/* fault_disk.c - see fault_disk.h. */
#define _GNU_SOURCE
#include "fault_disk.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_NAMES = 128, MOST_FILES = 512, FOLDER = -1, NONE = -2 };

typedef struct name {
    char path[120];
    int file; /* or FOLDER */
} name;

typedef struct names {
    int count;
    name list[MOST_NAMES];
} names;

struct disk {
    names at_first;
    int files, at_first_files; /* numbers of files: those at first, then those that were created */
    unsigned char *bytes[MOST_FILES];
    size_t size[MOST_FILES];

    /* while power is lost */
    const disk_event *event;
    int *file_of;           /* [events] which the event is about; FOLDER: a folder, or none */
    int synced[MOST_FILES]; /* events before this one are on the disk */
    int variant[MOST_FILES];
    uint64_t *seen;
    int seen_count, seen_room;
    unsigned random;
};

/* -- the file system -- */

static int is_draft(const char *path) {
    const size_t n = strlen(path);
    return n > 4 && !strcmp(path + n - 4, ".tmp");
}

static void walk(const char *folder, void (*visit)(const char *, const unsigned char *, size_t, void *),
                 void *user) {
    DIR *list = opendir(*folder ? folder : ".");
    for (const struct dirent *at; list && (at = readdir(list)) != NULL;) {
        char path[120];
        struct stat found;
        snprintf(path, sizeof path, "%s%s%.64s", folder, *folder ? "/" : "", at->d_name);
        if (!strcmp(at->d_name, ".") || !strcmp(at->d_name, "..") || lstat(path, &found)) continue;
        if (S_ISDIR(found.st_mode)) {
            visit(path, NULL, 0, user);
            walk(path, visit, user);
            continue;
        }
        unsigned char *bytes = (unsigned char *)calloc((size_t)found.st_size + 1, 1);
        FILE *in = S_ISREG(found.st_mode) ? fopen(path, "rb") : NULL;
        const size_t size = in && bytes ? fread(bytes, 1, (size_t)found.st_size, in) : 0;
        if (in) fclose(in);
        visit(path, bytes, size, user);
        free(bytes);
    }
    if (list) closedir(list);
}

void disk_walk(void (*visit)(const char *, const unsigned char *, size_t, void *), void *user) {
    walk("", visit, user);
}

static void forget(const char *path, const unsigned char *bytes, size_t size, void *user) {
    (void)size;
    names *folders = (names *)user;
    if (bytes) remove(path);
    else snprintf(folders->list[folders->count++].path, sizeof folders->list->path, "%s", path);
}

void disk_clear(void) {
    names folders;
    folders.count = 0;
    disk_walk(forget, &folders);
    while (folders.count) rmdir(folders.list[--folders.count].path);
}

/* -- names -- */

static int find(const names *all, const char *path) {
    for (int k = 0; k < all->count; ++k)
        if (!strcmp(all->list[k].path, path)) return k;
    return NONE;
}

static void set(names *all, const char *path, int file) {
    const int k = find(all, path);
    if (k == NONE && all->count == MOST_NAMES) abort();
    name *at = &all->list[k == NONE ? all->count++ : k];
    snprintf(at->path, sizeof at->path, "%s", path);
    at->file = file;
}

static void unset(names *all, const char *path) {
    const int k = find(all, path);
    if (k != NONE) all->list[k] = all->list[--all->count];
}

/* The path without slashes at its end. */
static const char *plain(const char *path, char text[120]) {
    snprintf(text, 120, "%s", path);
    for (size_t n = strlen(text); n > 1 && text[n - 1] == '/';) text[--n] = 0;
    return text;
}

/* Is `folder` where the name of a path stands? */
static int is_in(const char *path, const char *folder) {
    char text[120];
    const char *slash = strrchr(path, '/');
    const size_t n = slash ? (size_t)(slash - path) : 0;
    plain(folder, text);
    return slash ? strlen(text) == n && !strncmp(path, text, n) : !strcmp(text, ".");
}

static int has_folder(const names *all, const char *path) {
    const char *slash = strrchr(path, '/');
    for (int k = 0; slash && k < all->count; ++k)
        if (all->list[k].file == FOLDER && is_in(path, all->list[k].path))
            return has_folder(all, all->list[k].path);
    return !slash;
}

static void take_up(const char *path, const unsigned char *bytes, size_t size, void *user) {
    disk *d = (disk *)user;
    int file = FOLDER;
    if (bytes) {
        if ((file = d->files++) == MOST_FILES) abort();
        d->bytes[file] = (unsigned char *)malloc(size + 1);
        memcpy(d->bytes[file], bytes, size);
        d->size[file] = size;
    }
    set(&d->at_first, path, file);
}

disk *disk_open(void) {
    disk *d = (disk *)calloc(1, sizeof *d);
    disk_walk(take_up, d);
    d->at_first_files = d->files;
    return d;
}

void disk_free(disk *d) {
    for (int k = 0; k < d->at_first_files; ++k) free(d->bytes[k]);
    free(d->file_of);
    free(d->seen);
    free(d);
}

/* -- the record -- */

static int is_name(const disk_event *e) {
    return e->what == DISK_CREATE || e->what == DISK_RENAME || e->what == DISK_REMOVE ||
           e->what == DISK_MKDIR;
}

static void apply(names *all, const disk_event *e, int file) {
    if (e->what == DISK_CREATE || e->what == DISK_MKDIR) set(all, e->path, file);
    if (e->what == DISK_REMOVE || e->what == DISK_RENAME) unset(all, e->path);
    if (e->what == DISK_RENAME) set(all, e->to, file);
}

/* Finds out which file each event is about. */
static void follow(disk *d, int count) {
    names now = d->at_first;
    char text[120];
    d->files = d->at_first_files;
    free(d->file_of);
    d->file_of = (int *)malloc(((size_t)count + 1) * sizeof *d->file_of);
    for (int i = 0; i < count; ++i) {
        const disk_event *e = &d->event[i];
        const int k = find(&now, plain(e->path, text));
        d->file_of[i] = k == NONE ? FOLDER : now.list[k].file;
        if (e->what == DISK_CREATE && (d->file_of[i] = d->files++) == MOST_FILES) abort();
        apply(&now, e, d->file_of[i]);
    }
}

/* -- states -- */

enum { ALL, NO, FIRST_HALF, LAST, ZEROS, VARIANTS };

static int is_data(const disk_event *e) { return e->what == DISK_WRITE || e->what == DISK_EMPTY; }

/* What a file has after the first n events; the caller frees it. */
static unsigned char *content(const disk *d, int file, int n, size_t *size) {
    size_t most = file < d->at_first_files ? d->size[file] : 0;
    int later = 0, seen = 0;
    for (int i = 0; i < n; ++i) {
        if (d->file_of[i] != file || !is_data(&d->event[i])) continue;
        if (d->event[i].at + d->event[i].bytes > most) most = d->event[i].at + d->event[i].bytes;
        later += i >= d->synced[file];
    }
    unsigned char *bytes = (unsigned char *)calloc(most + 1, 1);
    *size = file < d->at_first_files ? d->size[file] : 0;
    if (*size) memcpy(bytes, d->bytes[file], *size);
    for (int i = 0; i < n; ++i) {
        const disk_event *e = &d->event[i];
        if (d->file_of[i] != file || !is_data(e)) continue;
        int zeros = 0;
        if (i >= d->synced[file]) {
            const int how = d->variant[file], k = seen++;
            if (how == NO || (how == FIRST_HALF && k >= later / 2) || (how == LAST && k != later - 1))
                continue;
            zeros = how == ZEROS;
        }
        if (e->what == DISK_EMPTY) memset(bytes, 0, *size), *size = 0;
        else if (zeros) memset(bytes + e->at, 0, e->bytes);
        else memcpy(bytes + e->at, e->data, e->bytes);
        if (e->at + e->bytes > *size) *size = e->at + e->bytes;
    }
    return bytes;
}

static uint64_t hash(uint64_t h, const void *bytes, size_t n) {
    for (size_t k = 0; k < n; ++k) h = (h ^ ((const unsigned char *)bytes)[k]) * 1099511628211u;
    return h;
}

/* Is this state new? */
static int is_new(disk *d, uint64_t state) {
    for (int k = 0; k < d->seen_count; ++k)
        if (d->seen[k] == state) return 0;
    if (d->seen_count == d->seen_room) {
        d->seen_room = 2 * d->seen_room + 64;
        d->seen = (uint64_t *)realloc(d->seen, (size_t)d->seen_room * sizeof *d->seen);
    }
    d->seen[d->seen_count++] = state;
    return 1;
}

static int by_path(const void *a, const void *b) {
    return strcmp(((const name *)a)->path, ((const name *)b)->path);
}

/* Writes the state with these names after n events, or with write 0 only returns its hash. */
static uint64_t put(const disk *d, const names *all, int n, int write) {
    uint64_t state = 0;
    for (int k = 0; k < all->count; ++k) {
        const name *at = &all->list[k];
        size_t size = 0;
        if (!has_folder(all, at->path)) continue;
        unsigned char *bytes = at->file == FOLDER ? NULL : content(d, at->file, n, &size);
        if (!is_draft(at->path))
            state +=
                hash(hash(14695981039346656037u + (uint64_t)(at->file != FOLDER), at->path, strlen(at->path)),
                     bytes, size);
        if (write && !bytes) mkdir(at->path, 0777);
        else if (write) {
            FILE *out = fopen(at->path, "wb");
            if (!out || fwrite(bytes, 1, size, out) != size || fclose(out)) abort();
        }
        free(bytes);
    }
    return state;
}

static unsigned draw(disk *d, unsigned n) {
    d->random = d->random * 1664525u + 1013904223u;
    return (unsigned)(((uint64_t)d->random * n) >> 32);
}

/* What is not on the disk yet after the first n events. */
enum { MOST_PENDING = 24 };
typedef struct moment {
    int n, names, files;
    int name[MOST_PENDING]; /* events */
    int file[MOST_PENDING];
} moment;

static int is_synced(const disk *d, int i, int n) {
    const disk_event *e = &d->event[i];
    const char *path = e->what == DISK_RENAME ? e->to : e->path;
    for (int k = i + 1; k < n; ++k)
        if (d->event[k].what == DISK_SYNC && d->file_of[k] == FOLDER && is_in(path, d->event[k].path))
            return 1;
    return 0;
}

static void find_pending(disk *d, moment *m) {
    memset(d->synced, 0, sizeof d->synced);
    m->names = m->files = 0;
    for (int i = 0; i < m->n; ++i)
        if (d->event[i].what == DISK_SYNC && d->file_of[i] >= 0) d->synced[d->file_of[i]] = i;
    for (int i = 0; i < m->n; ++i) {
        const int file = d->file_of[i];
        int known = 0;
        if (m->names == MOST_PENDING || m->files == MOST_PENDING) abort();
        if (is_name(&d->event[i]) && !is_synced(d, i, m->n)) m->name[m->names++] = i;
        for (int k = 0; k < m->files; ++k) known |= m->file[k] == file;
        if (is_data(&d->event[i]) && file >= 0 && i >= d->synced[file] && !known) m->file[m->files++] = file;
    }
}

/* The names that the disk has, if of those that are pending only some are there, by the bits of `which`. */
static void choose_names(const disk *d, const moment *m, unsigned which, names *all) {
    int k = 0;
    *all = d->at_first;
    for (int i = 0; i < m->n; ++i) {
        const int pending = k < m->names && m->name[k] == i;
        if (is_name(&d->event[i]) && (!pending || which >> k & 1)) apply(all, &d->event[i], d->file_of[i]);
        k += pending;
    }
    qsort(all->list, (size_t)all->count, sizeof *all->list, by_path); /* a folder before what is in it */
}

const char *disk_lose_power(disk *d, const disk_event *events, int count, const char *folder, int most,
                            unsigned seed, const char *(*check)(int, void *), void *user, int *states) {
    char here[4096];
    const char *wrong = NULL;
    moment m;
    if (!getcwd(here, sizeof here)) abort();
    d->event = events;
    d->seen_count = 0;
    d->random = seed;
    follow(d, count);
    for (m.n = count; m.n >= 0 && !wrong; --m.n) {
        find_pending(d, &m);
        double all = 1;
        for (int k = 0; k < m.names; ++k) all *= 2;
        for (int k = 0; k < m.files; ++k) all *= VARIANTS;
        const int tries = all < most ? (int)all : most;
        for (int t = 0; t < tries && !wrong; ++t) {
            names chosen;
            unsigned rest = (unsigned)t, which = all < most ? rest : draw(d, 1u << m.names);
            rest >>= m.names;
            for (int k = 0; k < m.files; ++k, rest /= VARIANTS)
                d->variant[m.file[k]] = (int)(all < most ? rest % VARIANTS : draw(d, VARIANTS));
            choose_names(d, &m, which, &chosen);
            ++*states;
            if (!is_new(d, put(d, &chosen, m.n, 0))) continue;
            if (chdir(folder)) abort();
            disk_clear();
            put(d, &chosen, m.n, 1);
            wrong = check(m.n == count, user);
            if (chdir(here)) abort();
        }
    }
    return wrong;
}
