package drain

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
)

func TestWhichPodsLeave(t *testing.T) {
	t.Parallel()
	mirror := func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }
	cases := map[string]struct {
		reason string
		pod    *corev1.Pod
		want   []string
	}{
		"Plain":     {"A pod of a ReplicaSet comes back elsewhere.", pod("p", ownedBy("ReplicaSet")), []string{"evict p"}},
		"Unmanaged": {"MCM removes pods that nobody brings back, too.", pod("p"), []string{"evict p"}},
		"EmptyDir": {"Local data does not survive the machine anyway.", pod("p", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{
				Name:         "e",
				VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
			}}
		}), []string{"evict p"}},
		"Finished": {"A finished pod is evicted like others.", pod("p", func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodSucceeded
		}), []string{"evict p"}},
		"Mirror":    {"A mirror pod is only the image of a static one.", pod("p", mirror), nil},
		"DaemonSet": {"A DaemonSet's pod would be back at once.", pod("p", ownedBy("DaemonSet")), nil},
		"Elsewhere": {"Pods of other nodes are no business of this drain.", pod("p", func(p *corev1.Pod) {
			p.Spec.NodeName = "m"
		}), nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, tc.pod)
			r, got := w.pass()
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("calls: %s: %s", diff, tc.reason)
			}
			if r.Done != (tc.want == nil) {
				t.Errorf("Drain() = %+v: %s", r, tc.reason)
			}
			if r, _ := w.pass(); !r.Done || r.Reason != machinev1.ReasonDrained {
				t.Errorf("second pass: %+v, want done: %s", r, tc.reason)
			}
		})
	}
}

func TestNodeIsGone(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	r, err := w.drainer.Drain(t.Context(), Request{Started: epoch})
	if err != nil || !r.Done || r.Reason != machinev1.ReasonNodeNotFound {
		t.Errorf("Drain() = %+v, %v; want done, since there is no node", r, err)
	}
}

func TestTerminatingPodIsAwaited(t *testing.T) {
	t.Parallel()
	w := newEnv(t, pod("p", terminatingAt(epoch.Add(10*time.Second))))
	r, calls := w.pass()
	if r.Done || calls != nil || r.Reason != machinev1.ReasonDraining {
		t.Fatalf("Drain() = %+v with %v; a pod that ends by itself is only awaited", r, calls)
	}
	w.Advance(45 * time.Second)
	if r, _ = w.pass(); r.Reason != ReasonPodOverdue || !strings.Contains(r.Message, "d/p") {
		t.Errorf("Drain() = %+v; a pod that outlives its grace period must be named", r)
	}
	w.end("p")
	if r, _ = w.pass(); !r.Done {
		t.Errorf("Drain() = %+v, want done", r)
	}
}

func TestStaleCacheDoesNotEvictTwice(t *testing.T) {
	t.Parallel()
	w := newEnv(t, pod("p"))
	w.stay = true
	w.pass()
	w.Advance(time.Second)
	if r, calls := w.pass(); calls != nil || r.Wait != 19*time.Second {
		t.Errorf("second pass: %v, %+v; want no call, and a look when the eviction may be repeated", calls, r)
	}
	w.Advance(19 * time.Second)
	if _, calls := w.pass(); !slices.Equal(calls, []string{"evict p"}) {
		t.Errorf("after 20 s: %v; an eviction without effect is repeated", calls)
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	w := newEnv(t, pod("p"))
	w.answer = denied
	w.request.Timeout = 10 * time.Second
	if r, _ := w.pass(); r.Wait != 10*time.Second {
		t.Errorf("Drain() = %+v; want a look at the deadline, not after it", r)
	}
	w.Advance(10 * time.Second)
	r, calls := w.pass()
	if r.Done || r.Reason != machinev1.ReasonDrainTimedOut || calls != nil {
		t.Errorf("Drain() = %+v with %v; a deadline with pods left is no success, and deletes nothing", r, calls)
	}
	w.request.Force = true
	if r, calls = w.pass(); !r.Done || !slices.Equal(calls, []string{"delete p"}) {
		t.Errorf("Drain() = %+v with %v; want the pod deleted once the caller says so", r, calls)
	}
}

func TestConfirm(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	late := newEnv(t, pod("late"))
	w.drainer = New(Deps{Target: &target.Cluster{Client: w.Client, Live: late.Client}, Clock: w.Clock, Confirm: true})
	if r, _ := w.pass(); r.Done {
		t.Errorf("Drain() = %+v; a pod that the cache has not shown yet must be waited for", r)
	}
	late.end("late")
	if r, _ := w.pass(); !r.Done {
		t.Errorf("Drain() = %+v, want done", r)
	}
	// The cloud does not answer for an hour, and etcd is restored meanwhile.
	if err := late.Client.Create(t.Context(), pod("restored")); err != nil {
		t.Fatal(err)
	}
	if r, _ := w.pass(); r.Done {
		t.Errorf("Drain() = %+v; the node has a pod again", r)
	}
}

func TestSecondWorkerIsTurnedAway(t *testing.T) {
	t.Parallel()
	w := newEnv(t, pod("p"))
	state, _ := w.drainer.tracker.begin("n", epoch, epoch)
	if r, calls := w.pass(); r.Done || calls != nil || r.Wait != busyWait {
		t.Errorf("Drain() = %+v with %v; want to be told to come back", r, calls)
	}
	w.drainer.tracker.end(state, awaited{})
	if _, calls := w.pass(); calls == nil {
		t.Error("no eviction after the other worker has finished")
	}
}

// The message is written to the API server, so it must not follow every pod.
func TestMessageKeepsStill(t *testing.T) {
	t.Parallel()
	w := newEnv(t, pod("a"), pod("b"), pod("c"))
	w.answer = denied
	first, _ := w.pass()
	w.end("a")
	w.Advance(time.Second)
	if second, _ := w.pass(); second.Message != first.Message {
		t.Errorf("message %q, a second after %q", second.Message, first.Message)
	}
	w.Advance(retryInterval)
	if third, _ := w.pass(); strings.Contains(third.Message, "d/a") || !strings.Contains(third.Message, "d/b") {
		t.Errorf("message %q names what has gone, or not what keeps the drain", third.Message)
	}
}

func TestManyPodsCostLinearCalls(t *testing.T) {
	t.Parallel()
	var pods []client.Object
	for i := range 500 {
		pods = append(pods, pod(fmt.Sprintf("p%03d", i)))
	}
	w := newEnv(t, pods...)
	w.stay = true
	_, calls := w.pass()
	if len(calls) != 500 {
		t.Fatalf("%d evictions, want 500 in one pass", len(calls))
	}
	w.Forget()
	woken := 0
	for _, o := range pods {
		if w.drainer.tracker.podGone(o.(*corev1.Pod)) != "" {
			woken++
		}
		w.end(o.GetName())
	}
	if woken != 1 {
		t.Errorf("woken %d times, want once, by the last pod", woken)
	}
	if r, calls := w.pass(); !r.Done || len(calls) != 0 {
		t.Errorf("Drain() = %+v with %d calls, want done", r, len(calls))
	}
}
