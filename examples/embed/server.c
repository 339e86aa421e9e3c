/* A server that limits its callers with libweir: ten requests a minute for each address.
 *
 *     cc server.c -o server $(pkg-config --cflags --libs libweir) && ./server policy.yaml 8090 */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weir/weir.h>

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    char errors[2048], request[2048], peer[INET_ADDRSTRLEN], buffer[WEIR_HEADERS_BYTES], *rest = "";
    long port = argc == 3 ? strtol(argv[2], &rest, 10) : 0;
    struct weir *weir;

    if (port < 1 || port > 65535 || *rest != '\0') {
        fprintf(stderr, "usage: server POLICY PORT\n");
        return 1;
    }
    if (weir_open(&weir, argv[1], NULL, errors, sizeof errors) != 0) {
        fprintf(stderr, "%s", errors);
        return 1;
    }
    signal(SIGPIPE, SIG_IGN); /* a caller that is gone is no reason to end */
    address.sin_port = htons((uint16_t)port);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (void *)&address, sizeof address) != 0 || listen(listener, 64) != 0) {
        perror("server");
        return 1;
    }
    for (socklen_t len = sizeof address;; len = sizeof address) {
        int caller = accept(listener, (void *)&address, &len);
        struct weir_header headers[WEIR_HEADERS_MAX];
        struct weir_answer answer;
        char *path, *end;

        if (caller < 0)
            continue; /* it left before it was accepted */
        ssize_t got = read(caller, request, sizeof request - 1);
        request[got > 0 ? got : 0] = '\0';
        if ((path = strchr(request, ' ')) != NULL && (end = strchr(path + 1, ' ')) != NULL) {
            inet_ntop(AF_INET, &address.sin_addr, peer, sizeof peer);
            /* As weir_decide; of limits that are shared with other hosts it asks weir serve. */
            weir_ask(weir,
                     &(struct weir_request){.method = {request, (size_t)(path - request)},
                                            .path = {path + 1, (size_t)(end - path - 1)},
                                            .peer = {peer, strlen(peer)},
                                            .cost_units = -1,
                                            .plan = -1},
                     0, &answer);
            dprintf(caller, "HTTP/1.1 %s\r\n",
                    answer.outcome != WEIR_DENY          ? "200 OK"
                    : answer.reason == WEIR_REASON_STORE ? "503 Service Unavailable"
                                                         : "429 Too Many Requests");
            int n = weir_answer_headers(weir, &answer, WEIR_HEADERS_DEFAULT, headers, buffer,
                                        sizeof buffer);
            for (int i = 0; i < n; i++)
                dprintf(caller, "%s: %.*s\r\n", headers[i].name, (int)headers[i].value.len,
                        headers[i].value.ptr);
            dprintf(caller, "Connection: close\r\nContent-Length: 0\r\n\r\n");
            weir_release(weir, &answer, weir_now(weir));
        }
        close(caller);
    }
}
