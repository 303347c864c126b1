package mcmexternalcontrolplane_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/workloadtest"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/mcmexternalcontrolplane"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

var (
	start      = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	key        = client.ObjectKey{Namespace: "default", Name: "cp"}
	clusterKey = client.ObjectKey{Namespace: "default", Name: "c1"}
	secretKey  = client.ObjectKey{Namespace: "default", Name: "c1-kubeconfig"}
)

// env is a management cluster, connections and the controller.
type env struct {
	*harness.Env
	t        *testing.T
	client   client.Client
	clusters *workloadtest.Clusters
	server   *fixture.APIServer // of the workload cluster
	clock    *clocktesting.FakePassiveClock
	events   *record.FakeRecorder
	writes   []string
	tokens   int           // that were given
	life     time.Duration // of tokens, whatever is asked for; 0 is what is asked for
	deps     mcmexternalcontrolplane.Deps
}

func newEnv(t *testing.T, objects ...client.Object) *env {
	t.Helper()
	w := &env{t: t, clusters: &workloadtest.Clusters{}, server: &fixture.APIServer{Version: "v1.36.3"}}
	w.Env = harness.New(t, harness.At(start), harness.With(objects...), harness.Indexed(mcmexternalcontrolplane.Indexes()),
		harness.Answered(interceptor.Funcs{SubResourceCreate: w.requestToken}))
	w.client, w.clock, w.events = w.Client, w.Clock, w.Events
	w.Seen = func(r harness.Request) {
		if r.IsWrite() && r.Subresource != "token" {
			verb := strings.TrimSpace(r.Verb + " " + r.Subresource)
			w.writes = append(w.writes, strings.TrimSpace(fmt.Sprintf("%s %T %s", verb, r.Object, r.Name)))
		}
	}
	w.deps = mcmexternalcontrolplane.Deps{
		Client: w.Client, Live: w.Client, Clusters: w.clusters, Clock: w.Clock, Events: w.Events,
		Config: &rest.Config{Host: "https://10.0.0.1:6443", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("a CA")}},
	}
	return w
}

// requestToken gives a token to a ServiceAccount, which the fake client does not.
func (w *env) requestToken(ctx context.Context, c client.Client, _ string, o, sub client.Object,
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
	request.Status.ExpirationTimestamp = metav1.NewTime(w.Clock.Now().Add(life))
	return nil
}

func (w *env) reconcile() reconcile.Result {
	w.Helper()
	return w.Reconcile(mcmexternalcontrolplane.New(w.deps), key)
}

func (w *env) pass(d time.Duration) { w.Advance(d) }

// connect lets the connection to the workload cluster come about.
func (w *env) connect() {
	w.clusters.Connect(clusterKey, w.client)
	w.clusters.SetRESTConfig(clusterKey, w.server.Config())
	w.clusters.Probed(clusterKey, w.clock.Now(), nil)
}

func (w *env) get(o client.Object, at client.ObjectKey) {
	w.Helper()
	if !w.Load(o, at) {
		w.Fatalf("there is no %T %s", o, at)
	}
}

func (w *env) exists(o client.Object, at client.ObjectKey) bool {
	w.Helper()
	return w.Load(o, at)
}

func (w *env) cp() *controlplanev1.MCMExternalControlPlane {
	w.Helper()
	cp := &controlplanev1.MCMExternalControlPlane{}
	w.get(cp, key)
	return cp
}

func (w *env) change(o client.Object, at client.ObjectKey, by func()) {
	w.Helper()
	w.get(o, at)
	by()
	w.Must(w.Raw.Update(w.Context(), o))
}

// is is "status reason: message" of a condition.
func (w *env) is(kind string) string {
	w.Helper()
	return harness.Condition(w.cp().Status.Conditions, kind)
}

func (w *env) config() *rest.Config {
	w.Helper()
	s := &corev1.Secret{}
	w.get(s, secretKey)
	c, err := clientcmd.RESTConfigFromKubeConfig(s.Data["value"])
	if err != nil {
		w.Fatal(err)
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
	return fixture.Cluster("c1", append([]func(*clusterv1.Cluster){func(c *clusterv1.Cluster) {
		c.UID, c.Labels, c.Spec.ControlPlaneRef.Name = "cluster-uid", nil, "cp"
		c.Spec.InfrastructureRef, c.Status.Conditions = clusterv1.ContractVersionedObjectReference{}, nil
	}}, change...)...)
}

func controlPlane(change ...func(*controlplanev1.MCMExternalControlPlane)) *controlplanev1.MCMExternalControlPlane {
	return fixture.MCMExternalControlPlane("cp", "c1", "given", append([]func(*controlplanev1.MCMExternalControlPlane){
		func(cp *controlplanev1.MCMExternalControlPlane) {
			cp.UID, cp.Generation, cp.OwnerReferences[0].UID = "cp-uid", 1, "cluster-uid"
		},
	}, change...)...)
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
