/*
 * Turns the calls by which a process reads the wall clock and syncs its files into calls that a control page can skew, slow and count.
 *
 * Preloaded into servers and clients by LD_PRELOAD. The page is a file that the harness shares: it writes what is wanted, this writes
 * what was done. Without LOCKLAB_SHIM, or with a page that cannot be mapped, every call goes straight to the kernel.
 *
 * The kernel is asked by its numbers and never by dlsym: looking a symbol up allocates, and an allocator that asks for the time while it
 * starts (jemalloc does) would come back here before the answer is known.
 *
 * What is durable is known by length, since the files that matter only grow: a sync makes durable what the file held when it began. A file
 * that was there before counts as durable, one created here has nothing durable yet. Directories are taken as durable at once.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* The same numbers stand in chaos/src/servers/shim.rs. */
#define FILES 2040
#define NS 1000000000LL

struct file {
    uint64_t inode;
    int64_t durable;
};

struct page {
    uint64_t attached;    /* processes that mapped the page */
    uint64_t pid;         /* the last of them */
    int64_t offset_ns;    /* added to the wall clock */
    int64_t drift_ppb;    /* and so many billionths of the time since drift_from_ns */
    int64_t drift_from_ns;/* on the monotonic clock */
    uint64_t reads;       /* of a skewed clock */
    int64_t sync_ns;      /* every sync is late by this */
    uint64_t syncs;       /* that were late */
    uint64_t overflow;    /* files that found no place below */
    int64_t suspended_ns; /* added to the clock that goes on while a machine is suspended */
    uint64_t reserved[6];
    struct file files[FILES];
};

static struct page *page;

static int catch_calls(char **environment);

__attribute__((constructor)) static void attach(int count, char **words, char **environment) {
    (void)count, (void)words;
    const char *path = getenv("LOCKLAB_SHIM");
    if (!path) return;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0) return;
    void *map = mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (map == MAP_FAILED) return;
    page = map;
    /* A program whose calls cannot be caught counts as one that has not attached. */
    if (getenv("LOCKLAB_SHIM_CALLS") && !catch_calls(environment)) {
        page = NULL;
        return;
    }
    __atomic_store_n(&page->pid, (uint64_t)getpid(), __ATOMIC_RELAXED);
    __atomic_add_fetch(&page->attached, 1, __ATOMIC_RELEASE);
}

/* -- clocks -- */

static void shift(struct timespec *now, int64_t offset) {
    int64_t ns = now->tv_nsec + offset % NS;
    now->tv_sec += offset / NS;
    if (ns < 0) {
        ns += NS;
        now->tv_sec -= 1;
    } else if (ns >= NS) {
        ns -= NS;
        now->tv_sec += 1;
    }
    now->tv_nsec = ns;
}

static void skew(struct timespec *now) {
    if (!page || !now) return;
    int64_t offset = __atomic_load_n(&page->offset_ns, __ATOMIC_RELAXED);
    int64_t drift = __atomic_load_n(&page->drift_ppb, __ATOMIC_RELAXED);
    if (!offset && !drift) return;
    __atomic_add_fetch(&page->reads, 1, __ATOMIC_RELAXED);
    if (drift) {
        struct timespec steady;
        syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &steady);
        int64_t since = steady.tv_sec * NS + steady.tv_nsec - __atomic_load_n(&page->drift_from_ns, __ATOMIC_RELAXED);
        offset += (int64_t)((__int128)since * drift / NS);
    }
    shift(now, offset);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int done = (int)syscall(SYS_clock_gettime, clock, now);
    if (done == 0 && clock == CLOCK_BOOTTIME && page && now) {
        shift(now, __atomic_load_n(&page->suspended_ns, __ATOMIC_RELAXED));
    }
#ifdef SKEW_MONOTONIC /* for tests of harnesses on machines of their own */
    if (done == 0 && clock == CLOCK_MONOTONIC) skew(now);
#endif
    if (done == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) skew(now);
    return done;
}

/* Declared as never given NULL, but callers that want the zone alone do. */
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    if (zone) syscall(SYS_gettimeofday, NULL, zone);
    if (now) {
        struct timespec exact;
        syscall(SYS_clock_gettime, CLOCK_REALTIME, &exact);
        skew(&exact);
        now->tv_sec = exact.tv_sec;
        now->tv_usec = exact.tv_nsec / 1000;
    }
    return 0;
}

time_t time(time_t *now) {
    struct timespec exact;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &exact);
    skew(&exact);
    if (now) *now = exact.tv_sec;
    return exact.tv_sec;
}

int timespec_get(struct timespec *now, int base) {
    if (base != TIME_UTC) return 0;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, now);
    skew(now);
    return base;
}

/* -- files -- */

