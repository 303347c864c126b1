package watch

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

func TestPredicates(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	cases := map[string]struct {
		reason                                 string
		change                                 func(*corev1.Secret)
		exceptStatus, specOrDeletion, versions bool
	}{
		"Nothing": {"A resync changes nothing.", func(*corev1.Secret) {}, false, false, false},
		"Managed": {
			"Nobody reads managed fields.",
			func(s *corev1.Secret) { s.ManagedFields = []metav1.ManagedFieldsEntry{{}} }, false, false, false,
		},
		"Version": {
			"What is not part of the metadata may have changed.",
			func(s *corev1.Secret) { s.ResourceVersion = "2" }, false, false, true,
		},
		"Annotation": {
			"An annotation.", func(s *corev1.Secret) { s.Annotations = map[string]string{"a": "1"} }, true, false, false,
		},
		"Label": {"A label.", func(s *corev1.Secret) { s.Labels = map[string]string{"a": "1"} }, true, false, false},
		"Owner": {
			"It has an owner.",
			func(s *corev1.Secret) { s.OwnerReferences = []metav1.OwnerReference{{Name: "a"}} }, true, false, false,
		},
		"Finalizer": {"A finalizer.", func(s *corev1.Secret) { s.Finalizers = []string{"a/b"} }, true, false, false},
		"Spec": {
			"The generation counts changes of the spec.", func(s *corev1.Secret) { s.Generation++ }, true, true, false,
		},
		"Deletion": {
			"It is being deleted.", func(s *corev1.Secret) { s.DeletionTimestamp = &now }, true, true, false,
		},
		"Recreated": {"Another object of the name.", func(s *corev1.Secret) { s.UID = "2" }, true, false, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after := &corev1.Secret{}
			tc.change(after)
			for _, p := range []struct {
				name      string
				predicate predicate.Predicate
				want      bool
			}{
				{"ExceptStatus", ExceptStatus(), tc.exceptStatus},
				{"SpecOrDeletion", SpecOrDeletion(), tc.specOrDeletion},
				{"Versions", Versions(), tc.versions},
			} {
				if got := p.predicate.Update(event.UpdateEvent{ObjectOld: &corev1.Secret{}, ObjectNew: after}); got != p.want {
					t.Errorf("%s passes the update: %v, want %v. %s", p.name, got, p.want, tc.reason)
				}
				if !p.predicate.Create(event.CreateEvent{Object: after}) || !p.predicate.Delete(event.DeleteEvent{Object: after}) {
					t.Errorf("%s does not pass every other event", p.name)
				}
			}
		})
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	secret := func(namespace, name string) *corev1.Secret {
		return fixture.Secret(name, nil, fixture.In[*corev1.Secret](namespace))
	}
	e := harness.New(t, harness.With(secret("n", "a"), secret("n", "b"), secret("x", "c")))
	got := Requests(t.Context(), e.Client, &corev1.SecretList{}, client.InNamespace("n"))
	want := []reconcile.Request{
		{NamespacedName: client.ObjectKey{Namespace: "n", Name: "a"}},
		{NamespacedName: client.ObjectKey{Namespace: "n", Name: "b"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	failing := interceptor.NewClient(e.Client, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("the cache is not in sync")
		},
	})
	if got := Requests(t.Context(), failing, &corev1.SecretList{}); got != nil {
		t.Errorf("got %v from a cache that cannot be read", got)
	}
}
