// Package usage finds the objects that use a MachineClass, so that the class and
// its Secrets stay as long as a VM needs them.
package usage

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/live"
)

// Users are the objects that use a MachineClass.
type Users struct {
	Count int
	First string // the first one by name; empty if there is none
}

// A Finder finds the users of one kind, with lists of type *L.
type Finder[L any, P interface {
	*L
	client.ObjectList
}] struct {
	Cached client.Reader // has the index Index; its objects are read, never copied or changed
	Live   client.Reader // reads from the API server
	Kind   string        // for errors
	Index  string        // field index of the kind by the name of the class
	// Uses reports whether o, which may be of another class's index entry, uses the
	// class of that name.
	Uses func(o client.Object, class string) bool
	// Confirm reports whether the API server has to confirm that the class has no
	// users: a user that the cache does not show yet would lose its class.
	Confirm func(class *machinev1.MachineClass) bool
}

// Find returns the users of a class, those that are being deleted included:
// without the class their VMs could not be removed. Of a class that is not being
// deleted it may return only one of them: Find runs each time a user comes or
// goes, and a class may have thousands.
func (f Finder[L, P]) Find(ctx context.Context, class *machinev1.MachineClass) (Users, error) {
	if class.DeletionTimestamp.IsZero() {
		found, listed, err := f.cached(ctx, class, client.Limit(1))
		if err != nil || found.Count > 0 {
			return found, err
		}
		if listed == 0 {
			return f.confirm(ctx, class)
		}
	}
	found, _, err := f.cached(ctx, class)
	if err != nil || found.Count > 0 {
		return found, err
	}
	return f.confirm(ctx, class)
}

// cached counts the users that the cache shows, and the objects that it listed.
func (f Finder[L, P]) cached(ctx context.Context, class *machinev1.MachineClass, more ...client.ListOption) (
	found Users, listed int, err error,
) {
	list := P(new(L))
	err = f.Cached.List(ctx, list, append(more, client.InNamespace(class.Namespace),
		client.MatchingFields{f.Index: class.Name}, client.UnsafeDisableDeepCopy)...)
	if err != nil {
		return found, 0, fmt.Errorf("look up %ss of MachineClass %s: %w", f.Kind, class.Name, err)
	}
	f.count(&found, list, class.Name)
	return found, meta.LenList(list), nil
}

func (f Finder[L, P]) confirm(ctx context.Context, class *machinev1.MachineClass) (found Users, err error) {
	if !f.Confirm(class) {
		return found, nil
	}
	err = live.Pages(ctx, f.Live, func(page P) { f.count(&found, page, class.Name) },
		client.InNamespace(class.Namespace))
	if err != nil {
		return found, fmt.Errorf("look up %ss of MachineClass %s: %w", f.Kind, class.Name, err)
	}
	return found, nil
}

func (f Finder[L, P]) count(found *Users, list P, class string) {
	_ = meta.EachListItem(list, func(item runtime.Object) error { // no error: every item is an object
		o, ok := item.(client.Object)
		if !ok || !f.Uses(o, class) {
			return nil
		}
		found.Count++
		if found.First == "" || o.GetName() < found.First {
			found.First = o.GetName()
		}
		return nil
	})
}
