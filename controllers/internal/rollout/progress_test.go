package rollout

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestComplete(t *testing.T) {
	t.Parallel()
	d := &machinev1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
	d.Spec.Replicas = 5
	whole := machinev1.MachineDeploymentStatus{
		ObservedGeneration: 3, Replicas: 5, UpdatedReplicas: 5,
		AvailableReplicas: 5,
	}
	for name, tc := range map[string]struct {
		reason string
		change func(*machinev1.MachineDeploymentStatus)
		want   bool
	}{
		"Whole":      {"All are new and available.", func(*machinev1.MachineDeploymentStatus) {}, true},
		"OldLeft":    {"An old one is left.", func(s *machinev1.MachineDeploymentStatus) { s.Replicas = 6 }, false},
		"NotUpdated": {"One is not new.", func(s *machinev1.MachineDeploymentStatus) { s.UpdatedReplicas = 4 }, false},
		"Unavailable": {"One is not available.", func(s *machinev1.MachineDeploymentStatus) {
			s.AvailableReplicas = 4
		}, false},
		"Unseen": {"The spec has changed since.", func(s *machinev1.MachineDeploymentStatus) {
			s.ObservedGeneration = 2
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := whole
			tc.change(&s)
			if got := Complete(d, &s); got != tc.want {
				t.Errorf("%s\ngot %t", tc.reason, got)
			}
		})
	}
}

func TestProgressed(t *testing.T) {
	t.Parallel()
	before := machinev1.MachineDeploymentStatus{Replicas: 10, UpdatedReplicas: 4, ReadyReplicas: 8, AvailableReplicas: 8}
	for name, tc := range map[string]struct {
		reason string
		change func(*machinev1.MachineDeploymentStatus)
		want   bool
	}{
		"Nothing": {"The same is no progress.", func(*machinev1.MachineDeploymentStatus) {}, false},
		"Updated": {"One more new machine.", func(s *machinev1.MachineDeploymentStatus) {
			s.Replicas++
			s.UpdatedReplicas++
		}, true},
		"OldGone":   {"One old machine less.", func(s *machinev1.MachineDeploymentStatus) { s.Replicas-- }, true},
		"Ready":     {"One more is ready.", func(s *machinev1.MachineDeploymentStatus) { s.ReadyReplicas++ }, true},
		"Available": {"One more is available.", func(s *machinev1.MachineDeploymentStatus) { s.AvailableReplicas++ }, true},
		"Worse": {"One less is no progress.", func(s *machinev1.MachineDeploymentStatus) {
			s.AvailableReplicas--
			s.ReadyReplicas--
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after := before
			tc.change(&after)
			if got := Progressed(&before, &after); got != tc.want {
				t.Errorf("%s\ngot %t", tc.reason, got)
			}
		})
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason  string
		seconds *int32
		cond    string
		paused  bool
		at      time.Duration
		left    time.Duration
		runs    bool
		over    bool
	}{
		"None": {
			"Without a deadline none runs.", nil, machinev1.ReasonMachineSetUpdated, false, time.Hour, 0, false,
			false,
		},
		"Early": {
			"The rest is told.", new(int32(600)), machinev1.ReasonMachineSetUpdated, false, time.Minute,
			9 * time.Minute, true, false,
		},
		"Late": {
			"It is over.", new(int32(600)), machinev1.ReasonMachineSetUpdated, false, 11 * time.Minute, -time.Minute,
			true, true,
		},
		"Complete": {
			"Nothing runs after a rollout.", new(int32(600)), machinev1.ReasonNewMachineSetAvailable, false,
			time.Hour, 0, false, false,
		},
		"Paused": {
			"A pause costs no time.", new(int32(600)), machinev1.ReasonDeploymentPaused, true, time.Hour, 0, false,
			false,
		},
		"Unbegun": {"Nothing has begun.", new(int32(600)), "", false, time.Hour, 0, false, false},
		"Stays": {
			"What is over stays so until there is progress.", new(int32(600)),
			machinev1.ReasonProgressDeadlineExceeded, false, time.Minute, 9 * time.Minute, true, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, s := &machinev1.MachineDeployment{}, &machinev1.MachineDeploymentStatus{}
			d.Spec.ProgressDeadlineSeconds, d.Spec.Paused = tc.seconds, tc.paused
			if tc.cond != "" {
				setCondition(s, machinev1.MachineDeploymentCondition{
					Type: machinev1.MachineDeploymentProgressing, Status: "True",
					Reason: tc.cond,
				}, noon)
			}
			left, runs := Deadline(d, s, noon.Add(tc.at))
			if left != tc.left || runs != tc.runs || TimedOut(d, s, noon.Add(tc.at)) != tc.over {
				t.Errorf("%s\ngot %s, %t, %t", tc.reason, left, runs, TimedOut(d, s, noon.Add(tc.at)))
			}
		})
	}
}

func TestSetCondition(t *testing.T) {
	t.Parallel()
	s := &machinev1.MachineDeploymentStatus{}
	progressing := machinev1.MachineDeploymentCondition{
		Type: machinev1.MachineDeploymentProgressing, Status: "True",
		Reason: "A",
	}
	setCondition(s, progressing, noon)
	shared := s.Conditions
	progressing.Message = "another"
	setCondition(s, progressing, noon.Add(time.Minute))
	if c := s.Conditions[0]; !c.LastUpdateTime.Time.Equal(noon) || c.Message != "" {
		t.Errorf("an equal condition was written: %+v", c)
	}
	progressing.Reason = "B"
	setCondition(s, progressing, noon.Add(time.Minute))
	if c := s.Conditions[0]; !c.LastTransitionTime.Time.Equal(noon) ||
		!c.LastUpdateTime.Time.Equal(noon.Add(time.Minute)) {
		t.Errorf("another reason is an update and no transition: %+v", c)
	}
	if shared[0].Reason != "A" {
		t.Errorf("the list that was read was changed: %+v", shared)
	}
	removeCondition(s, machinev1.MachineDeploymentProgressing)
	if len(s.Conditions) != 0 || len(shared) != 1 {
		t.Errorf("removal left %+v and %+v", s.Conditions, shared)
	}
}
