/* Forwarding headers of any bytes. The first byte chooses the kind and the hops. Whatever stands in
 * the header: an untrusted peer is the client, and behind a trusted one what our proxy appended
 * counts. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "policy/forwarded.h"

static void require(bool holds)
{
    if (!holds)
        abort();
}

static struct wr_ip address(const char *text)
{
    struct wr_ip ip;

    require(wr_ip_parse((struct weir_slice){text, strlen(text)}, &ip));
    return ip;
}

static bool is_same(struct wr_ip a, struct wr_ip b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

/* With |entry| appended, as our proxy does, |entry|'s address is the client's. */
static void check_appended(const struct wr_client_rule *rule, const uint8_t *data, size_t size,
                           const char *entry)
{
    struct wr_ip peer = address("10.0.0.1");
    size_t len = strlen(entry);
    char *header = malloc(size + len);

    if (header == NULL)
        return;
    if (size > 0)
        memcpy(header, data, size);
    memcpy(header + size, entry, len);
    require(is_same(wr_client_find(rule, &peer, (struct weir_slice){header, size + len}),
                    address("192.0.2.4")));
    free(header);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wr_net net;
    struct wr_client_rule rule = {.field = 0};
    struct wr_ip trusted = address("10.0.0.1"), untrusted = address("203.0.113.9");
    struct weir_slice header = {(const char *)data + 1, size - 1};

    if (size == 0)
        return 0;
    require(wr_net_parse((struct weir_slice){"10.0.0.0/8", 10}, &net, NULL));
    wr_netset_make(&rule.trusted, &net, 1);
    rule.from = (enum wr_from)(data[0] % 4);
    rule.hops = rule.from == WR_FROM_XFF || rule.from == WR_FROM_FORWARDED ? data[0] / 64 : 0;
    require(is_same(wr_client_find(&rule, &untrusted, header), untrusted));
    (void)wr_client_find(&rule, &trusted, header);
    rule.hops = 0;
    if (rule.from == WR_FROM_XFF)
        check_appended(&rule, data + 1, size - 1, ", 192.0.2.4:80");
    if (rule.from == WR_FROM_FORWARDED)
        check_appended(&rule, data + 1, size - 1, ", for=192.0.2.4;proto=https");
    return 0;
}
