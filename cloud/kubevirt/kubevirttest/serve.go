package kubevirttest

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strconv"
	"strings"
)

// Served is a namespace behind a server of its own, for drivers that have a kubeconfig only. The
// played controllers act after each call that changes something.
type Served struct {
	*Namespace

	server *httptest.Server
}

// Serve starts the server.
func (n *Namespace) Serve() *Served {
	proxy := &httputil.ReverseProxy{Transport: n, Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = "https", strings.TrimPrefix(n.URL, "https://")
		r.Out.Host = ""
	}}
	return &Served{n, httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxy.ServeHTTP(w, r)
		if r.Method != http.MethodGet {
			_ = n.Move(context.WithoutCancel(r.Context())) // the next call goes on
		}
	}))}
}

// Close ends the server.
func (s *Served) Close() { s.server.Close() }

// Kubeconfig leads to the server.
func (s *Served) Kubeconfig() []byte {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.server.Certificate().Raw})
	return s.kubeconfig(s.server.URL, ca)
}

// Guest is a VM that runs.
type Guest struct {
	Name, Address string
	CPUs          int
	UserData      []byte
}

// Guests are the VMs that run.
func (n *Namespace) Guests(ctx context.Context) ([]Guest, error) {
	vms, err := n.call(ctx, http.MethodGet, n.vms(), nil)
	if err != nil {
		return nil, err
	}
	var all []Guest
	for _, vm := range vms.items() {
		if vm.text("status.printableStatus") != "Running" || vm.going() {
			continue
		}
		g := Guest{Name: vm.name()}
		if g.UserData, err = n.UserData(ctx, vm.name()); err != nil {
			return nil, err
		}
		g.CPUs, _ = strconv.Atoi(vm.text("spec.template.spec.domain.resources.requests.cpu"))
		vmi, err := n.call(ctx, http.MethodGet, n.instances()+"/"+escape(vm.name()), nil)
		if err != nil {
			return nil, err
		}
		for _, nic := range vmi.list("status.interfaces") {
			g.Address = nic.text("ipAddress")
			break
		}
		all = append(all, g)
	}
	return all, nil
}

// Kill deletes a VM, as somebody else would.
func (n *Namespace) Kill(ctx context.Context, name string) error {
	if _, err := n.call(ctx, http.MethodDelete, n.vms()+"/"+escape(name), nil); err != nil {
		return err
	}
	return n.Move(ctx)
}
