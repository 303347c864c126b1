package mirror

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/apiserver"
)

// Call is one request to an API server.
type Call struct {
	Verb string
	Kind *apiserver.Kind
	Key  types.NamespacedName
	Read bool
}

// String is for traces.
func (c Call) String() string {
	return fmt.Sprintf("%s %s %s", c.Verb, c.Kind.Resource.Resource, c.Key)
}

// A Wire carries requests. effect has the server do what is asked, under the
// name that it is given; it may be done later than the answer, or never.
type Wire func(ctx context.Context, c Call, effect func(by string) error) error

// Client reads from a Mirror and writes over a Wire. Without a Mirror it reads
// from the server, over the Wire too.
type Client struct {
	client.Client // nil: what is not modelled panics

	Server *apiserver.Server
	Mirror *Mirror
	Wire   Wire
	Schema *runtime.Scheme
}

// Scheme is that of the kinds.
func (c *Client) Scheme() *runtime.Scheme { return c.Schema }

// Get reads an object.
func (c *Client) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	if c.Mirror != nil {
		return c.Mirror.Get(ctx, key, into, opts...)
	}
	k, err := c.kindOf(into)
	if err != nil {
		return err
	}
	return c.Wire(ctx, Call{"get", k, key, true}, func(string) error {
		found, err := c.Server.Get(k, key)
		if err != nil {
			return err
		}
		assign(into, found, nil)
		return nil
	})
}

// List reads objects.
func (c *Client) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	if c.Mirror != nil {
		return c.Mirror.List(ctx, into, opts...)
	}
	k, err := c.kindOf(into)
	if err != nil {
		return err
	}
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	return c.Wire(ctx, Call{"list", k, types.NamespacedName{Namespace: o.Namespace}, true}, func(string) error {
		found := c.Server.List(k, o.Namespace, o.LabelSelector, func(object client.Object) bool {
			return o.FieldSelector == nil || o.FieldSelector.Matches(fieldsOf(object))
		})
		from, _ := strconv.Atoi(o.Continue) // 0 is the first page
		into.SetContinue("")
		if found = found[min(from, len(found)):]; o.Limit > 0 && len(found) > int(o.Limit) {
			found = found[:o.Limit]
			into.SetContinue(strconv.Itoa(from + int(o.Limit)))
		}
		if of, partial := into.(*metav1.PartialObjectMetadataList); partial {
			of.Items = nil
			for _, o := range found {
				of.Items = append(of.Items, metadataOf(k, o))
			}
			return nil
		}
		fill(into, found, nil)
		return nil
	})
}

// metadataOf is what a listing of metadata alone shows of an object.
func metadataOf(k *apiserver.Kind, o client.Object) metav1.PartialObjectMetadata {
	copied := o.DeepCopyObject().(client.Object)
	m := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: copied.GetName(), Namespace: copied.GetNamespace(), UID: copied.GetUID(),
		ResourceVersion: copied.GetResourceVersion(),
		Generation:      copied.GetGeneration(), CreationTimestamp: copied.GetCreationTimestamp(),
		DeletionTimestamp: copied.GetDeletionTimestamp(),
		Labels:            copied.GetLabels(), Annotations: copied.GetAnnotations(),
		OwnerReferences: copied.GetOwnerReferences(),
		Finalizers:      copied.GetFinalizers(),
	}}
	m.SetGroupVersionKind(k.GVK)
	return m
}

// fieldSet are the fields that the server can select by.
type fieldSet map[string]string

func (f fieldSet) Has(field string) bool   { _, ok := f[field]; return ok }
func (f fieldSet) Get(field string) string { return f[field] }

func fieldsOf(o client.Object) fieldSet {
	f := fieldSet{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()}
	if pod, ok := o.(*corev1.Pod); ok {
		f["spec.nodeName"] = pod.Spec.NodeName
	}
	return f
}

func (c *Client) kindOf(o any) (*apiserver.Kind, error) {
	if of, partial := o.(*metav1.PartialObjectMetadataList); partial {
		gvk := of.GroupVersionKind()
		gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
		for _, k := range c.Server.Kinds() {
			if k.GVK == gvk {
				return k, nil
			}
		}
		return nil, fmt.Errorf("the model does not serve %s", gvk)
	}
	if k := kindOf(c.Server, o); k != nil {
		return k, nil
	}
	return nil, fmt.Errorf("the model does not serve %T: %w", o, &apimeta.NoKindMatchError{})
}

