package fence

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Config returns a copy of config whose mutating requests pass the fence, each
// retry of the client library included. Reads are not changed.
func (f *Fence) Config(config *rest.Config) *rest.Config {
	if config == nil {
		return nil
	}
	fenced := rest.CopyConfig(config)
	fenced.Wrap(func(next http.RoundTripper) http.RoundTripper { return transport{f, next} })
	return fenced
}

// transport is an http.RoundTripper behind the fence.
type transport struct {
	fence *Fence
	next  http.RoundTripper
}

// RoundTrip sends a request. One that changes something is refused while the
// fence is closed, and finished although this process is to stop meanwhile.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions {
		return t.next.RoundTrip(r)
	}
	if err := t.fence.Check(); err != nil {
		return nil, err
	}
	ctx, cancel := detach(r.Context())
	response, err := t.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		cancel()
		t.fence.Unanswered()
		return nil, err
	}
	if response.StatusCode == http.StatusGatewayTimeout { // the server answers, and may go on with it
		t.fence.Unanswered()
	}
	response.Body = &body{ReadCloser: response.Body, done: sync.OnceFunc(cancel)}
	return response, nil
}

// WrappedRoundTripper returns the transport below, for client-go.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// body ends the context of its request once it has been read.
type body struct {
	io.ReadCloser

	done func()
}

// Close closes the body.
func (b *body) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}

// Account is a cloud.Middleware: the calls that change something pass the fence,
// and are finished although this process is to stop meanwhile. A call consists of
// several requests; it is cancelled when the fence closes.
func (f *Fence) Account(_ cloud.AccountInfo, next cloud.Account) cloud.Account {
	return account{next, f}
}

type account struct {
	cloud.Account

	fence *Fence
}

// Create makes the VM while the fence is open.
func (a account) Create(ctx context.Context, r cloud.CreateRequest) (cloud.VM, error) {
	if err := a.fence.Check(); err != nil {
		return cloud.VM{}, refusal("create VM", err)
	}
	ctx, cancel := a.fence.whileOpen(ctx)
	defer cancel()
	return a.fence.created(a.Account.Create(ctx, r))
}

// Delete deletes the VM while the fence is open.
func (a account) Delete(ctx context.Context, r cloud.Ref) (cloud.Deletion, error) {
	if err := a.fence.Check(); err != nil {
		return cloud.Deletion{}, refusal("delete VM", err)
	}
	ctx, cancel := a.fence.whileOpen(ctx)
	defer cancel()
	return a.Account.Delete(ctx, r)
}

// SetTags changes the tags of the VM while the fence is open.
func (a account) SetTags(ctx context.Context, r cloud.Ref, obsolete []string) error {
	if err := a.fence.Check(); err != nil {
		return refusal("set tags", err)
	}
	ctx, cancel := a.fence.whileOpen(ctx)
	defer cancel()
	return cloud.SetTags(ctx, a.Account, r, obsolete)
}

// RecordRetention tags parts of VMs while the fence is open.
func (a account) RecordRetention(ctx context.Context, c cloud.Class, parts []cloud.Resource) error {
	if err := a.fence.Check(); err != nil {
		return refusal("record retention", err)
	}
	ctx, cancel := a.fence.whileOpen(ctx)
	defer cancel()
	return cloud.RecordRetention(ctx, a.Account, c, parts)
}

// Reboot reboots the VM while the fence is open.
func (a account) Reboot(ctx context.Context, r cloud.Ref) error {
	if err := a.fence.Check(); err != nil {
		return refusal("reboot VM", err)
	}
	ctx, cancel := a.fence.whileOpen(ctx)
	defer cancel()
	return cloud.Reboot(ctx, a.Account, r)
}

// Console reads the console of the VM, which changes nothing.
func (a account) Console(ctx context.Context, r cloud.Ref) (string, error) {
	return cloud.Console(ctx, a.Account, r)
}

