package mirror

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/apiserver"
)

// TestLikeARealServer does the same random operations to the model and to a real
// API server, and wants the same answers.
func TestLikeARealServer(t *testing.T) {
	t.Parallel()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	c := cluster.ForTest(t, cluster.Options{Manifests: []string{filepath.Join(root, "config", "crd")}})
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, machinev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	config := c.Config()
	config.QPS = -1
	actual, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	const operations = 1200
	p := &pair{
		T: t, rng: rand.New(rand.NewPCG(7, 7)), real: actual,
		model: newModel(scheme),
	}
	for i := range operations {
		p.step(i)
		if t.Failed() {
			t.Log(strings.Join(p.history[max(len(p.history)-60, 0):], "\n"))
			return
		}
	}
	t.Logf("%d operations of %d kinds were answered alike: %v", operations, len(p.done), p.done)
}

func newModel(scheme *runtime.Scheme) client.Client {
	uids := 0
	s := apiserver.New(time.Now, func() types.UID { uids++; return types.UID(fmt.Sprint("uid-", uids)) })
	machines := machinev1.GroupVersion
	s.Serve(apiserver.Kind{
		GVK: machines.WithKind("Machine"), Resource: machines.WithResource("machines").GroupResource(), Namespaced: true,
		Status: true, Generation: true,
	}, &machinev1.Machine{}, &machinev1.MachineList{})
	s.Serve(apiserver.Kind{
		GVK: corev1.SchemeGroupVersion.WithKind("Secret"), Resource: corev1.Resource("secrets"), Namespaced: true,
	}, &corev1.Secret{}, &corev1.SecretList{})
	s.Serve(apiserver.Kind{
		GVK: corev1.SchemeGroupVersion.WithKind("Node"), Resource: corev1.Resource("nodes"), Status: true, KeepsStatus: true,
	}, &corev1.Node{}, &corev1.NodeList{})
	s.Serve(apiserver.Kind{
		GVK: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: corev1.Resource("pods"), Namespaced: true, Status: true,
		KeepsStatus: true, Grace: true,
	}, &corev1.Pod{}, &corev1.PodList{})
	return &Client{Server: s, Schema: scheme, Wire: func(_ context.Context, _ Call, effect func(string) error) error {
		return effect("test")
	}}
}

// pair is a real server and the model of one, to which the same is done.
type pair struct {
	*testing.T
	rng         *rand.Rand
	real, model client.Client
	known       [][2]client.Object // versions of objects that were answered, of both
	done        map[string]int
	history     []string // what was done, for people who look for a difference
}

// step does one random operation to both.
func (p *pair) step(i int) {
	p.Helper()
	name := fmt.Sprintf("o-%d", p.rng.IntN(3))
	operations := []struct {
		name string
		do   func(string) (operation, bool)
	}{
		{"create", p.create},
		{"create", p.create},
		{"update", p.update},
		{"update status", p.updateStatus},
		{"merge patch", p.mergePatch},
		{"locked merge patch", p.lockedPatch},
		{"status patch", p.statusPatch},
		{"finalizer off", p.dropFinalizer},
		{"delete", p.deleteIt},
		{"delete with preconditions", p.deleteExactly},
		{"strategic status patch", p.strategicPatch},
		{"get", p.get},
		{"evict", p.evict},
	}
	chosen := operations[p.rng.IntN(len(operations))]
	o, possible := chosen.do(name)
	if !possible {
		return
	}
	var errs [2]error
	var objects [2]client.Object
	for side, c := range []client.Client{p.real, p.model} {
		objects[side], errs[side] = o(p.Context(), c, side)
	}
	if p.done == nil {
		p.done = map[string]int{}
	}
	p.done[chosen.name]++
	p.history = append(p.history, fmt.Sprintf("%d: %s of %T %s: %s, versions %s and %s, deletion %v and %v", i,
		chosen.name, objects[0], client.ObjectKeyFromObject(objects[0]),
		reason(errs[0]), objects[0].GetResourceVersion(), objects[1].GetResourceVersion(),
		objects[0].GetDeletionTimestamp(), objects[1].GetDeletionTimestamp()))
	if got, want := reason(errs[1]), reason(errs[0]); got != want {
		p.Errorf("step %d, %s of %T %s: the model answers %q (%v), the real server %q (%v)", i, chosen.name, objects[0], name,
			got, errs[1], want, errs[0])
		return
	}
	if errs[0] != nil {
		return
	}
	if diff := cmp.Diff(plain(objects[0]), plain(objects[1]), cmpopts.EquateEmpty()); diff != "" {
		p.Errorf("step %d, %s of %T %s: the model (+) answers something else than the real server (-):\n%s", i, chosen.name,
			objects[0], name, diff)
	}
	p.known = append(p.known, [2]client.Object{clone(objects[0]), clone(objects[1])})
	if len(p.known) > 40 {
		p.known = p.known[20:]
	}
}

