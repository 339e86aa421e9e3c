/* match.c - a request under a policy of a thousand limits, of which three match it, beside the same
 * request under a policy of just those three: matching is compiled, so the others must cost next to
 * nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "measure.h"
#include "weir/weir.h"

#define ROUNDS 9
#define DECISIONS 400000
#define OTHERS 997
#define FIELDS_MAX 16

static struct weir *open_policy(unsigned others)
{
    struct weir_options options = {.arena_path = "", .arena_bytes = UINT64_C(16) << 20};
    char path[] = "/tmp/weir-bench-XXXXXX", errors[2000];
    int fd = mkstemp(path);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    struct weir *weir;

    if (file == NULL)
        abort();
    (void)fputs("version: 1\n"
                "identity: {api_key: {header: X-Api-Key}}\n"
                "limits:\n"
                "  - {name: a, by: [ip], match: {path: /api/v1/users/**}, rate: 1000000/second "
                "burst 1000000}\n"
                "  - {name: b, by: [api_key], match: {path: '/api/v1/users/{id}/posts'}, rate: "
                "1000000/second burst 1000000}\n"
                "  - {name: c, by: [api_key, route], match: {method: GET, path: "
                "'/api/v1/users/*/posts'}, rate: 1000000/second burst 1000000}\n",
                file);
    for (unsigned i = 0; i < others; i++)
        (void)fprintf(
            file,
            "  - {name: other-%u, by: [api_key], match: {path: '/api/v%u/things%u/{id}'}, "
            "rate: 100/second}\n",
            i, i % 7, i);
    (void)fclose(file);
    if (weir_open(&weir, path, &options, errors, sizeof errors) != 0) {
        (void)fprintf(stderr, "%s", errors);
        exit(1);
    }
    (void)unlink(path);
    return weir;
}

static double ns_of(struct weir *weir)
{
    struct weir_slice fields[FIELDS_MAX] = {{NULL, 0}};
    struct weir_request request = {.method = {"GET", 3},
                                   .path = {"/api/v1/users/12345/posts?page=2", 32},
                                   .peer = {"192.0.2.7", 9},
                                   .fields = fields,
                                   .field_count = weir_field_count(weir),
                                   .cost_units = -1,
                                   .plan = -1};
    struct weir_answer answer;
    int64_t start;

    for (size_t i = 0; i < request.field_count && i < FIELDS_MAX; i++) {
        if (strcasecmp(weir_field_name(weir, i), "X-Api-Key") == 0)
            fields[i] = (struct weir_slice){"k_live_0123456789", 17};
    }
    start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    for (unsigned i = 0; i < DECISIONS; i++) {
        if (weir_decide(weir, &request, weir_now(weir), &answer) != 0 || answer.count != 3)
            abort();
    }
    return (double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - start) / DECISIONS;
}

int main(void)
{
    struct weir *few = open_policy(0), *many = open_policy(OTHERS);
    double ours[ROUNDS], peer[ROUNDS], ratios[ROUNDS];

    for (unsigned i = 0; i < ROUNDS; i++) {
        ours[i] = ns_of(many);
        peer[i] = ns_of(few);
        ratios[i] = ours[i] / peer[i];
    }
    report_rounds((struct measured){.bench = "match",
                                    .name = "3 of 1000 limits match, beside 3 of 3",
                                    .unit = "ns CPU a request",
                                    .target = 1.25,
                                    .at_most = true},
                  ours, peer, ratios, ROUNDS);
    weir_close(few);
    weir_close(many);
    return 0;
}
