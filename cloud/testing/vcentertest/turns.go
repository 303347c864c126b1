package vcentertest

import (
	"strings"
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
	mu    sync.Mutex
	next  *sync.Cond
	runs  types.ManagedObjectReference          // the task whose turn it is
	reset types.ManagedObjectReference          // the VM that it resets, by further tasks; zero for none
	parts map[types.ManagedObjectReference]bool // tasks on objects other than VMs, which that one may have begun
	fails map[string]types.BaseMethodFault      // what the next task of a kind fails with
}

func newTurns() *turns {
	t := &turns{parts: map[types.ManagedObjectReference]bool{}, fails: map[string]types.BaseMethodFault{}}
	t.next = sync.NewCond(&t.mu)
	return t
}

// Reference is what the simulator knows the handler by.
func (t *turns) Reference() types.ManagedObjectReference {
	return types.ManagedObjectReference{Type: "Turns", Value: "turns"}
}

// PutObject is told of a new task before that begins, and returns when it may.
func (t *turns) PutObject(_ *simulator.Context, o mo.Reference) {
	task, ok := o.(*simulator.Task)
	if !ok || task.Info.Entity == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if task.Info.Entity.Type == "VirtualMachine" && *task.Info.Entity != t.reset {
		for t.runs.Value != "" || len(t.parts) > 0 {
			t.next.Wait()
		}
		t.runs = task.Self
		if strings.HasSuffix(task.Info.DescriptionId, ".reset") {
			t.reset = *task.Info.Entity
		}
	} else {
		t.parts[task.Self] = true
	}
	if fault := t.fails[task.Info.DescriptionId]; fault != nil {
		delete(t.fails, task.Info.DescriptionId)
		task.Execute = func(*simulator.Task) (types.AnyType, types.BaseMethodFault) { return nil, fault }
	}
}

// betweenTasks stands for the task whose turn it is while between runs.
var betweenTasks = types.ManagedObjectReference{Type: "Turns", Value: "between"}

// between calls f while no task runs.
func (t *turns) between(f func()) {
	t.mu.Lock()
	for t.runs.Value != "" || len(t.parts) > 0 {
		t.next.Wait()
	}
	t.runs = betweenTasks
	t.mu.Unlock()
	defer t.ended(betweenTasks)
	f()
}

// UpdateObject is told of the end of a task.
func (t *turns) UpdateObject(_ *simulator.Context, o mo.Reference, changes []types.PropertyChange) {
	for _, c := range changes {
		if c.Name == "info.state" && (c.Val == types.TaskInfoStateSuccess || c.Val == types.TaskInfoStateError) {
			t.ended(o.Reference())
		}
	}
}

func (t *turns) ended(task types.ManagedObjectReference) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.parts, task)
	if task == t.runs {
		t.runs, t.reset = types.ManagedObjectReference{}, types.ManagedObjectReference{}
	}
	t.next.Broadcast()
}

// RemoveObject is told of what goes.
func (t *turns) RemoveObject(*simulator.Context, types.ManagedObjectReference) {}
