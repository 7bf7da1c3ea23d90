// A driver of bsm/redislock over go-redis: a random token per lock, and tries every 100 ms, as its documentation shows. It has no renewal.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	target "goredis"
	"locklab"
)

func main() {
	locklab.Serve(&locklab.Lock{Name: "bsm/redislock", Version: "0.9.4, go-redis 9.23.0", Kinds: []string{"plain"},
		Topologies: []string{"single", "sentinel", "cluster"}, Features: []string{"extend", "owner_moves"}, Connect: connect})
}

func connect(ctx context.Context, hello locklab.Hello) (locklab.Acquire, error) {
	clients, err := target.Clients(ctx, hello)
	if err != nil {
		return nil, err
	}
	library := redislock.New(clients[0])
	return func(ctx context.Context, r locklab.Request) (*locklab.Grant, error) {
		tries := &tries{end: r.Until(), sent: time.Now()}
		// Without a deadline it waits for one lease at most; and one that is over ends a try in the middle.
		ctx, stop := context.WithDeadline(ctx, tries.end.Add(time.Hour))
		defer stop()
		lock, err := library.Obtain(ctx, r.Lock, r.Lease, &redislock.Options{RetryStrategy: tries})
		if err != nil {
			return nil, ending(err, locklab.Busy)
		}
		sent := tries.sent
		if time.Since(sent) > resent {
			sent = time.Now()
		}
		return &locklab.Grant{Sent: sent, Release: func(ctx context.Context) error {
			return ending(lock.Release(ctx), locklab.NotHeld)
		}, Extend: func(ctx context.Context, lease time.Duration) error {
			return ending(lock.Refresh(ctx, lease, nil), locklab.NotHeld)
		}}, nil
	}, nil
}

// After go-redis's read timeout a try may have been sent again, which nobody outside of it sees; the script sets the lease anew then. So late, the
// lease counts from the answer, to the library's favour.
const resent = 3 * time.Second

// Every 100 ms until the wait is over. It also knows when the next try is sent at the earliest.
type tries struct{ end, sent time.Time }

func (t *tries) NextBackoff() time.Duration {
	pause := min(100*time.Millisecond, time.Until(t.end))
	t.sent = time.Now().Add(pause)
	return pause
}

func ending(err, no error) error {
	if errors.Is(err, redislock.ErrNotObtained) || errors.Is(err, redislock.ErrLockNotHeld) {
		return no
	}
	return target.Ending(err)
}
