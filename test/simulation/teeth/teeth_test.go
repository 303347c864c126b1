package main

import (
	"os"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
)

// TestBugsCanStillBeMade fails when the product has changed so that a deliberate
// bug cannot be put into it any more: then the bug has to be adapted.
func TestBugsCanStillBeMade(t *testing.T) {
	t.Parallel()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	const fewest = 12
	if n := len(Bugs()); n < fewest {
		t.Errorf("%d deliberate bugs, want at least %d", n, fewest)
	}
	for _, b := range Bugs() {
		if _, err := b.Patched(root); err != nil {
			t.Errorf("%s: %v", b.Name, err)
		}
	}
}

// TestBugsAreFound puts bugs into the product and wants each found: four of them,
// and all with TEETH=all, which takes as many builds.
func TestBugsAreFound(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("each bug is a build")
	}
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	few := map[string]bool{
		"the drain is skipped": true, "surge is off by one": true,
		"a VM is created before the intent is written":       true,
		"a MCMMachine is let go while its VM is still going": true,
	}
	for _, b := range Bugs() {
		if !few[b.Name] && os.Getenv("TEETH") != "all" {
			continue
		}
		rule, after, err := Find(t.Context(), root, b)
		if err != nil {
			t.Errorf("%s: %v", b.Name, err)
			continue
		}
		t.Logf("%s: found by %s after %d seeds", b.Name, rule, after)
	}
}
