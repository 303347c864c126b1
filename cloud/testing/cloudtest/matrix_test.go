package cloudtest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
)

// row is a row in which everything was tried.
func row(name string) cloudtest.Row {
	r := cloudtest.Row{Cloud: name, Cells: map[string]cloudtest.Cell{}}
	ids, _ := cloudtest.Cases()
	for _, id := range ids {
		r.Cells[id] = cloudtest.Cell{Ran: true}
	}
	return r
}

func TestMatrixKeepsOtherClouds(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "conformance.md")
	record := func(r cloudtest.Row) string {
		t.Helper()
		if err := r.Record(file); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	one := row("one")
	one.Cells["C19"] = cloudtest.Cell{Ran: true, Holes: map[string]string{"C19/Expired": "no\nsessions"}}
	record(one)
	two := row("two")
	two.Cells["C05"] = cloudtest.Cell{Ran: true, Holes: map[string]string{"C05": "nothing to compare"}}
	two.Cells["C07"] = cloudtest.Cell{Ran: true, Failed: true}
	text := record(two)
	for _, want := range []string{
		"| `one` | ok |", "| `two` | ok |", "- `one` C19/Expired: no sessions\n",
		"- `two` C05: nothing to compare\n", "| FAIL |", "| part |", "| – |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the matrix lacks %q:\n%s", want, text)
		}
	}
	if again := record(two); again != text {
		t.Errorf("recording the same row changes the matrix:\n%s\n%s", text, again)
	}
	if text := record(row("one")); strings.Contains(text, "C19/Expired") || !strings.Contains(text, "- `two` C05") {
		t.Errorf("want the old holes of one gone, and those of two kept:\n%s", text)
	}
}

func TestMatrixWantsAllCases(t *testing.T) {
	t.Parallel()
	r := row("x")
	delete(r.Cells, "C30")
	if err := r.Record(filepath.Join(t.TempDir(), "x.md")); err == nil || !strings.Contains(err.Error(), "C30") {
		t.Errorf("got %v, want an error that names the case that was not tried", err)
	}
}

func TestMergeKeepsTheWorst(t *testing.T) {
	t.Parallel()
	a, b := row("x"), row("x")
	a.Cells["C05"] = cloudtest.Cell{Ran: true, Failed: true}
	delete(b.Cells, "C06")
	a.Cells["C10"] = cloudtest.Cell{Ran: true, Holes: map[string]string{"C10": "one call only"}}
	for _, r := range []cloudtest.Row{a, b} {
		r.Cells["C19"] = cloudtest.Cell{Ran: true, Holes: map[string]string{"C19": "no sessions"}}
	}
	all := cloudtest.Merge(map[string]cloudtest.Row{"A": a, "B": b})
	if all.Cloud != "x" {
		t.Errorf("the row is of cloud %q, want x", all.Cloud)
	}
	for id, want := range map[string]struct{ cell, reason string }{
		"C01": {"ok", "kept in all ways"},
		"C05": {"FAIL", "a failure in one way is one of the cloud"},
		"C06": {"?", "what was not tried in one way was not tried"},
		"C10": {"part", "a hole in one way is no hole in the other"},
		"C19": {"–", "a hole in all ways is a hole"},
	} {
		if got := all.Cells[id].String(); got != want.cell {
			t.Errorf("%s is %q, want %q: %s", id, got, want.cell, want.reason)
		}
	}
	if got := all.Cells["C10"].Holes; len(got) != 1 || got["C10/A"] != "one call only" {
		t.Errorf("holes %v, want that of A by its name", got)
	}
}

// TestMatrixIsCurrent keeps the document of the clouds and the cases together.
func TestMatrixIsCurrent(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/clouds/conformance.md")
	if err != nil {
		t.Fatal(err)
	}
	ids, reasons := cloudtest.Cases()
	for _, want := range append(explained(ids, reasons), "| cloud | "+strings.Join(ids, " | ")+" |\n") {
		if !strings.Contains(string(text), want) {
			t.Errorf("docs/clouds/conformance.md lacks %q: run make conformance CLOUD=x for each cloud", want)
		}
	}
}

// explained are the lines that say what the cases are for.
func explained(ids []string, reasons map[string]string) []string {
	var lines []string
	for _, id := range ids {
		lines = append(lines, "* **"+id+"** "+reasons[id]+"\n")
	}
	return lines
}

func TestCases(t *testing.T) {
	t.Parallel()
	ids, reasons := cloudtest.Cases()
	for i, id := range ids {
		if want := fmt.Sprintf("C%02d", i+1); id != want {
			t.Errorf("case %d is %s, want %s", i+1, id, want)
		}
		if reasons[id] == "" {
			t.Errorf("%s has no reason", id)
		}
	}
}
