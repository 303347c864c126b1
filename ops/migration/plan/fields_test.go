package plan

import (
	"slices"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/pools"
)

type fieldCase struct {
	field string
	level migration.Level
	text  string
	set   func(*migration.PoolState)
}

func TestFields(t *testing.T) {
	t.Parallel()
	for _, c := range fieldCases() {
		t.Run(c.field+" "+string(c.level), func(t *testing.T) {
			t.Parallel()
			s := pools.NativePool("pool", 2)
			pools.Around(s)
			c.set(s)
			p := Of(s, pools.ToCluster())
			at := slices.IndexFunc(p.Findings, func(f migration.Finding) bool {
				return f.Field == c.field && f.Level == c.level && strings.Contains(f.Text, c.text)
			})
			if at < 0 {
				t.Fatalf("want %s %s: %s, got %v", c.level, c.field, c.text, p.Findings)
			}
			lost := c.level == migration.Lost
			blocks := func(o migration.Options) bool {
				return slices.ContainsFunc(Of(s, o).Blocked(), func(f migration.Finding) bool { return f.Field == c.field })
			}
			o := pools.ToCluster()
			if blocks(o) != lost {
				t.Errorf("blocks %v, want %v", blocks(o), lost)
			}
			if o.Accept = []string{c.field, "spec.strategy.inPlaceUpdate"}; blocks(o) {
				t.Error("blocks although its loss is accepted")
			}
		})
	}
}
