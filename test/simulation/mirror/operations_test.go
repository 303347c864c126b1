package mirror

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// operation does something with a client. side is 0 on the real server.
type operation func(ctx context.Context, c client.Client, side int) (client.Object, error)

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
