package main

import "fmt"

// The bounds. A machine in a pool of ten has a tenth of what the pool costs on
// its account, so it has more requests than one in a pool of a hundred.
const (
	requestsInTen     = 11
	requestsInHundred = 9
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
	check(r.Create.RequestsPerMachine <= most, "%.2f requests for a machine, more than %g", r.Create.RequestsPerMachine, most)
	check(r.Steady.Requests == 0, "%d requests although nothing changed", r.Steady.Requests)
	check(r.Startup.Seconds <= startupMost, "%.1f s until a manager that starts is of use, more than %d", r.Startup.Seconds, startupMost)
	if fewer != nil {
		for _, p := range []struct {
			what     string
			now, was float64
		}{
			{"a machine", r.Create.RequestsPerMachine, fewer.Create.RequestsPerMachine},
			{"a machine's roll", r.Roll.RequestsPerMachine, fewer.Roll.RequestsPerMachine},
		} {
			check(p.now <= growthMost*p.was, "requests for %s grow from %.2f with %d machines to %.2f with %d", p.what, p.was, fewer.N, p.now, r.N)
		}
	}
	// What a manager needs without machines hides what few of them need.
	if r.N >= 1000 {
		grown := (r.Memory.PeakMiB - r.Memory.EmptyMiB) / float64(r.N) * 1000
		check(grown <= perThousandMost, "%.0f MiB of memory for 1000 machines, more than %d", grown, perThousandMost)
	}
	return found
}
