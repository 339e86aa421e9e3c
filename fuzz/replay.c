/* replay.c - run a fuzz target over the files of its corpus and over prefixes of each, as a test.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX (1U << 20)
#define PREFIXES 64 /* cuts of each file, evenly spread */

/* The bytes are copied into a block of just their size, so that a sanitizer sees a read past the
 * end. */
static void run_exact(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);

    if (copy == NULL)
        abort();
    for (size_t i = 0; i < size; i++)
        copy[i] = data[i];
    (void)LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static int run_file(const char *path)
{
    static uint8_t data[INPUT_MAX];
    FILE *file = fopen(path, "rb");
    size_t size;

    if (file == NULL) {
        perror(path);
        return 1;
    }
    size = fread(data, 1, sizeof data, file);
    (void)fclose(file);
    run_exact(data, size);
    for (size_t i = 0; i < PREFIXES; i++)
        run_exact(data, size * i / PREFIXES);
    return 0;
}

int main(int argc, char **argv)
{
    struct dirent *entry;
    unsigned files = 0;
    int failed = 0;
    DIR *dir;

    if (argc != 2 || (dir = opendir(argv[1])) == NULL) {
        (void)fprintf(stderr, "usage: %s CORPUS-FOLDER\n", argv[0]);
        return 2;
    }
    while ((entry = readdir(dir)) != NULL) {
        char path[4096];
        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
        failed |= run_file(path);
        files++;
    }
    (void)closedir(dir);
    (void)printf("%u files replayed\n", files);
    return failed != 0 || files == 0;
}
