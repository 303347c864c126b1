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
	type result struct {
		listener net.Listener
		err      error
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
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		done <- result{l, err}
	}()
	d := <-done
	return d.listener, d.err
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
