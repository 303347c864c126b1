package openstack_test

import (
	"testing"
	"time"

	rig "github.com/capmcm/cluster-api-provider-mcm/test/openstack"
)

// TestRig keeps the rig from telling stories: what is put into it is there.
func TestRig(t *testing.T) {
	t.Parallel()
	r := rig.ForTest(t)
	p := r.NewProject(t)
	id := p.AddServer(t, "a.b", map[string]string{"kubernetes.io-cluster-x": "1"}, time.Now().Add(-time.Hour))
	if all := p.Servers(t); len(all) != 1 || all[0].ID != id || all[0].Metadata["kubernetes.io-cluster-x"] != "1" {
		t.Errorf("got %+v, want the server that was put there", all)
	}
	if status := p.Server(t, id).Status; status != "ACTIVE" {
		t.Errorf("the server is %s", status)
	}
	p.Act(t, id, nil, "")
	if all := p.Servers(t); len(all) != 0 {
		t.Errorf("got %+v after its deletion", all)
	}
	port := p.AddPort(t, "a port", "for a test", []string{"tag"})
	if all := p.Ports(t); len(all) != 1 || all[0].ID != port || all[0].Description != "for a test" {
		t.Errorf("got %+v, want the port that was made", all)
	}
	if t.Failed() {
		t.Log(r.Logs())
	}
}
