/* Has a process fail to read one page of a file, as a disk with a bad sector does. Preloaded; BAD_FILE: the path of the
file, BAD_AT: where the page begins. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int is_bad(int fd, size_t count, long long at)
{
    const char *name = getenv("BAD_FILE"), *begin = getenv("BAD_AT");
    char link[64], path[PATH_MAX];
    if (!name || !begin)
        return 0;
    long long page = atoll(begin);
    if (at >= page + 4096 || page >= at + (long long)count)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    return strcmp(path, name) == 0;
}

ssize_t pread64(int fd, void *data, size_t count, off64_t at)
{
    ssize_t (*real)(int, void *, size_t, off64_t) = dlsym(RTLD_NEXT, "pread64");
    if (is_bad(fd, count, at)) {
        errno = EIO;
        return -1;
    }
    return real(fd, data, count, at);
}

ssize_t pread(int fd, void *data, size_t count, off_t at)
{
    return pread64(fd, data, count, at);
}
