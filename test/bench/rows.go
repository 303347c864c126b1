package main

import "math"

// rows are the lines of the table.
func rows() []row {
	rows := []row{
		{"pools of ten", func(r *record) float64 { return float64(r.N / r.Pool) }},
		{"**made**", nil},
		{"seconds until all are Running", func(r *record) float64 { return r.Create.Seconds }},
		{"machines a second", func(r *record) float64 { return float64(r.Create.Machines) / r.Create.Seconds }},
	}
	rows = append(rows, phaseRows(func(r *record) *phase { return &r.Create })...)
	rows = append(rows, row{"**rolled to another class**", nil},
		row{"machines", func(r *record) float64 { return float64(r.Roll.Machines) }},
		row{"seconds until all are new", func(r *record) float64 { return r.Roll.Seconds }})
	rows = append(rows, phaseRows(func(r *record) *phase { return &r.Roll })...)
	return append(rows, restRows()...)
}

// phaseRows are those of a change.
func phaseRows(of func(*record) *phase) []row {
	rows := []row{
		{"requests a machine", func(r *record) float64 { return of(r).RequestsPerMachine }},
		{"cloud calls a machine", func(r *record) float64 { return of(r).CloudCallsPerMachine }},
		{"seconds from Machine to Running, p50", func(r *record) float64 { return of(r).ToRunning.P50 }},
		{"the same, p99", func(r *record) float64 { return of(r).ToRunning.P99 }},
	}
	for _, c := range []struct{ controller, what string }{
		{"machine", "reconcile of a Machine"},
		{"machineset", "reconcile of a MachineSet"},
		{"machinedeployment", "reconcile of a MachineDeployment"},
		{"node", "reconcile of a Node"},
	} {
		rows = append(rows,
			row{c.what + ", ms, p50", func(r *record) float64 { return milliseconds(of(r), c.controller).P50 }},
			row{c.what + ", ms, p99", func(r *record) float64 { return milliseconds(of(r), c.controller).P99 }})
	}
	return append(rows,
		row{"CPU seconds of the manager", func(r *record) float64 { return of(r).CPUSeconds[managerProgram] }},
		row{"CPU seconds of API server and etcd", func(r *record) float64 {
			return of(r).CPUSeconds["kube-apiserver"] + of(r).CPUSeconds["etcd"]
		}})
}

// milliseconds are a controller's reconcile times.
func milliseconds(p *phase, controller string) quantiles {
	q, found := p.Reconcile[controller]
	if !found {
		return quantiles{P50: math.NaN(), P99: math.NaN()}
	}
	return quantiles{P50: q.P50 * 1000, P99: q.P99 * 1000}
}

// fromMany is f, unless there are too few machines to tell.
func fromMany(r *record, f float64) float64 {
	if r.N < many {
		return math.NaN()
	}
	return f
}

// restRows are those of what is not a change.
func restRows() []row {
	return []row{
		{"**nothing changes**", nil},
		{"seconds looked on", func(r *record) float64 { return r.Steady.Seconds }},
		{"requests", func(r *record) float64 { return float64(r.Steady.Requests) }},
		{"cloud calls", func(r *record) float64 { return float64(r.Steady.CloudCalls) }},
		{"CPU of the manager, % of a core", func(r *record) float64 {
			return 100 * r.Steady.CPUSeconds[managerProgram] / r.Steady.Seconds
		}},
		{"**a manager starts**", nil},
		{"seconds until its first new Machine", func(r *record) float64 { return r.Startup.Seconds }},
		{"the same after a crash", func(r *record) float64 { return r.Startup.AfterCrashSeconds }},
		{"requests", func(r *record) float64 { return float64(r.Startup.Requests) }},
		{"cloud calls", func(r *record) float64 { return float64(r.Startup.CloudCalls) }},
		{"**memory of the manager, MiB**", nil},
		{"resident, without machines", func(r *record) float64 { return r.Memory.EmptyMiB }},
		{"resident, with all, nothing changes", func(r *record) float64 { return r.Memory.FullMiB }},
		{"more than without, for 1 000 machines", func(r *record) float64 {
			return fromMany(r, r.Memory.restPerThousand(r.N))
		}},
		{"live objects, with all", func(r *record) float64 { return r.Memory.FullHeapMiB }},
		{"live objects that 1 000 machines add", func(r *record) float64 {
			return fromMany(r, (r.Memory.FullHeapMiB-r.Memory.EmptyHeapMiB)/float64(r.N)*1000)
		}},
		{"most resident, making and rolling", func(r *record) float64 { return r.Memory.PeakMiB }},
		{"most resident, everything included, for 1 000 machines", func(r *record) float64 {
			return fromMany(r, r.Memory.PerThousandMiB)
		}},
		{"most resident, starting", func(r *record) float64 { return r.Startup.PeakMiB }},
	}
}
