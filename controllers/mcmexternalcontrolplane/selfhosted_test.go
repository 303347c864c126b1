package mcmexternalcontrolplane_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/mcmexternalcontrolplane"
)

func newSelfHosted(t *testing.T, objects ...client.Object) *env {
	t.Helper()
	return newEnv(t, append(objects, theCluster(), controlPlane(selfHosted), kubeSystem("here"))...)
}

// accounts are the ServiceAccounts of the namespace.
func (w *env) accounts() []corev1.ServiceAccount {
	w.t.Helper()
	var list corev1.ServiceAccountList
	if err := w.client.List(w.t.Context(), &list); err != nil {
		w.t.Fatal(err)
	}
	return list.Items
}

// permissions are the roles that are bound, by namespace.
func (w *env) permissions() map[string]string {
	w.t.Helper()
	var roles rbacv1.RoleBindingList
	var clusterRoles rbacv1.ClusterRoleBindingList
	if err := w.client.List(w.t.Context(), &roles); err != nil {
		w.t.Fatal(err)
	}
	if err := w.client.List(w.t.Context(), &clusterRoles); err != nil {
		w.t.Fatal(err)
	}
	out := map[string]string{}
	for _, b := range roles.Items {
		out[b.Namespace] = b.RoleRef.Kind + " " + b.RoleRef.Name + " " + b.Subjects[0].Name
	}
	for _, b := range clusterRoles.Items {
		out[""] = b.RoleRef.Kind + " " + b.RoleRef.Name + " " + b.Subjects[0].Name
	}
	return out
}

func TestSelfHosted(t *testing.T) {
	t.Parallel()
	w := newSelfHosted(t)
	wait := w.reconcile().RequeueAfter
	c := w.config()
	if c.Host != "https://10.0.0.1:6443" || c.BearerToken != "token-1" || string(c.CAData) != "a CA" {
		t.Errorf("the kubeconfig leads to the cluster that this process manages: %v", c)
	}
	if want := 24 * time.Hour / 5 * 4; wait != want {
		t.Errorf("the token is renewed after %s, want %s", wait, want)
	}
	accounts := w.accounts()
	if len(accounts) != 1 || len(accounts[0].OwnerReferences) != 0 {
		t.Fatalf("a ServiceAccount without owner, which outlives a move: %+v", accounts)
	}
	name := accounts[0].Name
	want := map[string]string{
		"default": "Role " + name + " " + name, "kube-system": "ClusterRole capmcm-workload-tokens " + name,
		"": "ClusterRole capmcm-workload " + name,
	}
	if diff := cmp.Diff(want, w.permissions()); diff != "" {
		t.Errorf("permissions (-want +got):\n%s", diff)
	}
	w.connect()
	w.reconcile()
	if w.writes = nil; w.reconcile().RequeueAfter > wait || len(w.writes) != 0 || w.tokens != 1 {
		t.Errorf("nothing is written or asked for until then: %v, %d tokens", w.writes, w.tokens)
	}
}

func TestServerInCluster(t *testing.T) {
	t.Parallel()
	ca := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kube-root-ca.crt"},
		Data:       map[string]string{"ca.crt": "root CA"},
	}
	cases := map[string]struct {
		reason   string
		config   rest.Config
		override clusterv1.APIEndpoint
		host, ca string
	}{
		"Pod": {
			reason: "Pods reach the API server by its Service.",
			config: rest.Config{
				Host:            "https://172.16.0.1:443",
				BearerTokenFile: "/var/run/secrets/kubernetes.io/serviceaccount/token",
				TLSClientConfig: rest.TLSClientConfig{CAFile: "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"},
			},
			host: "https://kubernetes.default.svc", ca: "root CA",
		},
		"PodOverride": {
			reason: "Tools elsewhere need an address of their own.",
			config: rest.Config{
				Host:            "https://172.16.0.1:443",
				BearerTokenFile: "/var/run/secrets/kubernetes.io/serviceaccount/token",
			},
			override: clusterv1.APIEndpoint{Host: "api.example.com", Port: 443},
			host:     "https://api.example.com:443", ca: "root CA",
		},
		"Outside": {
			reason: "A process outside has an address that works outside.",
			config: rest.Config{Host: "127.0.0.1:36443", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("own CA")}},
			host:   "https://127.0.0.1:36443", ca: "own CA",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, theCluster(), ca.DeepCopy(), kubeSystem("here"),
				controlPlane(selfHosted, func(cp *controlplanev1.MCMExternalControlPlane) {
					cp.Spec.ControlPlaneEndpoint = tc.override
				}))
			w.deps.Config = &tc.config
			w.reconcile()
			if c := w.config(); c.Host != tc.host || string(c.CAData) != tc.ca {
				t.Errorf("host %s, CA %q, want %s, %q: %s", c.Host, c.CAData, tc.host, tc.ca, tc.reason)
			}
		})
	}
}

