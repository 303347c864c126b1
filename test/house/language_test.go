package house

import (
	"go/ast"
	"iter"
	"regexp"
	"strings"
	"testing"
)

// wordings are what comments do not say, and what they say instead.
var wordings = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?i)\b(says?|tells?) (whether|if)\b`), "reports whether"},
	{regexp.MustCompile(`^[\w.]+ (says?|tells?) that\b`), "is returned when, is true when, reports that"},
	{regexp.MustCompile(`\b[Aa] MCM`), "an"},
	{regexp.MustCompile(`(?i)\bnobody\b`), "no one of a named kind: no user, no controller"},
	{
		regexp.MustCompile(`(?i)\b(no|not|nothing|never|none)\b( \w+){0,4} (that|which|who)( \w+){0,3} (not|never)\b`),
		"a sentence with one negation",
	},
}

func TestComments(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t, func(name string) bool { return strings.HasSuffix(name, ".go") }) {
		for _, group := range s.file.Comments {
			for _, problem := range problems(strings.Join(strings.Fields(group.Text()), " ")) {
				t.Errorf("%s:%d: %s", s.name, s.line(group.Pos()), problem)
			}
		}
	}
}

// identifier is how a comment begins with an unexported name.
var identifier = regexp.MustCompile(`^[a-z]\w*`)

// TestDocCommentsNameTheirSubject: after a renaming, a comment that still begins with the former name leads a
// reader, and a search, to something that is gone.
func TestDocCommentsNameTheirSubject(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t, func(name string) bool { return strings.HasSuffix(name, ".go") }) {
		for name, doc := range commented(s.file) {
			first := identifier.FindString(doc.Text())
			if first != "" && first != name && !strings.HasPrefix(name, "Test") {
				t.Errorf("%s:%d: the comment of %s begins with %s", s.name, s.line(doc.Pos()), name, first)
			}
		}
	}
}

// commented yields what has a comment of its own at the top of a file, by name.
func commented(file *ast.File) iter.Seq2[string, *ast.CommentGroup] {
	return func(yield func(string, *ast.CommentGroup) bool) {
		for _, declaration := range file.Decls {
			name, doc := "", (*ast.CommentGroup)(nil)
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				name, doc = d.Name.Name, d.Doc
			case *ast.GenDecl:
				if s, isType := d.Specs[0].(*ast.TypeSpec); isType && len(d.Specs) == 1 {
					name, doc = s.Name.Name, d.Doc
				}
			}
			if doc != nil && !yield(name, doc) {
				return
			}
		}
	}
}

// problems are the wordings that a comment should not have.
func problems(comment string) []string {
	var found []string
	for _, w := range wordings {
		if match := w.pattern.FindString(comment); match != "" {
			found = append(found, "write "+w.instead+" instead of \""+match+"\"")
		}
	}
	return found
}

func TestCommentRulesBite(t *testing.T) {
	t.Parallel()
	for comment, bad := range map[string]bool{
		"ended says whether the program has ended.":                true,
		"It tells if there is one.":                                true,
		"ErrNoAssets says that programs are missing.":              true,
		"health is True when a kubelet says that it is well.":      false,
		"A project that nobody uses.":                              true,
		"It belongs to a MCMMachine.":                              true,
		"It has no kind that we do not know.":                      true,
		"It touches nothing that the template does not name.":      true,
		"ended reports whether the program has ended.":             false,
		"What is not ours is not deleted.":                         false,
		"A Machine that has no providerID has never been created.": false,
		"It does not exist. One that never existed is no error.":   false,
	} {
		if got := len(problems(comment)) > 0; got != bad {
			t.Errorf("%q: found to be bad %v, want %v", comment, got, bad)
		}
	}
}
