package drain

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

func objects(groups ...any) []client.Object {
	var all []client.Object
	for _, g := range groups {
		switch g := g.(type) {
		case client.Object:
			all = append(all, g)
		case []client.Object:
			all = append(all, g...)
		}
	}
	return all
}

// expect runs a pass and compares its calls and reason.
func (w *env) expect(why, reason string, calls ...string) Result {
	w.Helper()
	r, got := w.pass()
	if !slices.Equal(got, calls) || r.Reason != reason {
		w.Errorf("%s: calls %v and %+v; want %v and %s", why, got, r, calls, reason)
	}
	return r
}

func TestPodsWithVolumesGoOneByOne(t *testing.T) {
	t.Parallel()
	w := newEnv(t, objects(disk("v1"), disk("v2"), attachment("v2", "n", true),
		pod("low", claiming("v1")), pod("top", claiming("v2"), prio(10)), pod("free"))...)
	w.attach("v1", "v2")
	w.stay = true
	w.expect("first", machinev1.ReasonDetachingVolumes, "evict free", "evict top")
	w.stay = false
	w.end("free")
	w.end("top")
	w.expect("pod gone, volume attached", machinev1.ReasonDetachingVolumes)
	w.attach("v1")
	w.expect("detached", ReasonReattachingVolumes)
	w.Create(attachment("v2", "m", false))
	w.expect("attaching", ReasonReattachingVolumes)
	w.Create(&storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "inline"}, Spec: storagev1.VolumeAttachmentSpec{NodeName: "n"},
	})
	w.arrive("v2-m")
	w.expect("attached elsewhere", machinev1.ReasonDetachingVolumes, "evict low")
	w.attach()
	w.expect("last one detached", ReasonReattachingVolumes)
	w.Advance(90 * time.Second)
	r := w.expect("nobody takes the volume", machinev1.ReasonDrained)
	if !r.Done || !strings.Contains(r.Message, "v1 has not been attached to another node in time") {
		t.Errorf("Drain() = %+v, want done with a warning", r)
	}
}

// arrive makes an attachment attached.
func (w *env) arrive(name string) {
	w.Helper()
	va := harness.Get[storagev1.VolumeAttachment](w.Cluster, client.ObjectKey{Name: name})
	va.Status.Attached = true
	w.Must(w.Raw.Status().Update(w.Context(), va))
}

func TestDetachTimesOut(t *testing.T) {
	t.Parallel()
	w := newEnv(t, objects(disk("v1"), disk("v2"), pod("a", claiming("v1")), pod("b", claiming("v2")))...)
	w.attach("v1", "v2")
	w.expect("first", machinev1.ReasonDetachingVolumes, "evict a")
	w.Advance(149 * time.Second)
	w.expect("30 s grace and 2 min are not over", machinev1.ReasonDetachingVolumes)
	w.Advance(time.Second)
	w.expect("too late", machinev1.ReasonDetachingVolumes, "evict b")
	w.Advance(retryInterval)
	r, _ := w.pass()
	if !strings.Contains(r.Message, "pod d/a: PersistentVolume v1 has not been detached in time") {
		t.Errorf("message %q does not name the volume that stayed", r.Message)
	}
}

func TestPodThatDoesNotEndLetsTheNextGo(t *testing.T) {
	t.Parallel()
	w := newEnv(t, objects(disk("v1"), disk("v2"),
		pod("a", claiming("v1"), terminatingAt(epoch.Add(5*time.Second))), pod("b", claiming("v2")))...)
	w.attach("v1", "v2")
	w.expect("somebody deletes a", machinev1.ReasonDetachingVolumes)
	w.Advance(126 * time.Second)
	r := w.expect("a is stuck", ReasonPodOverdue, "evict b")
	if r.Done {
		t.Error("done with a pod left")
	}
}

