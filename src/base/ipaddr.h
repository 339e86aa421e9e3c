/* ipaddr.h - addresses as sixteen bytes, so that every spelling of one address is one key.
 *
 * IPv4 is held as ::ffff:a.b.c.d, and an IPv4-mapped IPv6 address is that IPv4 address. NAT64,
 * 6to4, Teredo and ::a.b.c.d stay IPv6. */
#ifndef WR_BASE_IPADDR_H
#define WR_BASE_IPADDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/weir.h"

struct wr_ip {
    uint8_t bytes[16]; /* network order */
};

/* A network: |prefix| counts in IPv6 terms, 0..128 (an IPv4 /8 is 104). Host bits are zero. */
struct wr_net {
    struct wr_ip ip;
    uint8_t prefix;
};

#define WR_IP_TEXT_MAX 46 /* INET6_ADDRSTRLEN */

/* Parse an address and nothing else: dotted quad, IPv6 text (RFC 4291), with a zone id (%eth0) cut
 * off. No ports, no brackets, no blanks, no short or octal IPv4. */
bool wr_ip_parse(struct weir_slice text, struct wr_ip *out);

/* Parse an address that may carry a port, as it stands in X-Forwarded-For: additionally
 * "1.2.3.4:80",
 * "[::1]", "[::1]:80". Blanks at both ends are allowed. */
bool wr_ip_parse_hostport(struct weir_slice text, struct wr_ip *out);

/* Is |text| an address in that form, or can it be the name of a host: letters, digits, '-', '.' and
 * '_'? */
bool wr_ip_or_host(struct weir_slice text);

/* Parse "10.0.0.0/8", "fd00::/8" or a single address. Host bits must be zero: |*host_bits| (may be
 * NULL) is set when they were not; they are cleared. */
bool wr_net_parse(struct weir_slice text, struct wr_net *out, bool *host_bits);

bool wr_net_contains(const struct wr_net *net, const struct wr_ip *ip);

bool wr_ip_is_v4(const struct wr_ip *ip);

/* Keep the first |v6_prefix| bits of an IPv6 address (1..128), all of an IPv4 address. */
struct wr_ip wr_ip_mask(struct wr_ip ip, unsigned v6_prefix);

/* RFC 5952 text; IPv4 dotted. Returns its length; |out| has WR_IP_TEXT_MAX bytes. */
size_t wr_ip_format(const struct wr_ip *ip, char *out);

#endif