// operation does something with a client. side is 0 on the real server.
type operation func(ctx context.Context, c client.Client, side int) (client.Object, error)

// reason of an error, "" for none.
func reason(err error) string {
	if err == nil {
		return ""
	}
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		return err.Error()
	}
	return fmt.Sprint(status.Status().Code, " ", apierrors.ReasonForError(err))
}

// plain is what must be equal of two objects.
func plain(o client.Object) client.Object {
	out := clone(o)
	gone := !out.GetDeletionTimestamp().IsZero()
	out.SetUID("")
	out.SetResourceVersion("")
	out.SetCreationTimestamp(metav1.Time{})
	out.SetManagedFields(nil)
	out.SetDeletionTimestamp(nil)
	if gone {
		out.SetDeletionTimestamp(&metav1.Time{})
	}
	out.GetObjectKind().SetGroupVersionKind(o.GetObjectKind().GroupVersionKind().GroupVersion().WithKind(""))
	switch out := out.(type) {
	case *corev1.Node:
		out.Spec.Taints, out.Status = nil, corev1.NodeStatus{Conditions: out.Status.Conditions} // admission and defaults
	case *corev1.Pod:
		out.Generation = 0
		out.Spec, out.Status = corev1.PodSpec{NodeName: out.Spec.NodeName}, corev1.PodStatus{Phase: corev1.PodPending}
	case *corev1.Secret:
		out.Type = ""
	}
	return out
}

func clone(o client.Object) client.Object { return o.DeepCopyObject().(client.Object) }

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }

func (p *pair) create(name string) (operation, bool) {
	var o client.Object
	switch p.rng.IntN(4) {
	case 0:
		m := &machinev1.Machine{ObjectMeta: meta(name)}
		m.Spec.Class = machinev1.ClassSpec{Kind: "MachineClass", Name: fmt.Sprint("class-", p.rng.IntN(3))}
		m.Status.LastKnownState = "is dropped"
		o = m
	case 1:
		o = &corev1.Secret{ObjectMeta: meta(name), Data: map[string][]byte{"a": []byte(fmt.Sprint(p.rng.IntN(3)))}}
	case 2:
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
		o = n
	default:
		o = &corev1.Pod{ObjectMeta: meta(name), Spec: corev1.PodSpec{
			NodeName:   "elsewhere",
			Containers: []corev1.Container{{Name: "c", Image: "i"}},
		}}
	}
	if p.rng.IntN(3) == 0 {
		o.SetFinalizers([]string{"example.com/a", "example.com/b"}[:1+p.rng.IntN(2)])
	}
	return func(ctx context.Context, c client.Client, _ int) (client.Object, error) {
		own := clone(o)
		return own, c.Create(ctx, own)
	}, true
}

// pick returns a version of an object that both have answered; it may be old.
func (p *pair) pick() ([2]client.Object, bool) {
	if len(p.known) == 0 {
		return [2]client.Object{}, false
	}
	i := len(p.known) - 1 - min(p.rng.IntN(len(p.known)), p.rng.IntN(len(p.known)))
	return p.known[i], true
}

// change returns a random change of what a user may change.
func (p *pair) change() func(client.Object) {
	n, which := p.rng.IntN(4), p.rng.IntN(4)
	return func(o client.Object) {
		switch which {
		case 0:
			o.SetLabels(map[string]string{"n": fmt.Sprint(n)})
		case 1:
			o.SetAnnotations(map[string]string{"n": fmt.Sprint(n), "m": "x"})
		case 2:
			if m, ok := o.(*machinev1.Machine); ok {
				m.Spec.ProviderID = fmt.Sprint("sim:///", n)
				m.Status.LastKnownState = fmt.Sprint(n)
			}
			if s, ok := o.(*corev1.Secret); ok {
				s.Data = map[string][]byte{"a": []byte(fmt.Sprint(n))}
			}
		case 3: // nothing
		}
	}
}

// changed applies a change to what was picked with an operation of both sides.
func (p *pair) changed(change func(client.Object), send func(ctx context.Context, c client.Client, before,
	after client.Object) error,
) (operation, bool) {
	picked, ok := p.pick()
	return func(ctx context.Context, c client.Client, side int) (client.Object, error) {
		after := clone(picked[side])
		change(after)
		return after, send(ctx, c, clone(picked[side]), after)
	}, ok
}

func (p *pair) update(string) (operation, bool) {
	unlocked := p.rng.IntN(4) == 0
	return p.changed(p.change(), func(ctx context.Context, c client.Client, _, after client.Object) error {
		if _, isMachine := after.(*machinev1.Machine); unlocked && !isMachine {
			after.SetResourceVersion("") // kinds of CRDs want one
		}
		return c.Update(ctx, after)
	})
}

// statusChange always changes something: what becomes of an update that changes
// nothing depends on managed fields, which the model does not have.
func (p *pair) statusChange() func(client.Object) {
	n := p.rng.Uint32()
	return func(o client.Object) {
		switch o := o.(type) {
		case *machinev1.Machine:
			o.Status.LastKnownState = fmt.Sprint(n)
			o.Spec.ProviderID = "is dropped"
		case *corev1.Node:
			o.Status.Conditions = []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue,
				Reason: fmt.Sprint("R", n),
			}}
		}
	}
}

