package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

func TestJoinCostsOneWrite(t *testing.T) {
	t.Parallel()
	m := machine(template(labels("a", "x")))
	w := newEnv(t, node(), m, virtual())
	w.reconcile()
	if want := []string{"node"}; !slices.Equal(w.writes(), want) {
		t.Errorf("writes %q, want %q", w.writes(), want)
	}
	if n := w.node(); n.Labels["a"] != "x" || n.Labels[machinev1.MachineNameLabel] != "m" ||
		!slices.Contains(n.Finalizers, machinev1.NodeFinalizer) {
		t.Errorf("node %+v", n.ObjectMeta)
	}
	w.reconcile()
	if len(w.writes()) > 0 || len(w.Heard()) > 0 {
		t.Errorf("writes %q on a node that is in step", w.writes())
	}
}

func TestTaintsAreWrittenUnderLock(t *testing.T) {
	t.Parallel()
	m := machine(template(machinev1.NodeTemplateSpec{Spec: corev1.NodeSpec{Taints: []corev1.Taint{taint("a", "",
		corev1.TaintEffectNoSchedule)}}}))
	w := newEnv(t, node(), m, virtual())
	w.fail = apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "n", errors.New("changed"))
	if r := w.reconcile(); r.RequeueAfter == 0 || !slices.Equal(w.writes(), []string{"node locked"}) {
		t.Errorf("%+v after %q; a list that somebody else changed must be read again", r, w.writes())
	}
	w.reconcile()
	if len(w.node().Spec.Taints) != 1 {
		t.Error("the taint is not there after the second try")
	}
}

func TestOthersFinalizersSurviveAStaleCache(t *testing.T) {
	t.Parallel()
	w := newEnv(t, node(), machine(), virtual())
	o, err := w.controller.observe(t.Context(), "n")
	if err != nil {
		t.Fatal(err)
	}
	n := w.node()
	n.Finalizers = []string{"other/one"}
	w.Must(w.rest.Raw.Update(t.Context(), n))
	if _, err := w.controller.act(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	got := w.node().Finalizers
	slices.Sort(got)
	if want := []string{machinev1.NodeFinalizer, "other/one"}; !slices.Equal(got, want) {
		t.Errorf("finalizers %v, want %v", got, want)
	}
	w.cached = o.node
	if r := w.reconcile(); r.RequeueAfter == 0 || len(w.writes()) > 0 {
		t.Errorf("%+v, writes %q; a node older than our own write must not be judged", r, w.writes())
	}
}

func TestCapacityAndTaintsOfOnePass(t *testing.T) {
	t.Parallel()
	gone := taint("gone", "", corev1.TaintEffectNoSchedule)
	w := newEnv(t, node(owned, tainted(gone),
		note(templateNote, `{"spec":{"taints":[{"key":"gone","effect":"NoSchedule"}]}}`)),
		machine(), virtual("x.com/dongle", "4"))
	w.reconcile()
	if want := []string{"status", "node locked"}; !slices.Equal(w.writes(), want) {
		t.Errorf("writes %q, want %q", w.writes(), want)
	}
	n := w.node()
	if q := n.Status.Capacity["x.com/dongle"]; q.Value() != 4 || len(n.Spec.Taints) != 0 ||
		n.Annotations[capacityNote] == "" {
		t.Errorf("capacity %v, taints %v, annotations %v; neither may be lost for the other", n.Status.Capacity,
			n.Spec.Taints, n.Annotations)
	}
	harness.Edit(w.Cluster, virtual(), func(c *machinev1.MachineClass) { c.NodeTemplate.VirtualCapacity = nil })
	w.reconcile()
	n = w.node()
	if _, still := n.Status.Capacity["x.com/dongle"]; still || n.Annotations[capacityNote] != "" ||
		len(n.Status.Capacity) != 1 {
		t.Errorf("capacity %v, annotations %v; want what the class took away to be gone", n.Status.Capacity, n.Annotations)
	}
	if w.reconcile(); len(w.writes()) > 0 {
		t.Errorf("writes %q on a node that is in step", w.writes())
	}
}

func TestCrashBetweenCapacityAndNote(t *testing.T) {
	t.Parallel()
	w := newEnv(t, node(owned, holding("x.com/old", "1"), note(capacityNote, `{"x.com/old":"1"}`)), machine(),
		virtual("x.com/new", "1"))
	o, err := w.controller.observe(t.Context(), "n")
	if err != nil {
		t.Fatal(err)
	}
	want, _ := desired(o.node, o.machine(), virtual("x.com/new", "1"))
	if _, err := w.controller.writeCapacity(t.Context(), o.node, want); err != nil {
		t.Fatal(err)
	}
	w.reconcile()
	n := w.node()
	if _, still := n.Status.Capacity["x.com/old"]; still || n.Annotations[capacityNote] != `{"x.com/new":"1"}` ||
		!slices.Equal(w.writes(), []string{"node"}) {
		t.Errorf("capacity %v, note %q, writes %q; want the interrupted work finished", n.Status.Capacity,
			n.Annotations[capacityNote], w.writes())
	}
}

func TestRefusedNodeIsSaid(t *testing.T) {
	t.Parallel()
	w := newEnv(t, node(), machine(), virtual())
	w.fail = apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "n", nil)
	if _, err := w.try(); err == nil {
		t.Error("no error, so nothing tries again")
	}
	w.hear("the API server refuses the node", "Warning NodeRefused")
}

