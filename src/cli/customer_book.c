/* customer_book.c - opening the database that a policy names, and what is printed of it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "algo/civil.h"
#include "base/units.h"
#include "cli/customer.h"
#include "wire/logtime.h"

#define ERRORS_BYTES 65536U
#define PATH_BYTES 4200U

/* ---- opening --------------------------------------------------------------------------------- */

static bool load_policy(struct wr_book *book, const char *path)
{
    struct wr_diag *diag = malloc(sizeof *diag);
    char *errors = malloc(ERRORS_BYTES);
    bool ok = false;

    if (diag != NULL && errors != NULL) {
        wr_diag_init(diag, path);
        ok = wr_policy_load(&book->policy, path, diag) == 0;
        (void)wr_diag_format(diag, errors, ERRORS_BYTES);
        if (!ok)
            (void)fputs(errors, stderr);
    }
    free(diag);
    free(errors);
    return ok;
}

bool wr_book_open(struct wr_book *book, const char *path, bool write)
{
    char file[PATH_BYTES];
    struct wr_database_options options = {.path = file, .create = write, .read_only = !write};
    struct wr_fault fault;
    struct timespec now;

    *book = (struct wr_book){.policy = NULL};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    book->now_ns = (int64_t)now.tv_sec * WR_NS_PER_S + now.tv_nsec;
    if (!load_policy(book, path))
        return false;
    book->customers = wr_policy_settings(book->policy)->customers;
    if (book->customers == NULL) {
        (void)fprintf(stderr, "%s: has no section customers; docs/quotas.md says what to write\n",
                      path);
        return false;
    }
    (void)snprintf(file, sizeof file, "%s/%s", book->customers->directory, WR_DATABASE_NAME);
    if (wr_database_open(&book->database, &options, &fault) != 0) {
        (void)fprintf(stderr, "%s: %s\n", file, fault.text);
        return false;
    }
    return true;
}

void wr_book_close(struct wr_book *book)
{
    if (book->database != NULL)
        wr_database_close(book->database);
    wr_policy_free(book->policy);
}

int wr_book_fail(const struct wr_book *book, const char *command, int result)
{
    const char *why = wr_database_fault(book->database)->text;

    if (result == WEIR_ENOENT)
        why = "there is no such customer or key";
    else if (result == WEIR_EAGAIN && why[0] == '\0')
        why = "there is one already";
    else if (result == WEIR_EFULL)
        why = "there is no room for more customers: raise customers.room, and restart weir serve";
    (void)fprintf(stderr, "weir %s: %s\n", command, why);
    return 1;
}

/* ---- values ---------------------------------------------------------------------------------- */

const char *wr_book_moment(int64_t ns, char *out, size_t size)
{
    char text[WR_LOGTIME_TEXT_MAX] = "-";

    if (ns != 0)
        (void)wr_logtime_format(ns, text);
    (void)snprintf(out, size, "%s", text);
    return out;
}

const char *wr_book_date(int32_t day, char *out, size_t size)
{
    unsigned month, of_month;
    int year;

    wr_civil_date(day, &year, &month, &of_month);
    (void)snprintf(out, size, "%04d-%02u-%02u", year, month, of_month);
    return out;
}

bool wr_book_read_date(const char *text, int32_t *day, bool *month)
{
    unsigned y, m, d = 1;
    char more;
    int fields = sscanf(text, "%4u-%2u-%2u%c", &y, &m, &d, &more);
    int year;
    unsigned again_month, again_day;

    *month = fields == 2 && strlen(text) == 7;
    if ((!*month && (fields != 3 || strlen(text) != 10)) || y < 1970 || m < 1 || m > 12 || d < 1)
        return false;
    *day = wr_civil_day_of((int)y, m, d);
    wr_civil_date(*day, &year, &again_month, &again_day);
    return again_month == m && again_day == d;
}

void wr_book_put_json(const char *text, FILE *out)
{
    (void)fputc('"', out);
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            (void)fprintf(out, "\\%c", c);
        else if (c < 0x20)
            (void)fprintf(out, "\\u%04x", c);
        else
            (void)fputc(c, out);
    }
    (void)fputc('"', out);
}

