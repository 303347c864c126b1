package mcmexternalcontrolplane_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
)

// TestPermissions has a real API server say that the opt-in roles are needed and enough to make
// the identity of a self-hosted Cluster, and what that identity may do.
func TestPermissions(t *testing.T) {
	t.Parallel()
	server := cluster.ForTest(t, cluster.Options{})
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	asManager := managerOf(t, server, filepath.Join(root, "config", "controlplane", "manager", "role.yaml"))
	if err := server.ApplyFile(t.Context(), filepath.Join(root, "config", "rbac", "workload_role.yaml")); err != nil {
		t.Fatal(err)
	}
	w := newEnv(t, theCluster(), controlPlane(selfHosted))
	w.deps.Client, w.deps.Live, w.deps.Config = split(w.client, asManager), asManager, server.Config()
	w.checkOptIn()
	optIn(t, server, filepath.Join(root, "config", "self-hosted"))
	w.checkOnlyThere(asManager)
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
		var last error
		err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 30*time.Second, true,
			func(context.Context) (bool, error) { // the API server reads new policies a moment later
				last = call()
				return apierrors.IsForbidden(last), nil
			})
		if err != nil {
			t.Errorf("%s: %v, want it forbidden", name, last)
		}
	}
	w.connect()
	w.clusters.SetRESTConfig(clusterKey, w.config())
	w.reconcile()
	if reported, err := identity.Discovery().ServerVersion(); err != nil {
		t.Error(err)
	} else {
		w.runs(reported.GitVersion, "it is asked for with these permissions")
	}
	if err := w.client.Delete(t.Context(), w.cp()); err != nil {
		t.Fatal(err)
	}
	w.reconcile()
	if _, err := identity.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) &&
		!apierrors.IsUnauthorized(err) {
		t.Errorf("after its deletion the identity may do nothing any more: %v", err)
	}
	w.checkNamespaceIsDeleted(server)
}

// checkNamespaceIsDeleted: the deletion of a namespace removes the opt-in of this namespace
// before the control plane, and no user can apply it again.
func (w *env) checkNamespaceIsDeleted(server *cluster.Cluster) {
	w.t.Helper()
	ctx := w.t.Context()
	w.Must(w.client.Create(ctx, controlPlane(selfHosted)))
	w.reconcile()
	admin, err := kubernetes.NewForConfig(server.Config())
	w.Must(err)
	bindings, err := admin.RbacV1().RoleBindings(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	w.Must(err)
	for _, b := range bindings.Items {
		w.Must(admin.RbacV1().RoleBindings(b.Namespace).Delete(ctx, b.Name, metav1.DeleteOptions{}))
	}
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) { // the API server notices a moment later
			err := w.deps.Live.Get(ctx, client.ObjectKey{Namespace: "default", Name: "any"}, &corev1.ServiceAccount{})
			return apierrors.IsForbidden(err), nil
		})
	w.Must(err)
	w.Must(w.client.Delete(ctx, w.cp()))
	w.reconcile()
	if w.exists(&controlplanev1.MCMExternalControlPlane{}, key) {
		w.t.Errorf("the control plane keeps its namespace: %s", w.is(clusterv1.DeletingCondition))
	}
	left, err := admin.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	w.Must(err)
	for _, b := range left.Items {
		if b.Annotations[controlplanev1.MadeForAnnotation] != "" {
			w.t.Errorf("ClusterRoleBinding %s is left", b.Name)
		}
	}
}

// checkOptIn: with the bundle alone, a self-hosted Cluster gets no identity, and its
// control plane says what to do and can be deleted.
func (w *env) checkOptIn() {
	w.t.Helper()
	if w.reconcile().RequeueAfter == 0 {
		w.t.Error("permissions are given without a word to us: somebody has to look again")
	}
	got := w.is(controlplanev1.KubeconfigReadyCondition)
	for _, want := range []string{
		"False " + controlplanev1.ReasonForbidden, "spec.selfHosted", "kubectl apply -f self-hosted-cluster.yaml",
		"kubectl apply -n default -f self-hosted-namespace.yaml", "clusterAPI.selfHosted.namespaces",
		`namespaces "kube-system" is forbidden`,
	} {
		if !strings.Contains(got, want) {
			w.t.Errorf("KubeconfigReady = %q, want %q in it", got, want)
		}
	}
	if len(w.cp().Finalizers) > 0 {
		w.t.Errorf("finalizers %v: nothing was made that would have to be removed", w.cp().Finalizers)
	}
}

