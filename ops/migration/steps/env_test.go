package steps

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clienttesting "k8s.io/client-go/testing"
	testclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// env is one API server and the least that controllers of both APIs do to
// machines: acknowledge, make what is missing, delete what is too much. It holds
// them to what they promise: a VM is made or deleted by exactly one of them.
type env struct {
	t       *testing.T
	api     client.WithWatch            // not counted, not killed
	tracker clienttesting.ObjectTracker // what api stores in
	client  client.Client               // the command's: counted, and dead after its last write
	clock   *testclock.FakeClock
	eager   bool // controllers act after each write, not only when the command waits
	writes  int
	left    int // writes that the command has before it is killed; -1: no end
	dead    bool
	made    int // VMs made
	gone    []string
	serial  int
	playing bool
	acted   bool     // in this round
	last    []string // what the commands said
}

var errKilled = errors.New("the command was killed")

func newEnv(t *testing.T, machines int) *env {
	t.Helper()
	w := envOf(t, fleet(machines))
	w.play()
	return w
}

// envOf is a world with these objects.
func envOf(t *testing.T, objects []client.Object) *env {
	t.Helper()
	s := scheme()
	w := &env{t: t, left: -1, clock: testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}
	// Without managed fields, which no test here reads and which take most of the time.
	w.tracker = clienttesting.NewObjectTracker(s, serializer.NewCodecFactory(s).UniversalDecoder())
	w.api = fake.NewClientBuilder().WithScheme(s).WithObjectTracker(w.tracker).WithStatusSubresource(
		&machinev1.Machine{}, &machinev1.MachineSet{}, &machinev1.MachineDeployment{}, &infrav1.MCMMachine{},
		&infrav1.MCMCluster{},
		&clusterv1.Machine{}, &clusterv1.MachineSet{}, &clusterv1.MachineDeployment{}, &clusterv1.Cluster{},
	).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{Create: named}).Build()
	w.client = interceptor.NewClient(w.api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption,
		) error {
			return errors.Join(w.alive(), c.Get(ctx, key, o, opts...))
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return w.write(func() error { return c.Create(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption,
		) error {
			return w.write(func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return w.write(func() error { return c.Delete(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption,
		) error {
			return w.write(func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
	return w
}

// copy is another world in the same state, so that what leads there is done once.
func (w *env) copy() *env {
	w.t.Helper()
	var all []client.Object
	for _, list := range []client.ObjectList{
		&machinev1.MachineDeploymentList{}, &machinev1.MachineSetList{}, &machinev1.MachineList{},
		&machinev1.MachineClassList{},
		&clusterv1.ClusterList{}, &clusterv1.MachineDeploymentList{}, &clusterv1.MachineSetList{}, &clusterv1.MachineList{},
		&clusterv1.MachineHealthCheckList{},
		&infrav1.MCMClusterList{}, &infrav1.MCMMachineList{}, &infrav1.MCMMachineTemplateList{},
		&bootstrapv1.MCMConfigTemplateList{},
		&controlplanev1.MCMExternalControlPlaneList{}, &corev1.ConfigMapList{}, &coordinationv1.LeaseList{},
		&corev1.SecretList{}, &corev1.NodeList{},
		&corev1.NamespaceList{},
	} {
		err := meta.EachListItem(get(w, list), func(o runtime.Object) error {
			all = append(all, o.DeepCopyObject().(client.Object))
			return nil
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	c := envOf(w.t, all)
	c.eager, c.made, c.gone, c.serial = w.eager, w.made, slices.Clone(w.gone), w.serial
	c.clock.SetTime(w.clock.Now())
	return c
}

// named gives created objects the UID that an API server would.
func named(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
	o.SetUID(types.UID(fmt.Sprintf("uid-%T-%s", o, o.GetName())))
	o.SetGeneration(1)
	return c.Create(ctx, o, opts...)
}

func (w *env) alive() error {
	if w.dead {
		return errKilled
	}
	return nil
}

func (w *env) write(do func() error) error {
	if w.dead {
		return errKilled
	}
	err := do()
	w.writes++
	if w.left > 0 {
		if w.left--; w.left == 0 {
			w.dead, w.left = true, -1
		}
	}
	w.check()
	if w.eager {
		w.play()
	}
	if w.dead {
		return errKilled // the answer never arrived
	}
	return err
}

// engine is a new command; the one before is dead.
func (w *env) engine(writes int) *Engine {
	w.dead, w.left = false, writes
	return New(Deps{
		Control: w.client, Target: w.client, Clock: w.clock,
		Wait: func(_ context.Context, d time.Duration) error {
			w.clock.Step(d)
			w.play()
			return w.alive()
		},
		Name: func() string { w.serial++; return fmt.Sprintf("name-%d", w.serial) },
		Progress: func(p Progress) {
			w.last = append(w.last, fmt.Sprintf("%d: %s %s %s", w.writes, p.To, p.Phase, p.Waiting))
		},
	})
}

// fleet is a native pool of running machines.
func fleet(machines int) []client.Object {
	meta := func(name string, labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID("uid-" + name), Labels: labels, Generation: 1,
			Finalizers: []string{machinev1.Finalizer},
		}
	}
	labels := map[string]string{machinev1.NameLabel: "pool"}
	hashed := map[string]string{machinev1.NameLabel: "pool", machinev1.TemplateHashLabel: "1234"}
	template := machinev1.MachineTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
	template.Spec.Class = machinev1.ClassSpec{Kind: machinev1.MachineClassKind, Name: "class"}
	deployment := &machinev1.MachineDeployment{ObjectMeta: meta("pool", nil)}
	deployment.Annotations = map[string]string{
		machinev1.NodeGroupMinSizeAnnotation: "1",
		machinev1.NodeGroupMaxSizeAnnotation: "9",
	}
	deployment.Spec.Replicas, deployment.Spec.Template = int32(machines), template
	deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	deployment.Spec.Strategy.Type = machinev1.RollingUpdateStrategyType
	one, none := intstr.FromInt32(1), intstr.FromInt32(0)
	deployment.Spec.Strategy.RollingUpdate = &machinev1.RollingUpdateMachineDeployment{
		UpdateConfiguration: machinev1.UpdateConfiguration{MaxSurge: &one, MaxUnavailable: &none},
	}
	set := &machinev1.MachineSet{ObjectMeta: meta("pool-1234", hashed)}
	set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(deployment,
		machinev1.GroupVersion.WithKind(machinev1.MachineDeploymentKind))}
	set.Spec.Replicas, set.Spec.Template = int32(machines), *template.DeepCopy()
	set.Spec.Template.Labels = hashed
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: hashed}
	class := &machinev1.MachineClass{ObjectMeta: meta("class", nil), Provider: "sim"}
	class.Finalizers = append(class.Finalizers, machinev1.InUseFinalizer) // each API's class controller sees to its own
	objects := []client.Object{deployment, set, class, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}}
	for i := range machines {
		name := fmt.Sprintf("pool-1234-%d", i)
		m := &machinev1.Machine{ObjectMeta: meta(name, maps.Clone(hashed))}
		m.Labels[machinev1.NodeLabel] = name
		m.Annotations = map[string]string{machinev1.PriorityAnnotation: "3"}
		m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set,
			machinev1.GroupVersion.WithKind(machinev1.MachineSetKind))}
		m.Spec.Class, m.Spec.ProviderID = template.Spec.Class, "sim://"+name
		m.Status.CurrentStatus.Phase = machinev1.MachineRunning
		objects = append(objects, m, nodeFor(name))
	}
	return objects
}

func nodeFor(name string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID("uid-node-" + name),
		Finalizers: []string{machinev1.NodeFinalizer},
	}}
	node.Spec.ProviderID = "sim:///" + name
	node.Status.NodeInfo.KubeletVersion = "v1.36.3"
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return node
}

func pool() migration.Pool {
	return migration.Pool{Kind: migration.KindDeployment, Namespace: "ns", Name: "pool"}
}

// check holds the command to its promises after each write.
func (w *env) check() {
	w.t.Helper()
	var nativeActs, capiActs []string
	held := map[string]bool{}
	for _, o := range w.natives() {
		rests := pauseAcknowledged(o)
		held[o.GetName()] = rests
		if !rests {
			nativeActs = append(nativeActs, objects.Title(o))
		}
	}
	for _, o := range w.capis() {
		_, rests := o.GetAnnotations()[clusterv1.PausedAnnotation]
		infra, isInfra := o.(*infrav1.MCMMachine)
		switch {
		case !rests && !isInfra:
			capiActs = append(capiActs, objects.Title(o))
		case isInfra && infra.Annotations[machinev1.RetainVMAnnotation] == "" && !held[o.GetName()] &&
			w.nativeMachine(o.GetName()):
			w.t.Errorf("%s may delete a VM that the native API works on", objects.Title(o))
		}
	}
	if len(nativeActs) > 0 && len(capiActs) > 0 {
		w.t.Errorf("two APIs act at once: %v and %v", nativeActs, capiActs)
	}
}

func (w *env) nativeMachine(name string) bool {
	return w.api.Get(w.t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, &machinev1.Machine{}) == nil
}

func (w *env) natives() []client.Object {
	out := objects.Pointers(get(w, &machinev1.MachineDeploymentList{}).Items)
	out = append(out, objects.Pointers(get(w, &machinev1.MachineSetList{}).Items)...)
	return append(out, objects.Pointers(get(w, &machinev1.MachineList{}).Items)...)
}

func (w *env) capis() []client.Object {
	out := objects.Pointers(get(w, &clusterv1.MachineDeploymentList{}).Items)
	out = append(out, objects.Pointers(get(w, &clusterv1.MachineSetList{}).Items)...)
	out = append(out, objects.Pointers(get(w, &clusterv1.MachineList{}).Items)...)
	return append(out, objects.Pointers(get(w, &infrav1.MCMMachineList{}).Items)...)
}

// must notes that something was done, and fails on errors other than those of an object that has changed or gone.
func (w *env) must(err error) {
	w.t.Helper()
	w.acted = true
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		w.t.Fatal(err)
	}
}
