package class

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/watch"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

// requests keeps what a handler asks for.
type requests struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	added []string
}

func (q *requests) Add(r reconcile.Request) { q.added = append(q.added, r.String()) }

func TestMachineEvents(t *testing.T) {
	t.Parallel()
	of := func(class string) *machinev1.Machine {
		m := &machinev1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}
		m.Spec.Class = machinev1.ClassSpec{Kind: "MachineClass", Name: class}
		return m
	}
	named := func(name string, change func(*machinev1.MachineClass)) *machinev1.MachineClass {
		o := &machinev1.MachineClass{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name,
			Finalizers: []string{machinev1.Finalizer},
		}}
		change(o)
		return o
	}
	var q requests
	events := New(Deps{Client: harness.New(t, harness.With(
		named("held", func(*machinev1.MachineClass) {}),
		named("bare", func(o *machinev1.MachineClass) { o.Finalizers = nil }),
		named("going", func(o *machinev1.MachineClass) { o.DeletionTimestamp = new(metav1.Now()) }),
	)).Raw}).machineEvents()
	for _, class := range []string{"held", "bare", "going"} { // one that is held stays so
		events.Create(t.Context(), event.CreateEvent{Object: of(class)}, &q)
	}
	events.Delete(t.Context(), event.DeleteEvent{Object: of("held")}, &q)
	events.Create(t.Context(), event.CreateEvent{Object: of("new")}, &q)
	events.Delete(t.Context(), event.DeleteEvent{Object: of("gone")}, &q)
	events.Update(t.Context(), event.UpdateEvent{ObjectOld: of("same"), ObjectNew: of("same")}, &q)
	events.Update(t.Context(), event.UpdateEvent{ObjectOld: of("before"), ObjectNew: of("after")}, &q)
	events.Create(t.Context(), event.CreateEvent{Object: of("")}, &q)
	if diff := cmp.Diff([]string{"ns/bare", "ns/going", "ns/held", "ns/new", "ns/gone", "ns/before", "ns/after"},
		q.added); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestClassEventsReachSecretsThatWereNamed(t *testing.T) {
	t.Parallel()
	naming := func(secret, credentials string) *machinev1.MachineClass {
		return &machinev1.MachineClass{
			ObjectMeta:           metav1.ObjectMeta{Namespace: "ns"},
			SecretRef:            &corev1.SecretReference{Name: secret},
			CredentialsSecretRef: &corev1.SecretReference{Name: credentials, Namespace: "other"},
		}
	}
	var q requests
	events := secretsOf()
	events.Update(t.Context(), event.UpdateEvent{ObjectOld: naming("a", "b"), ObjectNew: naming("a", "b")}, &q)
	events.Update(t.Context(), event.UpdateEvent{ObjectOld: naming("a", "b"), ObjectNew: naming("", "c")}, &q)
	used := naming("d", "e") // its Secrets get the finalizer after it
	used.Finalizers = []string{machinev1.InUseFinalizer}
	events.Update(t.Context(), event.UpdateEvent{ObjectOld: naming("d", "e"), ObjectNew: used}, &q)
	slices.Sort(q.added)
	q.added = slices.Compact(q.added)
	if diff := cmp.Diff([]string{"ns/a", "ns/d", "other/b", "other/c", "other/e"}, q.added); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestPredicates(t *testing.T) {
	t.Parallel()
	secret := func(change func(*corev1.Secret)) *corev1.Secret {
		s := &corev1.Secret{Data: map[string][]byte{"k": []byte("v")}}
		change(s)
		return s
	}
	plain := secret(func(*corev1.Secret) {})
	held := secret(func(s *corev1.Secret) { s.Finalizers = []string{machinev1.SecretFinalizer} })
	leaving := secret(func(s *corev1.Secret) { s.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)} })
	changed := secret(func(s *corev1.Secret) { s.Data, s.ResourceVersion = map[string][]byte{"k": []byte("w")}, "2" })
	cases := map[string]struct {
		reason        string
		predicate     predicate.Predicate
		before, after client.Object
		want          bool
	}{
		"OwnWrite": {
			"The last user may have gone before the cache showed our finalizer.",
			watch.ExceptStatus(), plain, held, true,
		},
		"Lost": {
			"A finalizer that somebody took is put back.", watch.ExceptStatus(), held, plain,
			true,
		},
		"Leaving": {"Deletion may have to be told.", watch.ExceptStatus(), plain, leaving, true},
		"Content": {
			"The Secret's own queue does not care for its entries.", watch.ExceptStatus(),
			plain, changed, false,
		},
		"ClassContent": {"But its class does.", watch.Versions(), plain, changed, true},
		"ClassResync":  {"And not for what has not changed.", watch.Versions(), plain, held, false},
		"ClassOwnWrite": {
			"As with a Secret.", watch.ExceptStatus(), &machinev1.MachineClass{},
			&machinev1.MachineClass{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{machinev1.Finalizer}}}, true,
		},
		"ClassSpec": {
			"A changed class is checked again.", watch.ExceptStatus(), &machinev1.MachineClass{},
			&machinev1.MachineClass{ObjectMeta: metav1.ObjectMeta{Generation: 2}}, true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.predicate.Update(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}); got != tc.want {
				t.Errorf("got %v: %s", got, tc.reason)
			}
		})
	}
}
