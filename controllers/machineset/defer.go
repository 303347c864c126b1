package machineset

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// availabilityPeriod is how long after a write of the status another one waits that
// only reports more available machines.
const availabilityPeriod = 5 * time.Second

// deferStatus returns for how long the status need not be written, because nothing
// depends on what it would change: machines of a set that grows become available
// one by one, and no rollout waits for them. The last one is reported at once.
func (s *scope) deferStatus(status *machinev1.MachineSetStatus) time.Duration {
	before := s.set.Status
	partly := status.AvailableReplicas > before.AvailableReplicas && status.AvailableReplicas < s.set.Spec.Replicas
	if !partly || s.rolloutInProgress() || !sameButAvailability(before, *status) {
		return 0
	}
	since := s.now.Sub(before.LastOperation.LastUpdateTime.Time)
	if since < 0 || since >= availabilityPeriod { // negative: the clock of a former leader was ahead
		return 0
	}
	return availabilityPeriod - since
}

// rolloutInProgress reports whether the MachineDeployment has machines of other sets.
func (s *scope) rolloutInProgress() bool {
	d := s.deployment
	return d != nil && (d.Status.Replicas != d.Status.UpdatedReplicas || d.Status.ObservedGeneration != d.Generation)
}

// sameButAvailability reports whether two statuses differ at most in available
// machines and in what explains their number.
func sameButAvailability(a, b machinev1.MachineSetStatus) bool {
	for _, s := range []*machinev1.MachineSetStatus{&a, &b} {
		s.AvailableReplicas, s.ReadyReplicas = 0, 0
		s.LastOperation, s.Progress = machinev1.LastOperation{}, nil
	}
	return equality.Semantic.DeepEqual(a, b)
}
