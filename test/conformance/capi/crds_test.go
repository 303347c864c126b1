// Package capi holds the kinds of the Cluster API provider to Cluster API's contract,
// version v1beta2. It has one test for each rule, named after it: about the CRDs
// and what a release consists of, and about what the reconcilers do, wired as
// the product wires them. rules_test.go says which test is for which rule of the
// contract's pages.
package capi

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cluster-api/util/contract"
	"sigs.k8s.io/yaml"
)

// root is that of the repository.
const root = "../../.."

// contractLabel says which versions of a CRD speak the contract; its value is
// the list of them.
const contractLabel = "cluster.x-k8s.io/v1beta2"

// referenced are the kinds that core refers to, each with its template.
var referenced = map[string]string{
	"MCMCluster":              "infrastructure.cluster.x-k8s.io",
	"MCMRemediation":          "infrastructure.cluster.x-k8s.io",
	"MCMMachine":              "infrastructure.cluster.x-k8s.io",
	"MCMConfig":               "bootstrap.cluster.x-k8s.io",
	"MCMExternalControlPlane": "controlplane.cluster.x-k8s.io",
}

// kinds are referenced and their templates: kind to group.
func kinds() map[string]string {
	all := map[string]string{}
	for kind, group := range referenced {
		all[kind], all[kind+"Template"] = group, group
	}
	return all
}

// crd reads the CRD of a kind.
func crd(t *testing.T, kind string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	group := kinds()[kind]
	plural, _, _ := strings.Cut(contract.CalculateCRDName(group, kind), ".")
	text, err := os.ReadFile(filepath.Join(root, "config", "crd", group+"_"+plural+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	found := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, found); err != nil {
		t.Fatal(err)
	}
	return found
}

// eachCRD runs check for every kind that core meets.
func eachCRD(t *testing.T, check func(*testing.T, string, *apiextensionsv1.CustomResourceDefinition)) {
	t.Helper()
	for kind := range kinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			check(t, kind, crd(t, kind))
		})
	}
}

// at returns the schema at a path of a kind's only version; nil if there is none.
// "[]" goes to the items of a list.
func at(of *apiextensionsv1.CustomResourceDefinition, path string) *apiextensionsv1.JSONSchemaProps {
	s := of.Spec.Versions[0].Schema.OpenAPIV3Schema
	for name := range strings.SplitSeq(path, ".") {
		name, list := strings.CutSuffix(name, "[]")
		next, ok := s.Properties[name]
		if !ok {
			return nil
		}
		if s = &next; list {
			s = next.Items.Schema
		}
	}
	return s
}

// field fails unless there is a field of that type at path, and returns it.
func field(t *testing.T, of *apiextensionsv1.CustomResourceDefinition, path,
	kind string,
) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	s := at(of, path)
	if s == nil || s.Type != kind {
		t.Fatalf("%s has no %s of type %s", of.Spec.Names.Kind, path, kind)
	}
	return s
}

func TestAllResourcesScope(t *testing.T) {
	t.Parallel()
	eachCRD(t, func(t *testing.T, _ string, c *apiextensionsv1.CustomResourceDefinition) {
		t.Helper()
		if c.Spec.Scope != apiextensionsv1.NamespaceScoped {
			t.Errorf("scope is %s", c.Spec.Scope)
		}
	})
}

func TestAllResourcesTypeMetaAndObjectMeta(t *testing.T) {
	t.Parallel()
	eachCRD(t, func(t *testing.T, _ string, c *apiextensionsv1.CustomResourceDefinition) {
		t.Helper()
		field(t, c, "apiVersion", "string")
		field(t, c, "kind", "string")
		field(t, c, "metadata", "object")
		field(t, c, "spec", "object")
	})
}

