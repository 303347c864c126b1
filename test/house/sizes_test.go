package house

import (
	"go/ast"
	"path"
	"strings"
	"testing"
)

// The hard stops. Functions aim at 10 to 30 lines, files at 100 to 200.
const (
	fileLines     = 400
	testFileLines = 800
	functionLines = 60
	packageFiles  = 20 // without tests and generated files
)

func TestPackageSizes(t *testing.T) {
	t.Parallel()
	files := map[string]int{}
	for _, s := range sources(t, isSource) {
		files[path.Dir(s.name)]++
	}
	for folder, n := range files {
		if n > packageFiles {
			t.Errorf("%s has %d files, more than %d: split it by concern", folder, n, packageFiles)
		}
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t, func(name string) bool { return strings.HasSuffix(name, ".go") }) {
		most := fileLines
		if isTest(s.name) {
			most = testFileLines
		}
		if n := s.set.File(s.file.FileStart).LineCount(); n > most {
			t.Errorf("%s has %d lines, more than %d: split it by concern", s.name, n, most)
		}
		if isTest(s.name) {
			continue // a table is as long as it has cases
		}
		for _, declaration := range s.file.Decls {
			f, ok := declaration.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			if n := s.line(f.End()) - s.line(f.Pos()) + 1; n > functionLines {
				t.Errorf("%s:%d: %s has %d lines, more than %d", s.name, s.line(f.Pos()), f.Name.Name, n, functionLines)
			}
		}
	}
}
