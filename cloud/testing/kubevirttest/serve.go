package kubevirttest

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"slices"
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
	at, ca, _ := s.Access()
	return s.kubeconfig(at, ca)
}

// Access is what such a kubeconfig is made of: the URL of the server, the certificate of its authority in PEM, and the
// token of the service account.
func (s *Served) Access() (at string, ca []byte, token string) {
	ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.server.Certificate().Raw})
	return s.server.URL, ca, s.token
}

// Guest is a VM. What it boots with, its CPUs and its address are known once it runs.
type Guest struct {
	Name, Address string
	CPUs          int
	UserData      []byte
	Running       bool
	Labels        map[string]string
	Zone          string // that its nodes have to be in
}

// Guests are the VMs that run.
func (n *Namespace) Guests(ctx context.Context) ([]Guest, error) {
	all, err := n.VMs(ctx)
	return slices.DeleteFunc(all, func(g Guest) bool { return !g.Running }), err
}

// VMs are all VMs.
func (n *Namespace) VMs(ctx context.Context) ([]Guest, error) {
	vms, err := n.call(ctx, http.MethodGet, n.vms(), nil)
	if err != nil {
		return nil, err
	}
	var all []Guest
	for _, vm := range vms.items() {
		g := Guest{Name: vm.name(), Labels: vm.labels(), Zone: zoneOf(vm)}
		if vm.text("status.printableStatus") != "Running" || vm.going() {
			all = append(all, g)
			continue
		}
		g.Running = true
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

// zoneOf is the zone that the nodes of a VM have to be in.
func zoneOf(vm Object) string {
	const required = "spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution."
	for _, term := range vm.list(required + "nodeSelectorTerms") {
		for _, wanted := range term.list("matchExpressions") {
			if zones, _ := wanted.at("values").([]any); wanted.text("key") == "topology.kubernetes.io/zone" && len(zones) > 0 {
				return fmt.Sprint(zones[0])
			}
		}
	}
	return ""
}

// Kill deletes a VM, as somebody else would.
func (n *Namespace) Kill(ctx context.Context, name string) error {
	if _, err := n.call(ctx, http.MethodDelete, n.vms()+"/"+escape(name), nil); err != nil {
		return err
	}
	return n.Move(ctx)
}
