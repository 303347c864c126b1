package guests

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/process"
)

// Members returns the ids of the VMs that the endpoint of a cluster leads to.
type Members func(ctx context.Context) ([]string, error)

// AddBehind adds a cluster whose endpoint, a port of Host, passes connections on while one of
// the members runs an API server.
func (g *Guests) AddBehind(name string, port int, members Members) (*Cluster, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	inside, err := process.FreePort()
	if err != nil {
		return nil, err
	}
	c, err := g.add(name, inside)
	if err != nil {
		return nil, err
	}
	// The API server tells clusters by the port that clients name: that of the load balancer
	// has the same objects, and nothing else listens there.
	if err := g.listen(name+"-endpoint", port, name); err != nil {
		return nil, err
	}
	delete(g.clusters, c.endpoint)
	c.endpoint = net.JoinHostPort(Host, strconv.Itoa(port))
	g.clusters[c.endpoint] = c
	c.members = members
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", c.endpoint)
	if err != nil {
		return nil, err
	}
	g.ends = append(g.ends, listener.Close)
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return // it is closed
			}
			go g.pass(in, c, net.JoinHostPort(Host, strconv.Itoa(inside)))
		}
	}()
	return c, nil
}

// pass serves one connection.
func (g *Guests) pass(in net.Conn, c *Cluster, api string) {
	defer func() { _ = in.Close() }()
	const long = 10 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), long)
	defer cancel()
	if !g.serves(ctx, c) {
		return
	}
	out, err := new(net.Dialer).DialContext(ctx, "tcp", api)
	if err != nil {
		return
	}
	defer func() { _ = out.Close() }()
	var ways sync.WaitGroup
	for _, way := range []struct{ from, to net.Conn }{{in, out}, {out, in}} {
		ways.Go(func() {
			_, _ = io.Copy(way.to, way.from)
			_ = way.to.Close() // the other way ends, too
		})
	}
	ways.Wait()
}

// serves reports whether the load balancer of a cluster leads to an API server. The cloud is
// asked without the lock: it may take its time.
func (g *Guests) serves(ctx context.Context, c *Cluster) bool {
	ids, err := c.members(ctx)
	if err != nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.checkMembers(c, ids) == nil
}

// reach reports why no API server of the cluster can be reached.
func (g *Guests) reach(ctx context.Context, c *Cluster) error {
	if c.members == nil {
		return nil
	}
	ids, err := c.members(ctx)
	if err != nil {
		return err
	}
	return g.checkMembers(c, ids)
}

func (g *Guests) checkMembers(c *Cluster, ids []string) error {
	serves := func(id string) bool {
		m := g.machines[id]
		return m != nil && m.cluster == c && m.controlPlane && !m.halted
	}
	switch {
	case len(ids) == 0:
		return errors.New("the load balancer has no members")
	case !slices.ContainsFunc(ids, serves):
		return fmt.Errorf("none of the load balancer's members %v runs an API server", ids)
	}
	return nil
}
