package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/internal/naming"
	"github.com/capmcm/cluster-api-provider-mcm/ops/recovery"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
)

var errKilled = errors.New("the command was killed")

// env is an API server, and controllers that do the least that they do to machines. It notes
// what they would create or delete.
type env struct {
	t     *testing.T
	api   client.WithWatch
	clock *testclock.FakeClock
	slow  bool // the controllers of sets act only when the command waits
	idle  bool // the command waits
	left  int  // writes until the command is killed; -1: none
	wrote int
	wrong []string // what controllers would have created or deleted
	// unprovisioned are the reasons why VMs of Cluster API cannot be provisioned, by machine.
	unprovisioned map[string]string
}

// newEnv returns an env. Controllers act after each write of the command, and when it waits.
func newEnv(t *testing.T, objects ...client.Object) *env {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, machinev1.AddToScheme, infrav1.AddToScheme, clusterv1.AddToScheme,
	} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	w := &env{t: t, left: -1, clock: testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}
	// Without managed fields, which no test here reads and which take most of the time.
	tracker := clienttesting.NewObjectTracker(s, serializer.NewCodecFactory(s).UniversalDecoder())
	w.api = fake.NewClientBuilder().WithScheme(s).WithObjectTracker(tracker).WithObjects(objects...).WithStatusSubresource(
		&machinev1.Machine{}, &machinev1.MachineSet{}, &machinev1.MachineDeployment{}, &infrav1.MCMMachine{},
		&clusterv1.Machine{}, &clusterv1.MachineSet{}, &clusterv1.MachineDeployment{},
	).Build()
	w.play()
	w.wrong = nil // before the first statuses of the sets
	return w
}

