package kubevirt_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// template: what instances are made of.
func template(t *testing.T, namespace makes) {
	t.Helper()
	const migrates = "kubevirt.io/allow-pod-bridge-network-live-migration"
	worker := map[string]string{"cluster.x-k8s.io/cluster-name": "c1", "cluster.x-k8s.io/role": "worker"}
	for i, c := range []struct {
		reason      string
		change      map[string]any
		labels      map[string]string
		annotations map[string]string
		overcommit  bool
	}{
		{reason: "load balancers of the tenant cluster select workers by these labels", labels: worker},
		{
			reason: "no load balancer selects the control plane",
			change: map[string]any{"tags": tags("c1", "control-plane")},
			labels: map[string]string{"cluster.x-k8s.io/cluster-name": "c1", "cluster.x-k8s.io/role": "control-plane"},
		},
		{
			reason: "the class's own label wins",
			change: map[string]any{"tags": tags("c1", "node", "cluster.x-k8s.io/cluster-name", "other")},
			labels: map[string]string{"cluster.x-k8s.io/cluster-name": "other", "cluster.x-k8s.io/role": "worker"},
		},
		{
			reason: "Gardener's other form of the tags",
			change: map[string]any{"tags": map[string]string{
				"kubernetes.io-cluster-shoot--a--b": "1", "kubernetes.io-role-node": "1",
			}},
			labels: map[string]string{"cluster.x-k8s.io/cluster-name": "shoot--a--b", "cluster.x-k8s.io/role": "worker"},
		},
		{
			reason: "KubeVirt migrates no bridge in the network of pods without it",
			change: map[string]any{"evictionStrategy": "LiveMigrate"}, labels: worker,
			annotations: map[string]string{migrates: "true"},
		},
		{
			reason: "a masquerade needs nothing",
			change: map[string]any{"evictionStrategy": "LiveMigrate", "podNetworkBinding": "masquerade"}, labels: worker,
		},
		{
			reason: "the VM would get another address where it has stopped before",
			change: map[string]any{"evictionStrategy": "LiveMigrateIfPossible"}, labels: worker,
		},
		{
			reason: "MCM's driver passes it on", labels: worker, overcommit: true,
			change: map[string]any{"instancetype": nil, "resources": map[string]any{
				"requests": map[string]any{"cpu": 2, "memory": "4Gi"}, "overcommitGuestOverhead": true,
			}},
		},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			s := newEnv(t, namespace(t, fmt.Sprintf("template-%d", i)), class(c.change))
			_, err := s.create()
			must(t, err)
			made, err := s.n.Template(t.Context(), "w-1")
			must(t, err)
			text, _ := json.Marshal(made)
			var got struct {
				Metadata struct{ Labels, Annotations map[string]string }
				Spec     struct {
					Domain struct {
						Resources struct{ OvercommitGuestOverhead bool }
					}
				}
			}
			must(t, json.Unmarshal(text, &got))
			for key, want := range c.labels {
				if got.Metadata.Labels[key] != want {
					t.Errorf("%s: label %s is %q, want %q", c.reason, key, got.Metadata.Labels[key], want)
				}
			}
			if !maps.Equal(got.Metadata.Annotations, c.annotations) {
				t.Errorf("%s: got annotations %v, want %v", c.reason, got.Metadata.Annotations, c.annotations)
			}
			if got.Spec.Domain.Resources.OvercommitGuestOverhead != c.overcommit {
				t.Errorf("%s: got %s", c.reason, text)
			}
		})
	}
}

// relabelled: changed tags reach the VM's next instance, since KubeVirt makes it of the template.
func relabelled(s *env) {
	s.running()
	again := newEnv(s.T, s.n, class(map[string]any{"tags": tags("c1", "node", "team", "b")}))
	ref := cloud.Ref{Name: "w-1", OwnerID: "o-1", Class: again.class}
	for range 2 { // the second finds nothing to do
		again.calls = nil
		must(s, again.account.(cloud.TagSetter).SetTags(s.Context(), ref, nil))
	}
	if slices.Contains(again.calls, "PATCH") {
		s.Errorf("calls of the second change: %v, want no change", again.calls)
	}
	made, err := s.n.Template(s.Context(), "w-1")
	must(s, err)
	if text, _ := json.Marshal(made["metadata"]); !strings.Contains(string(text), `"team":"b"`) {
		s.Errorf("template: %s, want its label team to be b", text)
	}
}
