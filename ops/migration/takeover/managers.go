package takeover

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
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

// secretPolicies are the ValidatingAdmissionPolicies of a release, either of which limits the Secrets that
// the manager may create in the cluster with the nodes. Their bindings have the same names.
var secretPolicies = []string{"capmcm-target-secret-types", "machine-controller-manager-secret-types"}

// SecretTypes is whether the cluster with the nodes limits the types of Secrets that the manager may create
// there. The zero value is one that was not asked.
type SecretTypes struct {
	asked   bool
	policy  string // that limits them; empty: there is none
	problem string // why that is not known; empty: it is
}

// ReadSecretTypes asks the cluster with the nodes. Where that may not be read or is not served, the result
// says so: who takes a fleet over need not administer that cluster.
func ReadSecretTypes(ctx context.Context, target client.Reader) (SecretTypes, error) {
	for _, name := range secretPolicies {
		var policy admissionv1.ValidatingAdmissionPolicy
		var binding admissionv1.ValidatingAdmissionPolicyBinding
		err := target.Get(ctx, client.ObjectKey{Name: name}, &policy)
		if err == nil {
			err = target.Get(ctx, client.ObjectKey{Name: name}, &binding)
		}
		switch {
		case err == nil && enforced(&policy, &binding):
			return SecretTypes{asked: true, policy: name}, nil
		case apierrors.IsForbidden(err):
			return SecretTypes{asked: true, problem: "it may not be read: " + err.Error()}, nil
		case meta.IsNoMatchError(err):
			return SecretTypes{asked: true, problem: "its API server does not serve the kind; it does from Kubernetes 1.30 on"},
				nil
		case client.IgnoreNotFound(err) != nil:
			return SecretTypes{}, fmt.Errorf("read ValidatingAdmissionPolicy %s: %w", name, err)
		}
	}
	return SecretTypes{asked: true}, nil
}

// enforced reports whether a policy refuses what it does not allow, everywhere.
func enforced(p *admissionv1.ValidatingAdmissionPolicy, b *admissionv1.ValidatingAdmissionPolicyBinding) bool {
	return b.Spec.PolicyName == p.Name && slices.Contains(b.Spec.ValidationActions, admissionv1.Deny) &&
		(p.Spec.FailurePolicy == nil || *p.Spec.FailurePolicy == admissionv1.Fail) && b.Spec.MatchResources == nil
}

// takeoverSecretTypes is about what a stolen token of the manager gives away in the cluster with the nodes.
func takeoverSecretTypes(s SecretTypes) []migration.Finding {
	f := migration.Advised.Finding("ValidatingAdmissionPolicy "+secretPolicies[0], "", "",
		"apply target-cluster-components.yaml of the release in the cluster with the nodes; if the account of "+
			"--target-kubeconfig is another than those that it names, add that one")
	switch {
	case !s.asked:
		return nil
	case s.policy != "":
		f.Level, f.Object, f.Remedy = migration.Kept, "ValidatingAdmissionPolicy "+s.policy, ""
		f.Text = "the accounts that it names create only the Secrets that the manager needs in the cluster with the nodes"
	case s.problem != "":
		f.Text = "whether the cluster with the nodes has it is not known: " + s.problem
	default:
		f.Text = "the cluster with the nodes does not have it: the right to create Secrets in kube-system, which bootstrap " +
			"tokens need, gives the token of every ServiceAccount there"
	}
	return []migration.Finding{f}
}
