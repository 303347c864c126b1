package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestCompletionOfKubectl: kubectl starts kubectl_complete-mcm with the words of the command line, the
// last of which may be empty, and takes what cobra prints.
func TestCompletionOfKubectl(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	stub := "#!/bin/sh\nfor word in \"$@\"; do printf '[%s]' \"$word\"; done\n"
	if err := os.WriteFile(filepath.Join(folder, "kubectl-mcm"), []byte(stub), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "./kubectl_complete-mcm", "why", "-n", "a b", "")
	cmd.Env = []string{"PATH=" + folder + string(os.PathListSeparator) + os.Getenv("PATH")}
	out, err := cmd.Output()
	if want := "[__complete][why][-n][a b][]"; err != nil || string(out) != want {
		t.Errorf("%s, %v, want %s", out, err, want)
	}
}
