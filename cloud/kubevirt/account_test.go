package kubevirt_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/kubevirt"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/kubevirttest"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
)

// env is a driver in a namespace, without the kit between.
type env struct {
	*testing.T
	n       *kubevirttest.Namespace
	now     time.Time
	class   cloud.Class
	account cloud.Account
	calls   []string // methods, in order
}

// RoundTrip notes a call of the driver.
func (s *env) RoundTrip(r *http.Request) (*http.Response, error) {
	s.calls = append(s.calls, r.Method)
	return s.n.RoundTrip(r)
}

func newEnv(t *testing.T, n *kubevirttest.Namespace, in cloud.ClassInput) *env {
	t.Helper()
	s := &env{T: t, n: n, now: time.Now()}
	n.Now = func() time.Time { return s.now }
	d := kubevirt.NewDriver(func() time.Time { return s.now }, s)
	var problems []cloud.Problem
	s.class, problems = d.Parse(in)
	for _, p := range problems {
		t.Errorf("parse: %s %s", p.Field, p.Message)
	}
	var err error
	s.account, err = d.Open(t.Context(), s.class, cloud.Credentials{"kubeconfig": n.Kubeconfig()})
	must(t, err)
	return s
}

// create asks for the VM of machine w-1.
func (s *env) create() (cloud.VM, error) {
	s.Helper()
	return s.account.Create(s.Context(), cloud.CreateRequest{
		Ref:   cloud.Ref{Name: "w-1", OwnerID: "o-1", Class: s.class},
		Token: "00000000-0000-4000-8000-000000000001", UserData: []byte("#cloud-config"),
		Checkpoint: func(context.Context, string) error { return nil },
	})
}

// makes returns a namespace of a name.
type makes func(t *testing.T, name string) *kubevirttest.Namespace

// running asks for the VM of machine w-1 until it is finished.
func (s *env) running() cloud.VM {
	s.Helper()
	for range 5 {
		vm, err := s.create()
		must(s, err)
		if vm.RetryAfter == 0 {
			return vm
		}
		must(s, s.n.Move(s.Context()))
	}
	s.Fatal("the VM does not become finished")
	return cloud.VM{}
}

// TestAccount tries what the kit does not, on one API server.
func TestAccount(t *testing.T) {
	t.Parallel()
	server := infra(t)
	namespace := func(t *testing.T, name string) *kubevirttest.Namespace {
		t.Helper()
		n, err := server.NewNamespace(t.Context(), name)
		must(t, err)
		return n
	}
	t.Run("TwoCalls", func(t *testing.T) { twoCalls(newEnv(t, namespace(t, "two-calls"), class(nil))) })
	t.Run("NoRoom", func(t *testing.T) { noRoom(newEnv(t, namespace(t, "no-room"), class(nil))) })
	t.Run("NameTaken", func(t *testing.T) { nameTaken(newEnv(t, namespace(t, "name-taken"), class(nil))) })
	t.Run("SameNameSince", func(t *testing.T) { sameName(newEnv(t, namespace(t, "same-name"), class(nil))) })
	t.Run("Served", func(t *testing.T) { served(t, namespace(t, "served")) })
	t.Run("NoKubeVirt", noKubeVirt)
	t.Run("Unfinished", func(t *testing.T) { unfinished(t, namespace) })
	t.Run("Quota", func(t *testing.T) { quota(t, namespace) })
	t.Run("DataVolumeError", func(t *testing.T) { dataVolumeError(newEnv(t, namespace(t, "volume-error"), class(nil))) })
	t.Run("Ended", func(t *testing.T) { ended(t, namespace) })
	t.Run("Template", func(t *testing.T) { template(t, namespace) })
	t.Run("Relabelled", func(t *testing.T) { relabelled(newEnv(t, namespace(t, "relabelled"), class(nil))) })
	t.Run("Networks", func(t *testing.T) { networks(t, namespace) })
}

// twoCalls: most VMs cost the request for the Secret and that for the VM, without a look before, and another process
// that asks for the same attempt makes nothing more.
func twoCalls(s *env) {
	s.calls = nil
	vm, err := s.create()
	must(s, err)
	if want := []string{http.MethodPost, http.MethodPost}; !slices.Equal(s.calls, want) {
		s.Errorf("calls of a creation: %v, want %v", s.calls, want)
	}
	things, err := s.n.Things(s.Context())
	must(s, err)
	again, err := newEnv(s.T, s.n, class(nil)).create()
	if err != nil || again.ProviderID != vm.ProviderID {
		s.Errorf("create by another process: got %q, %v, want %q", again.ProviderID, err, vm.ProviderID)
	}
	if all, err := s.n.Things(s.Context()); err != nil || len(all) != len(things) {
		s.Errorf("there are %+v, %v; want what was there before: %+v", all, err, things)
	}
}

