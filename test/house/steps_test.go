package house

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// listedStep matches a line of the list of steps in a doc.go.
var listedStep = regexp.MustCompile(`(?m)^//\t(\w+) {2,}\S`)

// TestStepsAreDocumented: doc.go lists the steps of a controller as controller.go
// runs them, and each step is declared in the file of its name.
func TestStepsAreDocumented(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"controllers/machineset", "controllers/machinedeployment"} {
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			files := methodFiles(t, dir)
			var listed []string
			for _, match := range listedStep.FindAllStringSubmatch(read(t, dir+"/doc.go"), -1) {
				listed = append(listed, match[1])
				file := strings.TrimSuffix(files[match[1]], ".go")
				if file == "" || !strings.Contains(strings.ToLower(match[1]), file) {
					t.Errorf("step %s is declared in %q, not in the file of its name", match[1], file)
				}
			}
			if run := stepsOf(t, dir, files); !slices.Equal(listed, run) {
				t.Errorf("doc.go lists the steps\n%q, controller.go runs\n%q", listed, run)
			}
		})
	}
}

// methodFiles returns the file that declares each method of a package.
func methodFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, s := range sources(t, under(dir, isSource)) {
		for _, declaration := range s.file.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv != nil {
				found[f.Name.Name] = path.Base(s.name)
			}
		}
	}
	return found
}

// stepsOf returns the methods of other files that controller.go uses outside of
// Reconcile, in the order of their first use. Reading and patching are no steps.
func stepsOf(t *testing.T, dir string, files map[string]string) []string {
	t.Helper()
	var steps []string
	for _, s := range sources(t, under(dir, func(name string) bool { return path.Base(name) == "controller.go" })) {
		for _, declaration := range s.file.Decls {
			f, ok := declaration.(*ast.FuncDecl)
			if !ok || f.Recv == nil || f.Name.Name == "Reconcile" {
				continue
			}
			ast.Inspect(f.Body, func(n ast.Node) bool {
				selector, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				_, onReceiver := selector.X.(*ast.Ident)
				name := selector.Sel.Name
				helper := slices.Contains([]string{"", "controller.go", "observe.go", "patch.go"}, files[name])
				if onReceiver && !helper && !slices.Contains(steps, name) {
					steps = append(steps, name)
				}
				return true
			})
		}
	}
	return steps
}

// TestObservationsDoNotChange: what a pass has seen is set where it observes, and
// no step changes it. What steps find out and do goes into the pass's outcomes.
func TestObservationsDoNotChange(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"controllers/machine", "controllers/mcmmachine"} {
		steps := func(name string) bool { return isSource(name) && path.Base(name) != "observe.go" }
		for _, s := range sources(t, under(dir, steps)) {
			ast.Inspect(s.file, func(n ast.Node) bool {
				var changed []ast.Expr
				switch n := n.(type) {
				case *ast.AssignStmt:
					changed = n.Lhs
				case *ast.IncDecStmt:
					changed = []ast.Expr{n.X}
				case *ast.UnaryExpr:
					if n.Op == token.AND {
						changed = []ast.Expr{n.X}
					}
				}
				for _, expression := range changed {
					if ofObservation(expression) {
						t.Errorf("%s:%d: a step changes what the pass has seen", s.name, s.line(n.Pos()))
					}
				}
				return true
			})
		}
	}
}

// ofObservation reports whether e is the field seen of a pass, or part of it.
func ofObservation(e ast.Expr) bool {
	for {
		switch part := e.(type) {
		case *ast.SelectorExpr:
			if part.Sel.Name == "seen" {
				return true
			}
			e = part.X
		case *ast.IndexExpr:
			e = part.X
		case *ast.StarExpr:
			e = part.X
		default:
			return false
		}
	}
}
