package capi

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

func TestInfraMachineProviderID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.machine("m")
	w.provision("m")
	id := w.mcmMachine("m").Spec.ProviderID
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
	w := newWorld(t)
	w.cloud.Change(func(s *sim.Settings) { s.BootTime = sim.Duration(time.Minute) })
	w.machine("m")
	w.settle(machineController, "m", func() bool {
		o := w.mcmMachine("m")
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
			w := newWorld(t)
			w.cloud.AddFault(sim.Fault{Op: sim.OpCreateVM, Mode: mode, Count: 2})
			w.machine("m")
			w.settle(machineController, "m", func() bool { w.restart(); return provisioned(w.mcmMachine("m")) })
			if made, live := w.vms(); made != 1 || live != 1 {
				t.Errorf("%d VMs made and %d live after lost answers and restarts", made, live)
			}
		})
	}
}

func TestInfraMachineFailureDomain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.machine("m")
	change(w, theMachine("m"), func(m *clusterv1.Machine) { m.Spec.FailureDomain = "sim-1b" })
	w.provision("m")
	if zone, got := w.cloud.VMs()[0].Zone, w.mcmMachine("m").Status.FailureDomain; zone != "sim-1b" || got != "sim-1b" {
		t.Errorf("the VM is in %s and status.failureDomain is %s; Machine.spec.failureDomain says sim-1b, and wins over the class", zone, got)
	}
}

func TestInfraMachineAddresses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.machine("m")
	w.provision("m")
	known := []clusterv1.MachineAddressType{
		clusterv1.MachineHostName, clusterv1.MachineInternalIP, clusterv1.MachineExternalIP, clusterv1.MachineInternalDNS, clusterv1.MachineExternalDNS,
	}
	all := w.mcmMachine("m").Status.Addresses
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
	w := newWorld(t)
	w.machine("m")
	if o := w.mcmMachine("m"); o.Status.Initialization.Provisioned != nil {
		t.Errorf("provisioned is %v before there is a VM", *o.Status.Initialization.Provisioned)
	}
	w.provision("m")
}

// Core keeps what it was told once; taking it back would only confuse readers.
func TestInfraMachineProvisionedNeverBecomesFalseAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.running("m")
	change(w, theMachine("m"), unhealthy)
	w.cloud.Terminate(w.cloud.VMs()[0].ID, "Gone")
	w.settle(machineController, "m", func() bool {
		if !provisioned(w.mcmMachine("m")) {
			t.Fatal("provisioned was taken back")
		}
		return strings.HasPrefix(w.condition(theMCMMachine("m", time.Time{}), clusterv1.ReadyCondition), "False")
	})
	w.delete(w.mcmMachine("m"))
	w.run(machineController, "m")
	if o := theMCMMachine("m", time.Time{}); exists(w, o) && !provisioned(o) {
		t.Error("provisioned was taken back in the deletion")
	}
}

func unhealthy(m *clusterv1.Machine) { m.Status.Conditions[0].Status = metav1.ConditionFalse }

// A VM that is gone is shown, for a MachineHealthCheck to see, and never made
// again by the same object.
func TestInfraMachineVanishedVMIsShownAndNotMadeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.running("m")
	change(w, theMachine("m"), unhealthy)
	w.cloud.Terminate(w.cloud.VMs()[0].ID, "Gone")
	w.settle(machineController, "m", func() bool {
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
	w := newWorld(t)
	o := w.running("m")
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
	checkConditions(t, w.mcmMachine("m").Status.Conditions)
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
	outages := map[string]func(w *world){
		"RateLimit":          func(w *world) { w.cloud.AddFault(sim.Fault{Op: "*", Mode: sim.FaultThrottle}) },
		"NoAnswer":           func(w *world) { w.cloud.AddFault(sim.Fault{Op: "*", Mode: sim.FaultDrop}) },
		"ExpiredCredentials": func(w *world) { w.cloud.Change(func(s *sim.Settings) { s.Accounts[0].SecretKeys = nil }) },
		"SecretDeleted":      func(w *world) { w.delete(theCredentials()) },
	}
	for name, begin := range outages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			o := w.running("m")
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
	w := newWorld(t)
	o := w.machine("m", func(o *infrav1.MCMMachine) { o.Spec.MachineClassRef.Name = "absent" })
	w.run(machineController, "m")
	if got := w.condition(o, clusterv1.ReadyCondition); got != "False "+machinev1.ReasonClassNotFound {
		t.Errorf("Ready is %q", got)
	}
	if told := w.told(); !strings.Contains(told, "machineClassRef.name") {
		t.Errorf("the Event names the field: %s", told)
	}
	w.create(theClass("absent"))
	w.run(classController, "absent")
	w.provision("m")
}

// Core changes the spec in an in-place update; that is not ours to act on.
func TestInfraMachineSupportForInPlaceChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, theClass("large"))
	before := w.running("m")
	change(w, w.mcmMachine("m"), func(o *infrav1.MCMMachine) { o.Spec.MachineClassRef.Name = "large" })
	for range 3 {
		w.run(machineController, "m")
		w.pass(lookPeriod)
	}
	if made, live := w.vms(); made != 1 || live != 1 || w.mcmMachine("m").Spec.ProviderID != before.Spec.ProviderID {
		t.Errorf("%d VMs made, %d live, providerID %s", made, live, w.mcmMachine("m").Spec.ProviderID)
	}
}