// noRoom: a VM that finds no node is a shortage after a while, not at once, since volumes that are
// being made look like it; and it is taken when a node has come.
func noRoom(s *env) {
	vm, err := s.create()
	must(s, err)
	if vm.RetryAfter == 0 {
		s.Error("create is finished before a node was looked for")
	}
	must(s, s.n.Set(s.Context(), "w-1", "ErrorUnschedulable"))
	if vm, err = s.create(); err != nil || vm.RetryAfter == 0 {
		s.Errorf("a VM that just looks for a node: got %+v, %v, want a wait", vm, err)
	}
	s.now = s.now.Add(3 * time.Minute)
	_, err = s.create()
	e, ok := errors.AsType[*cloud.Error](err)
	want := cloud.Offering{Zone: "eu-1", InstanceType: "small"}
	if !ok || e.Code != cloud.Exhausted || e.Offering == nil || *e.Offering != want {
		s.Errorf("a VM without a node for minutes: got %v, want an exhausted offering", err)
	}
	must(s, s.n.Set(s.Context(), "w-1", ""))
	if vm, err = s.create(); err != nil || vm.State != cloud.StateRunning || vm.RetryAfter != 0 {
		s.Errorf("a VM that found a node: got %+v, %v, want it running", vm, err)
	}
}

// nameTaken: the VM of a stranger that has the name of the machine is neither taken nor changed, and
// nothing of the failed attempt is left after the machine's deletion.
func nameTaken(s *env) {
	must(s, s.n.Put(s.Context(), kubevirttest.Thing{Kind: kubevirttest.VM, Name: "w-1"}, ""))
	_, err := s.create()
	if cloud.CodeOf(err) != cloud.Unknown || !strings.Contains(err.Error(), "w-1") {
		s.Errorf("create: got %v, want an error of code Unknown that names the VM", err)
	}
	for range 3 {
		_, err = s.account.Delete(s.Context(), cloud.Ref{Name: "w-1", OwnerID: "o-1", Class: s.class})
		must(s, err)
	}
	things, err := s.n.Things(s.Context())
	must(s, err)
	if len(things) != 1 || things[0].Kind != kubevirttest.VM {
		s.Errorf("left: %+v, want the stranger's VM alone", things)
	}
}

// sameName: a providerID has no more than a name, so a VM that has got the name since is looked at
// before it counts as the machine's.
func sameName(s *env) {
	labels := map[string]string{
		"mcm.gardener.cloud/cluster": "c1", "mcm.gardener.cloud/role": "node", "mcm.cluster.x-k8s.io/owner-id": "o-2",
		"kubevirt.io/vm": "w-1",
	}
	must(s, s.n.Put(s.Context(), kubevirttest.Thing{Kind: kubevirttest.VM, Name: "w-1", Labels: labels}, ""))
	ref := cloud.Ref{Name: "w-1", OwnerID: "o-1", ProviderID: "kubevirt://w-1", Class: s.class}
	if _, err := s.account.Get(s.Context(), ref); cloud.CodeOf(err) != cloud.NotFound {
		s.Errorf("get: got %v, want an error of code NotFound", err)
	}
	if d, err := s.account.Delete(s.Context(), ref); err != nil || !d.Done || d.Found {
		s.Errorf("delete: got %+v, %v, want it done with nothing found", d, err)
	}
}

// served: the driver's own connection, with all that the kubeconfig says, makes a VM that runs and
// removes it.
func served(t *testing.T, n *kubevirttest.Namespace) {
	t.Helper()
	at := n.Serve()
	t.Cleanup(at.Close)
	d := kubevirt.NewDriver(time.Now, nil)
	parsed, _ := d.Parse(class(nil))
	a, err := d.Open(t.Context(), parsed, cloud.Credentials{"kubeconfig": at.Kubeconfig()})
	must(t, err)
	s := &env{T: t, n: n, class: parsed, account: a}
	_, err = s.create()
	must(t, err)
	must(t, n.Move(t.Context())) // after the move that the last call has begun
	guests, err := at.Guests(t.Context())
	must(t, err)
	if len(guests) != 1 || string(guests[0].UserData) != "#cloud-config" {
		t.Fatalf("guests: %+v, want one with its user data", guests)
	}
	for range 3 {
		_, err = a.Delete(t.Context(), cloud.Ref{Name: "w-1", OwnerID: "o-1", Class: parsed})
		must(t, err)
		must(t, n.Move(t.Context()))
	}
	if things, err := n.Things(t.Context()); err != nil || len(things) != 0 {
		t.Errorf("left: %+v, %v, want nothing", things, err)
	}
}

// noKubeVirt: a kubeconfig of another cluster is the user's mistake. The connection is the driver's
// own, with the certificates of the kubeconfig.
func noKubeVirt(t *testing.T) {
	t.Helper()
	c := cluster.ForTest(t, cluster.Options{})
	file, err := c.KubeconfigFor("admin", "system:masters")
	must(t, err)
	text, err := os.ReadFile(file)
	must(t, err)
	d := kubevirt.NewDriver(time.Now, nil)
	parsed, _ := d.Parse(class(nil))
	_, err = d.Open(t.Context(), parsed, cloud.Credentials{"kubeconfig": text})
	e, ok := errors.AsType[*cloud.Error](err)
	if !ok || e.Code != cloud.Invalid || e.Reason != "NoKubeVirt" {
		t.Errorf("open: got %v, want an error of code Invalid and reason NoKubeVirt", err)
	}
}
