// Package mcm holds the native kinds to the wire contract of Machine Controller
// Manager.
package mcm

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

var (
	kinds  = []string{"machineclasses", "machinedeployments", "machines", "machinesets"}
	update = flag.Bool("update", false, "write the goldens from MCM's CRDs beside the project")
)

// theirs is where MCM's CRDs lie, on machines that have them beside the project.
const theirs = "../../../../shared/data/mcm-crds"

// added are the fields that this project adds, all of them optional.
var added = []string{"status.nodeRef", "status.progress", "status.phase", "status.failureMessage"}

// TestCRDsKeepMCMsSurface compares our CRDs with the golden surface of MCM's:
// every field with its type, short names, columns and subresources.
func TestCRDsKeepMCMsSurface(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			golden, err := os.ReadFile(filepath.Join("testdata", kind+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			ours := surface(t, filepath.Join("../../../config/crd", file(kind)))
			if diff := cmp.Diff(strings.Split(string(golden), "\n"), withoutAdded(ours)); diff != "" {
				t.Errorf("MCM's surface (-) and ours (+): what MCM's CRD accepts and keeps, ours has to accept and keep\n%s", diff)
			}
		})
	}
}

// TestGoldensAreMCMs compares the goldens with MCM's own CRDs.
func TestGoldensAreMCMs(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(theirs); err != nil {
		t.Skip("MCM's CRDs are not beside this project; the goldens state the same facts")
	}
	for _, kind := range kinds {
		want := strings.Join(surface(t, filepath.Join(theirs, file(kind))), "\n")
		path := filepath.Join("testdata", kind+".txt")
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		golden, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(golden)); diff != "" {
			t.Errorf("%s: MCM (-) and golden (+)\n%s", kind, diff)
		}
	}
}

func file(kind string) string { return "machine.sapcloud.io_" + kind + ".yaml" }

// surface is what others see of a CRD, a line each, sorted.
func surface(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &crd); err != nil {
		t.Fatal(err)
	}
	v := crd.Spec.Versions[0]
	lines := []string{fmt.Sprintf("names %s %s %s %v %s %s", crd.Spec.Names.Kind, crd.Spec.Names.Plural,
		crd.Spec.Names.Singular, crd.Spec.Names.ShortNames, crd.Spec.Scope, v.Name)}
	if v.Subresources != nil {
		lines = append(lines, fmt.Sprintf("subresource status %v", v.Subresources.Status != nil))
		if s := v.Subresources.Scale; s != nil {
			lines = append(lines, fmt.Sprintf("subresource scale %s %s %v", s.SpecReplicasPath, s.StatusReplicasPath,
				s.LabelSelectorPath != nil))
		}
	}
	for _, c := range v.AdditionalPrinterColumns {
		lines = append(lines, fmt.Sprintf("column %s %s %s %d", c.Name, c.Type, c.JSONPath, c.Priority))
	}
	return append(lines, fields("", *v.Schema.OpenAPIV3Schema)...)
}

// fields lists a schema: path, type, and what decides about values and pruning.
func fields(path string, s apiextensionsv1.JSONSchemaProps) []string {
	var lines []string
	if path != "" {
		open := s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("field %s %s %s required=%v open=%v intOrString=%v "+
			"validations=%d enum=%d",
			path, s.Type, s.Format, s.Required, open, s.XIntOrString, len(s.XValidations), len(s.Enum))))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		lines = append(lines, fields(strings.TrimPrefix(path+"."+name, "."), s.Properties[name])...)
	}
	if s.Items != nil && s.Items.Schema != nil {
		lines = append(lines, fields(path+"[]", *s.Items.Schema)...)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		lines = append(lines, fields(path+"{}", *s.AdditionalProperties.Schema)...)
	}
	return lines
}

func withoutAdded(lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		return slices.ContainsFunc(added, func(a string) bool {
			return strings.HasPrefix(line, "field "+a+" ") || strings.HasPrefix(line, "field "+a+".") ||
				strings.HasPrefix(line, "field "+a+"[")
		})
	})
}