func TestInfraMachinePausing(t *testing.T) {
	t.Parallel()
	for name, pause := range pauses() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			o := w.machine("m")
			pause(w, w.mcmMachine("m"))
			w.run(machineController, "m")
			o = read(w, o)
			if len(o.Finalizers) != 0 || len(o.Status.Conditions) != 1 || !strings.HasPrefix(w.condition(o, clusterv1.PausedCondition), "True") {
				t.Errorf("a paused machine is told that it is paused, and nothing else: %+v", o)
			}
			if made, _ := w.vms(); made != 0 {
				t.Error("a VM was made for a paused machine")
			}
		})
	}
}

// pauses are the two ways to pause.
func pauses() map[string]func(*world, clusterObject) {
	return map[string]func(*world, clusterObject){
		"Cluster": func(w *world, _ clusterObject) {
			change(w, theCluster(), func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })
		},
		"Annotation": func(w *world, o clusterObject) {
			change(w, o, func(o clusterObject) { o.SetAnnotations(map[string]string{clusterv1.PausedAnnotation: ""}) })
		},
	}
}

// Pausing comes before deletion: clusterctl deletes at the source of a move.
func TestInfraMachinePausingStopsDeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.running("m")
	change(w, theCluster(), func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })
	change(w, w.mcmMachine("m"), func(o *infrav1.MCMMachine) { o.Annotations[clusterctlv1.DeleteForMoveAnnotation] = "" })
	w.delete(w.mcmMachine("m"))
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
		hinder func(w *world)
		want   string
		claims bool
	}{
		"NoMachine": {
			"A MachineSet may be the only owner for a moment.",
			func(w *world) {
				change(w, w.mcmMachine("m"), func(o *infrav1.MCMMachine) { o.OwnerReferences[0].Kind = "MachineSet" })
			}, infrav1.ReasonWaitingForMachine, false,
		},
		"NoInfrastructure": {
			"Nothing is made before the InfraCluster is ready.",
			func(w *world) {
				change(w, theCluster(), func(c *clusterv1.Cluster) { c.Status.Initialization.InfrastructureProvisioned = nil })
			}, infrav1.ReasonWaitingForInfra, true,
		},
		"NoBootData": {
			"A VM without boot data never joins.",
			func(w *world) {
				change(w, theMachine("m"), func(m *clusterv1.Machine) { m.Spec.Bootstrap.DataSecretName = nil })
			}, infrav1.ReasonWaitingForBootstrap, true,
		},
		"NoValue": {
			"The entry's name is the contract's.",
			func(w *world) {
				change(w, bootData("m"), func(s *corev1.Secret) { s.Data = map[string][]byte{"userData": []byte("x")} })
			},
			infrav1.ReasonInvalidBootstrapData, true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			o := w.machine("m")
			tc.hinder(w)
			w.run(machineController, "m")
			if got := w.condition(o, clusterv1.ReadyCondition); got != "False "+tc.want {
				t.Errorf("Ready is %q: %s", got, tc.reason)
			}
			if made, _ := w.vms(); made != 0 || w.cloud.Calls(sim.OpCreateVM) != 0 {
				t.Error("a VM was asked for: " + tc.reason)
			}
			if has := slices.Contains(w.mcmMachine("m").Finalizers, machinev1.MCMMachineFinalizer); has != tc.claims {
				t.Errorf("finalizer %v, want %v: it is there before anything is made, and not before there is an owner", has, tc.claims)
			}
		})
	}
}

