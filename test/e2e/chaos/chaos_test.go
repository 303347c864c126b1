package main

import (
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
)

// TestShortChaos is the smallest run that is worth the name; `make chaos` is
// longer, and draws its seed.
func TestShortChaos(t *testing.T) {
	t.Parallel()
	cluster.Require(t)
	out, err := run(t.Context(), options{minutes: 0.5, seed: 1, settle: 5 * time.Minute, quiet: 8 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if out.Kills+out.Faults == 0 {
		t.Error("nothing was killed and nothing failed: this run shows nothing")
	}
}
