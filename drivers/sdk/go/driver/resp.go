package main

import (
	"bufio"
	"fmt"
	"locklab"
	"net"
	"strings"
	"time"
)

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
