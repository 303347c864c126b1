package node

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
)

// An env is a control cluster, a target cluster and what the API server of the
// latter says, which is newer than the cache.
type env struct {
	t             *testing.T
	control, rest client.WithWatch // rest is the target's cache
	live          client.WithWatch
	controller    *Controller
	clock         *clocktesting.FakePassiveClock
	events        *record.FakeRecorder

	cached *corev1.Node // what the target's cache still shows; nil: it is up to date

	writes []string // to the target, with the kind of write
	fail   error    // of the next write to the target
}

func newEnv(t *testing.T, objects ...client.Object) *env {
	t.Helper()
	w := &env{t: t, clock: clocktesting.NewFakePassiveClock(epoch), events: record.NewFakeRecorder(20)}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, machinev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	build := func(indexes []index.Index, keep func(client.Object) bool) client.WithWatch {
		b := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&corev1.Node{}, &machinev1.Machine{})
		for _, i := range indexes {
			b.WithIndex(i.Object, i.Field, i.Extract)
		}
		for _, o := range objects {
			if keep(o) {
				b.WithObjects(o.DeepCopyObject().(client.Object))
			}
		}
		return b.Build()
	}
	isNode := func(o client.Object) bool { _, ok := o.(*corev1.Node); return ok }
	w.control = build(index.Control(), func(o client.Object) bool { return !isNode(o) })
	w.rest, w.live = build(index.Target(), isNode), build(index.Target(), isNode)
	counted := interceptor.NewClient(w.rest, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption,
		) error {
			if node, ok := o.(*corev1.Node); ok && w.cached != nil {
				w.cached.DeepCopyInto(node)
				return nil
			}
			return c.Get(ctx, key, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption,
		) error {
			return w.write("node", o, p, func() error { return c.Patch(ctx, o, p, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption,
		) error {
			return w.write(sub, o, p, func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
	w.controller = New(Deps{
		Client: w.control, Target: &target.Cluster{Client: counted, Live: w.live}, Clock: w.clock, Events: w.events,
		MachineCreationTimeout: 20 * time.Minute,
	})
	return w
}

func (w *env) write(kind string, o client.Object, p client.Patch, do func() error) error {
	data, err := p.Data(o)
	if err != nil {
		return err
	}
	if strings.Contains(string(data), "resourceVersion") {
		kind += " locked"
	}
	w.writes = append(w.writes, kind)
	if err := w.fail; err != nil {
		w.fail = nil
		return err
	}
	return do()
}

func (w *env) reconcile() reconcile.Result {
	w.t.Helper()
	r, err := w.try()
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *env) try() (reconcile.Result, error) {
	w.t.Helper()
	w.writes = nil
	return w.controller.Reconcile(w.t.Context(), request("n"))
}

func (w *env) node() *corev1.Node {
	w.t.Helper()
	var n corev1.Node
	if err := w.rest.Get(w.t.Context(), client.ObjectKey{Name: "n"}, &n); err != nil {
		w.t.Fatal(err)
	}
	return &n
}

// deleted reports whether a Machine is being deleted or gone.
func (w *env) deleted(name string) bool {
	w.t.Helper()
	var m machinev1.Machine
	err := w.control.Get(w.t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, &m)
	return apierrors.IsNotFound(err) || !m.DeletionTimestamp.IsZero()
}

// A loss is how a cache loses a Node.
type loss string

const (
	observed loss = "observed" // the watch shows its deletion
	missed   loss = "missed"   // the next list does not have it
)

// lose removes the node from the cache, and from the API server unless it is
// only the cache that is wrong.
func (w *env) lose(how loss, alsoLive bool) {
	w.t.Helper()
	e := event.TypedDeleteEvent[*corev1.Node]{Object: w.node(), DeleteStateUnknown: how == missed}
	w.controller.nodeHandler().Delete(w.t.Context(), e, &recorder{})
	for i, c := range []client.Client{w.rest, w.live} {
		if i == 1 && !alsoLive {
			return
		}
		var n corev1.Node
		if err := c.Get(w.t.Context(), client.ObjectKey{Name: "n"}, &n); err != nil {
			w.t.Fatal(err)
		}
		n.Finalizers = nil
		if err := c.Update(w.t.Context(), &n); err != nil {
			w.t.Fatal(err)
		}
		if err := client.IgnoreNotFound(c.Delete(w.t.Context(), &n)); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *env) heard() []string {
	var all []string
	for {
		select {
		case e := <-w.events.Events:
			all = append(all, e)
		default:
			return all
		}
	}
}

func (w *env) hear(why, want string) {
	w.t.Helper()
	if all := w.heard(); !slices.ContainsFunc(all, func(e string) bool { return strings.Contains(e, want) }) {
		w.t.Errorf("%s: events %q, want one with %q", why, all, want)
	}
}

func joined(m *machinev1.Machine) {
	m.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
}

func named(name string) func(*machinev1.Machine) {
	return func(m *machinev1.Machine) { m.Name, m.UID = name, m.UID+"-"+"x" }
}

func dying(m *machinev1.Machine) { m.DeletionTimestamp = new(metav1.NewTime(epoch)) }

func deletedAt(at time.Time) func(*corev1.Node) {
	return func(n *corev1.Node) { n.DeletionTimestamp = new(metav1.NewTime(at)) }
}

// neighbour is a node of the target and its machine.
func onVM(id string) func(*corev1.Node) { return func(n *corev1.Node) { n.Spec.ProviderID = id } }

func ofVM(id string) func(*machinev1.Machine) {
	return func(m *machinev1.Machine) { m.Spec.ProviderID = id }
}

func neighbour() []client.Object {
	return []client.Object{
		node(func(n *corev1.Node) { n.Name = "n2" }),
		machine(named("m2"), func(m *machinev1.Machine) { m.Labels[machinev1.NodeLabel] = "n2" }),
	}
}
