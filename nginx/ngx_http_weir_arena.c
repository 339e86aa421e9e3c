
/*
 * ngx_http_weir_arena.c - where the arena is of a policy that names none.
 */


#include "ngx_http_weir_module.h"

#include <linux/magic.h>


#define NGX_HTTP_WEIR_ARENA_ROOM  (64 * 1024 * 1024)  /* default size */


static ngx_uint_t ngx_http_weir_in_memory(const char *folder, uint64_t *room);


/*
 * The arena of a policy that names none: a file, as an anonymous arena would
 * be forgotten at every reload.  One for each configuration file, in memory:
 * in /run if nginx is root's and /run is in memory, which it often is not in
 * a container; there, and for other users, in /dev/shm.
 */

char *
ngx_http_weir_default_arena(ngx_conf_t *cf)
{
    u_char           *path, *shm, *p;
    uint32_t          id;
    uint64_t          room;
    ngx_str_t        *conf_file;
    ngx_file_info_t   fi;

    path = ngx_palloc(cf->temp_pool, 2 * NGX_MAX_PATH);
    if (path == NULL) {
        return NULL;
    }

    shm = path + NGX_MAX_PATH;

    conf_file = &cf->cycle->conf_file;
    id = ngx_crc32_long(conf_file->data, conf_file->len);

    p = ngx_sprintf(path, "/run/weir-nginx-%08xD.arena", id);
    *p = '\0';

    p = ngx_sprintf(shm, "/dev/shm/weir-nginx-%ui-%08xD.arena",
                    (ngx_uint_t) geteuid(), id);
    *p = '\0';

    if (geteuid() != 0) {
        return (char *) shm;
    }

    if (ngx_http_weir_in_memory("/run", &room)) {
        return (char *) path;
    }

    if (ngx_http_weir_in_memory("/dev/shm", &room)
        && (room >= NGX_HTTP_WEIR_ARENA_ROOM
            || ngx_file_info(shm, &fi) != NGX_FILE_ERROR))
    {
        return (char *) shm;
    }

    return (char *) path;
}


static ngx_uint_t
ngx_http_weir_in_memory(const char *folder, uint64_t *room)
{
    struct statfs  fs;

    *room = 0;

    if (statfs(folder, &fs) != 0
        || (fs.f_type != TMPFS_MAGIC && fs.f_type != RAMFS_MAGIC))
    {
        return 0;
    }

    *room = (uint64_t) fs.f_bavail * (uint64_t) fs.f_bsize;

    return 1;
}


/*
 * Anybody can make files in /dev/shm, and the name can be guessed: an arena of
 * another user could be changed by him.  The folder's sticky bit keeps him
 * from replacing ours, hence asked after it was opened.
 */

ngx_int_t
ngx_http_weir_check_owner(ngx_conf_t *cf, const char *path)
{
    struct stat  st;

    if (lstat(path, &st) != 0 || st.st_uid == geteuid()) {
        return NGX_OK;      /* not there: the policy names another */
    }

    ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                  "the arena \"%s\" belongs to another user: remove it, or "
                  "name one by \"arena: {path: ...}\" in the policy", path);

    return NGX_ERROR;
}
