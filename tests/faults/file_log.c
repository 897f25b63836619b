/* Preloaded into a process, it writes down what that does to the files in one folder, in the order it is done.

   FILE_LOG_ROOT: the folder, without links in its path. FILE_LOG: the file that grows by a record for each operation:
   kind (1 byte), length of the path (2 bytes), offset (8), length of the data (8), path, data. Kinds: c created, m folder
   made, w written, t truncated to the offset, s synced, u unlinked, r renamed to the data, l linked to the data. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;


static int within(const char *path) {
    const char *root = getenv("FILE_LOG_ROOT");
    return root && strncmp(path, root, strlen(root)) == 0;
}

/* The path of a descriptor; 0 if it is none of the folder's, or its file is unlinked. */
static int path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return within(path) && !strstr(path, " (deleted)");
}

static void note(char kind, const char *path, uint64_t offset, const void *data, uint64_t length) {
    static int log_fd = -1;
    static pid_t owner;
    if (log_fd < 0 || owner != getpid()) {
        log_fd = (int)syscall(SYS_openat, AT_FDCWD, getenv("FILE_LOG"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        owner = getpid();
    }
    uint16_t path_length = (uint16_t)strlen(path);
    struct iovec parts[] = {{&kind, 1},         {&path_length, 2},          {&offset, 8},
                            {&length, 8},       {(void *)path, path_length}, {(void *)data, length}};
    if (writev(log_fd, parts, data ? 6 : 5) < 0) abort();
}

static int absolute(int folder, const char *name, char *path) {
    if (name[0] == '/') snprintf(path, PATH_MAX, "%s", name);
    else if (folder == AT_FDCWD) { char cwd[PATH_MAX]; if (!getcwd(cwd, sizeof cwd)) return 0; if (snprintf(path, PATH_MAX, "%s/%s", cwd, name) >= PATH_MAX) return 0; }
    else { char under[PATH_MAX]; if (!path_of(folder, under)) return 0; if (snprintf(path, PATH_MAX, "%s/%s", under, name) >= PATH_MAX) return 0; }
    return within(path);
}

static int opened(int folder, const char *name, int flags, mode_t mode) {
    char path[PATH_MAX];
    if (!absolute(folder, name, path) || !(flags & (O_CREAT | O_TRUNC)))
        return (int)syscall(SYS_openat, folder, name, flags, mode);
    pthread_mutex_lock(&lock);
    struct stat before;
    int there = stat(path, &before) == 0;
    int fd = (int)syscall(SYS_openat, folder, name, flags, mode);
    int saved = errno;
    if (fd >= 0 && !there) note('c', path, 0, NULL, 0);
    if (fd >= 0 && there && (flags & O_TRUNC) && S_ISREG(before.st_mode)) note('t', path, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    errno = saved;
    return fd;
}

#define MODE()                                                                                                         \
    mode_t mode = 0;                                                                                                   \
    if (flags & (O_CREAT | O_TMPFILE)) {                                                                               \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode = va_arg(rest, mode_t);                                                                                   \
        va_end(rest);                                                                                                  \
    }

int open(const char *name, int flags, ...) { MODE() return opened(AT_FDCWD, name, flags, mode); }
int open64(const char *name, int flags, ...) { MODE() return opened(AT_FDCWD, name, flags | O_LARGEFILE, mode); }
int openat(int folder, const char *name, int flags, ...) { MODE() return opened(folder, name, flags, mode); }
int openat64(int folder, const char *name, int flags, ...) { MODE() return opened(folder, name, flags | O_LARGEFILE, mode); }

static ssize_t written(int fd, const void *data, size_t length, int64_t offset) {
    char path[PATH_MAX];
    if (!path_of(fd, path))
        return offset < 0 ? syscall(SYS_write, fd, data, length) : syscall(SYS_pwrite64, fd, data, length, offset);
    pthread_mutex_lock(&lock);
    int64_t at = offset;
    if (offset < 0) {
        at = lseek(fd, 0, SEEK_CUR);
        if (fcntl(fd, F_GETFL) & O_APPEND) at = lseek(fd, 0, SEEK_END);
    }
    ssize_t done = offset < 0 ? syscall(SYS_write, fd, data, length) : syscall(SYS_pwrite64, fd, data, length, offset);
    int saved = errno;
    if (done > 0) note('w', path, (uint64_t)at, data, (uint64_t)done);
    pthread_mutex_unlock(&lock);
    errno = saved;
    return done;
}

ssize_t write(int fd, const void *data, size_t length) { return written(fd, data, length, -1); }
ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) { return written(fd, data, length, offset); }
ssize_t pwrite64(int fd, const void *data, size_t length, off64_t offset) { return written(fd, data, length, offset); }

/* All buffers in one record; `flags` may have it synced at once. */
static ssize_t written_all(int fd, const struct iovec *parts, int count, int64_t offset, int flags) {
    char path[PATH_MAX];
    if (!path_of(fd, path)) return syscall(SYS_pwritev2, fd, parts, count, offset, 0, flags);
    pthread_mutex_lock(&lock);
    ssize_t done = syscall(SYS_pwritev2, fd, parts, count, offset, 0, flags);
    int saved = errno;
    if (done > 0) {
        char *data = malloc((size_t)done);
        if (!data) abort();
        size_t at = 0;
        for (int n = 0; n < count && at < (size_t)done; n++) {
            size_t length = parts[n].iov_len < (size_t)done - at ? parts[n].iov_len : (size_t)done - at;
            memcpy(data + at, parts[n].iov_base, length);
            at += length;
        }
        note('w', path, (uint64_t)offset, data, (uint64_t)done);
        free(data);
        if (flags & RWF_DSYNC) note('s', path, 0, NULL, 0);
    }
    pthread_mutex_unlock(&lock);
    errno = saved;
    return done;
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) {
    return written_all(fd, parts, count, offset, 0);
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset) {
    return written_all(fd, parts, count, offset, 0);
}
ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t offset, int flags) {
    return written_all(fd, parts, count, offset, flags);
}
ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off64_t offset, int flags) {
    return written_all(fd, parts, count, offset, flags);
}