// The label's versions have to exist and be served, and the contract has to be
// that of metadata.yaml. Groups under cluster.x-k8s.io need no roles for core.
func TestAllResourcesAPIVersion(t *testing.T) {
	t.Parallel()
	eachCRD(t, func(t *testing.T, kind string, c *apiextensionsv1.CustomResourceDefinition) {
		t.Helper()
		if c.Spec.Group != kinds()[kind] || !strings.HasSuffix(c.Spec.Group, ".cluster.x-k8s.io") {
			t.Errorf("group is %s", c.Spec.Group)
		}
		for version := range strings.SplitSeq(c.Labels[contractLabel], "_") {
			served := slices.ContainsFunc(c.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
				return v.Name == version && v.Served
			})
			if !served {
				t.Errorf("label %s names version %q, which is not served: core finds no version then, of templates neither",
					contractLabel, version)
			}
		}
		for label := range c.Labels {
			if strings.HasPrefix(label, "cluster.x-k8s.io/v1") && label != contractLabel {
				t.Errorf("label %s names a contract that metadata.yaml does not", label)
			}
		}
	})
}

// definition is what all resource definitions have in common. Core computes the
// CRD's name from the kind, and reads no discovery.
func definition(t *testing.T, kind string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	c := crd(t, kind)
	if want := contract.CalculateCRDName(c.Spec.Group, kind); c.Name != want || c.Spec.Names.Kind != kind ||
		c.Spec.Names.ListKind != kind+"List" {
		t.Errorf("CRD %s of kind %s and list kind %s, want name %s", c.Name, c.Spec.Names.Kind, c.Spec.Names.ListKind, want)
	}
	if !slices.Contains(c.Spec.Names.Categories, "cluster-api") {
		t.Error("it is not of the category cluster-api")
	}
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	version := schema.GroupVersion{Group: c.Spec.Group, Version: c.Spec.Versions[0].Name}
	for _, k := range []string{kind, kind + "List"} {
		if !scheme.Recognizes(version.WithKind(k)) {
			t.Errorf("there is no type %s", k)
		}
	}
	if columns := c.Spec.Versions[0].AdditionalPrinterColumns; len(columns) == 0 || columns[len(columns)-1].Name != "Age" {
		t.Error("the columns do not end with the age")
	}
	if !c.Spec.Versions[0].Storage {
		t.Error("it is not stored")
	}
	return c
}

// object checks a kind that is reconciled.
func object(t *testing.T, kind string, columns ...string) {
	t.Helper()
	c := definition(t, kind)
	if s := c.Spec.Versions[0].Subresources; s == nil || s.Status == nil {
		t.Error("it has no subresource status")
	}
	for _, want := range append(columns, "Cluster", "Paused") {
		if !slices.ContainsFunc(c.Spec.Versions[0].AdditionalPrinterColumns,
			func(p apiextensionsv1.CustomResourceColumnDefinition) bool { return p.Name == want }) {
			t.Errorf("it has no column %s", want)
		}
	}
	conditions := field(t, c, "status.conditions", "array")
	if conditions.XListType == nil || *conditions.XListType != "map" ||
		!slices.Equal(conditions.XListMapKeys, []string{"type"}) {
		t.Error("conditions are not a map by type, so that two writers cannot share them")
	}
	for name, kind := range map[string]string{
		"type": "string", "status": "string", "reason": "string",
		"message": "string", "lastTransitionTime": "string", "observedGeneration": "integer",
	} {
		field(t, c, "status.conditions[]."+name, kind)
	}
	for _, old := range []string{"status.ready", "status.failureReason", "status.failureMessage", "status.v1beta2"} {
		if at(c, old) != nil {
			t.Errorf("%s is of the contract v1beta1, and core reads it with another meaning", old)
		}
	}
}

// initialization is what core waits for; a struct that is empty is not stored.
func initialization(t *testing.T, kind, name string) {
	t.Helper()
	c := crd(t, kind)
	field(t, c, "status.initialization."+name, "boolean")
	if s := at(c, "status.initialization"); s.MinProperties == nil || *s.MinProperties != 1 {
		t.Error("status.initialization may be empty")
	}
}

