package orphan

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestSeriesAreThereBeforeTheFirstOrphan(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	for range 2 { // a collector for each API, which share the metrics
		if err := New(Deps{}).Register(registry, []string{"AWS"}); err != nil {
			t.Fatal(err)
		}
	}
	want := `
# HELP mcm_safety_orphan_scans_failed_total Scans for orphans that failed.
# TYPE mcm_safety_orphan_scans_failed_total counter
mcm_safety_orphan_scans_failed_total{provider="AWS"} 0
# HELP mcm_safety_orphans_seen_total Resources in the cloud that were found without an owner.
# TYPE mcm_safety_orphans_seen_total counter
mcm_safety_orphans_seen_total{kind="address",provider="AWS"} 0
mcm_safety_orphans_seen_total{kind="disk",provider="AWS"} 0
mcm_safety_orphans_seen_total{kind="interface",provider="AWS"} 0
mcm_safety_orphans_seen_total{kind="key",provider="AWS"} 0
mcm_safety_orphans_seen_total{kind="vm",provider="AWS"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "mcm_safety_orphans_seen_total",
		"mcm_safety_orphan_scans_failed_total"); err != nil {
		t.Errorf("an increase is measured between two samples, so the first orphan needs a sample before it\n%v", err)
	}
	if n, err := testutil.GatherAndCount(registry, "mcm_safety_orphans_removed_total"); n != 5 || err != nil {
		t.Errorf("%d series of removed orphans (%v), want one for each of 5 kinds", n, err)
	}
}
