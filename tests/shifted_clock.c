/* Preloaded into a server, this sets its clock: CLOCK_REALTIME is shifted by the nanoseconds that stand, as a native 64-bit
   number, in the file that CLOCK_SHIFT_FILE names, and by others as soon as others stand there. No other clock is touched. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *shift_ns;

__attribute__((constructor)) static void find_shift(void) {
    const char *name = getenv("CLOCK_SHIFT_FILE");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *place = mmap(NULL, sizeof *shift_ns, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (place != MAP_FAILED)
        shift_ns = place;
}

int clock_gettime(clockid_t which, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, which, now);
    if (!failed && shift_ns && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) {
        int64_t ns = (int64_t)now->tv_sec * 1000000000 + now->tv_nsec + *shift_ns;
        now->tv_sec = ns / 1000000000;
        now->tv_nsec = ns % 1000000000;
    }
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec exact;
    int failed = clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *now) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now)
        *now = exact.tv_sec;
    return exact.tv_sec;
}
