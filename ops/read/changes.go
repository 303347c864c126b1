package read

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// rewatch is how long a watch that has ended rests before it is opened again.
const rewatch = time.Second

// errNoWatch is returned where a cluster is read from something that cannot watch.
var errNoWatch = errors.New("the client cannot watch")

// Changes watches what All reads until ctx ends. The channel gets a value after something has
// changed; what changes before that is received adds none. It watches metadata alone. Kinds that
// are not served are left out, and so are those that the user may not watch, which it returns.
// Secrets, thus the expiration of bootstrap tokens, are never watched.
func (s Source) Changes(ctx context.Context) (changed <-chan struct{}, unwatched []string, err error) {
	signal := make(chan struct{}, 1)
	for _, w := range s.watched() {
		err := w.start(ctx, signal)
		switch {
		case err == nil, meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		case apierrors.IsForbidden(err):
			unwatched = append(unwatched, w.name+": "+err.Error())
		default:
			return nil, nil, fmt.Errorf("watch %s: %w", w.name, err)
		}
	}
	return signal, unwatched, nil
}

// watched is a kind in the cluster that has it.
type watched struct {
	name string
	list client.ObjectList
	from client.Reader
	opts []client.ListOption
}

func (s Source) watched() []watched {
	var all []watched
	inNamespace := []client.ListOption{client.InNamespace(s.Namespace)}
	lists := new(Objects).lists()
	for _, kind := range explained {
		all = append(all, watched{string(kind), lists[kind].list, s.Control, inNamespace})
	}
	if s.Events {
		all = append(all, watched{"Events", &corev1.EventList{}, s.Control, inNamespace})
	}
	return append(all, watched{"Nodes", &corev1.NodeList{}, s.Target, nil})
}

// start opens the watch, and keeps it open until ctx ends.
func (w watched) start(ctx context.Context, signal chan<- struct{}) error {
	from, ok := w.from.(client.WithWatch)
	if !ok {
		return errNoWatch
	}
	opened, err := w.open(ctx, from)
	if err != nil {
		return err
	}
	go func() {
		for ctx.Err() == nil {
			forward(ctx, opened, signal)
			opened = w.reopen(ctx, from)
			notify(signal) // what happened in between
		}
	}()
	return nil
}

// open opens a watch of what changes from now on.
func (w watched) open(ctx context.Context, from client.WithWatch) (watch.Interface, error) {
	list, err := metadataOf(w.list, from)
	if err != nil {
		return nil, err
	}
	if err := from.List(ctx, list, append(w.opts, client.Limit(1))...); err != nil {
		return nil, err
	}
	return from.Watch(ctx, list, append(w.opts, &client.ListOptions{
		Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion},
	})...)
}

// metadataOf is a list of the same kind without specs and statuses.
func metadataOf(list client.ObjectList, c client.WithWatch) (*metav1.PartialObjectMetadataList, error) {
	kind, err := apiutil.GVKForObject(list, c.Scheme())
	if err != nil {
		return nil, err
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List") + "List"
	found := &metav1.PartialObjectMetadataList{}
	found.SetGroupVersionKind(kind)
	return found, nil
}

// reopen opens the watch again, as often as it takes; an ended one if ctx ends.
func (w watched) reopen(ctx context.Context, from client.WithWatch) watch.Interface {
	for {
		select {
		case <-ctx.Done():
			return watch.NewEmptyWatch()
		case <-time.After(rewatch):
		}
		if opened, err := w.open(ctx, from); err == nil {
			return opened
		}
	}
}

// forward signals changes until the watch or ctx ends.
func forward(ctx context.Context, opened watch.Interface, signal chan<- struct{}) {
	defer opened.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e, open := <-opened.ResultChan():
			if !open || e.Type == watch.Error {
				return
			}
			if e.Type != watch.Bookmark {
				notify(signal)
			}
		}
	}
}

func notify(signal chan<- struct{}) {
	select {
	case signal <- struct{}{}:
	default: // one is waiting already
	}
}
