package apiserver

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A Kind is what the server serves. All of its objects share a log of changes.
type Kind struct {
	GVK        schema.GroupVersionKind
	Resource   schema.GroupResource
	Namespaced bool
	// Status reports whether the kind has a status subresource, which the main resource
	// does not write.
	Status bool
	// KeepsStatus reports whether a creation keeps the status that it came with, as
	// those of nodes do.
	KeepsStatus bool
	// Generation reports whether changes of anything but metadata and status count up
	// metadata.generation.
	Generation bool
	// Grace reports whether a deletion only marks the object, until it is deleted with
	// a grace period of 0.
	Grace bool

	object, list reflect.Type
	stored       map[types.NamespacedName]*entry
	log          []Change
	lives        int
}

// entry is a stored object. It is never modified, and versions share what they have in
// common.
type entry struct{ object client.Object }

// A Change is one entry of a log. Its objects are never modified.
type Change struct {
	Version uint64
	Kind    *Kind
	Old     client.Object // nil: it was created
	New     client.Object // nil: it is gone
	By      string        // who did it
	At      time.Time
}

// Object is the newest version that there was.
func (c Change) Object() client.Object {
	if c.New != nil {
		return c.New
	}
	return c.Old
}

// Server is an API server with its store.
type Server struct {
	now     func() time.Time
	uid     func() types.UID
	version uint64
	kinds   []*Kind
	byType  map[reflect.Type]*Kind // of objects and of lists
	watch   []func(Change)
	lives   int
	// Evict returns why a pod must not be evicted now; nil allows it.
	Evict func(pod client.Object) error
}

// New returns a Server that serves nothing yet. now and uid make its times and UIDs.
func New(now func() time.Time, uid func() types.UID) *Server {
	return &Server{now: now, uid: uid, byType: map[reflect.Type]*Kind{}}
}

// Serve adds a kind, whose objects and lists are of these types.
func (s *Server) Serve(k Kind, object client.Object, list client.ObjectList) {
	k.object, k.list = reflect.TypeOf(object).Elem(), reflect.TypeOf(list).Elem()
	k.stored = map[types.NamespacedName]*entry{}
	served := &k
	s.kinds = append(s.kinds, served)
	s.byType[k.object], s.byType[k.list] = served, served
}

// OnChange has f called after each change, in order.
func (s *Server) OnChange(f func(Change)) { s.watch = append(s.watch, f) }

// Kinds are what is served, in the order in which it was added.
func (s *Server) Kinds() []*Kind { return s.kinds }

// KindOf is the kind of an object or a list; nil if it is not served.
func (s *Server) KindOf(o any) *Kind { return s.byType[reflect.TypeOf(o).Elem()] }

// Version is that of the last change.
func (s *Server) Version() uint64 { return s.version }

// Log is all that has happened to objects of k, oldest first.
func (k *Kind) Log() []Change { return k.log }

// New returns an empty object of the kind.
func (k *Kind) New() client.Object { return reflect.New(k.object).Interface().(client.Object) }

// Look returns the stored object of that key, nil if there is none. It must not
// be modified.
func (k *Kind) Look(key types.NamespacedName) client.Object {
	if e := k.stored[key]; e != nil {
		return e.object
	}
	return nil
}

// All returns the stored objects, sorted by key. They must not be modified.
func (k *Kind) All() []client.Object {
	out := make([]client.Object, 0, len(k.stored))
	for _, e := range k.stored {
		out = append(out, e.object)
	}
	slices.SortFunc(out, ByKey)
	return out
}

// ByKey orders objects by namespace and name, as etcd does.
func ByKey(a, b client.Object) int {
	return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
}

// Get returns the stored object, or the error of an API server.
func (s *Server) Get(k *Kind, key types.NamespacedName) (client.Object, error) {
	if o := k.Look(key); o != nil {
		return o, nil
	}
	return nil, apierrors.NewNotFound(k.Resource, key.Name)
}

// List returns what matches, sorted by key.
func (s *Server) List(k *Kind, namespace string, selector labels.Selector,
	match func(client.Object) bool,
) []client.Object {
	return slices.DeleteFunc(k.All(), func(o client.Object) bool {
		return namespace != "" && o.GetNamespace() != namespace ||
			selector != nil && !selector.Matches(labels.Set(o.GetLabels())) || match != nil && !match(o)
	})
}

// record puts an object in the place of another one and tells those who watch.
func (s *Server) record(k *Kind, by string, before, after client.Object) {
	s.version++
	c := Change{Version: s.version, Kind: k, Old: before, New: after, By: by, At: s.now()}
	if after != nil {
		after.SetResourceVersion(strconv.FormatUint(s.version, 10))
		k.stored[client.ObjectKeyFromObject(after)] = &entry{object: after}
	} else {
		last := before.DeepCopyObject().(client.Object)
		last.SetResourceVersion(strconv.FormatUint(s.version, 10))
		c.Old = last
		delete(k.stored, client.ObjectKeyFromObject(before))
	}
	k.log = append(k.log, c)
	for _, f := range s.watch {
		f(c)
	}
}

func conflict(k *Kind, name string) error {
	return apierrors.NewConflict(k.Resource, name,
		fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
}
