package guests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	kubeadm "sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/types/upstreamv1beta4"
	inmemory "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/runtime"
	"sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/server"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// A Cluster is what guests make of the machines that have its endpoint in their
// boot data. Its API server answers from the first kubeadm init on.
type Cluster struct {
	name     string
	endpoint string // host:port
	mux      *server.WorkloadClustersMux
	client   inmemory.Client
	members  Members      // of its load balancer; nil: there is none
	shared   *authorities // from kubeadm init on
}

// Nodes returns the Nodes, in the order of their names.
func (c *Cluster) Nodes(ctx context.Context) ([]corev1.Node, error) {
	nodes, err := list[corev1.Node](ctx, c.client, "NodeList")
	slices.SortFunc(nodes, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes, err
}

// list returns the objects of a kind of v1. The API server keeps those that somebody
// patched without their type, and lists of types refuse them.
func list[T any](ctx context.Context, from inmemory.Client, kind string, options ...client.ListOption) ([]T, error) {
	var found unstructured.UnstructuredList
	found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	if err := from.List(ctx, &found, options...); err != nil {
		return nil, err
	}
	out := make([]T, len(found.Items))
	for i := range found.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Items[i].Object, &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Version is that of kubeadm's ClusterConfiguration, which an upgrade raises.
func (c *Cluster) Version(ctx context.Context) (string, error) {
	config, err := c.configuration(ctx)
	return config.KubernetesVersion, err
}

// start plays kubeadm with what the boot data says, on a machine with programs of a
// version.
func (c *Cluster) start(ctx context.Context, m *machine, r run) error {
	if r.init != nil {
		return c.initialize(ctx, m, r)
	}
	if err := c.discover(ctx, r.join.Discovery); err != nil {
		return fmt.Errorf("kubeadm join: %w", err)
	}
	config, err := c.configuration(ctx)
	if err != nil {
		return fmt.Errorf("kubeadm join: %w", err)
	}
	if err := skew(m.Version, config.KubernetesVersion); err != nil {
		return fmt.Errorf("kubeadm join: %w", err)
	}
	if r.join.ControlPlane == nil {
		return c.register(ctx, m, r)
	}
	return c.promote(ctx, m, r)
}

// initialize plays kubeadm init.
func (c *Cluster) initialize(ctx context.Context, m *machine, r run) error {
	if c.shared != nil {
		return errors.New("kubeadm init: there is a cluster already")
	}
	own, err := readAuthorities(r.files)
	if err != nil {
		return fmt.Errorf("kubeadm init: %w", err)
	}
	if r.cluster.ControlPlaneEndpoint != c.endpoint {
		return fmt.Errorf("kubeadm init: controlPlaneEndpoint is %q, and the load balancer is %s",
			r.cluster.ControlPlaneEndpoint, c.endpoint)
	}
	if err := skew(m.Version, r.cluster.KubernetesVersion); err != nil {
		return fmt.Errorf("kubeadm init: %w", err)
	}
	c.shared = &own
	if err := c.addons(ctx, r.cluster); err != nil {
		return err
	}
	if err := c.register(ctx, m, r); err != nil {
		return err
	}
	return c.components(ctx, m)
}

// promote plays kubeadm join of one more machine of the control plane.
func (c *Cluster) promote(ctx context.Context, m *machine, r run) error {
	own, err := readAuthorities(r.files)
	if err != nil {
		return fmt.Errorf("kubeadm join: %w", err)
	}
	if !own.cluster.certificate.Equal(c.shared.cluster.certificate) ||
		!own.etcd.certificate.Equal(c.shared.etcd.certificate) {
		return errors.New("kubeadm join: the authorities in the boot data are not those of the cluster")
	}
	if err := c.register(ctx, m, r); err != nil {
		return err
	}
	return c.components(ctx, m)
}

// discover checks what kubeadm join trusts and what it shows: the endpoint, the
// authority's pin and the bootstrap token.
func (c *Cluster) discover(ctx context.Context, d kubeadm.Discovery) error {
	b := d.BootstrapToken
	switch {
	case b == nil:
		return errors.New("there is no bootstrap token")
	case b.APIServerEndpoint != c.endpoint || c.shared == nil:
		return fmt.Errorf("no API server answers at %q", b.APIServerEndpoint)
	case !slices.Contains(b.CACertHashes, pin(c.shared.cluster.certificate)):
		return fmt.Errorf("none of the pins %v is that of the API server's authority", b.CACertHashes)
	}
	token, err := kubeadm.NewBootstrapTokenString(b.Token)
	if err != nil {
		return err
	}
	var secret corev1.Secret
	key := client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + token.ID}
	if err := c.client.Get(ctx, key, &secret); err != nil {
		return fmt.Errorf("bootstrap token %s: %w", token.ID, err)
	}
	return checkToken(&secret, token.Secret)
}

// checkToken refuses what an API server refuses to authenticate.
func checkToken(secret *corev1.Secret, want string) error {
	value := func(key string) string {
		if text, found := secret.StringData[key]; found {
			return text
		}
		return string(secret.Data[key])
	}
	expires, err := time.Parse(time.RFC3339, value("expiration"))
	switch {
	case secret.Type != corev1.SecretTypeBootstrapToken:
		return fmt.Errorf("bootstrap token: the Secret is of type %q", secret.Type)
	case value("token-secret") != want:
		return errors.New("bootstrap token: another secret")
	case err != nil:
		return fmt.Errorf("bootstrap token: %w", err)
	case time.Now().After(expires):
		return fmt.Errorf("bootstrap token: expired at %s", expires)
	case value("usage-bootstrap-authentication") != "true" || value("usage-bootstrap-signing") != "true":
		return errors.New("bootstrap token: not meant for joining")
	case value("auth-extra-groups") != nodeGroup:
		return fmt.Errorf("bootstrap token: its group is %q, and kubeadm grants permissions to %s",
			value("auth-extra-groups"), nodeGroup)
	}
	return nil
}

// nodeGroup is who joins with a bootstrap token.
const nodeGroup = "system:bootstrappers:kubeadm:default-node-token"

// skew refuses a kubeadm that is older than the cluster, or over one minor newer.
func skew(program, cluster string) error {
	p, err := version.ParseSemantic(program)
	c, clusterErr := version.ParseSemantic(cluster)
	if err := errors.Join(err, clusterErr); err != nil {
		return err
	}
	if p.LessThan(c) || p.Major() != c.Major() || p.Minor() > c.Minor()+1 {
		return fmt.Errorf("kubeadm %s does not serve a cluster of %s", program, cluster)
	}
	return nil
}

// configuration reads kubeadm's ConfigMap.
func (c *Cluster) configuration(ctx context.Context) (kubeadm.ClusterConfiguration, error) {
	var config kubeadm.ClusterConfiguration
	var m corev1.ConfigMap
	key := client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: kubeadmConfig}
	if err := c.client.Get(ctx, key, &m); err != nil {
		return config, err
	}
	return config, yaml.UnmarshalStrict([]byte(m.Data["ClusterConfiguration"]), &config)
}

// create creates an object if it is not there.
func (c *Cluster) create(ctx context.Context, all ...client.Object) error {
	for _, o := range all {
		if err := c.client.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create %T %s: %w", o, o.GetName(), err)
		}
	}
	return nil
}
