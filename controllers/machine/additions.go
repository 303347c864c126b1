package machine

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// additions remember what this project adds to a Machine's status where the API
// server drops it: MCM's own CRDs, which Gardener installs, prune fields that
// they do not know. Without that memory every pass would write, and every Event
// about a condition would be told again. It is lost at a restart, which costs one
// write per Machine. The zero additions are ready to use.
type additions struct {
	mu      sync.Mutex
	dropped map[types.UID]addition
}

type addition struct {
	nodeRef  *machinev1.NodeReference
	progress *machinev1.Progress
}

// restore puts back into m what the API server dropped.
func (a *additions) restore(m *machinev1.Machine) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if kept, ok := a.dropped[m.UID]; ok && m.Status.Progress == nil && m.Status.NodeRef == nil {
		m.Status.NodeRef, m.Status.Progress = kept.nodeRef.DeepCopy(), kept.progress.DeepCopy()
	}
}

// stored compares what was sent with what the API server made of it, and
// restores what it dropped.
func (a *additions) stored(m *machinev1.Machine, sent machinev1.MachineStatus) {
	if sent.Progress == nil || m.Status.Progress != nil {
		a.forget(m.UID)
		return
	}
	a.keep(m.UID, sent)
	a.restore(m)
}

// only says whether status differs from what m has in nothing but what the API
// server drops. Then there is nothing to write, and status is remembered.
func (a *additions) only(m *machinev1.Machine, status machinev1.MachineStatus) bool {
	a.mu.Lock()
	_, drops := a.dropped[m.UID]
	a.mu.Unlock()
	if !drops {
		return false
	}
	was, is := m.Status, status
	was.NodeRef, was.Progress, is.NodeRef, is.Progress = nil, nil, nil, nil
	if !equality.Semantic.DeepEqual(was, is) {
		return false
	}
	a.keep(m.UID, status)
	return true
}

func (a *additions) keep(uid types.UID, status machinev1.MachineStatus) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.dropped == nil {
		a.dropped = map[types.UID]addition{}
	}
	a.dropped[uid] = addition{nodeRef: status.NodeRef.DeepCopy(), progress: status.Progress.DeepCopy()}
}

// forget drops what is remembered of a Machine.
func (a *additions) forget(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.dropped, uid)
}
