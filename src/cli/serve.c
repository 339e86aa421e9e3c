/* serve.c - `weir serve`: the decision service. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "doors/doors.h"
#include "serve/log.h"
#include "serve/serve.h"

#define DEFAULT_POLICY "/etc/weir/policy.yaml"

static const char usage[] =
    "usage: weir serve [-c FILE] [--log-format text|json] [--log-level LEVEL]\n"
    "\n"
    "Serve decisions by the policy in FILE (" DEFAULT_POLICY ") at the addresses of its section\n"
    "`listen`. SIGHUP reloads the policy and certificates, SIGTERM answers what is in flight and\n"
    "ends; a second one ends at once.\n"
    "\n"
    "  -c, --config FILE        the policy; `weir init FILE` writes one to start from\n"
    "      --log-format FORMAT  text (default) or json, a line an event on standard error\n"
    "      --log-level LEVEL    debug, info (default), warning or error\n"
    "  -h, --help               this text\n"
    "\n"
    "Exit status: 0 ended by a signal, 1 could not start, 2 wrong usage.\n";

static const char no_policy[] =
    "weir serve: no policy at %s\n"
    "\n"
    "A policy says what is limited and where to listen. The smallest that serves:\n"
    "\n"
    "    version: 1\n"
    "    listen: {http: 127.0.0.1:8080}\n"
    "    limits:\n"
    "      - {name: per-ip, by: [ip], rate: 600/minute}\n"
    "\n"
    "To write a commented one and serve it:\n"
    "\n"
    "    %s%s%sweir init %s && weir serve -c %s\n";

enum { LOG_FORMAT = 256, LOG_LEVEL };

struct arguments {
    const char *policy;
    bool json;
    enum wr_log_level level;
};

static bool parse_level(const char *text, enum wr_log_level *level)
{
    static const char *const names[] = {"debug", "info", "warning", "error"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) == 0) {
            *level = (enum wr_log_level)i;
            return true;
        }
    }
    return false;
}

static bool wrong(const char *what, const char *expected, const char *found)
{
    (void)fprintf(stderr, "weir serve: %s: expected %s, found %s\n", what, expected, found);
    return false;
}

/* Returns -1 to go on, or an exit status. */
static int parse(int argc, char **argv, struct arguments *out)
{
    static const struct option options[] = {{"config", required_argument, NULL, 'c'},
                                            {"log-format", required_argument, NULL, LOG_FORMAT},
                                            {"log-level", required_argument, NULL, LOG_LEVEL},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct wr_options reading = {.shorts = "c:h", .longs = options};
    bool good = true;
    int option;

    while (good && (option = wr_options_next(&reading, argc, argv)) != -1) {
        if (option == 'h') {
            (void)fputs(usage, stdout);
            return 0;
        }
        if (option == 'c')
            out->policy = optarg;
        else if (option == LOG_FORMAT && (out->json = strcmp(optarg, "json") == 0))
            continue;
        else if (option == LOG_FORMAT)
            good = strcmp(optarg, "text") == 0 || wrong("--log-format", "text or json", optarg);
        else if (option == LOG_LEVEL)
            good = parse_level(optarg, &out->level) ||
                   wrong("--log-level", "debug, info, warning or error", optarg);
        else
            good = false; /* getopt has said why */
    }
    if (good && optind == argc)
        return -1;
    if (good)
        (void)wrong("arguments", "none; a policy is given by -c FILE", argv[optind]);
    (void)fputs(usage, stderr);
    return 2;
}

/* The folder of |path|, if it is not there; else "". */
static const char *missing_folder(const char *path, char *out, size_t size)
{
    const char *slash = strrchr(path, '/');

    out[0] = '\0';
    if (slash != NULL && slash > path)
        (void)snprintf(out, size, "%.*s", (int)(slash - path), path);
    if (access(out, F_OK) == 0)
        out[0] = '\0';
    return out;
}

static void say_no_policy(const char *path)
{
    char folder[1024];

    if (wr_log_is_json()) {
        wr_log(WR_LOG_ERROR, "start failed", wr_log_text("reason", "no policy"),
               wr_log_text("policy", path),
               wr_log_text("hint", "weir init FILE writes one to start from"));
        return;
    }
    if (strcmp(path, "-") == 0) {
        (void)fputs("weir serve: -c: expected a file, as a reload reads it again, found -\n",
                    stderr);
        return;
    }
    (void)missing_folder(path, folder, sizeof folder);
    (void)fprintf(stderr, no_policy, path, folder[0] != '\0' ? "mkdir -p " : "", folder,
                  folder[0] != '\0' ? " && " : "", path, path);
}

int wr_cmd_serve(int argc, char **argv)
{
    struct arguments arguments = {DEFAULT_POLICY, false, WR_LOG_INFO};
    struct wr_server_options options = {.doors = wr_doors, .door_count = wr_door_count};
    int status;

    wr_server_hold_signals();
    status = parse(argc, argv, &arguments);
    if (status >= 0)
        return status;
    wr_log_setup(arguments.json, arguments.level);
    if (access(arguments.policy, F_OK) != 0) {
        say_no_policy(arguments.policy);
        return 1;
    }
    options.policy_path = arguments.policy;
    return wr_server_run(&options);
}
