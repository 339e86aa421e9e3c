/* envoy.c - deciding by envoyproxy/ratelimit's configuration; values by hand from its rules. T is
 * 40 s into a minute. */
#include "fixture.h"

#include "engine/envoy.h"
#include "lib/handle.h"

#define T (T0 + 40 * S)
#define DAY (86400 * S)

/* A handle on the configuration |text|, with |options| beside files in the policy. */
static struct weir *open_envoy(const char *text, const char *options)
{
    char path[] = "/tmp/weir-test-XXXXXX", policy[512];
    struct weir *weir;
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    (void)close(fd);
    (void)snprintf(policy, sizeof policy, "version: 1\nenvoy_ratelimit: {files: %s%s}\n", path,
                   options);
    weir = open_text(policy, "");
    (void)unlink(path);
    return weir;
}

/* One question, built up by ask(). */
static struct wr_entry entries[WR_DESCRIPTORS_MAX][WR_ENTRIES_MAX];
static struct wr_descriptor descriptors[WR_DESCRIPTORS_MAX];
static char texts[WR_DESCRIPTORS_MAX][256];
static struct wr_rate_response answer;
static size_t asked;

/* Begin a descriptor "plan=free|path=/a"; its fields may be set afterwards. */
static struct wr_descriptor *with(const char *text)
{
    struct wr_descriptor *d = &descriptors[asked];
    char *copy = texts[asked];

    *d = (struct wr_descriptor){.entries = entries[asked]};
    (void)snprintf(copy, sizeof texts[0], "%s", text);
    for (char *pair = strtok(copy, "|"); pair != NULL; pair = strtok(NULL, "|")) {
        char *value = strchr(pair, '=');
        *value = '\0';
        entries[asked][d->count++] = (struct wr_entry){slice(pair), slice(value + 1)};
    }
    asked++;
    return d;
}

/* Ask what with() has gathered. Returns the code of the whole. */
static int ask_in(struct weir *w, const char *domain, uint32_t hits, int64_t now)
{
    struct wr_rate_request request = {slice(domain), descriptors, asked, hits};

    asked = 0;
    memset(&answer, 0xee, sizeof answer);
    assert_int_equal(wr_engine_rate(w->engine, &request, 0, now, &answer), 0);
    assert_int_equal(answer.count, request.count);
    return answer.code;
}

static int ask(struct weir *w, const char *text, uint32_t hits, int64_t now)
{
    (void)with(text);
    return ask_in(w, "shop", hits, now);
}

static void expect_status(size_t i, int code, uint32_t units, int unit, uint32_t left,
                          int64_t reset)
{
    const struct wr_rate_status *s = &answer.statuses[i];

    assert_true(s->has_limit);
    assert_int_equal(s->code, code);
    assert_int_equal(s->units, units);
    assert_int_equal(s->unit, unit);
    assert_int_equal(s->remaining, left);
    assert_int_equal(s->reset_s, reset);
}

static void expect_no_limit(size_t i, uint32_t left)
{
    assert_int_equal(answer.statuses[i].code, WR_RATE_OK);
    assert_false(answer.statuses[i].has_limit);
    assert_int_equal(answer.statuses[i].remaining, left);
}

#define OK WR_RATE_OK
#define OVER WR_RATE_OVER_LIMIT
#define MINUTE WR_UNIT_MINUTE

#define SHOP                                                                           \
    "domain: shop\n"                                                                   \
    "descriptors:\n"                                                                   \
    "  - key: plan\n"                                                                  \
    "    value: free\n"                                                                \
    "    rate_limit: {name: free_min, unit: minute, requests_per_unit: 60}\n"          \
    "    descriptors:\n"                                                               \
    "      - {key: path, rate_limit: {unit: second, requests_per_unit: 5}}\n"          \
    "  - {key: ip, rate_limit: {unit: minute, requests_per_unit: 2}}\n"                \
    "  - {key: dev, value: \"*\", rate_limit: {unit: minute, requests_per_unit: 1}}\n" \
    "  - {key: org, value: \"a*\", share_threshold: true, rate_limit: {unit: minute, " \
    "requests_per_unit: 3}}\n"                                                         \
    "  - {key: none, rate_limit: {unlimited: true}}\n"                                 \
    "  - {key: zero, rate_limit: {unit: hour, requests_per_unit: 0}}\n"                \
    "  - {key: trial, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}\n"

