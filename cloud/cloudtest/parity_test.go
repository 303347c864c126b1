package cloudtest

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestParityDifferences: a comparison that misses a difference would let every driver pass.
func TestParityDifferences(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason, mcm, ours string
		paths             []string
	}{
		"equal":        {"the order of keys says nothing", `{"a":1,"b":[true]}`, `{"b":[true],"a":1}`, nil},
		"value":        {"numbers and texts differ", `{"a":{"b":1}}`, `{"a":{"b":"1"}}`, []string{".a.b"}},
		"absent":       {"absent is not false", `{}`, `{"a":false}`, []string{".a"}},
		"null":         {"nor is it null", `{"a":null}`, `{}`, []string{".a"}},
		"more":         {"each entry counts", `{"a":[1]}`, `{"a":[1,2]}`, []string{".a.1"}},
		"order":        {"so does its place", `{"a":[1,2]}`, `{"a":[2,1]}`, []string{".a.0", ".a.1"}},
		"another kind": {"a list is no object", `{"a":["x"]}`, `{"a":{"0":"y"}}`, []string{".a"}},
		"empty kinds":  {"nor if both are empty", `{"a":[]}`, `{"a":{}}`, []string{".a"}},
	} {
		var mcm, ours any
		if json.Unmarshal([]byte(c.mcm), &mcm) != nil || json.Unmarshal([]byte(c.ours), &ours) != nil {
			t.Fatal(name)
		}
		var paths []string
		for _, d := range differences("", mcm, ours) {
			paths = append(paths, d.path)
		}
		if diff := cmp.Diff(c.paths, paths); diff != "" {
			t.Errorf("%s, since %s (-want +got):\n%s", name, c.reason, diff)
		}
	}
}

// TestParityDecisions: a decision allows what it names and nothing that merely looks like it.
func TestParityDecisions(t *testing.T) {
	t.Parallel()
	d := ParityDecision{Cases: "a|b-.*", Path: `disks\.0\.type`}
	for path, want := range map[string]bool{
		".vm.disks.0.type": true, "disks.0.type": true, ".vm.disks.1.type": false, ".vm.disks.0.types": false,
		".vm.mydisks.0.type": false,
	} {
		if d.allows("a", path) != want || d.allows("b-1", path) != want || d.allows("ab", path) {
			t.Errorf("%s: not allowed as it should be: %v", path, want)
		}
	}
}
