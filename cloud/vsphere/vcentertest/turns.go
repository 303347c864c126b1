package vcentertest

import (
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// turns lets tasks of VMs run one after the other; those that wait are queued,
// as at a busy vCenter. The simulator runs all at once: its tasks race for what
// they share, and a VM that is destroyed while the task that clones it has not
// yet ended makes it panic, because it looks for the VM afterwards.
type turns struct {
	turn chan struct{} // holds an entry while a task runs

	mu    sync.Mutex
	runs  types.ManagedObjectReference     // the task whose turn it is
	fails map[string]types.BaseMethodFault // what the next task of a kind fails with
}

func newTurns() *turns {
	return &turns{turn: make(chan struct{}, 1), fails: map[string]types.BaseMethodFault{}}
}

// Reference is what the simulator knows the handler by.
func (t *turns) Reference() types.ManagedObjectReference {
	return types.ManagedObjectReference{Type: "Turns", Value: "turns"}
}

// PutObject is told of a new task before that begins, and returns when it may.
// Tasks that are parts of others are on other things than VMs.
func (t *turns) PutObject(_ *simulator.Context, o mo.Reference) {
	task, ok := o.(*simulator.Task)
	if !ok || task.Info.Entity == nil || task.Info.Entity.Type != "VirtualMachine" {
		return
	}
	t.turn <- struct{}{}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.runs = task.Self
	if fault := t.fails[task.Info.DescriptionId]; fault != nil {
		delete(t.fails, task.Info.DescriptionId)
		task.Execute = func(*simulator.Task) (types.AnyType, types.BaseMethodFault) { return nil, fault }
	}
}

// UpdateObject is told of the end of a task.
func (t *turns) UpdateObject(_ *simulator.Context, o mo.Reference, changes []types.PropertyChange) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if o.Reference() != t.runs || t.runs.Value == "" {
		return
	}
	for _, c := range changes {
		if c.Name == "info.state" && (c.Val == types.TaskInfoStateSuccess || c.Val == types.TaskInfoStateError) {
			t.runs = types.ManagedObjectReference{}
			<-t.turn
			return
		}
	}
}

// RemoveObject is told of what goes.
func (t *turns) RemoveObject(*simulator.Context, types.ManagedObjectReference) {}
