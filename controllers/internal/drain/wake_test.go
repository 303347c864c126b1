package drain

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// recorder is a queue that only remembers.
type recorder struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	added []string
}

func (r *recorder) Add(q reconcile.Request) { r.added = append(r.added, q.Name) }

func TestWake(t *testing.T) {
	t.Parallel()
	w := newEnv(t, objects(disk("v1"), pod("a"), pod("b"), pod("v", claiming("v1")))...)
	w.attach("v1")
	w.stay = true
	machines := func(_ context.Context, node string) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "machine-of-" + node}}}
	}
	pods, attachments := w.drainer.PodHandler(machines), w.drainer.AttachmentHandler(machines)
	q := &recorder{}
	check := func(why string, woken bool) {
		t.Helper()
		want := []string(nil)
		if woken {
			want = []string{"machine-of-n"}
		}
		if !slices.Equal(q.added, want) {
			t.Errorf("%s: woken %v, want %v", why, q.added, want)
		}
		q.added = nil
	}
	gone := func(p *corev1.Pod) { pods.Delete(t.Context(), event.TypedDeleteEvent[*corev1.Pod]{Object: p}, q) }
	added := func(p *corev1.Pod) { pods.Create(t.Context(), event.TypedCreateEvent[*corev1.Pod]{Object: p}, q) }

	added(pod("x"))
	gone(pod("a"))
	check("nobody drains the node yet", false)
	w.pass()
	gone(pod("a"))
	check("others are still awaited", false)
	gone(pod("v", claiming("v1")))
	check("a pod with volumes is awaited alone", true)
	gone(pod("b"))
	check("the last one", true)
	added(pod("x"))
	check("a pod that came later", true)
	added(pod("y", ownedBy("DaemonSet")))
	check("a pod that stays", false)
	waiting := pod("z")
	waiting.Spec.NodeName = ""
	pods.Update(t.Context(), event.TypedUpdateEvent[*corev1.Pod]{ObjectOld: waiting, ObjectNew: pod("z")}, q)
	check("a pod that was bound to the node", true)
	pods.Update(t.Context(), event.TypedUpdateEvent[*corev1.Pod]{ObjectOld: pod("z"), ObjectNew: pod("z", prio(1))}, q)
	check("a pod that changed", false)

	attachments.Create(t.Context(), event.TypedCreateEvent[*storagev1.VolumeAttachment]{Object: attachment("v1", "m",
		true)}, q)
	check("an attachment of an awaited volume", true)
	attachments.Update(t.Context(), event.TypedUpdateEvent[*storagev1.VolumeAttachment]{ObjectOld: attachment("v1", "m",
		false), ObjectNew: attachment("v1", "m", true)}, q)
	check("an awaited volume is attached", true)
	attachments.Update(t.Context(), event.TypedUpdateEvent[*storagev1.VolumeAttachment]{ObjectOld: attachment("v1", "m",
		true), ObjectNew: attachment("v1", "m", true)}, q)
	check("nothing changed", false)
	attachments.Delete(t.Context(), event.TypedDeleteEvent[*storagev1.VolumeAttachment]{Object: attachment("v9", "m",
		true)}, q)
	check("another volume", false)
	inline := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "inline"}}
	attachments.Create(t.Context(), event.TypedCreateEvent[*storagev1.VolumeAttachment]{Object: inline}, q)
	check("an inline volume", false)
}

func TestTrackerForgets(t *testing.T) {
	t.Parallel()
	b := tracker{states: map[string]*nodeState{}}
	state, _ := b.begin("old", epoch, epoch)
	b.end(state, awaited{})
	state, _ = b.begin("new", epoch, epoch.Add(forgetAfter+time.Second))
	b.end(state, awaited{})
	if b.states["old"] != nil || b.states["new"] == nil {
		t.Errorf("states %v, want the old one forgotten", b.states)
	}
	again, _ := b.begin("new", epoch.Add(time.Minute), epoch.Add(2*forgetAfter))
	if again == state {
		t.Error("another drain of the node must not inherit the count of refusals")
	}
}

func TestVolumesChanged(t *testing.T) {
	t.Parallel()
	a, b := node(), node()
	b.Status.VolumesAttached = []corev1.AttachedVolume{{Name: "x"}}
	if VolumesChanged(a, a.DeepCopy()) || !VolumesChanged(a, b) {
		t.Error("only a change of the attached volumes counts")
	}
}
