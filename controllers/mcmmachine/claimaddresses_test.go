package mcmmachine

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
)

// pooled is newMachine of machine m with an IPv4 and an IPv6 address from pools.
func (w *env) pooled() []client.Object {
	objects := w.newMachine("m")
	pool := func(name string) infrav1.IPPoolReference {
		return infrav1.IPPoolReference{APIGroup: "ipam.cluster.x-k8s.io", Kind: "InClusterIPPool", Name: name}
	}
	objects[0].(*infrav1.MCMMachine).Spec.Network = infrav1.MachineNetwork{Devices: []infrav1.NetworkDevice{{
		AddressesFromPools: []infrav1.IPPoolReference{pool("v4"), pool("v6")},
		Nameservers:        []string{"10.9.0.53"}, SearchDomains: []string{"example.org"},
	}}}
	return objects
}

// claims are the names of all IPAddressClaims.
func (w *env) claims() []string {
	w.Helper()
	var list ipamv1.IPAddressClaimList
	if err := w.client.List(w.Context(), &list); err != nil {
		w.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

func claimNamed(name string) *ipamv1.IPAddressClaim {
	return &ipamv1.IPAddressClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// provide plays the IPAM provider: it gives a claim an address.
func (w *env) provide(claim, ip, gateway string, prefix int32) {
	w.Helper()
	w.create(&ipamv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: claim},
		Spec: ipamv1.IPAddressSpec{
			ClaimRef: ipamv1.IPAddressClaimReference{Name: claim}, Address: ip, Prefix: &prefix, Gateway: gateway,
		},
	})
	change(w, claimNamed(claim), func(c *ipamv1.IPAddressClaim) { c.Status.AddressRef.Name = claim })
}

// provideBoth fulfils the claims of machine m.
func (w *env) provideBoth() {
	w.Helper()
	w.provide("m-0-0", "10.9.0.5", "10.9.0.1", 24)
	w.provide("m-0-1", "fd00::5", "", 64)
}

// pooledRunning makes machine m, whose VM has addresses from pools.
func (w *env) pooledRunning() {
	w.Helper()
	w.create(w.pooled()...)
	w.run("m")
	w.provideBoth()
	w.settle("m", w.isProvisioned("m"))
}

// wantClaimed fails unless the condition of the claims begins so.
func (w *env) wantClaimed(begin string) {
	w.Helper()
	if got := w.condition("m", infrav1.IPAddressesClaimedCondition); !strings.HasPrefix(got, begin) {
		w.Errorf("IPAddressesClaimed is %q, want %q", got, begin)
	}
}

func TestAddressesFromPools(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.create(w.pooled()...)
	w.run("m")
	if diff := cmp.Diff([]string{"m-0-0", "m-0-1"}, w.claims()); diff != "" {
		t.Fatalf("claims (-want +got):\n%s", diff)
	}
	claim := claimNamed("m-0-1")
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
		t.Fatal(err)
	}
	if _, moves := claim.Labels[capi.MoveHierarchyLabel]; !moves || len(claim.OwnerReferences) != 0 ||
		claim.Labels[clusterv1.ClusterNameLabel] != "c1" || claim.Annotations[machinev1.OwnerIDAnnotation] != "uid-m" ||
		claim.Spec.ClusterName != "c1" || claim.Spec.PoolRef.Name != "v6" || claim.Spec.PoolRef.Kind != "InClusterIPPool" {
		t.Errorf("claim is %+v", claim)
	}
	w.wantClaimed("False WaitingForIPAddresses: IPAddressClaims m-0-0, m-0-1 have no address yet")
	w.writes = 0
	w.provide("m-0-0", "10.9.0.5", "10.9.0.1", 24)
	w.run("m")
	for range 3 {
		w.run("m")
	}
	if made, _ := w.vms(); made != 0 || w.writes > 1 {
		t.Errorf("%d VMs and %d writes while an address is missing, want 0 and that of the condition", made, w.writes)
	}
	if got := w.condition("m", clusterv1.ReadyCondition); !strings.HasPrefix(got, "False WaitingForIPAddresses: ") {
		t.Errorf("Ready is %q", got)
	}
	w.provide("m-0-1", "fd00::5", "", 64)
	w.settle("m", w.isProvisioned("m"))
	w.wantClaimed("True IPAddressesClaimed")
	want := &sim.Static{
		Addresses:   []sim.StaticAddress{{Address: "10.9.0.5/24", Gateway: "10.9.0.1"}, {Address: "fd00::5/64"}},
		Nameservers: []string{"10.9.0.53"}, SearchDomains: []string{"example.org"},
	}
	for _, r := range w.cloud.Live() {
		if diff := cmp.Diff(want, static(r)); r.NIC != nil && diff != "" {
			t.Errorf("interface (-want +got):\n%s", diff)
		}
	}
	if got := w.get("m").Annotations[infrav1.IPAddressesAnnotation]; got != "10.9.0.5/24,fd00::5/64" {
		t.Errorf("recorded %q", got)
	}
	if told := w.told(); slices.ContainsFunc(told, func(e string) bool { return strings.HasPrefix(e, "Warning") }) {
		t.Errorf("nothing went wrong: %q", told)
	}
}

