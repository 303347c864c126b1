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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

const namespace = "default"

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// An env is a control and target cluster with one deployment, and plays what
// the other controllers do.
type env struct {
	*harness.Env
	c *Controller
	// bare: new nodes are not made their machine's.
	bare bool
	made int
	// askedBefore is how many machines sets were asked for before a scale-in. They may still create them.
	askedBefore int
}

var pool = client.ObjectKey{Namespace: namespace, Name: "pool"}

func newEnv(t *testing.T, objects ...client.Object) *env {
	t.Helper()
	env := &env{Env: harness.New(t, harness.At(noon), harness.With(objects...), harness.Indexed(index.Control()),
		harness.Answered(likeAPIServer()))}
	env.c = New(Deps{
		Client: env.Client, Live: env.Client, Clock: env.Clock, Events: env.Events, AnnotateDuringRollout: true,
		Target: &target.Cluster{Client: env.Client, Live: env.Client},
	})
	return env
}

// likeAPIServer creates sets one second after another, and gives a set whose spec has
// changed its next generation, which the fake client does not.
func likeAPIServer() interceptor.Funcs {
	created := noon
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			created = created.Add(time.Second)
			o.SetCreationTimestamp(metav1.NewTime(created))
			return c.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption,
		) error {
			former := o.DeepCopyObject().(client.Object)
			_ = c.Get(ctx, client.ObjectKeyFromObject(o), former)
			if err := c.Patch(ctx, o, p, opts...); err != nil {
				return err
			}
			set, ok := o.(*machinev1.MachineSet)
			if !ok || apiequality.Semantic.DeepEqual(former.(*machinev1.MachineSet).Spec, set.Spec) {
				return nil
			}
			set.Generation++
			return c.Update(ctx, set)
		},
	}
}

// deployment returns a valid deployment with surge 2 and unavailable 1.
func deployment(replicas int32, changes ...func(*machinev1.MachineDeployment)) *machinev1.MachineDeployment {
	return fixture.MachineDeployment("pool", "v1", replicas, append([]func(*machinev1.MachineDeployment){
		fixture.RollingUpdate("2", "1"), func(d *machinev1.MachineDeployment) {
			d.UID, d.Spec.Selector.MatchLabels = "uid-pool", map[string]string{"pool": "a"}
			d.Spec.Template.Labels = map[string]string{"pool": "a"}
			d.Spec.Template.Spec.Class.APIGroup = ""
		},
	}, changes...)...)
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
	env.Helper()
	return env.Reconcile(env.c, pool)
}

func (env *env) try() (reconcile.Result, error) { return env.Try(env.c, pool) }

// run lets everybody work until the deployment is complete.
func (env *env) run() {
	env.Helper()
	env.until("the deployment is complete", func() bool {
		d := env.deployment()
		return d.Status.Replicas == d.Spec.Replicas && d.Status.UpdatedReplicas == d.Spec.Replicas &&
			d.Status.AvailableReplicas == d.Spec.Replicas
	})
}

// until lets everybody work until done.
func (env *env) until(what string, done func() bool) {
	env.Helper()
	for range 200 {
		env.pass()
		if done() {
			env.pass() // sees the end, too
			return
		}
		env.playSets()
		env.playMachines()
	}
	env.Fatalf("never: %s\n%s", what, env.describe())
}

func (env *env) deployment() *machinev1.MachineDeployment {
	env.Helper()
	return harness.Find[machinev1.MachineDeployment](env.Cluster, pool)
}

func (env *env) sets() []machinev1.MachineSet {
	env.Helper()
	list := &machinev1.MachineSetList{}
	env.List(list)
	slices.SortFunc(list.Items, func(a, b machinev1.MachineSet) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return list.Items
}

// set returns the set with a class.
func (env *env) set(class string) *machinev1.MachineSet {
	env.Helper()
	for _, set := range env.sets() {
		if set.Spec.Template.Spec.Class.Name == class {
			return &set
		}
	}
	env.Fatalf("no set of class %s\n%s", class, env.describe())
	return nil
}

func (env *env) machines() []machinev1.Machine {
	env.Helper()
	list := &machinev1.MachineList{}
	env.List(list)
	slices.SortFunc(list.Items, func(a, b machinev1.Machine) int { return strings.Compare(a.Name, b.Name) })
	return list.Items
}

func (env *env) live() []machinev1.Machine {
	return slices.DeleteFunc(env.machines(), func(m machinev1.Machine) bool { return !m.DeletionTimestamp.IsZero() })
}

// node returns the node of a machine; nil if it has none.
func (env *env) node(machine string) *corev1.Node {
	env.Helper()
	return harness.Find[corev1.Node](env.Cluster, client.ObjectKey{Name: "node-" + machine})
}

// change changes an object as a user would.
func change[T client.Object](env *env, o T, change func(T)) {
	env.Helper()
	harness.Edit(env.Cluster, o, change)
}

// changeSpec changes the deployment and its generation.
func (env *env) changeSpec(what func(*machinev1.MachineDeployment)) {
	env.Helper()
	change(env, env.deployment(), func(d *machinev1.MachineDeployment) {
		d.Generation++
		what(d)
	})
}

func class(name string) func(*machinev1.MachineDeployment) {
	return func(d *machinev1.MachineDeployment) { d.Spec.Template.Spec.Class.Name = name }
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
