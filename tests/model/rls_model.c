/* rls_model.c - protobuf-c reads, from the schema in rls.proto; then the same bounds as ours.
 *
 * One thing is beyond it: it takes field number 0 in more than one byte for an unknown field, and
 * forgets those of the earlier of two messages that it merges. So where ours refuses a message
 * that has such a tag somewhere in its bytes, it is not asked. */
#include "rls_model.h"

#include <string.h>

#include <rls.pb-c.h>

struct reading {
    WrRls__Request *message; /* NULL: it is none */
    struct wr_rls_space space;
    struct wr_rate_request request;
    const char *why;
    int result;
};

/* ---- the model ----------------------------------------------------------------------------- */

static bool well_formed(const ProtobufCMessage *message)
{
    for (unsigned i = 0; message != NULL && i < message->n_unknown_fields; i++)
        if (message->unknown_fields[i].tag == 0)
            return false;
    return true;
}

static bool all_well_formed(const WrRls__Request *request)
{
    bool good = well_formed(&request->base);

    for (size_t i = 0; i < request->n_descriptors; i++) {
        const WrRls__Descriptor *d = request->descriptors[i];
        good = good && well_formed(&d->base) && well_formed((const ProtobufCMessage *)d->limit) &&
               well_formed((const ProtobufCMessage *)d->hits_addend);
        for (size_t j = 0; j < d->n_entries; j++)
            good = good && well_formed(&d->entries[j]->base);
    }
    return good;
}

static struct weir_slice text_of(const ProtobufCBinaryData *bytes)
{
    return (struct weir_slice){(const char *)bytes->data, bytes->len};
}

static void refuse(struct reading *r, int result, const char *why)
{
    r->result = result;
    r->why = why;
}

static void copy_entries(struct reading *r, const WrRls__Descriptor *from, size_t at)
{
    struct wr_descriptor *to = &r->space.descriptors[at];

    to->entries = r->space.entries[at];
    to->count = from->n_entries;
    if (to->count > WR_ENTRIES_MAX) {
        refuse(r, WEIR_EFULL, "a descriptor has more than 16 entries");
        return;
    }
    for (size_t i = 0; r->result == 0 && i < to->count; i++) {
        struct wr_entry *entry = &r->space.entries[at][i];
        *entry =
            (struct wr_entry){text_of(&from->entries[i]->key), text_of(&from->entries[i]->value)};
        if (!wr_utf8_valid(entry->key) || !wr_utf8_valid(entry->value))
            refuse(r, WEIR_EINVAL, "a descriptor's key or value is not UTF-8");
        else if (entry->key.len == 0)
            refuse(r, WEIR_EINVAL, "a descriptor entry has an empty key");
    }
}

static void copy_descriptor(struct reading *r, const WrRls__Descriptor *from, size_t at)
{
    struct wr_descriptor *to = &r->space.descriptors[at];

    *to = (struct wr_descriptor){.negative = from->is_negative_hits != 0};
    if (from->limit != NULL) {
        int32_t unit = from->limit->unit;
        to->has_limit = true;
        to->limit_units = from->limit->requests_per_unit;
        to->limit_unit = (uint8_t)unit;
        if (unit < WR_UNIT_SECOND || unit > WR_UNIT_YEAR) {
            refuse(r, WEIR_EINVAL, "a limit override has no unit of time");
            return;
        }
    }
    if (from->hits_addend != NULL) {
        to->has_hits = true;
        to->hits = from->hits_addend->value;
    }
    copy_entries(r, from, at);
}

static void copy_request(struct reading *r)
{
    struct wr_rate_request *to = &r->request;

    to->domain = text_of(&r->message->domain);
    to->descriptors = r->space.descriptors;
    to->count = r->message->n_descriptors;
    to->hits = r->message->hits_addend;
    if (!wr_utf8_valid(to->domain))
        refuse(r, WEIR_EINVAL, "the domain is not UTF-8");
    else if (to->count > WR_DESCRIPTORS_MAX)
        refuse(r, WEIR_EFULL, "the request has more than 64 descriptors");
    for (size_t i = 0; r->result == 0 && i < to->count; i++)
        copy_descriptor(r, r->message->descriptors[i], i);
}

