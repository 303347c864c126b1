package steps

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// leaseClient is a client that renews the Lease of the move before each write, if it is
// time, and refuses to write once another command has taken the Lease over: a step through
// a thousand machines may take longer than the Lease lasts.
type leaseClient struct {
	client.Client
	renew func(context.Context) error
}

// at is the engine while it works on m.
func (e *Engine) at(m *move) *Engine {
	renew := func(ctx context.Context) error { return e.renew(ctx, m) }
	out := *e
	out.Control, out.Target = leaseClient{e.Control, renew}, leaseClient{e.Target, renew}
	return &out
}

// before is called before each write. The record and the Lease are written for themselves.
func (b leaseClient) before(ctx context.Context, o client.Object) error {
	switch o.(type) {
	case *corev1.ConfigMap, *coordinationv1.Lease:
		return nil
	}
	return b.renew(ctx)
}

// Create creates o.
func (b leaseClient) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if err := b.before(ctx, o); err != nil {
		return err
	}
	return b.Client.Create(ctx, o, opts...)
}

// Patch changes o.
func (b leaseClient) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	if err := b.before(ctx, o); err != nil {
		return err
	}
	return b.Client.Patch(ctx, o, p, opts...)
}

// Delete deletes o.
func (b leaseClient) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	if err := b.before(ctx, o); err != nil {
		return err
	}
	return b.Client.Delete(ctx, o, opts...)
}

// Status writes statuses.
func (b leaseClient) Status() client.SubResourceWriter {
	return leaseStatusWriter{b.Client.Status(), b}
}

type leaseStatusWriter struct {
	client.SubResourceWriter
	parent leaseClient
}

// Patch changes the status of o.
func (b leaseStatusWriter) Patch(ctx context.Context, o client.Object, p client.Patch,
	opts ...client.SubResourcePatchOption,
) error {
	if err := b.parent.before(ctx, o); err != nil {
		return err
	}
	return b.SubResourceWriter.Patch(ctx, o, p, opts...)
}
