// go-redis against the RESP door: client PORT PROTOCOL PASSWORD. Prints "ok", or fails.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

func integers(reply interface{}, err error) []int64 {
	if err != nil {
		log.Fatal(err)
	}
	var out []int64
	for _, v := range reply.([]interface{}) {
		out = append(out, v.(int64))
	}
	return out
}

func main() {
	ctx := context.Background()
	protocol, _ := strconv.Atoi(os.Args[2])
	open := func() *redis.Client {
		return redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[1], Protocol: protocol, Password: os.Args[3],
			ClientName: "go"})
	}
	key := "go" + os.Args[2]
	throttle := []interface{}{"CL.THROTTLE", key, 15, 30, 3000}
	client := open()
	if got := fmt.Sprint(integers(client.Do(ctx, throttle...).Result())); got != "[0 16 15 -1 100]" {
		log.Fatal(got)
	}
	if got := fmt.Sprint(integers(client.Do(ctx, "WEIR.CHECK", "three", key).Result())[:4]); got != "[1 3 2 0]" {
		log.Fatal(got)
	}
	pipe := client.Pipeline()
	var replies []*redis.Cmd
	for i := 0; i < 100; i++ {
		replies = append(replies, pipe.Do(ctx, "CL.THROTTLE", key+"p", 49, 1, 3600))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		log.Fatal(err)
	}
	for i, reply := range replies {
		if got := integers(reply.Result()); got[0] != int64(i/50) {
			log.Fatal(i, got)
		}
	}
	if err := client.Get(ctx, "x").Err(); err == nil || !strings.Contains(err.Error(), "unknown command") {
		log.Fatal(err)
	}
	if err := client.Close(); err != nil {
		log.Fatal(err)
	}
	client = open()
	if got := integers(client.Do(ctx, throttle...).Result()); got[2] != 14 {
		log.Fatal(got)
	}
	fmt.Println("ok")
}
