package house

import (
	"path"
	"regexp"
	"slices"
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
	{regexp.MustCompile(`(?i)\bnobody\b`), "no one of a named kind: no user, no controller"},
	{
		regexp.MustCompile(`(?i)\b(no|not|nothing|never|none)\b( \w+){0,4} (that|which|who)( \w+){0,3} (not|never)\b`),
		"a sentence with one negation",
	},
}

// unconverted are the folders whose comments do not follow wordings yet. It only
// gets shorter.
var unconverted = []string{
	"manager",
}

func TestComments(t *testing.T) {
	t.Parallel()
	found := map[string]bool{} // by folder
	for _, s := range sources(t, func(name string) bool { return strings.HasSuffix(name, ".go") }) {
		folder := twoLevels(s.name)
		for _, group := range s.file.Comments {
			text := strings.Join(strings.Fields(group.Text()), " ")
			for _, problem := range problems(text) {
				found[folder] = true
				if !slices.Contains(unconverted, folder) {
					t.Errorf("%s:%d: %s", s.name, s.line(group.Pos()), problem)
				}
			}
		}
	}
	for _, folder := range unconverted {
		if !found[folder] {
			t.Errorf("%s needs no exception any more: remove it from unconverted in language_test.go", folder)
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

// twoLevels is the folder of a file, or the one above it that is a folder in a
// folder of the root, as "cloud/aws".
func twoLevels(name string) string {
	parts := strings.Split(path.Dir(name), "/")
	return strings.Join(parts[:min(2, len(parts))], "/")
}

func TestCommentRulesBite(t *testing.T) {
	t.Parallel()
	for comment, bad := range map[string]bool{
		"ended says whether the program has ended.":                true,
		"It tells if there is one.":                                true,
		"ErrNoAssets says that programs are missing.":              true,
		"health is True when a kubelet says that it is well.":      false,
		"A project that nobody uses.":                              true,
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
