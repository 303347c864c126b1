package machine

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// nameIsFree keeps a young Machine until no process can make another one of its
// name any more. Usually none can: a MachineSet's controller says so as soon as
// it has made its Machines. But one that was stalled, or cut off, while another
// took over may still ask for them, and only the name stands in its way.
func (c *Controller) nameIsFree(ctx context.Context, f *facts) (bool, error) {
	owner := metav1.GetControllerOf(f.machine)
	young := f.now.Sub(f.machine.CreationTimestamp.Time) < rollout.Settle
	if owner == nil || owner.Kind != machinev1.MachineSetKind || forced(f.machine) || !young {
		return true, nil
	}
	set := &machinev1.MachineSet{}
	err := c.Live.Get(ctx, client.ObjectKey{Namespace: f.machine.Namespace, Name: owner.Name}, set)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read MachineSet %s on the API server: %w", owner.Name, err)
	}
	left := rollout.NameInUse(set, f.machine, f.now)
	if err != nil || set.UID != owner.UID || !set.DeletionTimestamp.IsZero() || left <= 0 {
		return true, nil
	}
	f.leaving = &waiting{machinev1.ReasonNameInUse, fmt.Sprintf(
		"VM and Node are gone; the name is kept until %s, because a manager that was replaced may still create a "+
			"Machine of it",
		f.now.Add(left).UTC().Format(time.RFC3339))}
	sooner(f, left)
	return false, nil
}