// What a provider deletes is the VM. Core has drained the Node, or decided not
// to, and deletes it afterwards.
func TestInfraMachineDeletionNeverDrains(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.running("m")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: corev1.PodSpec{NodeName: "m"}}
	if err := w.workload.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	w.delete(o)
	w.settle(machineController, "m", w.gone(o))
	node := &corev1.Node{}
	if err := w.workload.Get(t.Context(), client.ObjectKey{Name: "m"}, node); err != nil || node.Spec.Unschedulable || len(w.evictions) != 0 {
		t.Errorf("the Node is core's (%v), unschedulable %v, and nothing is evicted: %v", err, node.Spec.Unschedulable, w.evictions)
	}
	if _, live := w.vms(); live != 0 {
		t.Errorf("%d VMs are left", live)
	}
}

// A bad spec never keeps an object from going.
func TestInfraMachineDeletionIsNotBlockedByTheSpec(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.running("m")
	change(w, theClass("small"), func(c *machinev1.MachineClass) {
		c.ProviderSpec.Raw = []byte(strings.ReplaceAll(string(c.ProviderSpec.Raw), `"image":"linux-1"`, `"image":[]`))
	})
	w.delete(bootData("m"))
	w.delete(o)
	w.settle(machineController, "m", w.gone(o))
}

// A providerID that is there from the start is a VM to adopt: nothing is created,
// whether that VM exists or not.
func TestInfraMachinePresetProviderIDAdopts(t *testing.T) {
	t.Parallel()
	t.Run("Exists", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		vm, err := w.cloud.CreateVM(sim.Login{Account: "demo", Secret: "demo-secret"}, "sim-1", sim.VMInput{
			ClientToken: "m", Zone: "sim-1c", InstanceType: "small", Image: "linux-1",
			Tags: map[string]string{"kubernetes.io/cluster/test": "1", "kubernetes.io/role/node": "1", sim.NameTag: "m"},
		})
		if err != nil {
			t.Fatal(err)
		}
		creates := w.cloud.Calls(sim.OpCreateVM)
		w.machine("m", func(o *infrav1.MCMMachine) { o.Spec.ProviderID = sim.ProviderID("sim-1c", vm.ID) })
		w.provision("m")
		if o := w.mcmMachine("m"); o.Status.FailureDomain != "sim-1c" || len(o.Status.Addresses) == 0 || w.cloud.Calls(sim.OpCreateVM) != creates {
			t.Errorf("%d calls to create, adopted as %+v", w.cloud.Calls(sim.OpCreateVM)-creates, o.Status)
		}
	})
	t.Run("DoesNotExist", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		o := w.machine("m", func(o *infrav1.MCMMachine) { o.Spec.ProviderID = sim.ProviderID("sim-1c", "vm-00000000000000000") })
		w.settle(machineController, "m", func() bool {
			return w.condition(o, clusterv1.ReadyCondition) == "False "+infrav1.ReasonInstanceNotFound
		})
		if w.cloud.Calls(sim.OpCreateVM) != 0 || provisioned(w.mcmMachine("m")) {
			t.Error("a VM was asked for")
		}
	})
}

// The boot data has tokens and passwords: it goes to the cloud and nowhere else.
func TestInfraMachineBootDataIsNowhereElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cloud.AddFault(sim.Fault{Op: sim.OpCreateVM, Mode: sim.FaultBefore, Count: 1})
	w.running("m")
	_, sent, _ := w.cloud.Look(w.cloud.VMs()[0].ID)
	if !strings.Contains(string(sent), bootMark) {
		t.Errorf("the VM boots with %q", sent)
	}
	if text := w.yaml(w.mcmMachine("m")) + w.told(); strings.Contains(text, bootMark) {
		t.Errorf("boot data is in the object or its Events:\n%s", text)
	}
}

func TestInfraMachineInterruptible(t *testing.T) {
	t.Parallel()
	w := newWorld(t, theClass("spot", `"spot":true`))
	w.machine("m", func(o *infrav1.MCMMachine) { o.Spec.MachineClassRef.Name = "spot" })
	w.run(classController, "spot")
	w.provision("m")
	if got := w.mcmMachine("m").Status.Interruptible; got == nil || !*got {
		t.Error("status.interruptible is not true for a spot VM: core labels the Node with it")
	}
}

