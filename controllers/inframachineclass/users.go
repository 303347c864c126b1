package inframachineclass

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
)

// livePage is how many MCMMachines one live request returns.
const livePage = 500

// users are the MCMMachines that need a class.
type users struct {
	count int
	first string // the first by name
}

func (u *users) add(list *infrav1.MCMMachineList, class string) {
	for i := range list.Items {
		m := &list.Items[i]
		if !slices.Contains(index.ClassesOf(m), class) {
			continue
		}
		u.count++
		if u.first == "" || m.Name < u.first {
			u.first = m.Name
		}
	}
}

// users returns the MCMMachines that need the class, deleting ones included. Of a
// class that stays it returns at least one if there are any: with each that comes
// or goes it is asked for, and a class may have thousands. A class that is about
// to vanish is judged by the API server.
func (c *Controller) users(ctx context.Context, object *machinev1.MachineClass) (users, error) {
	var few []client.ListOption
	if object.DeletionTimestamp.IsZero() {
		few = append(few, client.Limit(1))
	}
	var found users
	var list infrav1.MCMMachineList
	err := c.Client.List(ctx, &list, append(few, client.InNamespace(object.Namespace),
		client.MatchingFields{index.MCMMachineByClass: object.Name}, client.UnsafeDisableDeepCopy)...)
	if err != nil {
		return found, fmt.Errorf("look up MCMMachines of MachineClass %s: %w", object.Name, err)
	}
	found.add(&list, object.Name)
	if found.count > 0 || !slices.Contains(object.Finalizers, machinev1.InUseFinalizer) {
		return found, nil
	}
	return c.living(ctx, object)
}

func (c *Controller) living(ctx context.Context, object *machinev1.MachineClass) (users, error) {
	var found users
	token := ""
	for {
		var list infrav1.MCMMachineList
		if err := c.Live.List(ctx, &list, client.InNamespace(object.Namespace), client.Limit(livePage),
			client.Continue(token)); err != nil {
			return found, fmt.Errorf("list MCMMachines of MachineClass %s: %w", object.Name, err)
		}
		found.add(&list, object.Name)
		if token = list.Continue; token == "" {
			return found, nil
		}
	}
}
