package house

import (
	"go/ast"
	"go/token"
	"path"
	"strings"
	"testing"
)

// TestPackageVariablesDoNotChange: a package variable is a table or a sentinel.
// What changes belongs to a value that somebody made.
func TestPackageVariablesDoNotChange(t *testing.T) {
	t.Parallel()
	product := func(name string) bool { return isSource(name) && !strings.HasPrefix(name, "test/") }
	packages := map[string][]source{}
	for _, s := range sources(t, product) {
		packages[path.Dir(s.name)] = append(packages[path.Dir(s.name)], s)
	}
	for _, files := range packages {
		globals := variables(files)
		for _, s := range files {
			for _, declaration := range s.file.Decls {
				f, ok := declaration.(*ast.FuncDecl)
				if !ok || f.Body == nil {
					continue
				}
				for _, at := range changes(f, globals) {
					t.Errorf("%s:%d: %s changes %s, a package variable", s.name, s.line(at.Pos()), f.Name.Name, at.Name)
				}
			}
		}
	}
}

// variables returns the names of a package's variables.
func variables(files []source) map[string]bool {
	names := map[string]bool{}
	for _, s := range files {
		for _, declaration := range s.file.Decls {
			group, ok := declaration.(*ast.GenDecl)
			if !ok || group.Tok != token.VAR {
				continue
			}
			for _, spec := range group.Specs {
				for _, name := range spec.(*ast.ValueSpec).Names {
					names[name.Name] = name.Name != "_"
				}
			}
		}
	}
	return names
}

// changes returns where a function assigns to a package variable, an element or
// a field of one. A name that the function declares itself is another variable.
func changes(f *ast.FuncDecl, globals map[string]bool) []*ast.Ident {
	own := map[string]bool{}
	var found []*ast.Ident
	note := func(e ast.Expr) {
		if name := base(e); name != nil && globals[name.Name] {
			found = append(found, name)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			for _, name := range n.Names {
				own[name.Name] = true
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				own[name.Name] = true
			}
		case *ast.RangeStmt:
			for _, e := range []ast.Expr{n.Key, n.Value} {
				if name := base(e); name != nil && n.Tok == token.DEFINE {
					own[name.Name] = true
				}
			}
		case *ast.IncDecStmt:
			note(n.X)
		case *ast.AssignStmt:
			for _, e := range n.Lhs {
				if name := base(e); name != nil && n.Tok == token.DEFINE {
					own[name.Name] = true
				} else {
					note(e)
				}
			}
		}
		return true
	})
	kept := found[:0]
	for _, name := range found {
		if !own[name.Name] {
			kept = append(kept, name)
		}
	}
	return kept
}

// base returns the variable that an expression is a part of; nil if it is part
// of none.
func base(e ast.Expr) *ast.Ident {
	switch e := e.(type) {
	case *ast.Ident:
		return e
	case *ast.IndexExpr:
		return base(e.X)
	case *ast.SelectorExpr:
		return base(e.X)
	case *ast.ParenExpr:
		return base(e.X)
	}
	return nil
}
