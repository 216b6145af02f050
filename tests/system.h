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
enum { RLIMIT_FSIZE, RLIMIT_NOFILE, SIGXFSZ = SIGABRT, SIGKILL = SIGTERM };
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
static inline int  fsync(int descriptor) { return _commit(descriptor); }
static inline long pread(int descriptor, void *to, unsigned n, long at) {
    return _lseek(descriptor, at, SEEK_SET) == at ? _read(descriptor, to, n) : -1;
}
static inline int      seteuid(int user) { return user ? -1 : 0; }
static inline int      kill(int child, int sig) { return (void)child, (void)sig, -1; }
static inline int      waitpid(int child, int *how, int options) { return (void)child, (void)how, options; }
static inline int      geteuid(void) { return 0; }
static inline unsigned alarm(unsigned seconds) { return seconds; }
static inline int      setenv(const char *name, const char *value, int replace) {
         return replace ? _putenv_s(name, value) : 0;
}
static inline int   unsetenv(const char *name) { return _putenv_s(name, ""); }
static inline char *mkdtemp(char *path) { return _mktemp(path) && _mkdir(path) == 0 ? path : NULL; }
#define mkdir(path, mode)    _mkdir(path)
#endif

#endif
