//go:build !linux

package openstack

import (
	"context"
	"errors"
	"net"
)

// Listen fails: there is a network of guests on Linux only.
func (r *Rig) Listen(context.Context, string) (net.Listener, error) {
	return nil, errors.New("guests have a network on Linux only")
}

// Dial fails, too.
func (r *Rig) Dial(context.Context, string) (net.Conn, error) {
	return nil, errors.New("guests have a network on Linux only")
}