/* The worked examples of the reference's documentation of itself. */
static void worked_examples(void **state)
{
    struct weir *w = open_envoy(SHOP, "");
    (void)state;

    assert_int_equal(ask(w, "plan=free", 0, T), OK);
    expect_status(0, OK, 60, MINUTE, 59, 20);
    assert_int_equal(answer.statuses[0].name.len, 8);
    assert_int_equal(ask(w, "plan=gold", 0, T), OK);
    expect_no_limit(0, 0);
    assert_int_equal(ask(w, "plan=free|path=/a", 0, T), OK);
    expect_status(0, OK, 5, WR_UNIT_SECOND, 4, 1);
    assert_int_equal(ask(w, "plan=free|path=/b", 0, T), OK);
    expect_status(0, OK, 5, WR_UNIT_SECOND, 4, 1); /* a counter for each value */
    assert_int_equal(ask(w, "plan=free|path=/a|ip=x", 0, T), OK);
    expect_no_limit(0, 0);
    assert_int_equal(ask(w, "plan=free", 0, T), OK);
    expect_status(0, OK, 60, MINUTE, 58, 20); /* its children took nothing from it */
    assert_int_equal(ask(w, "none=x", 7, T), OK);
    expect_no_limit(0, UINT32_MAX);
    weir_close(w);
}

static void the_unit_after_the_last_is_refused(void **state)
{
    struct weir *w = open_envoy(SHOP, "");
    (void)state;

    assert_int_equal(ask(w, "ip=x", 0, T), OK);
    assert_int_equal(ask(w, "ip=x", 0, T), OK);
    expect_status(0, OK, 2, MINUTE, 0, 20);
    assert_int_equal(ask(w, "ip=x", 0, T + S), OVER);
    expect_status(0, OVER, 2, MINUTE, 0, 19);
    assert_int_equal(ask(w, "ip=y", 0, T + S), OK);
    assert_int_equal(ask(w, "ip=x", 0, T + 20 * S - 1), OVER);
    expect_status(0, OVER, 2, MINUTE, 0, 1);
    assert_int_equal(ask(w, "ip=x", 0, T + 20 * S), OK);
    expect_status(0, OK, 2, MINUTE, 1, 60);
    assert_int_equal(ask(w, "zero=x", 0, T), OVER);
    weir_close(w);
}

/* Keys that joined by underscores would be the same are not. */
static void keys_do_not_collide(void **state)
{
    struct weir *w =
        open_envoy("domain: shop\n"
                   "descriptors:\n"
                   "  - {key: a, rate_limit: {unit: minute, requests_per_unit: 1}}\n"
                   "  - {key: a_b, rate_limit: {unit: minute, requests_per_unit: 1}}\n",
                   "");
    (void)state;

    assert_int_equal(ask(w, "a=b_c", 0, T), OK);
    assert_int_equal(ask(w, "a_b=c", 0, T), OK);
    assert_int_equal(ask(w, "a=b_c", 0, T), OVER);
    weir_close(w);
}

static void wildcards(void **state)
{
    struct weir *w = open_envoy(SHOP, "");
    (void)state;

    assert_int_equal(ask(w, "dev=1", 0, T), OK);
    assert_int_equal(ask(w, "dev=2", 0, T), OK); /* one counter for each full value */
    assert_int_equal(ask(w, "dev=1", 0, T), OVER);
    assert_int_equal(ask(w, "org=a1", 0, T), OK);
    assert_int_equal(ask(w, "org=a2", 0, T), OK);
    assert_int_equal(ask(w, "org=a3", 0, T), OK);
    expect_status(0, OK, 3, MINUTE, 0, 20); /* share_threshold: one for the pattern */
    assert_int_equal(ask(w, "org=a4", 0, T), OVER);
    assert_int_equal(ask(w, "org=b", 0, T), OK);
    expect_no_limit(0, 0);
    weir_close(w);
}

