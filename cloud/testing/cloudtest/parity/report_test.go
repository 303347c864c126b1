package parity

import (
	"strings"
	"testing"
)

// TestReportIsPlaced: a figure of a page that is stale is replaced, and the sections around it stay.
func TestReportIsPlaced(t *testing.T) {
	t.Parallel()
	var r Report
	r.Equal, r.Refused = 3, 2
	r.Decide("a|b", "a|b", "c")
	r.Decide("c")
	for name, page := range map[string]string{
		"none":       "# X\n\n## Y\n\ntext\n",
		"at the end": "# X\n\n" + heading + "\nCUT\n",
		"between":    "# X\n\n" + heading + "\nCUT\n\n## Y\n\ntext\n",
	} {
		got := r.placed(page)
		for _, want := range []string{"# X\n\n", "| 7 | 3 | 2 | 2 |\n", `| a\|b | 1 |` + "\n", "| c | 2 |\n"} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q is missing in %q", name, want, got)
			}
		}
		kept := strings.Contains(page, "## Y") == strings.Contains(got, "\n\n## Y\n\ntext\n")
		if !kept || strings.Contains(got, "CUT") {
			t.Errorf("%s: got %q", name, got)
		}
		if again := r.placed(got); again != got {
			t.Errorf("%s: a second time gives %q", name, again)
		}
	}
}
