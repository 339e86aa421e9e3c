/* door_admin_words.c - keys, values and times in the admin door's answers.
 *
 * Invariant: of a value that may be a secret no more than four bytes and a quarter are shown. Which
 * identity holds a secret the policy does not say, so all but "user" are taken to. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "doors/door_admin.h"

#define SHOWN_MAX 4U

void admin_put_ms(struct wr_page *page, const char *key, int64_t ns)
{
    wr_page_key(page, key);
    if (ns < 0)
        wr_page_null(page);
    else
        wr_page_int(page, ns / WR_NS_PER_MS + (ns % WR_NS_PER_MS != 0));
}

void admin_put_int(struct wr_page *page, const char *key, int64_t value)
{
    wr_page_key(page, key);
    wr_page_int(page, value);
}

void admin_put_id(struct wr_page *page, uint64_t id)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%" PRIu64, id);
    admin_put_name(page, "id", text);
}

void admin_put_bool(struct wr_page *page, const char *key, bool value)
{
    wr_page_key(page, key);
    wr_page_bool(page, value);
}

void admin_put_name(struct wr_page *page, const char *key, const char *text)
{
    wr_page_key(page, key);
    wr_page_name(page, text);
}

void admin_put_clear(struct wr_page *page, struct weir_slice value)
{
    wr_page_key(page, "value");
    wr_page_string(page, value);
}

void admin_put_value(struct wr_page *page, const char *identity, struct weir_slice value)
{
    size_t shown = value.len / 4 < SHOWN_MAX ? value.len / 4 : SHOWN_MAX;

    if (strcmp(identity, "user") == 0) {
        admin_put_clear(page, value);
        return;
    }
    wr_page_key(page, "masked");
    wr_page_string(page, (struct weir_slice){value.ptr, shown});
    admin_put_int(page, "bytes", (int64_t)value.len);
}

/* An address, or the network of an IPv6 one that is counted by. */
static void put_address(struct wr_page *page, struct weir_slice bytes, unsigned prefix)
{
    struct wr_ip ip;
    char text[WR_IP_TEXT_MAX + 4];
    size_t len;

    memcpy(ip.bytes, bytes.ptr, sizeof ip.bytes);
    len = wr_ip_format(&ip, text);
    if (!wr_ip_is_v4(&ip) && prefix < 128) {
        text[len++] = '/';
        if (prefix >= 100)
            text[len++] = '1';
        if (prefix >= 10)
            text[len++] = (char)('0' + prefix / 10 % 10);
        text[len++] = (char)('0' + prefix % 10);
    }
    admin_put_clear(page, (struct weir_slice){text, len});
}

/* A value that a program names the key by, of a limit by address: no part of a request. */
static bool is_plain(const struct wr_key_part *part, const char *name)
{
    return name == NULL || (part->kind == WR_PART_VALUE && strcmp(name, "ip") == 0);
}

static void put_customer(struct wr_page *page, struct weir_slice bytes)
{
    uint64_t id;

    memcpy(&id, bytes.ptr, sizeof id);
    admin_put_id(page, id);
}

static void put_part(struct wr_page *page, const struct wr_policy *policy,
                     const struct wr_selected *selected, unsigned i)
{
    const struct wr_key_part *part = &selected->part[i];
    bool identity;
    const char *name = wr_policy_part(policy, selected->limit, i, &identity);

    if (is_plain(part, name))
        name = NULL;
    wr_page_open(page, '{');
    admin_put_name(page, "part", name);
    if (part->kind == WR_PART_FALLBACK || part->kind == WR_PART_FALLBACK_HOST)
        admin_put_name(page, "instead", "ip");
    if (part->kind == WR_PART_IP || part->kind == WR_PART_FALLBACK)
        put_address(page, part->bytes, wr_policy_prefix(policy, selected->limit));
    else if (part->kind == WR_PART_CUSTOMER)
        put_customer(page, part->bytes);
    else if (name == NULL || (identity && part->kind == WR_PART_VALUE))
        admin_put_value(page, name != NULL ? name : "", part->bytes);
    else
        admin_put_clear(page, part->bytes);
    wr_page_close(page, '}');
}

void admin_put_key(struct wr_page *page, const struct wr_policy *policy,
                   const struct wr_selected *selected)
{
    wr_page_key(page, "key");
    wr_page_open(page, '[');
    for (unsigned i = 0; i < selected->parts; i++)
        put_part(page, policy, selected, i);
    wr_page_close(page, ']');
}