static void all_or_none(void **state)
{
    struct weir *w = open_envoy(SHOP, "");
    (void)state;

    assert_int_equal(ask(w, "ip=x", 2, T), OK);
    (void)with("plan=free");
    (void)with("ip=x");
    assert_int_equal(ask_in(w, "shop", 10, T), OVER);
    expect_status(0, OK, 60, MINUTE, 60, 20); /* nothing was consumed */
    expect_status(1, OVER, 2, MINUTE, 0, 20);
    assert_int_equal(ask(w, "plan=free", 0, T), OK);
    expect_status(0, OK, 60, MINUTE, 59, 20);
    /* The same counter twice in one question: both or neither. */
    (void)with("ip=y");
    (void)with("ip=y");
    (void)with("ip=y");
    assert_int_equal(ask_in(w, "shop", 0, T), OVER);
    assert_int_equal(ask(w, "ip=y", 2, T), OK);
    weir_close(w);
}

static void as_the_reference_counts(void **state)
{
    struct weir *w = open_envoy(SHOP, ", count_over_limit: true");
    (void)state;

    assert_int_equal(ask(w, "ip=x", 2, T), OK);
    (void)with("plan=free");
    (void)with("ip=x");
    assert_int_equal(ask_in(w, "shop", 10, T), OVER);
    expect_status(0, OK, 60, MINUTE, 50, 20); /* counted all the same */
    expect_status(1, OVER, 2, MINUTE, 0, 20);
    /* Limit 60, count 58, 5 hits: the count is 63, and a look is over too. */
    assert_int_equal(ask(w, "plan=free", 48, T), OK);
    expect_status(0, OK, 60, MINUTE, 2, 20);
    assert_int_equal(ask(w, "plan=free", 5, T), OVER);
    expect_status(0, OVER, 60, MINUTE, 0, 20);
    with("plan=free")->has_hits = true;
    assert_int_equal(ask_in(w, "shop", 0, T), OVER);
    /* Four back: 59. */
    *with("plan=free") = (struct wr_descriptor){entries[0], 1, false, true, true, 0, 0, 4};
    assert_int_equal(ask_in(w, "shop", 0, T), OK);
    expect_status(0, OK, 60, MINUTE, 1, 20);
    weir_close(w);
}

/* Limit 60, count 58, 5 hits (threshold 48): near_limit += 2, over_limit += 3. */
static void statistics(void **state)
{
    struct weir *w = open_envoy(SHOP, ", count_over_limit: true");
    const struct wr_engine *e = w->engine;
    (void)state;

    assert_int_equal(ask(w, "plan=free", 58, T), OK);
    assert_int_equal(wr_engine_envoy_stat(e, 0, WR_ENVOY_NEAR), 10);
    assert_int_equal(ask(w, "plan=free", 5, T), OVER);
    assert_int_equal(wr_engine_envoy_stat(e, 0, WR_ENVOY_NEAR), 12);
    assert_int_equal(wr_engine_envoy_stat(e, 0, WR_ENVOY_OVER), 3);
    assert_int_equal(wr_engine_envoy_stat(e, 0, WR_ENVOY_TOTAL), 63);
    assert_int_equal(wr_engine_envoy_stat(e, 0, WR_ENVOY_WITHIN), 58);
    assert_int_equal(ask(w, "plan=free", 4, T), OVER);
    assert_int_equal(wr_engine_envoy_stat(e, 0, WR_ENVOY_OVER), 7);
    assert_int_equal(wr_engine_envoy_stat(e, 0, WR_ENVOY_NEAR), 12);
    assert_int_equal(wr_engine_envoy_stat(e, 99, WR_ENVOY_OVER), 0);
    weir_close(w);
}

