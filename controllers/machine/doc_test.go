package machine

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDocListsTheSteps keeps the lists of steps in doc.go equal to the tables that
// Reconcile runs, and each step in the file that doc.go names.
func TestDocListsTheSteps(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, line := range regexp.MustCompile(`(?m)^//\t(\w+) +(\w+\.go) +\S`).FindAllStringSubmatch(string(doc), -1) {
		name, file := line[1], line[2]
		listed = append(listed, name)
		source, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(source), "func (c *Controller) "+name+"(") {
			t.Errorf("doc.go: step %s is not in %s (%v)", name, file, err)
		}
	}
	var run []string
	for _, s := range slices.Concat(joinSteps(), deletionSteps()) {
		run = append(run, s.name)
	}
	if !slices.Equal(listed, run) {
		t.Errorf("doc.go lists %v, Reconcile runs %v", listed, run)
	}
}

// TestNoStepWritesTheObservation keeps what a pass has seen as it was seen: steps
// write outcomes, and the status follows from both.
func TestNoStepWritesTheObservation(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	assignment := regexp.MustCompile(`(?m)^.*\.seen\.[\w.]+(, [\w.]+)* :?[-+]?= .*$`)
	for _, file := range files {
		if file == "observe.go" || strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range assignment.FindAllString(string(source), -1) {
			t.Errorf("%s: %s", file, strings.TrimSpace(line))
		}
	}
}
