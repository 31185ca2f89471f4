/* Counts the system calls that change, open or read files below one directory, fails the n-th, and keeps a journal of all.
 *
 * Preloaded under Python, Arrow and the JVM. What it is to do stands in a file that all processes map (struct control); the
 * journal tells `tests/faults/disk.py` what a power cut would leave. Calls that fail by themselves are not written down; what a
 * process sends to others is, so that one sees what was on disk when somebody was told of it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define SHORT_WRITE (-1)
#define POWER_CUT (-2)
#define KILL (-3)
#define HOLD (-4)

struct control {
    int64_t armed;   /* 0: nothing is counted */
    int64_t calls;   /* counted since it was armed */
    int64_t fail_at; /* the call that fails; 0: none */
    int64_t error;   /* an errno, or one of the above */
    int64_t lasting; /* every later call fails, too */
    int64_t faults;  /* failed so far */
    int64_t dead;    /* the power is off */
    int64_t shadows; /* copies made of flushed files */
    int64_t sends;   /* what is sent counts as two calls, one before and one after */
    int64_t changes; /* only calls that change what is there are counted: no flushes, and no opening of what is there */
    int64_t held;    /* whoever calls waits until this is 0 again */
    int64_t reads;   /* only readings, and openings of what is there, are counted */
    int64_t victim;  /* the process that KILL ends, and whose sends to local sockets count; 0: whoever calls, and all sends */
};

static struct control *control;
static char root[PATH_MAX];
static size_t root_length;
static char journal_path[PATH_MAX];
static __thread int inside;
static long long clock_ahead; /* seconds by which this process takes its clock to be ahead of the machine's */

#define REAL(result, name, ...) \
    static result (*real_##name)(__VA_ARGS__); \
    if (!real_##name) real_##name = dlsym(RTLD_NEXT, #name);

__attribute__((constructor)) static void begin(void) {
    const char *where = getenv("TEST_FAULT_CONTROL"), *below = getenv("TEST_FAULT_ROOT");
    const char *journal = getenv("TEST_FAULT_JOURNAL"), *ahead = getenv("TEST_FAULT_CLOCK");
    if (ahead) clock_ahead = atoll(ahead);
    if (!where || !below) return;
    int file = syscall(SYS_openat, AT_FDCWD, where, O_RDWR | O_CLOEXEC, 0);
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    syscall(SYS_close, file);
    if (mapped == MAP_FAILED) return;
    snprintf(root, sizeof root, "%s", below);
    root_length = strlen(root);
    if (journal) snprintf(journal_path, sizeof journal_path, "%s", journal);
    control = mapped;
}

static int is_below(const char *path) {
    return !strncmp(path, root, root_length) && (path[root_length] == '/' || !path[root_length]);
}

static int of_handle(int handle, char *out) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, out, PATH_MAX - 1);
    if (length < 0) return 0;
    out[length] = 0;
    return is_below(out);
}

/* The absolute path of a name in a directory; whether it is below the root. */
static int resolved(int directory, const char *path, char *out) {
    if (!path) return 0;
    if (path[0] == '/') {
        snprintf(out, PATH_MAX, "%s", path);
    } else {
        char base[PATH_MAX];
        if (directory == AT_FDCWD) {
            if (!getcwd(base, sizeof base)) return 0;
        } else {
            char link[64];
            snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
            ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, base, PATH_MAX - 1);
            if (length < 0) return 0;
            base[length] = 0;
        }
        if ((size_t)snprintf(out, PATH_MAX, "%s/%s", base, path) >= PATH_MAX) return 0;
    }
    return is_below(out);
}

static int watching(void) { return control && !inside && (control->armed || control->dead); }

static void noted(char what, uint64_t inode, const char *one, const char *other);

static void wait_while_held(void) {
    struct timespec moment = {0, 2000000};
    while (__atomic_load_n(&control->held, __ATOMIC_SEQ_CST)) nanosleep(&moment, NULL);
}

enum kind { CHANGE, OPENING, FLUSH, READING };

/* Whether calls of a kind are counted now: readings only where they are asked for, and then nothing that changes anything. */
static int is_counted(enum kind kind) {
    if (control->reads) return kind == READING || kind == OPENING;
    return kind == CHANGE || (kind != READING && !control->changes);
}

