/* door_resp_commands.c - what clients of Redis say before they come to the point.
 *
 * Clients differ in what they send at connect and in what they make of an error; each answer here
 * is the one that redis-cli, redis-py, ioredis, node-redis, go-redis, jedis and hiredis get along
 * with. Texts of errors are Redis's own where clients match them. */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "doors/door_resp.h"
#include "lib/handle.h"

#define REDIS_VERSION "7.0.0" /* whose commands and texts are spoken */
#define SHOWN_BYTES 128U      /* of what a caller sent, in an error */

static const char not_equal[] = "WRONGPASS invalid username-password pair or user is disabled.";

/* ---- the table --------------------------------------------------------------------------- */

#define ROW(name, ...)                     \
    {                                      \
        name, sizeof name - 1, __VA_ARGS__ \
    }
const struct wr_resp_row wr_resp_rows[] = {
    ROW("CL.THROTTLE", -1, false, true, wr_resp_throttle_prepare, wr_resp_throttle, NULL),
    ROW("WEIR.CHECK", -3, false, false, wr_resp_check_prepare, wr_resp_check, wr_resp_check_ask),
    ROW("WEIR.PEEK", 3, false, false, NULL, wr_resp_peek, wr_resp_peek_ask),
    ROW("WEIR.RESERVE", 5, false, false, NULL, wr_resp_reserve, wr_resp_reserve_ask),
    ROW("WEIR.SETTLE", -3, false, false, NULL, wr_resp_settle, NULL),
    ROW("WEIR.RELEASE", 2, false, false, NULL, wr_resp_release, NULL),
    ROW("WEIR.RESET", 3, false, false, NULL, wr_resp_forget, NULL),
    ROW("PING", -1, false, false, NULL, wr_resp_ping, NULL),
    ROW("ECHO", 2, false, false, NULL, wr_resp_echo, NULL),
    ROW("HELLO", -1, true, false, NULL, wr_resp_hello, NULL),
    ROW("AUTH", -2, true, false, NULL, wr_resp_auth, NULL),
    ROW("CLIENT", -2, false, false, NULL, wr_resp_client, NULL),
    ROW("SELECT", 2, false, false, NULL, wr_resp_select, NULL),
    ROW("INFO", -1, false, false, NULL, wr_resp_info, NULL),
    ROW("COMMAND", -1, false, false, NULL, wr_resp_command, NULL),
    ROW("QUIT", -1, true, false, NULL, wr_resp_quit, NULL),
    ROW("RESET", 1, true, false, NULL, wr_resp_reset, NULL),
    ROW("TIME", 1, false, false, NULL, wr_resp_time, NULL),
    ROW("CLUSTER", -2, false, false, NULL, wr_resp_cluster, NULL),
    ROW("READONLY", 1, false, false, NULL, wr_resp_cluster, NULL),
    ROW("READWRITE", 1, false, false, NULL, wr_resp_cluster, NULL),
    ROW("CONFIG", -2, false, false, NULL, wr_resp_config, NULL),
};
const size_t wr_resp_row_count = sizeof wr_resp_rows / sizeof wr_resp_rows[0];

static bool same(const char *bytes, const char *capitals, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char c = bytes[i];
        if ((c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c) != capitals[i])
            return false;
    }
    return true;
}

bool wr_resp_is(struct weir_slice arg, const char *word)
{
    size_t len = strlen(word);
    return arg.len == len && same(arg.ptr, word, len);
}

const struct wr_resp_row *wr_resp_find(struct weir_slice name)
{
    for (size_t i = 0; i < wr_resp_row_count; i++) {
        const struct wr_resp_row *row = &wr_resp_rows[i];
        if (row->len == name.len && same(name.ptr, row->name, row->len))
            return row;
    }
    return NULL;
}

/* ---- errors ------------------------------------------------------------------------------ */

void wr_resp_unknown(struct wr_resp_session *session, const struct wr_resp_call *call)
{
    size_t room = SHOWN_BYTES;

    wr_resp_error_begin(&session->out, "ERR unknown command '");
    wr_resp_error_bytes(&session->out, call->args[0], SHOWN_BYTES);
    wr_resp_raw(&session->out, "', with args beginning with: ", 29);
    for (unsigned i = 1; i < call->argc && room > 0; i++) {
        size_t shown = call->args[i].len < room ? call->args[i].len : room;
        wr_resp_raw(&session->out, "'", 1);
        wr_resp_error_bytes(&session->out, call->args[i], room);
        wr_resp_raw(&session->out, "' ", 2);
        room = room > shown + 3 ? room - shown - 3 : 0;
    }
    wr_resp_error_end(&session->out, "");
    /* A browser that was made to send an HTTP request here: its body must not be obeyed. */
    if (wr_resp_is(call->args[0], "POST") || wr_resp_is(call->args[0], "HOST:"))
        session->quitting = true;
}

