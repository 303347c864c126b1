package fresh

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// errBehind is why an object cannot be read.
var errBehind = errors.New("the cache does not show yet what this process wrote")

// Client reads its own writes to the objects of one kind. Get fails with a
// conflict where the cache shows an older version than a write returned, and with
// not found where the last finalizer was removed from the object. Get of other
// kinds, and every List, return what the cache shows. A cache that goes back shows that
// the API server was restored from a backup, and is believed. Updates of whole objects are
// not remembered: no controller sends them. It is safe for concurrent use.
type Client struct {
	client.Client
	kind reflect.Type

	mu      sync.Mutex
	written map[types.NamespacedName]version
}

// version is the newest version of an object that this process wrote, if it wrote it.
type version struct {
	uid     types.UID
	version string
	gone    bool   // the write removed the last finalizer of an object in deletion
	shown   string // the version that Get last read
}

// NewClient returns a Client over c, which reads from a cache, for the kind of o.
func NewClient(c client.Client, o client.Object) *Client {
	return &Client{Client: c, kind: reflect.TypeOf(o), written: map[types.NamespacedName]version{}}
}

// Get reads from the cache.
func (c *Client) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := c.Client.Get(ctx, key, o, opts...)
	if reflect.TypeOf(o) != c.kind || err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		delete(c.written, key)
		return err
	}
	w := c.written[key]
	if older(o.GetResourceVersion(), w.shown) {
		w = version{} // the API server was restored: what was written since then is lost
	}
	w.shown = o.GetResourceVersion()
	c.written[key] = w
	switch {
	case w.gone && w.uid == o.GetUID():
		return apierrors.NewNotFound(c.resource(), key.Name)
	case older(o.GetResourceVersion(), w.version):
		return apierrors.NewConflict(c.resource(), key.Name, errBehind)
	}
	return nil
}

// resource names the kind in errors.
func (c *Client) resource() schema.GroupResource {
	return schema.GroupResource{Resource: strings.ToLower(c.kind.Elem().Name())}
}

// Create creates o.
func (c *Client) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	return c.record(o, c.Client.Create(ctx, o, opts...))
}

// Patch patches o.
func (c *Client) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	return c.record(o, c.Client.Patch(ctx, o, p, opts...))
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
	return s.client.record(o, s.SubResourceWriter.Patch(ctx, o, p, opts...))
}

// record remembers the version that a write returned, unless it failed. It returns
// the error of the write. A late answer to an earlier write changes nothing.
func (c *Client) record(o client.Object, err error) error {
	if err != nil || reflect.TypeOf(o) != c.kind {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := client.ObjectKeyFromObject(o)
	gone := !o.GetDeletionTimestamp().IsZero() && len(o.GetFinalizers()) == 0
	if gone || older(c.written[key].version, o.GetResourceVersion()) {
		c.written[key] = version{o.GetUID(), o.GetResourceVersion(), gone, c.written[key].shown}
	}
	return nil
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
