package machineclass

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
)

// livePage is how many Machines one live request returns.
const livePage = 500

// users are the Machines that need a class.
type users struct {
	count int
	first string // the first by name
}

func (u *users) add(m *machinev1.Machine, class string) {
	if m.Spec.Class.Kind != machinev1.MachineClassKind || m.Spec.Class.Name != class {
		return
	}
	u.count++
	if u.first == "" || m.Name < u.first {
		u.first = m.Name
	}
}

// users returns the Machines that need the class, terminating ones included:
// without it their VMs could not be removed. Of a class that stays it returns at
// least one if there are any. A class that is about to vanish is
// judged by the API server, because a Machine that the cache does not show yet
// would be stranded.
func (c *Controller) users(ctx context.Context, object *machinev1.MachineClass) (users, error) {
	if object.DeletionTimestamp.IsZero() {
		// That there is one is all that matters, and a class may have thousands.
		if found, err := c.cached(ctx, object, client.Limit(1)); err != nil || found.count > 0 {
			return found, err
		}
		return c.cached(ctx, object) // the one may have named something else of that name
	}
	found, err := c.cached(ctx, object)
	if err != nil || found.count > 0 {
		return found, err
	}
	return c.living(ctx, object)
}

// cached counts without copying, since a class may have thousands of Machines.
func (c *Controller) cached(ctx context.Context, object *machinev1.MachineClass, more ...client.ListOption) (users,
	error,
) {
	var found users
	var list machinev1.MachineList
	err := c.Client.List(ctx, &list, append(more, client.InNamespace(object.Namespace),
		client.MatchingFields{index.MachineByClass: object.Name}, client.UnsafeDisableDeepCopy)...)
	if err != nil {
		return found, fmt.Errorf("look up Machines of MachineClass %s: %w", object.Name, err)
	}
	for i := range list.Items {
		found.add(&list.Items[i], object.Name)
	}
	return found, nil
}

func (c *Controller) living(ctx context.Context, object *machinev1.MachineClass) (users, error) {
	var found users
	token := ""
	for {
		var list machinev1.MachineList
		err := c.Live.List(ctx, &list, client.InNamespace(object.Namespace), client.Limit(livePage), client.Continue(token))
		if err != nil {
			return found, fmt.Errorf("list Machines of MachineClass %s: %w", object.Name, err)
		}
		for i := range list.Items {
			found.add(&list.Items[i], object.Name)
		}
		if token = list.Continue; token == "" {
			return found, nil
		}
	}
}
