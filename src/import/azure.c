/* azure.c - a policy document of Azure API Management: what its inbound section limits.
 *
 *   rate-limit, rate-limit-by-key    calls per renewal-period seconds
 *   quota, quota-by-key              calls (and bandwidth) per renewal-period seconds
 *   limit-concurrency                max-count at once
 *
 * Documents hold C# expressions in attributes; the keys that people copy from the manual are known,
 * others are noted. What they do to XML is mended before (azure_mend.h). */
#include "import/azure_mend.h"
#include "import/draft.h"

#include <expat.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SUBSCRIPTION "subscription"
#define QUOTA_MAX_S (INT64_C(366) * 86400)
#define DEPTH_MAX 64

struct reading {
    struct wr_draft *draft;
    XML_Parser parser;
    unsigned depth, inbound; /* the depth of <inbound>; 0: outside */
    bool seen;               /* something of a policy document */
    const char *api;         /* of the <api> within rate-limit; NULL */
};

static unsigned line_of(const struct reading *r)
{
    return (unsigned)XML_GetCurrentLineNumber(r->parser);
}

static const char *attribute(const XML_Char **attributes, const char *name)
{
    for (; attributes[0] != NULL; attributes += 2)
        if (strcmp(attributes[0], name) == 0)
            return attributes[1];
    return NULL;
}

