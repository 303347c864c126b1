package machinedeployment

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
)

const namespace = "default"

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// A world is a control and target cluster with one deployment, and plays what
// the other controllers do.
type world struct {
	t      *testing.T
	client client.WithWatch
	clock  *clocktesting.FakePassiveClock
	events *record.FakeRecorder
	c      *Controller
	// writes counts requests that change something, by verb and kind.
	writes map[string]int
	// refuse makes a request fail; nil for none.
	refuse func(verb string, o client.Object) error
	// bare: new nodes are not made their machine's.
	bare bool
	made int
	uids int
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{
		t: t, clock: clocktesting.NewFakePassiveClock(noon),
		events: record.NewFakeRecorder(10000), writes: map[string]int{},
	}
	scheme := runtime.NewScheme() // only what is needed: the fake client walks it on every write
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, machinev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(w.intercept()).
		WithStatusSubresource(&machinev1.MachineDeployment{}, &machinev1.MachineSet{}, &machinev1.Machine{}, &corev1.Node{})
	for _, i := range index.Control() {
		builder = builder.WithIndex(i.Object, i.Field, i.Extract)
	}
	w.client = builder.Build()
	w.c = New(Deps{
		Client: w.client, Live: w.client, Clock: w.clock, Events: w.events, AnnotateDuringRollout: true,
		Target: &target.Cluster{Client: w.client, Live: w.client},
	})
	return w
}

func (w *world) intercept() interceptor.Funcs {
	before := func(verb string, o client.Object) error {
		w.writes[verb+" "+strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1alpha1.")]++
		if w.refuse != nil {
			return w.refuse(verb, o)
		}
		return nil
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := before("create", o); err != nil {
				return err
			}
			if o.GetUID() == "" { // as the API server does
				w.uids++
				o.SetUID(types.UID(fmt.Sprintf("uid-%03d", w.uids)))
				o.SetCreationTimestamp(metav1.NewTime(noon.Add(time.Duration(w.uids) * time.Second)))
			}
			return c.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption,
		) error {
			if err := before("patch", o); err != nil {
				return err
			}
			former := o.DeepCopyObject().(client.Object)
			_ = c.Get(ctx, client.ObjectKeyFromObject(o), former)
			if err := c.Patch(ctx, o, p, opts...); err != nil {
				return err
			}
			return bump(ctx, c, former, o)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := before("delete", o); err != nil {
				return err
			}
			return c.Delete(ctx, o, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption,
		) error {
			if err := before("status", o); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	}
}

// bump gives a set whose spec has changed its next generation, as the API server
// does and the fake client does not.
func bump(ctx context.Context, c client.Client, former, o client.Object) error {
	set, ok := o.(*machinev1.MachineSet)
	if !ok || apiequality.Semantic.DeepEqual(former.(*machinev1.MachineSet).Spec, set.Spec) {
		return nil
	}
	set.Generation++
	return c.Update(ctx, set)
}

// deployment returns a valid deployment with surge 2 and unavailable 1.
func deployment(replicas int32, changes ...func(*machinev1.MachineDeployment)) *machinev1.MachineDeployment {
	d := &machinev1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pool", UID: "uid-pool"},
		Spec: machinev1.MachineDeploymentSpec{
			Replicas: replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "a"}},
			Template: machinev1.MachineTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"pool": "a"}},
				Spec:       machinev1.MachineSpec{Class: machinev1.ClassSpec{Kind: machinev1.MachineClassKind, Name: "v1"}},
			},
			Strategy: rollingUpdate(2, 1),
		},
	}
	for _, change := range changes {
		change(d)
	}
	return d
}

func bounds(surge, unavailable int32) machinev1.UpdateConfiguration {
	return machinev1.UpdateConfiguration{
		MaxSurge:       new(intstr.FromInt32(surge)),
		MaxUnavailable: new(intstr.FromInt32(unavailable)),
	}
}

func rollingUpdate(surge, unavailable int32) machinev1.MachineDeploymentStrategy {
	return machinev1.MachineDeploymentStrategy{
		Type:          machinev1.RollingUpdateStrategyType,
		RollingUpdate: &machinev1.RollingUpdateMachineDeployment{UpdateConfiguration: bounds(surge, unavailable)},
	}
}

func inPlaceUpdate(o machinev1.OrchestrationType, surge, unavailable int32) machinev1.MachineDeploymentStrategy {
	return machinev1.MachineDeploymentStrategy{
		Type: machinev1.InPlaceUpdateStrategyType,
		InPlaceUpdate: &machinev1.InPlaceUpdateMachineDeployment{
			UpdateConfiguration: bounds(surge, unavailable), OrchestrationType: o,
		},
	}
}