/* Count a call on a path; 1 where it must fail, with errno set; 2 where it writes a part only. */
static int counted(int writes, const char *path) {
    if (control->dead) {
        kill(getpid(), SIGKILL);
        for (;;) pause();
    }
    wait_while_held();
    int64_t number = __atomic_add_fetch(&control->calls, 1, __ATOMIC_SEQ_CST), at = control->fail_at;
    if (!at || number < at || (number > at && !control->lasting)) return 0;
    __atomic_add_fetch(&control->faults, 1, __ATOMIC_SEQ_CST);
    char who[24];
    snprintf(who, sizeof who, "%d", (int)getpid());
    noted('X', (uint64_t)number, path, who);
    if (control->error == POWER_CUT) {
        control->dead = 1;
        kill(getpid(), SIGKILL);
        for (;;) pause();
    }
    if (control->error == HOLD) {
        control->held = 1;
        wait_while_held();
        return 0;
    }
    if (control->error == KILL) {
        pid_t victim = control->victim ? (pid_t)control->victim : getpid();
        kill(victim, SIGKILL);
        if (victim != getpid()) return 0;
        for (;;) pause();
    }
    if (control->error == SHORT_WRITE) {
        if (writes) return 2;
        errno = ENOSPC;
        return 1;
    }
    errno = (int)control->error;
    return 1;
}

static void noted(char what, uint64_t inode, const char *one, const char *other) {
    if (!journal_path[0]) return;
    int kept = errno;
    char line[2 * PATH_MAX + 64];
    int length = snprintf(line, sizeof line, "%c\t%llu\t%s\t%s\n", what, (unsigned long long)inode, one, other ? other : "");
    int file = syscall(SYS_openat, AT_FDCWD, journal_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (file >= 0) {
        syscall(SYS_write, file, line, length);
        syscall(SYS_close, file);
    }
    errno = kept;
}

static uint64_t inode_of(const char *path) {
    struct stat found;
    int kept = errno;
    uint64_t inode = syscall(SYS_newfstatat, AT_FDCWD, path, &found, AT_SYMLINK_NOFOLLOW) ? 0 : found.st_ino;
    errno = kept;
    return inode;
}

/* The time of day */

int clock_gettime(clockid_t clock, struct timespec *out) {
    int done = syscall(SYS_clock_gettime, clock, out);
    if (!done && clock == CLOCK_REALTIME) out->tv_sec += clock_ahead;
    return done;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}

/* Sending */

#define MOST_SENT 8000

static void sent(const void *data, size_t size) {
    char text[MOST_SENT + 1];
    size_t length = size < MOST_SENT ? size : MOST_SENT;
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = ((const unsigned char *)data)[i];
        text[i] = byte > ' ' && byte < 127 ? (char)byte : ' ';
    }
    text[length] = 0;
    noted('Q', 0, text, NULL);
}

/* Whether a message counts: of a server with a victim's name only what it says to its Postgres, not its answers to clients. */
static int counts(int handle) {
    struct sockaddr to;
    socklen_t length = sizeof to;
    if (!control->sends) return 0;
    if (!control->victim) return 1;
    return control->victim == getpid() && !getpeername(handle, &to, &length) && to.sa_family == AF_UNIX;
}

ssize_t send(int handle, const void *data, size_t size, int flags) {
    REAL(ssize_t, send, int, const void *, size_t, int)
    int seen = watching();
    if (seen) sent(data, size);
    if (seen && counts(handle)) counted(0, "before a message");
    ssize_t done = real_send(handle, data, size, flags);
    if (seen && counts(handle)) counted(0, "after a message");
    return done;
}

ssize_t sendto(int handle, const void *data, size_t size, int flags, const struct sockaddr *to, socklen_t length) {
    REAL(ssize_t, sendto, int, const void *, size_t, int, const struct sockaddr *, socklen_t)
    if (watching()) sent(data, size);
    return real_sendto(handle, data, size, flags, to, length);
}

/* Opening */

static int opened(int directory, const char *path, int flags, mode_t mode, int (*call)(int, const char *, int, mode_t)) {
    char full[PATH_MAX];
    if (!watching() || !resolved(directory, path, full)) return call(directory, path, flags, mode);
    int fresh = (flags & O_CREAT) && !inode_of(full);
    if (is_counted(fresh || (flags & O_TRUNC) ? CHANGE : OPENING) && counted(0, full)) return -1;
    int handle = call(directory, path, flags, mode);
    if (handle >= 0 && fresh) noted('C', inode_of(full), full, NULL);
    else if (handle >= 0 && (flags & O_TRUNC)) noted('T', inode_of(full), full, NULL);
    return handle;
}

