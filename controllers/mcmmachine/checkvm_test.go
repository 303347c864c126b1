package mcmmachine

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

var demo = sim.Login{Account: "demo", Secret: "demo-secret"}

// foreign makes a VM as MCM or a person would: with the cluster's tags and no
// owner id.
func (w *env) foreign(name string) sim.Resource {
	w.Helper()
	r, err := w.cloud.CreateVM(demo, "sim-1", sim.VMInput{
		ClientToken: name, Zone: "sim-1c", InstanceType: "small", Image: "linux-1",
		Tags: map[string]string{"kubernetes.io/cluster/test": "1", "kubernetes.io/role/node": "1", sim.NameTag: name},
	})
	if err != nil {
		w.Fatal(err)
	}
	return r
}

func TestPresetProviderIDAdopts(t *testing.T) {
	t.Parallel()
	for form, place := range map[string]string{"Node": "sim-1c", "MCM": "sim-1"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			vm := w.foreign("m")
			objects := w.newMachine("m")
			objects[0].(*infrav1.MCMMachine).Spec.ProviderID = sim.ProviderID(place, vm.ID)
			objects[1].(*clusterv1.Machine).Spec.Bootstrap.DataSecretName = nil
			w.create(objects...)
			creates := w.cloud.Calls(sim.OpCreateVM)
			w.settle("m", w.isProvisioned("m"))
			m := w.get("m")
			if m.Spec.ProviderID != sim.ProviderID("sim-1c", vm.ID) || len(m.Status.Addresses) == 0 ||
				m.Status.FailureDomain != "sim-1c" {
				t.Errorf("adopted as %+v", m)
			}
			if w.cloud.Calls(sim.OpCreateVM) != creates {
				t.Error("adoption asked for a VM")
			}
			w.delete(m)
			w.settle("m", w.gone())
			if _, live := w.vms(); live != 0 {
				t.Error("the VM goes with what adopted it")
			}
		})
	}
}

func TestPresetProviderIDOfNoVM(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ id, want string }{
		"NotThere": {sim.ProviderID("sim-1a", "vm-00000000000000000"), "False InstanceNotFound"},
		"Foreign": {
			"gce://project/zone/name", `spec.providerID: "gce://project/zone/name" is not a providerID of provider sim`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			objects := w.newMachine("m")
			objects[0].(*infrav1.MCMMachine).Spec.ProviderID = tc.id
			w.create(objects...)
			w.settle("m", func() bool { return strings.Contains(w.condition("m", clusterv1.ReadyCondition), tc.want) })
			if made, _ := w.vms(); made != 0 || provisioned(w.get("m")) {
				t.Errorf("%d VMs were made", made)
			}
			w.restart()
			w.run("m")
			if got := w.condition("m", clusterv1.ReadyCondition); !strings.Contains(got, tc.want) {
				t.Errorf("Ready is %q after a restart: the word must not change because a process looks for the first time", got)
			}
		})
	}
}

func TestVanishedVMIsShownAndNotMadeAgain(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.running("m")
	for _, r := range w.cloud.Live() {
		if r.Kind == "vm" {
			w.cloud.Terminate(r.ID, "Gone")
		}
	}
	w.nodeHealthy("m", metav1.ConditionFalse)
	began := w.clock.Now()
	w.pass(time.Minute)
	w.run("m")
	if got := w.condition("m", clusterv1.ReadyCondition); got != "True Ready: " {
		t.Errorf("Ready is %q after one look", got)
	}
	w.settle("m", func() bool {
		return strings.HasPrefix(w.condition("m", clusterv1.ReadyCondition), "False InstanceNotFound")
	})
	if took := w.clock.Now().Sub(began); took > 5*time.Minute {
		t.Errorf("it took %s", took)
	}
	for range 3 {
		w.pass(10 * time.Minute)
		w.run("m")
	}
	w.restart()
	w.run("m")
	if made, live := w.vms(); made != 1 || live != 0 || !provisioned(w.get("m")) {
		t.Errorf("%d VMs made, provisioned %v: want nothing made, and no way back", made, provisioned(w.get("m")))
	}
	if got := w.condition("m", clusterv1.ReadyCondition); !strings.HasPrefix(got, "False InstanceNotFound") {
		t.Errorf("Ready is %q after a restart", got)
	}
	w.delete(w.get("m"))
	w.settle("m", w.gone())
}