func TestBrokenNoteIsSaidOnce(t *testing.T) {
	t.Parallel()
	w := newEnv(t, node(note(templateNote, "{{")), machine(), virtual())
	w.reconcile()
	w.hear("the note cannot be read", "Warning InvalidAnnotation annotation "+templateNote)
	w.reconcile()
	if all := w.Heard(); len(all) > 0 {
		t.Errorf("events %q on a node that was corrected", all)
	}
}

func TestNodeDeletion(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason  string
		objects []client.Object
		see     bool // the node while it is there
		lost    loss // how the cache loses it
		gone    bool // it is not there
		want    bool // the machine is deleted
		writes  int
	}{
		"Deleting": {
			"Who deletes the Node means the machine.",
			[]client.Object{node(owned, deletedAt(epoch.Add(time.Hour))), machine()},
			false, "", false, true, 0,
		},
		"NotManaged": {
			"A node that is marked as somebody else's takes nobody along.",
			[]client.Object{node(owned, note(machinev1.NotManagedAnnotation, "1"), deletedAt(epoch.Add(time.Hour))), machine()},
			false, "", false, false, 0,
		},
		"OldNode": {
			"A Node that was deleted before the machine was made is that of another one.",
			[]client.Object{node(owned, deletedAt(epoch.Add(-time.Hour))), machine()},
			false, "", false, false, 0,
		},
		"OtherVM": {
			"A Node of another VM, by the same name, takes nobody along.",
			[]client.Object{
				node(owned, onVM("sim:///zone/b"), deletedAt(epoch.Add(time.Hour))),
				machine(ofVM("sim:///region/a")),
			},
			false, "", false, false, 0,
		},
		"OtherForm": {
			"The cloud's controller manager writes the same VM in another form.",
			[]client.Object{
				node(owned, onVM("sim:///zone/a"), deletedAt(epoch.Add(time.Hour))),
				machine(ofVM("sim:///region/a")),
			},
			false, "", false, true, 0,
		},
		"Seen": {
			"A Node that we saw, and whose deletion we saw, was deleted.",
			[]client.Object{node(), machine()},
			true, observed,
			true, true, 0,
		},
		"Missed": {
			"A Node that is not in the next list may have been lost with a backup.",
			append(neighbour(), node(), machine(joined)), true, missed, true, false, 0,
		},
		"Stale": {
			"The cache alone proves nothing.", append(neighbour(), node(), machine(joined)), true, observed, false,
			false, 0,
		},
		"AfterRestart": {
			"A Node that is missing at the start may have been lost with a backup.",
			append(neighbour(), node(), machine(joined)), false, missed, true, false, 0,
		},
		"NotJoined": {
			"A machine that boots has no Node yet.", append(neighbour(), node(), machine()), false, observed, true,
			false, 0,
		},
		"WrongCluster": {
			"No node of ours is there: this is not our target cluster.",
			[]client.Object{node(), machine(joined)},
			false, missed, true, false, 0,
		},
		"SeenByAnother": {
			"A new machine of an old node name has not joined.",
			append(neighbour(), node(), machine(), machine(named("old"), dying)), true, observed, true, false, 0,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, append(tc.objects, virtual())...)
			if tc.see {
				w.reconcile()
			}
			if tc.lost != "" {
				w.lose(tc.lost, tc.gone)
			}
			w.reconcile()
			if got := w.deleted("m"); got != tc.want {
				t.Errorf("machine deleted: %v, want %v: %s", got, tc.want, tc.reason)
			}
			if len(w.writes()) != tc.writes {
				t.Errorf("writes %q: %s", w.writes(), tc.reason)
			}
			switch {
			case tc.want:
				w.hear(tc.reason, "Normal NodeDeleted")
			case tc.lost == missed:
				w.hear(tc.reason, "Warning NodeMissing")
			}
		})
	}
}

func TestUnreachableTargetDeletesNothing(t *testing.T) {
	t.Parallel()
	w := newEnv(t, node(), machine(joined), virtual())
	w.reconcile()
	w.lose(observed, true)
	w.controller.Target.Live = interceptor.NewClient(w.live.Client, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("no route to host")
		},
	})
	if _, err := w.try(); err == nil || w.deleted("m") {
		t.Errorf("error %v, machine deleted: %v; an API server that does not answer says nothing", err, w.deleted("m"))
	}
}

func TestSharedNodeIsNobodys(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]*corev1.Node{
		"There":    node(),
		"Deleting": node(owned, deletedAt(epoch.Add(time.Hour))),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, n, machine(joined), machine(named("other"), joined), virtual())
			w.reconcile()
			if len(w.writes()) > 0 || w.deleted("m") || w.deleted("other") {
				t.Errorf("writes %q, deleted %v %v; want the node left alone", w.writes(), w.deleted("m"), w.deleted("other"))
			}
			if all := w.Heard(); len(all) != 2 ||
				!strings.Contains(all[0], "NodeShared label node: 2 Machines name node n (ns/m, ns/other)") {
				t.Errorf("events %q, want one on each Machine", all)
			}
		})
	}
}

func TestDyingMachineKeepsItsNode(t *testing.T) {
	t.Parallel()
	w := newEnv(t, node(owned), machine(dying, template(labels("a", "x"))), virtual())
	w.reconcile()
	if len(w.writes()) > 0 || !slices.Contains(w.node().Finalizers, machinev1.NodeFinalizer) {
		t.Errorf("writes %q; the machine's own deletion lets the node go", w.writes())
	}
}
