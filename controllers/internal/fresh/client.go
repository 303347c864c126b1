package fresh

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
)

// errBehind is why an object cannot be read.
var errBehind = errors.New("the cache does not show yet what this process wrote")

// ClientDeps are what a Client needs; all are required.
type ClientDeps struct {
	Client client.Client // reads from a cache
	Live   client.Reader // reads from the API server
	Clock  clock.PassiveClock
}

// Client reads its own writes to the objects of one kind. Get fails with a
// conflict where the cache shows an older version than a write returned, and with
// not found where the last finalizer was removed from the object a moment ago. Get of other
// kinds, and every List, return what the cache shows. Updates of whole objects are
// not remembered: no controller sends them. It is safe for concurrent use.
//
// An API server that is restored from a backup forgets what was written since. A cache
// that goes back shows that, and is believed. A cache that was behind, and shows the very
// version that was restored, does not go back. So Get looks up on the API server what the
// cache has not shown for [fence.Reach], and again after that time.
type Client struct {
	client.Client
	live  client.Reader
	clock clock.PassiveClock
	kind  reflect.Type

	mu      sync.Mutex
	written map[types.NamespacedName]version
}

// version is the newest version of an object that this process wrote, if it wrote it.
type version struct {
	uid     types.UID
	version string
	gone    bool      // the write removed the last finalizer of an object in deletion
	shown   string    // the version that was last read
	checked time.Time // when it was written, or last read from the API server
}

// NewClient returns a Client for the kind of o.
func NewClient(d ClientDeps, o client.Object) *Client {
	return &Client{
		Client: d.Client, live: d.Live, clock: d.Clock,
		kind: reflect.TypeOf(o), written: map[types.NamespacedName]version{},
	}
}

// Get reads from the cache.
func (c *Client) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := c.Client.Get(ctx, key, o, opts...)
	if reflect.TypeOf(o) != c.kind || err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err != nil {
		c.forget(key)
		return err
	}
	return c.check(ctx, key, o)
}

// check returns why o, which the cache shows, cannot be read; nil if it can.
func (c *Client) check(ctx context.Context, key types.NamespacedName, o client.Object) error {
	w := c.shown(key, o)
	if !w.ended(o) && !older(o.GetResourceVersion(), w.version) {
		return nil
	}
	return c.behind(ctx, key, o, w)
}

// forget forgets what was written to an object that is gone.
func (c *Client) forget(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.written, key)
}

// lastWrite returns what was last written to an object; zero if nothing is known.
func (c *Client) lastWrite(key types.NamespacedName) version {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.written[key]
}

// ended reports whether the write removed the last finalizer of o.
func (w version) ended(o client.Object) bool { return w.gone && w.uid == o.GetUID() }

// behind returns why o, from before the write w, cannot be read; nil if the write is lost.
func (c *Client) behind(ctx context.Context, key types.NamespacedName, o client.Object, w version) error {
	if c.clock.Since(w.checked) >= fence.Reach {
		if lost, err := c.lost(ctx, key, w); lost || err != nil {
			return err
		}
	} else if w.ended(o) {
		return apierrors.NewNotFound(c.resource(), key.Name)
	}
	return c.conflict(key)
}

// conflict returns the error of an object that the cache shows too old, or not at all.
func (c *Client) conflict(key types.NamespacedName) error {
	return apierrors.NewConflict(c.resource(), key.Name, errBehind)
}

// empty returns a new object of the kind.
func (c *Client) empty() client.Object {
	return reflect.New(c.kind.Elem()).Interface().(client.Object) //nolint:forcetypeassert // as what Get reads
}

// shown records the version that the cache shows of an object, and returns what was
// written to it and still exists.
func (c *Client) shown(key types.NamespacedName, o client.Object) version {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.written[key]
	if older(o.GetResourceVersion(), w.shown) {
		w = version{} // the API server was restored: what was written since then is lost
	}
	w.shown = o.GetResourceVersion()
	c.written[key] = w
	return w
}

// lost asks the API server and reports whether it has forgotten the write w, which the cache
// does not show; then c forgets it, too. The end of an object that was not lost counts as an
// update from then on, so that its controller looks again until the cache shows it: the API
// server may still be restored.
func (c *Client) lost(ctx context.Context, key types.NamespacedName, w version) (bool, error) {
	live := c.empty()
	if err := c.live.Get(ctx, key, live); client.IgnoreNotFound(err) != nil {
		return false, err
	} else if err == nil && (w.ended(live) || older(live.GetResourceVersion(), w.version)) {
		return c.replace(key, w, version{shown: w.shown}), nil
	}
	checked := w
	checked.gone, checked.checked = false, c.clock.Now()
	c.replace(key, w, checked)
	return false, nil
}

// replace replaces what is remembered of an object, and reports whether it was what it replaces:
// meanwhile something else may have been written or shown.
func (c *Client) replace(key types.NamespacedName, was, is version) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.written[key] != was {
		return false
	}
	c.written[key] = is
	return true
}

// resource names the kind in errors.
func (c *Client) resource() schema.GroupResource {
	return schema.GroupResource{Resource: strings.ToLower(c.kind.Elem().Name())}
}

// Create creates o.
func (c *Client) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	return c.record(ctx, o, c.Client.Create(ctx, o, opts...))
}

// Delete deletes o.
func (c *Client) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	err := c.Client.Delete(ctx, o, opts...)
	NoteWrite(ctx, err)
	return err
}

// Patch patches o.
func (c *Client) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	return c.record(ctx, o, c.Client.Patch(ctx, o, p, opts...))
}

// Status writes statuses.
func (c *Client) Status() client.SubResourceWriter { return statusWriter{c.Client.Status(), c} }

type statusWriter struct {
	client.SubResourceWriter
	client *Client
}

// Patch patches the status of o.
func (s statusWriter) Patch(ctx context.Context, o client.Object, p client.Patch,
	opts ...client.SubResourcePatchOption,
) error {
	return s.client.record(ctx, o, s.SubResourceWriter.Patch(ctx, o, p, opts...))
}

// record remembers the version that a write returned, unless it failed. It returns
// the error of the write. A late answer to an earlier write changes nothing.
func (c *Client) record(ctx context.Context, o client.Object, err error) error {
	NoteWrite(ctx, err)
	if err == nil && reflect.TypeOf(o) == c.kind {
		c.remember(o)
	}
	return err
}

// remember remembers that the API server has o, so that the cache has to show it.
func (c *Client) remember(o client.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := client.ObjectKeyFromObject(o)
	gone := !o.GetDeletionTimestamp().IsZero() && len(o.GetFinalizers()) == 0
	if gone || older(c.written[key].version, o.GetResourceVersion()) {
		c.written[key] = version{
			uid: o.GetUID(), version: o.GetResourceVersion(), gone: gone, shown: c.written[key].shown,
			checked: c.clock.Now(),
		}
	}
}

// Rejected reports whether the error of a write proves that the API server did nothing.
func Rejected(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return false
	}
	code := status.ErrStatus.Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusRequestTimeout
}

// Foreign passes updates that this process did not write, beside all events that
// are no updates. A former leader's write that arrives late may undo a status
// without changing anything else of the object.
func (c *Client) Foreign() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		is := e.ObjectNew.GetResourceVersion()
		return is != e.ObjectOld.GetResourceVersion() &&
			older(c.written[client.ObjectKeyFromObject(e.ObjectNew)].version, is)
	}}
}

// older reports whether version a is older than b. Versions that cannot be
// compared are not older, except that anything is newer than none.
func older(a, b string) bool {
	if a == "" || b == "" {
		return a == "" && b != ""
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