func TestVolumesThatAreNotAwaited(t *testing.T) {
	t.Parallel()
	foreign := disk("v1")
	foreign[1].(*corev1.PersistentVolume).Spec.CSI.Driver = "nfs"
	unbound := disk("v1")
	unbound[0].(*corev1.PersistentVolumeClaim).Spec.VolumeName = ""
	cases := map[string]struct {
		reason  string
		objects []client.Object
		second  bool // the other pod goes in the second pass
	}{
		"Known":    {"Volumes of the cloud are waited for.", objects(disk("v1"), pod("a", claiming("v1"))), false},
		"Foreign":  {"The cloud does not know the volume.", objects(foreign, pod("a", claiming("v1"))), true},
		"Unbound":  {"A claim without volume has nothing to detach.", objects(unbound, pod("a", claiming("v1"))), true},
		"NoClaim":  {"The claim does not exist.", objects(pod("a", claiming("v1"))), true},
		"NoVolume": {"The volume does not exist.", objects(disk("v1")[0], pod("a", claiming("v1"))), true},
		"Shared": {
			"Another pod of the node keeps the volume attached.",
			objects(disk("v1"), pod("a", claiming("v1")), pod("z", claiming("v1"), ownedBy("DaemonSet"))), true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, objects(tc.objects, disk("v2"), pod("b", claiming("v2")))...)
			w.attach("v1", "v2")
			_, first := w.pass()
			_, second := w.pass()
			if !slices.Equal(first, []string{"evict a"}) || slices.Contains(second, "evict b") != tc.second {
				t.Errorf("calls %v, then %v: %s", first, second, tc.reason)
			}
		})
	}
}

func TestRefusedPodWithVolumeLetsTheNextPass(t *testing.T) {
	t.Parallel()
	w := newEnv(t, objects(disk("v1"), disk("v2"), pod("a", claiming("v1")), pod("b", claiming("v2")))...)
	w.answer = func(pod string) error {
		if pod == "a" {
			return denied(pod)
		}
		return nil
	}
	w.expect("a is kept", machinev1.ReasonEvictionDenied, "evict a", "evict b")
	w.Advance(90 * time.Second)
	w.expect("b's volume is nowhere else", machinev1.ReasonEvictionDenied)
}

func TestZeroTimeoutsDoNotWait(t *testing.T) {
	t.Parallel()
	w := newEnv(t, objects(disk("v1"), pod("a", claiming("v1"), func(p *corev1.Pod) {
		p.Spec.TerminationGracePeriodSeconds = new(int64)
	}))...)
	w.attach("v1")
	w.request.PVDetachTimeout, w.request.PVReattachTimeout, w.request.Timeout, w.request.MaxEvictRetries = 0, 0, 0, 0
	w.expect("evicted", machinev1.ReasonDrainTimedOut, "evict a")
	if r, _ := w.pass(); !r.Done {
		t.Errorf("Drain() = %+v, want done", r)
	}
}

func TestRestartWaitsForVolumesThatAreLeaving(t *testing.T) {
	t.Parallel()
	w := newEnv(t, objects(disk("v1"), disk("v2"), disk("v3"),
		pod("b", claiming("v2")), pod("d", claiming("v3"), ownedBy("DaemonSet")),
		attachment("v1", "n", true), attachment("v2", "n", true), attachment("v3", "n", true))...)
	w.attach("v1", "v2", "v3")
	r := w.expect("v1 belongs to nobody", machinev1.ReasonDetachingVolumes)
	if !strings.Contains(r.Message, "PersistentVolume v1") || strings.Contains(r.Message, "v2") {
		t.Errorf("message %q, want v1 only", r.Message)
	}
	w.attach("v2", "v3")
	w.expect("v1 has left", machinev1.ReasonDetachingVolumes, "evict b")
}

func TestMentions(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason, text, id string
		want             bool
	}{
		"CSI":      {"The handle ends the name.", "kubernetes.io/csi/ebs.csi.aws.com^vol-1", "vol-1", true},
		"InTree":   {"The id may stand behind a path.", "kubernetes.io/aws-ebs/aws://eu-1a/vol-1", "vol-1", true},
		"Disk":     {"A file has a suffix.", "kubernetes.io/vsphere-volume/[ds] k/vol-1.vmdk", "vol-1", true},
		"Longer":   {"vol-12 is another volume.", "kubernetes.io/csi/x^vol-12", "vol-1", false},
		"Later":    {"The first hit need not be the right one.", "vol-12/vol-1", "vol-1", true},
		"Empty":    {"No id names no volume.", "x", "", false},
		"Brackets": {"An id is no pattern.", "a", "[", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := containsID(tc.text, tc.id); got != tc.want {
				t.Errorf("containsID(%q, %q) = %v: %s", tc.text, tc.id, got, tc.reason)
			}
		})
	}
}