// optIn gives the manager the permissions of config/self-hosted for namespace default.
func optIn(t *testing.T, c *cluster.Cluster, dir string) {
	t.Helper()
	if err := c.ApplyDir(t.Context(), filepath.Join(dir, "cluster")); err != nil {
		t.Fatal(err)
	}
	all, err := cluster.Read(filepath.Join(dir, "namespace"))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		o.SetNamespace(metav1.NamespaceDefault)
	}
	if err := c.Apply(t.Context(), all...); err != nil {
		t.Fatal(err)
	}
}

// checkOnlyThere: with the permissions in one namespace, the manager gets no token of a
// ServiceAccount of another one, and binds no other role.
func (w *env) checkOnlyThere(asManager client.Client) {
	w.t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "default"}}
	err := asManager.SubResource("token").Create(w.t.Context(), account, &authenticationv1.TokenRequest{})
	if !apierrors.IsForbidden(err) {
		w.t.Errorf("a token of a ServiceAccount of kube-system: %v, want it forbidden", err)
	}
	admin := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "more"}}
	admin.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}
	admin.Subjects = []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: managerUser}}
	if err := asManager.Create(w.t.Context(), admin); !apierrors.IsForbidden(err) {
		w.t.Errorf("bind cluster-admin: %v, want it forbidden", err)
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
	secrets := func(namespace string, kind corev1.SecretType) func() error {
		return func() error {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "bootstrap-token-"}, Type: kind}
			if kind == corev1.SecretTypeServiceAccountToken {
				secret.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
			}
			_, err := c.CoreV1().Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{})
			return err
		}
	}
	allowed = map[string]func() error{
		"probe":      func() error { return c.Discovery().RESTClient().Get().AbsPath("/").Do(ctx).Error() },
		"version":    func() error { return c.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Error() },
		"nodes":      func() error { _, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); return err },
		"namespaces": func() error { _, err := c.CoreV1().Namespaces().List(ctx, metav1.ListOptions{}); return err },
		"node":       func() error { return c.CoreV1().Nodes().Delete(ctx, "gone", metav1.DeleteOptions{}) },
		"token":      secrets(metav1.NamespaceSystem, corev1.SecretTypeBootstrapToken),
		"own token":  token(account),
	}
	denied = map[string]func() error{
		"secrets elsewhere": secrets("default", corev1.SecretTypeBootstrapToken),
		"token by a Secret": secrets(metav1.NamespaceSystem, corev1.SecretTypeServiceAccountToken),
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

// managerUser is the ServiceAccount of the bundle.
const managerUser = "system:serviceaccount:capmcm-control-plane-system:capmcm-control-plane-manager"

// managerOf is a client with the permissions of the controller's role in one namespace, as
// docs/security.md confines a provider: the opt-in gives what is outside of it.
func managerOf(t *testing.T, c *cluster.Cluster, roleFile string) client.Client {
	t.Helper()
	binding := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": rbacv1.SchemeGroupVersion.String(), "kind": "RoleBinding",
		"metadata": map[string]any{"name": "manager", "namespace": metav1.NamespaceDefault},
		"roleRef":  map[string]any{"apiGroup": rbacv1.GroupName, "kind": "ClusterRole", "name": "manager"},
		"subjects": []any{map[string]any{"apiGroup": rbacv1.GroupName, "kind": "User", "name": managerUser}},
	}}
	if err := c.ApplyFile(t.Context(), roleFile); err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	config, err := c.ConfigFor(managerUser)
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
