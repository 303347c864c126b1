package main

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	crd "github.com/capmcm/cluster-api-provider-mcm/config/crd"
)

// schema is a part of an OpenAPI schema.
type schema = apiextensionsv1.JSONSchemaProps

// definitions returns the CRDs, in the order of their files.
func definitions() ([]apiextensionsv1.CustomResourceDefinition, error) {
	names, err := fs.Glob(crd.Files, "*.yaml")
	if err != nil {
		return nil, err
	}
	crds := make([]apiextensionsv1.CustomResourceDefinition, len(names))
	for i, name := range names {
		text, err := crd.Files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if err := yaml.UnmarshalStrict(text, &crds[i]); err != nil {
			return nil, fmt.Errorf("read %s: %w", path.Base(name), err)
		}
	}
	return crds, nil
}

// overview is the table of what holds for the kind as a whole.
func overview(c *apiextensionsv1.CustomResourceDefinition, v *apiextensionsv1.CustomResourceDefinitionVersion) string {
	var out strings.Builder
	out.WriteString("| | |\n|---|---|\n")
	row := func(name string, values ...string) {
		if len(values) > 0 {
			fmt.Fprintf(&out, "| %s | %s |\n", name, strings.Join(values, ", "))
		}
	}
	row("API version", code(c.Spec.Group+"/"+v.Name)+" ("+served(v)+")")
	row("Kind, list", code(c.Spec.Names.Kind), code(c.Spec.Names.ListKind))
	row("Resource, singular", code(c.Spec.Names.Plural+"."+c.Spec.Group), code(c.Spec.Names.Singular))
	row("Short names", codes(c.Spec.Names.ShortNames)...)
	row("Categories", codes(c.Spec.Names.Categories)...)
	row("Scope", string(c.Spec.Scope))
	row("Subresources", subresources(v.Subresources)...)
	return out.String()
}

func served(v *apiextensionsv1.CustomResourceDefinitionVersion) string {
	var words []string
	if v.Served {
		words = append(words, "served")
	}
	if v.Storage {
		words = append(words, "stored")
	}
	if v.Deprecated {
		words = append(words, "deprecated")
	}
	return strings.Join(words, ", ")
}

func subresources(s *apiextensionsv1.CustomResourceSubresources) []string {
	var found []string
	if s != nil && s.Status != nil {
		found = append(found, code("status"))
	}
	if s != nil && s.Scale != nil {
		scale := code("scale") + " (" + code(s.Scale.SpecReplicasPath) + ", " + code(s.Scale.StatusReplicasPath)
		if s.Scale.LabelSelectorPath != nil {
			scale += ", " + code(*s.Scale.LabelSelectorPath)
		}
		found = append(found, scale+")")
	}
	if len(found) == 0 {
		return []string{"none"}
	}
	return found
}

// columns is the table of what kubectl get prints.
func columns(v *apiextensionsv1.CustomResourceDefinitionVersion) string {
	if len(v.AdditionalPrinterColumns) == 0 {
		return "`kubectl get` prints name and age.\n"
	}
	var out strings.Builder
	out.WriteString("| column | type | value | meaning |\n|---|---|---|---|\n")
	for i := range v.AdditionalPrinterColumns {
		c := &v.AdditionalPrinterColumns[i]
		name := c.Name
		if c.Priority > 0 {
			name += " (`-o wide`)"
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", name, typeWord(c.Type, c.Format), code(c.JSONPath), prose(c.Description))
	}
	return out.String()
}
