/* init.c - `weir init`: a commented policy to start from. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"

#define DEFAULT_FILE "policy.yaml"

static const char usage[] =
    "usage: weir init [FILE]\n"
    "\n"
    "Write a commented policy to FILE (" DEFAULT_FILE "; - for standard output). A file that is\n"
    "there is left as it is.\n"
    "\n"
    "  -h, --help   this text\n"
    "\n"
    "Exit status: 0 written, 1 not written, 2 wrong usage.\n";

static const char starter[] =
    "# A policy of weir: what is limited, by whose allowance, and where decisions are served.\n"
    "# `weir check FILE` says whether it is right; docs/policy.md has everything it can say.\n"
    "version: 1\n"
    "\n"
    "# Where `weir serve` listens. A door that is not named is not opened. Others than this "
    "machine\n"
    "# reach a door only if you write another address, such as 0.0.0.0:8080.\n"
    "listen:\n"
    "  http: 127.0.0.1:8080     # POST /v1/check, and /v1/auth for proxies\n"
    "  # grpc: 127.0.0.1:8081   # Envoy's rate limit service\n"
    "  # resp: 127.0.0.1:6380   # CL.THROTTLE, as redis-cell\n"
    "  # admin: 127.0.0.1:9180  # /metrics, /healthz; elsewhere than on loopback it needs a token\n"
    "\n"
    "# Counts live in memory. Without a path they are this process's alone and end with it; with "
    "one\n"
    "# all programs of this host that name it share them, the gateway too, and they outlive a "
    "restart.\n"
    "arena:\n"
    "  size: 64MiB\n"
    "  # path: /run/weir/arena\n"
    "\n"
    "# Who is calling. Forwarding headers are believed only from the proxies named here.\n"
    "identity:\n"
    "  ip: {from: x-forwarded-for, trusted: [127.0.0.1, \"::1\", 10.0.0.0/8]}\n"
    "  api_key: {header: X-Api-Key}\n"
    "\n"
    "# What a request takes, where that is not 1.\n"
    "costs:\n"
    "  - {match: {method: POST, path: /reports}, cost: 10}\n"
    "\n"
    "# A request has to pass all limits that match it; if one refuses, none is charged.\n"
    "limits:\n"
    "  - name: per-ip                 # a broad one, as many people may share an address\n"
    "    by: [ip]\n"
    "    rate: 600/minute\n"
    "\n"
    "  - name: per-key                # callers without a key are told apart by address\n"
    "    by: [api_key]\n"
    "    when_missing: ip             # or skip, or deny\n"
    "    rate: 100/minute burst 200\n"
    "    algorithm: token-bucket\n"
    "\n"
    "  - name: login                  # exact in every window, for what must not be guessed at\n"
    "    match: {method: POST, path: /login}\n"
    "    by: [ip]\n"
    "    rate: 5/minute\n"
    "    algorithm: sliding-log\n"
    "\n"
    "  - name: tried-out              # decides and counts, refuses nothing\n"
    "    by: [ip]\n"
    "    rate: 20/second\n"
    "    mode: shadow\n";

static bool write_all(int fd, const char *text, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, text, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        text += n;
        len -= (size_t)n;
    }
    return true;
}

static int write_file(const char *file)
{
    /* A policy may come to hold API keys. */
    int fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
    bool written;

    if (fd < 0) {
        (void)fprintf(stderr, "weir init: %s: %s\n", file,
                      errno == EEXIST   ? "is there already and is left as it is"
                      : errno == ENOENT ? "its folder does not exist: make it, or name another"
                                        : strerror(errno));
        return 1;
    }
    written = write_all(fd, starter, sizeof starter - 1);
    if (close(fd) != 0 || !written) {
        (void)fprintf(stderr, "weir init: %s: %s\n", file, strerror(errno));
        return 1;
    }
    (void)printf("%s written. Next:\n\n    weir check %s\n    weir serve -c %s\n", file, file,
                 file);
    if (geteuid() == 0)
        (void)printf("\nOnly root and its group may read it. For the service, whose user is weir:\n"
                     "\n    chgrp weir %s\n",
                     file);
    return 0;
}

int wr_cmd_init(int argc, char **argv)
{
    static const struct option options[] = {{"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    const char *file = DEFAULT_FILE;
    int option;

    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        (void)fputs(usage, option == 'h' ? stdout : stderr);
        return option == 'h' ? 0 : 2;
    }
    if (optind + 1 < argc) {
        (void)fputs(usage, stderr);
        return 2;
    }
    if (optind < argc)
        file = argv[optind];
    if (strcmp(file, "-") == 0)
        return write_all(STDOUT_FILENO, starter, sizeof starter - 1) ? 0 : 1;
    return write_file(file);
}
