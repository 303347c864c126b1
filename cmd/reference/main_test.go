package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	crd "github.com/capmcm/cluster-api-provider-mcm/config/crd"
)

func written(t *testing.T) map[string]string {
	t.Helper()
	files, err := pages(filepath.Join("..", "..", "api"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestPagesAreCurrent: what is committed is what the CRDs and types say.
func TestPagesAreCurrent(t *testing.T) {
	t.Parallel()
	folder := filepath.Join("..", "..", "docs", "api", "reference")
	want := written(t)
	names, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(names) != len(want) {
		t.Errorf("%d pages (%v), want %d: run make generate", len(names), err, len(want))
	}
	for name, text := range want {
		if got, err := os.ReadFile(filepath.Join(folder, name)); err != nil || string(got) != text {
			t.Errorf("%s is stale (%v): run make generate", name, err)
		}
	}
}

// TestRunRemovesWhatIsGone: a kind that is removed takes its page along.
func TestRunRemovesWhatIsGone(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	gone := filepath.Join(out, "gone.md")
	if err := os.WriteFile(gone, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(filepath.Join("..", "..", "api"), out); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(gone); !os.IsNotExist(err) {
		t.Errorf("the page of a kind that is gone is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(out, "machine.md")); err != nil {
		t.Error(err)
	}
}

// keywords are those of a schema that the pages show. One that is not among them needs a line in
// constraints.go first.
var keywords = []string{
	"description", "type", "format", "properties", "required", "items", "additionalProperties", "default", "enum",
	"pattern", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minimum", "maximum",
	"anyOf", "x-kubernetes-validations", "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type",
	"x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields",
}

// A judge compares the section of a kind with its CRD, which it reads in its own way.
type judge struct {
	t    *testing.T
	kind string
	page string // the section of the kind
	rows int
}

// TestEveryFieldIsThere: each field of each CRD has a row in the table of its object, with all that the schema
// says about it.
func TestEveryFieldIsThere(t *testing.T) {
	t.Parallel()
	files := written(t)
	names, err := fs.Glob(crd.Files, "*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	sections := 0
	for _, text := range files {
		sections += strings.Count(text, "\n## ")
	}
	if len(names) != sections {
		t.Errorf("%d CRDs, want %d, one for each section", len(names), sections)
	}
	for _, name := range names {
		definition, err := crd.Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var object struct {
			Spec struct {
				Group    string
				Names    struct{ Kind string }
				Versions []struct {
					Schema                   map[string]map[string]any
					AdditionalPrinterColumns []map[string]any
				}
			}
		}
		if err := yaml.Unmarshal(definition, &object); err != nil {
			t.Fatal(err)
		}
		kind := object.Spec.Names.Kind
		_, text, found := strings.Cut(files[folderOf(object.Spec.Group)+".md"], "\n## "+kind+"\n")
		if !found {
			t.Errorf("%s: no section of it", name)
		}
		text, _, _ = strings.Cut(text, "\n## ")
		j := &judge{t: t, kind: kind, page: "\n### " + kind + "\n" + text}
		j.object(kind, object.Spec.Versions[0].Schema["openAPIV3Schema"], "")
		for _, column := range object.Spec.Versions[0].AdditionalPrinterColumns {
			j.has(name, j.page, fmt.Sprint(column["jsonPath"]))
		}
		if rows := strings.Count(j.page, "\n| `"); rows != j.rows {
			t.Errorf("%s: the page has %d fields, want %d", name, rows, j.rows)
		}
	}
}

func (j *judge) has(what, text, want string) {
	if !strings.Contains(text, want) {
		j.t.Errorf("%s: the page does not have %s", what, want)
	}
}

// object compares the table of an object.
func (j *judge) object(heading string, s map[string]any, path string) {
	_, section, found := strings.Cut(j.page, "\n### "+heading+"\n")
	if !found {
		j.t.Errorf("no table of %s", heading)
		return
	}
	section, _, _ = strings.Cut(section, "\n### ")
	j.rules(heading, section, s)
	properties, _ := s["properties"].(map[string]any)
	for name, property := range properties {
		full := strings.TrimPrefix(path+"."+name, ".")
		_, row, found := strings.Cut(section, "\n| `"+name+"` | ")
		if !found {
			j.t.Errorf("%s has no row in the table of %s", full, heading)
			continue
		}
		j.rows++
		row, _, _ = strings.Cut(row, "\n")
		required, _ := s["required"].([]any)
		if slices.Contains(required, any(name)) != strings.Contains(row, "**Required**") {
			j.t.Errorf("%s: wrong about being required: %s", full, row)
		}
		j.value(full, section, row, property.(map[string]any))
	}
}

// value compares the row of a field, and what is below it.
func (j *judge) value(path, section, row string, s map[string]any) {
	for keyword, of := range s {
		if !slices.Contains(keywords, keyword) {
			j.t.Errorf("%s: the reference does not know %s", path, keyword)
		}
		switch keyword {
		case "pattern", "default", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties",
			"minimum", "maximum", "x-kubernetes-list-type", "x-kubernetes-map-type":
			if fmt.Sprint(of) != "map[]" {
				j.has(path+" "+keyword, row, strings.ReplaceAll(fmt.Sprint(of), "|", `\|`))
			}
		case "enum":
			for _, value := range of.([]any) {
				j.has(path, row, fmt.Sprintf("`%v`", value))
			}
		}
	}
	if _, inner := s["properties"]; inner {
		j.object(join(j.kind, path), s, path)
		return
	}
	j.rules(path, section, s)
	for _, of := range []string{"items", "additionalProperties"} {
		if element, ok := s[of].(map[string]any); ok {
			j.value(path+"[]", section, row, element)
		}
	}
}

func (j *judge) rules(path, section string, s map[string]any) {
	rules, _ := s["x-kubernetes-validations"].([]any)
	for _, r := range rules {
		rule := r.(map[string]any)
		j.has(path, section, strings.ReplaceAll(fmt.Sprint(rule["rule"]), "\n", "\n  "))
		j.has(path, section, prose(fmt.Sprint(rule["message"])))
	}
}
