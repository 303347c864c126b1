package parity

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Report is what the comparison of one driver has found. Its zero value is ready to count.
type Report struct {
	Equal   int // cases in which both ask for the same
	Refused int // cases that both drivers refuse
	Decided int // cases in which ours differs on purpose
	// reasons are the decisions with the number of their cases; a case may have several.
	reasons map[string]int
}

// Decide counts a case that differs for these reasons.
func (r *Report) Decide(reasons ...string) {
	r.Decided++
	if r.reasons == nil {
		r.reasons = map[string]int{}
	}
	slices.Sort(reasons)
	for _, reason := range slices.Compact(reasons) {
		r.reasons[reason]++
	}
}

// heading begins the section of a page that a report writes.
const heading = "## Compared with MCM's driver\n"

// Shown fails unless the page of the cloud in docs/clouds shows the report. The cloud is called as the folder of the
// test. With CLOUDTEST_UPDATE set it writes the section, at the end of a page that has none.
func (r *Report) Shown(t *testing.T) {
	t.Helper()
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	page := filepath.Join("..", "..", "docs", "clouds", filepath.Base(folder)+".md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := r.placed(string(text))
	if want == string(text) {
		return
	}
	if os.Getenv("CLOUDTEST_UPDATE") == "" {
		t.Errorf("%s does not show this comparison; CLOUDTEST_UPDATE=1 writes it:\n%s", page, r.section())
		return
	}
	if err := os.WriteFile(page, []byte(want), 0o600); err != nil {
		t.Fatal(err)
	}
}

// placed returns the page with the section of the report in the place of an older one.
func (r *Report) placed(page string) string {
	before, rest, found := strings.Cut(page, heading)
	if !found {
		return strings.TrimRight(page, "\n") + "\n\n" + r.section()
	}
	if _, after, more := strings.Cut(rest, "\n## "); more {
		return before + r.section() + "\n## " + after
	}
	return before + r.section()
}

func (r *Report) section() string {
	var b strings.Builder
	b.WriteString(heading + "\n`TestParity` gives both drivers the same classes and compares what the cloud is asked " +
		"for; the test writes this section.\n\n| Cases | Equal | Refused by both | Decided otherwise |\n|---|---|---|---|\n")
	fmt.Fprintf(&b, "| %d | %d | %d | %d |\n", r.Equal+r.Refused+r.Decided, r.Equal, r.Refused, r.Decided)
	if len(r.reasons) > 0 {
		b.WriteString("\n| Decided otherwise because | Cases |\n|---|---|\n")
	}
	for _, reason := range slices.Sorted(maps.Keys(r.reasons)) {
		fmt.Fprintf(&b, "| %s | %d |\n", strings.ReplaceAll(reason, "|", `\|`), r.reasons[reason])
	}
	return b.String()
}
