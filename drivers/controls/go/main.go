// A lock as teams write it, which loses its exclusion and tells nobody: a control that an audit must convict.
//
// renewer-dies: a goroutine of each hold sends PEXPIRE each second, and ends at its first error. never-renews: says that it renews, and does
// not; a second argument is the lease that it claims, in milliseconds.
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

func main() {
	mode, leaseMs := os.Args[1], 3000
	if len(os.Args) > 2 {
		leaseMs, _ = strconv.Atoi(os.Args[2])
	}
	locklab.Serve(&locklab.Lock{Name: mode, Version: "1.0", Kinds: []string{"plain"}, Topologies: []string{"single"},
		Features: []string{"release_blind"}, Watchdog: time.Duration(leaseMs) * time.Millisecond,
		Connect: func(ctx context.Context, hello locklab.Hello) (locklab.Acquire, error) {
			server := hello.Hosts[0]
			if _, err := command(server, "PING"); err != nil {
				return nil, locklab.Unreachable(err)
			}
			return func(ctx context.Context, r locklab.Request) (*locklab.Grant, error) {
				return acquire(ctx, server, r, mode, leaseMs)
			}, nil
		}})
}

func acquire(ctx context.Context, server string, r locklab.Request, mode string, leaseMs int) (*locklab.Grant, error) {
	value := fmt.Sprintf("%s %d", r.Owner, time.Now().UnixNano())
	lease, renewed := r.Lease.Milliseconds(), r.Lease == 0
	if renewed {
		lease = int64(leaseMs)
	}
	for end := r.Until(); ; time.Sleep(10 * time.Millisecond) {
		reply, err := command(server, "SET", r.Lock, value, "NX", "PX", fmt.Sprint(lease))
		if err != nil {
			return nil, err
		}
		if reply == "+OK" {
			break
		}
		if ctx.Err() != nil || time.Now().After(end) {
			return nil, locklab.Busy
		}
	}
	held, release := context.WithCancel(context.Background())
	if renewed && mode == "renewer-dies" {
		go func() {
			for ticks := time.NewTicker(time.Second); ; {
				select {
				case <-held.Done():
					return
				case <-ticks.C:
				}
				if _, err := command(server, "PEXPIRE", r.Lock, fmt.Sprint(lease)); err != nil {
					return
				}
			}
		}()
	}
	return &locklab.Grant{Release: func(context.Context) error {
		release()
		_, err := command(server, "EVAL", remove, "1", r.Lock, value)
		return err
	}}, nil
}

// One command on a connection of its own; the first line of the reply.
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
	line, err := bufio.NewReader(connection).ReadString('\n')
	line = strings.TrimSpace(line)
	if err == nil && strings.HasPrefix(line, "-") {
		err = locklab.Failed(fmt.Errorf("the server said %s", line))
	}
	return line, err
}
