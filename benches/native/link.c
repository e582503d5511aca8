// A long link between two network namespaces, for kernels without netem: link RATE DELAY SPACE DEVICE
// SPACE DEVICE. RATE in bits a second and DELAY in microseconds, each way. Makes a device in each, says
// "ready", and carries packets until it is killed: the devices go with it.
//
// A packet leaves when those before it have left and its bits took their time, and comes DELAY later.
// Segments come and go unsplit (TSO), as on a virtual cable; nothing is dropped.

#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "times.h"

#define LARGEST (1 << 17)

struct packet {
    struct packet *next;
    int64_t due;
    size_t length;
    char bytes[];
};

struct way {
    int from, to;
};

static double nanoseconds_a_byte;
static int64_t delay;

static int device_in(const char *space, const char *name) {
    char path[256];
    snprintf(path, sizeof path, "/run/netns/%s", space);
    int namespace = open(path, O_RDONLY | O_CLOEXEC);
    if (namespace < 0 || setns(namespace, CLONE_NEWNET)) fail(path, errno);
    close(namespace);
    int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (device < 0) fail("/dev/net/tun", errno);
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (ioctl(device, TUNSETIFF, &request)) fail("TUNSETIFF", errno);
    if (ioctl(device, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4)) fail("TUNSETOFFLOAD", errno);
    return device;
}

static void *carry(void *argument) {
    const struct way *way = argument;
    struct packet *first = 0, **last = &first;
    char *buffer = malloc(LARGEST);
    if (!buffer) fail("malloc", errno);
    int64_t free_at = 0;
    for (;;) {
        ssize_t length;
        while ((length = read(way->from, buffer, LARGEST)) > 0) {
            int64_t time = now();
            if (free_at < time) free_at = time;
            free_at += (int64_t)((double)length * nanoseconds_a_byte);
            struct packet *packet = malloc(sizeof *packet + (size_t)length);
            if (!packet) fail("malloc", errno);
            *packet = (struct packet){.due = free_at + delay, .length = (size_t)length};
            memcpy(packet->bytes, buffer, (size_t)length);
            *last = packet;
            last = &packet->next;
        }
        if (length < 0 && errno != EAGAIN && errno != EIO) fail("read", errno); // EIO: not up yet
        while (first && first->due <= now()) {
            struct packet *packet = first;
            if (!(first = packet->next)) last = &first;
            // What a device that goes down refuses is lost, as on a cable.
            if (write(way->to, packet->bytes, packet->length) < 0 && errno != EIO) fail("write", errno);
            free(packet);
        }
        int64_t wait = first ? first->due - now() : 1000000000;
        if (wait < 0) wait = 0;
        struct timespec timeout = {wait / 1000000000, wait % 1000000000};
        struct pollfd readable = {.fd = way->from, .events = POLLIN};
        if (ppoll(&readable, 1, &timeout, 0) < 0) fail("ppoll", errno);
    }
    return 0;
}

int main(int count, char **arguments) {
    if (count != 7) fail("link RATE DELAY SPACE DEVICE SPACE DEVICE", 0);
    nanoseconds_a_byte = 8e9 / atof(arguments[1]);
    delay = atol(arguments[2]) * 1000;
    prctl(PR_SET_TIMERSLACK, 1);
    setpriority(PRIO_PROCESS, 0, -20); // a cable waits for no processor; without leave it does
    int left = device_in(arguments[3], arguments[4]), right = device_in(arguments[5], arguments[6]);
    struct way ways[] = {{left, right}, {right, left}};
    pthread_t thread;
    if (pthread_create(&thread, 0, carry, &ways[0])) fail("pthread_create", errno);
    printf("ready\n");
    fflush(stdout);
    carry(&ways[1]);
}
