package house

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A message is text for users: what failed: cause; action (when). Only its literal part is known here, where
// %v stands for the rest.
type message struct {
	kind, text string
	at         token.Pos
}

// actionable matches a message that has an action, or one whose end is made elsewhere: by code that has the
// cause, the action and the time.
var actionable = regexp.MustCompile(`; \S| \(\S.*\)|: %\w$|^%\w$`)

// problemWith returns what is wrong with the form of a message; "" for nothing.
func problemWith(text string) string {
	switch {
	case strings.HasSuffix(text, "."):
		return "ends with a period"
	case strings.Contains(text, "\n"):
		return "has several lines"
	case !actionable.MatchString(text):
		return "does not say what to do, or what happens next: write what failed: cause; action (when)"
	}
	return ""
}

// TestMessages: an Event of type Warning, a condition that is False, and a warning about a class say
// what a person can do or what happens next.
func TestMessages(t *testing.T) {
	t.Parallel()
	found := 0
	for _, s := range sources(t, func(name string) bool {
		return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") &&
			(strings.HasPrefix(name, "controllers/") || strings.HasPrefix(name, "cloud/"))
	}) {
		for _, m := range messages(s.file) {
			found++
			if problem := problemWith(m.text); problem != "" {
				t.Errorf("%s:%d: the message of a %s %s: %q", s.name, s.line(m.at), m.kind, problem, m.text)
			}
		}
	}
	if found < 50 {
		t.Errorf("found %d messages, want at least 50: the rule has lost sight of them", found)
	}
}

// messages are those of a file whose text is written where they are made.
func messages(file *ast.File) []message {
	var found []message
	ast.Inspect(file, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.CallExpr:
			if isWarning(x) {
				for _, arg := range x.Args {
					if text := literal(arg); strings.Contains(text, " ") && !strings.HasPrefix(text, "a ") {
						found = append(found, message{"warning", text, x.Pos()})
					}
				}
			}
		case *ast.CompositeLit:
			if text := falseCondition(x); text != "" {
				found = append(found, message{"condition", text, x.Pos()})
			}
		}
		return true
	})
	return found
}

// isWarning reports whether a call emits an Event of type Warning, or adds a warning about a class.
func isWarning(call *ast.CallExpr) bool {
	name := nameOf(call.Fun)
	if name == "emitWarning" || strings.HasPrefix(strings.ToLower(name), "warn") {
		return true
	}
	for _, arg := range call.Args {
		if nameOf(arg) == "EventTypeWarning" {
			return true
		}
	}
	return false
}

// falseCondition returns the message of a condition whose status is False; "" for everything else.
func falseCondition(literalOf *ast.CompositeLit) string {
	var text string
	isFalse := false
	for _, element := range literalOf.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		switch nameOf(pair.Key) {
		case "Message":
			text = literal(pair.Value)
		case "Status":
			isFalse = nameOf(pair.Value) == "ConditionFalse"
		}
	}
	if nameOf(literalOf.Type) != "Condition" || !isFalse {
		return ""
	}
	return text
}

// literal returns the text of an expression, with %v for what is known when the program runs.
func literal(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(x.Value)
		return text
	case *ast.BinaryExpr:
		return literal(x.X) + literal(x.Y)
	case *ast.CallExpr:
		if nameOf(x.Fun) == "Sprintf" {
			return literal(x.Args[0])
		}
	}
	return "%v"
}

// nameOf returns the last name of an expression such as metav1.ConditionFalse.
func nameOf(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.SelectorExpr:
		return x.Sel.Name
	case *ast.Ident:
		return x.Name
	}
	return ""
}

func TestMessageRulesBite(t *testing.T) {
	t.Parallel()
	for text, bad := range map[string]bool{
		"VM not created within 20m":                               true,
		"Orphan %s not removed: %v; the next scan retries it.":    true,
		"Orphan %s not removed: %v; the next scan retries it":     false,
		"Orphan %s not removed: %v (tried again with every scan)": false,
		"Removed orphan %s: %s":                                   false,
		"%v":                                                      false,
	} {
		if got := problemWith(text) != ""; got != bad {
			t.Errorf("%q: refused %v, want %v", text, got, bad)
		}
	}
}
