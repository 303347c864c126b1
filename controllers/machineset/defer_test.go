package machineset

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func TestDeferStatus(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	type change = func(s *scope, status *machinev1.MachineSetStatus)
	cases := map[string]struct {
		reason string
		change change
		want   time.Duration
	}{
		"Growing": {"A few more available machines can wait.", func(*scope, *machinev1.MachineSetStatus) {}, 3 * time.Second},
		"Complete": {"The last machine is what others wait for.", func(_ *scope, status *machinev1.MachineSetStatus) {
			status.AvailableReplicas = 10
		}, 0},
		"Shrinking": {"A machine that is no longer available is told at once.", func(_ *scope,
			status *machinev1.MachineSetStatus,
		) {
			status.AvailableReplicas = 3
		}, 0},
		"Replicas": {"The number of machines is told at once.", func(_ *scope, status *machinev1.MachineSetStatus) {
			status.Replicas = 9
		}, 0},
		"Failure": {"A failed machine is told at once.", func(_ *scope, status *machinev1.MachineSetStatus) {
			status.FailedMachines = &[]machinev1.MachineSummary{{Name: "a"}}
		}, 0},
		"Late": {"It does not wait for ever.", func(s *scope, _ *machinev1.MachineSetStatus) {
			s.now = s.now.Add(time.Hour)
		}, 0},
		"Skew": {"Another clock must not delay it.", func(s *scope, _ *machinev1.MachineSetStatus) {
			s.now = s.now.Add(-time.Hour)
		}, 0},
		"Deployment": {"A deployment that rolls nothing out waits for nothing.", func(s *scope,
			_ *machinev1.MachineSetStatus,
		) {
			s.deployment = &machinev1.MachineDeployment{}
		}, 3 * time.Second},
		"Rollout": {"A rollout goes on with every machine.", func(s *scope, _ *machinev1.MachineSetStatus) {
			s.deployment = &machinev1.MachineDeployment{Status: machinev1.MachineDeploymentStatus{
				Replicas: 10, UpdatedReplicas: 4,
			}}
		}, 0},
		"Unobserved": {"A deployment that has just changed may begin one.", func(s *scope, _ *machinev1.MachineSetStatus) {
			s.deployment = &machinev1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
		}, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := newSet(10)
			set.Status = machinev1.MachineSetStatus{
				Replicas: 10, AvailableReplicas: 4, ReadyReplicas: 4,
				LastOperation: machinev1.LastOperation{LastUpdateTime: metav1.NewTime(noon)},
			}
			s := &scope{set: set, now: noon.Add(2 * time.Second)}
			status := set.Status.DeepCopy()
			status.AvailableReplicas, status.ReadyReplicas = 6, 6
			status.Progress = &machinev1.Progress{}
			tc.change(s, status)
			if got := s.deferStatus(status); got != tc.want {
				t.Errorf("%s got %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
}