static int plain_open(int directory, const char *path, int flags, mode_t mode) {
    return syscall(SYS_openat, directory, path, flags, mode);
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | __O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open(const char *path, int flags, ...) { MODE(flags) return opened(AT_FDCWD, path, flags, mode, plain_open); }
int open64(const char *path, int flags, ...) { MODE(flags) return opened(AT_FDCWD, path, flags | O_LARGEFILE, mode, plain_open); }
int openat(int directory, const char *path, int flags, ...) { MODE(flags) return opened(directory, path, flags, mode, plain_open); }
int openat64(int directory, const char *path, int flags, ...) { MODE(flags) return opened(directory, path, flags | O_LARGEFILE, mode, plain_open); }
int creat(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode, plain_open); }
int creat64(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode, plain_open); }

/* Writing */

static ssize_t half(size_t size) { return size > 1 ? (ssize_t)(size / 2) : (ssize_t)size; }

#define WRITING(handle) \
    char full[PATH_MAX]; \
    int fate = 0; \
    if (watching() && is_counted(CHANGE) && of_handle(handle, full)) fate = counted(1, full); \
    if (fate == 1) return -1;

ssize_t write(int handle, const void *data, size_t size) {
    REAL(ssize_t, write, int, const void *, size_t)
    WRITING(handle)
    return real_write(handle, data, fate == 2 ? (size_t)half(size) : size);
}

ssize_t pwrite(int handle, const void *data, size_t size, off_t at) {
    REAL(ssize_t, pwrite, int, const void *, size_t, off_t)
    WRITING(handle)
    return real_pwrite(handle, data, fate == 2 ? (size_t)half(size) : size, at);
}

ssize_t pwrite64(int handle, const void *data, size_t size, off64_t at) {
    REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t)
    WRITING(handle)
    return real_pwrite64(handle, data, fate == 2 ? (size_t)half(size) : size, at);
}

ssize_t writev(int handle, const struct iovec *parts, int count) {
    REAL(ssize_t, writev, int, const struct iovec *, int)
    WRITING(handle)
    if (fate == 2 && count > 0) return write(handle, parts[0].iov_base, half(parts[0].iov_len));
    return real_writev(handle, parts, count);
}

int ftruncate(int handle, off_t size) {
    REAL(int, ftruncate, int, off_t)
    WRITING(handle)
    return real_ftruncate(handle, size);
}

int ftruncate64(int handle, off64_t size) {
    REAL(int, ftruncate64, int, off64_t)
    WRITING(handle)
    return real_ftruncate64(handle, size);
}

/* Reading */

#define READING_OF(handle) \
    char full[PATH_MAX]; \
    if (watching() && is_counted(READING) && of_handle(handle, full) && counted(0, full)) return -1;

ssize_t read(int handle, void *data, size_t size) {
    REAL(ssize_t, read, int, void *, size_t)
    READING_OF(handle)
    return real_read(handle, data, size);
}

ssize_t pread(int handle, void *data, size_t size, off_t at) {
    REAL(ssize_t, pread, int, void *, size_t, off_t)
    READING_OF(handle)
    return real_pread(handle, data, size, at);
}

ssize_t pread64(int handle, void *data, size_t size, off64_t at) {
    REAL(ssize_t, pread64, int, void *, size_t, off64_t)
    READING_OF(handle)
    return real_pread64(handle, data, size, at);
}

ssize_t readv(int handle, const struct iovec *parts, int count) {
    REAL(ssize_t, readv, int, const struct iovec *, int)
    READING_OF(handle)
    return real_readv(handle, parts, count);
}

ssize_t preadv(int handle, const struct iovec *parts, int count, off_t at) {
    REAL(ssize_t, preadv, int, const struct iovec *, int, off_t)
    READING_OF(handle)
    return real_preadv(handle, parts, count, at);
}

ssize_t preadv64(int handle, const struct iovec *parts, int count, off64_t at) {
    REAL(ssize_t, preadv64, int, const struct iovec *, int, off64_t)
    READING_OF(handle)
    return real_preadv64(handle, parts, count, at);
}

/* Flushing: what a file holds now is copied aside, as what a power cut leaves of it. */

