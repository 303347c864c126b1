package house

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	module = "github.com/capmcm/cluster-api-provider-mcm"
	root   = "../.."
)

// files returns the files that git tracks or would track, relative to the root.
func files(t *testing.T, keep func(string) bool) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list the files of the repository: %v", err)
	}
	names := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	return slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(names))), func(name string) bool {
		info, err := os.Lstat(filepath.Join(root, name))
		return err != nil || !info.Mode().IsRegular() || !keep(name)
	})
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func everything(string) bool { return true }

func isTest(name string) bool { return strings.HasSuffix(name, "_test.go") }

// isSource keeps Go files that are not tests.
func isSource(name string) bool { return strings.HasSuffix(name, ".go") && !isTest(name) }

func under(dir string, keep func(string) bool) func(string) bool {
	return func(name string) bool { return strings.HasPrefix(name, dir+"/") && keep(name) }
}

// A source is one parsed Go file.
type source struct {
	name string
	set  *token.FileSet
	file *ast.File
}

func (s source) line(p token.Pos) int { return s.set.Position(p).Line }

// sources parses the Go files that keep wants, generated ones left out.
func sources(t *testing.T, keep func(string) bool) []source {
	t.Helper()
	var found []source
	for _, name := range files(t, keep) {
		text := []byte(read(t, name))
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if !ast.IsGenerated(file) {
			found = append(found, source{name, set, file})
		}
	}
	return found
}

func TestNoRoomForOddments(t *testing.T) {
	t.Parallel()
	banned := []string{"pkg", "hack", "util", "utils", "common", "helper", "helpers", "misc"}
	for _, name := range files(t, everything) {
		for part := range strings.SplitSeq(path.Dir(name), "/") {
			if slices.Contains(banned, part) {
				t.Errorf("%s: no folder is called %s; name it after what is in it", name, part)
			}
		}
	}
	for _, s := range sources(t, isSource) {
		if slices.Contains(banned, s.file.Name.Name) {
			t.Errorf("%s: no package is called %s", s.name, s.file.Name.Name)
		}
	}
}

func TestLicense(t *testing.T) {
	t.Parallel()
	text := read(t, "LICENSE")
	if !strings.Contains(text, "Apache License") || !strings.Contains(text, "Version 2.0") {
		t.Error("LICENSE is not the Apache License 2.0")
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	t.Parallel()
	documented := map[string]bool{}
	for _, s := range sources(t, isSource) {
		dir := path.Dir(s.name)
		documented[dir] = documented[dir] || s.file.Doc != nil
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s has no package comment", dir)
		}
	}
}

func TestTextFilesEndWithANewline(t *testing.T) {
	t.Parallel()
	for _, name := range files(t, everything) {
		text := []byte(read(t, name))
		if len(text) == 0 || bytes.IndexByte(text, 0) >= 0 || strings.Contains(name, "/testdata/") {
			continue
		}
		if text[len(text)-1] != '\n' {
			t.Errorf("%s does not end with a newline", name)
		}
	}
}

// TestImageHasItsSources: the Dockerfile copies every folder that the manager is built from.
func TestImageHasItsSources(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/manager")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list the packages of the manager: %v", err)
	}
	dockerfile := read(t, "Dockerfile")
	for name := range strings.Lines(string(out)) {
		dir, ours := strings.CutPrefix(strings.TrimSpace(name), module+"/")
		top, _, _ := strings.Cut(dir, "/")
		if ours && !strings.Contains(dockerfile, "COPY "+top+" "+top+"\n") {
			t.Errorf("Dockerfile does not copy %s, which has %s", top, dir)
		}
	}
}
