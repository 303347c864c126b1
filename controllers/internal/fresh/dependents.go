package fresh

import (
	"context"
	"maps"
	"reflect"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
)

// missingPeriod is how often the API server is asked for an object that was created and not shown.
const missingPeriod = time.Second

// Dependents is a [Client] for objects of one kind that are listed by the owner which
// controls them. List returns what the cache shows, Check reports whether that is everything
// that this process created or patched, and Pending returns what it asked for in requests that
// got no answer and may still arrive. It is safe for concurrent use.
type Dependents struct {
	*Client

	mu sync.Mutex
	// of are the objects that were listed or written, by UID of their owner.
	of map[types.UID]map[types.NamespacedName]failedWrite
}

// failedWrite is a write that failed and may have taken effect; zero: there is none.
type failedWrite struct {
	asked    client.Object // what was to be written
	base     string        // the version that was written to; empty: it was a creation
	at       time.Time
	rejected bool // the API server refused it, maybe because of what is there already
}

// unanswered reports whether the API server may still carry it out.
func (x failedWrite) unanswered() bool { return x.asked != nil && !x.rejected }

// NewDependents returns Dependents of the kind of o.
func NewDependents(d ClientDeps, o client.Object) *Dependents {
	return &Dependents{Client: NewClient(d, o), of: map[types.UID]map[types.NamespacedName]failedWrite{}}
}

// Create creates o.
func (d *Dependents) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if reflect.TypeOf(o) == d.kind {
		d.forget(client.ObjectKeyFromObject(o)) // what was shown was another object of that name
	}
	return d.note(o, "", d.Client.Create(ctx, o, opts...))
}

// Patch patches o.
func (d *Dependents) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	base := o.GetResourceVersion()
	return d.note(o, base, d.Client.Patch(ctx, o, p, opts...))
}

// note remembers who controls an object that was written, and whether that may have failed. It
// returns the error of the write.
func (d *Dependents) note(o client.Object, base string, err error) error {
	owner := metav1.GetControllerOfNoCopy(o)
	if owner == nil || reflect.TypeOf(o) != d.kind {
		return err
	}
	var x failedWrite
	if err != nil {
		x = failedWrite{asked: o, base: base, at: d.clock.Now(), rejected: Rejected(err)}
	}
	d.update(owner.UID, client.ObjectKeyFromObject(o), func(was failedWrite) failedWrite {
		if x.rejected && was.unanswered() {
			return was // it may still arrive, whatever became of this one
		}
		return x
	})
	return err
}

// Saw remembers an object that was read from the API server: the cache has to show it.
func (d *Dependents) Saw(o client.Object) {
	d.remember(o)
	if owner := metav1.GetControllerOfNoCopy(o); owner != nil {
		d.set(owner.UID, client.ObjectKeyFromObject(o), failedWrite{})
	}
}

// Check returns a conflict if the cache, which shows these objects of an owner and no others,
// does not show yet what this process wrote to one of the owner's objects. Requests are made for
// objects that were created and never shown, that a write has failed for, and that are behind
// for [fence.Reach].
func (d *Dependents) Check(ctx context.Context, owner types.UID, objects []client.Object) error {
	known := d.known(owner)
	for key, x := range known {
		if pending, err := d.resolve(ctx, owner, key, x); err != nil {
			return err
		} else if pending {
			delete(known, key)
		}
	}
	for _, o := range objects {
		key := client.ObjectKeyFromObject(o)
		if err := d.check(ctx, key, o); client.IgnoreNotFound(err) != nil {
			return err
		}
		d.list(owner, key)
		delete(known, key)
	}
	for key := range known {
		if err := d.checkMissing(ctx, owner, key); err != nil {
			return err
		}
		d.leave(owner, key)
	}
	return nil
}

// Pending returns what was asked for in writes of this process to objects of an owner that got no
// answer. Each may still take effect, until fence.Reach has passed or the object has changed,
// which Check finds out.
func (d *Dependents) Pending(owner types.UID) (asked []client.Object) {
	for _, x := range d.known(owner) {
		if x.asked != nil {
			asked = append(asked, x.asked)
		}
	}
	return asked
}

// resolve finds out whether a write that failed has taken effect, and reports whether it still
// may. A patch with a precondition cannot any more once the object has another version.
func (d *Dependents) resolve(ctx context.Context, owner types.UID, key types.NamespacedName,
	x failedWrite,
) (pending bool, err error) {
	if x.asked == nil {
		return false, nil
	}
	live := d.empty()
	err = d.live.Get(ctx, key, live)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return false, err
	case err == nil && live.GetResourceVersion() != x.base:
		d.remember(live)
	case !x.rejected && d.clock.Since(x.at) < fence.Reach:
		return true, nil
	}
	d.set(owner, key, failedWrite{})
	return false, nil
}

// known returns the objects of an owner that were listed or written.
func (d *Dependents) known(owner types.UID) map[types.NamespacedName]failedWrite {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.of[owner])
}

// set remembers an object of an owner, and the last write to it that failed.
func (d *Dependents) set(owner types.UID, key types.NamespacedName, x failedWrite) {
	d.update(owner, key, func(failedWrite) failedWrite { return x })
}

// list remembers an object of an owner that the cache shows.
func (d *Dependents) list(owner types.UID, key types.NamespacedName) {
	d.update(owner, key, func(was failedWrite) failedWrite { return was })
}

// update remembers an object of an owner, and what follows from the last write to it that failed.
func (d *Dependents) update(owner types.UID, key types.NamespacedName, follows func(failedWrite) failedWrite) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of[owner] == nil {
		d.of[owner] = map[types.NamespacedName]failedWrite{}
	}
	d.of[owner][key] = follows(d.of[owner][key])
}

// leave forgets that an owner has an object.
func (d *Dependents) leave(owner types.UID, key types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if delete(d.of[owner], key); len(d.of[owner]) == 0 {
		delete(d.of, owner)
	}
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
	case ref != nil && ref.UID == owner, older(o.GetResourceVersion(), d.lastWrite(key).version):
		return d.conflict(key) // it has arrived since the list was read, or its adoption has not
	}
	return nil
}

// checkGone returns a conflict unless an object that the cache does not show has gone. One that was
// shown before has; another one may just have been created.
func (d *Dependents) checkGone(ctx context.Context, key types.NamespacedName) error {
	if w := d.lastWrite(key); older(w.shown, w.version) {
		if d.clock.Since(w.checked) < missingPeriod {
			return d.conflict(key)
		}
		err := d.live.Get(ctx, key, d.empty())
		if err == nil {
			looked := w
			looked.checked = d.clock.Now()
			d.replace(key, w, looked)
			return d.conflict(key)
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
	}
	d.forget(key)
	return nil
}
