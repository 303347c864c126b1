package explain

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// TestTimeline: all sources in one order, what belongs to others left out, durations without gaps.
func TestTimeline(t *testing.T) {
	t.Parallel()
	f := pool(machine(running), machine(running))
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "node-1", CreationTimestamp: metav1.NewTime(now.Add(-3 * time.Minute)),
	}}
	n.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
		LastTransitionTime: metav1.NewTime(now.Add(-150 * time.Second)),
	}}
	f.Nodes = []corev1.Node{n}
	set := f.Find(KindSet, "workers-abcde")[0]
	mine := f.machinesOf(set)[0]
	mine.Node = "node-1"
	f.machinesOf(set)[1].Node = "node-2"
	f.Events = []corev1.Event{
		{
			InvolvedObject: corev1.ObjectReference{UID: mine.UID}, Reason: "CreateFailed", Message: "no room", Count: 3,
			LastTimestamp: metav1.NewTime(now.Add(-4 * time.Minute)), Source: corev1.EventSource{Component: "manager"},
		},
		{InvolvedObject: corev1.ObjectReference{UID: "another"}, Reason: "Elsewhere", LastTimestamp: metav1.NewTime(now)},
	}
	got := f.Timeline(mine)
	type line struct {
		source, what string
		seconds      float64
	}
	var lines []line
	total := 0.0
	for _, e := range got.Entries {
		lines = append(lines, line{e.Source, e.What, e.Seconds})
		total += e.Seconds
	}
	want := []line{
		{sourceObject, "Created", 60},
		{sourceEvent, "CreateFailed", 60},
		{sourceNode, "Registered", 30},
		{sourceNode, "Ready=True KubeletReady", 30},
		{sourceStatus, "Phase=Running", 60},
		{sourceStatus, "NodeReady=True " + machinev1.ReasonNodeHealthy, 0},
		{sourceStatus, "VMReady=True " + machinev1.ReasonVMRunning, 60},
	}
	if diff := cmp.Diff(want, lines, cmp.AllowUnexported(line{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if total != 300 {
		t.Errorf("all takes %v seconds, want the age of the machine, 300", total)
	}
	if e := got.Entries[1]; e.Count != 3 || e.By != "manager" || e.Object.Name != mine.Name {
		t.Errorf("the Event is %+v", e)
	}
	whole := f.Timeline(f.Find(KindDeployment, "workers")[0])
	if len(whole.Entries) != len(lines)+4 {
		t.Errorf("%d entries of the pool, want those of both machines and one Node: %+v", len(whole.Entries), whole.Entries)
	}
}
