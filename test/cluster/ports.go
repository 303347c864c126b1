package cluster

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
)

// Ports come from below the range that the kernel takes for outgoing
// connections: a client that keeps dialling a server that is down would
// otherwise connect to itself sooner or later, and hold the port.
const (
	lowestPort         = 12000
	defaultHighestPort = 32767
	portAttempts       = 100
)

// handedOut are the ports that this process has taken, so that two clusters
// that start at the same time do not pick the same.
var handedOut sync.Map

// freePort returns a TCP port on 127.0.0.1 that nothing listens on. Another
// process can still take it first; whoever uses it retries.
func freePort() (int, error) {
	highest := highestPort()
	for range portAttempts {
		port := lowestPort + rand.IntN(highest-lowestPort+1)
		if _, taken := handedOut.LoadOrStore(port, true); taken {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort(localhost, fmt.Sprint(port)))
		if err != nil {
			continue
		}
		return port, l.Close()
	}
	return 0, fmt.Errorf("no free port between %d and %d in %d attempts", lowestPort, highest, portAttempts)
}

func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		ports[i] = port
	}
	return ports, nil
}

func highestPort() int {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return defaultHighestPort
	}
	var low, high int
	if _, err := fmt.Sscan(string(text), &low, &high); err != nil || low-1 < lowestPort+portAttempts {
		return defaultHighestPort
	}
	return low - 1
}
