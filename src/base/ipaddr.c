/* ipaddr.c - parsing, masking and printing addresses.
 *
 * Problem. The peer's address is parsed for every request, from text that callers may have written.
 * It must be strict (no octal, no short forms: "010.1" is four addresses to four programs) and
 * cheap.
 *
 * Idea. One pass each over dotted quads and IPv6 text. The grammar is that of inet_pton, which a
 * fuzz target holds them to; inet_pton itself took 70 and 200 ns, most of a whole selection.
 *
 * Rejected: inet_aton and getaddrinfo, which let leading zeros, short forms and blanks through. */
#include "base/ipaddr.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/hex.h"

#define V4_BITS 96 /* in front of an IPv4 address */

static const uint8_t mapped_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

/* Take one decimal digit at |*p| onto |*value|. */
static bool take_digit(const char **p, const char *end, unsigned *value)
{
    unsigned digit;

    if (*p == end)
        return false;
    digit = (unsigned)(unsigned char)**p - '0';
    if (digit > 9)
        return false;
    ++*p;
    *value = *value * 10 + digit;
    return true;
}

/* Parse a dotted quad at |p|. Returns what follows it, or NULL; |out| has 4 bytes. */
static const char *parse_v4(const char *p, const char *end, uint8_t *out)
{
    for (unsigned i = 0; i < 4; i++) {
        unsigned value = 0;
        if (i > 0 && (p == end || *p++ != '.'))
            return NULL;
        if (!take_digit(&p, end, &value))
            return NULL;
        if (value == 0) { /* no digit may follow a zero: "010" is 8 to some */
            out[i] = 0;
            continue;
        }
        if (take_digit(&p, end, &value) && take_digit(&p, end, &value) && value > 255)
            return NULL;
        out[i] = (uint8_t)value;
    }
    return p;
}

#define NO_GAP SIZE_MAX

/* Groups of two bytes read so far, and where "::" stands among them. */
struct groups {
    uint8_t bytes[16];
    size_t used;
    size_t gap; /* bytes before "::", or NO_GAP */
};

/* One group of up to four hex digits at |p|, or the dotted quad that may end an address. Returns
 * what follows, or NULL. */
static const char *parse_group(const char *p, const char *end, struct groups *g)
{
    const char *start = p;
    unsigned value = 0;

    for (int digit; p < end && p - start < 5 && (digit = wr_hex_digit(*p)) >= 0; p++)
        value = value << 4 | (unsigned)digit;
    if (p < end && *p == '.') {
        if (g->used > 12 || parse_v4(start, end, g->bytes + g->used) != end)
            return NULL;
        g->used += 4;
        return end;
    }
    if (p == start || p - start > 4 || g->used > 14)
        return NULL;
    g->bytes[g->used++] = (uint8_t)(value >> 8);
    g->bytes[g->used++] = (uint8_t)value;
    return p;
}

/* RFC 4291 section 2.2; |text| has a colon. */
static bool parse_v6(struct weir_slice text, struct wr_ip *out)
{
    const char *p = text.ptr, *end = text.ptr + text.len;
    struct groups g = {.gap = NO_GAP};
    size_t tail;

    if (text.len >= 2 && p[0] == ':' && p[1] == ':') {
        g.gap = 0;
        p += 2;
    }
    while (p < end) {
        p = parse_group(p, end, &g);
        if (p == NULL)
            return false;
        if (p == end)
            break;
        if (*p++ != ':' || p == end)
            return false;
        if (*p == ':') {
            if (g.gap != NO_GAP)
                return false;
            g.gap = g.used;
            p++;
        }
    }
    if (g.gap == NO_GAP ? g.used != 16 : g.used > 14)
        return false;
    memcpy(out->bytes, g.bytes, sizeof out->bytes);
    if (g.gap == NO_GAP)
        return true;
    tail = g.used - g.gap;
    memset(out->bytes + g.gap, 0, sizeof out->bytes - g.gap);
    memcpy(out->bytes + sizeof out->bytes - tail, g.bytes + g.gap, tail);
    return true;
}

/* IPv6 text with its zone (fe80::1%eth0) cut off: it is local to this host and means nothing as a
 * key. */
static bool parse_zoned(struct weir_slice text, struct wr_ip *out)
{
    const char *zone = memchr(text.ptr, '%', text.len);

    if (zone != NULL) {
        const char *end = text.ptr + text.len;
        if (zone + 1 == end)
            return false;
        for (const char *p = zone + 1; p < end; p++)
            if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 0x7f)
                return false;
        text.len = (size_t)(zone - text.ptr);
    }
    return text.len < WR_IP_TEXT_MAX && memchr(text.ptr, ':', text.len) != NULL &&
           parse_v6(text, out);
}

