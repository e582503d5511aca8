// Browsers that watch one job, by server-sent events: what they are told, and when.
//
//   viewers HOST PORT PATH COUNT
//
// Opens COUNT connections that ask for PATH, and prints `open SECONDS` once each has been told something. Then it reads until a
// line comes on stdin, and prints what came since the line before: `read EVENTS BYTES ENDED` (ENDED: connections that the server
// has ended), and for each line of the log that all viewers have been told of since `line NUMBER FIRST LAST`. The job's program
// writes lines `NUMBER NANOSECONDS`, the time by CLOCK_MONOTONIC; FIRST and LAST are microseconds from then until the first and the
// last viewer had it.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "times.h"

enum { LINES = 1 << 20, CHUNK = 1 << 16, AT_ONCE = 256 };

struct viewer {
    int socket;
    bool is_told;
    // What came of a line that has not ended yet.
    char *rest;
    size_t length;
};

struct line {
    int64_t written, first, last;
    int count;
};

static struct viewer *viewers;
static struct line *lines;
static int count, told, ended, poll_;
static long events, bytes, first_line = LINES, next_line;

static void line_told(long number, int64_t written, int64_t at) {
    if (number < 0 || number >= LINES) fail("a line has a number that is too large", 0);
    struct line *line = &lines[number];
    if (line->count++ == 0) line->first = at;
    line->written = written;
    line->last = at;
    if (number < first_line) first_line = number;
    if (number >= next_line) next_line = number + 1;
}

// A line of the stream; of its data those in which the job's program tells the time.
static void read_line(struct viewer *viewer, char *line, int64_t at) {
    if (strncmp(line, "event: ", 7) == 0) {
        events++;
        if (!viewer->is_told) told++;
        viewer->is_told = true;
    }
    char *text = strstr(line, "\"text\":\"");
    if (strncmp(line, "data: {", 7) != 0 || !text) return;
    for (text += 8; *text >= '0' && *text <= '9';) {
        char *rest;
        long number = strtol(text, &rest, 10);
        long long written = strtoll(rest, &rest, 10);
        if (strncmp(rest, "\\n", 2) != 0) break;
        line_told(number, written, at);
        text = rest + 2;
    }
}

// The heads of chunks are lines of their own, which mean nothing here: no line of an event is cut by one.
static void receive(struct viewer *viewer) {
    static char buffer[2 * CHUNK + 1];
    for (;;) {
        memcpy(buffer, viewer->rest, viewer->length);
        ssize_t got = read(viewer->socket, buffer + viewer->length, CHUNK);
        if (got < 0 && errno == EAGAIN) return;
        if (got < 0 && errno != ECONNRESET) fail("read", errno);
        if (got <= 0) {
            ended++;
            close(viewer->socket);
            viewer->socket = -1;
            return;
        }
        int64_t at = now();
        bytes += got;
        size_t have = viewer->length + (size_t)got;
        buffer[have] = 0;
        char *begin = buffer;
        for (char *end; (end = memchr(begin, '\n', have - (size_t)(begin - buffer))); begin = end + 1) {
            *end = 0;
            if (strncmp(begin, "HTTP/1.1 ", 9) == 0 && strncmp(begin + 9, "200", 3) != 0) fail(begin, 0);
            read_line(viewer, begin, at);
        }
        viewer->length = have - (size_t)(begin - buffer);
        if (viewer->length > CHUNK) fail("a line is too long", 0);
        viewer->rest = realloc(viewer->rest, viewer->length + 1);
        memcpy(viewer->rest, begin, viewer->length);
        if (got < CHUNK) return;
    }
}

static void open_viewer(struct viewer *viewer, const struct sockaddr_in *address, const char *request) {
    viewer->socket = socket(AF_INET, SOCK_STREAM, 0);
    if (viewer->socket < 0) fail("socket", errno);
    if (connect(viewer->socket, (const struct sockaddr *)address, sizeof *address) < 0) fail("connect", errno);
    ssize_t length = (ssize_t)strlen(request);
    if (write(viewer->socket, request, (size_t)length) != length) fail("write", errno);
    fcntl(viewer->socket, F_SETFL, O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = viewer};
    if (epoll_ctl(poll_, EPOLL_CTL_ADD, viewer->socket, &event) < 0) fail("epoll_ctl", errno);
}

// Reads what there is, after waiting for so long; whether stdin has something too.
static bool wait_for_more(int milliseconds) {
    struct epoll_event ready[AT_ONCE];
    bool is_asked = false;
    int many = epoll_wait(poll_, ready, AT_ONCE, milliseconds);
    for (int i = 0; i < many; i++) {
        struct viewer *viewer = ready[i].data.ptr;
        if (!viewer) is_asked = true;
        else if (viewer->socket >= 0) receive(viewer);
    }
    return is_asked;
}

static void report(void) {
    printf("read %ld %ld %d\n", events, bytes, ended);
    for (long number = first_line; number < next_line; number++) {
        struct line *line = &lines[number];
        // Those that came with the first event of some were written before these looked.
        if (line->count != count) continue;
        printf("line %ld %lld %lld\n", number, (long long)(line->first - line->written) / 1000,
               (long long)(line->last - line->written) / 1000);
    }
    printf("end\n");
    fflush(stdout);
    events = bytes = 0;
    memset(lines, 0, (size_t)next_line * sizeof *lines);
    first_line = LINES;
    next_line = 0;
}

int main(int many, char **arguments) {
    if (many != 5) fail("usage: viewers HOST PORT PATH COUNT", 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(arguments[2]))};
    if (inet_pton(AF_INET, arguments[1], &address.sin_addr) != 1) fail("not an IPv4 address", 0);
    count = atoi(arguments[4]);
    struct rlimit open_files;
    getrlimit(RLIMIT_NOFILE, &open_files);
    open_files.rlim_cur = open_files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &open_files);
    char request[4096];
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: %s:%s\r\nAccept: text/event-stream\r\n\r\n", arguments[3],
             arguments[1], arguments[2]);
    viewers = calloc((size_t)count, sizeof *viewers);
    lines = calloc(LINES, sizeof *lines);
    poll_ = epoll_create1(0);
    int64_t begin = now();
    for (int i = 0; i < count; i++) {
        open_viewer(&viewers[i], &address, request);
        wait_for_more(0);
    }
    while (told < count && !ended) wait_for_more(100);
    if (ended) fail("the server has ended a connection", 0);
    printf("open %.3f\n", (double)(now() - begin) / 1e9);
    fflush(stdout);
    // From here on lines that everybody is told of.
    memset(lines, 0, LINES * sizeof *lines);
    struct epoll_event asked = {.events = EPOLLIN, .data.ptr = NULL};
    if (epoll_ctl(poll_, EPOLL_CTL_ADD, STDIN_FILENO, &asked) < 0) fail("epoll_ctl", errno);
    for (;;) {
        char line[64];
        if (!wait_for_more(-1)) continue;
        if (read(STDIN_FILENO, line, sizeof line) <= 0) return 0;
        report();
    }
}
