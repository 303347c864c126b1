package parity

import (
	"errors"
	"slices"
	"testing"
)

// TestCompare keeps the judge from calling equal what differs.
func TestCompare(t *testing.T) {
	t.Parallel()
	body := func(v any) []Request { return []Request{{Op: "POST vms", Body: map[string]any{"a": v}}} }
	login := Request{Op: Login}
	no := errors.New("no")
	for name, x := range map[string]struct {
		mcm     []Request
		error   string
		ours    []Request
		refused error
		verdict string
		lines   []string
	}{
		"equal": {body("1"), "", body("1"), nil, Equal, nil},
		"absent": {
			body(nil), "",
			[]Request{{Op: "POST vms", Body: map[string]any{}}},
			nil, Differs,
			[]string{`-POST vms/a=null`, `+POST vms={}`},
		},
		"zero": {body(false), "", body(true), nil, Differs, []string{`-POST vms/a=false`, `+POST vms/a=true`}},
		"order of a list": {
			body([]any{"1", "2"}), "", body([]any{"2", "1"}), nil, Differs,
			[]string{`-POST vms/a[0]="1"`, `-POST vms/a[1]="2"`, `+POST vms/a[0]="2"`, `+POST vms/a[1]="1"`},
		},
		"order of requests": {append(body("1"), body("2")...), "", append(body("2"), body("1")...), nil, Equal, nil},
		"one more request": {
			body("1"), "", append(body("1"), body("1")...), nil, Differs, []string{`+POST vms (2)/a="1"`},
		},
		"both refuse":            {nil, "no", nil, no, Refused, nil},
		"only ours refuses":      {body("1"), "", nil, no, Stricter, []string{Stricter}},
		"only MCM refuses":       {[]Request{login}, "no", append(body("1"), login), nil, Looser, []string{Looser}},
		"the cloud refuses both": {body("1"), "no", body("1"), no, Equal, nil},
	} {
		verdict, lines := compare(Case{MCM: x.mcm, Error: x.error}, x.ours, x.refused)
		if verdict != x.verdict || !slices.Equal(lines, x.lines) {
			t.Errorf("%s: got %s %q, want %s %q", name, verdict, lines, x.verdict, x.lines)
		}
	}
}

// TestRules: a rule allows what it names and nothing that merely looks like it.
func TestRules(t *testing.T) {
	t.Parallel()
	r := Rule{Cases: "a|b-.*", Path: `disks\[0\]/type`}
	for difference, want := range map[string]bool{
		`-PUT vm/disks[0]/type="x"`: true, `+disks[0]/type/name="x"`: true, `+PUT vm/disks[1]/type="x"`: false,
		`-PUT vm/disks[0]/types="x"`: false, `-PUT vm/mydisks[0]/type="x"`: false, Stricter: false,
	} {
		if r.allows("a", difference) != want || r.allows("b-1", difference) != want || r.allows("ab", difference) {
			t.Errorf("%s: not allowed as it should be: %v", difference, want)
		}
	}
	if r := (Rule{Path: Stricter}); !r.allows("any", Stricter) || r.allows("any", Looser) {
		t.Error("a rule about a verdict allows another one, or not that one")
	}
}
