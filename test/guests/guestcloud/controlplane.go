package guestcloud

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/openstack"
)

const (
	// BalancerIP is the address of the load balancer in front of a control plane on guests. No
	// subnet of guests, pods, or Services has it.
	BalancerIP = "10.21.0.1"

	// BalancerPort is its port.
	BalancerPort = "6443"

	kubeadmVariable           = "KUBEADM"
	controlPlaneImageVariable = "GUEST_CONTROL_PLANE_IMAGE"
)

// RequireControlPlane ends a test that needs a control plane on guests as a skip that says why,
// and returns the folder with the image of its machines.
func RequireControlPlane(t *testing.T) (image string) {
	t.Helper()
	if os.Getenv(kubeadmVariable) != "1" {
		t.Skip("kubeadm init takes long on an emulated processor: make guests KUBEADM=1 runs it")
	}
	cluster.Require(t)
	openstack.RequireHypervisor(t)
	if image = os.Getenv(controlPlaneImageVariable); image == "" {
		t.Skipf("no image of control planes: make guests KUBEADM=1 builds it and sets %s", controlPlaneImageVariable)
	}
	return image
}

// ForControlPlane starts a cloud that ends with the test, whose guests boot from the image of a
// folder. Its load balancer passes connections to BalancerIP on to the members, one after the
// other, as addresses with ports.
func ForControlPlane(t *testing.T, image string, members func() []string) *Cloud {
	t.Helper()
	c := start(t, image)
	must(t, c.Project.Gateway(t.Context(), BalancerIP+"/32"))
	var turn atomic.Uint32
	c.listen(t, net.JoinHostPort(BalancerIP, BalancerPort), func(ctx context.Context) (net.Conn, error) {
		all := members()
		if len(all) == 0 {
			return nil, errors.New("the load balancer has no members")
		}
		return c.Dial(ctx, all[int(turn.Add(1))%len(all)])
	})
	return c
}

// Proxy serves an HTTP proxy for what this machine has to say to addresses in the network of
// the guests, until the test ends, and returns its URL.
func (c *Cloud) Proxy(t *testing.T) string {
	t.Helper()
	proxy := httptest.NewServer(http.HandlerFunc(c.tunnel))
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// tunnel answers CONNECT.
func (c *Cloud) tunnel(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "this proxy makes tunnels only", http.StatusMethodNotAllowed)
		return
	}
	to, err := c.Dial(r.Context(), r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	from, _, err := http.NewResponseController(w).Hijack() // who asks says nothing before the answer
	if err != nil {
		_ = to.Close()
		return
	}
	if _, err := io.WriteString(from, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		_, _ = from.Close(), to.Close()
		return
	}
	join(from, to)
}
