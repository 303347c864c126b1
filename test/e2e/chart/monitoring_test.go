package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestMonitoring: Helm leaves the templates of alerts as they are, adds the labels of the values, and
// installs nothing of it unless it is asked for.
func TestMonitoring(t *testing.T) {
	t.Parallel()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "run", "./cmd/release", "-out", out, "-version", version)
	cmd.Dir = root
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make the release: %v\n%s", err, said)
	}
	folder := filepath.Join(out, "chart", version, "capmcm")
	for _, o := range rendered(t, folder, nil) {
		if strings.HasPrefix(o.GetAPIVersion(), "monitoring.coreos.com/") {
			t.Errorf("%s %s is installed by default", o.GetKind(), o.GetName())
		}
	}
	text, err := os.ReadFile(filepath.Join(root, "config", "monitoring", "prometheus_rule.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, want); err != nil {
		t.Fatal(err)
	}
	rules, dashboards := 0, 0
	for _, o := range rendered(t, folder, map[string]any{"enabled": true, "labels": map[string]any{"release": "x"}}) {
		if o.GetLabels()["grafana_dashboard"] == "1" {
			dashboards++
			checkDashboard(t, filepath.Join(root, "config", "monitoring", "dashboards"), o)
		}
		if o.GetKind() != want.GetKind() {
			continue
		}
		rules++
		if got, err := yaml.Marshal(o.Object["spec"]); err != nil || string(got) != specOf(t, want) {
			t.Errorf("Helm has changed the rules (%v):\n%s", err, got)
		}
		if o.GetLabels()["release"] != "x" || o.GetNamespace() != namespace {
			t.Errorf("labels %v in namespace %s", o.GetLabels(), o.GetNamespace())
		}
	}
	if rules != 1 || dashboards != 4 {
		t.Errorf("%d PrometheusRules and %d dashboards, want 1 and 4", rules, dashboards)
	}
}

// checkDashboard: a ConfigMap has the file as it is.
func checkDashboard(t *testing.T, folder string, o *unstructured.Unstructured) {
	t.Helper()
	data, _, err := unstructured.NestedStringMap(o.Object, "data")
	if err != nil || len(data) != 1 {
		t.Fatalf("%s has %d files: %v", o.GetName(), len(data), err)
	}
	for name, got := range data {
		if want, err := os.ReadFile(filepath.Join(folder, name)); err != nil || string(want) != got {
			t.Errorf("Helm has changed %s (%v)", name, err)
		}
	}
}

func specOf(t *testing.T, o *unstructured.Unstructured) string {
	t.Helper()
	text, err := yaml.Marshal(o.Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// rendered are the objects that the chart would install with these values of monitoring.
func rendered(t *testing.T, folder string, monitoring map[string]any) []*unstructured.Unstructured {
	t.Helper()
	loaded, err := loader.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	install := action.NewInstall(&action.Configuration{})
	install.ReleaseName, install.Namespace, install.DryRun, install.ClientOnly = "capmcm", namespace, true, true
	all := values(true)
	if monitoring != nil {
		all["monitoring"] = monitoring
	}
	release, err := install.Run(loaded, all)
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for document := range strings.SplitSeq(release.Manifest, "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			t.Fatal(err)
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
	return objects
}