func TestTokenIsRenewed(t *testing.T) {
	t.Parallel()
	w := newSelfHosted(t)
	w.life = time.Hour // the API server gives less than what was asked for
	if wait := w.reconcile().RequeueAfter; wait != 48*time.Minute {
		t.Errorf("the life that counts is the given one: %s", wait)
	}
	w.connect()
	w.pass(48*time.Minute - time.Second)
	if w.reconcile(); w.config().BearerToken != "token-1" {
		t.Error("not before four fifths of its life")
	}
	w.pass(time.Second)
	if w.reconcile(); w.config().BearerToken != "token-2" {
		t.Error("then it is renewed")
	}
}

func TestLostAccount(t *testing.T) {
	t.Parallel()
	w := newSelfHosted(t)
	w.reconcile()
	if err := w.client.Delete(t.Context(), &w.accounts()[0]); err != nil {
		t.Fatal(err)
	}
	w.reconcile() // the API server has refused the token, the connection is down
	if len(w.accounts()) != 1 || w.config().BearerToken != "token-2" {
		t.Errorf("a token of a ServiceAccount that is gone is worth nothing, however long it would live: %s",
			w.config().BearerToken)
	}
}

func TestPermissionsAreRestored(t *testing.T) {
	t.Parallel()
	w := newSelfHosted(t)
	w.reconcile()
	want := w.permissions()
	w.deps.Roles.Workload, w.deps.Roles.Tokens = "older", "older-tokens"
	w.reconcile()
	if cmp.Equal(want, w.permissions()) {
		t.Fatal("a binding cannot be changed, but recreated")
	}
	w.deps.Roles.Workload, w.deps.Roles.Tokens = "", ""
	w.reconcile()
	if diff := cmp.Diff(want, w.permissions()); diff != "" {
		t.Errorf("permissions (-want +got):\n%s", diff)
	}
}

func TestDeletion(t *testing.T) {
	t.Parallel()
	w := newSelfHosted(t)
	w.reconcile()
	var bindings rbacv1.ClusterRoleBindingList
	if err := w.client.List(t.Context(), &bindings); err != nil || len(bindings.Items) != 1 {
		t.Fatal(bindings.Items, err)
	}
	theirs := &rbacv1.ClusterRoleBinding{}
	w.change(theirs, client.ObjectKeyFromObject(&bindings.Items[0]), func() { theirs.Annotations = nil })
	if err := w.client.Delete(t.Context(), w.cp()); err != nil {
		t.Fatal(err)
	}
	w.reconcile()
	if w.exists(&controlplanev1.MCMExternalControlPlane{}, key) || len(w.accounts()) != 0 {
		t.Errorf("what was made goes: %v", w.writes)
	}
	if permissions := w.permissions(); len(permissions) != 1 || permissions[""] == "" {
		t.Errorf("what does not say that it was made here stays, and nothing else: %v", permissions)
	}
}

func TestNameOfIdentityIsTaken(t *testing.T) {
	t.Parallel()
	w := newSelfHosted(t)
	w.reconcile()
	account := &corev1.ServiceAccount{}
	w.change(account, client.ObjectKeyFromObject(&w.accounts()[0]), func() { account.Annotations = nil })
	w.reconcile()
	if got := w.is(controlplanev1.KubeconfigReadyCondition); !strings.HasPrefix(got, "False "+
		controlplanev1.ReasonIdentityTaken+": spec.selfHosted: ServiceAccount") {
		t.Errorf("another's ServiceAccount gets no permissions: %q", got)
	}
}

func TestBadSpecDoesNotBlockDeletion(t *testing.T) {
	t.Parallel()
	w := newEnv(t, theCluster(), controlPlane())
	w.reconcile()
	if err := w.client.Delete(t.Context(), w.cp()); err != nil {
		t.Fatal(err)
	}
	if w.reconcile(); w.exists(&controlplanev1.MCMExternalControlPlane{}, key) {
		t.Errorf("deletion needs no valid spec: %v", w.writes)
	}
}

func TestNoLongerSelfHosted(t *testing.T) {
	t.Parallel()
	w := newSelfHosted(t, given())
	w.reconcile()
	cp := w.cp()
	w.change(cp, key, func() {
		cp.Spec.SelfHosted, cp.Spec.KubeconfigSecretRef = nil, &controlplanev1.NameReference{Name: "given"}
	})
	w.reconcile()
	if len(w.accounts()) != 0 || len(w.permissions()) != 0 || w.config().BearerToken != "s3cret" {
		t.Errorf("permissions that nobody needs any more are taken back: %v", w.permissions())
	}
}