static void hits(void **state)
{
    struct weir *w = open_envoy(SHOP, "");
    struct wr_descriptor *d;
    (void)state;

    d = with("plan=free"); /* the descriptor's hits before the question's */
    d->has_hits = true;
    d->hits = 7;
    assert_int_equal(ask_in(w, "shop", 50, T), OK);
    expect_status(0, OK, 60, MINUTE, 53, 20);
    with("plan=free")->has_hits = true; /* present and 0: a look */
    assert_int_equal(ask_in(w, "shop", 50, T), OK);
    expect_status(0, OK, 60, MINUTE, 53, 20);
    d = with("plan=free"); /* far beyond what any limit holds */
    d->has_hits = true;
    d->hits = UINT64_MAX;
    assert_int_equal(ask_in(w, "shop", 0, T), OVER);
    assert_int_equal(ask(w, "plan=free", 53, T), OK);
    d = with("plan=free"); /* back: never below nothing, always OK */
    d->has_hits = d->negative = true;
    d->hits = 100;
    assert_int_equal(ask_in(w, "shop", 0, T), OK);
    expect_status(0, OK, 60, MINUTE, 60, 20);
    with("ip=new")->negative = true; /* no counter is made */
    assert_int_equal(ask_in(w, "shop", 0, T), OK);
    expect_status(0, OK, 2, MINUTE, 2, 20);
    assert_int_equal(ask(w, "ip=new", 2, T), OK);
    weir_close(w);
}

static void shadow(void **state)
{
    struct weir *w = open_envoy(SHOP, "");
    (void)state;

    assert_int_equal(ask(w, "trial=x", 0, T), OK);
    assert_int_equal(ask(w, "trial=x", 0, T), OK);
    expect_status(0, OK, 1, MINUTE, 0, 20);
    assert_int_equal(wr_engine_envoy_stat(w->engine, 7, WR_ENVOY_SHADOW), 1);
    weir_close(w);
    w = open_envoy(SHOP, ", shadow_mode: true"); /* of the whole: says so, refuses nothing */
    assert_int_equal(ask(w, "ip=x", 2, T), OK);
    assert_int_equal(ask(w, "ip=x", 1, T), OK);
    expect_status(0, OVER, 2, MINUTE, 0, 20);
    weir_close(w);
}

#define QUOTAS                                                                            \
    "domain: shop\n"                                                                      \
    "descriptors:\n"                                                                      \
    "  - {key: q1, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}\n" \
    "  - {key: q2, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 2}}\n" \
    "  - {key: r, rate_limit: {unit: minute, requests_per_unit: 3}}\n"

static int ask_quotas(struct weir *w)
{
    (void)with("q1=x");
    (void)with("q2=x");
    (void)with("r=x");
    return ask_in(w, "shop", 0, T);
}

static void quotas(void **state)
{
    struct weir *w = open_envoy(QUOTAS, "");
    (void)state;

    assert_int_equal(ask_quotas(w), OK);
    assert_int_equal(ask_quotas(w), OK); /* one quota is over, the other is not */
    expect_status(0, OVER, 1, MINUTE, 0, 20);
    expect_status(1, OK, 2, MINUTE, 0, 20);
    expect_status(2, OK, 3, MINUTE, 1, 20);
    assert_int_equal(ask_quotas(w), OVER);     /* both */
    assert_int_equal(ask(w, "r=x", 0, T), OK); /* what was refused took nothing */
    assert_int_equal(ask(w, "r=x", 0, T), OVER);
    weir_close(w);
}

static void replaces(void **state)
{
    struct weir *w =
        open_envoy("domain: shop\n"
                   "descriptors:\n"
                   "  - {key: base, rate_limit: {name: base, unit: minute, requests_per_unit: 1}}\n"
                   "  - {key: vip, rate_limit: {name: vip, unit: minute, requests_per_unit: 2, "
                   "replaces: [{name: base}]}}\n",
                   "");
    (void)state;

    for (int i = 0; i < 2; i++) {
        (void)with("base=x");
        (void)with("vip=x");
        assert_int_equal(ask_in(w, "shop", 0, T), OK);
        expect_no_limit(0, 0);
    }
    assert_int_equal(ask(w, "base=x", 0, T), OK); /* it was not counted */
    assert_int_equal(ask(w, "base=x", 0, T), OVER);
    weir_close(w);
}

