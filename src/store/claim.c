/* claim.c - who is alive, without pids.
 *
 * Problem. A lock in shared memory whose owner was killed must be taken over, and one whose owner
 * merely does not run must not. kill(pid, 0) is no test: it succeeds for zombies, fails across pid
 * namespaces, and pids recur.
 *
 * Idea. Each open handle holds an exclusive lock on one byte of the file, its claim. The kernel
 * drops it when the process dies, however it dies. A lock in the arena records the claim's number
 * and its generation, which goes up when the claim is taken: so a new process with the number of a
 * dead one is not mistaken for it.
 *
 * The byte locks are open-file-description locks (F_OFD_SETLK): they belong to the open file, not
 * to the process, so closing another descriptor of the same file does not drop them. They are
 * inherited by fork; a child therefore opens the file anew, through /proc/self/fd. Where it may not
 * (a worker that gave up its privileges, no /proc), it takes an old POSIX lock on the inherited
 * descriptor, which is the process's own; that one is lost if the process closes any other
 * descriptor of the arena's file, so it is the second choice. The two kinds see each other.
 *
 * Invariants.
 *   1. owner word == 0, or its claim's byte is locked by the process that wrote it, or that process
 *      is dead.
 *   2. A generation is written after the byte is locked and before any owner word is.
 *   3. Whoever is inside the gate and sees no other claim is alone, as claims are taken inside. */
#include "store/claim.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"
#include "store/class.h"

#define GATE_WAIT_NS (10 * WR_NS_PER_S) /* a repair of a huge arena takes seconds */
#define GATE_NAP_NS 500000L
#define OWNER_CLAIM_BITS 9 /* of an owner word: 256 claims + 1; the rest is the generation */
#define OWNER_CLAIM_MASK ((UINT32_C(1) << OWNER_CLAIM_BITS) - 1)

enum wr_claimed { UNCLAIMED = 0, CLAIMING = 1, CLAIMED = 2, CLAIM_FAILED = 3 };

static off_t claim_at(uint32_t number)
{
    return (off_t)(WR_HEADER_BYTES + number * sizeof(struct wr_claim));
}

static struct flock byte_lock(short type, off_t at, off_t len)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = len};
}

static bool set_lock(const struct wr_arena *arena, short type, off_t at)
{
    struct flock lock = byte_lock(type, at, 1);
    int rc;

    do
        rc = fcntl(arena->fd, arena->posix_locks ? F_SETLK : F_OFD_SETLK, &lock);
    while (rc != 0 && errno == EINTR);
    return rc == 0;
}

/* Does another handle hold a lock in [at, at + len)? */
static bool others_hold(const struct wr_arena *arena, off_t at, off_t len)
{
    struct flock lock = byte_lock(F_WRLCK, at, len);
    int rc = fcntl(arena->fd, arena->posix_locks ? F_GETLK : F_OFD_GETLK, &lock);

    return rc == 0 && lock.l_type != F_UNLCK;
}

int wr_gate_enter(struct wr_arena *arena)
{
    const struct timespec nap = {0, GATE_NAP_NS};
    int64_t start = wr_clock_mono().ns;

    (void)pthread_mutex_lock(&arena->gate);
    while (!set_lock(arena, F_WRLCK, 0)) {
        if (wr_clock_mono().ns - start > GATE_WAIT_NS) {
            (void)pthread_mutex_unlock(&arena->gate);
            return WEIR_EBUSY;
        }
        (void)nanosleep(&nap, NULL);
    }
    return 0;
}

void wr_gate_leave(struct wr_arena *arena)
{
    (void)set_lock(arena, F_UNLCK, 0);
    (void)pthread_mutex_unlock(&arena->gate);
}

/* Classes that a dead process used are not used by the one that takes its claim. */
static void forget_classes(struct wr_arena *arena, uint32_t number)
{
    uint64_t bit = UINT64_C(1) << (number % 64);

    for (uint32_t i = 0; i < arena->class_count; i++) {
        uint64_t *users = &arena->classes[i].users[number / 64];
        if ((WR_LOAD(users) & bit) != 0)
            (void)__atomic_fetch_and(users, ~bit, __ATOMIC_ACQ_REL);
    }
}

