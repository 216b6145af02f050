/* What tests use of POSIX beside the C library. On Windows there are stand-ins, so that the tests compile; a test that
   needs what Windows lacks is skipped when it calls one of those. Include this after test.h. */
#ifndef PPO_TEST_SYSTEM_H
#define PPO_TEST_SYSTEM_H

#include <dirent.h>
#include <locale.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#ifndef _WIN32
#include <sys/resource.h>
#include <sys/wait.h>
#else
#include <direct.h>
#include <io.h>

typedef unsigned long rlim_t;
struct rlimit {
    rlim_t rlim_cur, rlim_max;
};
enum { RLIMIT_FSIZE, RLIMIT_NOFILE, SIGXFSZ = SIGABRT, SIGKILL = SIGTERM, SIGPIPE = SIGABRT };
#define WIFSIGNALED(status)  (status)
#define WIFEXITED(status)    (status)
#define WEXITSTATUS(status)  (status)
#define WTERMSIG(status)     (status)

static inline int getrlimit(int what, struct rlimit *limit) {
    (void)what, (void)limit;
    skip();
    return -1;
}
static inline int setrlimit(int what, const struct rlimit *limit) { return (void)what, (void)limit, -1; }
static inline int symlink(const char *to, const char *from) {
    (void)to, (void)from;
    skip();
    return -1;
}
static inline int fork(void) {
    skip();
    return -1;
}
static inline int pipe(int ends[2]) {
    (void)ends;
    skip();
    return -1;
}
static inline int mkfifo(const char *path, int mode) {
    (void)path, (void)mode;
    skip();
    return -1;
}
static inline int scandir(const char *path, struct dirent ***entry, void *filter, void *order) {
    (void)path, (void)entry, (void)filter, (void)order;
    skip();
    return -1;
}
#define alphasort            NULL
#define _SC_NPROCESSORS_ONLN 0
static inline long sysconf(int what) { return what + 2; }
static inline int fsync(int descriptor) { return _commit(descriptor); }
static inline long pread(int descriptor, void *to, unsigned n, long at) {
    return _lseek(descriptor, at, SEEK_SET) == at ? _read(descriptor, to, n) : -1;
}
static inline int seteuid(int user) { return user ? -1 : 0; }
static inline int kill(int child, int sig) { return (void)child, (void)sig, -1; }
static inline int waitpid(int child, int *how, int options) { return (void)child, (void)how, options; }
static inline int geteuid(void) { return 0; }
static inline unsigned alarm(unsigned seconds) { return seconds; }
static inline int setenv(const char *name, const char *value, int replace) {
    return replace ? _putenv_s(name, value) : 0;
}
static inline int unsetenv(const char *name) { return _putenv_s(name, ""); }
static inline char *mkdtemp(char *path) { return _mktemp(path) && _mkdir(path) == 0 ? path : NULL; }
#define mkdir(path, mode)    _mkdir(path)
#endif

/* A path of this process, in memory where that can be, for a file that a test writes again and again. */
static inline const char *scratch_path(const char *name) {
    static char path[4][128];
    static int next;
    const char *folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(path[next = (next + 1) % 4], sizeof path[0], "%s/ppo-test-%ld-%s", folder, (long)getpid(), name);
    return path[next];
}

typedef struct file_bytes {
    size_t n;
    unsigned char *data;
} file_bytes;

static inline file_bytes bytes_of(const char *path) {
    file_bytes bytes = {0, NULL};
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    fseek(in, 0, SEEK_END);
    bytes.n = (size_t)ftell(in);
    rewind(in);
    bytes.data = (unsigned char *)malloc(bytes.n + 1);
    assert_int_equal(fread(bytes.data, 1, bytes.n, in), bytes.n);
    fclose(in);
    return bytes;
}

static inline void put_bytes(const char *path, const void *data, size_t n) {
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(data, 1, n, out), n);
    assert_int_equal(fclose(out), 0);
}

#endif
