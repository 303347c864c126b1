package mcmconfig_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
)

func TestTokenIsExtended(t *testing.T) {
	t.Parallel()
	w := newEnv(t, objects(config())...)
	w.reconcile()
	before, tokens := w.value(), w.tokens()
	for range 6 { // an hour, in which the VM does not come
		w.pass(life / 2)
		w.pass(time.Second)
		w.reconcile()
	}
	if w.value() != before {
		t.Error("the data must not change while its token lives: a VM may be made with it right now")
	}
	hasToken(t, before, w.tokens())
	if w.tokens()[0] != tokens[0] {
		t.Error("it is the same token that lives on")
	}
}

func TestTokenOfNobody(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		begun  bool
		want   string
		same   bool
	}{
		"BeforeTheVM": {"Without a VM, new data is made with a new token.", false, "True", false},
		"AfterTheVM": {
			"A VM has its data already; other data would not reach it.", true,
			bootstrapv1.ReasonBootstrapTokenExpired, true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, objects(config())...)
			w.reconcile()
			before := w.value()
			w.pass(2 * life) // the token was not renewed
			if tc.begun {
				m := &clusterv1.Machine{}
				w.change(m, key, func() { m.Spec.ProviderID = "sim:///sim-1/vm-1" })
			}
			w.reconcile()
			if got, _, _ := strings.Cut(w.ready(), ":"); got != tc.want || (w.value() == before) != tc.same {
				t.Errorf("Ready = %q, want %q, same data %v: %s", w.ready(), tc.want, w.value() == before, tc.reason)
			}
			after := w.value()
			if w.reconcile(); w.value() != after {
				t.Error("once is enough")
			}
			if !tc.same && !strings.Contains(after, w.tokens()[0]) && !strings.Contains(after, w.tokens()[1]) {
				t.Error("the new data has a token")
			}
		})
	}
}

func TestTokenEndsWithTheJoin(t *testing.T) {
	t.Parallel()
	w := newEnv(t, objects(config())...)
	w.reconcile()
	before := w.value()
	w.join()
	if wait := w.reconcile().RequeueAfter; wait != 0 || len(w.tokens()) != 0 {
		t.Errorf("a node that has joined needs no token: %v, wait %s", w.tokens(), wait)
	}
	if w.value() != before || w.ready() != "True" {
		t.Errorf("the data stays: %s", w.ready())
	}
	w.writes, w.calls = nil, 0
	if w.reconcile(); len(w.writes) > 0 || w.calls > 0 {
		t.Errorf("then there is nothing left to do: %v, %d calls to the workload cluster", w.writes, w.calls)
	}
}

func TestDataIsNotMadeAnew(t *testing.T) {
	t.Parallel()
	w := newEnv(t, objects(config())...)
	w.reconcile()
	before := w.value()
	c, s := &bootstrapv1.MCMConfig{}, &corev1.Secret{}
	w.change(c, key, func() { c.Spec.UserDataSecretRef.Name = "other"; c.Generation++ })
	w.change(s, client.ObjectKey{Namespace: "default", Name: "boot"}, func() { s.Data["userData"] = []byte("changed") })
	w.reconcile()
	if w.value() != before || w.ready() != "True" {
		t.Errorf("changes in place reach new machines only: %s", w.ready())
	}
}

func TestMetadataIsRestored(t *testing.T) {
	t.Parallel()
	w := newEnv(t, objects(config())...)
	w.reconcile()
	s := &corev1.Secret{}
	w.change(s, key, func() { s.OwnerReferences, s.Labels = nil, nil })
	w.reconcile()
	got := w.data()
	if metav1.GetControllerOf(got) == nil || got.Labels[clusterv1.ClusterNameLabel] != "c1" {
		t.Errorf("owner and label come back: %+v", got.ObjectMeta)
	}
}

func TestAfterMove(t *testing.T) {
	t.Parallel()
	w := newEnv(t, objects(config())...)
	w.reconcile()
	moved := w.data()
	moved.ResourceVersion = ""
	moved.OwnerReferences[0].UID = "new-uid" // as clusterctl writes it

	there := newEnv(t, objects(moved, config(func(c *bootstrapv1.MCMConfig) { c.UID = "new-uid" }))...)
	there.clusters.Connect(clusterKey, w.workload) // the workload cluster stays
	there.reconcile()
	if there.value() != w.value() || there.config().Status.DataSecretName != "m1" || there.ready() != "True" {
		t.Errorf("the status comes back from what is there: %s", there.ready())
	}
	there.join()
	there.reconcile()
	if len(w.tokens()) != 0 {
		t.Error("the token is still known by the durable owner id, whatever the UIDs")
	}
}

func TestVMWithoutSecret(t *testing.T) {
	t.Parallel()
	w := newEnv(t, cluster(), machine(func(m *clusterv1.Machine) {
		m.Spec.ProviderID = "sim:///sim-1/vm-1"
	}), secret("boot", userData), config())
	w.reconcile()
	if w.data() != nil || w.calls != 0 || w.config().Status.DataSecretName != "m1" || w.ready() != "True" {
		t.Errorf("a machine that has its VM needs no boot data any more: %s", w.ready())
	}
}

func TestPausedFirst(t *testing.T) {
	t.Parallel()
	paused := cluster()
	paused.Spec.Paused = new(true)
	for name, objects := range map[string][]client.Object{
		"by its Cluster": {paused, machine(), secret("boot", userData), config()},
		"by itself": objects(config(func(c *bootstrapv1.MCMConfig) {
			c.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		})),
	} {
		w := newEnv(t, objects...)
		w.reconcile()
		if len(w.writes) != 1 || w.calls != 0 || w.ready() != "" {
			t.Errorf("%s: a paused object gets its condition Paused and nothing else: %v", name, w.writes)
		}
		if w.reconcile(); len(w.writes) != 1 {
			t.Errorf("%s: once: %v", name, w.writes)
		}
	}
}

func TestWatchFilter(t *testing.T) {
	t.Parallel()
	w := newEnv(t, objects(config())...)
	w.deps.WatchFilter = "us"
	if w.reconcile(); len(w.writes) != 0 {
		t.Errorf("objects of other managers are left alone: %v", w.writes)
	}
}

func TestDeletingIsLeftAlone(t *testing.T) {
	t.Parallel()
	now := metav1.NewTime(start)
	w := newEnv(t, objects(config(func(c *bootstrapv1.MCMConfig) {
		c.DeletionTimestamp, c.Finalizers = &now, []string{"x/y"}
	}))...)
	if w.reconcile(); len(w.writes) != 0 {
		t.Errorf("a config that goes makes nothing: %v", w.writes)
	}
}

func TestForbidden(t *testing.T) {
	t.Parallel()
	w := newEnv(t, objects(config())...)
	forbid := true
	w.clusters.Connect(clusterKey, interceptor.NewClient(w.workload.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if forbid {
				return apierrors.NewForbidden(corev1.Resource("secrets"), o.GetName(), nil)
			}
			return c.Create(ctx, o, opts...)
		},
	}))
	if wait := w.reconcile().RequeueAfter; wait != time.Minute ||
		!strings.HasPrefix(w.ready(), bootstrapv1.ReasonTokenForbidden) || !strings.Contains(w.event(), "kube-system") {
		t.Errorf("who lacks permissions in the workload cluster learns which: %s, wait %s", w.ready(), wait)
	}
	forbid = false
	if w.reconcile(); w.ready() != "True" {
		t.Errorf("once they are given, it goes on: %s", w.ready())
	}
}
