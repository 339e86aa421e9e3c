/* import.c - `weir import FORMAT FILE`: another limiter's configuration as a policy. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "import/draft.h"
#include "policy/policy.h"

#define MESSAGES_BYTES 65536U

static const char usage[] =
    "usage: weir import FORMAT FILE\n"
    "\n"
    "Print a policy that limits as FILE (- for standard input) does. What could not be carried\n"
    "over, or is not quite the same, is said on standard error and in the policy's comments.\n"
    "\n"
    "  aws     usage plans of Amazon API Gateway: aws apigateway get-usage-plans\n"
    "  azure   a policy document of Azure API Management (XML)\n"
    "  envoy   a file of envoyproxy/ratelimit: the policy names it, and it is read as it is\n"
    "  kong    Kong's declarative configuration, YAML or JSON: deck dump\n"
    "  nginx   limit_req and limit_conn of an nginx configuration: nginx -T\n"
    "  tyk     policies of the Tyk gateway: policies.json\n"
    "\n"
    "  -h, --help   this text\n"
    "\n"
    "Exit status: 0 a policy was printed, 1 the file is not what it should be, 2 wrong usage.\n";

static const struct {
    const char *name;
    wr_import_reader *read;
} formats[] = {
    {"aws", wr_import_aws},   {"azure", wr_import_azure}, {"envoy", wr_import_envoy},
    {"kong", wr_import_kong}, {"nginx", wr_import_nginx}, {"tyk", wr_import_tyk},
};

static wr_import_reader *find_format(const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (strcmp(formats[i].name, name) == 0)
            return formats[i].read;
    return NULL;
}

/* The whole of |path|, terminated; NULL and errno (EFBIG: more than a policy may have). */
static char *read_whole(const char *path, size_t *len)
{
    FILE *in = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
    char *text = malloc(WR_POLICY_BYTES_MAX + 1);
    int error = 0;

    *len = 0;
    if (in != NULL && text != NULL)
        *len = fread(text, 1, WR_POLICY_BYTES_MAX + 1, in);
    if (in == NULL || text == NULL || ferror(in))
        error = errno != 0 ? errno : EIO;
    else if (*len > WR_POLICY_BYTES_MAX)
        error = EFBIG;
    if (in != NULL && in != stdin)
        (void)fclose(in);
    if (error != 0 || text == NULL) {
        free(text);
        errno = error;
        return NULL;
    }
    text[*len] = '\0';
    return text;
}

static void print_messages(const struct wr_diag *diag)
{
    char *text = malloc(MESSAGES_BYTES);

    if (text == NULL)
        return;
    (void)wr_diag_format(diag, text, MESSAGES_BYTES);
    (void)fputs(text, stderr);
    free(text);
}

static int import(struct wr_draft *draft, const char *format, const char *path)
{
    size_t len;
    char *text = read_whole(path, &len);

    if (text == NULL) {
        (void)fprintf(stderr, "%s: error: %s\n", path, strerror(errno));
        return 1;
    }
    if (memchr(text, '\0', len) != NULL)
        wr_draft_error(draft, 0, 0, "expected text, found a NUL byte");
    else
        find_format(format)(draft, path, text, len);
    if (draft->diag->errors == 0 && draft->limits == NULL && draft->envoy_file == NULL)
        wr_draft_error(draft, 0, 0, "there is no limit in it that could be carried over");
    if (draft->region.failed)
        wr_draft_error(draft, 0, 0, "out of memory");
    if (draft->diag->errors == 0)
        wr_draft_prove(draft);
    free(text);
    print_messages(draft->diag);
    if (draft->diag->errors > 0)
        return 1;
    if (wr_draft_print(draft, format, stdout))
        return 0;
    (void)fprintf(stderr, "weir import: standard output: %s\n", strerror(errno));
    return 1;
}

int wr_cmd_import(int argc, char **argv)
{
    static const struct option options[] = {{"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    struct wr_draft draft = {.status = 0};
    struct wr_diag *diag;
    int option, result = 1;

    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (option == 'h') {
            (void)fputs(usage, stdout);
            return 0;
        }
        return 2;
    }
    if (argc - optind != 2 || find_format(argv[optind]) == NULL) {
        if (argc - optind >= 1 && find_format(argv[optind]) == NULL)
            (void)fprintf(stderr, "weir import: %s: no such format\n", argv[optind]);
        (void)fputs(usage, stderr);
        return 2;
    }
    diag = malloc(sizeof *diag);
    if (diag == NULL) {
        (void)fputs("weir import: out of memory\n", stderr);
        return 1;
    }
    wr_diag_init(diag, argv[optind + 1]);
    draft.diag = diag;
    result = import(&draft, argv[optind], argv[optind + 1]);
    wr_draft_fini(&draft);
    free(diag);
    return result;
}
