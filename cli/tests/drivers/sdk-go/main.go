// A lock without a server, on the SDK of Go: the name of a lock says what becomes of it.
package main

import (
	"context"
	"errors"
	"fmt"
	"locklab"
	"net"
	"strings"
	"time"
)

func main() {
	// `queued` excludes here, so that a loop of `plain` sees two holders and one of `queued` does not.
	lock := &locklab.Lock{Name: "scripted", Version: "1.0", Kinds: []string{"plain", "queued", "semaphore"}, Leaseless: []string{"semaphore"}, Topologies: []string{"single", "sentinel", "cluster", "masters"}}
	lock.Connect = func(_ context.Context, hello locklab.Hello) (locklab.Acquire, error) {
		lock.Watchdog = hello.Watchdog
		switch hello.Client {
		case "echo":
			none := func(text string) string {
				if text == "" {
					return "None"
				}
				return text
			}
			var hosts []string
			for _, at := range hello.Hosts {
				host, port, _ := net.SplitHostPort(at)
				hosts = append(hosts, host+" "+port)
			}
			return nil, locklab.Failed(fmt.Errorf("%s; %s; %s; %s; %s; %v", hello.Shape, strings.Join(hosts, ","), none(hello.User), none(hello.Password), none(hello.Path), hello.TLS))
		case "away":
			return nil, locklab.Unreachable(errors.New("nobody there"))
		}
		return acquire, nil
	}
	locklab.Serve(lock)
}

var mutex = make(chan struct{}, 1)
var released func(string)

func acquire(ctx context.Context, r locklab.Request) (*locklab.Grant, error) {
	grant := &locklab.Grant{}
	if !strings.HasPrefix(r.Owner, "load") {
		fmt.Println("a library that prints")
		if released != nil {
			released("after its release")
		}
	}
	switch r.Lock {
	case "busy":
		return nil, locklab.Busy
	case "failed":
		return nil, locklab.Failed(errors.New("no"))
	case "odd":
		return nil, locklab.NotHeld
	case "throws":
		return nil, errors.New("a mistake")
	case "waits":
		<-ctx.Done()
		return nil, ctx.Err()
	case "loses":
		r.Lost("gone")
	case "renews":
		r.Extended(5*time.Second, time.Now())
	case "fenced":
		token := int64(17)
		grant.Token, grant.Lease, grant.Sent = &token, 900*time.Millisecond, time.Now()
	}
	if r.Kind == "queued" {
		mutex <- struct{}{}
	}
	broken := r.Lock == "breaks"
	grant.Release = func(context.Context) error {
		switch {
		case r.Lock == "fenced":
			return locklab.NotHeld
		case broken:
			broken = false
			return errors.New("lost")
		case r.Kind == "queued":
			<-mutex
		case !strings.HasPrefix(r.Owner, "load"):
			released = r.Lost
		}
		return nil
	}
	return grant, nil
}
