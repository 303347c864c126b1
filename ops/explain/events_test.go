package explain

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	eventName = regexp.MustCompile(`^[Ee]vent[A-Z]`)
	camelCase = regexp.MustCompile(`^"[A-Z][A-Za-z]+"$`)
	emits     = regexp.MustCompile(`^(Eventf?|emit[A-Z]\w*|warn)$`)
)

// TestEveryEventHasARow: the reason of an Event is one of a condition, or has a row of its own.
func TestEveryEventHasARow(t *testing.T) {
	t.Parallel()
	declared := map[string]string{}
	for _, dir := range []string{"../../api", "../../controllers", "../../manager"} {
		maps.Copy(declared, constants(t, dir, eventName))
	}
	if len(declared) < 50 {
		t.Fatalf("only %d reasons of Events found", len(declared))
	}
	ofConditions, explained := map[string]bool{}, map[string]bool{}
	for _, r := range reasonRows() {
		ofConditions[r.Reason] = true
	}
	for _, r := range eventRows() {
		switch {
		case explained[r.Event]:
			t.Errorf("events.yaml has two rows of %s", r.Event)
		case declared[r.Event] == "":
			t.Errorf("events.yaml explains %s, which is the reason of no Event", r.Event)
		case ofConditions[r.Event]:
			t.Errorf("events.yaml explains %s, which reasons.yaml does", r.Event)
		case r.Meaning == "" || r.About == "" || r.Warning != (r.Remedy != ""):
			t.Errorf("%s: no meaning or object, or a remedy although nothing is wrong, or none although something is", r.Event)
		}
		explained[r.Event] = true
	}
	for _, reason := range slices.Sorted(maps.Keys(declared)) {
		if !explained[reason] && !ofConditions[reason] {
			t.Errorf("events.yaml does not explain %s (%s)", reason, declared[reason])
		}
	}
}

// TestReasonsOfEventsAreConstants: what is spelled where an Event is emitted would be in no table.
func TestReasonsOfEventsAreConstants(t *testing.T) {
	t.Parallel()
	err := filepath.WalkDir("../../controllers", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			for _, argument := range ofEvent(n) {
				if literal, ok := argument.(*ast.BasicLit); ok && camelCase.MatchString(literal.Value) {
					t.Errorf("%s: the reason %s of an Event is no constant event… or Event…", set.Position(n.Pos()), literal.Value)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// ofEvent returns what an Event is made of, if a node emits or holds one.
func ofEvent(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.CallExpr:
		name := ""
		switch f := n.Fun.(type) {
		case *ast.Ident:
			name = f.Name
		case *ast.SelectorExpr:
			name = f.Sel.Name
		}
		if emits.MatchString(name) {
			return n.Args
		}
	case *ast.CompositeLit:
		for _, element := range n.Elts {
			if s, ok := element.(*ast.SelectorExpr); ok && strings.HasPrefix(s.Sel.Name, "EventType") {
				return n.Elts
			}
		}
	}
	return nil
}