// TestAnEmptyListOfTheCloud: the credentials may not see the VM any more, and the cloud
// answers with an empty list instead of an error. The Node is healthy.
func TestAnEmptyListOfTheCloud(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.running("m")
	w.nodeHealthy("m", metav1.ConditionTrue)
	for _, r := range w.cloud.Live() {
		if r.Kind == "vm" {
			w.cloud.Terminate(r.ID, "NotShown")
		}
	}
	for range 5 {
		w.pass(10 * time.Minute)
		w.run("m")
	}
	if made, _ := w.vms(); made != 1 || !strings.HasPrefix(w.condition("m", clusterv1.ReadyCondition), "True") {
		t.Errorf("%d VMs made, Ready is %q: a healthy Node has a VM", made, w.condition("m", clusterv1.ReadyCondition))
	}
	got := w.condition("m", infrav1.VMProvisionedCondition)
	if !strings.Contains(got, "check what the credentials may list") {
		t.Errorf("VMProvisioned is %q, and does not show what to do", got)
	}
	w.nodeHealthy("m", metav1.ConditionFalse)
	w.settle("m", func() bool {
		return strings.HasPrefix(w.condition("m", clusterv1.ReadyCondition), "False InstanceNotFound")
	})
}

func TestStoppedVMIsShown(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.running("m")
	for _, r := range w.cloud.Live() {
		if r.Kind == "vm" {
			w.cloud.Stop(r.ID)
		}
	}
	w.pass(10 * time.Minute)
	w.run("m")
	if got := w.condition("m", clusterv1.ReadyCondition); !strings.HasPrefix(got, "False VMStopped") {
		t.Errorf("Ready is %q", got)
	}
	for _, r := range w.cloud.Live() {
		if r.Kind == "vm" {
			w.cloud.Start(r.ID)
		}
	}
	w.pass(10 * time.Minute)
	w.run("m")
	if got := w.condition("m", clusterv1.ReadyCondition); got != "True Ready: " {
		t.Errorf("Ready is %q", got)
	}
}

// After clusterctl move only spec and metadata are there, under another UID.
func TestStatusIsRebuiltAfterAMove(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	before := w.running("m")
	moved := before.DeepCopy()
	moved.ResourceVersion, moved.UID, moved.Status = "", "new-uid", infrav1.MCMMachineStatus{}
	change(w, w.get("m"), func(o *infrav1.MCMMachine) { o.Finalizers = nil })
	w.delete(w.get("m"))
	w.create(moved)
	w.restart()
	w.run("m")
	after := w.get("m")
	if !provisioned(after) || after.Spec.ProviderID != before.Spec.ProviderID ||
		len(after.Status.Addresses) != len(before.Status.Addresses) {
		t.Errorf("status is %+v after a move", after.Status)
	}
	if after.Annotations[machinev1.OwnerIDAnnotation] != "uid-m" {
		t.Error("the durable id stays when the UID does not")
	}
	if made, _ := w.vms(); made != 1 {
		t.Errorf("%d VMs made", made)
	}
}

// Somebody replaced the object by its manifest: the Machine still knows the VM.
func TestLostProviderIDComesFromTheMachine(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	id := w.running("m").Spec.ProviderID
	change(w, machine("m"), func(m *clusterv1.Machine) { m.Spec.ProviderID = id })
	change(w, w.get("m"), func(o *infrav1.MCMMachine) {
		o.Spec.ProviderID, o.Annotations = "", map[string]string{machinev1.OwnerIDAnnotation: "uid-m"}
	})
	w.run("m")
	if got := w.get("m").Spec.ProviderID; got != id {
		t.Errorf("providerID %q, want %q", got, id)
	}
	change(w, machine("m"), func(m *clusterv1.Machine) { m.Spec.ProviderID = "" })
	change(w, w.get("m"), func(o *infrav1.MCMMachine) { o.Spec.ProviderID = "" })
	w.run("m")
	if got := w.get("m").Spec.ProviderID; got != id {
		t.Errorf("providerID %q, want %q: the VM is found by its tags", got, id)
	}
	if made, _ := w.vms(); made != 1 {
		t.Errorf("%d VMs made", made)
	}
}

func TestAddressesComeBeforeProvisioned(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.cloud.Change(func(s *sim.Settings) { s.BootTime = sim.Duration(time.Minute) })
	w.create(w.newMachine("m")...)
	w.settle("m", w.isProvisioned("m"))
	if len(w.get("m").Status.Addresses) == 0 {
		t.Error("provisioned without an address")
	}
}
