package migration

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// beating is a client that says, before a write and not too often, that its move is
// being worked on, and fails once somebody else has taken that over: a step through a
// thousand machines may take longer than others wait.
type beating struct {
	client.Client
	beat func(context.Context) error
}

// at is the engine while it works on m.
func (e *Engine) at(m *move) *Engine {
	beat := func(ctx context.Context) error { return e.renew(ctx, m) }
	out := *e
	out.Control, out.Target = beating{e.Control, beat}, beating{e.Target, beat}
	return &out
}

// before is called before each write. That of the record needs no other.
func (b beating) before(ctx context.Context, o client.Object) error {
	if _, record := o.(*corev1.ConfigMap); record {
		return nil
	}
	return b.beat(ctx)
}

// Create creates o.
func (b beating) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if err := b.before(ctx, o); err != nil {
		return err
	}
	return b.Client.Create(ctx, o, opts...)
}

// Patch changes o.
func (b beating) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	if err := b.before(ctx, o); err != nil {
		return err
	}
	return b.Client.Patch(ctx, o, p, opts...)
}

// Delete deletes o.
func (b beating) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	if err := b.before(ctx, o); err != nil {
		return err
	}
	return b.Client.Delete(ctx, o, opts...)
}

// Status writes statuses.
func (b beating) Status() client.SubResourceWriter { return beatingStatus{b.Client.Status(), b} }

type beatingStatus struct {
	client.SubResourceWriter
	of beating
}

// Patch changes the status of o.
func (b beatingStatus) Patch(ctx context.Context, o client.Object, p client.Patch,
	opts ...client.SubResourcePatchOption,
) error {
	if err := b.of.before(ctx, o); err != nil {
		return err
	}
	return b.SubResourceWriter.Patch(ctx, o, p, opts...)
}
