package node

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

// An env is a control cluster, a target cluster and what the API server of the
// latter says, which is newer than the cache.
type env struct {
	*harness.Env                  // the control cluster
	rest         *harness.Cluster // the target's cache
	live         *harness.Cluster
	controller   *Controller

	cached *corev1.Node // what the target's cache still shows; nil: it is up to date
	fail   error        // of the next write to the target
}

func newEnv(t *testing.T, objects ...client.Object) *env {
	t.Helper()
	var nodes, others []client.Object
	for _, o := range objects {
		if _, ok := o.(*corev1.Node); ok {
			nodes = append(nodes, o)
		} else {
			others = append(others, o)
		}
	}
	w := &env{Env: harness.New(t, harness.At(epoch), harness.With(others...), harness.Indexed(index.Control()))}
	ofTarget := []harness.Option{harness.With(nodes...), harness.Indexed(index.Target())}
	w.live = w.NewCluster(ofTarget...)
	w.rest = w.NewCluster(append(ofTarget, harness.Answered(interceptor.Funcs{Get: w.read}))...)
	w.rest.Fault = func(harness.Request) error {
		err := w.fail
		w.fail = nil
		return err
	}
	w.controller = New(Deps{
		Client: w.Client, Target: &target.Cluster{Client: w.rest.Client, Live: w.live.Client}, Clock: w.Clock,
		Events: w.Events, MachineCreationTimeout: 20 * time.Minute,
	})
	return w
}

func (w *env) read(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
	opts ...client.GetOption,
) error {
	if node, ok := o.(*corev1.Node); ok && w.cached != nil {
		w.cached.DeepCopyInto(node)
		return nil
	}
	return c.Get(ctx, key, o, opts...)
}

// writes are what the last pass has written to the target, "node" or a subresource.
func (w *env) writes() []string {
	var all []string
	for _, r := range w.rest.Writes() {
		kind := cmp.Or(r.Subresource, "node")
		if strings.Contains(r.Body, "resourceVersion") {
			kind += " locked"
		}
		all = append(all, kind)
	}
	return all
}

func (w *env) reconcile() reconcile.Result {
	w.Helper()
	r, err := w.try()
	w.Must(err)
	return r
}

func (w *env) try() (reconcile.Result, error) {
	w.rest.Forget()
	return w.Try(w.controller, client.ObjectKey{Name: "n"})
}

func (w *env) node() *corev1.Node {
	w.Helper()
	return harness.Get[corev1.Node](w.rest, client.ObjectKey{Name: "n"})
}

// deleted reports whether a Machine is being deleted or gone.
func (w *env) deleted(name string) bool {
	w.Helper()
	m := harness.Find[machinev1.Machine](w.Cluster, client.ObjectKey{Namespace: "ns", Name: name})
	return m == nil || !m.DeletionTimestamp.IsZero()
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
	w.Helper()
	e := event.TypedDeleteEvent[*corev1.Node]{Object: w.node(), DeleteStateUnknown: how == missed}
	w.controller.nodeHandler().Delete(w.Context(), e, &recorder{})
	for _, c := range []*harness.Cluster{w.rest, w.live} {
		if c == w.live && !alsoLive {
			return
		}
		n := harness.Get[corev1.Node](c, client.ObjectKey{Name: "n"})
		c.RemoveFinalizers(n)
		w.Must(client.IgnoreNotFound(c.Raw.Delete(w.Context(), n)))
	}
}

func (w *env) hear(why, want string) {
	w.Helper()
	if all := w.Heard(); !slices.ContainsFunc(all, func(e string) bool { return strings.Contains(e, want) }) {
		w.Errorf("%s: events %q, want one with %q", why, all, want)
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

// onVM and ofVM give a Node and its Machine a VM.
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