func hasStatus(o client.Object) bool {
	switch o.(type) {
	case *machinev1.Machine, *corev1.Node:
		return true
	}
	return false
}

func (p *pair) updateStatus(string) (operation, bool) {
	o, ok := p.ofStatus(func(ctx context.Context, c client.Client, _, after client.Object) error {
		return c.Status().Update(ctx, after)
	})
	return o, ok
}

func (p *pair) ofStatus(send func(ctx context.Context, c client.Client, before, after client.Object) error) (operation,
	bool,
) {
	kept := p.known
	defer func() { p.known = kept }()
	p.known = slices.DeleteFunc(slices.Clone(kept), func(k [2]client.Object) bool { return !hasStatus(k[0]) })
	return p.changed(p.statusChange(), send)
}

func (p *pair) mergePatch(string) (operation, bool) {
	return p.changed(p.change(), func(ctx context.Context, c client.Client, before, after client.Object) error {
		return c.Patch(ctx, after, client.MergeFrom(before))
	})
}

func (p *pair) lockedPatch(string) (operation, bool) {
	return p.changed(p.change(), func(ctx context.Context, c client.Client, before, after client.Object) error {
		return c.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
}

func (p *pair) statusPatch(string) (operation, bool) {
	return p.ofStatus(func(ctx context.Context, c client.Client, before, after client.Object) error {
		return c.Status().Patch(ctx, after, client.MergeFrom(before))
	})
}

func (p *pair) strategicPatch(string) (operation, bool) {
	return p.ofStatus(func(ctx context.Context, c client.Client, before, after client.Object) error {
		if _, isNode := after.(*corev1.Node); !isNode {
			return c.Status().Patch(ctx, after, client.MergeFrom(before))
		}
		return c.Status().Patch(ctx, after, client.StrategicMergeFrom(before))
	})
}

func (p *pair) dropFinalizer(string) (operation, bool) {
	picked, ok := p.pick()
	if !ok || len(picked[0].GetFinalizers()) == 0 {
		return nil, false
	}
	at := p.rng.IntN(len(picked[0].GetFinalizers()))
	name := picked[0].GetFinalizers()[at]
	patch := fmt.Appendf(nil, `[{"op":"test","path":"/metadata/finalizers/%d","value":%q},{"op":"remove",`+
		`"path":"/metadata/finalizers/%d"}]`, at, name, at)
	return func(ctx context.Context, c client.Client, side int) (client.Object, error) {
		o := clone(picked[side])
		return o, c.Patch(ctx, o, client.RawPatch(types.JSONPatchType, patch))
	}, true
}

func (p *pair) deleteIt(string) (operation, bool) {
	picked, ok := p.pick()
	now := p.rng.IntN(2) == 0
	return func(ctx context.Context, c client.Client, side int) (client.Object, error) {
		o := clone(picked[side])
		var opts []client.DeleteOption
		if _, isPod := o.(*corev1.Pod); isPod && now {
			opts = append(opts, client.GracePeriodSeconds(0))
		}
		return o, c.Delete(ctx, o, opts...)
	}, ok
}

func (p *pair) deleteExactly(string) (operation, bool) {
	picked, ok := p.pick()
	version := p.rng.IntN(2) == 0
	return func(ctx context.Context, c client.Client, side int) (client.Object, error) {
		o := clone(picked[side])
		uid, rv := o.GetUID(), o.GetResourceVersion()
		preconditions := client.Preconditions{UID: &uid}
		if version {
			preconditions.ResourceVersion = &rv
		}
		return o, c.Delete(ctx, o, preconditions)
	}, ok
}

func (p *pair) evict(string) (operation, bool) {
	pods := slices.DeleteFunc(slices.Clone(p.known), func(k [2]client.Object) bool {
		_, isPod := k[0].(*corev1.Pod)
		return !isPod
	})
	if len(pods) == 0 {
		return nil, false
	}
	picked := pods[p.rng.IntN(len(pods))]
	return func(ctx context.Context, c client.Client, side int) (client.Object, error) {
		pod := clone(picked[side])
		meta := metav1.ObjectMeta{Namespace: pod.GetNamespace(), Name: pod.GetName()}
		return pod, c.SubResource("eviction").Create(ctx, &corev1.Pod{ObjectMeta: meta}, &policyv1.Eviction{
			ObjectMeta: meta, DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(
				string(pod.GetUID()))},
		})
	}, true
}

func (p *pair) get(string) (operation, bool) {
	picked, ok := p.pick()
	return func(ctx context.Context, c client.Client, side int) (client.Object, error) {
		o := clone(picked[side])
		return o, c.Get(ctx, client.ObjectKeyFromObject(o), o)
	}, ok
}