func TestInfraClusterResourceDefinition(t *testing.T) {
	t.Parallel()
	object(t, "MCMCluster", "Provisioned", "Ready")
	initialization(t, "MCMCluster", "provisioned")
	c := crd(t, "MCMCluster")
	field(t, c, "spec.controlPlaneEndpoint.host", "string")
	field(t, c, "spec.controlPlaneEndpoint.port", "integer")
}

// Of the contract v1beta1 they were a map.
func TestInfraClusterFailureDomainsAreAList(t *testing.T) {
	t.Parallel()
	c := crd(t, "MCMCluster")
	domains := field(t, c, "status.failureDomains", "array")
	if domains.XListType == nil || *domains.XListType != "map" || !slices.Equal(domains.XListMapKeys, []string{"name"}) {
		t.Error("status.failureDomains is not a map by name")
	}
	field(t, c, "status.failureDomains[].name", "string")
	field(t, c, "status.failureDomains[].controlPlane", "boolean")
	field(t, c, "status.failureDomains[].attributes", "object")
}

func TestInfraMachineResourceDefinition(t *testing.T) {
	t.Parallel()
	object(t, "MCMMachine", "Machine", "ProviderID", "Provisioned", "Ready")
	initialization(t, "MCMMachine", "provisioned")
	c := crd(t, "MCMMachine")
	id := field(t, c, "spec.providerID", "string")
	if id.MinLength == nil || *id.MinLength != 1 || id.MaxLength == nil || *id.MaxLength != 512 {
		t.Error("spec.providerID may be empty, or longer than core takes")
	}
	if slices.Contains(at(c, "spec").Required, "providerID") {
		t.Error("spec.providerID is required")
	}
	field(t, c, "status.failureDomain", "string")
	field(t, c, "status.interruptible", "boolean")
	field(t, c, "status.addresses[].type", "string")
	field(t, c, "status.addresses[].address", "string")
}

// Core still copies such a field into Machine.spec.failureDomain.
func TestInfraMachineHasNoFailureDomainInItsSpec(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"MCMMachine", "MCMMachineTemplate"} {
		for _, path := range []string{"spec.failureDomain", "spec.template.spec.failureDomain"} {
			if at(crd(t, kind), path) != nil {
				t.Errorf("%s has %s", kind, path)
			}
		}
	}
}

func TestBootstrapConfigResourceDefinition(t *testing.T) {
	t.Parallel()
	object(t, "MCMConfig", "Ready")
	initialization(t, "MCMConfig", "dataSecretCreated")
	field(t, crd(t, "MCMConfig"), "status.dataSecretName", "string")
}

func TestControlPlaneResourceDefinition(t *testing.T) {
	t.Parallel()
	object(t, "MCMExternalControlPlane", "Initialized", "Available")
	initialization(t, "MCMExternalControlPlane", "controlPlaneInitialized")
	c := crd(t, "MCMExternalControlPlane")
	field(t, c, "spec.controlPlaneEndpoint.host", "string")
	field(t, c, "spec.controlPlaneEndpoint.port", "integer")
	field(t, c, "status.externalManagedControlPlane", "boolean")
}

// A version in the spec needs the list in the status, which core compares it
// with; core before 1.14 reads the older field.
func TestControlPlaneVersionIsReported(t *testing.T) {
	t.Parallel()
	c := crd(t, "MCMExternalControlPlane")
	field(t, c, "spec.version", "string")
	field(t, c, "status.versions[].version", "string")
	field(t, c, "status.version", "string")
	if slices.Contains(at(c, "spec").Required, "version") {
		t.Error("the version is required")
	}
}

// Replicas and machines are somebody else's: who has such fields is asked to
// scale, and to roll out.
func TestControlPlaneHasNoReplicas(t *testing.T) {
	t.Parallel()
	c := crd(t, "MCMExternalControlPlane")
	for _, path := range []string{
		"spec.replicas", "status.replicas", "spec.machineTemplate", "spec.rollout",
		"status.selector",
	} {
		if at(c, path) != nil {
			t.Errorf("it has %s", path)
		}
	}
	if s := c.Spec.Versions[0].Subresources; s.Scale != nil {
		t.Error("it has a subresource scale")
	}
}
