/* raw SOCKET RANK ADDRESS PORT: PingPong and Ping*Pong of two processes over a socket that blocks, with nothing around the
 * numbers. Rank 0 listens at the address, and connects to nobody. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "turn.h"

enum { WINDOW = 10 };

static int stream;

static int opened(int rank, const char *host, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, host, &address.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (rank == 0) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 1)) fail("listen");
        fd = accept(fd, NULL, NULL);
    } else {
        while (connect(fd, (struct sockaddr *)&address, sizeof address)) {
            close(fd);
            usleep(10000);
            fd = socket(AF_INET, SOCK_STREAM, 0);
        }
    }
    if (fd < 0) fail("accept");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

/* A message of no numbers is a byte. */
static void send_all(const void *data, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t count = write(stream, (const char *)data + done, bytes - done);
        if (count <= 0) fail("write");
        done += count;
    }
}

static void receive_all(void *data, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t count = read(stream, (char *)data + done, bytes - done);
        if (count <= 0) fail("read");
        done += count;
    }
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    int rank = atoi(argv[2]);
    struct turn turn;
    stream = opened(rank, argv[3], atoi(argv[4]));
    begin_turns(argv[1], rank);
    while (next_turn(&turn)) {
        int messages = strcmp(turn.operation, "pingpong") ? WINDOW : 1, equal = 1;
        size_t bytes = turn.count ? turn.count * sizeof(double) : 1;
        double *data = numbers(turn.count), *got = numbers(turn.count);
        double *seconds = malloc((turn.repetitions + 1) * sizeof *seconds);
        for (size_t i = 0; rank == 0 && i < turn.count; i++) data[i] = i;
        for (int i = -1; i < turn.repetitions; i++) {
            double begin = now();
            for (int way = 0; way < 2; way++)
                for (int message = 0; message < messages; message++)
                    if (rank == way)
                        send_all(way ? got : data, bytes);
                    else
                        receive_all(got, bytes);
            if (i >= 0) seconds[i] = now() - begin;
        }
        for (size_t i = 0; i < turn.count; i++) equal &= got[i] == i;
        if (rank == 0) answer(&turn, seconds, equal);
        free(data);
        free(got);
        free(seconds);
    }
    return 0;
}