// kindOf returns the kind of an object, or of metadata that names its kind; nil if the
// server has none such.
func kindOf(s *apiserver.Server, o any) *apiserver.Kind {
	of, partial := o.(*metav1.PartialObjectMetadata)
	if !partial {
		return s.KindOf(o)
	}
	for _, k := range s.Kinds() {
		if k.GVK == of.GroupVersionKind() {
			return k
		}
	}
	return nil
}

// write sends a request that changes o, and puts the answer into it.
func (c *Client) write(ctx context.Context, verb string, o client.Object,
	effect func(by string, k *apiserver.Kind) (client.Object, error),
) error {
	k, err := c.kindOf(o)
	if err != nil {
		return err
	}
	var answer client.Object
	err = c.Wire(ctx, Call{verb, k, client.ObjectKeyFromObject(o), false}, func(by string) (err error) {
		answer, err = effect(by, k)
		return err
	})
	if err == nil && answer != nil {
		assign(o, answer, nil)
	}
	return err
}

// Create creates o. What is sent is o as it is now, whenever it arrives.
func (c *Client) Create(ctx context.Context, o client.Object, _ ...client.CreateOption) error {
	sent := o.DeepCopyObject().(client.Object)
	return c.write(ctx, "create", o, func(by string, _ *apiserver.Kind) (client.Object, error) {
		return c.Server.Create(by, sent)
	})
}

// Delete deletes o.
func (c *Client) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	options := client.DeleteOptions{}
	options.ApplyOptions(opts)
	key := client.ObjectKeyFromObject(o)
	return c.write(ctx, "delete", o, func(by string, k *apiserver.Kind) (client.Object, error) {
		return nil, c.Server.Delete(by, k, key, options.AsDeleteOptions())
	})
}

// Update replaces o.
func (c *Client) Update(ctx context.Context, o client.Object, _ ...client.UpdateOption) error {
	return c.update(ctx, o, false)
}

func (c *Client) update(ctx context.Context, o client.Object, status bool) error {
	sent := o.DeepCopyObject().(client.Object)
	return c.write(ctx, "update"+suffix(status), o, func(by string, _ *apiserver.Kind) (client.Object, error) {
		return c.Server.Update(by, sent, status)
	})
}

// Patch patches o.
func (c *Client) Patch(ctx context.Context, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return c.patch(ctx, o, patch, false)
}

func (c *Client) patch(ctx context.Context, o client.Object, patch client.Patch, status bool) error {
	data, err := dataOf(o, patch)
	if err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(o)
	return c.write(ctx, "patch"+suffix(status), o, func(by string, k *apiserver.Kind) (client.Object, error) {
		return c.Server.Patch(by, k, key, apiserver.Patch{Type: patch.Type(), Data: data}, status)
	})
}

func suffix(status bool) string {
	if status {
		return " status of"
	}
	return ""
}

// Status writes statuses.
func (c *Client) Status() client.SubResourceWriter { return subResource{client: c, name: "status"} }

// SubResource is the status or the eviction of pods.
func (c *Client) SubResource(name string) client.SubResourceClient {
	return subResource{client: c, name: name}
}

// subResource is a subresource of any kind.
type subResource struct {
	client.SubResourceClient // nil: what is not modelled panics

	client *Client
	name   string
}

// Create evicts a pod.
func (s subResource) Create(ctx context.Context, o, sub client.Object, _ ...client.SubResourceCreateOption) error {
	eviction, ok := sub.(*policyv1.Eviction)
	if !ok {
		return fmt.Errorf("the model has no subresource %s that is made with %T", s.name, sub)
	}
	key := client.ObjectKeyFromObject(o)
	return s.client.write(ctx, "evict", o, func(by string, _ *apiserver.Kind) (client.Object, error) {
		return nil, s.client.Server.Eviction(by, key, eviction)
	})
}

// Update replaces the status.
func (s subResource) Update(ctx context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
	return s.client.update(ctx, o, true)
}

// Patch patches the status.
func (s subResource) Patch(ctx context.Context, o client.Object, patch client.Patch,
	_ ...client.SubResourcePatchOption,
) error {
	return s.client.patch(ctx, o, patch, true)
}
