/* Addresses of any bytes: what is one is what inet_pton says, and survives being printed. */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/ipaddr.h"

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check_printed(const struct wr_ip *ip)
{
    char text[WR_IP_TEXT_MAX];
    size_t len = wr_ip_format(ip, text);
    struct wr_ip again;

    require(len < sizeof text && wr_ip_parse((struct weir_slice){text, len}, &again));
    require(memcmp(&again, ip, sizeof again) == 0);
}

/* What inet_pton makes of |text|, which must not hold a zone. */
static bool by_libc(struct weir_slice text, uint8_t bytes[16])
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    char buffer[WR_IP_TEXT_MAX];

    if (text.len >= sizeof buffer || memchr(text.ptr, '\0', text.len) != NULL)
        return false;
    memcpy(buffer, text.ptr, text.len);
    buffer[text.len] = '\0';
    memcpy(bytes, mapped, sizeof mapped);
    return inet_pton(AF_INET, buffer, bytes + 12) == 1 || inet_pton(AF_INET6, buffer, bytes) == 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weir_slice text = {(const char *)data, size};
    uint8_t expected[16];
    struct wr_net net;
    struct wr_ip ip;
    bool host_bits, parsed;

    if (size == 0)
        return 0;
    parsed = wr_ip_parse(text, &ip);
    if (memchr(data, '%', size) == NULL) {
        require(parsed == by_libc(text, expected));
        require(!parsed || memcmp(ip.bytes, expected, sizeof expected) == 0);
    }
    if (parsed) {
        check_printed(&ip);
        require(wr_ip_parse_hostport(text, &ip));
        check_printed(&ip);
    }
    if (wr_ip_parse_hostport(text, &ip))
        check_printed(&ip);
    if (wr_net_parse(text, &net, &host_bits)) {
        require(net.prefix <= 128 && wr_net_contains(&net, &net.ip));
        check_printed(&net.ip);
    }
    return 0;
}