/* A file that was just created becomes zeros of this length. */
static int allocated(int fd, off_t offset, off_t length) {
    char path[PATH_MAX];
    long failed = syscall(SYS_fallocate, fd, 0, offset, length);
    if (failed) return errno;
    if (path_of(fd, path)) {
        pthread_mutex_lock(&lock);
        note('t', path, (uint64_t)(offset + length), NULL, 0);
        pthread_mutex_unlock(&lock);
    }
    return 0;
}
int posix_fallocate(int fd, off_t offset, off_t length) { return allocated(fd, offset, length); }
int posix_fallocate64(int fd, off64_t offset, off64_t length) { return allocated(fd, offset, length); }

#define AFTER(real_call, kind, path, offset, data, length)                                                             \
    pthread_mutex_lock(&lock);                                                                                         \
    int done = real_call;                                                                                              \
    int saved = errno;                                                                                                 \
    if (done == 0) note(kind, path, offset, data, length);                                                             \
    pthread_mutex_unlock(&lock);                                                                                       \
    errno = saved;                                                                                                     \
    return done

int ftruncate(int fd, off_t length) {
    char path[PATH_MAX];
    if (!path_of(fd, path)) return (int)syscall(SYS_ftruncate, fd, length);
    AFTER((int)syscall(SYS_ftruncate, fd, length), 't', path, (uint64_t)length, NULL, 0);
}
int ftruncate64(int fd, off64_t length) { return ftruncate(fd, length); }

int fsync(int fd) {
    char path[PATH_MAX];
    if (!path_of(fd, path)) return (int)syscall(SYS_fsync, fd);
    AFTER((int)syscall(SYS_fsync, fd), 's', path, 0, NULL, 0);
}
int fdatasync(int fd) {
    char path[PATH_MAX];
    if (!path_of(fd, path)) return (int)syscall(SYS_fdatasync, fd);
    AFTER((int)syscall(SYS_fdatasync, fd), 's', path, 0, NULL, 0);
}

int unlinkat(int folder, const char *name, int flags) {
    char path[PATH_MAX];
    if (!absolute(folder, name, path)) return (int)syscall(SYS_unlinkat, folder, name, flags);
    AFTER((int)syscall(SYS_unlinkat, folder, name, flags), 'u', path, 0, NULL, 0);
}
int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }
int rmdir(const char *name) { return unlinkat(AT_FDCWD, name, AT_REMOVEDIR); }

int renameat(int from, const char *name, int to, const char *other) {
    char path[PATH_MAX], target[PATH_MAX];
    if (!absolute(from, name, path) || !absolute(to, other, target)) return (int)syscall(SYS_renameat, from, name, to, other);
    AFTER((int)syscall(SYS_renameat, from, name, to, other), 'r', path, 0, target, strlen(target));
}
int rename(const char *name, const char *other) { return renameat(AT_FDCWD, name, AT_FDCWD, other); }

int linkat(int from, const char *name, int to, const char *other, int flags) {
    char path[PATH_MAX], target[PATH_MAX];
    if (!absolute(from, name, path) || !absolute(to, other, target)) return (int)syscall(SYS_linkat, from, name, to, other, flags);
    AFTER((int)syscall(SYS_linkat, from, name, to, other, flags), 'l', path, 0, target, strlen(target));
}
int link(const char *name, const char *other) { return linkat(AT_FDCWD, name, AT_FDCWD, other, 0); }

int mkdirat(int folder, const char *name, mode_t mode) {
    char path[PATH_MAX];
    if (!absolute(folder, name, path)) return (int)syscall(SYS_mkdirat, folder, name, mode);
    AFTER((int)syscall(SYS_mkdirat, folder, name, mode), 'm', path, 0, NULL, 0);
}
int mkdir(const char *name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }
