// Package logging logs what the controllers do to clusters and clouds, where it passes:
// in the clients that write objects, and around the accounts that make VMs. The engine
// (package vm) logs the lives of VMs itself, since it knows the attempts.
//
// What changes the world is logged at the default verbosity; requests that fail and are
// tried again, and writes that only report, at verbosityRetries. The logger is that of the
// context, so that a line names the controller and the object on whose behalf it acts.
// Nothing is logged of an object but its name and the fields that are listed in change.
package logging

import (
	"context"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// verbosityRetries is the verbosity of waits, of reports and of errors that are tried again.
const verbosityRetries = 2

// NewClient returns c, whose writes are logged. It reads and writes as c does.
func NewClient(c client.Client) client.Client { return logged{c} }

type logged struct{ client.Client }

// Create creates o.
func (c logged) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	err := c.Client.Create(ctx, o, opts...)
	done(ctx, "Created object", err, about(o)...)
	return err
}

// Delete deletes o.
func (c logged) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	err := c.Client.Delete(ctx, o, opts...)
	done(ctx, "Deleted object", err, about(o)...)
	return err
}

// Patch patches o.
func (c logged) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	data, err := p.Data(o)
	if err != nil {
		return err
	}
	leaving := !o.GetDeletionTimestamp().IsZero()
	err = c.Client.Patch(ctx, o, client.RawPatch(p.Type(), data), opts...)
	if p.Type() == types.JSONPatchType { // only finalizers are removed that way
		message := "Removed finalizer"
		if leaving {
			message = "Removed finalizer of deleted object"
		}
		done(ctx, message, err, about(o)...)
		return err
	}
	changed(ctx, o, data, err)
	return err
}

// Status returns the writer of statuses.
func (c logged) Status() client.SubResourceWriter { return loggedStatus{c.Client.Status()} }

type loggedStatus struct{ client.SubResourceWriter }

// Patch patches the status of o.
func (s loggedStatus) Patch(ctx context.Context, o client.Object, p client.Patch,
	opts ...client.SubResourcePatchOption,
) error {
	data, err := p.Data(o)
	if err != nil {
		return err
	}
	err = s.SubResourceWriter.Patch(ctx, o, client.RawPatch(p.Type(), data), opts...)
	changed(ctx, o, data, err)
	return err
}

// SubResource returns the client of a subresource.
func (c logged) SubResource(name string) client.SubResourceClient {
	of := c.Client.SubResource(name)
	if name != "eviction" {
		return of
	}
	return loggedEvictions{of}
}

type loggedEvictions struct{ client.SubResourceClient }

// Create evicts a pod.
func (e loggedEvictions) Create(ctx context.Context, pod, eviction client.Object,
	opts ...client.SubResourceCreateOption,
) error {
	err := e.SubResourceClient.Create(ctx, pod, eviction, opts...)
	done(ctx, "Evicted pod", err, about(pod)...)
	return err
}

// done logs an effect, or that it failed and will be tried again.
func done(ctx context.Context, message string, err error, values ...any) {
	l := log.FromContext(ctx).WithCallDepth(1)
	switch {
	case err == nil:
		l.Info(message, values...)
	case apierrors.IsNotFound(err), apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		// An answer like others: the cache was stale.
	default:
		l.V(verbosityRetries).Info("Request failed", append(values, "request", message, "cause", err.Error())...)
	}
}

// about is what lines say of an object.
func about(o client.Object) []any {
	values := []any{"kind", kindOf(o), "object", klog.KObj(o)}
	if node, ok := o.(*corev1.Node); ok && node.Spec.ProviderID != "" {
		values = append(values, "providerID", node.Spec.ProviderID)
	}
	return values
}

// kindOf is the kind of o. Objects that were read have no type in themselves.
func kindOf(o client.Object) string {
	if kind := o.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	t := reflect.TypeOf(o)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name()
}
