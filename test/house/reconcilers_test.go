package house

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What a reconciler would not be repeatable with. Each has a remedy.
var impure = map[string]string{
	"time.Now":           "use the injected clock",
	"time.Since":         "use the injected clock",
	"time.Until":         "use the injected clock",
	"time.Sleep":         "return a wait",
	"time.After":         "return a wait",
	"time.AfterFunc":     "return a wait",
	"time.Tick":          "return a wait",
	"time.NewTimer":      "return a wait",
	"time.NewTicker":     "return a wait",
	"context.Background": "take a ctx",
	"context.TODO":       "take a ctx",
	"wait.Poll":          "return a wait",
	"uuid.New":           "use what is injected",
	"uuid.NewString":     "use what is injected",
	"rand.String":        "use what is injected",
	"uuid.NewUUID":       "use what is injected",
}

var impureImports = []string{"math/rand", "math/rand/v2", "crypto/rand"}

func TestReconcilersAreRepeatable(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t, under("controllers", isSource)) {
		for _, spec := range s.file.Imports {
			if imported, _ := strconv.Unquote(spec.Path.Value); slices.Contains(impureImports, imported) {
				t.Errorf("%s:%d: imports %s: randomness is injected", s.name, s.line(spec.Pos()), imported)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s:%d: a reconciler starts no goroutine", s.name, s.line(n.Pos()))
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && impure[x.Name+"."+n.Sel.Name] != "" {
					t.Errorf("%s:%d: %s.%s: %s", s.name, s.line(n.Pos()), x.Name, n.Sel.Name, impure[x.Name+"."+n.Sel.Name])
				}
			}
			return true
		})
	}
}

// TestNoFullObjectPut finds calls like c.Update(ctx, obj): they write back what
// a cache said about fields that are not ours.
func TestNoFullObjectPut(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t, func(name string) bool {
		return isSource(name) && (strings.HasPrefix(name, "controllers/") || strings.HasPrefix(name, "bootstrap/"))
	}) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) < 2 {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			first, isName := call.Args[0].(*ast.Ident)
			if ok && isName && method.Sel.Name == "Update" && first.Name == "ctx" {
				t.Errorf("%s:%d: writes a whole object; patch what changed", s.name, s.line(call.Pos()))
			}
			return true
		})
	}
}

// TestNodesArePatchedAsRead finds patches of what is in the cluster with the
// nodes that go past target.PatchNode, which names the Node that was read.
func TestNodesArePatchedAsRead(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t, under("controllers", isSource)) {
		if strings.HasPrefix(s.name, "controllers/internal/target/") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if method, ok := call.Fun.(*ast.SelectorExpr); ok && method.Sel.Name == "Patch" &&
				mentions(method.X, "target", "Target", "workload") {
				t.Errorf("%s:%d: patches a node past target.PatchNode and target.PatchNodeStatus", s.name, s.line(call.Pos()))
			}
			return true
		})
	}
}

// mentions reports whether one of the names occurs in an expression.
func mentions(e ast.Expr, names ...string) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		name, ok := n.(*ast.Ident)
		found = found || ok && slices.Contains(names, name.Name)
		return !found
	})
	return found
}

// TestWireIsSpelledOnce finds labels, annotations and finalizers that are not
// taken from the API package. Drivers cannot import that; what they spell are
// the tags of their cloud.
func TestWireIsSpelledOnce(t *testing.T) {
	t.Parallel()
	product := func(name string) bool {
		return isSource(name) && !slices.Contains([]string{"api", "cloud", "test"}, strings.Split(name, "/")[0])
	}
	for _, s := range sources(t, product) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			for _, domain := range []string{"machine.sapcloud.io/", "mcm.cluster.x-k8s.io/", "node.gardener.cloud/"} {
				if strings.Contains(literal.Value, domain) {
					t.Errorf("%s:%d: %s is spelled in api/machine/v1alpha1/wire.go", s.name, s.line(literal.Pos()), literal.Value)
				}
			}
			return true
		})
	}
}

func TestSkipsSayWhy(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t, func(name string) bool { return strings.HasSuffix(name, ".go") }) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if method.Sel.Name == "SkipNow" || method.Sel.Name == "Skip" && len(call.Args) == 0 && isTest(s.name) {
				t.Errorf("%s:%d: a skip without a reason", s.name, s.line(call.Pos()))
			}
			return true
		})
	}
}

// TestTestsDoNotSleep: a test waits for a condition, or moves its clock. In a
// bubble of testing/synctest sleeping is moving the clock; and a fake, whose
// methods play someone else's part, may be slow.
func TestTestsDoNotSleep(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t, isTest) {
		if slices.ContainsFunc(s.file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing/synctest"` }) {
			continue
		}
		for _, declaration := range s.file.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv != nil {
				continue
			}
			ast.Inspect(declaration, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Sleep" {
					if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" {
						t.Errorf("%s:%d: a test that sleeps", s.name, s.line(n.Pos()))
					}
				}
				return true
			})
		}
	}
}
