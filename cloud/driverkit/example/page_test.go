package example_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const page = "../../../docs/adding-a-cloud.md"

// TestPageShowsTheSource: every piece of Go in docs/adding-a-cloud.md stands in this
// package, byte for byte, and the page has the methods that every driver has.
func TestPageShowsTheSource(t *testing.T) {
	t.Parallel()
	sources := map[string]string{}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		sources[file] = read(t, file)
	}
	text := read(t, page)
	pieces := regexp.MustCompile("(?s)```go\n(.*?\n)```").FindAllStringSubmatch(text, -1)
	for _, piece := range pieces {
		if !standsIn(sources, piece[1]) {
			first, _, _ := strings.Cut(piece[1], "\n")
			t.Errorf("%s: no file of cloud/driverkit/example has the piece that begins with\n%s", page, first)
		}
	}
	for _, method := range []string{"Create", "Get", "Delete", "List"} {
		if !strings.Contains(text, "\nfunc (a *account) "+method+"(") {
			t.Errorf("%s does not show %s", page, method)
		}
	}
}

func standsIn(sources map[string]string, piece string) bool {
	for _, source := range sources {
		if strings.Contains(source, "\n"+piece) {
			return true
		}
	}
	return false
}

// TestPageCountsTheLines: the driver is as long as the page says.
func TestPageCountsTheLines(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") {
			lines += strings.Count(read(t, file), "\n")
		}
	}
	const hundred = 100
	if said := fmt.Sprintf("a whole driver of %d lines", (lines+hundred/2)/hundred*hundred); !strings.Contains(
		read(t, page), said) {
		t.Errorf("%s does not say %q; the driver has %d", page, said, lines)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
