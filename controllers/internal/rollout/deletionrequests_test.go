package rollout

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestParseDeletionRequests(t *testing.T) {
	t.Parallel()
	scaledAt := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	stamp := scaledAt.Format(time.RFC3339)
	for name, tc := range map[string]struct {
		reason    string
		value     string
		want      []DeletionRequest
		malformed []string
	}{
		"None":  {"Nothing chosen.", "", nil, nil},
		"Timed": {"The format of today.", "m1~2026-01-02T03:04:05Z", []DeletionRequest{{"m1", "2026-01-02T03:04:05Z"}}, nil},
		"Legacy": {
			"Names alone get the time of the last scaling.", "m1,m2",
			[]DeletionRequest{{"m1", stamp}, {"m2", stamp}},
			nil,
		},
		"Mixed": {
			"Both in one list, spaces and empty entries do no harm.", " m1 ,,m2~2026-01-02T03:04:05Z,",
			[]DeletionRequest{{"m1", stamp}, {"m2", "2026-01-02T03:04:05Z"}},
			nil,
		},
		"NoTime":   {"Not a time.", "m1~soon,m2", []DeletionRequest{{"m2", stamp}}, []string{"m1~soon"}},
		"TwoTimes": {"More than one sign.", "m1~2026-01-02T03:04:05Z~x", nil, []string{"m1~2026-01-02T03:04:05Z~x"}},
		"NoName":   {"A time without a name.", "~2026-01-02T03:04:05Z", nil, []string{"~2026-01-02T03:04:05Z"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, malformed := ParseDeletionRequests(tc.value, scaledAt)
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.malformed, malformed); diff != "" {
				t.Errorf("%s\n%s", tc.reason, diff)
			}
		})
	}
}

// FuzzParseDeletionRequests: whatever stands there, what is read can be written and read again.
func FuzzParseDeletionRequests(f *testing.F) {
	f.Add("m1,m2~2026-01-02T03:04:05Z,~,m~m~m")
	scaledAt := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, value string) {
		choices, _ := ParseDeletionRequests(value, scaledAt)
		for _, c := range choices {
			again, malformed := ParseDeletionRequests(c.String(), scaledAt.Add(time.Hour))
			if len(malformed) != 0 || len(again) != 1 || again[0] != c {
				t.Errorf("%q became %+v", c, again)
			}
		}
	})
}