static void flushed(int handle, const char *full) {
    struct stat found;
    if (!journal_path[0] || fstat(handle, &found)) return;
    if (S_ISDIR(found.st_mode)) {
        noted('E', found.st_ino, full, NULL);
        return;
    }
    char copy[PATH_MAX + 32], link[64], number[32], buffer[65536];
    snprintf(number, sizeof number, "%lld", (long long)__atomic_add_fetch(&control->shadows, 1, __ATOMIC_SEQ_CST));
    snprintf(copy, sizeof copy, "%s.%s", journal_path, number);
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    int source = syscall(SYS_openat, AT_FDCWD, link, O_RDONLY | O_CLOEXEC, 0);
    int target = syscall(SYS_openat, AT_FDCWD, copy, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    ssize_t length;
    while (source >= 0 && target >= 0 && (length = syscall(SYS_read, source, buffer, sizeof buffer)) > 0)
        syscall(SYS_write, target, buffer, length);
    if (source >= 0) syscall(SYS_close, source);
    if (target >= 0) syscall(SYS_close, target);
    noted('S', found.st_ino, full, number);
}

#define FLUSHING(name) \
    int name(int handle) { \
        REAL(int, name, int) \
        char full[PATH_MAX]; \
        int seen = watching() && of_handle(handle, full); \
        if (seen && is_counted(FLUSH) && counted(0, full)) { \
            noted('F', 0, full, NULL); \
            return -1; \
        } \
        int done = real_##name(handle); \
        if (seen && !done) flushed(handle, full); \
        return done; \
    }
FLUSHING(fsync)
FLUSHING(fdatasync)

/* Names */

static int two(char what, int from, const char *old, int to, const char *new, int (*call)(int, const char *, int, const char *, int), int flags) {
    char one[PATH_MAX] = "", other[PATH_MAX] = "";
    int seen = 0, second = 0;
    if (watching()) {
        int first = resolved(from, old, one);
        second = resolved(to, new, other);
        seen = first || second;
    }
    if (seen && is_counted(CHANGE) && counted(0, second ? other : one)) return -1;
    uint64_t inode = seen ? inode_of(one) : 0;
    int done = call(from, old, to, new, flags);
    if (seen && !done) noted(what, inode, one, other);
    return done;
}

static int plain_rename(int from, const char *old, int to, const char *new, int flags) { return syscall(SYS_renameat2, from, old, to, new, flags); }
static int plain_link(int from, const char *old, int to, const char *new, int flags) { return syscall(SYS_linkat, from, old, to, new, flags); }

int rename(const char *old, const char *new) { return two('R', AT_FDCWD, old, AT_FDCWD, new, plain_rename, 0); }
int renameat(int from, const char *old, int to, const char *new) { return two('R', from, old, to, new, plain_rename, 0); }
int renameat2(int from, const char *old, int to, const char *new, unsigned int flags) { return two('R', from, old, to, new, plain_rename, (int)flags); }
int link(const char *old, const char *new) { return two('L', AT_FDCWD, old, AT_FDCWD, new, plain_link, 0); }
int linkat(int from, const char *old, int to, const char *new, int flags) { return two('L', from, old, to, new, plain_link, flags); }

static int one_name(char what, int directory, const char *path, int (*call)(int, const char *, int), int argument) {
    char full[PATH_MAX];
    int seen = watching() && resolved(directory, path, full);
    if (seen && is_counted(CHANGE) && counted(0, full)) return -1;
    uint64_t inode = seen && what == 'U' ? inode_of(full) : 0;
    int done = call(directory, path, argument);
    if (seen && !done) noted(what, what == 'M' ? inode_of(full) : inode, full, NULL);
    return done;
}

static int plain_unlink(int directory, const char *path, int flags) { return syscall(SYS_unlinkat, directory, path, flags); }
static int plain_mkdir(int directory, const char *path, int mode) { return syscall(SYS_mkdirat, directory, path, mode); }

int unlink(const char *path) { return one_name('U', AT_FDCWD, path, plain_unlink, 0); }
int unlinkat(int directory, const char *path, int flags) { return one_name('U', directory, path, plain_unlink, flags); }
int rmdir(const char *path) { return one_name('U', AT_FDCWD, path, plain_unlink, AT_REMOVEDIR); }
int remove(const char *path) {
    struct stat found;
    if (!lstat(path, &found) && S_ISDIR(found.st_mode)) return rmdir(path);
    return unlink(path);
}
int mkdir(const char *path, mode_t mode) { return one_name('M', AT_FDCWD, path, plain_mkdir, (int)mode); }
int mkdirat(int directory, const char *path, mode_t mode) { return one_name('M', directory, path, plain_mkdir, (int)mode); }
