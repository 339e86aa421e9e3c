/* nodes.c - nodes of a ring in one process. */
#include "nodes.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ARENA_BYTES (UINT64_C(8) << 20)
#define DEADLINE_NS (2 * WR_NS_PER_S)
#define PATIENCE_MS 20000

static uint16_t free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&address, len) == 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    (void)close(fd);
    return ntohs(address.sin_port);
}

static int64_t clock_of(void *context)
{
    const struct nodes *nodes = context;

    return nodes->now_ns != 0 ? nodes->now_ns : wr_arena_now(nodes->node[0].arena);
}

void nodes_start(struct nodes *nodes, unsigned i)
{
    struct wr_policy_address peers[NODES_MAX];
    struct wr_policy_store store = {
        .kind = WR_STORE_RING,
        .addresses = peers,
        .address_count = nodes->count,
        .self = {.host = "127.0.0.1", .port = nodes->node[i].port},
        .password = nodes->password,
        .deadline_ns = DEADLINE_NS,
        .prefix = "weir",
        .nodes = nodes->count,
    };
    struct node *node = &nodes->node[i];

    for (unsigned j = 0; j < nodes->count; j++)
        peers[j] = (struct wr_policy_address){.host = "127.0.0.1", .port = nodes->node[j].port};
    assert_int_equal(wr_remote_open(&node->backend, &nodes->loop, &store), 0);
    node->backend.ops->own(node->backend.context, node->engine);
    wr_ring_clock(node->backend.context, clock_of, nodes);
}

void nodes_open(struct nodes *nodes, unsigned count, const char *password)
{
    static const char text[] = "version: 1\nlimits:\n  - {name: any, by: [ip], rate: 1/second}\n";
    const struct wr_arena_options options = {
        .size_bytes = ARENA_BYTES, .node_share = 50, .judge = wr_engine_judge};
    struct wr_diag diag;

    *nodes = (struct nodes){.count = count, .password = password};
    assert_int_equal(uv_loop_init(&nodes->loop), 0);
    wr_diag_init(&diag, "test");
    assert_int_equal(wr_policy_load_text(&nodes->policy, text, sizeof text - 1, &diag), 0);
    for (unsigned i = 0; i < count; i++) {
        struct node *node = &nodes->node[i];
        node->port = free_port();
        assert_int_equal(wr_arena_open(&node->arena, &options, NULL), 0);
        assert_int_equal(wr_engine_new(&node->engine, nodes->policy, node->arena), 0);
    }
    for (unsigned i = 0; i < count; i++)
        nodes_start(nodes, i);
    nodes_settle(nodes, count);
}

static void run_some(struct nodes *nodes)
{
    (void)uv_run(&nodes->loop, UV_RUN_ONCE);
}

static void wake(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

void nodes_pass(struct nodes *nodes, unsigned ms)
{
    bool over = false;
    uv_timer_t timer;

    (void)uv_timer_init(&nodes->loop, &timer);
    timer.data = &over;
    (void)uv_timer_start(&timer, wake, ms, 0);
    while (!over)
        run_some(nodes);
    uv_close((uv_handle_t *)&timer, NULL);
    (void)uv_run(&nodes->loop, UV_RUN_NOWAIT);
}

static bool is_settled(struct nodes *nodes, unsigned count)
{
    for (unsigned i = 0; i < nodes->count; i++) {
        const struct wr_backend *backend = &nodes->node[i].backend;
        struct wr_backend_state state;
        if (backend->ops == NULL)
            continue;
        backend->ops->state(backend->context, &state);
        if (state.nodes != count || !state.reachable || !wr_ring_is_settled(backend->context))
            return false;
    }
    return true;
}

void nodes_settle(struct nodes *nodes, unsigned count)
{
    for (unsigned waited = 0; !is_settled(nodes, count); waited += 10) {
        assert_true(waited < PATIENCE_MS);
        nodes_pass(nodes, 10);
    }
}

void nodes_kill(struct nodes *nodes, unsigned i)
{
    struct wr_backend *backend = &nodes->node[i].backend;

    backend->ops->close(backend->context);
    *backend = (struct wr_backend){0};
    nodes_pass(nodes, 10);
}

static void on_left(void *context)
{
    *(bool *)context = true;
}

void nodes_leave(struct nodes *nodes, unsigned i)
{
    struct wr_backend *backend = &nodes->node[i].backend;
    bool left = false;

    backend->ops->leave(backend->context, on_left, &left);
    while (!left)
        run_some(nodes);
    nodes_kill(nodes, i);
}

static void done(struct wr_remote_call *call, enum wr_remote_result result)
{
    *(int *)call->context = result;
}

bool nodes_take(struct nodes *nodes, unsigned i, struct wr_remote_call *call)
{
    const struct wr_backend *backend = &nodes->node[i].backend;
    int result = -1;

    call->done = done;
    call->context = &result;
    backend->ops->take(backend->context, call);
    while (result < 0)
        run_some(nodes);
    return result == WR_REMOTE_DONE;
}

unsigned nodes_owner(struct nodes *nodes, unsigned i, const unsigned char tag[WR_TAG_BYTES])
{
    char owner[300], id[40];

    wr_ring_owner_of(nodes->node[i].backend.context, tag, owner, sizeof owner);
    for (unsigned j = 0; j < nodes->count; j++) {
        (void)snprintf(id, sizeof id, "127.0.0.1:%u", (unsigned)nodes->node[j].port);
        if (strcmp(owner, id) == 0)
            return j;
    }
    fail_msg("nobody owns it: %s", owner);
    return 0;
}

void nodes_close(struct nodes *nodes)
{
    for (unsigned i = 0; i < nodes->count; i++)
        if (nodes->node[i].backend.ops != NULL)
            nodes_kill(nodes, i);
    (void)uv_run(&nodes->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&nodes->loop), 0);
    for (unsigned i = 0; i < nodes->count; i++) {
        wr_engine_free(nodes->node[i].engine);
        wr_arena_close(nodes->node[i].arena);
    }
    wr_policy_free(nodes->policy);
}
