// Package gardener reads the error of a machine as Gardener does. Its extensions match expressions against
// status.lastOperation.description, and the codes that come out decide whether a cluster is retried, failed, or
// shown as its user's fault.
//
// expressions.json has the expressions that the extensions publish (Apache License 2.0), with the version of each.
package gardener

import (
	_ "embed"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

//go:embed expressions.json
var expressions []byte

// Case is an answer of a cloud, as it stands in the error of this driver and in that of MCM's.
type Case struct {
	// Ours is the error of the driver.
	Ours error
	// MCM is the description that MCM's driver leads to.
	MCM string
}

// Compare fails unless each case, by name, has the same codes of Gardener's extension of a cloud as with MCM. The cases
// of other, by name, differ, for the reason that stands there.
func Compare(t *testing.T, cloud string, cases map[string]Case, other map[string]string) {
	t.Helper()
	matches := read(t, cloud)
	count := map[string]int{}
	for name, c := range cases {
		ours, mcm := codes(matches, "Cloud provider message - "+c.Ours.Error()), codes(matches, c.MCM)
		equal := slices.Equal(ours, mcm)
		if _, decided := other[name]; decided == equal {
			t.Errorf("%s: got %v of %q, want %v of %q (decided otherwise: %v)", name, ours, c.Ours, mcm, c.MCM, decided)
		}
		if len(mcm) > 0 && equal {
			count["with a code"]++
		}
		count["cases"]++
	}
	for name := range other {
		if _, there := cases[name]; !there {
			t.Errorf("no case is called %q", name)
		}
	}
	t.Logf("%v, decided otherwise: %d", count, len(other))
}

// read returns the expressions of a cloud by code.
func read(t *testing.T, cloud string) map[string]*regexp.Regexp {
	t.Helper()
	var all map[string]struct{ Matches map[string]string }
	if err := json.Unmarshal(expressions, &all); err != nil || len(all[cloud].Matches) == 0 {
		t.Fatalf("no expressions for %s: %v", cloud, err)
	}
	compiled := map[string]*regexp.Regexp{}
	for code, expression := range all[cloud].Matches {
		compiled[code] = regexp.MustCompile(expression)
	}
	return compiled
}

func codes(matches map[string]*regexp.Regexp, text string) (found []string) {
	for _, code := range slices.Sorted(maps.Keys(matches)) {
		if matches[code].MatchString(text) {
			found = append(found, code)
		}
	}
	return found
}

// Code returns a code of a cloud for one of a table: a star at its end stands for anything.
func Code(pattern string) string { return strings.Replace(pattern, "*", "Exception", 1) }
