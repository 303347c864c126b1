package play

import (
	"testing"
	"time"
)

// cutOff is a zone with a third of 300 nodes that is cut off for half an hour.
func cutOff(seed uint64, unprotected bool) Plan {
	p := Plan{
		Seed: seed, Length: 90 * time.Minute, Boot: 20 * time.Second, Delete: 10 * time.Second, Pods: 3,
		IgnoreOutages: unprotected, AllJoin: true,
		Events: []Event{{At: 30 * time.Minute, What: "zone cut", N: 1, For: 30 * time.Minute}},
	}
	for class := range classes {
		p.Pools = append(p.Pools, Pool{Replicas: 100, Surge: 1, Class: class})
	}
	return p
}

// TestAZoneThatIsCutOffLosesNoMachine: while a zone cannot be heard and the cloud
// says that its VMs run, none of its machines is replaced. Without the protection
// some are: the test can fail.
func TestAZoneThatIsCutOffLosesNoMachine(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("300 machines take a while")
	}
	if r := Run(cutOff(1, false), false); r.Given != 0 || r.Violation != nil {
		t.Errorf("%d machines were deleted whose VMs ran; violated: %v", r.Given, r.Violation)
	}
	if r := Run(cutOff(1, true), false); r.Given == 0 {
		t.Error("no machine was deleted without the protection either: what does the test show?")
	}
}
