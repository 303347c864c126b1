package apiserver

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestState(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	options := Options{Period: time.Minute, Timeout: 30 * time.Second}
	type check struct {
		at   time.Duration
		down bool
	}
	cases := map[string]struct {
		reason string
		checks []check
		frozen bool
		thaws  bool
		wait   time.Duration
	}{
		"Up": {"All is well.", []check{{0, false}}, false, false, time.Minute},
		"Blip": {
			"One failure does not freeze, and is looked at closely.",
			[]check{{0, true}},
			false, false,
			6 * time.Second,
		},
		"AtTimeout": {
			"Exactly the timeout is not longer than it.",
			[]check{{0, true}, {30 * time.Second, true}},
			false,
			false, 6 * time.Second,
		},
		"TooLong": {
			"Longer than the timeout freezes.",
			[]check{{0, true}, {31 * time.Second, true}},
			true, false,
			6 * time.Second,
		},
		"Recovered": {
			"Success forgets the failure.",
			[]check{{0, true}, {6 * time.Second, false}},
			false, false,
			time.Minute,
		},
		"BlipsFarApart": {
			"Two single failures with success in between never add up.",
			[]check{{0, true}, {6 * time.Second, false}, {time.Hour, true}},
			false, false, 6 * time.Second,
		},
		"Back": {
			"The end of an outage thaws, once the traces are gone.",
			[]check{{0, true}, {31 * time.Second, true}, {40 * time.Second, false}},
			true, true, 6 * time.Second,
		},
		"BackAndDown": {
			"An outage that returns before that stays one.",
			[]check{{0, true}, {31 * time.Second, true}, {40 * time.Second, false}, {46 * time.Second, true}},
			true, false,
			6 * time.Second,
		},
	}
	zero := Options{}
	s := outageState{}.next(true, start, zero.Timeout)
	if !s.frozen || s.wait(zero) <= 0 || (outageState{}).wait(zero) <= 0 {
		t.Errorf("%+v: a timeout of 0 freezes with the first failure, and the checks go on", s)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s outageState
			for _, c := range tc.checks {
				s = s.next(c.down, start.Add(c.at), options.Timeout)
			}
			got := []any{s.frozen, s.thaws(), s.wait(options)}
			if diff := cmp.Diff([]any{tc.frozen, tc.thaws, tc.wait}, got); diff != "" {
				t.Errorf("frozen, thaws, wait (-want +got): %s\n%s", tc.reason, diff)
			}
		})
	}
}
