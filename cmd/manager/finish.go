package main

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// finishTimeout bounds a call that goes on although this process is to stop.
const finishTimeout = 30 * time.Second

// untilDone returns a context that ends some time after ctx is cancelled, not
// with it; at a deadline of ctx it ends at once. A reconcile that has begun when
// this process is asked to stop goes on to its end, so that what it did in the
// cloud is also written down; the queues give out nothing new, and the manager
// waits for it before the leases are released.
func untilDone(ctx context.Context) (context.Context, context.CancelFunc) {
	going, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			cancel(ctx.Err())
			return
		}
		timer := time.NewTimer(finishTimeout)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel(ctx.Err())
		case <-going.Done():
		}
	})
	return going, func() {
		stop()
		cancel(nil)
	}
}

// finishingClient is a client whose writes are finished even when this process
// is asked to stop meanwhile.
type finishingClient struct{ client.Client }

// Create is the client's.
func (c finishingClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	ctx, cancel := untilDone(ctx)
	defer cancel()
	return c.Client.Create(ctx, obj, opts...)
}

// Delete is the client's.
func (c finishingClient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	ctx, cancel := untilDone(ctx)
	defer cancel()
	return c.Client.Delete(ctx, obj, opts...)
}

// Update is the client's.
func (c finishingClient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	ctx, cancel := untilDone(ctx)
	defer cancel()
	return c.Client.Update(ctx, obj, opts...)
}

// Patch is the client's.
func (c finishingClient) Patch(ctx context.Context, obj client.Object, patch client.Patch,
	opts ...client.PatchOption,
) error {
	ctx, cancel := untilDone(ctx)
	defer cancel()
	return c.Client.Patch(ctx, obj, patch, opts...)
}

// Apply is the client's.
func (c finishingClient) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	ctx, cancel := untilDone(ctx)
	defer cancel()
	return c.Client.Apply(ctx, obj, opts...)
}

// Status is the client's, finished likewise.
func (c finishingClient) Status() client.SubResourceWriter {
	return finishingSubResource{c.Client.SubResource("status")}
}

// SubResource is the client's, finished likewise.
func (c finishingClient) SubResource(name string) client.SubResourceClient {
	return finishingSubResource{c.Client.SubResource(name)}
}

type finishingSubResource struct{ client.SubResourceClient }

// Create is the client's.
func (c finishingSubResource) Create(ctx context.Context, obj, sub client.Object,
	opts ...client.SubResourceCreateOption,
) error {
	ctx, cancel := untilDone(ctx)
	defer cancel()
	return c.SubResourceClient.Create(ctx, obj, sub, opts...)
}

// Update is the client's.
func (c finishingSubResource) Update(ctx context.Context, obj client.Object,
	opts ...client.SubResourceUpdateOption,
) error {
	ctx, cancel := untilDone(ctx)
	defer cancel()
	return c.SubResourceClient.Update(ctx, obj, opts...)
}

// Patch is the client's.
func (c finishingSubResource) Patch(ctx context.Context, obj client.Object, patch client.Patch,
	opts ...client.SubResourcePatchOption,
) error {
	ctx, cancel := untilDone(ctx)
	defer cancel()
	return c.SubResourceClient.Patch(ctx, obj, patch, opts...)
}

// Apply is the client's.
func (c finishingSubResource) Apply(ctx context.Context, obj runtime.ApplyConfiguration,
	opts ...client.SubResourceApplyOption,
) error {
	ctx, cancel := untilDone(ctx)
	defer cancel()
	return c.SubResourceClient.Apply(ctx, obj, opts...)
}

// finishing makes an account finish the calls that change something.
func finishing(_ cloud.AccountInfo, next cloud.Account) cloud.Account {
	return finishingAccount{next}
}

type finishingAccount struct{ cloud.Account }

// Create is the account's.
func (a finishingAccount) Create(ctx context.Context, r cloud.CreateRequest) (cloud.VM, error) {
	ctx, cancel := untilDone(ctx)
	defer cancel()
	return a.Account.Create(ctx, r)
}

// Delete is the account's.
func (a finishingAccount) Delete(ctx context.Context, r cloud.Ref) (cloud.Deletion, error) {
	ctx, cancel := untilDone(ctx)
	defer cancel()
	return a.Account.Delete(ctx, r)
}

// Close closes the account if it can be.
func (a finishingAccount) Close() error {
	if c, ok := a.Account.(interface{ Close() error }); ok {
		return c.Close()
	}
	return nil
}