static void unknown_subcommand(struct wr_resp_session *session, const struct wr_resp_call *call)
{
    wr_resp_error_begin(&session->out, "ERR unknown subcommand '");
    wr_resp_error_bytes(&session->out, call->args[1], SHOWN_BYTES);
    wr_resp_raw(&session->out, "'. Try ", 7);
    wr_resp_raw(&session->out, call->row->name, call->row->len);
    wr_resp_error_end(&session->out, " HELP.");
}

static void wrong_number(struct wr_resp_session *session, const struct wr_resp_call *call)
{
    wr_resp_error_begin(&session->out, "ERR wrong number of arguments for '");
    wr_resp_error_bytes(&session->out, call->args[0], call->row->len);
    wr_resp_error_end(&session->out, "' command");
}

/* ---- small ones -------------------------------------------------------------------------- */

void wr_resp_echo(struct wr_resp_session *session, const struct wr_resp_call *call)
{
    struct weir_slice text = call->args[call->argc - 1];
    char head[WR_RESP_INTEGER_BYTES];
    struct wr_resp_out out = {.bytes = head, .size = sizeof head};

    if (text.len < WR_RESP_REPLY_MAX - 2 * WR_RESP_INTEGER_BYTES) {
        wr_resp_bulk(&session->out, text);
        return;
    }
    wr_resp_flush(session);
    wr_resp_bulk_head(&out, text.len);
    (void)wr_conn_write(session->conn, out.bytes, out.len);
    (void)wr_conn_write(session->conn, text.ptr, text.len);
    (void)wr_conn_write(session->conn, "\r\n", 2);
}

void wr_resp_ping(struct wr_resp_session *session, const struct wr_resp_call *call)
{
    if (call->argc == 1)
        wr_resp_simple(&session->out, "PONG");
    else if (call->argc == 2)
        wr_resp_echo(session, call);
    else
        wrong_number(session, call);
}

void wr_resp_select(struct wr_resp_session *session, const struct wr_resp_call *call)
{
    int64_t number;

    if (!wr_resp_integer(call->args[1], &number))
        wr_resp_error(&session->out, "ERR value is not an integer or out of range");
    else if (number != 0)
        wr_resp_error(&session->out, "ERR DB index is out of range");
    else
        wr_resp_simple(&session->out, "OK");
}

void wr_resp_quit(struct wr_resp_session *session, const struct wr_resp_call *call)
{
    (void)call;
    wr_resp_simple(&session->out, "OK");
    session->quitting = true;
}

void wr_resp_reset(struct wr_resp_session *session, const struct wr_resp_call *call)
{
    (void)call;
    session->authenticated = false;
    session->out.resp3 = false;
    session->name_len = 0;
    wr_resp_simple(&session->out, "RESET");
}

void wr_resp_time(struct wr_resp_session *session, const struct wr_resp_call *call)
{
    int64_t now = wr_loop_now(session->door->loop);
    char text[32];

    (void)call;
    wr_resp_array(&session->out, 2);
    (void)snprintf(text, sizeof text, "%lld", (long long)(now / WR_NS_PER_S));
    wr_resp_text(&session->out, text);
    (void)snprintf(text, sizeof text, "%lld", (long long)(now % WR_NS_PER_S / WR_NS_PER_US));
    wr_resp_text(&session->out, text);
}

void wr_resp_cluster(struct wr_resp_session *session, const struct wr_resp_call *call)
{
    (void)call;
    wr_resp_error(&session->out, "ERR This instance has cluster support disabled");
}

/* redis-benchmark asks for two of Redis's settings and expects a value for each. */
void wr_resp_config(struct wr_resp_session *session, const struct wr_resp_call *call)
{
    const char *name = NULL, *value = "";

    if (!wr_resp_is(call->args[1], "GET") || call->argc < 3) {
        unknown_subcommand(session, call);
        return;
    }
    if (call->argc == 3 && wr_resp_is(call->args[2], "SAVE"))
        name = "save";
    if (call->argc == 3 && wr_resp_is(call->args[2], "APPENDONLY")) {
        name = "appendonly";
        value = "no";
    }
    wr_resp_map(&session->out, name != NULL ? 1 : 0);
    if (name != NULL) {
        wr_resp_text(&session->out, name);
        wr_resp_text(&session->out, value);
    }
}

