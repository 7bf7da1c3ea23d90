// Package goredis makes clients of go-redis of a driver's target: what the peers in Go have in common. Every option is go-redis' default.
package goredis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/redis/go-redis/v9"
	"locklab"
)

// Clients are one for each independent server, and one for a deployment of any other shape.
func Clients(ctx context.Context, hello locklab.Hello) ([]redis.UniversalClient, error) {
	options := redis.UniversalOptions{Addrs: hello.Hosts, Username: hello.User, Password: hello.Password}
	if hello.TLS {
		options.TLSConfig = &tls.Config{}
		if hello.TLSCA != "" {
			pem, err := os.ReadFile(hello.TLSCA)
			if err != nil {
				return nil, err
			}
			options.TLSConfig.RootCAs = x509.NewCertPool()
			options.TLSConfig.RootCAs.AppendCertsFromPEM(pem)
		}
	}
	var clients []redis.UniversalClient
	switch hello.Shape {
	case "cluster":
		clients = append(clients, redis.NewClusterClient(options.Cluster()))
	case "sentinel":
		options.MasterName = hello.Path
		clients = append(clients, redis.NewFailoverClient(options.Failover()))
	default:
		options.DB, _ = strconv.Atoi(hello.Path)
		for _, host := range hello.Hosts {
			options.Addrs = []string{host}
			clients = append(clients, redis.NewClient(options.Simple()))
		}
	}
	var silent error
	for _, client := range clients {
		err := client.Ping(ctx).Err()
		if err == nil {
			return clients, nil
		}
		silent = errors.Join(silent, err)
	}
	return nil, locklab.Unreachable(fmt.Errorf("no server answers: %w", silent))
}

// Ending is failed for what a server refused, since a refused command was not run; any other error stays unknown.
func Ending(err error) error {
	var refused redis.Error
	if errors.As(err, &refused) {
		return locklab.Failed(err)
	}
	return err
}
