/* commands.h - the commands of `weir`, one file each. */
#ifndef WR_CLI_COMMANDS_H
#define WR_CLI_COMMANDS_H

/* Each is called with its own name as argv[0] and returns the exit status: 0 done, 1 something was
 * wrong with what was read, 2 wrong usage. */
int wr_cmd_alerts(int argc, char **argv);
int wr_cmd_arena(int argc, char **argv);
int wr_cmd_ban(int argc, char **argv);
int wr_cmd_check(int argc, char **argv);
int wr_cmd_customer(int argc, char **argv);
int wr_cmd_import(int argc, char **argv);
int wr_cmd_init(int argc, char **argv);
int wr_cmd_replay(int argc, char **argv);
int wr_cmd_serve(int argc, char **argv);
int wr_cmd_unban(int argc, char **argv);
int wr_cmd_usage(int argc, char **argv);

#endif