void wr_resp_info(struct wr_resp_session *session, const struct wr_resp_call *call)
{
    struct wr_resp_door *door = session->door;
    char text[1024];
    int len;

    (void)call;
    len = snprintf(text, sizeof text,
                   "# Server\r\nserver_name:weir\r\nweir_version:" WEIR_VERSION
                   "\r\nredis_version:" REDIS_VERSION "\r\nredis_mode:standalone\r\n"
                   "\r\n# Clients\r\nconnected_clients:%u\r\n"
                   "\r\n# Persistence\r\nloading:0\r\n"
                   "\r\n# Stats\r\ntotal_commands_processed:%llu\r\n"
                   "\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n"
                   "\r\n# Cluster\r\ncluster_enabled:0\r\n",
                   wr_acceptor_connections(door->stream.acceptor),
                   (unsigned long long)door->loop->metrics.door[WR_DOOR_RESP].requests);
    wr_resp_bulk(&session->out, (struct weir_slice){text, len > 0 ? (size_t)len : 0});
}

/* ---- who is there ------------------------------------------------------------------------ */

/* Compares in a time that does not tell how much is right. */
static bool equal_secret(struct weir_slice given, const char *secret)
{
    size_t len = strlen(secret);
    unsigned differ = given.len == len ? 0 : 1;

    for (size_t i = 0; i < given.len; i++)
        differ |= (unsigned)(unsigned char)given.ptr[i] ^
                  (unsigned)(unsigned char)secret[len > 0 ? i % len : 0];
    return differ == 0;
}

/* NULL: it is the password; else the error. */
static const char *check_password(struct wr_resp_session *session, const struct weir_slice *user,
                                  struct weir_slice password)
{
    const char *secret = session->door->loop->handle->resp_password;
    bool known = user == NULL || (user->len == 7 && memcmp(user->ptr, "default", 7) == 0);

    if (secret == NULL && user == NULL)
        return "ERR AUTH <password> called without any password configured for the default user. "
               "Are you sure your configuration is correct?";
    if (!known || (secret != NULL && !equal_secret(password, secret)))
        return not_equal;
    session->authenticated = true;
    return NULL;
}

void wr_resp_auth(struct wr_resp_session *session, const struct wr_resp_call *call)
{
    const char *error;

    if (call->argc > 3) {
        wr_resp_error(&session->out, "ERR syntax error");
        return;
    }
    error = check_password(session, call->argc == 3 ? &call->args[1] : NULL,
                           call->args[call->argc - 1]);
    if (error != NULL)
        wr_resp_error(&session->out, error);
    else
        wr_resp_simple(&session->out, "OK");
}

static bool good_name(struct weir_slice name)
{
    for (size_t i = 0; i < name.len; i++)
        if (name.ptr[i] < '!' || name.ptr[i] > '~')
            return false;
    return true;
}

static bool set_name(struct wr_resp_session *session, struct weir_slice name)
{
    if (!good_name(name))
        return false;
    session->name_len = (uint8_t)(name.len < WR_RESP_NAME_MAX ? name.len : WR_RESP_NAME_MAX);
    if (session->name_len > 0)
        memcpy(session->name, name.ptr, session->name_len);
    return true;
}

static const char bad_name[] =
    "ERR Client names cannot contain spaces, newlines or special characters.";

/* The options behind HELLO's version. NULL: all are good. */
static const char *hello_options(struct wr_resp_session *session, const struct wr_resp_call *call)
{
    const struct weir_slice *name = NULL;
    const char *error = NULL;

    for (unsigned i = 2; i < call->argc && error == NULL;) {
        if (wr_resp_is(call->args[i], "AUTH") && call->argc - i > 2) {
            error = check_password(session, &call->args[i + 1], call->args[i + 2]);
            i += 3;
        } else if (wr_resp_is(call->args[i], "SETNAME") && call->argc - i > 1) {
            name = &call->args[i + 1];
            i += 2;
        } else {
            error = "ERR Syntax error in HELLO option";
        }
    }
    if (error == NULL && !wr_resp_trusted(session))
        error = "NOAUTH HELLO must be called with the client already authenticated, otherwise the "
                "HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client "
                "and select the RESP protocol version at the same time";
    if (error == NULL && name != NULL && !set_name(session, *name))
        error = bad_name;
    return error;
}

