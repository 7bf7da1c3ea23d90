/* Shows a process the wall clock that a file says, in microseconds; it stands still until the file changes. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const long long *micros;

__attribute__((constructor)) static void open_clock(void) {
    const char *path = getenv("CLOCK_FILE");
    int file = path ? open(path, O_RDONLY) : -1;
    if (file >= 0) {
        void *page = mmap(0, sizeof *micros, PROT_READ, MAP_SHARED, file, 0);
        micros = page == MAP_FAILED ? 0 : page;
        close(file);
    }
}

int clock_gettime(clockid_t which, struct timespec *now) {
    if (!micros || (which != CLOCK_REALTIME && which != CLOCK_REALTIME_COARSE)) {
        return (int)syscall(SYS_clock_gettime, which, now);
    }
    now->tv_sec = *micros / 1000000;
    now->tv_nsec = *micros % 1000000 * 1000;
    return 0;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (at) {
        *at = exact.tv_sec;
    }
    return exact.tv_sec;
}
