// Package parity compares what a driver asks of its cloud with what MCM's driver of that cloud asked for, class by
// class. What MCM's driver asked for was recorded once, and is a file of the driver's testdata.
package parity

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"
)

// Case is a class with what MCM's driver made of it.
type Case struct {
	Name  string          `json:"case"`
	Class json.RawMessage `json:"class"` // provider spec
	Input json.RawMessage `json:"input"` // how the cloud and the user data differ from the usual; may be empty
	MCM   []Request       `json:"mcm"`
	Error string          `json:"mcm_error"` // empty if MCM's driver made a VM
}

// refused reports whether MCM's driver refused the class before it asked for anything but a login.
func (c Case) refused() bool {
	asks := func(r Request) bool { return r.Op != Login }
	return c.Error != "" && !slices.ContainsFunc(c.MCM, asks)
}

// Login is the Op of a login.
const Login = "LOGIN"

// Request is a request that makes or changes something, without what names, tokens and ids differ in.
type Request struct {
	Op   string `json:"op"`
	Body any    `json:"body"` // as encoding/json decodes it
}

// Decision is how a driver differs from MCM's on purpose.
type Decision struct {
	// Differences are those that Compare finds, all of them.
	Differences []string
	// Reason is why; it must not be empty.
	Reason string
}

// A Rule allows differences that several cases have.
type Rule struct {
	Cases  string // expression for their names; empty is all
	Path   string // expression for the end of the path of what differs, such as disks\[0\]/type, or for a verdict
	Reason string // required
}

func (r Rule) allows(name, difference string) bool {
	return regexp.MustCompile("^(?:"+cmp.Or(r.Cases, ".*")+")$").MatchString(name) &&
		regexp.MustCompile(`^(?:[-+](?:.*/)?)?(?:`+r.Path+`)(?:$|[/\[=])`).MatchString(difference)
}

// Suite is the cases of one cloud.
type Suite struct {
	// File has a Case on each line.
	File string
	// Ours gives a class to the driver. It returns what the cloud is asked for, normalized as the recorded requests
	// are, and why it is refused, by the driver or by the cloud; nil if it is not.
	Ours func(t *testing.T, c Case) (requests []Request, refused error)
	// Normalize is applied to the requests of both; false leaves one out. Nil leaves them as they are.
	Normalize func(r Request) (Request, bool)
	// Decisions are the cases, by name, in which the driver differs.
	Decisions map[string]Decision
	// Rules allow what no decision names. One that no case needs is an error.
	Rules []Rule
}

// Run fails unless for each class the driver asks for what MCM's driver asked for, or differs as decided, and the page
// of the cloud shows how many are equal and how many are decided otherwise.
func Run(t *testing.T, s Suite) {
	t.Helper()
	decisions, used := maps.Clone(s.Decisions), map[int]bool{}
	var report Report
	for _, c := range Read[Case](t, s.File) {
		ours, refused := s.Ours(t, c)
		c.MCM, ours = s.normalized(c.MCM), s.normalized(ours)
		verdict, differences := compare(c, ours, refused)
		decision, decided := decisions[c.Name]
		delete(decisions, c.Name)
		switch {
		case decided && (decision.Reason == "" || !slices.Equal(differences, decision.Differences)):
			t.Errorf("%s: got %s %q, want %q because %q", c.Name, verdict, differences, decision.Differences, decision.Reason)
		case decided:
			report.Decide(decision.Reason)
		case len(differences) > 0:
			var reasons, open []string
			for _, d := range differences {
				at := slices.IndexFunc(s.Rules, func(r Rule) bool { return r.allows(c.Name, d) })
				if at < 0 {
					open = append(open, d)
					continue
				}
				used[at], reasons = true, append(reasons, s.Rules[at].Reason)
			}
			if len(open) > 0 {
				t.Errorf("%s: %s: %q", c.Name, verdict, open)
			}
			report.Decide(reasons...)
		case verdict == Refused:
			report.Refused++
		default:
			report.Equal++
		}
	}
	for name := range decisions {
		t.Errorf("no case is called %q", name)
	}
	for i, r := range s.Rules {
		if !used[i] || r.Reason == "" {
			t.Errorf("rule %+v: no case needs it, or it has no reason", r)
		}
	}
	if !t.Failed() {
		report.Shown(t)
	}
}

func (s Suite) normalized(requests []Request) (all []Request) {
	for _, r := range requests {
		keep := true
		if s.Normalize != nil {
			r, keep = s.Normalize(r)
		}
		if keep {
			all = append(all, r)
		}
	}
	return all
}

// The verdicts about a case.
const (
	Equal    = "equal"
	Differs  = "differs"
	Refused  = "refused by both"
	Stricter = "refused by ours only"
	Looser   = "refused by MCM only"
)

// compare returns the verdict about a case, and the differences: a line that begins with a minus is in MCM's request
// only, one with a plus in ours only.
func compare(c Case, ours []Request, refused error) (verdict string, differences []string) {
	switch {
	case refused != nil && len(ours) == 0 && c.Error != "": // MCM's driver may only learn it from the cloud
		return Refused, nil
	case refused != nil && len(ours) == 0:
		return Stricter, []string{Stricter}
	case c.refused():
		return Looser, []string{Looser}
	}
	want, have := flat(c.MCM), flat(ours)
	for _, line := range want {
		if !slices.Contains(have, line) {
			differences = append(differences, "-"+line)
		}
	}
	for _, line := range have {
		if !slices.Contains(want, line) {
			differences = append(differences, "+"+line)
		}
	}
	if len(differences) > 0 {
		return Differs, differences
	}
	return Equal, nil
}

// Read returns the cases of a file that has one on each line.
func Read[C any](t testing.TB, file string) (all []C) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for lines.Scan() {
		var c C
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatalf("%s, line %d: %v", file, len(all)+1, err)
		}
		all = append(all, c)
	}
	return all
}

// flat returns requests as lines, one for each value. The order of the requests does not matter, that of a list does.
func flat(requests []Request) []string {
	sorted := slices.Clone(requests)
	text := func(r Request) string { body, _ := json.Marshal(r.Body); return r.Op + string(body) }
	slices.SortStableFunc(sorted, func(a, b Request) int { return bytes.Compare([]byte(text(a)), []byte(text(b))) })
	var all []string
	times := map[string]int{}
	for _, r := range sorted {
		at := r.Op
		if times[r.Op]++; times[r.Op] > 1 {
			at = fmt.Sprintf("%s (%d)", r.Op, times[r.Op])
		}
		all = append(all, values(at, r.Body)...)
	}
	return all
}

func values(at string, value any) (all []string) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			all = append(all, values(at+"/"+key, v[key])...)
		}
	case []any:
		for i, each := range v {
			all = append(all, values(fmt.Sprintf("%s[%d]", at, i), each)...)
		}
	}
	if len(all) > 0 {
		return all
	}
	text, _ := json.Marshal(value)
	return []string{at + "=" + string(text)}
}
