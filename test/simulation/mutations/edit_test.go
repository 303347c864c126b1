package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const sample = `package p

import "fmt"

type T struct{ n int }

func (t *T) f(a, b int) (int, error) {
	fmt.Println(a)
	n, err := t.get(a + b)
	if n > 1 && err == nil {
		t.n = n
	}
	return n, err
}
`

// TestEdits edits a small function in each of the ways there are.
func TestEdits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit        Edit
		old, wanted string
	}{
		"a call by values":        {Replace(`t.get(x)`, `x, error(nil)`), "t.get(a + b)", "(a + b), error(nil)"},
		"a condition":             {Replace(`n > 1 && x`, `x`), "n > 1 && err == nil", "(err == nil)"},
		"names of the function":   {Replace(`n > 1`, `recv.n > arg1`), "n > 1", "t.n > b"},
		"a statement, its import": {Drop(`fmt.Println(x)`), "\tfmt.Println(a)\n", "\t\n"},
		"a statement in a block":  {Drop(`t.n`), "t.n = n", ""},
		"a statement more":        {Before(`n > 1`, `n++`), "if n > 1", "n++\nif n > 1"},
		"the body": {
			Body(`return 0, nil`), sample[strings.Index(sample, "\n\tfmt"):strings.LastIndex(sample, "}")],
			"\nreturn 0, nil\n",
		},
	} {
		root := t.TempDir()
		if err := os.WriteFile(filepath.Join(root, "p.go"), []byte(sample), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Mutation{"M", []Target{{".", "(*T).f", c.edit}}}.Apply(root)
		want := strings.Replace(sample, c.old, c.wanted, 1)
		if !strings.Contains(want, "fmt.") {
			want = strings.Replace(want, `import "fmt"`, `import _ "fmt"`, 1)
		}
		if err != nil || got["p.go"] != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got["p.go"], want)
		}
	}
}