/* The reference counts and looks in the order of the descriptors. */
static void looks(void **state)
{
    struct weir *w = open_envoy(SHOP, "");
    (void)state;

    (void)with("ip=x");
    with("ip=x")->has_hits = true;
    assert_int_equal(ask_in(w, "shop", 0, T), OK);
    expect_status(0, OK, 2, MINUTE, 1, 20);
    expect_status(1, OK, 2, MINUTE, 1, 20);
    with("zero=x")->has_hits = true; /* refusals do not count, so nothing is above the limit */
    assert_int_equal(ask_in(w, "shop", 0, T), OK);
    weir_close(w);
    w = open_envoy(SHOP, ", count_over_limit: true");
    with("ip=x")->has_hits = true;
    (void)with("ip=x");
    (void)with("ip=x");
    (void)with("ip=x");
    with("ip=x")->has_hits = true;
    assert_int_equal(ask_in(w, "shop", 0, T), OVER);
    expect_status(0, OK, 2, MINUTE, 2, 20);
    expect_status(1, OK, 2, MINUTE, 1, 20);
    expect_status(3, OVER, 2, MINUTE, 0, 20);
    expect_status(4, OVER, 2, MINUTE, 0, 20);
    assert_int_equal(ask(w, "zero=x", 0, T), OVER);
    with("zero=x")->has_hits = true;
    assert_int_equal(ask_in(w, "shop", 0, T), OVER);
    expect_status(0, OVER, 0, WR_UNIT_HOUR, 0, 3560);
    weir_close(w);
}

static void overrides(void **state)
{
    struct weir *w = open_envoy(SHOP, "");
    struct wr_rate_request request = {slice("shop"), descriptors, 1, 0};
    (void)state;

    for (int i = 0; i < 2; i++) {
        struct wr_descriptor *d = with("nobody=x"); /* where no rule matches, too */
        d->has_limit = true;
        d->limit_units = 1;
        d->limit_unit = WR_UNIT_HOUR;
        assert_int_equal(ask_in(w, "shop", 0, T), i == 0 ? OK : OVER);
        expect_status(0, i == 0 ? OK : OVER, 1, WR_UNIT_HOUR, 0, 3560);
    }
    with("trial=x")->has_limit = true; /* never in shadow mode */
    descriptors[0].limit_unit = WR_UNIT_DAY;
    assert_int_equal(ask_in(w, "shop", 0, T), OVER);
    /* As many different ones as there is room for. */
    for (uint32_t i = 0; i < 254; i++) {
        with("nobody=y")->has_limit = true;
        descriptors[0].limit_unit = WR_UNIT_DAY;
        descriptors[0].limit_units = 10 + i;
        (void)ask_in(w, "shop", 0, T);
    }
    with("nobody=y")->has_limit = true;
    descriptors[0].limit_unit = WR_UNIT_DAY;
    descriptors[0].limit_units = 5000;
    asked = 0;
    assert_int_equal(wr_engine_rate(w->engine, &request, 0, T, &answer), WEIR_EFULL);
    weir_close(w);
}

/* A descriptor with a limit of its own, of |units| an hour. */
static void with_own(const char *text, uint32_t units)
{
    struct wr_descriptor *d = with(text);

    d->has_limit = true;
    d->limit_units = units;
    d->limit_unit = WR_UNIT_HOUR;
}

/* Of the rule that a descriptor would meet, nothing holds for a limit that comes with it (the
 * reference's GetLimit returns before it looks for a rule). */