int wr_claim_take(struct wr_arena *arena)
{
    for (uint32_t number = 0; number < WR_CLAIMS; number++) {
        struct wr_claim *claim = &arena->claims[number];
        uint32_t generation;

        if (!set_lock(arena, F_WRLCK, claim_at(number))) {
            if (errno == EAGAIN || errno == EACCES)
                continue;
            return WEIR_EIO;
        }
        generation = WR_ADD(&claim->generation, 1) + 1;
        WR_STORE(&claim->pid, (uint32_t)getpid());
        forget_classes(arena, number);
        (void)WR_ADD(&arena->header->opens, 1);
        arena->claim = number;
        arena->process->owner = (number + 1) | generation << OWNER_CLAIM_BITS;
        WR_STORE(&arena->process->claimed, CLAIMED);
        return 0;
    }
    return WEIR_EFULL;
}

bool wr_claim_others(const struct wr_arena *arena)
{
    return others_hold(arena, WR_HEADER_BYTES, WR_CLASSES_OFFSET - WR_HEADER_BYTES);
}

unsigned wr_claim_count(const struct wr_arena *arena)
{
    unsigned held = arena->read_only ? 0 : 1;

    for (uint32_t number = 0; number < WR_CLAIMS; number++)
        held += others_hold(arena, claim_at(number), 1);
    return held;
}

bool wr_claim_held(const struct wr_arena *arena, uint32_t number)
{
    if (!arena->read_only && number == arena->claim)
        return true;
    return others_hold(arena, claim_at(number), 1);
}

bool wr_claim_dead(const struct wr_arena *arena, uint32_t owner)
{
    uint32_t number = (owner & OWNER_CLAIM_MASK) - 1;

    if (number >= WR_CLAIMS)
        return true;
    if (WR_LOAD(&arena->claims[number].generation) << OWNER_CLAIM_BITS !=
        (owner & ~OWNER_CLAIM_MASK))
        return true;
    return !wr_claim_held(arena, number);
}

/* Open the file of |fd| once more. Returns -1 where this process may not. */
static int open_anew(int fd)
{
    char path[32];

    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_RDWR | O_CLOEXEC);
}

/* A claim for a child that has its parent's handle. The parent's claim stays locked until the
 * inherited descriptor is closed, which is last: so nobody thinks the arena abandoned meanwhile. */
static int claim_anew(struct wr_arena *arena)
{
    int old = arena->fd, fd = open_anew(old);
    int rc;

    if (fd >= 0)
        arena->fd = fd;
    arena->posix_locks = fd < 0;
    rc = wr_gate_enter(arena);
    if (rc == 0) {
        rc = wr_claim_take(arena);
        if (rc == 0)
            wr_class_uses_claim(arena);
        wr_gate_leave(arena);
    }
    if (fd >= 0)
        (void)close(rc == 0 ? old : fd);
    if (rc != 0)
        arena->fd = old;
    return rc;
}

/* The first thread of a child that needs the claim takes it; others wait for it. */
uint32_t wr_claim_owner(struct wr_arena *arena)
{
    struct wr_process *process = arena->process;
    int rc;

    if (WR_LOAD(&process->claimed) == CLAIMED)
        return process->owner;
    if (wr_cas4(&process->claimed, UNCLAIMED, CLAIMING)) {
        /* No thread of the parent is here to leave the gate it may have been in. */
        (void)pthread_mutex_init(&arena->gate, NULL);
        rc = claim_anew(arena);
        WR_STORE(&process->claimed, rc == 0 ? CLAIMED : CLAIM_FAILED);
    }
    while (WR_LOAD(&process->claimed) == CLAIMING)
        (void)sched_yield();
    return WR_LOAD(&process->claimed) == CLAIMED ? process->owner : 0;
}

bool wr_claim_taken(const struct wr_arena *arena)
{
    return WR_LOAD(&arena->process->claimed) == CLAIMED;
}

int wr_arena_after_fork(struct wr_arena *arena)
{
    if (arena->read_only)
        return 0;
    /* A failure may have passed: claims come free. */
    (void)wr_cas4(&arena->process->claimed, CLAIM_FAILED, UNCLAIMED);
    return wr_claim_owner(arena) != 0 ? 0 : WEIR_EFULL;
}
