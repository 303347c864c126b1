package capi

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

func TestInfraMachineProviderID(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.machine()
	w.provision()
	id := w.mcmMachine().Spec.ProviderID
	if want := sim.ProviderID("sim-1a", w.cloud.VMs()[0].ID); id != want {
		t.Errorf("spec.providerID is %q, and the Node will carry %q: core finds Nodes by equal bytes", id, want)
	}
	if len(id) == 0 || len(id) > 512 {
		t.Errorf("spec.providerID has %d characters", len(id))
	}
}

// The id is there when core is told that the machine is provisioned: core reads
// both at once, and never again.
func TestInfraMachineProviderIDComesWithProvisionedAtTheLatest(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.cloud.Change(func(s *sim.Settings) { s.BootTime = sim.Duration(time.Minute) })
	w.machine()
	w.settle(func() bool {
		o := w.mcmMachine()
		if provisioned(o) && (o.Spec.ProviderID == "" || len(o.Status.Addresses) == 0) {
			t.Fatalf("provisioned with providerID %q and addresses %v", o.Spec.ProviderID, o.Status.Addresses)
		}
		return provisioned(o)
	})
}

// Whatever is lost on the way, one InfraMachine makes one VM.
func TestInfraMachineMakesOneVM(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{sim.FaultAfter, sim.FaultLost, sim.FaultDrop, sim.FaultThrottle} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			w.cloud.AddFault(sim.Fault{Op: sim.OpCreateVM, Mode: mode, Count: 2})
			w.machine()
			w.settle(func() bool { w.restart(); return provisioned(w.mcmMachine()) })
			if made, live := w.vms(); made != 1 || live != 1 {
				t.Errorf("%d VMs made and %d live after lost answers and restarts", made, live)
			}
		})
	}
}

func TestInfraMachineFailureDomain(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.machine()
	change(w, theMachine(), func(m *clusterv1.Machine) { m.Spec.FailureDomain = "sim-1b" })
	w.provision()
	if zone, got := w.cloud.VMs()[0].Zone, w.mcmMachine().Status.FailureDomain; zone != "sim-1b" || got != "sim-1b" {
		t.Errorf("the VM is in %s and status.failureDomain is %s; Machine.spec.failureDomain says sim-1b, and wins over "+
			"the class", zone, got)
	}
}

func TestInfraMachineAddresses(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.machine()
	w.provision()
	known := []clusterv1.MachineAddressType{
		clusterv1.MachineHostName, clusterv1.MachineInternalIP, clusterv1.MachineExternalIP, clusterv1.MachineInternalDNS,
		clusterv1.MachineExternalDNS,
	}
	all := w.mcmMachine().Status.Addresses
	if len(all) == 0 {
		t.Error("status.addresses is empty")
	}
	for _, a := range all {
		if !slices.Contains(known, a.Type) || a.Address == "" {
			t.Errorf("address %+v is of no type that Cluster API knows", a)
		}
	}
}

func TestInfraMachineInitializationCompleted(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.machine()
	if o := w.mcmMachine(); o.Status.Initialization.Provisioned != nil {
		t.Errorf("provisioned is %v before there is a VM", *o.Status.Initialization.Provisioned)
	}
	w.provision()
}

// Core keeps what it was told once; taking it back would only confuse readers.
func TestInfraMachineProvisionedNeverBecomesFalseAgain(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.running()
	change(w, theMachine(), unhealthy)
	w.cloud.Terminate(w.cloud.VMs()[0].ID, "Gone")
	w.settle(func() bool {
		if !provisioned(w.mcmMachine()) {
			t.Fatal("provisioned was taken back")
		}
		return strings.HasPrefix(w.condition(theMCMMachine(time.Time{}), clusterv1.ReadyCondition), "False")
	})
	w.delete(w.mcmMachine())
	w.run(machineController, "m")
	if o := theMCMMachine(time.Time{}); exists(w, o) && !provisioned(o) {
		t.Error("provisioned was taken back in the deletion")
	}
}

func unhealthy(m *clusterv1.Machine) { m.Status.Conditions[0].Status = metav1.ConditionFalse }

