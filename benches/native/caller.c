// One HTTP request sent again and again, by each of some keep-alive connections: what an answer
// costs, as seen by a client that costs next to nothing itself.
//
//   caller HOST PORT REQUEST CONNECTIONS SECONDS REQUESTS
//
// REQUEST is a file with the whole request, headers included. Ends after SECONDS, or when REQUESTS
// answers have come if that is not 0. Prints the elapsed seconds on the first line, then the time
// of each answer in nanoseconds. An answer that is not 200 is an error.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "times.h"

static char request[65536];
static size_t request_length;
static struct sockaddr_in address;
static int64_t end;
static atomic_long left;

struct thread {
    pthread_t id;
    struct times times;
};

static int connected(void) {
    int socket_ = socket(AF_INET, SOCK_STREAM, 0);
    int yes = 1;
    if (socket_ < 0) fail("socket", errno);
    if (connect(socket_, (struct sockaddr *)&address, sizeof address) < 0) fail("connect", errno);
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return socket_;
}

// Reads one answer; its length is in its header.
static void answer(int socket_) {
    static _Thread_local char buffer[1 << 20];
    size_t have = 0;
    for (;;) {
        ssize_t got = read(socket_, buffer + have, sizeof buffer - 1 - have);
        if (got <= 0) fail("the answer ended early", got < 0 ? errno : 0);
        have += (size_t)got;
        buffer[have] = 0;
        char *body = strstr(buffer, "\r\n\r\n");
        if (!body) continue;
        if (strncmp(buffer, "HTTP/1.1 200", 12) != 0) fail(buffer, 0);
        char *length = strcasestr(buffer, "\r\ncontent-length:");
        if (!length || length > body) fail("the answer has no content-length", 0);
        size_t total = (size_t)(body + 4 - buffer) + strtoul(length + 17, NULL, 10);
        if (total >= sizeof buffer) fail("the answer is too long", 0);
        if (have > total) fail("the answer is longer than it says", 0);
        if (have == total) return;
    }
}

static void *loop(void *argument) {
    struct thread *thread = argument;
    int socket_ = connected();
    int64_t begin = now();
    while (begin < end && atomic_fetch_sub(&left, 1) > 0) {
        if (write(socket_, request, request_length) != (ssize_t)request_length) {
            fail("write", errno);
        }
        answer(socket_);
        int64_t after = now();
        keep(&thread->times, after - begin);
        begin = after;
    }
    close(socket_);
    return NULL;
}

int main(int count, char **arguments) {
    if (count != 7) fail("usage: caller HOST PORT REQUEST CONNECTIONS SECONDS REQUESTS", 0);
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)atoi(arguments[2]));
    if (inet_pton(AF_INET, arguments[1], &address.sin_addr) != 1) fail("not an IPv4 address", 0);
    FILE *file = fopen(arguments[3], "r");
    if (!file) fail(arguments[3], errno);
    request_length = fread(request, 1, sizeof request, file);
    int many = atoi(arguments[4]);
    long most = atol(arguments[6]);
    atomic_store(&left, most ? most : INT32_MAX);
    int64_t begin = now();
    end = begin + (int64_t)(atof(arguments[5]) * 1e9);
    struct thread *threads = calloc((size_t)many, sizeof *threads);
    for (int i = 0; i < many; i++) pthread_create(&threads[i].id, NULL, loop, &threads[i]);
    for (int i = 0; i < many; i++) pthread_join(threads[i].id, NULL);
    printf("%.6f\n", (double)(now() - begin) / 1e9);
    for (int i = 0; i < many; i++) print(&threads[i].times);
    return 0;
}