func TestMove(t *testing.T) {
	t.Parallel()
	source := newSelfHosted(t)
	source.reconcile()

	// clusterctl pauses, copies, and then deletes with finalizers stripped.
	c := &clusterv1.Cluster{}
	source.change(c, clusterKey, func() { c.Spec.Paused = new(true) })
	if err := source.client.Delete(t.Context(), source.cp()); err != nil {
		t.Fatal(err)
	}
	source.reconcile()
	if len(source.accounts()) != 1 || len(source.permissions()) != 3 ||
		!source.exists(&controlplanev1.MCMExternalControlPlane{}, key) {
		t.Fatalf("the source of a move removes nothing: %v", source.writes)
	}

	cp, s := source.cp(), &corev1.Secret{}
	source.get(s, secretKey)
	cp.ResourceVersion, cp.UID, cp.DeletionTimestamp, s.ResourceVersion = "", "new-uid", nil, ""
	cp.Status = controlplanev1.MCMExternalControlPlaneStatus{}
	there := newEnv(t, theCluster(), kubeSystem("elsewhere"), cp, s)
	there.deps.Config = &rest.Config{Host: "https://elsewhere:6443"}
	there.reconcile()
	if config := there.config(); config.Host != "https://10.0.0.1:6443" || config.BearerToken != "token-1" ||
		len(there.accounts()) != 0 {
		t.Fatalf("self-hosted still means the cluster that the nodes are in: %v", config)
	}
	there.clusters.Connect(clusterKey, source.client)
	there.clusters.SetRESTConfig(clusterKey, there.server.Config())
	there.pass(20 * time.Hour)
	there.reconcile()
	if config := there.config(); config.BearerToken != "token-2" || config.Host != "https://10.0.0.1:6443" ||
		there.tokens != 0 {
		t.Errorf("the token is renewed by the cluster that it is for: %v", config)
	}
	if got := there.is(clusterv1.AvailableCondition); !strings.HasPrefix(got, "True") {
		t.Errorf("Available = %q", got)
	}
}

func TestMovedWithoutKubeconfig(t *testing.T) {
	t.Parallel()
	w := newEnv(t, theCluster(), kubeSystem("elsewhere"), controlPlane(selfHosted,
		func(cp *controlplanev1.MCMExternalControlPlane) {
			cp.Annotations = map[string]string{controlplanev1.HomeAnnotation: "here"}
		}))
	w.reconcile()
	if got := w.is(controlplanev1.KubeconfigReadyCondition); !strings.HasPrefix(got, "False "+
		controlplanev1.ReasonMovedAway+": spec.selfHosted") || len(w.accounts()) != 0 {
		t.Errorf("the machines are never looked for in the wrong cluster: %q", got)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		err    error
		failed bool
		want   string
	}{
		"Forbidden": {
			"A manager without permissions says which it lacks.",
			apierrors.NewForbidden(corev1.Resource("serviceaccounts"), "x", nil), false, "False " +
				controlplanev1.ReasonForbidden,
		},
		"Broken": {"An error that passes says nothing about the kubeconfig.", errors.New("boom"), true, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSelfHosted(t)
			w.deps.Client = interceptor.NewClient(w.client.(client.WithWatch), interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return tc.err },
			})
			_, err := mcmexternalcontrolplane.New(w.deps).Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
			if got := w.is(controlplanev1.KubeconfigReadyCondition); (err != nil) != tc.failed ||
				!strings.HasPrefix(got, tc.want) || tc.want == "" && got != "" {
				t.Errorf("KubeconfigReady = %q, err = %v: %s", got, err, tc.reason)
			}
		})
	}
}

func TestDeletionThatLacksPermissionsSaysSo(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(corev1.Resource("clusterrolebindings"), "x", nil)
	cases := map[string]struct {
		reason string
		lacks  interceptor.Funcs
	}{
		"Read": {"The binding of the role was removed.", interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, at client.ObjectKey, o client.Object,
				opts ...client.GetOption,
			) error {
				if _, ok := o.(*rbacv1.ClusterRoleBinding); ok {
					return forbidden
				}
				return c.Get(ctx, at, o, opts...)
			},
		}},
		"Delete": {"A policy of the cluster forbids it.", interceptor.Funcs{
			Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return forbidden },
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSelfHosted(t)
			w.reconcile()
			if err := w.client.Delete(t.Context(), w.cp()); err != nil {
				t.Fatal(err)
			}
			entitled := w.deps
			lacking := interceptor.NewClient(w.client.(client.WithWatch), tc.lacks)
			w.deps.Client, w.deps.Live = lacking, lacking
			if w.reconcile().RequeueAfter == 0 {
				t.Error("permissions are given without a word to us: somebody has to look again")
			}
			got := w.is(clusterv1.DeletingCondition)
			for _, want := range []string{
				"True " + controlplanev1.ReasonForbidden, "spec.selfHosted",
				"kubectl apply -n default -f self-hosted-namespace.yaml",
			} {
				if !strings.Contains(got, want) {
					t.Errorf("Deleting = %q, want %q in it: %s", got, want, tc.reason)
				}
			}
			if e := w.event(); !strings.Contains(e, controlplanev1.ReasonForbidden) {
				t.Errorf("Event %q", e)
			}
			w.deps = entitled
			w.reconcile()
			if w.exists(&controlplanev1.MCMExternalControlPlane{}, key) || len(w.accounts()) != 0 {
				t.Error("with its permissions back, the manager ends what it began")
			}
		})
	}
}
