package fresh

import (
	"context"
	"maps"
	"reflect"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Dependents is a [Client] for objects of one kind that are listed by the owner which
// controls them. List returns what the cache shows, and Check reports whether that is
// everything that this process wrote. It is safe for concurrent use.
type Dependents struct {
	*Client

	mu sync.Mutex
	// of are the objects that were written, by UID of their owner.
	of map[types.UID]map[types.NamespacedName]bool
}

// NewDependents returns Dependents of the kind of o.
func NewDependents(d ClientDeps, o client.Object) *Dependents {
	return &Dependents{Client: NewClient(d, o), of: map[types.UID]map[types.NamespacedName]bool{}}
}

// Create creates o.
func (d *Dependents) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	return d.note(o, d.Client.Create(ctx, o, opts...))
}

// Patch patches o.
func (d *Dependents) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	return d.note(o, d.Client.Patch(ctx, o, p, opts...))
}

// note remembers who controls an object that was written. It returns the error of the write.
func (d *Dependents) note(o client.Object, err error) error {
	owner := metav1.GetControllerOfNoCopy(o)
	if err != nil || owner == nil || reflect.TypeOf(o) != d.kind {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of[owner.UID] == nil {
		d.of[owner.UID] = map[types.NamespacedName]bool{}
	}
	d.of[owner.UID][client.ObjectKeyFromObject(o)] = true
	return nil
}

// Check returns a conflict if the cache, which shows these objects of an owner and no others,
// does not show yet what this process wrote to one of the owner's objects. Only an object that
// was written and never shown costs a request.
func (d *Dependents) Check(ctx context.Context, owner types.UID, objects []client.Object) error {
	missing := d.written(owner)
	for _, o := range objects {
		key := client.ObjectKeyFromObject(o)
		if err := d.check(ctx, key, o); client.IgnoreNotFound(err) != nil {
			return err
		}
		delete(missing, key)
	}
	for key := range missing {
		if err := d.checkMissing(ctx, owner, key); err != nil {
			return err
		}
		d.leave(owner, key)
	}
	return nil
}

// written returns the objects of an owner that were written.
func (d *Dependents) written(owner types.UID) map[types.NamespacedName]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.of[owner])
}

// checkMissing returns a conflict unless an object that is not listed has gone, or has another
// owner by now.
func (d *Dependents) checkMissing(ctx context.Context, owner types.UID, key types.NamespacedName) error {
	o := d.empty()
	err := d.Client.Client.Get(ctx, key, o)
	switch ref := metav1.GetControllerOfNoCopy(o); {
	case apierrors.IsNotFound(err):
		return d.checkGone(ctx, key)
	case err != nil:
		return err
	case ref == nil || ref.UID != owner:
		return d.check(ctx, key, o)
	}
	return d.conflict(key) // it has arrived since the list was read
}

// checkGone returns a conflict unless an object that the cache does not show has gone. One that was
// shown before has; another one may just have been created.
func (d *Dependents) checkGone(ctx context.Context, key types.NamespacedName) error {
	if !d.wasShown(key) {
		err := d.live.Get(ctx, key, d.empty())
		if err == nil {
			return d.conflict(key)
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
	}
	d.forget(key)
	return nil
}

// leave forgets that an owner has an object.
func (d *Dependents) leave(owner types.UID, key types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if delete(d.of[owner], key); len(d.of[owner]) == 0 {
		delete(d.of, owner)
	}
}
