package main

import "fmt"

// The bounds. A machine in a pool of ten has a tenth of what the pool costs on
// its account, so it has more requests than one in a pool of a hundred.
const (
	requestsInTen     = 10
	requestsInHundred = 8.5
	growthMost        = 1.1 // of requests a machine, from the fewest machines on
	perThousandMost   = 60  // MiB
	startupMost       = 30  // seconds
)

// violations are the bounds that do not hold. fewer is a run with fewer machines
// in pools of the same size; nil if there is none.
func violations(r, fewer *record) []string {
	found := []string{}
	check := func(ok bool, format string, args ...any) {
		if !ok {
			found = append(found, fmt.Sprintf(format, args...))
		}
	}
	most := float64(requestsInTen)
	if r.Pool >= 100 {
		most = requestsInHundred
	}
	check(r.Create.RequestsPerMachine <= most, "%.2f requests for a machine, more than %g", r.Create.RequestsPerMachine,
		most)
	check(r.Steady.Requests == 0, "%d requests although nothing changed", r.Steady.Requests)
	for _, s := range []struct {
		what    string
		seconds float64
	}{{"starts", r.Startup.Seconds}, {"starts after a crash", r.Startup.AfterCrashSeconds}} {
		check(s.seconds <= startupMost, "%.1f s until a manager that %s creates its first Machine, more than %d",
			s.seconds, s.what, startupMost)
	}
	if fewer != nil {
		for _, p := range []struct {
			what     string
			now, was float64
		}{
			{"a machine", r.Create.RequestsPerMachine, fewer.Create.RequestsPerMachine},
			{"a machine's roll", r.Roll.RequestsPerMachine, fewer.Roll.RequestsPerMachine},
		} {
			check(p.now <= growthMost*p.was, "requests for %s grow from %.2f with %d machines to %.2f with %d", p.what, p.was,
				fewer.N, p.now, r.N)
		}
	}
	if r.N >= many {
		grown := r.Memory.restPerThousand(r.N)
		check(grown <= perThousandMost, "%.0f MiB more for 1000 machines at rest, more than %d", grown, perThousandMost)
	}
	if r.N >= 10*many {
		most := r.Memory.PerThousandMiB
		check(most <= perThousandMost, "%.0f MiB for 1000 machines, more than %d", most, perThousandMost)
	}
	return found
}

// many is from how many machines on it can be told what memory they need: what
// the manager has without any hides what few of them add.
const many = 1000

// restPerThousand is what 1000 machines add to the resident memory at rest.
func (m memory) restPerThousand(n int) float64 { return (m.FullMiB - m.EmptyMiB) / float64(n) * 1000 }