// command is the client of a command: it is dead after its last write.
func (w *env) command() client.Client {
	return interceptor.NewClient(w.api, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			o.SetUID(types.UID(fmt.Sprintf("uid-%T-%s", o, o.GetName())))
			return w.write(func() error { return c.Create(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption,
		) error {
			return w.write(func() error { return c.Patch(ctx, o, p, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption,
		) error {
			return w.write(func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
}

func (w *env) write(do func() error) error {
	if w.left == 0 {
		return errKilled
	}
	w.left--
	w.wrote++
	err := do()
	w.play()
	return err
}

// run runs the command once.
func (w *env) run(o recovery.Options) (int, error) {
	cl := w.command()
	e := New(Deps{
		Control: cl, Target: cl, Clock: w.clock, Name: func() string { return "run" }, Progress: func(string) {},
		Wait: func(_ context.Context, d time.Duration) error {
			w.clock.Step(d)
			w.idle = true
			w.play()
			w.idle = false
			return nil
		},
	})
	return e.Run(w.t.Context(), "default", o, time.Minute)
}

func (w *env) state() *recovery.State {
	w.t.Helper()
	s, err := recovery.Read(w.t.Context(), w.api, w.api, "default")
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// patch writes what change does to o.
func (w *env) patch(o client.Object, status bool, change func()) {
	w.t.Helper()
	before := o.DeepCopyObject().(client.Object)
	change()
	var err error
	switch {
	case equality.Semantic.DeepEqual(before, o):
	case status:
		err = w.api.Status().Patch(w.t.Context(), o, client.MergeFrom(before))
	default:
		err = w.api.Patch(w.t.Context(), o, client.MergeFrom(before))
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// play has all controllers act once.
func (w *env) play() {
	s := w.state()
	for i := range s.Deployments {
		w.answer(&s.Deployments[i])
	}
	for i := range s.Sets {
		w.answer(&s.Sets[i])
	}
	// Deployments first: the statuses that they see of their sets are always old ones.
	for i := range s.Deployments {
		w.playDeployment(s, &s.Deployments[i])
	}
	for i := range s.Sets {
		if w.idle || !w.slow {
			w.playSet(s, &s.Sets[i])
		}
	}
	w.playCluster(s)
}

// answer acknowledges a hold.
func (w *env) answer(o client.Object) {
	if machinev1.Held(o) && !machinev1.HoldAnswered(o) {
		w.patch(o, false, func() {
			machinev1.SetAnnotation(o, machinev1.MigrationHeldAnnotation, o.GetAnnotations()[machinev1.MigrationHoldAnnotation])
		})
	}
}

// playSet compares the machines of a set with its size, unless something is held.
func (w *env) playSet(s *recovery.State, set *machinev1.MachineSet) {
	n, available := int32(0), int32(0)
	held := machinev1.Held(set)
	for i := range s.Machines {
		m := &s.Machines[i]
		if !metav1.IsControlledBy(m, set) {
			continue
		}
		n++
		held = held || machinev1.Held(m)
		if m.Status.CurrentStatus.Phase == machinev1.MachineRunning {
			available++
		}
	}
	if held {
		return
	}
	w.compare("MachineSet "+set.Name, n, set.Spec.Replicas)
	w.patch(set, true, func() {
		set.Status.ObservedGeneration, set.Status.Replicas, set.Status.AvailableReplicas = set.Generation, n, available
	})
}

// compare notes what a controller would create or delete.
func (w *env) compare(what string, have, want int32) {
	if have != want {
		w.wrong = append(w.wrong, fmt.Sprintf("%s has %d, and makes that %d", what, have, want))
	}
}

// playDeployment compares the sizes, and what is available, unless something is held.
func (w *env) playDeployment(s *recovery.State, d *machinev1.MachineDeployment) {
	sum, available := int32(0), int32(0)
	held := machinev1.Held(d)
	for i := range s.Sets {
		held = held || machinev1.Held(&s.Sets[i])
		sum += s.Sets[i].Spec.Replicas
		available += s.Sets[i].Status.AvailableReplicas
	}
	for i := range s.Machines {
		held = held || machinev1.Held(&s.Machines[i])
	}
	if !held {
		w.compare("MachineDeployment "+d.Name, sum, d.Spec.Replicas)
		w.compare("available in MachineDeployment "+d.Name, available, sum)
	}
}

// playCluster does the same for Cluster API.
func (w *env) playCluster(s *recovery.State) {
	for i := range s.MCMMachines {
		infra := &s.MCMMachines[i]
		w.patch(infra, true, func() {
			if reason := w.unprovisioned[infra.Name]; reason != "" {
				meta.SetStatusCondition(&infra.Status.Conditions, metav1.Condition{
					Type: infrav1.VMProvisionedCondition, Status: metav1.ConditionFalse, Reason: reason,
				})
				return
			}
			infra.Status.Initialization.Provisioned = new(true)
		})
	}
	for i := range s.ClusterMachines {
		m := &s.ClusterMachines[i]
		w.pause(m, &m.Status.Conditions)
		if paused(m) || w.unprovisioned[m.Name] != "" {
			continue
		}
		w.patch(m, true, func() {
			m.Status.NodeRef = clusterv1.MachineNodeReference{Name: "node"}
			meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{
				Type: clusterv1.MachineAvailableCondition, Status: metav1.ConditionTrue, Reason: "Available",
			})
		})
	}
	for i := range s.ClusterDeployments {
		d := &s.ClusterDeployments[i]
		w.pause(d, &d.Status.Conditions)
		if set := &s.ClusterSets[0]; !paused(d) {
			w.compare("MachineDeployment "+d.Name, *set.Spec.Replicas, *d.Spec.Replicas)
			w.compare("available in MachineDeployment "+d.Name, ptr.Deref(set.Status.AvailableReplicas, 1), *d.Spec.Replicas)
		}
	}
	n := int32(len(s.ClusterMachines))
	for i := range s.ClusterSets {
		set := &s.ClusterSets[i]
		w.pause(set, &set.Status.Conditions)
		if paused(set) || w.slow && !w.idle {
			continue
		}
		w.compare("MachineSet "+set.Name, n, *set.Spec.Replicas)
		w.patch(set, true, func() {
			set.Status.ObservedGeneration, set.Status.Replicas, set.Status.AvailableReplicas = set.Generation, &n, &n
		})
	}
}

func paused(o client.Object) bool {
	_, is := o.GetAnnotations()[clusterv1.PausedAnnotation]
	return is
}

// pause reports in a condition whether o is paused.
func (w *env) pause(o client.Object, conditions *[]metav1.Condition) {
	status := metav1.ConditionFalse
	if paused(o) {
		status = metav1.ConditionTrue
	}
	w.patch(o, true, func() {
		meta.SetStatusCondition(conditions, metav1.Condition{Type: clusterv1.PausedCondition, Status: status, Reason: "P"})
	})
}

// listing is a class that lists VMs.
func listing(t *testing.T, key string, orphans ...machinev1.Orphan) *machinev1.MachineClass {
	t.Helper()
	text, err := json.Marshal(machinev1.HeldOrphans{Count: len(orphans), Orphans: orphans})
	if err != nil {
		t.Fatal(err)
	}
	return fixture.MachineClass("class", fixture.Annotations[*machinev1.MachineClass](key, string(text)))
}

// nativePool is a pool of a backup with one Machine, and so many more VMs.
func nativePool(t *testing.T, lost int64) []client.Object {
	t.Helper()
	d := fixture.MachineDeployment("pool", "class", 1)
	set := fixture.MachineSet("pool-bcdfg", "class", 1, fixture.Annotations[*machinev1.MachineSet](
		machinev1.RevisionAnnotation, "1", machinev1.OrdinalsAnnotation, "next=1",
		machinev1.DesiredReplicasAnnotation, "1", machinev1.MaxReplicasAnnotation, "2",
	))
	set.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(d, machinev1.GroupVersion.WithKind(machinev1.MachineDeploymentKind)),
	}
	names := naming.NewNames(set)
	m := fixture.Machine(names.Name(0), "class")
	m.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(set, machinev1.GroupVersion.WithKind(machinev1.MachineSetKind)),
	}
	m.Status.CurrentStatus.Phase = machinev1.MachineRunning
	objects := []client.Object{d, set, m}
	var orphans []machinev1.Orphan
	for i := range lost {
		id := fmt.Sprintf("vm-%d", i+1)
		orphans = append(orphans, machinev1.Orphan{
			ID: id, Machine: names.Name(i + 1), OwnerID: names.OwnerID(i + 1), ProviderID: "sim:///region/" + id, Node: id,
		})
		objects = append(objects, node(id, "sim:///zone/"+id))
	}
	return append(objects, listing(t, machinev1.HeldOrphansAnnotation, orphans...))
}

func node(name, providerID string) *corev1.Node {
	n := fixture.Node(name)
	n.Spec.ProviderID = providerID
	return n
}

// clusterPool is the same of Cluster API.
func clusterPool(t *testing.T, lost int) []client.Object {
	t.Helper()
	d := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pool", UID: "uid-pool"}}
	d.Spec.ClusterName, d.Spec.Replicas = "c", new(int32(1))
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "pool-bcdfg", UID: "uid-set", OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(d, clusterv1.GroupVersion.WithKind(machinev1.MachineDeploymentKind)),
		},
	}}
	set.Spec.ClusterName, set.Spec.Replicas = "c", new(int32(1))
	set.Spec.Template.Spec.InfrastructureRef.Name = "template"
	template := &infrav1.MCMMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "template"}}
	template.Spec.Template.Spec.MachineClassRef.Name = "class"
	kept := fixture.CAPIMachine("pool-bcdfg-22222", "c")
	kept.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(set, clusterv1.GroupVersion.WithKind(machinev1.MachineSetKind)),
	}
	infra := fixture.MCMCluster("c", fixture.Annotations[*infrav1.MCMCluster](machinev1.OwnerIDAnnotation, "cluster-id"))
	objects := []client.Object{d, set, template, kept, infra, fixture.Cluster("c")}
	var orphans []machinev1.Orphan
	for i := range lost {
		name := "pool-bcdfg-bbbb" + "bcdfg"[i:i+1]
		orphans = append(orphans, machinev1.Orphan{
			ID: name, Machine: name, OwnerID: "owner-" + name, ProviderID: "sim:///region/" + name, ClusterID: "cluster-id",
			NodeProviderID: "sim:///zone/" + name,
		})
		objects = append(objects, node(name, "sim:///zone/"+name))
	}
	return append(objects, listing(t, machinev1.HeldClusterAPIOrphansAnnotation, orphans...))
}
