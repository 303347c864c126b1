package capi

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// templateOf checks a kind that others are copied from: core trims the suffix to
// find the copy's kind.
func templateOf(t *testing.T, kind string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	c := definition(t, kind+"Template")
	field(t, c, "spec.template.spec", "object")
	for _, metadata := range []string{"labels", "annotations"} {
		field(t, c, "spec.template.metadata."+metadata, "object")
	}
	want, got := at(crd(t, kind), "spec"), at(c, "spec.template.spec")
	for name := range want.Properties {
		if _, ok := got.Properties[name]; !ok {
			t.Errorf("spec.template.spec has no %s, which is in the spec of the copies", name)
		}
	}
	return c
}

func TestInfraClusterTemplateResourceDefinition(t *testing.T) {
	t.Parallel()
	templateOf(t, "MCMCluster")
}

func TestInfraMachineTemplateResourceDefinition(t *testing.T) {
	t.Parallel()
	c := templateOf(t, "MCMMachine")
	if s := c.Spec.Versions[0].Subresources; s == nil || s.Status == nil {
		t.Error("it has no subresource status, where the capacity is")
	}
	field(t, c, "status.capacity", "object")
	field(t, c, "status.nodeInfo.operatingSystem", "string")
	var known []string
	for _, v := range field(t, c, "status.nodeInfo.architecture", "string").Enum {
		known = append(known, strings.Trim(string(v.Raw), `"`))
	}
	slices.Sort(known)
	if !slices.Equal(known, []string{"amd64", "arm64", "ppc64le", "s390x"}) {
		t.Errorf("status.nodeInfo.architecture is one of %v", known)
	}
}

func TestBootstrapConfigTemplateResourceDefinition(t *testing.T) {
	t.Parallel()
	templateOf(t, "MCMConfig")
}

func TestControlPlaneTemplateResourceDefinition(t *testing.T) {
	t.Parallel()
	templateOf(t, "MCMExternalControlPlane")
}

// Immutability that is checked would have to spare the dry runs of the topology
// controller. Nothing here checks it: there is no webhook and no rule in the CRD of a
// template that compares with the old object.
func TestTemplatesSupportSSADryRun(t *testing.T) {
	t.Parallel()
	eachCRD(t, func(t *testing.T, kind string, c *apiextensionsv1.CustomResourceDefinition) {
		t.Helper()
		rules := rulesOf(c.Spec.Versions[0].Schema.OpenAPIV3Schema)
		if strings.HasSuffix(kind, "Template") && slices.ContainsFunc(rules, func(r apiextensionsv1.ValidationRule) bool {
			return strings.Contains(r.Rule, "oldSelf")
		}) {
			t.Errorf("rules %v", rules)
		}
		if c.Spec.Conversion != nil && c.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter {
			t.Error("versions are converted by a webhook")
		}
	})
	for _, folder := range []string{"infrastructure", "bootstrap", "controlplane", "provider"} {
		err := filepath.WalkDir(filepath.Join(root, "config", folder), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			if strings.Contains(string(text), "WebhookConfiguration") {
				t.Errorf("%s has a webhook", path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func rulesOf(s *apiextensionsv1.JSONSchemaProps) []apiextensionsv1.ValidationRule {
	all := slices.Clone([]apiextensionsv1.ValidationRule(s.XValidations))
	for _, p := range s.Properties {
		all = append(all, rulesOf(&p)...)
	}
	if s.Items != nil && s.Items.Schema != nil {
		all = append(all, rulesOf(s.Items.Schema)...)
	}
	return all
}
