package legacy

import (
	"maps"
	"net/http"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"

	"example.com/outside/memory"
)

// TestConformance is the kit on a driver of MCM's. What it lacks beyond the cloud is what
// MCM's interface has no place for.
func TestConformance(t *testing.T) {
	t.Parallel()
	h := memory.Harness(func(transport http.RoundTripper, s *memory.Server) cloud.Driver {
		return NewDriver(transport, s.Now)
	})
	delete(h.Lacks, "C25")
	h.Volumes = []cloudtest.Volume{
		{Name: "own", Volume: cloud.Volume{Driver: "csi.memory.example", Handle: "d-1"}, ID: "d-1"},
	}
	maps.Copy(h.Lacks, map[string]string{
		"C01":              "the class keeps the spec as it is written, for the driver to decode",
		"C06/Processes":    "there is no idempotency key: two processes at once make two VMs",
		"C11":              "there are no owner ids: machines of one name share a VM",
		"C17/HasThrottled": "MCM has no code for it",
		"C18":              "MCM has no code for it",
		"C21/Empty":        "MCM's drivers refuse a Secret without user data",
		"C22":              "MCM knows no states",
		"C23":              "there is no way to delete one VM of several by name",
		"C31/Late1_Create": "there is no idempotency key: a request that takes longer than Settle makes a second VM",
		"C27":              "MCM's drivers do not know what a node offers",
	})
	h.Errors = h.Errors[1:]
	h.Errors[len(h.Errors)-1].Of = &cloud.Offering{Zone: "z1", InstanceType: "small"}
	cloudtest.Run(t, h)
}
