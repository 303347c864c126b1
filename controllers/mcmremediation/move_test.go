package mcmremediation

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

// TestPausedMeanwhile: a pause of the Cluster that begins while the VM is looked for, as that of
// clusterctl move, is seen before the reboot.
func TestPausedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.calls = func(next cloud.Account) cloud.Account {
		return looked{next, func() {
			harness.Edit(w.Cluster, cluster(), func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })
		}}
	}
	w.restart()
	w.run()
	if o := w.object(); w.boots() > 0 || o.Annotations[infrav1.RebootsAnnotation] != "" {
		t.Errorf("%d reboots, %q recorded", w.boots(), o.Annotations[infrav1.RebootsAnnotation])
	}
	w.calls = nil
	w.restart()
	harness.Edit(w.Cluster, cluster(), func(c *clusterv1.Cluster) { c.Spec.Paused = nil })
	w.run()
	w.expect(infrav1.RemediationWaiting, infrav1.ReasonRebooted, 1)
}

// move is what clusterctl move does: the statuses are lost.
func (w *env) move() {
	w.Helper()
	o := w.object()
	w.Delete(o)
	o.ResourceVersion, o.UID, o.Status = "", "", infrav1.MCMRemediationStatus{}
	o.CreationTimestamp = metav1.NewTime(w.Clock.Now())
	w.Create(o)
	harness.Edit(w.Cluster, machine("m"), func(m *clusterv1.Machine) { m.Status = clusterv1.MachineStatus{} })
	w.restart()
}

// there reports whether the object exists.
func (w *env) there() bool {
	w.Helper()
	err := w.Client.Get(w.Context(), key("m"), &infrav1.MCMRemediation{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.Fatal(err)
	}
	return err == nil
}

// TestMoved: the record of the reboot moves along, and the node has the rest of its time. After
// that the object makes way for a MachineHealthCheck, which reports nothing while it exists.
func TestMoved(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.run()
	w.move()
	w.Advance(time.Minute)
	if wait := w.run(); wait != timeout-time.Minute {
		t.Errorf("waits %v", wait)
	}
	w.expect(infrav1.RemediationWaiting, infrav1.ReasonRebooted, 1)
	w.Advance(timeout)
	w.run()
	if w.there() {
		t.Fatalf("the object is still there: %+v", w.object().Status)
	}
	w.run()
	if is := conditions.Get(w.machine(), clusterv1.MachineExternallyRemediatedCondition); is != nil {
		t.Errorf("the Machine still shows %+v", is)
	}
	w.sick("m")
	w.remediate()
	w.restart()
	w.run()
	w.expect(infrav1.RemediationReplacing, infrav1.ReasonCooldown, 1)
}

// TestMovedBeforeTheReboot: the controller looks again by itself, and shows on the Machine what
// it waits for.
func TestMovedBeforeTheReboot(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.move()
	if wait := w.run(); wait != reportTime {
		t.Errorf("waits %v", wait)
	}
	if is := conditions.Get(w.machine(), clusterv1.MachineExternallyRemediatedCondition); is != nil {
		t.Errorf("the MachineHealthCheck's own write may still come, and would fail: %+v", is)
	}
	w.Advance(reportTime)
	if wait := w.run(); wait != unreportedLimit-reportTime {
		t.Errorf("waits %v", wait)
	}
	w.expect(infrav1.RemediationPending, infrav1.ReasonWaitingForHealthCheck, 0)
	is := conditions.Get(w.machine(), clusterv1.MachineExternallyRemediatedCondition)
	if is == nil || is.Reason != infrav1.ReasonWaitingForHealthCheck {
		t.Errorf("the Machine shows %+v", is)
	}
	w.Advance(unreportedLimit)
	w.run()
	if w.there() || len(w.HeardOf(infrav1.ReasonWaitingForHealthCheck)) == 0 {
		t.Error("the object is still there, or no Event says that it went")
	}
}

// TestCheckEndedBeforeItsReport: Cluster API's manager ended after it had made the object, so the
// Machine passes its check as far as anybody knows. What a person has made is not deleted.
func TestCheckEndedBeforeItsReport(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"check", "person"} {
		w := newEnv(t, func(o *infrav1.MCMRemediation) {
			if by == "person" {
				o.Annotations = nil
			}
		})
		w.condition(clusterv1.MachineHealthCheckSucceededCondition, metav1.ConditionTrue, "X")
		w.run()
		w.expect(infrav1.RemediationHealthy, infrav1.ReasonMachineHealthy, 0)
		w.Advance(unreportedLimit)
		w.run()
		if w.there() != (by == "person") {
			t.Errorf("made by a %s: there is %v", by, w.there())
		}
	}
}
