package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
)

const module = "github.com/capmcm/cluster-api-provider-mcm/"

// TestMutationsApply fails when the product has changed so that a mutation cannot
// be made any more, or does not compile: then it has to be adapted.
func TestMutationsApply(t *testing.T) {
	t.Parallel()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	const fewest = 27
	if n := len(Mutations()); n < fewest {
		t.Errorf("%d mutations, want at least %d", n, fewest)
	}
	exports := compiled(t, root)
	for _, m := range Mutations() {
		texts, err := m.Apply(root)
		if err != nil {
			t.Error(err)
			continue
		}
		packages := map[string]bool{}
		for file := range texts {
			packages[path.Dir(file)] = true
		}
		for _, pkg := range slices.Sorted(maps.Keys(packages)) {
			if err := check(root, pkg, texts, exports); err != nil {
				t.Errorf("mutation %q does not compile: %v", m.Name, err)
			}
		}
	}
}

// compiled returns the export data of all that the mutated packages import.
func compiled(t *testing.T, root string) map[string]string {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Export"}
	for _, m := range Mutations() {
		for _, target := range m.Targets {
			if pkg := "./" + target.Package; !slices.Contains(args, pkg) {
				args = append(args, pkg)
			}
		}
	}
	list := exec.CommandContext(t.Context(), "go", args...)
	list.Dir, list.Stderr = root, os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct{ ImportPath, Export string }
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return exports
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
	}
}

// check type-checks a package of which some files are replaced by texts.
func check(root, pkg string, texts, exports map[string]string) error {
	set := token.NewFileSet()
	paths, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pkg), "*.go"))
	if err != nil {
		return err
	}
	var files []*ast.File
	for _, p := range paths {
		if strings.HasSuffix(p, "_test.go") {
			continue
		}
		var source any
		if text, changed := texts[path.Join(pkg, filepath.Base(p))]; changed {
			source = text
		}
		file, err := parser.ParseFile(set, p, source, 0)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	config := types.Config{Importer: importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})}
	_, err = config.Check(module+pkg, set, files, nil)
	return err
}

// TestALostTargetIsNamed: a function that is gone, or that has nothing to change,
// is an error with the names of mutation and function in it.
func TestALostTargetIsNamed(t *testing.T) {
	t.Parallel()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	const pkg = "controllers/internal/vm"
	for _, c := range []struct {
		target Target
		want   error
	}{
		{Target{pkg, "(*Engine).gone", Body(``)}, errNoFunction},
		{Target{pkg, "(*Engine).Ensure", Drop(`a.Nothing(x)`)}, errNoMatch},
	} {
		_, err := Mutation{"M", []Target{c.target}}.Apply(root)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), `"M"`) || !strings.Contains(err.Error(), c.target.Func) {
			t.Errorf("%s: %v, want %v with its name", c.target.Func, err, c.want)
		}
	}
}

// TestMutationsAreFound puts mutations into the product and wants each found: four
// of them, and all with MUTATIONS=all, which takes as many builds.
func TestMutationsAreFound(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("each mutation is a build")
	}
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	few := map[string]bool{
		"the drain is skipped": true, "surge is off by one": true,
		"a VM is created before the intent is written":                                  true,
		"the finalizer of an MCMMachine is removed while its VM is still being deleted": true,
	}
	for _, m := range Mutations() {
		if !few[m.Name] && os.Getenv("MUTATIONS") != "all" {
			continue
		}
		rule, after, err := m.Find(t.Context(), root, 1, within(m.Name, 0))
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
			continue
		}
		t.Logf("%s: found by %s after %d worlds", m.Name, rule, after)
	}
}

// TestRareMutationsExist: one that is renamed would have to be found sooner again.
func TestRareMutationsExist(t *testing.T) {
	t.Parallel()
	for _, name := range rare {
		if !slices.ContainsFunc(Mutations(), func(m Mutation) bool { return m.Name == name }) {
			t.Errorf("no mutation is called %q", name)
		}
	}
}
