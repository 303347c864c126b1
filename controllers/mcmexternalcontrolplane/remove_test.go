package mcmexternalcontrolplane_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
)

// TestDeletionWithoutPermissionsInTheNamespace: the deletion of a namespace takes the manager's
// permissions in it before the control plane is gone.
func TestDeletionWithoutPermissionsInTheNamespace(t *testing.T) {
	t.Parallel()
	forbidden := func(o client.Object, namespace string) error {
		switch o.(type) {
		case *corev1.ServiceAccount, *rbacv1.Role, *rbacv1.RoleBinding:
			if namespace == key.Namespace {
				return apierrors.NewForbidden(rbacv1.Resource("roles"), o.GetName(), nil)
			}
		}
		return nil
	}
	cases := map[string]struct {
		reason string
		lacks  interceptor.Funcs
	}{
		"Read": {"The opt-in was deleted with the namespace.", interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, at client.ObjectKey, o client.Object,
				opts ...client.GetOption,
			) error {
				if err := forbidden(o, at.Namespace); err != nil {
					return err
				}
				return c.Get(ctx, at, o, opts...)
			},
		}},
		"Delete": {"It was deleted between reading and deleting.", interceptor.Funcs{
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				if err := forbidden(o, o.GetNamespace()); err != nil {
					return err
				}
				return c.Delete(ctx, o, opts...)
			},
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSelfHosted(t)
			w.reconcile()
			account := w.accounts()[0].Name
			if err := w.client.Delete(t.Context(), w.cp()); err != nil {
				t.Fatal(err)
			}
			lacking := interceptor.NewClient(w.client.(client.WithWatch), tc.lacks)
			w.deps.Client, w.deps.Live = lacking, lacking
			w.reconcile()
			if w.exists(&controlplanev1.MCMExternalControlPlane{}, key) {
				t.Fatalf("the control plane keeps its namespace: %s", tc.reason)
			}
			if permissions := w.permissions(); permissions[""] != "" || permissions["kube-system"] != "" {
				t.Errorf("permissions outside of the namespace: %v", permissions)
			}
			e := w.event()
			for _, want := range []string{controlplanev1.ReasonForbidden, account, "ServiceAccount", "RoleBinding"} {
				if !strings.Contains(e, want) {
					t.Errorf("Event %q, want %q in it", e, want)
				}
			}
		})
	}
}

// TestNewKubeconfigIsStoredFirst: a manager without permissions to what it once made stores the
// kubeconfig that the user gives instead.
func TestNewKubeconfigIsStoredFirst(t *testing.T) {
	t.Parallel()
	w := newSelfHosted(t, given())
	w.reconcile()
	cp := w.cp()
	w.change(cp, key, func() {
		cp.Spec.SelfHosted, cp.Spec.KubeconfigSecretRef = nil, &controlplanev1.NameReference{Name: "given"}
	})
	entitled := w.deps
	w.deps.Live = interceptor.NewClient(w.client.(client.WithWatch), interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, at client.ObjectKey, _ client.Object,
			_ ...client.GetOption,
		) error {
			return apierrors.NewForbidden(rbacv1.Resource("clusterrolebindings"), at.Name, nil)
		},
	})
	w.reconcile()
	got := w.is(controlplanev1.KubeconfigReadyCondition)
	if w.config().BearerToken != "s3cret" || !strings.HasPrefix(got, "False "+controlplanev1.ReasonForbidden) {
		t.Errorf("token %q, KubeconfigReady = %q", w.config().BearerToken, got)
	}
	w.deps = entitled
	w.reconcile()
	if len(w.accounts()) != 0 || len(w.permissions()) != 0 || w.cp().Annotations[controlplanev1.HomeAnnotation] != "" {
		t.Errorf("with its permissions back, the manager removes what it made: %v", w.permissions())
	}
}