/* RFC 4180. A field that a spreadsheet would take for a formula gets an apostrophe. */
void wr_book_put_csv(const char *text, FILE *out)
{
    bool formula = text[0] != '\0' && strchr("=+-@\t\r", text[0]) != NULL;
    bool quoted = strpbrk(text, "\",\r\n") != NULL;

    if (quoted)
        (void)fputc('"', out);
    if (formula)
        (void)fputc('\'', out);
    for (; *text != '\0'; text++) {
        if (*text == '"')
            (void)fputc('"', out);
        (void)fputc(*text, out);
    }
    if (quoted)
        (void)fputc('"', out);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void put_member(const char *name, const char *text)
{
    (void)printf(",\"%s\":", name);
    if (text[0] == '\0' || strcmp(text, "-") == 0)
        (void)fputs("null", stdout);
    else
        wr_book_put_json(text, stdout);
}

static const char *state_of(const struct wr_customer *c)
{
    return c->ended ? "ended" : c->suspended ? "suspended" : "active";
}

static void print_customer_json(const struct wr_customer *c, int64_t now_ns)
{
    char text[WR_LOGTIME_TEXT_MAX];

    (void)fputs("{\"name\":", stdout);
    wr_book_put_json(c->name, stdout);
    (void)printf(",\"id\":%" PRId64, c->id);
    put_member("tenant", c->tenant);
    put_member("plan", c->plan);
    put_member("plan_now", wr_customer_plan_at(c, now_ns));
    put_member("trial_plan", c->trial_plan);
    put_member("trial_until", wr_book_moment(c->trial_until_ns, text, sizeof text));
    (void)printf(",\"anchor\":%u,\"partner\":%s,\"state\":\"%s\",\"from_file\":%s", c->anchor,
                 c->partner ? "true" : "false", state_of(c), c->from_file ? "true" : "false");
    put_member("created", wr_book_moment(c->created_ns, text, sizeof text));
    (void)fputs("}", stdout);
}

void wr_book_print_customer(const struct wr_customer *c, int64_t now_ns, bool json)
{
    char until[WR_LOGTIME_TEXT_MAX];

    if (json) {
        print_customer_json(c, now_ns);
        return;
    }
    (void)printf("%-24s  %-12s  %-9s  anchor %2u%s%s%s", c->name, wr_customer_plan_at(c, now_ns),
                 state_of(c), c->anchor, c->partner ? "  partner" : "",
                 c->tenant[0] != '\0' ? "  tenant " : "", c->tenant);
    if (c->trial_plan[0] != '\0')
        (void)printf("  trial of %s until %s, then %s", c->trial_plan,
                     wr_book_moment(c->trial_until_ns, until, sizeof until), c->plan);
    (void)printf("%s\n", c->from_file ? "  (from the file)" : "");
}

void wr_book_print_key(const struct wr_customer_key *key, bool json)
{
    char id[WR_KEY_ID_TEXT], created[WR_LOGTIME_TEXT_MAX], revoked[WR_LOGTIME_TEXT_MAX];

    wr_key_id(key->digest, id);
    (void)wr_book_moment(key->created_ns, created, sizeof created);
    (void)wr_book_moment(key->revoked_ns, revoked, sizeof revoked);
    if (json) {
        (void)printf("{\"id\":\"%s\"", id);
        put_member("identity", key->identity);
        put_member("hint", key->hint);
        put_member("created", created);
        put_member("revoked", revoked);
        (void)fputs("}", stdout);
        return;
    }
    (void)printf("  key %s  %s ...%s  since %s%s%s\n", id, key->identity, key->hint, created,
                 key->revoked_ns != 0 ? "  revoked " : "", key->revoked_ns != 0 ? revoked : "");
}

void wr_book_print_audit(const struct wr_audit *audit, bool json)
{
    char at[WR_LOGTIME_TEXT_MAX];

    (void)wr_book_moment(audit->at_ns, at, sizeof at);
    if (json) {
        (void)printf("{\"id\":%" PRId64 ",\"customer_id\":%" PRId64, audit->id, audit->customer);
        put_member("at", at);
        put_member("who", audit->who);
        put_member("what", audit->what);
        put_member("before", audit->before);
        put_member("after", audit->after);
        put_member("reason", audit->reason);
        (void)fputs("}", stdout);
        return;
    }
    (void)printf("  %s  %s  %s  %s -> %s%s%s\n", at, audit->who, audit->what,
                 audit->before[0] != '\0' ? audit->before : "-",
                 audit->after[0] != '\0' ? audit->after : "-",
                 audit->reason[0] != '\0' ? "  # " : "", audit->reason);
}
