package autoscaler

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
)

// user is who the autoscaler is in the cluster with the machines.
const user = "cluster-autoscaler"

// Allow gives user the permissions that docs/autoscaler.md says that it needs for an
// API group, and no others, and returns a kubeconfig of it.
func Allow(ctx context.Context, of *cluster.Cluster, cl client.Client, api string) (kubeconfig string, err error) {
	root, err := cluster.Root()
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "autoscaler.md"))
	if err != nil {
		return "", err
	}
	name := "cluster-autoscaler-" + strings.ReplaceAll(api, ".", "-")
	for block := range strings.SplitSeq(string(text), "```yaml\n") {
		yaml, _, closed := strings.Cut(block, "```")
		if !closed || !strings.Contains(yaml, "kind: ClusterRole\n") || !strings.Contains(yaml, "name: "+name+"\n") {
			continue
		}
		objects, err := cluster.Decode([]byte(yaml))
		if err != nil {
			return "", err
		}
		if err := of.Apply(ctx, objects...); err != nil {
			return "", err
		}
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{
				APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
				Name: name,
			},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		}
		if err := cl.Create(ctx, binding); err != nil {
			return "", err
		}
		return of.KubeconfigFor(user)
	}
	return "", fmt.Errorf("docs/autoscaler.md has no ClusterRole %s", name)
}
