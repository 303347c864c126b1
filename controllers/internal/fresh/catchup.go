package fresh

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// cachePeriod is how often the cache is compared while it is behind.
	cachePeriod = 100 * time.Millisecond
	// reportPeriod is how often the log says what the cache does not show yet, and
	// how often the API server is asked again about objects that never show up.
	reportPeriod = 10 * time.Second
	// listRetry is when a list is tried again that failed.
	listRetry = time.Second
	// listLimit is how many objects one request lists.
	listLimit = 1000
)

// CatchUpDeps are what CatchUp needs; all are required but Namespace.
type CatchUpDeps struct {
	Cache     client.Client // reads from the cache
	Live      client.Reader // reads from the API server
	Clock     clock.Clock
	Namespace string // what the cache shows; empty is all
}

// CatchUp blocks until the cache shows, of each kind, everything that was on the
// API server when it began: each object in that version or a newer one, and none
// that was deleted before. Kinds are lists, e.g. &MachineList{}. It costs one list
// of metadata for each kind where the cache is up to date. A request that fails is
// repeated. The only error is that of ctx.
func CatchUp(ctx context.Context, d CatchUpDeps, kinds ...client.ObjectList) error {
	for _, kind := range kinds {
		b := &backlog{CatchUpDeps: d, kind: kind}
		if err := b.clear(ctx); err != nil {
			return err
		}
	}
	return nil
}

// backlog is what the cache of one kind does not show yet.
type backlog struct {
	CatchUpDeps
	kind client.ObjectList
	gvk  schema.GroupVersionKind // of an object
	// version is that of the list.
	version string
	// missing are the objects that were listed, until the cache shows them.
	missing map[types.UID]metav1.PartialObjectMetadata
	// listed are the UIDs of all that were listed.
	listed map[types.UID]bool
	// deleted is an object that the cache shows although it was not listed; empty: none.
	deleted string
}

// clear lists the kind, and waits until the cache shows it.
func (b *backlog) clear(ctx context.Context) error {
	for {
		err := b.list(ctx)
		if err == nil {
			break
		}
		log.FromContext(ctx).Error(err, "List what the cache has to show; tried again", "in", listRetry)
		if err := b.wait(ctx, listRetry); err != nil {
			return err
		}
	}
	next := b.Clock.Now().Add(reportPeriod)
	for {
		behind, err := b.compare(ctx)
		if err == nil && behind == "" {
			return nil
		}
		if b.Clock.Now().After(next) {
			log.FromContext(ctx).Info("The cache is behind the API server; nothing is done until it has caught up",
				"kind", fmt.Sprintf("%T", b.kind), "object", behind, "error", err)
			b.recheck(ctx)
			next = b.Clock.Now().Add(reportPeriod)
		}
		if err := b.wait(ctx, cachePeriod); err != nil {
			return err
		}
	}
}

// list lists the metadata of the kind on the API server.
func (b *backlog) list(ctx context.Context) error {
	gvk, err := apiutil.GVKForObject(b.kind, b.Cache.Scheme())
	if err != nil {
		return err
	}
	b.gvk = gvk.GroupVersion().WithKind(strings.TrimSuffix(gvk.Kind, "List"))
	b.missing, b.listed = map[types.UID]metav1.PartialObjectMetadata{}, map[types.UID]bool{}
	page := &metav1.PartialObjectMetadataList{}
	for first := true; first || page.Continue != ""; first = false {
		options := &client.ListOptions{Namespace: b.Namespace, Limit: listLimit, Continue: page.Continue}
		page = &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(gvk)
		if err := b.Live.List(ctx, page, options); err != nil {
			return err
		}
		if first {
			b.version = page.ResourceVersion
		}
		for _, o := range page.Items {
			b.missing[o.UID], b.listed[o.UID] = o, true
		}
	}
	return nil
}

// compare drops from the backlog what the cache shows, and returns one object that
// it does not show yet, or still shows; empty: there is none.
func (b *backlog) compare(ctx context.Context) (behind string, err error) {
	cached, ok := b.kind.DeepCopyObject().(client.ObjectList)
	if !ok {
		return "", fmt.Errorf("%T is no list", b.kind)
	}
	if err := b.Cache.List(ctx, cached, client.InNamespace(b.Namespace)); err != nil {
		return "", err
	}
	b.deleted = ""
	if err := meta.EachListItem(cached, func(item runtime.Object) error {
		o, err := meta.Accessor(item)
		if err != nil {
			return err
		}
		b.shown(o)
		return nil
	}); err != nil {
		return "", err
	}
	for _, o := range b.missing {
		return o.Namespace + "/" + o.Name, nil
	}
	return b.deleted, nil
}

// shown takes note of an object that the cache shows.
func (b *backlog) shown(o metav1.Object) {
	if want, found := b.missing[o.GetUID()]; found && !older(o.GetResourceVersion(), want.ResourceVersion) {
		delete(b.missing, o.GetUID())
	}
	if !b.listed[o.GetUID()] && !older(b.version, o.GetResourceVersion()) {
		b.deleted = o.GetNamespace() + "/" + o.GetName()
	}
}

// recheck drops from the backlog the objects that were deleted since they were
// listed: the cache may never show them.
func (b *backlog) recheck(ctx context.Context) {
	for uid, want := range b.missing {
		live := &metav1.PartialObjectMetadata{}
		live.SetGroupVersionKind(b.gvk)
		err := b.Live.Get(ctx, types.NamespacedName{Namespace: want.Namespace, Name: want.Name}, live)
		if apierrors.IsNotFound(err) || err == nil && live.UID != uid {
			delete(b.missing, uid)
		}
	}
}

func (b *backlog) wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-b.Clock.After(d):
		return nil
	}
}
