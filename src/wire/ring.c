/* ring.c - messages of a ring, in and out.
 *
 * Idea. A cursor that never moves past the end: what does not fit, or is out of range, makes it
 * bad, and it is asked once, at the end.
 *
 * Invariants.
 *   1. Nothing outside of the bytes given is read or written.
 *   2. A reader that returns true has written every field it names; what it returns, its writer
 *      writes to the same bytes.
 *
 * Rejected: numbers as text, as RESP has them (a decision would be 30 conversions); a schema
 * language (four messages between equal programs). */
#include "wire/ring.h"

#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "little-endian machines only, as the arena"
#endif

struct writer {
    char *at, *end;
    bool bad;
};

struct reader {
    const char *at, *end;
    bool bad;
};

static void put(struct writer *w, const void *bytes, size_t len)
{
    if (w->bad || (size_t)(w->end - w->at) < len) {
        w->bad = true;
        return;
    }
    memcpy(w->at, bytes, len);
    w->at += len;
}

static void put_byte(struct writer *w, unsigned value)
{
    unsigned char byte = (unsigned char)value;

    put(w, &byte, 1);
}

static void put_short(struct writer *w, unsigned value)
{
    uint16_t number = (uint16_t)value;

    put(w, &number, 2);
}

static void put_word(struct writer *w, uint64_t value)
{
    put(w, &value, 8);
}

/* A count, a moment or a duration. */
static void put_number(struct writer *w, int64_t value)
{
    w->bad = w->bad || value < 0;
    put_word(w, (uint64_t)value);
}

static void put_text(struct writer *w, struct weir_slice text, size_t max)
{
    w->bad = w->bad || text.len == 0 || text.len > max;
    put_byte(w, (unsigned)text.len);
    put(w, text.ptr, w->bad ? 0 : text.len);
}

static const char *get(struct reader *r, size_t len)
{
    const char *bytes = r->at;

    if (r->bad || (size_t)(r->end - r->at) < len) {
        r->bad = true;
        return NULL;
    }
    r->at += len;
    return bytes;
}

static void get_bytes(struct reader *r, void *out, size_t len)
{
    const char *bytes = get(r, len);

    if (bytes == NULL)
        memset(out, 0, len);
    else
        memcpy(out, bytes, len);
}

/* 0..most. */
static unsigned get_byte(struct reader *r, unsigned most)
{
    unsigned char byte;

    get_bytes(r, &byte, 1);
    r->bad = r->bad || byte > most;
    return r->bad ? 0 : byte;
}

static uint16_t get_short(struct reader *r)
{
    uint16_t number;

    get_bytes(r, &number, 2);
    return number;
}

static uint64_t get_word(struct reader *r)
{
    uint64_t word;

    get_bytes(r, &word, 8);
    return word;
}

static int64_t get_number(struct reader *r)
{
    uint64_t word = get_word(r);

    r->bad = r->bad || word > (uint64_t)INT64_MAX;
    return r->bad ? 0 : (int64_t)word;
}

static struct weir_slice get_text(struct reader *r, unsigned max)
{
    unsigned len = get_byte(r, max);
    const char *text = get(r, len);

    r->bad = r->bad || len == 0 || memchr(text, '\0', len) != NULL;
    return r->bad ? (struct weir_slice){NULL, 0} : (struct weir_slice){text, len};
}

static void get_version(struct reader *r)
{
    r->bad = r->bad || get_byte(r, UINT8_MAX) != WR_RING_VERSION;
}

static struct reader reader_of(struct weir_slice bytes)
{
    return (struct reader){bytes.ptr, bytes.ptr + bytes.len, bytes.ptr == NULL};
}

static bool all_read(const struct reader *r)
{
    return !r->bad && r->at == r->end;
}

