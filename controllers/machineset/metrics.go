package machineset

import "github.com/prometheus/client_golang/prometheus"

// StaleMachines counts machines that were deleted because their health check
// had failed. The manager registers it.
var StaleMachines = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "mcm_machine_stale_machines_total",
	Help: "Machines deleted because their health check had failed.",
})
