package output

import (
	"bytes"
	"strings"
	"testing"
)

func TestColours(t *testing.T) {
	t.Parallel()
	rows := [][]Cell{{{Text: "STATUS"}, {Text: "NAME"}}, {{Text: "Ready", Colour: Green}, {Text: "a"}}}
	var coloured, bare bytes.Buffer
	printTable(&coloured, rows, true)
	PrintTable(&bare, rows)
	if want := "STATUS   NAME\nReady    a\n"; bare.String() != want {
		t.Errorf("%q, want %q: a buffer is no terminal", bare.String(), want)
	}
	if want := "STATUS   NAME\n\x1b[32mReady\x1b[0m    a\n"; coloured.String() != want {
		t.Errorf("%q, want %q", coloured.String(), want)
	}
}

// TestFormats: programs choose fields of a list's items, or of the object itself.
func TestFormats(t *testing.T) {
	t.Parallel()
	list := map[string]any{"kind": "Tree", "items": []map[string]any{{"name": "a", "n": 1}, {"name": "b"}}}
	for format, want := range map[string]string{
		"custom-columns=NAME:.name,N:{.n}": "NAME   N\na      1\nb      <none>\n",
		"jsonpath={.items[*].name}":        "a b",
		"go-template={{.kind}}":            "Tree",
	} {
		f := Flags{Format: format}
		var out bytes.Buffer
		if err := f.Print(&out, list); err != nil || out.String() != want {
			t.Errorf("%s: %q, %v, want %q", format, out.String(), err, want)
		}
	}
	var out bytes.Buffer
	alone := Flags{Format: "custom-columns=KIND:kind", NoHeaders: true}
	if err := alone.Print(&out, map[string]any{"kind": "Timeline"}); err != nil || out.String() != "Timeline\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestRefusedFormats(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{
		"xml":                    `output format "xml"`,
		"custom-columns=NAME":    `"NAME" is no column`,
		"custom-columns=A:.b[":   "column A",
		"custom-columns=":        "is no column",
		"jsonpath={.items[*}":    "jsonpath",
		"custom-columns=A:.b,:c": `":c" is no column`,
	} {
		f := Flags{Format: format}
		if err := f.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", format, err, want)
		}
	}
	also := Flags{Format: "trace", Also: []string{"trace"}}
	if err := also.Validate(); err != nil {
		t.Errorf("a format of the command's own: %v", err)
	}
}