void wr_resp_hello(struct wr_resp_session *session, const struct wr_resp_call *call)
{
    struct wr_resp_out *out = &session->out;
    int64_t version = out->resp3 ? 3 : 2;
    const char *error = NULL;

    if (call->argc > 1 && !wr_resp_integer(call->args[1], &version))
        error = "ERR Protocol version is not an integer or out of range";
    else if (version != 2 && version != 3)
        error = "NOPROTO unsupported protocol version";
    else
        error = hello_options(session, call);
    if (error != NULL) {
        wr_resp_error(out, error);
        return;
    }
    out->resp3 = version == 3;
    wr_resp_map(out, 7); /* in Redis's order: node-redis reads it by position */
    wr_resp_text(out, "server");
    wr_resp_text(out, "weir");
    wr_resp_text(out, "version");
    wr_resp_text(out, REDIS_VERSION);
    wr_resp_text(out, "proto");
    wr_resp_int(out, version);
    wr_resp_text(out, "id");
    wr_resp_int(out, (int64_t)session->id);
    wr_resp_text(out, "mode");
    wr_resp_text(out, "standalone");
    wr_resp_text(out, "role");
    wr_resp_text(out, "master");
    wr_resp_text(out, "modules");
    wr_resp_array(out, 0);
}

void wr_resp_client(struct wr_resp_session *session, const struct wr_resp_call *call)
{
    static const char *const accepted[] = {"SETINFO", "NO-EVICT", "NO-TOUCH"};
    struct weir_slice what = call->args[1];

    for (size_t i = 0; i < sizeof accepted / sizeof accepted[0]; i++) {
        if (wr_resp_is(what, accepted[i])) {
            wr_resp_simple(&session->out, "OK");
            return;
        }
    }
    if (wr_resp_is(what, "ID")) {
        wr_resp_int(&session->out, (int64_t)session->id);
    } else if (wr_resp_is(what, "GETNAME")) {
        if (session->name_len > 0)
            wr_resp_bulk(&session->out, (struct weir_slice){session->name, session->name_len});
        else
            wr_resp_null(&session->out);
    } else if (wr_resp_is(what, "SETNAME") && call->argc == 3) {
        if (set_name(session, call->args[2]))
            wr_resp_simple(&session->out, "OK");
        else
            wr_resp_error(&session->out, bad_name);
    } else {
        unknown_subcommand(session, call);
    }
}

/* ---- what there is ----------------------------------------------------------------------- */

static void describe(struct wr_resp_out *out, const struct wr_resp_row *row)
{
    char name[32];
    int key = row->keyed ? 1 : 0;

    for (size_t i = 0; i < row->len && i < sizeof name; i++) {
        name[i] = row->name[i];
        if (name[i] >= 'A' && name[i] <= 'Z')
            name[i] = (char)(name[i] - 'A' + 'a');
    }
    wr_resp_array(out, 6);
    wr_resp_bulk(out, (struct weir_slice){name, row->len});
    wr_resp_int(out, row->arity);
    wr_resp_array(out, 2);
    wr_resp_simple(out, row->keyed ? "write" : "readonly");
    wr_resp_simple(out, "fast");
    wr_resp_int(out, key);
    wr_resp_int(out, key);
    wr_resp_int(out, key);
}

static void describe_named(struct wr_resp_session *session, const struct wr_resp_call *call)
{
    wr_resp_array(&session->out, call->argc - 2);
    for (unsigned i = 2; i < call->argc; i++) {
        const struct wr_resp_row *row = wr_resp_find(call->args[i]);
        if (session->out.size - session->out.len < WR_RESP_REPLY_MAX)
            wr_resp_flush(session);
        if (row != NULL)
            describe(&session->out, row);
        else
            wr_resp_null(&session->out);
    }
}

void wr_resp_command(struct wr_resp_session *session, const struct wr_resp_call *call)
{
    if (call->argc > 1 && wr_resp_is(call->args[1], "DOCS")) {
        wr_resp_map(&session->out, 0);
    } else if (call->argc == 2 && wr_resp_is(call->args[1], "COUNT")) {
        wr_resp_int(&session->out, (int64_t)wr_resp_row_count);
    } else if (call->argc > 2 && wr_resp_is(call->args[1], "INFO")) {
        describe_named(session, call);
    } else if (call->argc == 1 || wr_resp_is(call->args[1], "INFO")) {
        wr_resp_array(&session->out, wr_resp_row_count);
        for (size_t i = 0; i < wr_resp_row_count; i++)
            describe(&session->out, &wr_resp_rows[i]);
    } else {
        unknown_subcommand(session, call);
    }
}