static void read_by_model(const uint8_t *bytes, size_t len, struct reading *r)
{
    r->request = (struct wr_rate_request){0};
    r->result = 0;
    r->why = "";
    r->message = wr_rls__request__unpack(NULL, len, bytes);
    if (r->message != NULL && all_well_formed(r->message))
        copy_request(r);
    else
        refuse(r, WEIR_EINVAL, "the message is not a RateLimitRequest");
    if (r->result != 0)
        r->request = (struct wr_rate_request){0};
}

/* ---- the comparison ------------------------------------------------------------------------ */

/* Where nothing was sent there is no address in either. */
static bool same_text(struct weir_slice a, struct weir_slice b)
{
    return a.len == b.len && (a.ptr == NULL) == (b.ptr == NULL) &&
           (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static const char *compare_descriptors(const struct wr_descriptor *a, const struct wr_descriptor *b)
{
    if (a->has_limit != b->has_limit || a->limit_units != b->limit_units ||
        a->limit_unit != b->limit_unit)
        return "overrides differ";
    if (a->has_hits != b->has_hits || a->hits != b->hits || a->negative != b->negative)
        return "hits of a descriptor differ";
    if (a->count != b->count)
        return "numbers of entries differ";
    for (size_t i = 0; i < a->count; i++)
        if (!same_text(a->entries[i].key, b->entries[i].key) ||
            !same_text(a->entries[i].value, b->entries[i].value))
            return "entries differ";
    return NULL;
}

static const char *compare_requests(const struct wr_rate_request *a,
                                    const struct wr_rate_request *b)
{
    const char *difference = NULL;

    if (!same_text(a->domain, b->domain))
        return "domains differ";
    if (a->hits != b->hits)
        return "hits differ";
    if (a->count != b->count)
        return "numbers of descriptors differ";
    for (size_t i = 0; difference == NULL && i < a->count; i++)
        difference = compare_descriptors(&a->descriptors[i], &b->descriptors[i]);
    return difference;
}

/* Is there the tag of field 0 in more bytes than one, or what looks like it? */
static bool has_long_zero(const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        size_t end = i + 1;
        if ((bytes[i] & 0xf8) != 0x80)
            continue;
        while (end < len && bytes[end] == 0x80)
            end++;
        if (end < len && bytes[end] == 0)
            return true;
    }
    return false;
}

static const char *compare_health(const uint8_t *bytes, size_t len)
{
    WrRls__HealthRequest *message = wr_rls__health_request__unpack(NULL, len, bytes);
    bool good =
        message != NULL && well_formed(&message->base) && wr_utf8_valid(text_of(&message->service));
    struct weir_slice service;
    bool ours = wr_health_decode(bytes, len, &service) == 0;
    const char *difference = NULL;

    if (ours != good)
        difference = "one takes it for a health check";
    else if (good && !same_text(service, text_of(&message->service)))
        difference = "services differ";
    if (message != NULL)
        wr_rls__health_request__free_unpacked(message, NULL);
    return difference;
}

const char *rls_model_compare(const uint8_t *bytes, size_t len,
                              const struct wr_rate_request **request, int *result, const char **why)
{
    static struct reading ours, model;
    const char *difference = compare_health(bytes, len);

    ours.result = wr_rls_decode(bytes, len, &ours.space, &ours.request, &ours.why);
    *request = &ours.request;
    *result = ours.result;
    *why = ours.why;
    read_by_model(bytes, len, &model);
    if (difference == NULL && !(ours.result == WEIR_EINVAL && has_long_zero(bytes, len)))
        difference = ours.result != model.result || strcmp(ours.why, model.why) != 0
                         ? "one is refused, or for another reason"
                         : compare_requests(&ours.request, &model.request);
    if (model.message != NULL)
        wr_rls__request__free_unpacked(model.message, NULL);
    return difference;
}
