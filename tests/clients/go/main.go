// What an application does with go-redis, in both protocols. Usage: main PORT PASSWORD
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var background = context.Background()

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func same(got, wanted any) {
	if !reflect.DeepEqual(got, wanted) {
		panic(fmt.Sprintf("got %#v, wanted %#v", got, wanted))
	}
}

func value[T any](got T, err error) T {
	check(err)
	return got
}

func main() {
	for _, protocol := range []int{2, 3} {
		options := redis.Options{Addr: "127.0.0.1:" + os.Args[1], Password: os.Args[2], Protocol: protocol, ClientName: "go", ReadTimeout: time.Minute}
		client := redis.NewClient(&options)
		check(client.FlushAll(background).Err())
		data(client)
		together(client)
		waiting(client)
		check(client.Close())
	}
	fmt.Println("ok")
}

func data(client *redis.Client) {
	same(value(client.Set(background, "key", "value", 10_000*time.Second).Result()), "OK")
	same(value(client.Get(background, "key").Result()), "value")
	same(client.Get(background, "none").Err(), redis.Nil)
	same(value(client.HSet(background, "h", "a", "1", "b", "2").Result()), int64(2))
	same(value(client.HGetAll(background, "h").Result()), map[string]string{"a": "1", "b": "2"})
	same(value(client.ZAdd(background, "z", redis.Z{Score: 1, Member: "one"}, redis.Z{Score: 0.5, Member: "half"}).Result()), int64(2))
	same(value(client.ZRangeWithScores(background, "z", 0, -1).Result()), []redis.Z{{Score: 0.5, Member: "half"}, {Score: 1, Member: "one"}})
	same(value(client.SAdd(background, "s", "a", "b").Result()), int64(2))
	same(value(client.SMembersMap(background, "s").Result()), map[string]struct{}{"a": {}, "b": {}})
	same(value(client.XAdd(background, &redis.XAddArgs{Stream: "x", ID: "1-1", Values: []string{"f", "v"}}).Result()), "1-1")
	same(value(client.XGroupCreate(background, "x", "group", "0").Result()), "OK")
	read := value(client.XReadGroup(background, &redis.XReadGroupArgs{Group: "group", Consumer: "c", Streams: []string{"x", ">"}}).Result())
	same(read, []redis.XStream{{Stream: "x", Messages: []redis.XMessage{{ID: "1-1", Values: map[string]any{"f": "v"}}}}})
	same(value(client.XAck(background, "x", "group", "1-1").Result()), int64(1))
	same(value(client.Type(background, "x").Result()), "stream")
	same(client.Incr(background, "key").Err().Error(), "ERR value is not an integer or out of range")
	keys := map[string]bool{}
	scan := client.Scan(background, 0, "", 2).Iterator()
	for scan.Next(background) {
		keys[scan.Val()] = true
	}
	check(scan.Err())
	same(keys, map[string]bool{"key": true, "h": true, "z": true, "s": true, "x": true})
}

func together(client *redis.Client) {
	piped := value(client.Pipelined(background, func(pipe redis.Pipeliner) error {
		for range make([]struct{}, 5000) {
			pipe.Incr(background, "piped")
		}
		return nil
	}))
	same(piped[4999].(*redis.IntCmd).Val(), int64(5000))

	// Counts up by reading and writing back: only transactions that nobody spoiled go through.
	var group sync.WaitGroup
	for range make([]struct{}, 4) {
		group.Add(1)
		go func() {
			defer group.Done()
			for done := 0; done < 25; {
				err := client.Watch(background, func(tx *redis.Tx) error {
					n, err := tx.Get(background, "sum").Int()
					if err != nil && !errors.Is(err, redis.Nil) {
						return err
					}
					_, err = tx.TxPipelined(background, func(pipe redis.Pipeliner) error {
						pipe.Set(background, "sum", n+1, 0)
						return nil
					})
					return err
				}, "sum")
				if err == nil {
					done++
				} else if !errors.Is(err, redis.TxFailedErr) {
					panic(err)
				}
			}
		}()
	}
	group.Wait()
	same(value(client.Get(background, "sum").Int()), 100)

	script := redis.NewScript("return redis.call('INCRBY', KEYS[1], ARGV[1])")
	check(client.ScriptFlush(background).Err())
	same(value(script.Run(background, client, []string{"scripted"}, 3).Int()), 3)
	same(value(script.Run(background, client, []string{"scripted"}, 3).Int()), 6)
}

func waiting(client *redis.Client) {
	popped := make(chan []string)
	go func() { popped <- value(client.BLPop(background, 0, "queue").Result()) }()
	check(client.RPush(background, "queue", "job").Err())
	same(<-popped, []string{"queue", "job"})

	listener := client.Subscribe(background, "news")
	value(listener.Receive(background))
	check(listener.PSubscribe(background, "n*"))
	value(listener.Receive(background))
	same(value(client.Publish(background, "news", "hello").Result()), int64(2))
	for range make([]struct{}, 2) {
		same((<-listener.Channel()).Payload, "hello")
	}
	check(listener.Close())
}
