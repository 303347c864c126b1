package plan

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// clusterState is about the Cluster that the pool is to belong to.
func (p *planner) clusterState() {
	name := p.options.Cluster
	if name == "" {
		p.find(migration.Finding{
			Level: migration.Blocked, Object: p.Plan.Pool.String(), Field: "spec.clusterName", Text: "no Cluster is named",
			Remedy: "name it with --cluster; one that does not exist is made",
		})
		return
	}
	object := objects.KindCluster + " " + p.Plan.Pool.Namespace + "/" + name
	if c := p.PoolState.Cluster.Cluster; c != nil {
		p.oldCluster(object, c)
		return
	}
	p.newCluster(object, name)
}

// newCluster is about a Cluster that is to be made.
func (p *planner) newCluster(object, name string) {
	block := func(field, text, remedy string) {
		p.find(migration.Finding{Level: migration.Blocked, Object: object, Field: field, Text: text, Remedy: remedy})
	}
	if problems := append(validation.IsDNS1123Subdomain(name), validation.IsValidLabelValue(name)...); len(problems) > 0 {
		block("metadata.name", "no Cluster can be called so: "+strings.Join(problems, "; "),
			"give another name with --cluster")
	}
	secret := p.options.KubeconfigSecret
	const field = "spec.kubeconfigSecretRef"
	switch {
	case secret == "" && p.options.Apart:
		block(field, "the nodes are in another cluster than the objects, and without a kubeconfig Cluster API would look "+
			"for them in that of the objects", "name a Secret with the kubeconfig of the cluster with the nodes: "+
			"--kubeconfig-secret")
	case secret != "" && p.Around != nil && p.Around.Secrets[client.ObjectKey{
		Namespace: p.Plan.Pool.Namespace,
		Name:      secret,
	}] == nil:
		block(field, "Secret "+p.Plan.Pool.Namespace+"/"+secret+" does not exist",
			"make it, with the kubeconfig of the cluster with the nodes in its entry value")
	}
}

// oldCluster is about a Cluster that is there.
func (p *planner) oldCluster(object string, c *clusterv1.Cluster) {
	block := func(field, text, remedy string) {
		p.find(migration.Finding{Level: migration.Blocked, Object: object, Field: field, Text: text, Remedy: remedy})
	}
	switch {
	case !c.DeletionTimestamp.IsZero():
		block("", "it is being deleted", "name another")
	case objects.Value(c.Spec.Paused):
		block("spec.paused", "it is paused, so nobody would look after the machines", "set it to false")
	}
	if !c.Spec.ControlPlaneRef.IsDefined() {
		block("spec.controlPlaneRef", "without a control plane Cluster API neither drains nor checks the machines",
			"name an MCMExternalControlPlane")
	}
	p.controlPlane(object)
}

// controlPlane is about how the control plane of a Cluster that is there is reached.
func (p *planner) controlPlane(object string) {
	block := func(text, remedy string) {
		p.find(migration.Finding{
			Level: migration.Blocked, Object: object, Field: "spec.controlPlaneRef", Text: text,
			Remedy: remedy,
		})
	}
	plane := p.PoolState.Cluster.ControlPlane
	if plane != nil && objects.Value(plane.Spec.SelfHosted) && p.options.Apart {
		block("MCMExternalControlPlane "+plane.Name+
			" says selfHosted, and the nodes are in another cluster than the objects: Cluster API would not find them",
			"give it spec.kubeconfigSecretRef instead, or name another Cluster")
	}
	secret := p.options.KubeconfigSecret
	if named := plane != nil && objects.Value(plane.Spec.KubeconfigSecretRef).Name == secret; secret != "" &&
		p.Phase == "" &&
		!named {
		block("the Cluster exists, and its control plane is not reached by Secret "+secret,
			"leave --kubeconfig-secret out, or name another Cluster")
	}
}

// sameCluster refuses a Cluster that is not the pool's, which is on that API.
func (p *planner) sameCluster() {
	belongs := p.ClusterAPI.ClusterName()
	if p.options.Cluster != belongs {
		p.find(migration.Finding{
			Level: migration.Blocked, Object: p.Plan.Pool.String(), Field: "spec.clusterName", Text: "it belongs to Cluster " +
				belongs +
				", not to " + p.options.Cluster,
			Remedy: "leave --cluster out",
		})
	}
}
