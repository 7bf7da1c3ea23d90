// A driver of redsync over go-redis, both with their defaults: tries again after 50 to 250 ms at random, a try may take a twentieth of the
// lease, a hundredth of the lease is kept back for drift. Over several masters it is their Redlock. Only the number of tries is ours: as many
// as fit into the wait, instead of 32. It has no renewal.
package main

import (
	"context"
	"errors"
	"math"
	"math/rand"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"
	pools "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	target "goredis"
	"locklab"
)

func main() {
	locklab.Serve(&locklab.Lock{Name: "redsync", Version: "4.18.1, go-redis 9.23.0", Kinds: []string{"plain", "redlock"},
		Topologies: []string{"single", "sentinel", "cluster", "masters"}, Features: []string{"extend", "redlock", "owner_moves"}, Connect: connect})
}

func connect(ctx context.Context, hello locklab.Hello) (locklab.Acquire, error) {
	clients, err := target.Clients(ctx, hello)
	if err != nil {
		return nil, err
	}
	var all []pools.Pool
	for _, client := range clients {
		client.AddHook(watch{})
		all = append(all, goredis.NewPool(client))
	}
	library := redsync.New(all...)
	return func(ctx context.Context, r locklab.Request) (*locklab.Grant, error) {
		end, doubt := r.Until(), new(atomic.Bool)
		ctx, stop := context.WithCancel(context.WithValue(ctx, key{}, doubt))
		defer stop()
		// A context with a deadline would end in the middle of a try; this one ends between two.
		delay := func(int) time.Duration {
			left := time.Until(end)
			if left <= 0 {
				stop()
				return time.Hour
			}
			return min(time.Duration(50+rand.Intn(200))*time.Millisecond, left)
		}
		mutex := library.NewMutex(r.Lock, redsync.WithExpiry(r.Lease), redsync.WithTries(math.MaxInt), redsync.WithRetryDelayFunc(delay))
		if r.Wait == 0 {
			err = mutex.TryLockContext(ctx)
		} else {
			err = mutex.LockContext(ctx)
		}
		switch {
		case err != nil && doubt.Load():
			return nil, err
		case err != nil:
			return nil, locklab.Busy
		}
		drift := time.Duration(float64(r.Lease) * 0.01)
		return &locklab.Grant{Sent: mutex.Until().Add(drift - r.Lease), Lease: r.Lease - drift, Release: func(ctx context.Context) error {
			ok, err := mutex.UnlockContext(ctx)
			return ending(ok, err)
		}, Extend: func(ctx context.Context, lease time.Duration) error {
			ok, err := library.NewMutex(r.Lock, redsync.WithExpiry(lease), redsync.WithValue(mutex.Value())).ExtendContext(ctx)
			return ending(ok, err)
		}}, nil
	}, nil
}

// Not held where every server that was asked said so.
func ending(ok bool, err error) error {
	var node *redsync.RedisError
	switch {
	case ok:
		return nil
	case errors.As(err, &node) || errors.Is(err, redsync.ErrExtendFailed):
		return err
	}
	return locklab.NotHeld
}

// The library says of a wait that failed only how its last try did. What became of the others is seen here: one whose reply was lost may
// have left its value.
type watch struct{}
type key struct{}

func (watch) DialHook(next redis.DialHook) redis.DialHook { return next }

func (watch) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (watch) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		var reply redis.Error
		if doubt, ok := ctx.Value(key{}).(*atomic.Bool); ok && err != nil && !errors.As(err, &reply) {
			doubt.Store(true)
		}
		return err
	}
}
