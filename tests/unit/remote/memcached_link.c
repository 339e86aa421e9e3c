/* memcached_link.c - a server by name, and a name server that answers when the link has long begun
 * anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "name_server.h"
#include "remote/memcached_link.h"

struct world {
    uv_loop_t loop;
    uv_tcp_t server, client;
    struct wr_policy_address address;
    struct wr_mc_link *link;
    int losses, closed;
    bool up;
};

/* ---- a memcached that knows one command ---------------------------------------------------- */

static void on_buffer(uv_handle_t *handle, size_t size, uv_buf_t *out)
{
    static char bytes[256];

    (void)handle;
    (void)size;
    *out = uv_buf_init(bytes, sizeof bytes);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    uv_buf_t answer = uv_buf_init((char[]){"MN\r\n"}, 4);

    if (count < 0) {
        uv_close((uv_handle_t *)stream, NULL);
        return;
    }
    assert_int_equal(count, 4);
    assert_memory_equal(buffer->base, "mn\r\n", 4);
    assert_int_equal(uv_try_write(stream, &answer, 1), 4);
}

static void on_connection(uv_stream_t *server, int status)
{
    struct world *world = server->data;

    assert_int_equal(status, 0);
    assert_int_equal(uv_tcp_init(&world->loop, &world->client), 0);
    assert_int_equal(uv_accept(server, (uv_stream_t *)&world->client), 0);
    assert_int_equal(uv_read_start((uv_stream_t *)&world->client, on_buffer, on_read), 0);
}

static void listen_somewhere(struct world *world)
{
    struct sockaddr_in address;
    int len = sizeof address;

    assert_int_equal(uv_ip4_addr("127.0.0.1", 0, &address), 0);
    assert_int_equal(uv_tcp_init(&world->loop, &world->server), 0);
    world->server.data = world;
    assert_int_equal(uv_tcp_bind(&world->server, (struct sockaddr *)&address, 0), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&world->server, 8, on_connection), 0);
    assert_int_equal(uv_tcp_getsockname(&world->server, (struct sockaddr *)&address, &len), 0);
    world->address.port = ntohs(address.sin_port);
}

/* ---- the link ------------------------------------------------------------------------------ */

static bool on_reply(void *job, unsigned what, enum wr_mc_step step,
                     const struct wr_mc_reply *reply)
{
    (void)job;
    (void)what;
    (void)step;
    (void)reply;
    return true;
}

static void on_changed(void *owner)
{
    struct world *world = owner;

    world->up = wr_mc_link_trouble(world->link) == WR_TROUBLE_NONE;
    world->losses += world->up ? 0 : 1;
}

static void on_closed(void *owner)
{
    ((struct world *)owner)->closed++;
}

static void open_link(struct world *world)
{
    const struct wr_mc_link_options options = {.loop = &world->loop,
                                               .address = &world->address,
                                               .deadline_ns = 5 * WR_NS_PER_S,
                                               .reply = on_reply,
                                               .changed = on_changed,
                                               .closed = on_closed,
                                               .owner = world};

    memset(world, 0, sizeof *world);
    assert_int_equal(uv_loop_init(&world->loop), 0);
    world->address.host = "mc.test";
    listen_somewhere(world);
    world->link = wr_mc_link_open(&options);
    assert_non_null(world->link);
}

static void close_link(struct world *world)
{
    wr_mc_link_close(world->link);
    uv_close((uv_handle_t *)&world->server, NULL);
    while (uv_run(&world->loop, UV_RUN_DEFAULT) != 0)
        continue;
    assert_int_equal(world->closed, 1);
    assert_int_equal(uv_loop_close(&world->loop), 0);
    assert_int_equal(name_server_lists, 0);
}

/* Its patience ends twice, which is three lookups without the care; then the answer comes. */
static void test_a_slow_name_server(void **state)
{
    struct world world;
    (void)state;

    name_server_asked = 0;
    open_link(&world);
    while (world.losses < 2)
        (void)uv_run(&world.loop, UV_RUN_ONCE);
    assert_non_null(strstr(wr_mc_link_detail(world.link), "name server"));
    assert_int_equal(name_server_asked, 1);
    assert_int_equal(sem_post(&name_server_answers), 0);
    while (!world.up)
        (void)uv_run(&world.loop, UV_RUN_ONCE);
    assert_int_equal(name_server_asked, 1);
    close_link(&world);
}

/* Closed while the lookup runs, which nobody waits for. */
static void test_closed_meanwhile(void **state)
{
    struct world world;
    (void)state;

    name_server_asked = 0;
    open_link(&world);
    while (name_server_asked == 0)
        (void)uv_run(&world.loop, UV_RUN_NOWAIT);
    close_link(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_slow_name_server),
        cmocka_unit_test(test_closed_meanwhile),
    };

    return sem_init(&name_server_answers, 0, 0) != 0 ? 1
                                                     : cmocka_run_group_tests(tests, NULL, NULL);
}
