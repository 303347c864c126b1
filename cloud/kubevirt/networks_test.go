package kubevirt_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/kubevirttest"
)

// networks: what a class does not say about networks is left to the cluster.
func networks(t *testing.T, namespace makes) {
	t.Helper()
	multus := []map[string]any{{"name": "default/storage"}}
	for name, c := range map[string]struct {
		reason    string
		change    map[string]any
		behaviour kubevirttest.Behaviour
		want      []string
		data      bool // for the network of cloud-init
		code      cloud.Code
	}{
		"default": {
			reason: "the cluster's default applies", behaviour: kubevirttest.Behaviour{Binding: "masquerade", NoBridge: true},
			want: []string{"default masquerade"},
		},
		"bridge": {
			reason: "as releases before asked for it", change: map[string]any{"podNetworkBinding": "bridge"},
			behaviour: kubevirttest.Behaviour{Binding: "masquerade"}, want: []string{"default bridge"}, data: true,
		},
		"masquerade": {
			reason: "whatever the cluster's default is", change: map[string]any{"podNetworkBinding": "masquerade"},
			want: []string{"default masquerade"}, data: true,
		},
		"beside": {
			reason: "MCM's driver adds a bridge to networks that it is given",
			change: map[string]any{"networks": multus}, want: []string{"default bridge", "net0 bridge"}, data: true,
		},
		"beside masquerade": {
			reason: "a cluster without bridges in the network of pods", behaviour: kubevirttest.Behaviour{NoBridge: true},
			change: map[string]any{"networks": multus, "podNetworkBinding": "masquerade"},
			want:   []string{"default masquerade", "net0 bridge"}, data: true,
		},
		"refused": {
			reason: "virt-api does not permit it", change: map[string]any{"podNetworkBinding": "bridge"},
			behaviour: kubevirttest.Behaviour{NoBridge: true}, code: cloud.Invalid,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newEnv(t, namespace(t, "networks-"+strings.ReplaceAll(name, " ", "-")), class(c.change))
			s.n.Behave(c.behaviour)
			if c.code != cloud.Unknown {
				if _, err := s.create(); cloud.CodeOf(err) != c.code {
					t.Errorf("%s: got %v, want code %v", c.reason, err, c.code)
				}
				return
			}
			s.running()
			if got, err := s.n.Interfaces(t.Context(), "w-1"); err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%s: got interfaces %v, %v, want %v", c.reason, got, err, c.want)
			}
			made, err := s.n.Template(t.Context(), "w-1")
			must(t, err)
			if text, _ := json.Marshal(made); strings.Contains(string(text), "networkData") != c.data {
				t.Errorf("%s: got %s, want networkData %v", c.reason, text, c.data)
			}
		})
	}
}
