// A program started with posix_spawn and waited for, over and over: what running it costs.
//
//   bare SECONDS THREADS PROGRAM [ARGUMENT ...]
//
// Prints the elapsed seconds on the first line, then the time of each run in nanoseconds.

#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "times.h"

extern char **environ;

struct thread {
    pthread_t id;
    char **command;
    int64_t end;
    struct times times;
};

static void *loop(void *argument) {
    struct thread *thread = argument;
    int64_t begin = now();
    do {
        pid_t pid;
        int status;
        int error = posix_spawn(&pid, thread->command[0], NULL, NULL, thread->command, environ);
        if (error != 0) fail(thread->command[0], error);
        if (waitpid(pid, &status, 0) < 0) fail("waitpid", errno);
        if (status != 0) fail("the program's status is not 0", 0);
        int64_t after = now();
        keep(&thread->times, after - begin);
        begin = after;
    } while (begin < thread->end);
    return NULL;
}

int main(int count, char **arguments) {
    if (count < 4) fail("usage: bare SECONDS THREADS PROGRAM [ARGUMENT ...]", 0);
    double seconds = atof(arguments[1]);
    int many = atoi(arguments[2]);
    struct thread *threads = calloc((size_t)many, sizeof *threads);
    int64_t begin = now();
    for (int i = 0; i < many; i++) {
        threads[i].command = arguments + 3;
        threads[i].end = begin + (int64_t)(seconds * 1e9);
        pthread_create(&threads[i].id, NULL, loop, &threads[i]);
    }
    for (int i = 0; i < many; i++) pthread_join(threads[i].id, NULL);
    printf("%.6f\n", (double)(now() - begin) / 1e9);
    for (int i = 0; i < many; i++) print(&threads[i].times);
    return 0;
}
