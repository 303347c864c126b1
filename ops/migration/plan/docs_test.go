package plan

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/pools"
)

// TestGuideTellsWhatBecomesOfEachField: the table of docs/migration.md has what plans
// say, and nothing else.
func TestGuideTellsWhatBecomesOfEachField(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/migration.md")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, c := range fieldCases() {
		s := pools.NativePool("pool", 2)
		pools.Around(s)
		c.set(s)
		for _, f := range Of(s, pools.ToCluster()).Findings {
			if f.Field == c.field && f.Level == c.level && strings.Contains(f.Text, c.text) {
				want = append(want, fmt.Sprintf("| `%s` | %s | %s |", c.field, f.Level, f.Text))
				break
			}
		}
	}
	var have []string
	for line := range strings.SplitSeq(string(text), "\n") {
		if cells := strings.Split(line, " | "); len(cells) == 3 &&
			slices.Contains([]migration.Level{migration.Kept, migration.Replaced, migration.Lost}, migration.Level(cells[1])) {
			have = append(have, line)
		}
	}
	if !slices.Equal(have, want) {
		t.Errorf("docs/migration.md: the table of fields is to be\n%s", strings.Join(want, "\n"))
	}
}
