/* handle.h - one process's handle on an arena. Its fields are for src/store only; they are in a
 * header so that slot_inline.h can be inlined.
 *
 * Everything that says where something is in the file is copied here when the file is opened and
 * checked: bytes of the file that change later cannot lead outside of it. */
#ifndef WR_STORE_HANDLE_H
#define WR_STORE_HANDLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/layout.h"

struct wr_class_set;
struct wr_worth;

/* What must not be inherited by a child: lies in a page that the kernel wipes at fork. */
struct wr_process {
    uint32_t claimed; /* enum wr_claimed: 0 in a child that has not claimed yet */
    uint32_t owner;   /* the owner word of this process's locks */
};

/* Who in this process uses which class: a bit of ours in a class's users stands for all of them.
 * Counted under |lock|, a child's count begins as its parent's. */
struct wr_class_uses {
    pthread_mutex_t lock; /* held for moments; taken inside the gate, never the other way */
    uint16_t count[WR_CLASS_MASK + 1]; /* sets that have it */
    struct wr_class_set *always;       /* used as long as the arena is open */
    /* What the gate's holder knows of the table; class_room.c. */
    bool looked;
    unsigned char spare[WR_CLASS_MASK + 1];
};

struct wr_arena {
    unsigned references;        /* atomic */
    struct wr_class_uses *uses; /* NULL: it only reads */
    struct wr_bucket *buckets;
    uint64_t bucket_count;
    struct wr_header *header;
    struct wr_claim *claims;
    struct wr_class_entry *classes;
    struct wr_log_head *heads;
    struct wr_node *nodes;
    struct wr_slot *ban_cells;
    struct wr_ban_record *ban_records;
    uint32_t class_count;
    uint32_t head_count;
    uint32_t node_count;
    uint32_t ban_count;
    uint64_t size_bytes;
    bool (*judge)(const unsigned char *params, uint64_t value, int64_t now_ns,
                  struct wr_worth *out);
    uint64_t secret[2];
    int64_t offset_ns;
    int fd;
    bool read_only;
    bool posix_locks;           /* the claim is a POSIX lock, see claim.c */
    uint32_t claim;             /* number of the claim that owner speaks of */
    pthread_mutex_t gate;       /* threads of this process before the gate */
    struct wr_process *process; /* own mapping, wiped at fork */
};

#endif
