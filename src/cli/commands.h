/* commands.h - `weir <command>`, a function each. argv[0] is the command's name; the result is the
 * exit status. */
#ifndef WR_CLI_COMMANDS_H
#define WR_CLI_COMMANDS_H

int wr_cmd_check(int argc, char **argv);

#endif
