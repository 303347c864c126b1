package machine

import (
	"k8s.io/apimachinery/pkg/api/equality"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// addition is what this project adds to a Machine's status, and what an API
// server with MCM's own CRDs drops.
type addition struct {
	nodeRef        *machinev1.NodeReference
	progress       *machinev1.Progress
	phase          string
	failureMessage *string
}

// restore puts back into m what the API server dropped.
func (c *Controller) restore(m *machinev1.Machine) {
	if kept, ok := c.dropped.Get(m.UID); ok && m.Status.Progress == nil && m.Status.NodeRef == nil {
		kept.put(&m.Status)
	}
}

// stored compares what was sent with what the API server made of it in m, and
// restores what it dropped.
func (c *Controller) stored(m *machinev1.Machine, sent machinev1.MachineStatus) {
	if sent.Progress == nil || m.Status.Progress != nil {
		c.dropped.Forget(m.UID)
		return
	}
	c.dropped.Keep(m.UID, additionOf(sent))
	c.restore(m)
}

// onlyAdds reports whether status differs from what m has in nothing but what the
// API server drops. Then there is nothing to write, and status is remembered.
func (c *Controller) onlyAdds(m *machinev1.Machine, status machinev1.MachineStatus) bool {
	if _, drops := c.dropped.Get(m.UID); !drops {
		return false
	}
	was, is := m.Status, status
	addition{}.put(&was)
	addition{}.put(&is)
	if !equality.Semantic.DeepEqual(was, is) {
		return false
	}
	c.dropped.Keep(m.UID, additionOf(status))
	return true
}

func additionOf(s machinev1.MachineStatus) addition {
	return addition{
		nodeRef: s.NodeRef.DeepCopy(), progress: s.Progress.DeepCopy(), phase: s.Phase,
		failureMessage: s.FailureMessage,
	}
}

// put makes a the additions of s.
func (a addition) put(s *machinev1.MachineStatus) {
	s.NodeRef, s.Progress, s.Phase, s.FailureMessage = a.nodeRef.DeepCopy(), a.progress.DeepCopy(), a.phase, a.failureMessage
}
