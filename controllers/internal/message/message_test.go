package message

import "testing"

func TestTruncate(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		text  string
		limit int
		want  string
	}{
		"short text stays":              {"abc", 3, "abc"},
		"long text is cut":              {"abcd", 3, "abc… (4 bytes)"},
		"a character is not cut in two": {"aäb", 2, "a… (4 bytes)"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Truncate(c.text, c.limit); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
