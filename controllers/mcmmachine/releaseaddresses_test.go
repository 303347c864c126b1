package mcmmachine

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
)

// While the VM may exist, its addresses are not replaced by others.
func TestAddressesAreLost(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		lose func(w *env)
		want string
	}{
		"ClaimDeleted": {func(w *env) { w.delete(claimNamed("m-0-0")) }, "IPAddressClaim m-0-0 does not exist any more"},
		"ClaimDeleting": {func(w *env) {
			change(w, claimNamed("m-0-0"), func(c *ipamv1.IPAddressClaim) { c.Finalizers = []string{"x/y"} })
			w.delete(claimNamed("m-0-0"))
		}, "IPAddressClaim m-0-0 is being deleted"},
		"AddressDeleted": {func(w *env) {
			w.delete(&ipamv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m-0-1"}})
		}, "IPAddress m-0-1 does not exist any more"},
		"AddressChanged": {func(w *env) {
			address := &ipamv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m-0-0"}}
			change(w, address, func(a *ipamv1.IPAddress) { a.Spec.Address = "10.9.0.6" })
		}, "the IPAddressClaims have 10.9.0.6/24,fd00::5/64 now"},
		"OwnerChanged": {func(w *env) {
			change(w, claimNamed("m-0-0"), func(c *ipamv1.IPAddressClaim) { c.Annotations = nil })
		}, "IPAddressClaim m-0-0 belongs to another object"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			w.pooledRunning()
			before := w.claims()
			tc.lose(w)
			w.told()
			for range 3 {
				w.run("m")
				w.pass(time.Minute)
			}
			w.wantClaimed("False IPAddressLost: The VM was created with 10.9.0.5/24,fd00::5/64, and " + tc.want)
			if got := w.condition("m", clusterv1.ReadyCondition); !strings.HasPrefix(got, "True") {
				t.Errorf("Ready is %q: the VM runs", got)
			}
			if made, live := w.vms(); made != 1 || live != 1 || len(w.claims()) > len(before) {
				t.Errorf("%d VMs made, %d live, claims %v, nothing may be made again", made, live, w.claims())
			}
			if told := strings.Join(w.told(), "\n"); strings.Count(told, "IPAddressLost") != 1 {
				t.Errorf("told %s, want it once", told)
			}
		})
	}
}

// A VM that was asked for and is not known yet is not asked for with other addresses.
func TestAddressLostDuringCreation(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.create(w.pooled()...)
	w.run("m")
	w.provideBoth()
	w.cloud.AddFault(sim.Fault{Op: sim.OpCreateVM, Mode: sim.FaultLost, Count: 1})
	_, _ = w.reconcile("m")
	w.delete(claimNamed("m-0-0"))
	for range 3 {
		w.run("m")
		w.pass(time.Minute)
	}
	w.wantClaimed("False IPAddressLost")
	if got := w.condition("m", clusterv1.ReadyCondition); !strings.HasPrefix(got, "False IPAddressLost") {
		t.Errorf("Ready is %q", got)
	}
	w.delete(w.get("m"))
	w.settle("m", w.gone())
	if _, live := w.vms(); live != 0 || len(w.claims()) != 0 {
		t.Errorf("%d VMs and claims %v are left", live, w.claims())
	}
}

// clusterctl moves objects without their status, and under new UIDs.
func TestMovedMachineKeepsItsAddresses(t *testing.T) {
	t.Parallel()
	source := newEnv(t)
	source.pooledRunning()
	w := newEnv(t)
	w.cloud, w.clock, w.fence, w.workload = source.cloud, source.clock, source.fence, source.workload
	w.restart()
	moved := source.get("m")
	moved.ResourceVersion, moved.UID, moved.Status = "", "moved", infrav1.MCMMachineStatus{}
	w.create(moved, machine("m"), bootstrapSecret("m"))
	for _, name := range source.claims() {
		claim := claimNamed(name)
		if err := source.client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
			t.Fatal(err)
		}
		claim.ResourceVersion, claim.UID, claim.Status = "", "", ipamv1.IPAddressClaimStatus{}
		w.create(claim)
	}
	w.settle("m", w.isProvisioned("m"))
	w.wantClaimed("False WaitingForIPAddresses: IPAddressClaims m-0-0, m-0-1 name no IPAddress; the VM keeps 10.9.0.5/24")
	w.provideBoth()
	w.run("m")
	w.wantClaimed("True IPAddressesClaimed")
	if made, live := w.vms(); made != 1 || live != 1 || len(w.claims()) != 2 {
		t.Errorf("%d VMs made, %d live, claims %v", made, live, w.claims())
	}
	w.delete(w.get("m"))
	w.settle("m", w.gone())
	if len(w.claims()) != 0 {
		t.Errorf("claims %v are left", w.claims())
	}
}

func TestAdoptedVMClaimsNothing(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	vm := w.foreign("m")
	objects := w.pooled()
	objects[0].(*infrav1.MCMMachine).Spec.ProviderID = sim.ProviderID(vm.Zone, vm.ID)
	w.create(objects...)
	w.settle("m", w.isProvisioned("m"))
	if len(w.claims()) != 0 {
		t.Errorf("claims %v for a VM that has its addresses", w.claims())
	}
}