func static(r sim.Resource) *sim.Static {
	if r.NIC == nil {
		return nil
	}
	return r.NIC.Static
}

// plain is a driver that knows no static addresses.
type plain struct{ cloud.Driver }

func (d plain) Traits() cloud.Traits {
	traits := d.Driver.Traits()
	traits.StaticAddresses = false
	return traits
}

func TestAddressesThatCannotBeClaimed(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		given  func(w *env)
		claims int
		want   string
		warned int
	}{
		"NotServed": {
			"nothing else is held up where the IPAM kinds are missing", func(w *env) { w.noIPAM = true; w.restart() }, 0,
			"False IPAMNotServed: ", 1,
		},
		"DriverWithout": {
			"the remedy comes before a claim",
			func(w *env) { w.driver = func(d cloud.Driver) cloud.Driver { return plain{d} }; w.restart() },
			0, "False StaticAddressesNotSupported: create VM: spec.network: MachineClass small is of provider sim, which " +
				"does not support static addresses; remove", 1,
		},
		"NoClass": {
			"whether it supports static addresses is not known", func(w *env) { w.delete(smallClass()) }, 0,
			"False WaitingForIPAddresses: No address is claimed before", 1,
		},
		"Paused": {
			"a paused object is left alone",
			func(w *env) { change(w, cluster(), func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) }) }, 0, "", 0,
		},
		"ForeignClaim": {
			"a claim is used by one machine", func(w *env) { w.create(claimNamed("m-0-0")) }, 2,
			"False IPAddressClaimFailed: IPAddressClaim m-0-0 belongs to another object", 1,
		},
		"Refused": {
			"the API server says why", func(w *env) {
				w.creates = func(o client.Object, create func() error) error {
					if _, claim := o.(*ipamv1.IPAddressClaim); claim {
						return forbidden(o)
					}
					return create()
				}
			}, 0, "False IPAddressClaimFailed: IPAddressClaim m-0-0 could not be created: ", 1,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			tc.given(w)
			w.create(w.pooled()...)
			for range 3 {
				if _, err := w.reconcile("m"); (err != nil) != (name == "Refused") {
					t.Errorf("reconcile: %v", err)
				}
				w.pass(time.Second)
			}
			w.wantClaimed(tc.want)
			if made, _ := w.vms(); made != 0 || len(w.claims()) != tc.claims {
				t.Errorf("%d VMs, claims %v, because %s", made, w.claims(), tc.reason)
			}
			warned := slices.DeleteFunc(w.told(), func(e string) bool { return !strings.HasPrefix(e, "Warning") })
			if len(warned) != tc.warned {
				t.Errorf("told %q, want %d warnings", warned, tc.warned)
			}
		})
	}
}

