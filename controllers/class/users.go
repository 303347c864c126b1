package class

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/live"
)

// users are the machines of an API that use a MachineClass.
type users struct {
	count int
	first string // the first one by name; empty if there is none
}

// A finder finds the users of one kind, with lists of type *L.
type finder[L any, P interface {
	*L
	client.ObjectList
}] struct {
	cached client.Reader // has the index; its objects are read, never copied or changed
	live   client.Reader // reads from the API server
	index  string        // field index of the kind by the name of the class
	// uses reports whether o, which may be of another class's index entry, uses the
	// class of that name.
	uses func(o client.Object, class string) bool
	// confirm reports whether the API server has to confirm that the class has no
	// users: a user that the cache does not show yet would lose its class.
	confirm func(class *machinev1.MachineClass) bool
}

// find returns the users of a class, those that are being deleted included:
// without the class their VMs could not be removed. Of a class that is not being
// deleted it may return only one of them: find runs each time a user comes or
// goes, and a class may have thousands.
func (f finder[L, P]) find(ctx context.Context, class *machinev1.MachineClass) (users, error) {
	if class.DeletionTimestamp.IsZero() {
		found, listed, err := f.findCached(ctx, class, client.Limit(1))
		if err != nil || found.count > 0 {
			return found, err
		}
		if listed == 0 {
			return f.findLive(ctx, class)
		}
	}
	found, _, err := f.findCached(ctx, class)
	if err != nil || found.count > 0 {
		return found, err
	}
	return f.findLive(ctx, class)
}

// findCached counts the users that the cache shows, and the objects that it listed.
func (f finder[L, P]) findCached(ctx context.Context, class *machinev1.MachineClass, more ...client.ListOption) (
	found users, listed int, err error,
) {
	list := P(new(L))
	err = f.cached.List(ctx, list, append(more, client.InNamespace(class.Namespace),
		client.MatchingFields{f.index: class.Name}, client.UnsafeDisableDeepCopy)...)
	if err != nil {
		return found, 0, fmt.Errorf("look up machines of MachineClass %s: %w", class.Name, err)
	}
	f.count(&found, list, class.Name)
	return found, meta.LenList(list), nil
}

func (f finder[L, P]) findLive(ctx context.Context, class *machinev1.MachineClass) (found users, err error) {
	if !f.confirm(class) {
		return found, nil
	}
	err = live.Pages(ctx, f.live, func(page P) { f.count(&found, page, class.Name) },
		client.InNamespace(class.Namespace))
	if err != nil {
		return found, fmt.Errorf("look up machines of MachineClass %s: %w", class.Name, err)
	}
	return found, nil
}

func (f finder[L, P]) count(found *users, list P, class string) {
	_ = meta.EachListItem(list, func(item runtime.Object) error { // no error: every item is an object
		o, ok := item.(client.Object)
		if !ok || !f.uses(o, class) {
			return nil
		}
		found.count++
		if found.first == "" || o.GetName() < found.first {
			found.first = o.GetName()
		}
		return nil
	})
}
