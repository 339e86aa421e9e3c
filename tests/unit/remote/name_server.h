/* name_server.h - getaddrinfo as a test wants it: silent until it is let go. */
#ifndef TEST_REMOTE_NAME_SERVER_H
#define TEST_REMOTE_NAME_SERVER_H

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

static sem_t name_server_answers; /* one lookup each */
static atomic_int name_server_asked, name_server_lists;

#define SEEN_BY_LIBUV __attribute__((visibility("default")))

/* In libuv's threads, instead of libc's. */
SEEN_BY_LIBUV int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                              struct addrinfo **out)
{
    struct addrinfo *list = calloc(1, sizeof *list + sizeof(struct sockaddr_in));
    struct sockaddr_in *address = (void *)(list + 1);

    (void)name;
    (void)hints;
    atomic_fetch_add(&name_server_asked, 1);
    while (sem_wait(&name_server_answers) != 0)
        continue;
    if (list == NULL)
        return EAI_MEMORY;
    address->sin_family = AF_INET;
    address->sin_port = htons((uint16_t)atoi(service));
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    list->ai_family = AF_INET;
    list->ai_socktype = SOCK_STREAM;
    list->ai_addrlen = sizeof *address;
    list->ai_addr = (void *)address;
    atomic_fetch_add(&name_server_lists, 1);
    *out = list;
    return 0;
}

SEEN_BY_LIBUV void freeaddrinfo(struct addrinfo *list)
{
    atomic_fetch_sub(&name_server_lists, 1);
    free(list);
}

#endif