// Finalizers that somebody took away come back, and nobody replaces whole
// objects, which core writes with server-side apply.
func TestInfraMachineKeepsItsFinalizerAndWritesPatches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.running("m")
	change(w, w.mcmMachine("m"), func(o *infrav1.MCMMachine) { o.Finalizers = nil })
	w.run(machineController, "m")
	if !slices.Contains(w.mcmMachine("m").Finalizers, machinev1.MCMMachineFinalizer) {
		t.Error("the finalizer does not come back")
	}
	if len(w.whole) != 0 {
		t.Errorf("whole objects were written: %v", w.whole)
	}
	w.writes = nil
	w.pass(lookPeriod)
	w.run(machineController, "m")
	w.unchanged("an unchanged object is not written")
}

// Credentials are the class's, of the same namespace; a Secret of another one has
// to allow it, else any tenant could use those of any other.
func TestInfraMachineMultiTenancy(t *testing.T) {
	t.Parallel()
	other := theCredentials()
	other.Namespace = "other"
	foreign := theClass("foreign")
	foreign.SecretRef.Namespace = "other"
	w := newWorld(t, other, foreign)
	o := w.machine("m", func(o *infrav1.MCMMachine) { o.Spec.MachineClassRef.Name = "foreign" })
	w.run(classController, "foreign")
	w.run(machineController, "m")
	if got := w.condition(o, clusterv1.ReadyCondition); got != "False "+infrav1.ReasonSecretNotAllowed {
		t.Fatalf("Ready is %q", got)
	}
	change(w, other, func(s *corev1.Secret) {
		s.Annotations = map[string]string{machinev1.AllowedNamespacesAnnotation: namespace}
	})
	w.provision("m")
}

func TestInfraMachineWatchFilter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.filter = "mine"
	w.restart()
	o := w.machine("m")
	w.run(machineController, "m")
	if o = read(w, o); len(o.Finalizers)+len(o.Status.Conditions) != 0 {
		t.Errorf("an object of another instance was touched: %+v", o)
	}
	change(w, o, func(o *infrav1.MCMMachine) { o.Labels[clusterv1.WatchLabel] = "mine" })
	w.run(machineController, "m")
	if o = read(w, o); len(o.Finalizers) == 0 {
		t.Error("an object with the label was left alone")
	}
}

// Core takes few labels to Nodes, and no annotations; what the spec asks for is
// ours to keep, and ours alone.
func TestInfraMachineNodeTemplateReachesTheNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.running("m")
	change(w, w.mcmMachine("m"), func(o *infrav1.MCMMachine) {
		o.Spec.NodeTemplate = infrav1.NodeTemplate{
			Labels: map[string]string{"pool": "a"}, Annotations: map[string]string{"x.example.com/y": "z"},
			Taints: []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}},
		}
	})
	node := &corev1.Node{}
	if err := w.workload.Get(t.Context(), client.ObjectKey{Name: "m"}, node); err != nil {
		t.Fatal(err)
	}
	node.Labels = map[string]string{"theirs": "1"}
	if err := w.workload.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	w.run(machineController, "m")
	if err := w.workload.Get(t.Context(), client.ObjectKey{Name: "m"}, node); err != nil {
		t.Fatal(err)
	}
	if node.Labels["pool"] != "a" || node.Labels["theirs"] != "1" || node.Annotations["x.example.com/y"] != "z" || len(node.Spec.Taints) != 1 {
		t.Errorf("the Node has labels %v, annotations %v, taints %v", node.Labels, node.Annotations, node.Spec.Taints)
	}
}

// Core leaves Nodes behind when the whole Cluster goes. In a control plane that
// lives on, they would stay for ever.
func TestInfraMachineNodeGoesWithItsCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.running("m")
	change(w, theCluster(), func(c *clusterv1.Cluster) { c.Finalizers = []string{clusterv1.ClusterFinalizer} })
	w.delete(theCluster())
	w.delete(o)
	w.settle(machineController, "m", w.gone(o))
	if err := w.workload.Get(t.Context(), client.ObjectKey{Name: "m"}, &corev1.Node{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Node is still there: %v", err)
	}
}