static bool number(struct reading *r, const XML_Char **attributes, const char *name, int64_t *out)
{
    const char *text = attribute(attributes, name);
    char *end;

    *out = 0;
    if (text == NULL) {
        wr_draft_note(r->draft, line_of(r), 0, "expected %s, found none: left out", name);
        return false;
    }
    *out = strtoll(text, &end, 10);
    if (*text >= '0' && *text <= '9' && *end == '\0')
        return true;
    wr_draft_note(r->draft, line_of(r), 0, "%s: expected a number, found \"%s\"", name, text);
    return false;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* The name of the header in context.Request.Headers.GetValueOrDefault("X-User", ...), or NULL. What
 * is made of its value there is noted: here it is the value. */
static const char *header_of(struct reading *r, const char *key)
{
    const char *call = strstr(key, "Request.Headers"), *from, *to, *header, *rest;

    if (call == NULL)
        return NULL;
    from = strpbrk(call, "\"'");
    to = from != NULL ? strpbrk(from + 1, "\"'") : NULL;
    if (to == NULL || to == from + 1)
        return NULL;
    header = wr_draft_text(r->draft, "%.*s", (int)(to - from - 1), from + 1);
    rest = strchr(to, ')');
    if (rest != NULL && rest[1] == '.')
        wr_draft_note(r->draft, line_of(r), 0, "counter-key: by the whole of %s, not by %s", header,
                      rest + 1);
    if (strcasecmp(header, "X-Forwarded-For") == 0)
        wr_draft_note(r->draft, line_of(r), 0,
                      "counter-key: by X-Forwarded-For as it came; by: [ip] with identity.ip: "
                      "{from: x-forwarded-for, trusted: [...]} is harder to forge");
    return header;
}

/* What callers are told apart by; NULL: it cannot be said. */
static const char *by_of(struct reading *r, const char *key)
{
    const char *header;

    if (key == NULL || strstr(key, "context.Subscription") != NULL) {
        wr_draft_identity(r->draft, SUBSCRIPTION, "Ocp-Apim-Subscription-Key");
        return SUBSCRIPTION;
    }
    if (strstr(key, "Request.IpAddress") != NULL)
        return "ip";
    if (strncmp(key, "@(", 2) != 0)
        return ""; /* the same text for everybody */
    header = header_of(r, key);
    if (header == NULL)
        return NULL;
    key = wr_draft_name(r->draft, header);
    wr_draft_identity(r->draft, key, header);
    return key;
}

/* ---- elements -------------------------------------------------------------------------------- */

static void note_rest(struct reading *r, const char *element, const XML_Char **attributes)
{
    static const char *const known[] = {
        "calls",
        "renewal-period",
        "counter-key",
        "name",
        "id",
        "max-count",
        "key",
        "retry-after-header-name",
        "remaining-calls-header-name",
        "total-calls-header-name",
        "retry-after-variable-name",
        "remaining-calls-variable-name",
    };
    bool told;

    for (; attributes[0] != NULL; attributes += 2) {
        told = false;
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
            told = told || strcmp(attributes[0], known[i]) == 0;
        if (!told)
            wr_draft_note(r->draft, line_of(r), 0, "%s: %s=\"%s\"", element, attributes[0],
                          attributes[1]);
    }
}

/* What limits, but is known to stand elsewhere or to be counted otherwise. */
static void note_others(struct reading *r, const char *element, const XML_Char **attributes)
{
    const char *name = attribute(attributes, "name"), *fragment;

    if (strcmp(element, "api") == 0 || strcmp(element, "operation") == 0) {
        wr_draft_note(r->draft, line_of(r), 0,
                      "%s %s: where it is reached is not in this file, so its own limit was left "
                      "out",
                      element, name != NULL ? name : "without a name");
    } else if (strcmp(element, "base") == 0) {
        wr_draft_note(r->draft, line_of(r), 0,
                      "<base />: what the outer scopes (all APIs, the product, the API) limit "
                      "holds there as well; their policies are not in this file");
    } else if (strcmp(element, "include-fragment") == 0) {
        fragment = attribute(attributes, "fragment-id");
        wr_draft_note(r->draft, line_of(r), 0, "include-fragment %s: it is not in this file",
                      fragment != NULL ? fragment : "without an id");
    } else if (strstr(element, "token-limit") != NULL) {
        wr_draft_note(r->draft, line_of(r), 0, "<%s>: tokens of a model were not carried over",
                      element);
    }
}

static bool is_calls(const char *element)
{
    return strcmp(element, "rate-limit") == 0 || strcmp(element, "quota") == 0 ||
           strcmp(element, "rate-limit-by-key") == 0 || strcmp(element, "quota-by-key") == 0;
}

/* rate-limit and quota, by key or not. */
static void read_calls(struct reading *r, const char *element, const XML_Char **attributes)
{
    bool quota = strncmp(element, "quota", 5) == 0;
    const char *key = attribute(attributes, "counter-key"), *rate;
    struct wr_draft_limit like = {
        .name = element,
        .origin = wr_draft_text(r->draft, "<%s> of line %u%s", element, line_of(r),
                                quota ? "; its windows there begin with the subscription" : ""),
        .algorithm = quota ? "fixed-window" : "sliding-window",
    };
    int64_t calls, period_s;

    note_rest(r, element, attributes);
    if (attribute(attributes, "calls") == NULL && attribute(attributes, "bandwidth") != NULL)
        return; /* which was noted */
    if (!number(r, attributes, "calls", &calls) ||
        !number(r, attributes, "renewal-period", &period_s))
        return;
    like.by = by_of(r, key);
    if (like.by == NULL) {
        wr_draft_note(r->draft, line_of(r), 0, "%s: its counter-key %s has no counterpart", element,
                      key);
        return;
    }
    if (quota && period_s == 86400) {
        like.kind = WR_DRAFT_QUOTA;
        like.per = "day";
        like.algorithm = NULL;
        rate = wr_draft_text(r->draft, "%" PRId64, calls);
    } else if (period_s < 1 || period_s > QUOTA_MAX_S) {
        wr_draft_note(r->draft, line_of(r), 0, "%s: a renewal-period of %" PRId64 " s", element,
                      period_s);
        return;
    } else {
        rate = wr_draft_rate(r->draft, line_of(r), wr_draft_text(r->draft, "%" PRId64, calls),
                             period_s, -1);
    }
    wr_draft_set(r->draft, wr_draft_limit(r->draft, &like), NULL, rate);
}

static void read_concurrency(struct reading *r, const XML_Char **attributes)
{
    const char *key = attribute(attributes, "key");
    struct wr_draft_limit like = {
        .kind = WR_DRAFT_CONCURRENT,
        .name = "limit-concurrency",
        .origin = wr_draft_text(r->draft, "<limit-concurrency> of line %u", line_of(r)),
        .by = key != NULL ? by_of(r, key) : "",
    };
    int64_t most;

    if (like.by == NULL)
        wr_draft_note(r->draft, line_of(r), 0, "limit-concurrency: its key %s has no counterpart",
                      key);
    else if (number(r, attributes, "max-count", &most))
        wr_draft_set(r->draft, wr_draft_limit(r->draft, &like), NULL,
                     wr_draft_text(r->draft, "%" PRId64, most));
}

static void XMLCALL on_start(void *context, const XML_Char *element, const XML_Char **attributes)
{
    struct reading *r = context;

    if (++r->depth > DEPTH_MAX) {
        wr_draft_error(r->draft, line_of(r), 0, "elements more than %d deep", DEPTH_MAX);
        (void)XML_StopParser(r->parser, XML_FALSE);
        return;
    }
    if (strcmp(element, "policies") == 0 || strcmp(element, "fragment") == 0 ||
        (strcmp(element, "inbound") == 0 && r->depth == 1))
        r->seen = true;
    if (strcmp(element, "inbound") == 0 || strcmp(element, "fragment") == 0)
        r->inbound = r->depth;
    if (r->inbound == 0 && (is_calls(element) || strcmp(element, "limit-concurrency") == 0))
        wr_draft_note(r->draft, line_of(r), 0, "<%s> outside <inbound>: left out", element);
    if (r->inbound == 0)
        return;
    if (strcmp(element, "choose") == 0 || strcmp(element, "when") == 0)
        wr_draft_note(r->draft, line_of(r), 0,
                      "<%s>: its condition was left out; what is within holds always here",
                      element);
    if (is_calls(element))
        read_calls(r, element, attributes);
    else if (strcmp(element, "limit-concurrency") == 0)
        read_concurrency(r, attributes);
    else
        note_others(r, element, attributes);
}

static void XMLCALL on_end(void *context, const XML_Char *element)
{
    struct reading *r = context;
    (void)element;

    if (r->inbound == r->depth)
        r->inbound = 0;
    r->depth--;
}

/* Entities of their own are what attacks on XML are made of; a policy has none. */
static void XMLCALL on_doctype(void *context, const XML_Char *name, const XML_Char *system,
                               const XML_Char *public, int internal)
{
    struct reading *r = context;
    (void)name;
    (void)system;
    (void)public;
    (void)internal;

    wr_draft_error(r->draft, line_of(r), 0, "expected a policy document, found a DOCTYPE");
    (void)XML_StopParser(r->parser, XML_FALSE);
}

void wr_import_azure(struct wr_draft *draft, const char *name, const char *text, size_t len)
{
    struct reading r = {.draft = draft, .parser = XML_ParserCreate("UTF-8")};
    size_t mended_len;
    char *mended = wr_azure_mend(text, len, &mended_len);
    (void)name;

    if (mended == NULL || r.parser == NULL) {
        wr_draft_error(draft, 0, 0, "out of memory");
        XML_ParserFree(r.parser);
        free(mended);
        return;
    }
    XML_SetUserData(r.parser, &r);
    XML_SetElementHandler(r.parser, on_start, on_end);
    XML_SetStartDoctypeDeclHandler(r.parser, on_doctype);
    if (XML_Parse(r.parser, mended, (int)mended_len, XML_TRUE) != XML_STATUS_OK &&
        XML_GetErrorCode(r.parser) != XML_ERROR_ABORTED)
        wr_draft_error(draft, line_of(&r), (unsigned)XML_GetCurrentColumnNumber(r.parser) + 1,
                       "not well-formed XML: %s", XML_ErrorString(XML_GetErrorCode(r.parser)));
    else if (!r.seen && draft->diag->errors == 0)
        wr_draft_error(draft, 0, 0, "expected <policies> of Azure API Management");
    XML_ParserFree(r.parser);
    free(mended);
}