// A VM that is gone is shown, for a MachineHealthCheck to see, and never made
// again by the same object.
func TestInfraMachineVanishedVMIsShownAndNotMadeAgain(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	o := w.running()
	change(w, theMachine(), unhealthy)
	w.cloud.Terminate(w.cloud.VMs()[0].ID, "Gone")
	w.settle(func() bool {
		return w.condition(o, clusterv1.ReadyCondition) == "False "+infrav1.ReasonInstanceNotFound
	})
	for range 3 {
		w.pass(lookPeriod)
		w.run(machineController, "m")
	}
	if made, live := w.vms(); made != 1 || live != 0 {
		t.Errorf("%d VMs were made, %d are there", made, live)
	}
}

func TestInfraMachineConditions(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	o := w.running()
	if got := w.condition(o, clusterv1.ReadyCondition); got != "True "+infrav1.ReasonReady {
		t.Errorf("Ready is %q; core mirrors it into the Machine's InfrastructureReady", got)
	}
	checkConditions(t, o.Status.Conditions)
	w.delete(o)
	w.cloud.AddFault(sim.Fault{Op: sim.OpDeleteVM, Mode: sim.FaultThrottle})
	w.run(machineController, "m")
	if got := w.condition(o, clusterv1.DeletingCondition); !strings.HasPrefix(got, "True ") {
		t.Errorf("Deleting is %q: Ready and Deleting tell of the deletion, too", got)
	}
	if got := w.condition(o, clusterv1.ReadyCondition); !strings.HasPrefix(got, "False ") {
		t.Errorf("Ready is %q in a deletion", got)
	}
	checkConditions(t, w.mcmMachine().Status.Conditions)
}

// checkConditions: reason, time and generation are always there.
func checkConditions(t *testing.T, all []metav1.Condition) {
	t.Helper()
	if !slices.ContainsFunc(all, func(c metav1.Condition) bool { return c.Type == clusterv1.PausedCondition }) {
		t.Error("the condition Paused is always there")
	}
	for _, c := range all {
		if c.Reason == "" || c.LastTransitionTime.IsZero() || c.ObservedGeneration != generation {
			t.Errorf("condition %s lacks reason, time or generation: %+v", c.Type, c)
		}
	}
}

// A condition that flips makes rollouts stall, and MachineHealthChecks replace
// machines that run well.
func TestInfraMachineReadyDoesNotFollowOutagesOfTheCloudsAPI(t *testing.T) {
	t.Parallel()
	outages := map[string]func(w *env){
		"RateLimit":          func(w *env) { w.cloud.AddFault(sim.Fault{Op: "*", Mode: sim.FaultThrottle}) },
		"NoAnswer":           func(w *env) { w.cloud.AddFault(sim.Fault{Op: "*", Mode: sim.FaultDrop}) },
		"ExpiredCredentials": func(w *env) { w.cloud.Change(func(s *sim.Settings) { s.Accounts[0].SecretKeys = nil }) },
		"SecretDeleted":      func(w *env) { w.delete(theCredentials()) },
	}
	for name, begin := range outages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			o := w.running()
			begin(w)
			for range 5 {
				w.pass(lookPeriod)
				w.run(machineController, "m")
				if got := w.condition(o, clusterv1.ReadyCondition); got != "True "+infrav1.ReasonReady {
					t.Fatalf("Ready is %q", got)
				}
			}
			said := w.condition(o, infrav1.CloudReachableCondition) + w.condition(o, infrav1.CredentialsAvailableCondition)
			if !strings.Contains(said, "False ") {
				t.Errorf("nobody is told: %s", said)
			}
			w.writes = nil
			w.pass(lookPeriod)
			w.run(machineController, "m")
			w.unchanged("messages are stable: an outage that lasts is written once")
		})
	}
}

// There is no terminal state: what is wrong is a condition, and ends when it is
// put right.
func TestInfraMachineTerminalFailures(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	o := w.machine(func(o *infrav1.MCMMachine) { o.Spec.MachineClassRef.Name = "absent" })
	w.run(machineController, "m")
	if got := w.condition(o, clusterv1.ReadyCondition); got != "False "+machinev1.ReasonClassNotFound {
		t.Errorf("Ready is %q", got)
	}
	if told := w.told(); !strings.Contains(told, "machineClassRef.name") {
		t.Errorf("the Event names the field: %s", told)
	}
	w.create(theClass("absent"))
	w.run(classController, "absent")
	w.provision()
}

