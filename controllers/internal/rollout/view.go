package rollout

import (
	"strconv"
	"time"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
)

// ViewOf returns the input of the arithmetic for a set that is asked for wanted machines.
// The Machines are at least as new as the status of the set, but may lack those that it has
// just created. Therefore the larger number counts for what exists, and the
// smaller one for what is available.
func ViewOf(set *machinev1.MachineSet, wanted int32, machines []*machinev1.Machine, now time.Time) Set {
	s := Set{Name: set.Name, Created: set.CreationTimestamp.Time}
	if set.DeletionTimestamp.IsZero() {
		s.Spec = int(wanted)
	}
	terminating, ready := 0, 0
	var live []*machinev1.Machine
	for _, m := range machines {
		if !m.DeletionTimestamp.IsZero() {
			terminating++
			continue
		}
		live = append(live, m)
		if MarkedForDeletion(m) {
			s.Marked++
		}
		if IsAvailable(m) {
			ready++
		}
		if IsExhausted(m) {
			s.Exhausted++
		}
	}
	s.Live = len(live)
	s.Replicas = max(int(set.Status.Replicas), terminating+max(s.Spec, s.Live))
	s.Available = min(int(set.Status.AvailableReplicas), ready)
	s.Preserved = int(set.Status.PreservedFailedReplicas)
	awaited := append(live, upcoming(set, s.Spec-s.Live, now)...)
	s.ProtectedUnavailable = Ranking{Now: now}.ProtectedUnavailable(awaited)
	// What the status does not count as available yet is no unhealthy machine.
	s.ProtectedUnavailable += ready - s.Available
	s.Desired = parseNumber(set.Annotations[machinev1.DesiredReplicasAnnotation])
	s.Max = parseNumber(set.Annotations[machinev1.MaxReplicasAnnotation])
	return s
}

// upcoming returns n Machines as the set creates them, for those that the cache does
// not show yet; none if n is not positive.
func upcoming(set *machinev1.MachineSet, n int, now time.Time) []*machinev1.Machine {
	var machines []*machinev1.Machine
	for range n {
		m := &machinev1.Machine{}
		m.Annotations = set.Spec.Template.Annotations
		m.CreationTimestamp.Time = now
		m.Status.CurrentStatus.Phase = machinev1.MachinePending
		machines = append(machines, m)
	}
	return machines
}

// IsAvailable reports whether a machine counts as available.
func IsAvailable(m *machinev1.Machine) bool {
	phase := m.Status.CurrentStatus.Phase
	return phase == machinev1.MachineRunning || phase == machinev1.MachineAvailable
}

// IsExhausted reports whether the cloud had no capacity for the VM of a machine when it
// was last asked.
func IsExhausted(m *machinev1.Machine) bool {
	op := m.Status.LastOperation
	return m.Spec.ProviderID == "" && op.Type == machinev1.MachineOperationCreate &&
		op.State == machinev1.MachineStateFailed && op.ErrorCode == outcome.ResourceExhausted
}

// MarkedForDeletion reports whether a scaler or a user chose the machine to be
// deleted first.
func MarkedForDeletion(m *machinev1.Machine) bool {
	_, chosen := m.Annotations[machinev1.DeleteMachineAnnotation]
	return chosen || m.Annotations[machinev1.PriorityAnnotation] == machinev1.HighestPriority
}

// parseNumber parses an annotation; nil for an absent or unparsable one.
func parseNumber(value string) *int {
	n, err := strconv.Atoi(value)
	if err != nil {
		return nil
	}
	return &n
}
