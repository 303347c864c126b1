package cloud

import (
	"strings"
	"testing"
)

func TestRequestsBeyondTheLimits(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason     string
		name, data int
		want       []string
	}{
		"Longest":  {"What is as long as it may be is fine.", 4, 8, nil},
		"Nothing":  {"A machine needs a name, and no boot data.", 0, 0, []string{"metadata.name"}},
		"Both":     {"Each is named.", 5, 9, []string{"secret.userData", "metadata.name"}},
		"UserData": {"One is enough.", 1, 9, []string{"secret.userData"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := CreateRequest{Ref: Ref{Name: strings.Repeat("n", tc.name)}, UserData: make([]byte, tc.data)}
			problems := r.Problems(NameLimits{Max: 4}, 8)
			if len(problems) != len(tc.want) {
				t.Fatalf("got %v, want %v: %s", problems, tc.want, tc.reason)
			}
			for i, p := range problems {
				if p.Field != tc.want[i] || p.Severity != BlocksCreate {
					t.Errorf("got %v, want %s: %s", p, tc.want[i], tc.reason)
				}
			}
		})
	}
}
