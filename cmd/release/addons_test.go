package main

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"text/template"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// helmChartProxy has the fields of Cluster API's Helm add-on provider, v1alpha1, that are used.
type helmChartProxy struct {
	metav1.TypeMeta `json:",inline"`

	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		ClusterSelector metav1.LabelSelector `json:"clusterSelector"`
		RepoURL         string               `json:"repoURL"`
		ChartName       string               `json:"chartName"`
		Version         string               `json:"version"`
		ReleaseName     string               `json:"releaseName"`
		Namespace       string               `json:"namespace"`
		ValuesTemplate  string               `json:"valuesTemplate"`
	} `json:"spec"`
}

// TestAddons: the charts have versions, so that two clusters get the same; the values are
// those of a chart once the provider has filled in what a Cluster says; and Clusters that ask for
// a cloud's are selected.
func TestAddons(t *testing.T) {
	t.Parallel()
	out := filepath.Join(written(t), infrastructure, "v0.1.7")
	version := regexp.MustCompile(`^v?\d+\.\d+\.\d+$`)
	for _, cloud := range addons() {
		names := map[string]bool{}
		for _, o := range objects(t, filepath.Join(out, "addons-"+cloud+".yaml")) {
			var p helmChartProxy
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &p, true); err != nil {
				t.Errorf("%s of %s: %v", o.GetName(), cloud, err)
				continue
			}
			if p.Kind != "HelmChartProxy" || p.APIVersion != "addons.cluster.x-k8s.io/v1alpha1" || names[p.Metadata.Name] {
				t.Errorf("%s %s %s of %s is another kind, or there twice", p.APIVersion, p.Kind, p.Metadata.Name, cloud)
			}
			names[p.Metadata.Name] = true
			if !version.MatchString(p.Spec.Version) || !strings.HasPrefix(p.Spec.RepoURL, "https://") ||
				p.Spec.ChartName == "" || p.Spec.ReleaseName != p.Metadata.Name || p.Spec.Namespace == "" {
				t.Errorf("%s of %s: chart %+v", p.Metadata.Name, cloud, p.Spec)
			}
			selector, err := metav1.LabelSelectorAsSelector(&p.Spec.ClusterSelector)
			if err != nil || !selector.Matches(labelled{"addons": cloud}) || selector.Matches(labelled{}) {
				t.Errorf("%s of %s selects %v, %v", p.Metadata.Name, cloud, p.Spec.ClusterSelector, err)
			}
			checkValues(t, p)
		}
		if !names["calico"] || len(names) < 3 {
			t.Errorf("%s has charts %v, want a network plugin and a cloud controller manager at least", cloud, names)
		}
	}
}

// labelled are the labels of a Cluster.
type labelled map[string]string

func (l labelled) Has(key string) bool              { _, there := l[key]; return there }
func (l labelled) Get(key string) string            { return l[key] }
func (l labelled) Lookup(key string) (string, bool) { value, there := l[key]; return value, there }

// checkValues: the values are a map after the provider has filled in the fields of a Cluster.
func checkValues(t *testing.T, p helmChartProxy) {
	t.Helper()
	values, err := template.New("").Option("missingkey=error").Parse(p.Spec.ValuesTemplate)
	if err != nil {
		t.Errorf("values of %s: %v", p.Metadata.Name, err)
		return
	}
	var text bytes.Buffer
	err = values.Execute(&text, map[string]any{"Cluster": map[string]any{
		"metadata": map[string]any{"name": "c1"},
		"spec": map[string]any{"clusterNetwork": map[string]any{
			"pods": map[string]any{"cidrBlocks": []string{"192.168.0.0/16", "fd00::/48"}},
		}},
	}})
	var read map[string]any
	if err == nil {
		err = yaml.UnmarshalStrict(text.Bytes(), &read)
	}
	if err != nil || p.Spec.ValuesTemplate != "" && len(read) == 0 {
		t.Errorf("values of %s: %v\n%s", p.Metadata.Name, err, &text)
	}
}