static size_t written(const struct writer *w, const char *out)
{
    return w->bad ? 0 : (size_t)(w->at - out);
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void put_key(struct writer *w, const struct wr_ring_key *key)
{
    put_text(w, key->name, WR_RING_NAME_MAX);
    put(w, key->tag, sizeof key->tag);
    put(w, key->limit, sizeof key->limit);
}

static void get_key(struct reader *r, struct wr_ring_key *key)
{
    key->name = get_text(r, WR_RING_NAME_MAX);
    get_bytes(r, key->tag, sizeof key->tag);
    get_bytes(r, key->limit, sizeof key->limit);
}

/* ---- ask ------------------------------------------------------------------------------------- */

size_t wr_ring_ask_write(char *out, size_t size, const struct wr_ring_ask *ask)
{
    struct writer w = {out, out + size, ask->count == 0 || ask->count > WEIR_LIMITS_MAX};

    put_byte(&w, WR_RING_VERSION);
    put_byte(&w, ask->op);
    put_byte(&w, ask->regardless);
    put_short(&w, ask->nodes);
    put_byte(&w, ask->count);
    for (unsigned i = 0; i < ask->count && !w.bad; i++) {
        const struct wr_ring_charge *charge = &ask->charge[i];
        put_byte(&w, charge->shadow);
        put_key(&w, &charge->key);
        put_number(&w, charge->cost);
        put_number(&w, charge->extra);
        put_number(&w, charge->ttl_ns);
        put_word(&w, charge->receipt[0]);
        put_word(&w, charge->receipt[1]);
    }
    return written(&w, out);
}

bool wr_ring_ask_read(struct weir_slice bytes, struct wr_ring_ask *out)
{
    struct reader r = reader_of(bytes);

    get_version(&r);
    out->op = (enum wr_ring_op)get_byte(&r, WR_RING_OPS - 1);
    out->regardless = get_byte(&r, 1) != 0;
    out->nodes = get_short(&r);
    out->count = get_byte(&r, WEIR_LIMITS_MAX);
    r.bad = r.bad || out->count == 0 || out->nodes == 0;
    for (unsigned i = 0; i < out->count && !r.bad; i++) {
        struct wr_ring_charge *charge = &out->charge[i];
        charge->shadow = get_byte(&r, 1) != 0;
        get_key(&r, &charge->key);
        charge->cost = get_number(&r);
        charge->extra = get_number(&r);
        charge->ttl_ns = get_number(&r);
        charge->receipt[0] = get_word(&r);
        charge->receipt[1] = get_word(&r);
    }
    return all_read(&r);
}

/* ---- answer ---------------------------------------------------------------------------------- */

size_t wr_ring_answer_write(char *out, size_t size, const struct wr_ring_answer *answer)
{
    struct writer w = {out, out + size, answer->count > WEIR_LIMITS_MAX};

    put_byte(&w, WR_RING_VERSION);
    put_byte(&w, answer->passed);
    put_byte(&w, answer->count);
    for (unsigned i = 0; i < answer->count && !w.bad; i++) {
        const struct wr_ring_verdict *v = &answer->verdict[i];
        put_byte(&w, (unsigned)v->allowed | (unsigned)v->never << 1);
        put_number(&w, v->granted);
        put_number(&w, v->lease_ns);
        put_number(&w, v->remaining);
        put_number(&w, v->retry_after_ns);
        put_number(&w, v->delay_ns);
        put_number(&w, v->next_ns);
        put_number(&w, v->reset_ns);
        put_word(&w, v->receipt[0]);
        put_word(&w, v->receipt[1]);
    }
    return written(&w, out);
}

bool wr_ring_answer_read(struct weir_slice bytes, struct wr_ring_answer *out)
{
    struct reader r = reader_of(bytes);

    get_version(&r);
    out->passed = get_byte(&r, 1) != 0;
    out->count = get_byte(&r, WEIR_LIMITS_MAX);
    for (unsigned i = 0; i < out->count && !r.bad; i++) {
        struct wr_ring_verdict *v = &out->verdict[i];
        unsigned flags = get_byte(&r, 2);
        v->allowed = (flags & 1) != 0;
        v->never = (flags & 2) != 0;
        v->granted = get_number(&r);
        v->lease_ns = get_number(&r);
        v->remaining = get_number(&r);
        v->retry_after_ns = get_number(&r);
        v->delay_ns = get_number(&r);
        v->next_ns = get_number(&r);
        v->reset_ns = get_number(&r);
        v->receipt[0] = get_word(&r);
        v->receipt[1] = get_word(&r);
    }
    return all_read(&r);
}

/* ---- hello ----------------------------------------------------------------------------------- */

size_t wr_ring_hello_write(char *out, size_t size, const struct wr_ring_hello *hello)
{
    struct writer w = {out, out + size, false};

    put_byte(&w, WR_RING_VERSION);
    put_byte(&w, hello->status);
    put_word(&w, hello->incarnation);
    put_text(&w, hello->id, WR_RING_ID_MAX);
    return written(&w, out);
}

bool wr_ring_hello_read(struct weir_slice bytes, struct wr_ring_hello *out)
{
    struct reader r = reader_of(bytes);

    get_version(&r);
    out->status = (enum wr_ring_status)get_byte(&r, WR_RING_STATUSES - 1);
    out->incarnation = get_word(&r);
    out->id = get_text(&r, WR_RING_ID_MAX);
    return all_read(&r);
}

/* ---- items ----------------------------------------------------------------------------------- */

size_t wr_ring_item_write(char *out, size_t size, const struct wr_ring_item *item)
{
    struct writer w = {out, out + size, item->stamps > WR_RING_STAMPS_MAX};

    put_byte(&w, WR_RING_VERSION);
    put_key(&w, &item->key);
    put_number(&w, item->now_ns);
    put_word(&w, item->word);
    put_short(&w, item->stamps);
    for (unsigned i = 0; i < item->stamps && !w.bad; i++)
        put_number(&w, item->stamp[i]);
    return written(&w, out);
}

bool wr_ring_item_read(struct weir_slice *bytes, struct wr_ring_item *out)
{
    struct reader r = reader_of(*bytes);

    get_version(&r);
    get_key(&r, &out->key);
    out->now_ns = get_number(&r);
    out->word = get_word(&r);
    out->stamps = get_short(&r);
    r.bad = r.bad || out->stamps > WR_RING_STAMPS_MAX;
    for (unsigned i = 0; i < out->stamps && !r.bad; i++) {
        out->stamp[i] = get_number(&r);
        r.bad = r.bad || (i > 0 && out->stamp[i] < out->stamp[i - 1]);
    }
    *bytes = (struct weir_slice){r.at, (size_t)(r.end - r.at)};
    return !r.bad;
}
