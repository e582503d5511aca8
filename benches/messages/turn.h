/* What a measured program is told, and how it answers: lines over a Unix socket, so that who has no turn sleeps. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* A turn of one operation: `OPERATION ALGORITHMS N REPETITIONS`; without repetitions numbers are compared, and nothing is timed. */
struct turn {
    char operation[32], algorithms[128];
    size_t count; /* of doubles: N by N */
    int repetitions;
};

static FILE *told, *answers;

static inline void fail(const char *what) {
    perror(what);
    exit(1);
}

/* Connects, and says which rank it is. */
static inline void begin_turns(const char *path, int rank) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) fail(path);
    told = fdopen(fd, "r");
    answers = fdopen(dup(fd), "w");
    fprintf(answers, "%d\n", rank);
    fflush(answers);
}

/* The next turn; 0 at the end. */
static inline int next_turn(struct turn *turn) {
    size_t n;
    if (fscanf(told, "%31s %127s %zu %d", turn->operation, turn->algorithms, &n, &turn->repetitions) != 4) return 0;
    turn->count = n * n;
    return 1;
}

/* The seconds that each repetition took, or whether numbers were equal. */
static inline void answer(const struct turn *turn, const double *seconds, int equal) {
    fprintf(answers, "{\"equal\": %s, \"seconds\": [", equal ? "true" : "false");
    for (int i = 0; i < turn->repetitions; i++) fprintf(answers, "%s%.9f", i ? ", " : "", seconds[i]);
    fprintf(answers, "]}\n");
    fflush(answers);
}

static inline double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

/* Memory that was touched once. */
static inline double *numbers(size_t count) {
    size_t bytes = (count + 1) * sizeof(double);
    double *memory = malloc(bytes);
    if (!memory) fail("malloc");
    memset(memory, 0, bytes);
    return memory;
}
