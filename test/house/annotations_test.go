package house

import (
	"regexp"
	"strings"
	"testing"
)

// annotationsPage explains every name that this project puts onto objects and
// resources.
const annotationsPage = "docs/annotations.md"

// ourName matches the names that this project defines: its prefix, and the
// finalizers of its kinds.
var ourName = regexp.MustCompile(`^(mcm\.cluster\.x-k8s\.io/.+|mcm[a-z]+\.[a-z]+\.cluster\.x-k8s\.io)$`)

// TestEveryAnnotationIsDocumented: the tables of the page have a row for each of
// the constants of api that name an annotation, label, finalizer or tag, and for
// no other name.
func TestEveryAnnotationIsDocumented(t *testing.T) {
	t.Parallel()
	rows := map[string]bool{}
	for line := range strings.Lines(read(t, annotationsPage)) {
		cell, isRow := strings.CutPrefix(line, "| `")
		if name, _, quoted := strings.Cut(cell, "`"); isRow && quoted && ourName.MatchString(name) {
			rows[name] = true
		}
	}
	names := map[string]bool{}
	for _, s := range sources(t, func(name string) bool { return strings.HasPrefix(name, "api/") && isSource(name) }) {
		for constant, value := range constants(s) {
			if !ourName.MatchString(value) {
				continue
			}
			names[value] = true
			if !rows[value] {
				t.Errorf("%s does not explain %s (%s)", annotationsPage, value, constant)
			}
		}
	}
	for name := range rows {
		if !names[name] {
			t.Errorf("%s explains %s, which is no constant of api", annotationsPage, name)
		}
	}
	if len(names) < 30 {
		t.Errorf("only %d names found in api", len(names))
	}
}