// Core changes the spec in an in-place update; that is not ours to act on.
func TestInfraMachineSupportForInPlaceChanges(t *testing.T) {
	t.Parallel()
	w := newEnv(t, theClass("large"))
	before := w.running()
	change(w, w.mcmMachine(), func(o *infrav1.MCMMachine) { o.Spec.MachineClassRef.Name = "large" })
	for range 3 {
		w.run(machineController, "m")
		w.pass(lookPeriod)
	}
	if made, live := w.vms(); made != 1 || live != 1 || w.mcmMachine().Spec.ProviderID != before.Spec.ProviderID {
		t.Errorf("%d VMs made, %d live, providerID %s", made, live, w.mcmMachine().Spec.ProviderID)
	}
}

func TestInfraMachinePausing(t *testing.T) {
	t.Parallel()
	for name, pause := range pauses() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			o := w.machine()
			pause(w, w.mcmMachine())
			w.run(machineController, "m")
			o = read(w, o)
			if len(o.Finalizers) != 0 || len(o.Status.Conditions) != 1 ||
				!strings.HasPrefix(w.condition(o, clusterv1.PausedCondition), "True") {
				t.Errorf("a paused machine is told that it is paused, and nothing else: %+v", o)
			}
			if made, _ := w.vms(); made != 0 {
				t.Error("a VM was made for a paused machine")
			}
		})
	}
}

// pauses are the two ways to pause.
func pauses() map[string]func(*env, clusterObject) {
	return map[string]func(*env, clusterObject){
		"Cluster": func(w *env, _ clusterObject) {
			change(w, theCluster(), func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })
		},
		"Annotation": func(w *env, o clusterObject) {
			change(w, o, func(o clusterObject) { o.SetAnnotations(map[string]string{clusterv1.PausedAnnotation: ""}) })
		},
	}
}

// Pausing comes before deletion: clusterctl deletes at the source of a move.
func TestInfraMachinePausingStopsDeletion(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.running()
	change(w, theCluster(), func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })
	change(w, w.mcmMachine(), func(o *infrav1.MCMMachine) { o.Annotations[clusterctlv1.DeleteForMoveAnnotation] = "" })
	w.delete(w.mcmMachine())
	for range 3 {
		w.run(machineController, "m")
		w.pass(lookPeriod)
	}
	if _, live := w.vms(); live != 1 {
		t.Error("the VM of a machine that is being moved was deleted")
	}
}

// The order of things: owner, finalizer, infrastructure, boot data, VM.
func TestInfraMachineWorkflow(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		hinder func(w *env)
		want   string
		claims bool
	}{
		"NoMachine": {
			"A MachineSet may be the only owner for a moment.",
			func(w *env) {
				change(w, w.mcmMachine(), func(o *infrav1.MCMMachine) { o.OwnerReferences[0].Kind = "MachineSet" })
			}, infrav1.ReasonWaitingForMachine, false,
		},
		"NoInfrastructure": {
			"Nothing is made before the InfraCluster is ready.",
			func(w *env) {
				change(w, theCluster(), func(c *clusterv1.Cluster) { c.Status.Initialization.InfrastructureProvisioned = nil })
			}, infrav1.ReasonWaitingForInfra, true,
		},
		"NoBootData": {
			"A VM without boot data never joins.",
			func(w *env) {
				change(w, theMachine(), func(m *clusterv1.Machine) { m.Spec.Bootstrap.DataSecretName = nil })
			}, infrav1.ReasonWaitingForBootstrap, true,
		},
		"NoValue": {
			"The entry's name is the contract's.",
			func(w *env) {
				change(w, bootData(), func(s *corev1.Secret) { s.Data = map[string][]byte{"userData": []byte("x")} })
			},
			infrav1.ReasonInvalidBootstrapData, true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			o := w.machine()
			tc.hinder(w)
			w.run(machineController, "m")
			if got := w.condition(o, clusterv1.ReadyCondition); got != "False "+tc.want {
				t.Errorf("Ready is %q: %s", got, tc.reason)
			}
			if made, _ := w.vms(); made != 0 || w.cloud.Calls(sim.OpCreateVM) != 0 {
				t.Error("a VM was asked for: " + tc.reason)
			}
			if has := slices.Contains(w.mcmMachine().Finalizers, machinev1.MCMMachineFinalizer); has != tc.claims {
				t.Errorf("finalizer %v, want %v: it is there before anything is made, and not before there is an owner", has,
					tc.claims)
			}
		})
	}
}
