// Times that are kept until the end, so that telling them does not disturb taking them.

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct times {
    size_t count, room;
    int64_t *nanoseconds;
};

static inline void fail(const char *what, int error) {
    if (error) fprintf(stderr, "%s: %s\n", what, strerror(error));
    else fprintf(stderr, "%s\n", what);
    exit(1);
}

static inline int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static inline void keep(struct times *times, int64_t nanoseconds) {
    if (times->count == times->room) {
        times->room = times->room ? times->room * 2 : 4096;
        times->nanoseconds = realloc(times->nanoseconds, times->room * sizeof(int64_t));
        if (!times->nanoseconds) fail("realloc", errno);
    }
    times->nanoseconds[times->count++] = nanoseconds;
}

static inline void print(const struct times *times) {
    for (size_t i = 0; i < times->count; i++) printf("%lld\n", (long long)times->nanoseconds[i]);
}
