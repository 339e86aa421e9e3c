/* ipaddr.c - parsing, masking and printing addresses. inet_pton does the parsing: it refuses
 * leading zeros, short forms, ports, brackets and blanks, which inet_aton and getaddrinfo let
 * through. */
#include "base/ipaddr.h"

#include <arpa/inet.h>
#include <string.h>

static const uint8_t mapped_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool wr_ip_parse(struct weir_slice text, struct wr_ip *out)
{
    char buffer[WR_IP_TEXT_MAX];
    const char *zone = text.len > 0 ? memchr(text.ptr, '%', text.len) : NULL;

    if (zone !=
        NULL) { /* fe80::1%eth0: the zone is local to this host and means nothing as a key */
        if (zone == text.ptr + text.len - 1 ||
            memchr(text.ptr, ':', (size_t)(zone - text.ptr)) == NULL)
            return false;
        text.len = (size_t)(zone - text.ptr);
    }
    if (text.len == 0 || text.len >= sizeof buffer || memchr(text.ptr, '\0', text.len) != NULL)
        return false;
    memcpy(buffer, text.ptr, text.len);
    buffer[text.len] = '\0';
    if (memchr(buffer, ':', text.len) != NULL)
        return inet_pton(AF_INET6, buffer, out->bytes) == 1;
    memcpy(out->bytes, mapped_prefix, sizeof mapped_prefix);
    return inet_pton(AF_INET, buffer, out->bytes + 12) == 1;
}

static struct weir_slice trim(struct weir_slice s)
{
    while (s.len > 0 && (s.ptr[0] == ' ' || s.ptr[0] == '\t')) {
        s.ptr++;
        s.len--;
    }
    while (s.len > 0 && (s.ptr[s.len - 1] == ' ' || s.ptr[s.len - 1] == '\t'))
        s.len--;
    return s;
}

/* Digits of a port, 0..65535; other bytes or none: false. */
static bool is_port(const char *p, size_t len)
{
    unsigned value = 0;

    if (len == 0 || len > 5)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (p[i] < '0' || p[i] > '9')
            return false;
        value = value * 10 + (unsigned)(p[i] - '0');
    }
    return value <= 65535;
}

bool wr_ip_parse_hostport(struct weir_slice text, struct wr_ip *out)
{
    const char *colon, *close;
    size_t rest;

    text = trim(text);
    if (text.len == 0)
        return false;
    if (text.ptr[0] == '[') {
        close = memchr(text.ptr, ']', text.len);
        if (close == NULL)
            return false;
        rest = text.len - (size_t)(close - text.ptr) - 1;
        if (rest > 0 && (close[1] != ':' || !is_port(close + 2, rest - 1)))
            return false;
        text = (struct weir_slice){text.ptr + 1, (size_t)(close - text.ptr) - 1};
        return memchr(text.ptr, ':', text.len) != NULL && wr_ip_parse(text, out);
    }
    colon = memchr(text.ptr, ':', text.len);
    if (colon != NULL) {
        rest = text.len - (size_t)(colon - text.ptr) - 1;
        if (memchr(colon + 1, ':', rest) == NULL) { /* one colon: IPv4 with a port */
            if (!is_port(colon + 1, rest))
                return false;
            text.len = (size_t)(colon - text.ptr);
        }
    }
    return wr_ip_parse(text, out);
}

bool wr_ip_is_v4(const struct wr_ip *ip)
{
    return memcmp(ip->bytes, mapped_prefix, sizeof mapped_prefix) == 0;
}

/* Keep the first |bits| bits, 0..128. */
static struct wr_ip mask_bits(struct wr_ip ip, unsigned bits)
{
    for (unsigned i = 0; i < 16; i++) {
        unsigned keep = bits >= (i + 1) * 8 ? 8 : bits > i * 8 ? bits - i * 8 : 0;
        ip.bytes[i] &= (uint8_t)(0xff00U >> keep);
    }
    return ip;
}

struct wr_ip wr_ip_mask(struct wr_ip ip, unsigned v6_prefix)
{
    return wr_ip_is_v4(&ip) ? ip : mask_bits(ip, v6_prefix);
}

bool wr_net_parse(struct weir_slice text, struct wr_net *out, bool *host_bits)
{
    const char *slash = text.len > 0 ? memchr(text.ptr, '/', text.len) : NULL;
    struct weir_slice address = text;
    unsigned prefix = 128, most;
    struct wr_ip ip;

    if (slash != NULL)
        address.len = (size_t)(slash - text.ptr);
    if (!wr_ip_parse(address, &ip) || memchr(address.ptr, '%', address.len) != NULL)
        return false;
    if (slash != NULL) {
        size_t digits = text.len - address.len - 1;
        if (digits == 0 || digits > 3 || (digits > 1 && slash[1] == '0'))
            return false;
        prefix = 0;
        for (size_t i = 0; i < digits; i++) {
            if (slash[1 + i] < '0' || slash[1 + i] > '9')
                return false;
            prefix = prefix * 10 + (unsigned)(slash[1 + i] - '0');
        }
        most = memchr(address.ptr, ':', address.len) != NULL ? 128 : 32;
        if (prefix > most)
            return false;
        prefix += 128 - most;
    }
    out->ip = mask_bits(ip, prefix);
    out->prefix = (uint8_t)prefix;
    if (host_bits != NULL)
        *host_bits = memcmp(out->ip.bytes, ip.bytes, sizeof ip.bytes) != 0;
    return true;
}

bool wr_net_contains(const struct wr_net *net, const struct wr_ip *ip)
{
    struct wr_ip masked = mask_bits(*ip, net->prefix);
    return memcmp(masked.bytes, net->ip.bytes, sizeof masked.bytes) == 0;
}

size_t wr_ip_format(const struct wr_ip *ip, char *out)
{
    if (wr_ip_is_v4(ip))
        (void)inet_ntop(AF_INET, ip->bytes + 12, out, WR_IP_TEXT_MAX);
    else
        (void)inet_ntop(AF_INET6, ip->bytes, out, WR_IP_TEXT_MAX);
    return strlen(out);
}