func TestPoolIsExhausted(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.create(w.pooled()...)
	w.run("m")
	change(w, claimNamed("m-0-1"), func(c *ipamv1.IPAddressClaim) {
		meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{
			Type: ipamv1.IPAddressClaimReadyCondition, Status: metav1.ConditionFalse,
			Reason: ipamv1.IPAddressClaimReadyPoolExhaustedReason, Message: "no free address",
		})
	})
	w.run("m")
	w.run("m")
	w.wantClaimed("False IPAddressClaimFailed: IPAddressClaim m-0-1 gets no address from pool v6: PoolExhausted: no free")
	if told := strings.Join(w.told(), "\n"); strings.Count(told, "PoolExhausted") != 1 {
		t.Errorf("told %s, want it once", told)
	}
	change(w, claimNamed("m-0-1"), func(c *ipamv1.IPAddressClaim) { c.Status.Conditions = nil })
	w.provideBoth()
	w.settle("m", w.isProvisioned("m"))
}

func TestAddressesThatAreNone(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]ipamv1.IPAddressSpec{
		"NoAddress": {Address: "ten", Prefix: new(int32(24))},
		"NoPrefix":  {Address: "10.9.0.5"},
		"BadPrefix": {Address: "10.9.0.5", Prefix: new(int32(33))},
		"Gateway":   {Address: "10.9.0.5", Prefix: new(int32(24)), Gateway: "x"},
		"Family":    {Address: "10.9.0.5", Prefix: new(int32(24)), Gateway: "fd00::1"},
	} {
		if got, err := staticAddress(a); err == nil {
			t.Errorf("%s: got %+v, want an error", name, got)
		}
	}
}

// A machine whose claim's name is taken goes on when somebody deletes that claim.
func TestForeignClaimIsDeleted(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	foreign := claimNamed("m-0-0")
	w.create(foreign)
	w.create(w.pooled()...)
	w.run("m")
	w.delete(foreign)
	woken := ofClaim(t.Context(), foreign)
	if len(woken) != 1 || woken[0].NamespacedName != key("m") {
		t.Fatalf("its deletion wakes %v", woken)
	}
	w.run("m")
	w.provideBoth()
	w.settle("m", w.isProvisioned("m"))
}

// A claim whose answer is lost, or that the cache does not show, is not made twice.
func TestClaimWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	lostOnce := false
	w.creates = func(o client.Object, create func() error) error {
		err := create()
		if o.GetName() == "m-0-0" && !lostOnce {
			lostOnce = true
			return errors.New("connection reset")
		}
		return err
	}
	w.create(w.pooled()...)
	if _, err := w.reconcile("m"); err == nil {
		t.Fatal("want the error")
	}
	w.restart()
	w.run("m")
	w.provideBoth()
	w.settle("m", w.isProvisioned("m"))
	if diff := cmp.Diff([]string{"m-0-0", "m-0-1"}, w.claims()); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
}

func TestVMWhoseAnswerIsLostKeepsItsAddresses(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{sim.FaultLost, sim.FaultAfter, sim.FaultBefore} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			w.create(w.pooled()...)
			w.run("m")
			w.provideBoth()
			w.cloud.AddFault(sim.Fault{Op: sim.OpCreateVM, Mode: mode, Count: 1})
			_, _ = w.reconcile("m")
			w.restart()
			w.settle("m", w.isProvisioned("m"))
			if made, live := w.vms(); made != 1 || live != 1 || len(w.claims()) != 2 {
				t.Errorf("%d VMs made, %d live, claims %v", made, live, w.claims())
			}
		})
	}
}

func forbidden(o client.Object) error {
	return apierrors.NewForbidden(ipamv1.GroupVersion.WithResource("ipaddressclaims").GroupResource(), o.GetName(),
		errors.New("not allowed"))
}
