package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"sigs.k8s.io/yaml"
)

// TestZonesAreText: Azure's zones are called 1, 2 and 3. Cluster API reads what a patch of a ClusterClass
// renders as YAML, in which an unquoted one is a number, and the API server refuses the MCMCluster.
func TestZonesAreText(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(written(t), infrastructure, "v0.1.7", "clusterclass-mcm.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var class struct {
		Spec struct {
			Patches []struct {
				Name        string
				Definitions []struct {
					JSONPatches []struct{ ValueFrom struct{ Template string } } `json:"jsonPatches"`
				}
			}
		}
	}
	first, _, _ := strings.Cut(string(text), "\n---\n")
	if err := yaml.Unmarshal([]byte(first), &class); err != nil {
		t.Fatal(err)
	}
	for _, p := range class.Spec.Patches {
		if p.Name != "controlPlaneZones" {
			continue
		}
		parsed, err := template.New("").Funcs(template.FuncMap{"quote": strconv.Quote}).
			Parse(p.Definitions[0].JSONPatches[0].ValueFrom.Template)
		if err != nil {
			t.Fatal(err)
		}
		var rendered bytes.Buffer
		if err := parsed.Execute(&rendered, map[string]any{"controlPlaneZones": []string{"1", "eu-1a"}}); err != nil {
			t.Fatal(err)
		}
		var zones []struct{ Name any }
		if err := yaml.Unmarshal(rendered.Bytes(), &zones); err != nil {
			t.Fatal(err)
		}
		if len(zones) != 2 || zones[0].Name != "1" || zones[1].Name != "eu-1a" {
			t.Errorf("got %v from:\n%s", zones, rendered.String())
		}
		return
	}
	t.Error("the class has no patch for zones")
}
