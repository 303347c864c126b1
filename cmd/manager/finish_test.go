package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

func TestUntilDone(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		parent func(ctx context.Context) (context.Context, context.CancelFunc)
		after  time.Duration
		ended  bool
	}{
		"Running": {"a call may take as long as it takes", context.WithCancel, time.Hour, false},
		"Stopping": {"a request to stop does not end a call", func(ctx context.Context) (context.Context,
			context.CancelFunc,
		) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx, cancel
		}, finishTimeout - time.Second, false},
		"Stopped": {"but not for ever", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx, cancel
		}, finishTimeout + time.Second, true},
		"Deadline": {"who gave a call a deadline meant it", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}, 2 * time.Second, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parent, cancel := tc.parent(t.Context())
				defer cancel()
				ctx, done := untilDone(parent)
				defer done()
				time.Sleep(tc.after)
				synctest.Wait()
				if got := ctx.Err() != nil; got != tc.ended {
					t.Errorf("%s: after %s the call's context is %v", tc.reason, tc.after, ctx.Err())
				}
			})
		})
	}
}

// stubborn fails every call whose context has ended, as a real client does.
func stubborn(t *testing.T) client.Client {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	return fake.NewClientBuilder().WithScheme(
		scheme).WithObjects(node).WithStatusSubresource(node).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return errors.Join(ctx.Err(), c.Create(ctx, o, opts...))
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return errors.Join(ctx.Err(), c.Delete(ctx, o, opts...))
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return errors.Join(ctx.Err(), c.Update(ctx, o, opts...))
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption,
		) error {
			return errors.Join(ctx.Err(), c.Patch(ctx, o, p, opts...))
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption,
		) error {
			return errors.Join(ctx.Err(), c.SubResource(name).Patch(ctx, o, p, opts...))
		},
	}).Build()
}

func TestWritesFinish(t *testing.T) {
	t.Parallel()
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	c := finishingClient{stubborn(t)}
	node := &corev1.Node{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "n"}, node); err != nil {
		t.Fatal(err)
	}
	changed := node.DeepCopy()
	changed.Labels = map[string]string{"a": "b"}
	changed.Status.Phase = corev1.NodeRunning
	for name, write := range map[string]func() error{
		"Patch":  func() error { return c.Patch(stopped, changed.DeepCopy(), client.MergeFrom(node)) },
		"Status": func() error { return c.Status().Patch(stopped, changed.DeepCopy(), client.MergeFrom(node)) },
		"SubResource": func() error {
			return c.SubResource("status").Patch(stopped, changed.DeepCopy(), client.MergeFrom(node))
		},
		"Update": func() error { return c.Update(stopped, node.DeepCopy()) },
		"Create": func() error { return c.Create(stopped, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m"}}) },
		"Delete": func() error {
			return client.IgnoreNotFound(c.Delete(stopped, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m"}}))
		},
	} {
		if err := write(); errors.Is(err, context.Canceled) {
			t.Errorf("%s of a reconcile that had begun ends with the request to stop: %v", name, err)
		}
	}
}

// slowAccount says how its context was.
type slowAccount struct{ cloud.Account }

func (slowAccount) Create(ctx context.Context, _ cloud.CreateRequest) (cloud.VM, error) {
	return cloud.VM{}, ctx.Err()
}

func (slowAccount) Delete(ctx context.Context, _ cloud.Ref) (cloud.Deletion, error) {
	return cloud.Deletion{}, ctx.Err()
}

func (slowAccount) Get(ctx context.Context, _ cloud.Ref) (cloud.VM, error) {
	return cloud.VM{}, ctx.Err()
}

func TestCloudCallsFinish(t *testing.T) {
	t.Parallel()
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	var a cloud.Account = slowAccount{}
	for _, wrap := range around(prometheus.NewRegistry(), time.Minute) {
		a = wrap(cloud.AccountInfo{}, a)
	}
	if _, err := a.Create(stopped, cloud.CreateRequest{}); err != nil {
		t.Errorf("a create that had begun ends with the request to stop: %v", err)
	}
	if _, err := a.Delete(stopped, cloud.Ref{}); err != nil {
		t.Errorf("a delete that had begun ends with the request to stop: %v", err)
	}
	if _, err := a.Get(stopped, cloud.Ref{}); err == nil {
		t.Error("a read goes on although this process is to stop")
	}
}

func TestScopedClient(t *testing.T) {
	t.Parallel()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "s"}}
	all := fake.NewClientBuilder().WithScheme(scheme).WithObjects(secret).Build()
	cases := map[string]struct {
		reason, namespace string
		found             bool
	}{
		"All":   {"a manager of all namespaces sees every Secret", "", true},
		"Own":   {"a manager of one namespace sees that one's", "b", true},
		"Other": {"and no other's", "a", false},
	}
	for name, tc := range cases {
		err := scopedClient{all, tc.namespace}.Get(t.Context(), client.ObjectKeyFromObject(secret), &corev1.Secret{})
		if found := err == nil; found != tc.found || client.IgnoreNotFound(err) != nil {
			t.Errorf("%s: %s: %v", name, tc.reason, err)
		}
	}
}
