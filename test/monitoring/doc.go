// Package monitoring tests config/monitoring with Prometheus' own engine: that each alert fires
// in its fault and in no other time, and that rules and dashboards use metrics that there are.
package monitoring
