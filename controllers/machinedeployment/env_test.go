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

// A env is a control and target cluster with one deployment, and plays what
// the other controllers do.
type env struct {
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

func newEnv(t *testing.T, objects ...client.Object) *env {
	t.Helper()
	env := &env{
		t: t, clock: clocktesting.NewFakePassiveClock(noon),
		events: record.NewFakeRecorder(10000), writes: map[string]int{},
	}
	scheme := runtime.NewScheme() // only what is needed: the fake client walks it on every write
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, machinev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(env.intercept()).
		WithStatusSubresource(&machinev1.MachineDeployment{}, &machinev1.MachineSet{}, &machinev1.Machine{}, &corev1.Node{})
	for _, i := range index.Control() {
		builder = builder.WithIndex(i.Object, i.Field, i.Extract)
	}
	env.client = builder.Build()
	env.c = New(Deps{
		Client: env.client, Live: env.client, Clock: env.clock, Events: env.events, AnnotateDuringRollout: true,
		Target: &target.Cluster{Client: env.client, Live: env.client},
	})
	return env
}

func (env *env) intercept() interceptor.Funcs {
	before := func(verb string, o client.Object) error {
		env.writes[verb+" "+strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1alpha1.")]++
		if env.refuse != nil {
			return env.refuse(verb, o)
		}
		return nil
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := before("create", o); err != nil {
				return err
			}
			if o.GetUID() == "" { // as the API server does
				env.uids++
				o.SetUID(types.UID(fmt.Sprintf("uid-%03d", env.uids)))
				o.SetCreationTimestamp(metav1.NewTime(noon.Add(time.Duration(env.uids) * time.Second)))
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
func (env *env) pass() reconcile.Result {
	env.t.Helper()
	result, err := env.try()
	if err != nil {
		env.t.Fatalf("reconcile: %v", err)
	}
	return result
}

func (env *env) try() (reconcile.Result, error) {
	return env.c.Reconcile(env.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{
		Namespace: namespace,
		Name:      "pool",
	}})
}

// run lets everybody work until the deployment is complete.
func (env *env) run() {
	env.t.Helper()
	env.until("the deployment is complete", func() bool {
		d := env.deployment()
		return d.Status.Replicas == d.Spec.Replicas && d.Status.UpdatedReplicas == d.Spec.Replicas &&
			d.Status.AvailableReplicas == d.Spec.Replicas
	})
}

// until lets everybody work until done.
func (env *env) until(what string, done func() bool) {
	env.t.Helper()
	for range 200 {
		env.pass()
		if done() {
			env.pass() // sees the end, too
			return
		}
		env.playSets()
		env.playMachines()
	}
	env.t.Fatalf("never: %s\n%s", what, env.describe())
}

func (env *env) deployment() *machinev1.MachineDeployment {
	env.t.Helper()
	d := &machinev1.MachineDeployment{}
	err := env.client.Get(env.t.Context(), types.NamespacedName{Namespace: namespace, Name: "pool"}, d)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		env.t.Fatal(err)
	}
	return d
}

func (env *env) sets() []machinev1.MachineSet {
	env.t.Helper()
	list := &machinev1.MachineSetList{}
	if err := env.client.List(env.t.Context(), list); err != nil {
		env.t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b machinev1.MachineSet) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return list.Items
}

// set returns the set with a class.
func (env *env) set(class string) *machinev1.MachineSet {
	env.t.Helper()
	for _, set := range env.sets() {
		if set.Spec.Template.Spec.Class.Name == class {
			return &set
		}
	}
	env.t.Fatalf("no set of class %s\n%s", class, env.describe())
	return nil
}

func (env *env) machines() []machinev1.Machine {
	env.t.Helper()
	list := &machinev1.MachineList{}
	if err := env.client.List(env.t.Context(), list); err != nil {
		env.t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b machinev1.Machine) int { return strings.Compare(a.Name, b.Name) })
	return list.Items
}

func (env *env) live() []machinev1.Machine {
	return slices.DeleteFunc(env.machines(), func(m machinev1.Machine) bool { return !m.DeletionTimestamp.IsZero() })
}

// node returns the node of a machine; nil if it has none.
func (env *env) node(machine string) *corev1.Node {
	env.t.Helper()
	node := &corev1.Node{}
	err := env.client.Get(env.t.Context(), types.NamespacedName{Name: "node-" + machine}, node)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		env.t.Fatal(err)
	}
	return node
}

// change changes an object as a user would.
func change[T client.Object](env *env, o T, change func(T)) {
	env.t.Helper()
	if err := env.client.Get(env.t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		env.t.Fatal(err)
	}
	change(o)
	refuse := env.refuse
	env.refuse = nil
	defer func() { env.refuse = refuse }()
	status := o.DeepCopyObject().(T)
	if err := env.client.Update(env.t.Context(), o); err != nil {
		env.t.Fatal(err)
	}
	status.SetResourceVersion(o.GetResourceVersion())
	if err := env.client.Status().Update(env.t.Context(), status); err != nil && !apierrors.IsNotFound(err) {
		env.t.Fatal(err)
	}
}

// changeSpec changes the deployment and its generation.
func (env *env) changeSpec(what func(*machinev1.MachineDeployment)) {
	env.t.Helper()
	change(env, env.deployment(), func(d *machinev1.MachineDeployment) {
		d.Generation++
		what(d)
	})
}

func class(name string) func(*machinev1.MachineDeployment) {
	return func(d *machinev1.MachineDeployment) { d.Spec.Template.Spec.Class.Name = name }
}

// eventsOf returns the events so far that contain text, and forgets all.
func (env *env) eventsOf(text string) []string {
	var found []string
	for {
		select {
		case e := <-env.events.Events:
			if strings.Contains(e, text) {
				found = append(found, e)
			}
		default:
			return found
		}
	}
}

func (env *env) describe() string {
	var b strings.Builder
	if d := env.deployment(); d != nil {
		fmt.Fprintf(&b, "status %+v\n", d.Status)
	}
	for _, set := range env.sets() {
		fmt.Fprintf(&b, "set %s class %s: %d asked, status %+v\n", set.Name, set.Spec.Template.Spec.Class.Name,
			set.Spec.Replicas,
			set.Status)
	}
	for _, m := range env.machines() {
		fmt.Fprintf(&b, "machine %s of %s: %s deleting %t labels %v\n", m.Name, m.OwnerReferences[0].Name,
			m.Status.CurrentStatus.Phase, !m.DeletionTimestamp.IsZero(), m.Labels)
	}
	return b.String()
}
