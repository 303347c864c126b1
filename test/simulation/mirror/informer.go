package mirror

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/apiserver"
)

// Informer shows the objects of a kind as they were after some of its changes.
type Informer struct {
	kind     *apiserver.Kind
	position int // changes of the log that it has seen
	lives    int // of the server, as it was when the position was taken
	store    map[types.NamespacedName]client.Object
	handlers []toolscache.ResourceEventHandler
}

func newInformer(k *apiserver.Kind, position int) *Informer {
	i := &Informer{kind: k, position: position, lives: k.Lives(), store: map[types.NamespacedName]client.Object{}}
	for _, c := range k.Log()[:position] {
		i.put(c)
	}
	return i
}

// Kind is what it shows.
func (i *Informer) Kind() *apiserver.Kind { return i.kind }

// Behind is how many changes it has not seen yet. A server that was restored is one change.
func (i *Informer) Behind() int {
	if i.lives != i.kind.Lives() {
		return 1
	}
	return len(i.kind.Log()) - i.position
}

// Store is what it shows; it must not be modified.
func (i *Informer) Store() map[types.NamespacedName]client.Object { return i.store }

// Next shows the next change.
func (i *Informer) Next() {
	if i.lives != i.kind.Lives() {
		i.Relist()
		return
	}
	c := i.kind.Log()[i.position]
	i.position++
	before := i.store[client.ObjectKeyFromObject(c.Object())]
	i.put(c)
	i.tell(before, c.New, c.Object(), false)
}

// Relist jumps to the newest state, as after a watch that broke: what came and
// went meanwhile is never seen, and what changed is seen once.
func (i *Informer) Relist() {
	before := i.store
	i.store = map[types.NamespacedName]client.Object{}
	for _, o := range i.kind.All() {
		i.store[client.ObjectKeyFromObject(o)] = o
	}
	i.position, i.lives = len(i.kind.Log()), i.kind.Lives()
	keys := maps.Clone(before)
	maps.Copy(keys, i.store)
	for _, key := range sortedKeys(keys) {
		was, is := before[key], i.store[key]
		if was != is { // each version is an object of its own
			i.tell(was, is, was, true)
		}
	}
}

func sortedKeys(m map[types.NamespacedName]client.Object) []types.NamespacedName {
	return slices.SortedFunc(maps.Keys(m), func(a, b types.NamespacedName) int {
		switch x, y := a.String(), b.String(); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
}

func (i *Informer) put(c apiserver.Change) {
	key := client.ObjectKeyFromObject(c.Object())
	if c.New == nil {
		delete(i.store, key)
		return
	}
	i.store[key] = c.New
}

// tell calls the handlers about what becomes of one object. last is what is
// known of one that is gone, which was missed.
func (i *Informer) tell(before, after, last client.Object, missed bool) {
	for _, h := range i.handlers {
		switch {
		case after == nil && before == nil:
		case after == nil && missed:
			h.OnDelete(toolscache.DeletedFinalStateUnknown{Key: client.ObjectKeyFromObject(last).String(), Obj: last})
		case after == nil:
			h.OnDelete(last)
		case before == nil:
			h.OnAdd(after, false)
		default:
			h.OnUpdate(before, after)
		}
	}
}

// AddEventHandler adds a handler and tells it what there is.
func (i *Informer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration,
	error,
) {
	for _, key := range sortedKeys(i.store) {
		h.OnAdd(i.store[key], true)
	}
	i.handlers = append(i.handlers, h)
	return synced{}, nil
}

// AddEventHandlerWithResyncPeriod is AddEventHandler: nothing is resynced.
func (i *Informer) AddEventHandlerWithResyncPeriod(h toolscache.ResourceEventHandler,
	_ time.Duration,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(h)
}

// AddEventHandlerWithOptions is AddEventHandler.
func (i *Informer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler,
	_ toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(h)
}

// RemoveEventHandler does nothing.
func (i *Informer) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error { return nil }

// AddIndexers does nothing: indexes are the Mirror's.
func (i *Informer) AddIndexers(toolscache.Indexers) error { return nil }

// HasSynced is true.
func (i *Informer) HasSynced() bool { return true }

// IsStopped is false.
func (i *Informer) IsStopped() bool { return false }

// synced is the registration of a handler that has been told all there is.
type synced struct{}

func (synced) HasSynced() bool { return true }

func (synced) HasSyncedChecker() toolscache.DoneChecker { return done{} }

// done is a checker of something that is done.
type done struct{}

func (done) Name() string { return "simulated informer" }

func (done) Done() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// HasSyncedChecker is one that is done.
func (i *Informer) HasSyncedChecker() toolscache.DoneChecker { return done{} }
