// A driver of the lock `SET key value NX PX lease` on one Redis server, whose holder is told before the lease ends.
// Put your own library in the place of its commands.
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
		Features: []string{"extend", "lost"}, Connect: connect})
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
			if reply == "+OK" && left(sent, r.Lease) > 0 {
				told := time.AfterFunc(left(sent, r.Lease), func() { r.Lost("the lease ends") })
				return &locklab.Grant{Sent: sent, Release: func(context.Context) error {
					told.Stop()
					return mine(command(server, "EVAL", remove, "1", r.Lock, value))
				}, Extend: func(_ context.Context, lease time.Duration) error {
					sent := time.Now()
					err := mine(command(server, "EVAL", expire, "1", r.Lock, value, fmt.Sprint(lease.Milliseconds())))
					if err == nil && (!told.Stop() || left(sent, lease) <= 0) {
						return locklab.NotHeld
					}
					if err == nil {
						told.Reset(left(sent, lease))
					}
					return err
				}}, nil
			}
			if reply == "+OK" {
				command(server, "EVAL", remove, "1", r.Lock, value)
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

// What is left of a lease that counts from when it was asked for. A tenth of it is kept for a timer that is late.
func left(sent time.Time, lease time.Duration) time.Duration { return lease*9/10 - time.Since(sent) }

// Whether the server did it, as the error of a release or an extend.
func mine(reply string, err error) error {
	if err == nil && reply != ":1" {
		return locklab.NotHeld
	}
	return err
}
