package vsphere

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// taskError is what a task failed with, and what vCenter says about it.
type taskError struct {
	fault types.BaseMethodFault
	text  string
}

func taskErrorOf(f *types.LocalizedMethodFault) taskError {
	return taskError{f.Fault, f.LocalizedMessage}
}

// Error names the fault.
func (e taskError) Error() string {
	return "the task failed: " + faultName(e.fault) + colon(messageOf(e))
}

// note is what Create remembers between its calls.
type note struct {
	Token string `json:"token,omitempty"`
	Task  string `json:"task,omitempty"`  // of the clone
	Clone bool   `json:"clone,omitempty"` // was about to be asked for

	// What was chosen for the clone, so that it is asked for again with the same: a
	// zone of the class, and ids of a host and a datastore. Empty where nothing was
	// chosen, and once vCenter has refused it.
	Zone      string `json:"zone,omitempty"`
	Host      string `json:"host,omitempty"`
	Datastore string `json:"datastore,omitempty"`
}

// noteFor returns the note of this attempt; an empty one if it is the first call.
func noteFor(r cloud.CreateRequest) note {
	if n := noteOf(r.State); n.Token == r.Token {
		return n
	}
	return note{Token: r.Token}
}

// noteOf returns the note in a checkpoint.
func noteOf(state string) note {
	var n note
	if json.Unmarshal([]byte(state), &n) != nil {
		return note{} // somebody else's; the VM is found by name
	}
	return n
}

// task returns a task as it is now; nil if vCenter has forgotten it.
func (a *account) task(ctx context.Context, id string) (*types.TaskInfo, error) {
	var t mo.Task
	ref := types.ManagedObjectReference{Type: "Task", Value: id}
	err := property.DefaultCollector(a.v.Client).RetrieveOne(ctx, ref, []string{"info"}, &t)
	if isFault[types.ManagedObjectNotFound](err) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, err
	}
	return &t.Info, nil
}

// unfinished reports whether a task is still to come to an end.
func unfinished(t types.TaskInfo) bool {
	return t.State == types.TaskInfoStateQueued || t.State == types.TaskInfoStateRunning
}

// busy reports whether a task of the VM is unfinished.
func (v *seen) busy() bool { return slices.ContainsFunc(v.tasks, unfinished) }

// doing reports whether the VM has an unfinished task of that kind.
func (v *seen) doing(kind string) bool {
	for _, t := range v.tasks {
		if unfinished(t) && isKind(t, kind) {
			return true
		}
	}
	return false
}

// kinds are the names of the tasks of each kind: vCenter's, that of a cluster
// which chooses the host, and the simulator's.
func kinds() map[string][]string {
	return map[string][]string{
		"reconfigure": {"reconfigure", "reconfigvm"},
		"powerOn":     {"poweron", "executevmpoweronlro"},
		"clone":       {"clone", "clonevm"},
		"destroy":     {"destroy"},
	}
}

// isKind reports whether a task is e.g. a powerOn. Descriptions are
// "VirtualMachine.powerOn".
func isKind(t types.TaskInfo, kind string) bool {
	name := strings.ToLower(t.DescriptionId[strings.LastIndex(t.DescriptionId, ".")+1:])
	return slices.Contains(kinds()[kind], name)
}

// reports remembers which failures of tasks were told. vCenter shows a task for
// ten minutes after its end.
type reports struct {
	told *driverkit.Cache[string, bool]
}

func newReports() reports {
	const kept = 1000 // a failure that is forgotten is returned once more
	return reports{driverkit.NewCache[string, bool](driverkit.CacheOptions{Max: kept})}
}

// failure returns what the latest task of that kind failed with, once.
func (r reports) failure(vm *seen, kind string) error {
	for _, t := range slices.Backward(vm.tasks) {
		if !isKind(t, kind) {
			continue
		}
		if _, told := r.told.Known(t.Key); told || t.Error == nil || t.Error.Fault == nil {
			return nil
		}
		r.told.Put(t.Key, true)
		return taskErrorOf(t.Error)
	}
	return nil
}
