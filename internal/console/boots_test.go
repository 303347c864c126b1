package console

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRecordedBoots: what real guests have written whose boot went wrong on purpose, each in one way,
// shows just that. The name of a file begins with the cause; Unknown is that of a boot that went well.
// TestConsoles of test/guests records them.
func TestRecordedBoots(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/boots/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded boots: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want, _, _ := strings.Cut(filepath.Base(file), ".")
		if v := Classify(string(text)); cmp.Or(string(v.Cause), "Unknown") != want {
			t.Errorf("%s: got %q by %q, want %s", file, v.Cause, v.Line, want)
		}
	}
}