static void overrides_have_nothing_of_the_rule(void **state)
{
    struct weir *w = open_envoy(
        "domain: shop\n"
        "descriptors:\n"
        "  - {key: q, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 9}}\n"
        "  - {key: r, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 9}}\n"
        "  - {key: c, rate_limit: {name: c, unit: hour, requests_per_unit: 1}}\n"
        "  - {key: d, rate_limit: {name: d, unit: hour, requests_per_unit: 9, replaces: "
        "[{name: c}]}}\n"
        "  - {key: p, value: \"/r/*\", share_threshold: true, rate_limit: {unit: hour, "
        "requests_per_unit: 9}}\n"
        "  - {key: s, shadow_mode: true, rate_limit: {name: s, unit: hour, "
        "requests_per_unit: 9}}\n"
        "  - {key: u, rate_limit: {unlimited: true}}\n",
        "");
    (void)state;

    for (int i = 0; i < 2; i++) { /* no quota: refuses though another quota has room */
        with_own("q=1", 1);
        (void)with("r=1");
        assert_int_equal(ask_in(w, "shop", 0, T), i == 0 ? OK : OVER);
    }
    for (int i = 0; i < 2; i++) { /* no name: nobody replaces it */
        with_own("c=1", 1);
        (void)with("d=1");
        assert_int_equal(ask_in(w, "shop", 0, T), i == 0 ? OK : OVER);
        assert_int_equal(answer.statuses[0].name.len, 0);
        assert_null(answer.statuses[0].rule);
    }
    for (int i = 0; i < 2; i++) { /* replaces nobody */
        (void)with("c=2");
        with_own("d=2", 50);
        assert_int_equal(ask_in(w, "shop", 0, T), i == 0 ? OK : OVER);
    }
    for (int i = 0; i < 2; i++) { /* each value by itself */
        with_own(i == 0 ? "p=/r/1" : "p=/r/2", 1);
        assert_int_equal(ask_in(w, "shop", 0, T), OK);
    }
    for (int i = 0; i < 2; i++) { /* not in shadow, not unlimited */
        with_own("s=1", 1);
        with_own("u=1", 1);
        assert_int_equal(ask_in(w, "shop", 0, T), i == 0 ? OK : OVER);
        expect_status(0, i == 0 ? OK : OVER, 1, WR_UNIT_HOUR, 0, 3560);
        expect_status(1, i == 0 ? OK : OVER, 1, WR_UNIT_HOUR, 0, 3560);
    }
    weir_close(w);
}

/* T0 is 2026-01-01, a Thursday. */
static void windows_of_the_calendar(void **state)
{
    static const char months[] = "domain: shop\n"
                                 "descriptors:\n"
                                 "  - {key: m, rate_limit: {unit: month, requests_per_unit: 1}}\n"
                                 "  - {key: w, rate_limit: {unit: week, requests_per_unit: 1}}\n";
    struct weir *w = open_envoy(months, "");
    (void)state;

    assert_int_equal(ask(w, "m=x", 0, T0 + 30 * DAY), OK); /* the 31st */
    expect_status(0, OK, 1, WR_UNIT_MONTH, 0, 86400);
    assert_int_equal(ask(w, "m=x", 0, T0 + 31 * DAY - 1), OVER);
    assert_int_equal(ask(w, "m=x", 0, T0 + 31 * DAY), OK);
    expect_status(0, OK, 1, WR_UNIT_MONTH, 0, 28 * 86400);
    assert_int_equal(ask(w, "w=x", 0, T0), OK); /* until Monday */
    expect_status(0, OK, 1, WR_UNIT_WEEK, 0, 4 * 86400);
    weir_close(w);
    w = open_envoy(months, ", windows: epoch");
    assert_int_equal(ask(w, "w=x", 0, T0), OK); /* until Thursday */
    expect_status(0, OK, 1, WR_UNIT_WEEK, 0, 7 * 86400);
    /* Day 20454 = 681 * 30 + 24: six days are left of the thirty. */
    assert_int_equal(ask(w, "m=x", 0, T0), OK);
    expect_status(0, OK, 1, WR_UNIT_MONTH, 0, 6 * 86400);
    weir_close(w);
}

static void domains(void **state)
{
    struct weir *w = open_envoy(SHOP, "");
    struct wr_rate_request request = {slice("other"), descriptors, 0, 0};
    (void)state;

    assert_true(wr_engine_knows_domain(w->engine, slice("shop")));
    assert_false(wr_engine_knows_domain(w->engine, slice("other")));
    assert_int_equal(wr_engine_rate(w->engine, &request, 0, T, &answer), WEIR_ENOENT);
    weir_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worked_examples),
        cmocka_unit_test(the_unit_after_the_last_is_refused),
        cmocka_unit_test(keys_do_not_collide),
        cmocka_unit_test(wildcards),
        cmocka_unit_test(all_or_none),
        cmocka_unit_test(as_the_reference_counts),
        cmocka_unit_test(statistics),
        cmocka_unit_test(hits),
        cmocka_unit_test(shadow),
        cmocka_unit_test(quotas),
        cmocka_unit_test(replaces),
        cmocka_unit_test(looks),
        cmocka_unit_test(overrides),
        cmocka_unit_test(overrides_have_nothing_of_the_rule),
        cmocka_unit_test(windows_of_the_calendar),
        cmocka_unit_test(domains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