// An address goes to others once its VM has gone, not before.
func TestAddressesAreReleasedAfterTheVM(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.cloud.Change(func(s *sim.Settings) { s.DeleteTime = sim.Duration(time.Minute) })
	w.pooledRunning()
	w.delete(w.get("m"))
	for range 20 {
		_, live := w.vms()
		if _, err := w.reconcile("m"); err != nil {
			t.Fatal(err)
		}
		if _, now := w.vms(); live+now > 0 && len(w.claims()) != 2 {
			t.Fatalf("claims %v while the VM is there", w.claims())
		}
		w.pass(10 * time.Second)
	}
	if _, live := w.vms(); live != 0 || w.get("m") != nil || len(w.claims()) != 0 {
		t.Errorf("%d VMs, object %v, claims %v", live, w.get("m"), w.claims())
	}
}

func TestAddressesOfAMachineWithoutVM(t *testing.T) {
	t.Parallel()
	for name, annotations := range map[string]map[string]string{
		"Plain": nil, "Retain": {machinev1.RetainVMAnnotation: "true"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			objects := w.pooled()
			objects[0].SetAnnotations(annotations)
			w.create(objects...)
			w.run("m")
			foreign := claimNamed("m-0-2")
			w.create(foreign)
			w.delete(w.get("m"))
			w.settle("m", w.gone())
			if diff := cmp.Diff([]string{"m-0-2"}, w.claims()); diff != "" {
				t.Errorf("claims (-want +got):\n%s", diff)
			}
		})
	}
}

// No garbage collector deletes claims, so that none is overlooked.
func TestClaimThatTheCacheDoesNotShowIsReleased(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.create(w.pooled()...)
	w.run("m")
	w.stale = true
	w.restart()
	w.delete(w.get("m"))
	w.settle("m", w.gone())
	if len(w.claims()) != 0 {
		t.Errorf("claims %v are left", w.claims())
	}
}

func TestClaimThatCannotBeDeleted(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.create(w.pooled()...)
	w.run("m")
	w.fail = func(o client.Object) error {
		if _, claim := o.(*ipamv1.IPAddressClaim); claim {
			return forbidden(o)
		}
		return nil
	}
	w.delete(w.get("m"))
	for range 2 {
		if _, err := w.reconcile("m"); err == nil {
			t.Error("want the error, so that it is tried again")
		}
	}
	got := w.condition("m", clusterv1.DeletingCondition)
	if !strings.HasPrefix(got, "True IPAddressClaimFailed: IPAddressClaim m-0-0 could not be deleted: ") {
		t.Errorf("Deleting is %q", got)
	}
	w.fail = nil
	w.settle("m", w.gone())
	if len(w.claims()) != 0 {
		t.Errorf("claims %v are left", w.claims())
	}
}

// The claims would be forgotten with the machine, those of a VM that stays too.
func TestClaimsThatAreNotServed(t *testing.T) {
	t.Parallel()
	for name, retain := range map[string]string{"Deleted": "false", "Retained": "true"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			w.pooledRunning()
			change(w, w.get("m"), func(o *infrav1.MCMMachine) { o.Annotations[machinev1.RetainVMAnnotation] = retain })
			w.noIPAM = true
			w.restart()
			w.delete(w.get("m"))
			for range 5 {
				w.run("m")
				w.pass(time.Minute)
			}
			got := w.condition("m", clusterv1.DeletingCondition)
			if !strings.HasPrefix(got, "True IPAMNotServed: The IPAddressClaims of the VM cannot be released") {
				t.Errorf("Deleting is %q", got)
			}
			w.noIPAM = false
			w.restart()
			w.settle("m", w.gone())
		})
	}
}

// A former leader's request for a claim may take effect after the machine was deleted.
func TestReleaseWaitsForRequestedClaims(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.create(w.pooled()...)
	w.run("m")
	w.delete(claimNamed("m-0-0"))
	w.fence = fence.Always(w.clock)
	w.restart()
	late := claimNamed("m-0-0")
	late.Annotations = w.get("m").Annotations
	w.delete(w.get("m"))
	if wait := w.run("m"); wait != fence.Reach {
		t.Errorf("tried again in %s, want %s", wait, fence.Reach)
	}
	if got := w.condition("m", clusterv1.DeletingCondition); !strings.Contains(got, "may still be created") {
		t.Errorf("Deleting is %q", got)
	}
	w.create(late)
	w.pass(fence.Reach)
	w.run("m")
	if w.get("m") != nil || len(w.claims()) != 0 {
		t.Errorf("machine %v, claims %v", w.get("m"), w.claims())
	}
}

// The VM stays with its address, so the claim does, and no garbage collector takes it.
func TestRetainedVMKeepsItsAddresses(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.pooledRunning()
	change(w, w.get("m"), func(o *infrav1.MCMMachine) { o.Annotations[machinev1.RetainVMAnnotation] = "true" })
	w.told()
	vm := w.get("m").Spec.ProviderID
	w.delete(w.get("m"))
	w.settle("m", w.gone())
	for _, name := range []string{"m-0-0", "m-0-1"} {
		claim := claimNamed(name)
		if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil ||
			len(claim.OwnerReferences) != 0 || claim.Annotations[infrav1.RetainedForVMAnnotation] != vm {
			t.Errorf("claim %s: %v, owners %v, annotations %v", name, err, claim.OwnerReferences, claim.Annotations)
		}
	}
	if told := strings.Join(w.told(), "\n"); strings.Count(told, "RetainedIPAddressClaim") != 2 {
		t.Errorf("told %s", told)
	}
}

// The claims of a machine that is no longer wanted would keep addresses from others.
func TestNothingIsClaimedForWhatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	c := cluster()
	c.Finalizers = []string{"x/y"}
	w := newEnv(t, c)
	w.create(w.pooled()...)
	w.delete(cluster())
	w.run("m")
	if len(w.claims()) != 0 {
		t.Errorf("claims %v", w.claims())
	}
}
