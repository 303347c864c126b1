package externalcontrolplane_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
)

// TestRights has a real API server say that the bundle's role for it is enough to make
// the identity of a self-hosted Cluster, and what that identity may do.
func TestRights(t *testing.T) {
	t.Parallel()
	server := cluster.ForTest(t, cluster.Options{})
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	asManager := managerOf(t, server, filepath.Join(root, "config", "controlplane", "manager", "self_hosted_role.yaml"))
	if err := server.ApplyFile(t.Context(), filepath.Join(root, "config", "rbac", "workload_role.yaml")); err != nil {
		t.Fatal(err)
	}
	w := newEnv(t, theCluster(), controlPlane(selfHosted))
	w.deps.Client, w.deps.Live, w.deps.Config = split(w.client, asManager), asManager, server.Config()
	w.reconcile()
	w.reconcile() // what is there is read and left
	identity, err := kubernetes.NewForConfig(w.config())
	if err != nil {
		t.Fatal(err)
	}
	allowed, denied := identityCalls(t.Context(), identity, accountOf(t, asManager, w.config()))
	for name, call := range allowed {
		if err := call(); err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, call := range denied {
		if err := call(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want it forbidden", name, err)
		}
	}
	if err := w.client.Delete(t.Context(), w.cp()); err != nil {
		t.Fatal(err)
	}
	w.reconcile()
	if _, err := identity.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) &&
		!apierrors.IsUnauthorized(err) {
		t.Errorf("after its deletion the identity may do nothing any more: %v", err)
	}
}

// identityCalls are what core and the providers do in a workload cluster, and
// what that identity must not be able to do.
func identityCalls(ctx context.Context, c kubernetes.Interface, account string) (allowed,
	denied map[string]func() error,
) {
	token := func(name string) func() error {
		return func() error {
			_, err := c.CoreV1().ServiceAccounts("default").CreateToken(ctx, name, &authenticationv1.TokenRequest{},
				metav1.CreateOptions{})
			return err
		}
	}
	secrets := func(namespace string) func() error {
		return func() error {
			_, err := c.CoreV1().Secrets(namespace).Create(ctx,
				&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-abcdef"}}, metav1.CreateOptions{})
			return err
		}
	}
	allowed = map[string]func() error{
		"probe":      func() error { return c.Discovery().RESTClient().Get().AbsPath("/").Do(ctx).Error() },
		"nodes":      func() error { _, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); return err },
		"namespaces": func() error { _, err := c.CoreV1().Namespaces().List(ctx, metav1.ListOptions{}); return err },
		"node":       func() error { return c.CoreV1().Nodes().Delete(ctx, "gone", metav1.DeleteOptions{}) },
		"token":      secrets(metav1.NamespaceSystem),
		"own token":  token(account),
	}
	denied = map[string]func() error{
		"secrets elsewhere": secrets("default"),
		"token of others":   token("default"),
		"list secrets": func() error {
			_, err := c.CoreV1().Secrets(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
			return err
		},
	}
	return allowed, denied
}

// accountOf is the name of the ServiceAccount that a config is for.
func accountOf(t *testing.T, asManager client.Client, config *rest.Config) string {
	t.Helper()
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	review, err := c.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(review.Status.UserInfo.Username, "system:serviceaccount:default:")
	if err := asManager.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name},
		&corev1.ServiceAccount{}); err != nil {
		t.Fatal(err)
	}
	return name
}

// managerOf is a client with the rights of the controller's role.
func managerOf(t *testing.T, c *cluster.Cluster, roleFile string) client.Client {
	t.Helper()
	binding := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": rbacv1.SchemeGroupVersion.String(), "kind": "ClusterRoleBinding",
		"metadata": map[string]any{"name": "manager"},
		"roleRef":  map[string]any{"apiGroup": rbacv1.GroupName, "kind": "ClusterRole", "name": "self-hosted"},
		"subjects": []any{map[string]any{"apiGroup": rbacv1.GroupName, "kind": "User", "name": "manager"}},
	}}
	if err := c.ApplyFile(t.Context(), roleFile); err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	config, err := c.ConfigFor("manager")
	if err != nil {
		t.Fatal(err)
	}
	out, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// split sends what belongs to the identity to the real API server, and the rest
// to the fake one, which needs no CRDs and has indexes.
func split(pretend, actual client.Client) client.Client {
	to := func(o client.Object) client.Client {
		switch o.(type) {
		case *corev1.ServiceAccount, *rbacv1.Role, *rbacv1.RoleBinding, *rbacv1.ClusterRoleBinding:
			return actual
		}
		return pretend
	}
	return interceptor.NewClient(pretend.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, _ client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return to(o).Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, _ client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption,
		) error {
			return to(o).Patch(ctx, o, p, opts...)
		},
		Delete: func(ctx context.Context, _ client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return to(o).Delete(ctx, o, opts...)
		},
		SubResourceCreate: func(ctx context.Context, _ client.Client, name string, o, sub client.Object,
			opts ...client.SubResourceCreateOption,
		) error {
			return to(o).SubResource(name).Create(ctx, o, sub, opts...)
		},
	})
}