// pass reconciles the deployment once.
func (w *world) pass() reconcile.Result {
	w.t.Helper()
	result, err := w.try()
	if err != nil {
		w.t.Fatalf("reconcile: %v", err)
	}
	return result
}

func (w *world) try() (reconcile.Result, error) {
	return w.c.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{
		Namespace: namespace,
		Name:      "pool",
	}})
}

// run lets everybody work until the deployment is complete.
func (w *world) run() {
	w.t.Helper()
	w.until("the deployment is complete", func() bool {
		d := w.deployment()
		return d.Status.Replicas == d.Spec.Replicas && d.Status.UpdatedReplicas == d.Spec.Replicas &&
			d.Status.AvailableReplicas == d.Spec.Replicas
	})
}

// until lets everybody work until done.
func (w *world) until(what string, done func() bool) {
	w.t.Helper()
	for range 200 {
		w.pass()
		if done() {
			w.pass() // sees the end, too
			return
		}
		w.playSets()
		w.playMachines()
	}
	w.t.Fatalf("never: %s\n%s", what, w.describe())
}

func (w *world) deployment() *machinev1.MachineDeployment {
	w.t.Helper()
	d := &machinev1.MachineDeployment{}
	err := w.client.Get(w.t.Context(), types.NamespacedName{Namespace: namespace, Name: "pool"}, d)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

func (w *world) sets() []machinev1.MachineSet {
	w.t.Helper()
	list := &machinev1.MachineSetList{}
	if err := w.client.List(w.t.Context(), list); err != nil {
		w.t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b machinev1.MachineSet) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return list.Items
}

// set returns the set with a class.
func (w *world) set(class string) *machinev1.MachineSet {
	w.t.Helper()
	for _, s := range w.sets() {
		if s.Spec.Template.Spec.Class.Name == class {
			return &s
		}
	}
	w.t.Fatalf("no set of class %s\n%s", class, w.describe())
	return nil
}

func (w *world) machines() []machinev1.Machine {
	w.t.Helper()
	list := &machinev1.MachineList{}
	if err := w.client.List(w.t.Context(), list); err != nil {
		w.t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b machinev1.Machine) int { return strings.Compare(a.Name, b.Name) })
	return list.Items
}

func (w *world) live() []machinev1.Machine {
	return slices.DeleteFunc(w.machines(), func(m machinev1.Machine) bool { return !m.DeletionTimestamp.IsZero() })
}

// node returns the node of a machine; nil if it has none.
func (w *world) node(machine string) *corev1.Node {
	w.t.Helper()
	node := &corev1.Node{}
	err := w.client.Get(w.t.Context(), types.NamespacedName{Name: "node-" + machine}, node)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return node
}

// change changes an object as a user would.
func change[T client.Object](w *world, o T, change func(T)) {
	w.t.Helper()
	if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		w.t.Fatal(err)
	}
	change(o)
	refuse := w.refuse
	w.refuse = nil
	defer func() { w.refuse = refuse }()
	status := o.DeepCopyObject().(T)
	if err := w.client.Update(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
	status.SetResourceVersion(o.GetResourceVersion())
	if err := w.client.Status().Update(w.t.Context(), status); err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
}

// changeSpec changes the deployment and its generation.
func (w *world) changeSpec(what func(*machinev1.MachineDeployment)) {
	w.t.Helper()
	change(w, w.deployment(), func(d *machinev1.MachineDeployment) {
		d.Generation++
		what(d)
	})
}

func class(name string) func(*machinev1.MachineDeployment) {
	return func(d *machinev1.MachineDeployment) { d.Spec.Template.Spec.Class.Name = name }
}

// eventsOf returns the events so far that contain text, and forgets all.
func (w *world) eventsOf(text string) []string {
	var found []string
	for {
		select {
		case e := <-w.events.Events:
			if strings.Contains(e, text) {
				found = append(found, e)
			}
		default:
			return found
		}
	}
}

func (w *world) describe() string {
	var b strings.Builder
	if d := w.deployment(); d != nil {
		fmt.Fprintf(&b, "status %+v\n", d.Status)
	}
	for _, s := range w.sets() {
		fmt.Fprintf(&b, "set %s class %s: %d asked, status %+v\n", s.Name, s.Spec.Template.Spec.Class.Name, s.Spec.Replicas,
			s.Status)
	}
	for _, m := range w.machines() {
		fmt.Fprintf(&b, "machine %s of %s: %s deleting %t labels %v\n", m.Name, m.OwnerReferences[0].Name,
			m.Status.CurrentStatus.Phase, !m.DeletionTimestamp.IsZero(), m.Labels)
	}
	return b.String()
}
