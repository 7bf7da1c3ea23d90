// A driver of the lock `SET key value NX PX lease` on one Redis server. Put your own library in the place of its commands.
//
//	go build -o run ./driver && locklab conform ./run
package main

import (
	"context"
	"fmt"
	"locklab"
	"time"
)

const (
	remove = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
	expire = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0"
)

func main() {
	locklab.Serve(&locklab.Lock{Name: "set-nx-px", Version: "1.0", Kinds: []string{"plain"}, Topologies: []string{"single"},
		Features: []string{"extend"}, Connect: connect})
}

func connect(ctx context.Context, hello locklab.Hello) (locklab.Acquire, error) {
	server := hello.Hosts[0]
	if _, err := command(server, "PING"); err != nil {
		return nil, locklab.Unreachable(err)
	}
	return func(ctx context.Context, r locklab.Request) (*locklab.Grant, error) {
		value := fmt.Sprintf("%s %s %d", hello.Client, r.Owner, time.Now().UnixNano())
		for end := r.Until(); ; {
			sent := time.Now()
			reply, err := command(server, "SET", r.Lock, value, "NX", "PX", fmt.Sprint(r.Lease.Milliseconds()))
			if err != nil {
				return nil, err
			}
			if reply == "+OK" {
				return &locklab.Grant{Sent: sent, Release: func(context.Context) error {
					return mine(command(server, "EVAL", remove, "1", r.Lock, value))
				}, Extend: func(_ context.Context, lease time.Duration) error {
					return mine(command(server, "EVAL", expire, "1", r.Lock, value, fmt.Sprint(lease.Milliseconds())))
				}}, nil
			}
			if time.Now().After(end) {
				return nil, locklab.Busy
			}
			select {
			case <-ctx.Done():
				return nil, locklab.Failed(ctx.Err())
			case <-time.After(10 * time.Millisecond):
			}
		}
	}, nil
}

// Whether the server did it, as the error of a release or an extend.
func mine(reply string, err error) error {
	if err == nil && reply != ":1" {
		return locklab.NotHeld
	}
	return err
}
