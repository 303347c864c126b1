package openstack

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// freePorts returns ports of 127.0.0.1 that nothing listens on, by name. They
// are below those that the kernel takes for outgoing connections.
func freePorts(names ...string) (map[string]int, error) {
	const lowest, highest, attempts = 12000, 32767, 200
	ports := map[string]int{}
	taken := map[int]bool{}
	for range attempts {
		if len(ports) == len(names) {
			return ports, nil
		}
		port := lowest + rand.IntN(highest-lowest+1)
		if taken[port] {
			continue
		}
		taken[port] = true
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return nil, err
		}
		ports[names[len(ports)]] = port
	}
	return nil, fmt.Errorf("no %d free ports between %d and %d", len(names), lowest, highest)
}