static struct file *entry(uint64_t inode, int add) {
    for (int i = 0; i < FILES; i++) {
        struct file *file = &page->files[i];
        uint64_t found = __atomic_load_n(&file->inode, __ATOMIC_ACQUIRE);
        if (found == 0) {
            if (!add) return NULL;
            /* Another thread may take the place first: then `found` says for which file. */
            if (__atomic_compare_exchange_n(&file->inode, &found, inode, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return file;
        }
        if (found == inode) return file;
    }
    if (add) __atomic_add_fetch(&page->overflow, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void nothing_durable(int fd) {
    struct stat is;
    if (fstat(fd, &is) != 0 || !S_ISREG(is.st_mode)) return;
    struct file *file = entry(is.st_ino, 1);
    if (file) __atomic_store_n(&file->durable, 0, __ATOMIC_RELEASE);
}

static int opened(int dir, const char *path, int flags, mode_t mode) {
    int fresh = page && (flags & O_CREAT) && syscall(SYS_faccessat, dir, path, F_OK) != 0;
    int fd = (int)syscall(SYS_openat, dir, path, flags, mode);
    if (fd >= 0 && page && (fresh || (flags & O_TRUNC))) nothing_durable(fd);
    return fd;
}

#define MODE_OF(flags, mode)                                  \
    mode_t mode = 0;                                          \
    if (((flags) & O_CREAT) || ((flags) & O_TMPFILE) == O_TMPFILE) { \
        va_list rest;                                         \
        va_start(rest, flags);                                \
        mode = va_arg(rest, unsigned int);                    \
        va_end(rest);                                         \
    }

int open(const char *path, int flags, ...) {
    MODE_OF(flags, mode)
    return opened(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    MODE_OF(flags, mode)
    return opened(AT_FDCWD, path, flags, mode);
}

int openat(int dir, const char *path, int flags, ...) {
    MODE_OF(flags, mode)
    return opened(dir, path, flags, mode);
}

int openat64(int dir, const char *path, int flags, ...) {
    MODE_OF(flags, mode)
    return opened(dir, path, flags, mode);
}

static int shortened(int fd, off_t length) {
    int done = (int)syscall(SYS_ftruncate, fd, length);
    struct stat is;
    if (done == 0 && page && fstat(fd, &is) == 0) {
        struct file *file = entry(is.st_ino, 0);
        if (file && __atomic_load_n(&file->durable, __ATOMIC_ACQUIRE) > length) {
            __atomic_store_n(&file->durable, length, __ATOMIC_RELEASE);
        }
    }
    return done;
}

int ftruncate(int fd, off_t length) { return shortened(fd, length); }
int ftruncate64(int fd, off64_t length) { return shortened(fd, length); }

static void be_late(void) {
    int64_t late = __atomic_load_n(&page->sync_ns, __ATOMIC_RELAXED);
    if (late <= 0) return;
    struct timespec wait = {late / NS, late % NS};
    while (syscall(SYS_nanosleep, &wait, &wait) != 0) {}
    __atomic_add_fetch(&page->syncs, 1, __ATOMIC_RELAXED);
}

static int synced(long call, int fd) {
    if (!page) return (int)syscall(call, fd);
    be_late();
    /* Before the call: what is written while it runs may miss it. */
    struct stat is;
    int known = fstat(fd, &is) == 0 && S_ISREG(is.st_mode);
    int done = (int)syscall(call, fd);
    if (done == 0 && known) {
        struct file *file = entry(is.st_ino, 1);
        int64_t before = file ? __atomic_load_n(&file->durable, __ATOMIC_ACQUIRE) : 0;
        while (file && before < is.st_size &&
               !__atomic_compare_exchange_n(&file->durable, &before, is.st_size, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {}
    }
    return done;
}

int fsync(int fd) { return synced(SYS_fsync, fd); }
int fdatasync(int fd) { return synced(SYS_fdatasync, fd); }

/* -- programs that ask the kernel themselves -- */

/*
 * A program in Go calls no function of the C library: a filter hands its calls to threads of this library. It reads clocks through a page of
 * the kernel (vDSO) without any call; with that page hidden before the program begins, it asks the kernel.
 */
#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#define ARCHITECTURE 0
#endif
/* Of Linux 5.19: a signal to a thread whose call is being answered waits, unless it kills. */
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif
/* More than syncs that are under way at a time, so that clocks are answered meanwhile. */
#define THREADS 8

static int caught = -1;

static void *answer(void *unused) {
    (void)unused;
    for (;;) {
        struct seccomp_notif asked = {0};
        struct seccomp_notif_resp reply = {0};
        if (ioctl(caught, SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0) {
            if (errno == EINTR || errno == ENOENT) continue;
            return NULL;
        }
        reply.id = asked.id;
        reply.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        if (asked.data.nr != SYS_clock_gettime) {
            be_late();
        } else if (__atomic_load_n(&page->offset_ns, __ATOMIC_RELAXED) || __atomic_load_n(&page->drift_ppb, __ATOMIC_RELAXED)) {
            /* Asked by the one call that is not caught. */
            struct timeval now;
            syscall(SYS_gettimeofday, &now, NULL);
            struct timespec *said = (struct timespec *)asked.data.args[1];
            struct timespec wrong = {now.tv_sec, now.tv_usec * 1000};
            skew(&wrong);
            *said = wrong;
            reply.flags = 0;
        }
        ioctl(caught, SECCOMP_IOCTL_NOTIF_SEND, &reply);
    }
}

static int catch_calls(char **environment) {
#define CALL(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF)
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
    struct sock_filter lines[] = {
        LOAD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        LOAD(nr),
        CALL(SYS_fsync),
        CALL(SYS_fdatasync),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        LOAD(args[0]),
        CALL(CLOCK_REALTIME),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof lines / sizeof *lines, lines};
    unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;
    if (!ARCHITECTURE || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 0;
    caught = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &filter);
    if (caught < 0) caught = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter);
    if (caught < 0) return 0;
    /* Signals are for the program's own threads. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int started = 0;
    for (pthread_t thread; started < THREADS && pthread_create(&thread, NULL, answer, NULL) == 0; started++) {}
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    while (*environment) environment++;
    for (Elf64_auxv_t *entry = (Elf64_auxv_t *)(environment + 1); entry->a_type != AT_NULL; entry++) {
        if (entry->a_type == AT_SYSINFO_EHDR) entry->a_type = AT_IGNORE;
    }
    return started == THREADS;
}
