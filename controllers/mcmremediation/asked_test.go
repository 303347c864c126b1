package mcmremediation

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

// TestAskedByAPerson: the reboot is all that the annotation on a well Machine leads to.
func TestAskedByAPerson(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	harness.Edit(w.Cluster, machine("m"), func(m *clusterv1.Machine) {
		machinev1.SetAnnotation(m, clusterv1.RemediateMachineAnnotation, "")
	})
	w.run()
	w.expect(infrav1.RemediationWaiting, infrav1.ReasonRebooted, 1)
	w.Advance(time.Minute)
	w.condition(clusterv1.MachineNodeHealthyCondition, metav1.ConditionTrue, "X")
	w.run()
	w.expect(infrav1.RemediationHealthy, infrav1.ReasonMachineHealthy, 1)
	w.Advance(time.Hour)
	w.run()
	w.expect(infrav1.RemediationHealthy, infrav1.ReasonMachineHealthy, 1)
}

// TestAskedWhileWell: a Machine whose node is healthy is not replaced because a person has asked
// for its remediation, whatever the reboot comes to.
func TestAskedWhileWell(t *testing.T) {
	t.Parallel()
	annotated := func(t *testing.T) *env {
		t.Helper()
		w := newEnv(t)
		harness.Edit(w.Cluster, machine("m"), func(m *clusterv1.Machine) {
			machinev1.SetAnnotation(m, clusterv1.RemediateMachineAnnotation, "")
		})
		w.condition(clusterv1.MachineHealthCheckSucceededCondition, metav1.ConditionFalse,
			clusterv1.MachineHealthCheckHasRemediateAnnotationReason)
		w.condition(clusterv1.MachineNodeHealthyCondition, metav1.ConditionTrue, "X")
		w.Advance(time.Minute)
		return w
	}
	t.Run("NodeNeverSeenUnhealthy", func(t *testing.T) {
		t.Parallel()
		w := annotated(t)
		w.run()
		w.expect(infrav1.RemediationWaiting, infrav1.ReasonRebooted, 1)
		for range 3 {
			w.Advance(timeout)
			w.run()
			w.expect(infrav1.RemediationHealthy, infrav1.ReasonMachineHealthy, 1)
		}
	})
	t.Run("RebootedShortlyBefore", func(t *testing.T) {
		t.Parallel()
		w := annotated(t)
		harness.Edit(w.Cluster, infra(), func(m *infrav1.MCMMachine) {
			machinev1.SetAnnotation(m, infrav1.LastRebootAnnotation, w.Clock.Now().UTC().Format(time.RFC3339))
		})
		w.run()
		w.expect(infrav1.RemediationWaiting, infrav1.ReasonRebooted, 1)
	})
	t.Run("Updating", func(t *testing.T) {
		t.Parallel()
		w := annotated(t)
		harness.Edit(w.Cluster, machine("m"), func(m *clusterv1.Machine) {
			machinev1.SetAnnotation(m, clusterv1.UpdateInProgressAnnotation, "")
		})
		w.run()
		w.expect(infrav1.RemediationPending, infrav1.ReasonRemediationHeld, 0)
	})
	t.Run("Refused", func(t *testing.T) {
		t.Parallel()
		w := annotated(t)
		w.onReboot(func(func() error) error {
			return cloud.Errorf(cloud.Denied, "reboot", "Forbidden", "not allowed")
		})
		if wait := w.run(); wait != timeout {
			t.Errorf("looks again after %v", wait)
		}
		w.expect(infrav1.RemediationPending, infrav1.ReasonNotRebootable, 0)
		w.condition(clusterv1.MachineNodeHealthyCondition, metav1.ConditionFalse, "X")
		w.run()
		w.expect(infrav1.RemediationReplacing, infrav1.ReasonNotRebootable, 0)
	})
}
