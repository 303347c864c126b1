package machine

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

// balance gives the class these load balancers, as JSON.
func (w *env) balance(list string) *machinev1.MachineClass {
	w.Helper()
	c := smallClass()
	if err := w.client.Get(w.Context(), client.ObjectKeyFromObject(c), c); err != nil {
		w.Fatal(err)
	}
	c.ProviderSpec.Raw = []byte(strings.Replace(string(smallClass().ProviderSpec.Raw), "{",
		`{"loadBalancers":[`+list+`],`, 1))
	if err := w.client.Update(w.Context(), c); err != nil {
		w.Fatal(err)
	}
	return c
}

// memberships are where the only VM that is there is a member.
func (w *env) memberships() string {
	w.Helper()
	var found []string
	for _, r := range w.cloud.VMs() {
		for _, m := range r.VM.Memberships {
			found = append(found, m.LoadBalancer)
		}
	}
	return strings.Join(found, " ")
}

// TestLoadBalancers: a machine joins before its node, follows its class without a rollout, is
// silent then, and leaves before its VM is deleted.
func TestLoadBalancers(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.cloud.Change(func(s *sim.Settings) { s.LoadBalancers[0].DrainTime = sim.Duration(30 * time.Second) })
	w.balance(`{"id":"apiserver","port":6443}`)
	w.create(newMachine("m", w.clock.Now()))
	w.settle("m", func() bool { return w.memberships() == "apiserver" })
	if _, err := w.reconcile("m"); err != nil || w.phase("m") != machinev1.MachinePending {
		t.Errorf("phase %s, %v, want Pending: its node has not joined", w.phase("m"), err)
	}
	w.join("m", corev1.ConditionTrue)
	w.settle("m", func() bool { return w.phase("m") == machinev1.MachineRunning })
	if got := w.condition("m", machinev1.ConditionLoadBalancerRegistered); !strings.HasPrefix(got, "Registered") {
		t.Errorf("the condition is %q", got)
	}
	calls := w.cloud.Calls(sim.OpRegisterVM)
	w.restart()
	for range 3 {
		if _, err := w.reconcile("m"); err != nil {
			t.Fatal(err)
		}
	}
	if again := w.cloud.Calls(sim.OpRegisterVM); again != calls {
		t.Errorf("%d calls for a VM that is registered", again-calls)
	}
	class := w.balance("")
	if woken := w.controller.machinesOfClass(t.Context(), class); len(woken) != 1 {
		t.Errorf("the class wakes %v, want the machine that has to leave", woken)
	}
	w.settle("m", func() bool { return w.memberships() == "" })
	if _, noted := w.machine("m").Annotations[machinev1.LoadBalancersAnnotation]; noted ||
		w.condition("m", machinev1.ConditionLoadBalancerRegistered) != "" {
		t.Error("a machine without load balancers has a record or a condition of them")
	}
	class = w.balance(`{"id":"apiserver","port":6443}`)
	if woken := w.controller.machinesOfClass(t.Context(), class); len(woken) != 1 {
		t.Errorf("the class wakes %v, want the machine that has to join", woken)
	}
	w.settle("m", func() bool { return w.memberships() == "apiserver" })
	asked := w.clock.Now()
	w.delete(w.machine("m"))
	w.settle("m", func() bool {
		return strings.HasPrefix(w.condition("m", machinev1.ConditionDeleted), machinev1.ReasonDeregistering)
	})
	w.settle("m", func() bool { return w.machine("m") == nil })
	for _, r := range w.cloud.Ledger() {
		if r.VM != nil && (r.VM.DeletedRegistered || r.Deleting.Sub(asked) < 30*time.Second) {
			t.Errorf("the VM was deleted while it had connections: %+v", r.VM)
		}
	}
}

// TestForcedDeletionLeavesLoadBalancers: a deletion by force deregisters the VM and does not wait.
func TestForcedDeletionLeavesLoadBalancers(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.cloud.Change(func(s *sim.Settings) { s.LoadBalancers[0].DrainTime = sim.Duration(5 * time.Minute) })
	w.balance(`{"id":"apiserver","port":6443}`)
	w.running("m")
	w.settle("m", func() bool { return w.memberships() == "apiserver" })
	m := w.machine("m")
	machinev1.SetLabel(m, machinev1.ForceDeletionLabel, "True")
	if err := w.client.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	began := w.clock.Now()
	w.delete(m)
	w.settle("m", func() bool { return w.machine("m") == nil })
	if took := w.clock.Now().Sub(began); took > time.Minute {
		t.Errorf("the deletion took %v", took)
	}
	for _, r := range w.cloud.Ledger() {
		if r.VM != nil && r.VM.DeletedRegistered {
			t.Error("the VM was deleted while it got new requests")
		}
	}
}
