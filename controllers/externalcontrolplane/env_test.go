package externalcontrolplane_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/externalcontrolplane"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/workloadtest"
)

var (
	start      = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	key        = client.ObjectKey{Namespace: "default", Name: "cp"}
	clusterKey = client.ObjectKey{Namespace: "default", Name: "c1"}
	secretKey  = client.ObjectKey{Namespace: "default", Name: "c1-kubeconfig"}
)

// env is a management cluster, connections and the controller.
type env struct {
	t        *testing.T
	client   client.Client
	clusters *workloadtest.Clusters
	clock    *clocktesting.FakePassiveClock
	events   *record.FakeRecorder
	writes   []string
	objects  int           // UIDs that were given
	tokens   int           // that were given
	life     time.Duration // of tokens, whatever is asked for; 0 is what is asked for
	deps     externalcontrolplane.Deps
}

func newEnv(t *testing.T, objects ...client.Object) *env {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(s), clusterv1.AddToScheme(s),
		controlplanev1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	w := &env{t: t, clock: clocktesting.NewFakePassiveClock(start), events: record.NewFakeRecorder(20)}
	b := fake.NewClientBuilder().WithScheme(
		s).WithObjects(objects...).WithStatusSubresource(
		&controlplanev1.MCMExternalControlPlane{}, &clusterv1.Cluster{}, &clusterv1.Machine{})
	for _, x := range externalcontrolplane.Indexes() {
		b = b.WithIndex(x.Object, x.Field, x.Extract)
	}
	w.client = interceptor.NewClient(b.Build(), w.intercept())
	w.clusters = &workloadtest.Clusters{}
	w.deps = externalcontrolplane.Deps{
		Client: w.client, Live: w.client, Clusters: w.clusters, Clock: w.clock, Events: w.events,
		Config: &rest.Config{Host: "https://10.0.0.1:6443", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("a CA")}},
	}
	return w
}

// intercept notes writes, and plays what the API server does and the fake does not.
func (w *env) intercept() interceptor.Funcs {
	note := func(verb string, o client.Object) {
		w.writes = append(w.writes, strings.TrimSpace(fmt.Sprintf("%s %T %s", verb, o, o.GetName())))
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			note("create", o)
			w.objects++
			o.SetUID(types.UID(fmt.Sprintf("uid-%d", w.objects)))
			return c.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption,
		) error {
			note("patch", o)
			return c.Patch(ctx, o, p, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			note("delete", o)
			return c.Delete(ctx, o, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption,
		) error {
			note("patch "+sub, o)
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, _ string, o, sub client.Object,
			_ ...client.SubResourceCreateOption,
		) error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), &corev1.ServiceAccount{}); err != nil {
				return err
			}
			w.tokens++
			request := sub.(*authenticationv1.TokenRequest)
			life := time.Duration(*request.Spec.ExpirationSeconds) * time.Second
			if w.life > 0 {
				life = w.life
			}
			request.Status.Token = fmt.Sprintf("token-%d", w.tokens)
			request.Status.ExpirationTimestamp = metav1.NewTime(w.clock.Now().Add(life))
			return nil
		},
	}
}

func (w *env) reconcile() reconcile.Result {
	w.t.Helper()
	result, err := externalcontrolplane.New(w.deps).Reconcile(w.t.Context(), reconcile.Request{NamespacedName: key})
	if err != nil {
		w.t.Fatal(err)
	}
	return result
}

func (w *env) pass(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

// connect lets the connection to the workload cluster come about.
func (w *env) connect() {
	w.clusters.Connect(clusterKey, w.client)
	w.clusters.Probed(clusterKey, w.clock.Now(), nil)
}

func (w *env) get(o client.Object, at client.ObjectKey) {
	w.t.Helper()
	if err := w.client.Get(w.t.Context(), at, o); err != nil {
		w.t.Fatal(err)
	}
}

func (w *env) exists(o client.Object, at client.ObjectKey) bool {
	w.t.Helper()
	err := w.client.Get(w.t.Context(), at, o)
	if client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	return err == nil
}

func (w *env) cp() *controlplanev1.MCMExternalControlPlane {
	w.t.Helper()
	cp := &controlplanev1.MCMExternalControlPlane{}
	w.get(cp, key)
	return cp
}

func (w *env) change(o client.Object, at client.ObjectKey, by func()) {
	w.t.Helper()
	w.get(o, at)
	by()
	if err := w.client.Update(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

// is is "status reason: message" of a condition.
func (w *env) is(kind string) string {
	w.t.Helper()
	c := meta.FindStatusCondition(w.cp().Status.Conditions, kind)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

func (w *env) config() *rest.Config {
	w.t.Helper()
	s := &corev1.Secret{}
	w.get(s, secretKey)
	c, err := clientcmd.RESTConfigFromKubeConfig(s.Data["value"])
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *env) event() string {
	select {
	case e := <-w.events.Events:
		return e
	default:
		return ""
	}
}

// The objects of a Cluster whose control plane is elsewhere.

func theCluster(change ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c1", UID: "cluster-uid"}}
	c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: controlplanev1.GroupVersion.Group,
		Kind:     "MCMExternalControlPlane", Name: "cp",
	}
	c.Status.Initialization.InfrastructureProvisioned = new(true)
	for _, f := range change {
		f(c)
	}
	return c
}

func controlPlane(change ...func(*controlplanev1.MCMExternalControlPlane)) *controlplanev1.MCMExternalControlPlane {
	cp := &controlplanev1.MCMExternalControlPlane{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "cp", UID: "cp-uid", Generation: 1,
			Labels: map[string]string{clusterv1.ClusterNameLabel: "c1"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "c1",
				UID: "cluster-uid",
			}},
		},
		Spec: controlplanev1.MCMExternalControlPlaneSpec{KubeconfigSecretRef: &controlplanev1.NameReference{Name: "given"}},
	}
	for _, f := range change {
		f(cp)
	}
	return cp
}

func selfHosted(cp *controlplanev1.MCMExternalControlPlane) {
	cp.Spec = controlplanev1.MCMExternalControlPlaneSpec{SelfHosted: new(true)}
}

func kubeSystem(uid string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: types.UID(uid)}}
}

// given is a Secret with a kubeconfig, of which some text is replaced.
func given(replacements ...string) *corev1.Secret {
	const text = `apiVersion: v1
kind: Config
clusters:
- name: prod
  cluster: {server: "https://api.example.com:6443/k8s/7", certificate-authority-data: YSBDQQ==}
- name: other
  cluster: {server: "https://other.example.com"}
users:
- name: admin
  user: {token: s3cret}
- name: dev
  user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, interactiveMode: Never}}
contexts:
- name: main
  context: {cluster: prod, user: admin}
- name: play
  context: {cluster: other, user: dev}
current-context: main
`
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "given"},
		Data:       map[string][]byte{"kubeconfig": []byte(strings.NewReplacer(replacements...).Replace(text))},
	}
}