// RemoveBootData removes the boot data that is kept for a VM while the fence is open.
func (a account) RemoveBootData(ctx context.Context, r cloud.Ref) error {
	if err := a.fence.Check(); err != nil {
		return refusal("remove boot data", err)
	}
	ctx, cancel := a.fence.whileOpen(ctx)
	defer cancel()
	return cloud.RemoveBootData(ctx, a.Account, r)
}

// Register registers the VM with load balancers while the fence is open.
func (a account) Register(ctx context.Context, r cloud.Ref, places []string) (cloud.Registration, error) {
	return a.member(ctx, "register VM", func(ctx context.Context) (cloud.Registration, error) {
		return cloud.Register(ctx, a.Account, r, places)
	})
}

// Deregister takes the VM out of load balancers while the fence is open.
func (a account) Deregister(ctx context.Context, r cloud.Ref, places []string) (cloud.Registration, error) {
	return a.member(ctx, "deregister VM", func(ctx context.Context) (cloud.Registration, error) {
		return cloud.Deregister(ctx, a.Account, r, places)
	})
}

func (a account) member(ctx context.Context, op string, call func(context.Context) (cloud.Registration, error)) (
	cloud.Registration, error,
) {
	if err := a.fence.Check(); err != nil {
		return cloud.Registration{}, refusal(op, err)
	}
	ctx, cancel := a.fence.whileOpen(ctx)
	defer cancel()
	return call(ctx)
}

// Close closes the account if it can be.
func (a account) Close() error {
	if c, ok := a.Account.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// refusal is ErrClosed as an error of a cloud: the call may be repeated later.
func refusal(op string, err error) error {
	return &cloud.Error{Code: cloud.Unavailable, Op: op, Reason: "NotLeader", Err: err}
}

// created notes an error that leaves open whether the cloud creates the VM.
func (f *Fence) created(made cloud.VM, err error) (cloud.VM, error) {
	if cloud.OutcomeUnknown(err) {
		f.Unanswered()
	}
	return made, err
}

// Clusters returns the connections to workload clusters with clients whose
// mutating requests pass the fence. A nil cache stays nil.
func (f *Fence) Clusters(c clustercache.ClusterCache) clustercache.ClusterCache {
	if c == nil {
		return nil
	}
	return clusters{c, f}
}

type clusters struct {
	clustercache.ClusterCache

	fence *Fence
}

// GetClient returns a client that reads from the cache.
func (c clusters) GetClient(ctx context.Context, key client.ObjectKey) (client.Client, error) {
	inner, err := c.ClusterCache.GetClient(ctx, key)
	if err != nil {
		return nil, err
	}
	return c.fence.client(inner), nil
}

// GetUncachedClient returns a client that reads from the API server.
func (c clusters) GetUncachedClient(ctx context.Context, key client.ObjectKey) (client.Client, error) {
	inner, err := c.ClusterCache.GetUncachedClient(ctx, key)
	if err != nil {
		return nil, err
	}
	return c.fence.client(inner), nil
}

// client returns c behind the fence. It covers what controllers do in a workload
// cluster: patches and deletions.
func (f *Fence) client(c client.Client) client.Client {
	return interceptor.NewClient(unwatched{c}, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return f.do(ctx, func(ctx context.Context) error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return f.do(ctx, func(ctx context.Context) error { return c.Update(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption,
		) error {
			return f.do(ctx, func(ctx context.Context) error { return c.Patch(ctx, o, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return f.do(ctx, func(ctx context.Context) error { return c.Delete(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption,
		) error {
			return f.do(ctx, func(ctx context.Context) error { return c.SubResource(name).Patch(ctx, o, p, opts...) })
		},
	})
}

// do runs a request that changes something.
func (f *Fence) do(ctx context.Context, request func(context.Context) error) error {
	if err := f.Check(); err != nil {
		return err
	}
	ctx, cancel := detach(ctx)
	defer cancel()
	return request(ctx)
}

// unwatched is a client as the interceptor takes it. Controllers watch through clustercache.
type unwatched struct{ client.Client }

// Watch is not available: clustercache.ClusterCache.Watch watches.
func (unwatched) Watch(context.Context, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
	return nil, errors.ErrUnsupported
}
