package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// ownWork returns samples of seconds from Machine to Running without those that the
// cloud takes to accept and boot a VM. What is left is the work of the manager, of
// the API server and of the kubelet, and waiting for the account's rate.
func ownWork(samples []float64, boot time.Duration) []float64 {
	own := make([]float64, len(samples))
	for i, s := range samples {
		own[i] = max(0, s-(cloudLatency+boot).Seconds())
	}
	return own
}

// print shows what a phase cost.
func (p *phase) print(name string) {
	fmt.Printf("── %s: %d machines in %.1f s, %.2f requests and %.2f cloud calls a machine\n",
		name, p.Machines, p.Seconds, p.RequestsPerMachine, p.CloudCallsPerMachine)
	fmt.Printf("   Machine to Running, s:     p50 %8.3f   p99 %8.3f   (%d machines)\n",
		p.ToRunning.P50, p.ToRunning.P99, p.ToRunning.Count)
	fmt.Printf("   the same without cloud, s: p50 %8.3f   p99 %8.3f\n", p.OwnWork.P50, p.OwnWork.P99)
	for _, controller := range slices.Sorted(maps.Keys(p.Reconcile)) {
		q := p.Reconcile[controller]
		fmt.Printf("   reconcile %-24s p50 %7.1f ms p99 %7.1f ms %8d times\n", controller, q.P50*1000, q.P99*1000, q.Count)
	}
	printCounts("requests", p.Requests, p.Machines)
	printCounts("cloud calls", p.CloudCalls, p.Machines)
}

// printCounts shows counts and their share of a machine, the largest first.
func printCounts(what string, counts map[string]int, machines int) {
	fmt.Printf("   %s:\n", what)
	for _, key := range byCount(counts) {
		fmt.Printf("   %8d %8.2f  %s\n", counts[key], float64(counts[key])/float64(machines), key)
	}
}

// byCount are the keys of counts, the largest first.
func byCount(counts map[string]int) []string {
	keys := slices.Collect(maps.Keys(counts))
	slices.SortFunc(keys, func(a, b string) int { return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b)) })
	return keys
}
