package mcmmachine

import (
	"strings"
	"testing"
	"time"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/vm"
)

// balance gives the class these load balancers, as JSON.
func (w *env) balance(list string) {
	w.Helper()
	change(w, smallClass(), func(c *machinev1.MachineClass) {
		c.ProviderSpec.Raw = []byte(strings.Replace(string(smallClass().ProviderSpec.Raw), "{",
			`{"loadBalancers":[`+list+`],`, 1))
	})
}

// memberships are where the only VM that is there is a member, with the port.
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

const (
	apiServer = `{"id":"apiserver","port":6443}`
	ingress   = `{"id":"ingress","port":443}`
)

// TestLoadBalancers: a machine of a control plane joins before its Node can, follows its class, is
// silent then, and leaves before its VM is deleted.
func TestLoadBalancers(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.cloud.Change(func(s *sim.Settings) { s.LoadBalancers[0].DrainTime = sim.Duration(30 * time.Second) })
	w.balance(apiServer)
	w.create(w.newMachine("m")...)
	w.settle("m", func() bool { return w.memberships() == "apiserver" })
	if got := w.condition("m", infrav1.LoadBalancerRegisteredCondition); !strings.HasPrefix(got, "True Registered") {
		t.Errorf("the condition is %q before the Node has joined", got)
	}
	if !w.isProvisioned("m")() {
		t.Error("the infrastructure is not provisioned")
	}
	calls := w.cloud.Calls(sim.OpRegisterVM)
	w.restart()
	// What is lost by clusterctl move: the status.
	change(w, w.get("m"), func(m *infrav1.MCMMachine) { m.Status = infrav1.MCMMachineStatus{} })
	w.settle("m", w.isProvisioned("m"))
	w.pass(w.run("m"))
	w.run("m")
	if again := w.cloud.Calls(sim.OpRegisterVM); again != calls {
		t.Errorf("%d calls for a VM that is registered", again-calls)
	}
	w.balance(ingress)
	if woken := w.controller.ofClass(t.Context(), smallClass()); len(woken) != 1 {
		t.Errorf("the class wakes %v, want its machine", woken)
	}
	w.settle("m", func() bool { return w.memberships() == "ingress" })
	w.balance(apiServer)
	w.settle("m", func() bool { return w.memberships() == "apiserver" })
	asked := w.clock.Now()
	w.delete(w.get("m"))
	w.run("m")
	if _, live := w.vms(); live != 1 || !strings.Contains(w.condition("m", "Deleting"), machinev1.ReasonDeregistering) {
		t.Errorf("%d VMs, condition %q, want that the deletion waits for open connections", live,
			w.condition("m", "Deleting"))
	}
	w.settle("m", w.gone())
	for _, r := range w.cloud.Ledger() {
		if r.VM != nil && (r.VM.DeletedRegistered || r.Deleting.Sub(asked) < 30*time.Second) {
			t.Errorf("the VM was deleted while it had connections: %+v", r.VM)
		}
	}
}

// TestLoadBalancerFailures: a load balancer that does not exist is shown and changes nothing else;
// one that cannot be left holds the deletion up for its time, and no longer.
func TestLoadBalancerFailures(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.balance(`{"id":"none","port":1}`)
	w.running("m")
	if got := w.condition("m", infrav1.LoadBalancerRegisteredCondition); !strings.HasPrefix(got, "False InvalidSpec") ||
		!strings.HasPrefix(w.condition("m", "Ready"), "True") {
		t.Errorf("the condition is %q, Ready %q", got, w.condition("m", "Ready"))
	}
	w.balance(apiServer)
	w.settle("m", func() bool { return w.memberships() == "apiserver" })
	w.cloud.AddFault(sim.Fault{Op: sim.OpDeregisterVM, Mode: sim.FaultBefore, Code: sim.CodeAccessDenied})
	w.told()
	began := w.clock.Now()
	w.delete(w.get("m"))
	w.run("m")
	if got := w.condition("m", "Deleting"); !strings.Contains(got, machinev1.ReasonCredentialsRefused) {
		t.Errorf("the deletion waits for %q, want the load balancer's refusal", got)
	}
	w.settle("m", w.gone())
	if took := w.clock.Now().Sub(began); took < vm.DeregistrationTimeout || took > vm.DeregistrationTimeout+time.Minute {
		t.Errorf("the deletion took %v, want %v and a little", took, vm.DeregistrationTimeout)
	}
	if told := strings.Join(w.told(), "\n"); !strings.Contains(told, vm.EventStillRegistered) {
		t.Errorf("no Event says where the VM may still be registered:\n%s", told)
	}
}

// TestReleaseLeavesLoadBalancers: the annotation that releases a machine ends the wait.
func TestReleaseLeavesLoadBalancers(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.balance(apiServer)
	w.running("m")
	w.cloud.AddFault(sim.Fault{Op: sim.OpDeregisterVM, Mode: sim.FaultBefore, Code: sim.CodeAccessDenied})
	change(w, w.get("m"), func(m *infrav1.MCMMachine) {
		machinev1.SetAnnotation(m, machinev1.ReleaseAnnotation, "true")
	})
	began := w.clock.Now()
	w.delete(w.get("m"))
	w.settle("m", w.gone())
	if took := w.clock.Now().Sub(began); took > time.Minute {
		t.Errorf("the deletion took %v although it does not wait for load balancers", took)
	}
	if _, live := w.vms(); live != 0 {
		t.Errorf("%d VMs are left", live)
	}
}