bool wr_ip_parse(struct weir_slice text, struct wr_ip *out)
{
    if (text.len == 0)
        return false;
    memcpy(out->bytes, mapped_prefix, sizeof mapped_prefix);
    if (parse_v4(text.ptr, text.ptr + text.len, out->bytes + 12) == text.ptr + text.len)
        return true;
    return parse_zoned(text, out);
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

/* "[::1]" or "[::1]:80"; |text| begins with a bracket. */
static bool parse_bracketed(struct weir_slice text, struct wr_ip *out)
{
    const char *close = memchr(text.ptr, ']', text.len);
    size_t rest;

    if (close == NULL)
        return false;
    rest = text.len - (size_t)(close - text.ptr) - 1;
    if (rest > 0 && (close[1] != ':' || !is_port(close + 2, rest - 1)))
        return false;
    text = (struct weir_slice){text.ptr + 1, (size_t)(close - text.ptr) - 1};
    return text.len > 0 && parse_zoned(text, out);
}

bool wr_ip_parse_hostport(struct weir_slice text, struct wr_ip *out)
{
    const char *end, *rest;

    text = trim(text);
    if (text.len == 0)
        return false;
    if (text.ptr[0] == '[')
        return parse_bracketed(text, out);
    end = text.ptr + text.len;
    memcpy(out->bytes, mapped_prefix, sizeof mapped_prefix);
    rest = parse_v4(text.ptr, end, out->bytes + 12);
    if (rest == NULL)
        return parse_zoned(text, out);
    return rest == end || (*rest == ':' && is_port(rest + 1, (size_t)(end - rest) - 1));
}

bool wr_ip_is_v4(const struct wr_ip *ip)
{
    return memcmp(ip->bytes, mapped_prefix, sizeof mapped_prefix) == 0;
}

/* An address as two words, most significant first. */
struct words {
    uint64_t high, low;
};

static struct words words_of(const struct wr_ip *ip)
{
    struct words w;

    memcpy(&w.high, ip->bytes, 8);
    memcpy(&w.low, ip->bytes + 8, 8);
    return (struct words){__builtin_bswap64(w.high), __builtin_bswap64(w.low)};
}

/* The first |bits| bits set, 0..128. */
static struct words mask_of(unsigned bits)
{
    if (bits == 0)
        return (struct words){0, 0};
    if (bits <= 64)
        return (struct words){UINT64_MAX << (64 - bits), 0};
    return (struct words){UINT64_MAX, UINT64_MAX << (128 - bits)};
}

/* Keep the first |bits| bits, 0..128. */
static struct wr_ip mask_bits(struct wr_ip ip, unsigned bits)
{
    struct words w = words_of(&ip), mask = mask_of(bits);

    w.high = __builtin_bswap64(w.high & mask.high);
    w.low = __builtin_bswap64(w.low & mask.low);
    memcpy(ip.bytes, &w.high, 8);
    memcpy(ip.bytes + 8, &w.low, 8);
    return ip;
}

struct wr_ip wr_ip_mask(struct wr_ip ip, unsigned v6_prefix)
{
    return wr_ip_is_v4(&ip) ? ip : mask_bits(ip, v6_prefix);
}

bool wr_ip_or_host(struct weir_slice text)
{
    struct wr_ip ip;

    if (wr_ip_parse_hostport(text, &ip))
        return true;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i], lower = c | 0x20;
        if (!(lower >= 'a' && lower <= 'z') && !(c >= '0' && c <= '9') && c != '-' && c != '.' &&
            c != '_')
            return false;
    }
    return text.len > 0;
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

/* ::/0 is everybody; another network of IPv6 holds no IPv4, wherever we keep that. */
bool wr_net_contains(const struct wr_net *net, const struct wr_ip *ip)
{
    if (wr_ip_is_v4(ip) && net->prefix > 0 && net->prefix < V4_BITS)
        return false;
    struct words a = words_of(&net->ip), b = words_of(ip), mask = mask_of(net->prefix);
    return (((a.high ^ b.high) & mask.high) | ((a.low ^ b.low) & mask.low)) == 0;
}

size_t wr_ip_format(const struct wr_ip *ip, char *out)
{
    if (wr_ip_is_v4(ip))
        (void)inet_ntop(AF_INET, ip->bytes + 12, out, WR_IP_TEXT_MAX);
    else
        (void)inet_ntop(AF_INET6, ip->bytes, out, WR_IP_TEXT_MAX);
    return strlen(out);
}
