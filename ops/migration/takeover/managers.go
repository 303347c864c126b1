package takeover

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// Managers are who may work on a namespace, and the kinds of the native API as the
// API server has them.
type Managers struct {
	deployments []appsv1.Deployment                        // of the namespace that may run a manager
	crds        []apiextensionsv1.CustomResourceDefinition // of the group machine.sapcloud.io
	records     []migration.Record
	// Drivers are the names of the drivers of the manager that takes over, however they
	// are spelled; nil if they are not known. ReadManagers cannot read them.
	Drivers []string
	// SecretTypes is what ReadSecretTypes has found. ReadManagers does not know the cluster with the nodes.
	SecretTypes SecretTypes
}

// ReadManagers reads them. It is an error if one of them may not be read.
func ReadManagers(ctx context.Context, c client.Reader, namespace string) (*Managers, error) {
	var m Managers
	var deployments appsv1.DeploymentList
	if err := c.List(ctx, &deployments, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list Deployments of namespace %s: %w", namespace, err)
	}
	for i := range deployments.Items {
		if mcmImage(&deployments.Items[i]) != "" {
			m.deployments = append(m.deployments, deployments.Items[i])
		}
	}
	for _, kind := range nativePlurals {
		var crd apiextensionsv1.CustomResourceDefinition
		err := c.Get(ctx, client.ObjectKey{Name: kind + "." + machinev1.GroupVersion.Group}, &crd)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read CustomResourceDefinition of %s: %w", kind, err)
		}
		if err == nil {
			m.crds = append(m.crds, crd)
		}
	}
	var err error
	m.records, err = migration.Records(ctx, c, namespace)
	return &m, err
}

var nativePlurals = []string{"machineclasses", "machinedeployments", "machines", "machinesets"}

// mcmImage is the image of a container of MCM's; empty if there is none. MCM's two
// processes are built as machine-controller-manager and
// machine-controller-manager-provider-<cloud>.
func mcmImage(d *appsv1.Deployment) string {
	for _, c := range d.Spec.Template.Spec.Containers {
		name := objects.LastSegment(c.Image)
		if strings.HasPrefix(name, "machine-controller-manager") {
			return c.Image
		}
	}
	return ""
}
