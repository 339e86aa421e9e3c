/* main.c - `weir COMMAND ...`: finds the command and hands over. To add one: its file, its line in
 * commands.h, its row here, its section in docs/man/weir.1. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"

static int cmd_help(int argc, char **argv);

/* Nothing stands behind it. */
static bool is_alone(int argc, char **argv)
{
    if (argc > 1)
        (void)fprintf(stderr, "%s: expected nothing behind it, found \"%s\"\n", argv[0], argv[1]);
    return argc <= 1;
}

static int cmd_version(int argc, char **argv)
{
    if (!is_alone(argc, argv))
        return 2;
    (void)puts("weir " WEIR_VERSION);
    return 0;
}

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} commands[] = {
    {"serve", wr_cmd_serve, "the decision service: answer over HTTP, gRPC, RESP"},
    {"init", wr_cmd_init, "write a commented policy to start from"},
    {"import", wr_cmd_import, "turn another limiter's configuration into a policy"},
    {"check", wr_cmd_check, "check policy files and summarise them"},
    {"replay", wr_cmd_replay, "run access logs through a policy and report what it would do"},
    {"arena", wr_cmd_arena, "look through an arena: what is in it, is it sound"},
    {"ban", wr_cmd_ban, "refuse a caller, in every process of the host; list who is"},
    {"unban", wr_cmd_unban, "lift a ban"},
    {"customer", wr_cmd_customer, "who the customers are, their plans and keys"},
    {"usage", wr_cmd_usage, "what customers used of their quotas, and what is to be billed"},
    {"alerts", wr_cmd_alerts, "thresholds of quotas that were reached, and who was told"},
    {"version", cmd_version, "print the version"},
    {"help", cmd_help, "print this text"},
};

static void print_usage(FILE *out)
{
    (void)fputs("usage: weir COMMAND [ARGUMENT]...\n\n", out);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        (void)fprintf(out, "  %-8s  %s\n", commands[i].name, commands[i].summary);
    (void)fputs("\n`weir COMMAND --help` says more; so does weir(1).\n", out);
}

static int cmd_help(int argc, char **argv)
{
    if (!is_alone(argc, argv))
        return 2; /* help of a command is its --help */
    print_usage(stdout);
    return 0;
}

/* What getopt complains as. */
static char **named(char **argv)
{
    static char program[32];

    (void)snprintf(program, sizeof program, "weir %s", argv[0]);
    argv[0] = program;
    return argv;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";

    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        name = "version";
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(name, commands[i].name) == 0)
            return commands[i].run(argc - 1, named(argv + 1));
    if (*name != '\0')
        (void)fprintf(stderr, "weir: no command \"%s\"\n", name);
    print_usage(stderr);
    return 2;
}
