package capi

import (
	"fmt"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// endpoint is where the API server listens.
func endpoint(t *testing.T, s *stack.Stack) (host, port string) {
	t.Helper()
	u, err := url.Parse(s.Cluster.URL())
	if err != nil {
		t.Fatal(err)
	}
	return u.Hostname(), u.Port()
}

// externalKubeconfig gives the Cluster a kubeconfig of its control plane, with
// the permissions that the control plane provider publishes and no more.
func (p *pool) externalKubeconfig(t *testing.T) {
	t.Helper()
	externalKubeconfig(t, p.m, p.nodes.Cluster, p.nodes.Client, p.namespace, p.name)
}

// externalKubeconfig gives a Cluster a kubeconfig of an external control plane.
func externalKubeconfig(t *testing.T, m *management, api *cluster.Cluster, nodes client.Client,
	namespace, name string,
) {
	t.Helper()
	const user = "capmcm-workload"
	if err := api.ApplyFile(t.Context(), filepath.Join(m.assets.root, "config", "rbac",
		"workload_role.yaml")); err != nil {
		t.Fatal(err)
	}
	at := metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: user}
	to := func(name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
	}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: at.Namespace, Name: user}}
	for _, o := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: at},
		&rbacv1.RoleBinding{ObjectMeta: at, RoleRef: to("capmcm-workload-tokens"), Subjects: subjects},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: user}, RoleRef: to("capmcm-workload"),
			Subjects: subjects,
		},
	} {
		if err := nodes.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	token, err := tokenFor(t.Context(), nodes, at.Namespace, user)
	if err != nil {
		t.Fatal(err)
	}
	config := api.Config()
	config.BearerToken = token
	text, err := clientcmd.Write(kubeconfig(config))
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s-external-kubeconfig", name)},
		Data:       map[string][]byte{"value": text},
	}
	if err := m.cl.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
}
