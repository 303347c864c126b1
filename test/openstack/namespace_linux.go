package openstack

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Listen listens on an address in the network of the guests.
func (r *Rig) Listen(ctx context.Context, address string) (net.Listener, error) {
	return inNetwork(r, func() (net.Listener, error) { return new(net.ListenConfig).Listen(ctx, "tcp", address) })
}

// Dial connects from within the network of the guests. The host of the address is an IP: a name
// would be looked up by another thread.
func (r *Rig) Dial(ctx context.Context, address string) (net.Conn, error) {
	return inNetwork(r, func() (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", address) })
}

// inNetwork makes a socket in the network of the guests, where it stays.
func inNetwork[T any](r *Rig, open func() (T, error)) (T, error) {
	type result struct {
		socket T
		err    error
	}
	done := make(chan result)
	go func() {
		// It stays locked, so that the thread ends here: it would take other goroutines
		// into the network of the guests.
		runtime.LockOSThread()
		if err := r.enterNetwork(); err != nil {
			done <- result{err: err}
			return
		}
		socket, err := open()
		done <- result{socket, err}
	}()
	d := <-done
	return d.socket, d.err
}

// enterNetwork moves the calling thread.
func (r *Rig) enterNetwork() error {
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", r.guests.PID()))
	if err != nil {
		return err
	}
	defer namespace.Close()
	return unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET)
}
