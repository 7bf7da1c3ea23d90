// Locks as teams write them, each wrong in one thing, and told to nobody: controls that an audit must convict. The modes are those of
// home_made.py: renewer-dies, never-renews (a second argument is the lease that it claims, in milliseconds), release-without-owner-check,
// get-compare-del, setnx-expire, renew-without-owner-check.
package main

import (
	"bufio"
	"context"
	"fmt"
	"locklab"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

const remove = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"

// What is wrong, and the lease that is renewed.
var mode, leaseMs = os.Args[1], int64(3000)

func main() {
	if len(os.Args) > 2 {
		leaseMs, _ = strconv.ParseInt(os.Args[2], 10, 64)
	}
	lock := &locklab.Lock{Name: mode, Version: "1.0", Kinds: []string{"plain"}, Topologies: []string{"single"}, Features: []string{"release_blind"}}
	if renews() || mode == "never-renews" {
		lock.Watchdog = time.Duration(leaseMs) * time.Millisecond
	}
	if mode == "renew-without-owner-check" {
		lock.Features = append(lock.Features, "extend")
	}
	lock.Connect = func(ctx context.Context, hello locklab.Hello) (locklab.Acquire, error) {
		server := hello.Hosts[0]
		if _, err := command(server, "PING"); err != nil {
			return nil, locklab.Unreachable(err)
		}
		return func(ctx context.Context, r locklab.Request) (*locklab.Grant, error) { return acquire(ctx, server, r) }, nil
	}
	locklab.Serve(lock)
}

func renews() bool { return mode == "renewer-dies" || mode == "renew-without-owner-check" }

func acquire(ctx context.Context, server string, r locklab.Request) (*locklab.Grant, error) {
	value := fmt.Sprintf("%s %d", r.Owner, time.Now().UnixNano())
	lease, renewed := r.Lease.Milliseconds(), r.Lease == 0
	if renewed {
		lease = leaseMs
	}
	for end := r.Until(); ; time.Sleep(10 * time.Millisecond) {
		taken, err := take(server, r.Lock, value, lease)
		if err != nil {
			return nil, err
		}
		if taken {
			break
		}
		if ctx.Err() != nil || time.Now().After(end) {
			return nil, locklab.Busy
		}
	}
	held, release := context.WithCancel(context.Background())
	if renewed && renews() {
		go func() {
			for ticks := time.NewTicker(time.Second); ; {
				select {
				case <-held.Done():
					return
				case <-ticks.C:
				}
				if _, err := command(server, "PEXPIRE", r.Lock, fmt.Sprint(lease)); err != nil && mode == "renewer-dies" {
					return
				}
			}
		}()
	}
	grant := &locklab.Grant{Release: func(context.Context) error {
		release()
		return give(server, r.Lock, value)
	}}
	if mode == "renew-without-owner-check" {
		grant.Extend = func(_ context.Context, lease time.Duration) error {
			reply, err := command(server, "PEXPIRE", r.Lock, fmt.Sprint(lease.Milliseconds()))
			if err == nil && reply != ":1" {
				return locklab.NotHeld
			}
			return err
		}
	}
	return grant, nil
}

func take(server, lock, value string, lease int64) (bool, error) {
	if mode != "setnx-expire" {
		reply, err := command(server, "SET", lock, value, "NX", "PX", fmt.Sprint(lease))
		return reply == "+OK", err
	}
	reply, err := command(server, "SETNX", lock, value)
	if err == nil && reply == ":1" {
		_, err = command(server, "PEXPIRE", lock, fmt.Sprint(lease))
	}
	return reply == ":1", err
}

func give(server, lock, value string) error {
	words := []string{"EVAL", remove, "1", lock, value}
	switch mode {
	case "release-without-owner-check":
		words = []string{"DEL", lock}
	case "get-compare-del":
		if reply, err := command(server, "GET", lock); err != nil || reply != value {
			return err
		}
		words = []string{"DEL", lock}
	}
	_, err := command(server, words...)
	return err
}

// One command on a connection of its own: the reply, of text the text itself.
func command(server string, words ...string) (string, error) {
	connection, err := net.DialTimeout("tcp", server, 2*time.Second)
	if err != nil {
		return "", locklab.Failed(err)
	}
	defer connection.Close()
	connection.SetDeadline(time.Now().Add(3 * time.Second))
	fmt.Fprintf(connection, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(connection, "$%d\r\n%s\r\n", len(word), word)
	}
	reader := bufio.NewReader(connection)
	line, err := reader.ReadString('\n')
	line = strings.TrimSpace(line)
	if err == nil && strings.HasPrefix(line, "$") && line != "$-1" {
		line, err = reader.ReadString('\n')
		line = strings.TrimSpace(line)
	}
	if err == nil && strings.HasPrefix(line, "-") {
		err = locklab.Failed(fmt.Errorf("the server said %s", line))
	}
	return line, err
}
