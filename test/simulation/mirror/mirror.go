// Package mirror is what a manager sees of an API server: a cache that lags
// behind, and clients whose every request goes over a wire on which requests
// and answers can get lost. Nothing here runs by itself.
package mirror

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/apiserver"
)

// Mirror is a cache of one server. Each kind has an informer that shows the
// server as it was some changes ago, and moves on when it is told to.
type Mirror struct {
	server  *apiserver.Server
	lag     func(*apiserver.Kind) int // how many changes a new informer is behind
	indexes map[*apiserver.Kind]map[string]client.IndexerFunc
	all     []*Informer
}

var _ cache.Cache = (*Mirror)(nil)

// New returns a Mirror that has read nothing yet.
func New(server *apiserver.Server, lag func(*apiserver.Kind) int) *Mirror {
	return &Mirror{server: server, lag: lag, indexes: map[*apiserver.Kind]map[string]client.IndexerFunc{}}
}

// Server is what it is a cache of.
func (m *Mirror) Server() *apiserver.Server { return m.server }

// Informers are those that there are, in the order in which they were asked for.
func (m *Mirror) Informers() []*Informer { return m.all }

// Of returns the informer of a kind, which is made when it is first asked for.
func (m *Mirror) Of(k *apiserver.Kind) *Informer {
	for _, i := range m.all {
		if i.kind == k {
			return i
		}
	}
	i := newInformer(k, max(len(k.Log())-m.lag(k), 0))
	m.all = append(m.all, i)
	return i
}

func (m *Mirror) kindOf(o any) (*apiserver.Kind, error) {
	if k := kindOf(m.server, o); k != nil {
		return k, nil
	}
	return nil, fmt.Errorf("the model does not serve %T", o)
}

// Get reads an object as the cache shows it.
func (m *Mirror) Get(_ context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	k, err := m.kindOf(into)
	if err != nil {
		return err
	}
	found := m.Of(k).store[key]
	if found == nil {
		return apierrors.NewNotFound(k.Resource, key.Name)
	}
	if partial, ok := into.(*metav1.PartialObjectMetadata); ok {
		*partial = metadataOf(k, found)
		return nil
	}
	o := client.GetOptions{}
	o.ApplyOptions(opts)
	assign(into, found, o.UnsafeDisableDeepCopy)
	return nil
}

// List reads objects as the cache shows them, sorted by key.
func (m *Mirror) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	k, err := m.kindOf(into)
	if err != nil {
		return err
	}
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	match, err := m.matcher(k, o.FieldSelector)
	if err != nil {
		return err
	}
	var found []client.Object
	for _, object := range m.Of(k).store {
		if o.Namespace != "" && object.GetNamespace() != o.Namespace ||
			o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(object.GetLabels())) || !match(object) {
			continue
		}
		found = append(found, object)
	}
	slices.SortFunc(found, apiserver.ByKey)
	fill(into, found, o.UnsafeDisableDeepCopy)
	return nil
}

// matcher returns what a field selector asks of an object, by the indexes.
func (m *Mirror) matcher(k *apiserver.Kind, s fields.Selector) (func(client.Object) bool, error) {
	if s == nil || s.Empty() {
		return func(client.Object) bool { return true }, nil
	}
	asked := s.Requirements()
	for _, r := range asked {
		if m.indexes[k][r.Field] == nil {
			return nil, fmt.Errorf("index with name field:%s does not exist on %s", r.Field, k.GVK.Kind)
		}
	}
	return func(o client.Object) bool {
		for _, r := range asked {
			if !slices.Contains(m.indexes[k][r.Field](o), r.Value) {
				return false
			}
		}
		return true
	}, nil
}

// IndexField adds an index.
func (m *Mirror) IndexField(_ context.Context, o client.Object, field string, extract client.IndexerFunc) error {
	k, err := m.kindOf(o)
	if err != nil {
		return err
	}
	if m.indexes[k] == nil {
		m.indexes[k] = map[string]client.IndexerFunc{}
	}
	m.indexes[k][field] = extract
	return nil
}

// GetInformer returns the informer of the object's kind.
func (m *Mirror) GetInformer(_ context.Context, o client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	k, err := m.kindOf(o)
	if err != nil {
		return nil, err
	}
	return m.Of(k), nil
}

// GetInformerForKind is not used by controllers.
func (m *Mirror) GetInformerForKind(_ context.Context, k schema.GroupVersionKind,
	_ ...cache.InformerGetOption,
) (cache.Informer, error) {
	return nil, fmt.Errorf("no informer by the name of its kind (%s)", k.Kind)
}

// RemoveInformer does nothing.
func (m *Mirror) RemoveInformer(context.Context, client.Object) error { return nil }

// Start returns at once: whoever plays moves the informers.
func (m *Mirror) Start(context.Context) error { return nil }

// WaitForCacheSync is true: informers are made with their first listing.
func (m *Mirror) WaitForCacheSync(context.Context) bool { return true }

// assign makes into a copy of from; shared says that they may share memory.
func assign(into, from client.Object, shared *bool) {
	if shared == nil || !*shared {
		from = from.DeepCopyObject().(client.Object)
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(from).Elem())
}

// fill makes copies of objects the items of a list.
func fill(into client.ObjectList, objects []client.Object, shared *bool) {
	items := reflect.ValueOf(into).Elem().FieldByName("Items")
	out := reflect.MakeSlice(items.Type(), len(objects), len(objects))
	for i, o := range objects {
		if shared == nil || !*shared {
			o = o.DeepCopyObject().(client.Object)
		}
		out.Index(i).Set(reflect.ValueOf(o).Elem())
	}
	items.Set(out)
}
