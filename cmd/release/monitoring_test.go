package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestMonitoringFindsTheManagers: the monitors select what the other bundles have, with a token that
// is there, and the chart has them only where they are asked for.
func TestMonitoringFindsTheManagers(t *testing.T) {
	t.Parallel()
	out := written(t)
	all := objects(t, filepath.Join(out, "monitoring", "v0.1.7", "monitoring-components.yaml"))
	found := map[string]*unstructured.Unstructured{}
	for _, o := range all {
		found[o.GetKind()+" "+o.GetName()] = o
		if o.GetNamespace() != "" && o.GetNamespace() != "monitoring" {
			t.Errorf("%s %s is in namespace %s", o.GetKind(), o.GetName(), o.GetNamespace())
		}
	}
	service, pod := found["ServiceMonitor capmcm-providers"], found["PodMonitor capmcm-native"]
	if service == nil || pod == nil || found["PrometheusRule capmcm"] == nil {
		t.Fatal("the rule or a monitor is missing")
	}
	endpoint := endpoints(t, service, "endpoints")[0]
	secret, _, err := unstructured.NestedString(endpoint, "authorization", "credentials", "name")
	if err != nil || found["Secret "+secret] == nil {
		t.Errorf("the token is in Secret %q (%v), which is not there", secret, err)
	}
	for _, b := range bundles() {
		for _, s := range of[corev1.Service](t, objects(t, filepath.Join(out, b.label, "v0.1.7", b.file)), "Service") {
			if b.provider != "" && !strings.HasSuffix(s.Name, "hooks") {
				checkSelected(t, service, s, endpoint["port"])
			}
		}
	}
	native := of[appsv1.Deployment](t, objects(t, filepath.Join(out, "native", "v0.1.7", "native-components.yaml")),
		"Deployment")[0]
	if want := map[string]any{"matchLabels": map[string]any{"app": native.Spec.Template.Labels["app"]}}; !cmp.Equal(
		want, pod.Object["spec"].(map[string]any)["selector"]) {
		t.Errorf("the PodMonitor does not select the pods %v", native.Spec.Template.Labels)
	}
	for _, e := range endpoints(t, pod, "podMetricsEndpoints") {
		if !slices.ContainsFunc(native.Spec.Template.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool {
			return p.Name == e["port"]
		}) {
			t.Errorf("the pods have no port %v", e["port"])
		}
	}
	checkHonorsLabels(t, append(endpoints(t, service, "endpoints"), endpoints(t, pod, "podMetricsEndpoints")...))
	checkChartOfMonitoring(t, filepath.Join(out, "chart", "v0.1.7", "capmcm"))
}

// endpoints are what a monitor scrapes.
func endpoints(t *testing.T, monitor *unstructured.Unstructured, field string) []map[string]any {
	t.Helper()
	list, _, err := unstructured.NestedSlice(monitor.Object, "spec", field)
	if err != nil || len(list) == 0 {
		t.Fatalf("%s of %s: %v, %v", field, monitor.GetName(), list, err)
	}
	var all []map[string]any
	for _, e := range list {
		all = append(all, e.(map[string]any))
	}
	return all
}

// checkSelected: a provider's Service has the label that the monitor selects, and its port.
func checkSelected(t *testing.T, monitor *unstructured.Unstructured, s corev1.Service, port any) {
	t.Helper()
	selector := &metav1.LabelSelector{}
	spec := monitor.Object["spec"].(map[string]any)
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec["selector"].(map[string]any), selector)
	if err != nil {
		t.Fatal(err)
	}
	selects, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	if !selects.Matches(labels.Set(s.Labels)) {
		t.Errorf("the ServiceMonitor does not select Service %s/%s with %v", s.Namespace, s.Name, s.Labels)
	}
	if !slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == port }) {
		t.Errorf("Service %s/%s has no port %v", s.Namespace, s.Name, port)
	}
}

// checkHonorsLabels: the alerts group by the namespaces and names of machines.
func checkHonorsLabels(t *testing.T, all []map[string]any) {
	t.Helper()
	for _, e := range all {
		if e["honorLabels"] != true {
			t.Errorf("port %v is scraped without honorLabels", e["port"])
		}
	}
}

// checkChartOfMonitoring: the chart has the objects only where they are asked for, and Helm leaves
// the templates of the alerts alone.
func checkChartOfMonitoring(t *testing.T, folder string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "templates", "monitoring.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	template := string(text)
	if !strings.HasPrefix(template, "{{- if .Values.monitoring.enabled }}\n") {
		t.Errorf("the template begins with %q", template[:60])
	}
	for _, part := range []string{`{{ "{{" }} $labels.namespace }}`, "{{ merge (deepCopy .Values.monitoring.labels)"} {
		if !strings.Contains(template, part) {
			t.Errorf("the template has no %s", part)
		}
	}
	values, err := os.ReadFile(filepath.Join(folder, "values.yaml"))
	if err != nil || !strings.Contains(string(values), "\nmonitoring:\n  enabled: false\n") {
		t.Errorf("monitoring is not off by default: %v", err)
	}
}
