package wrap

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Recorder measures calls under the names and labels that Machine Controller Manager's
// drivers use (mcm_cloud_api_…), so that dashboards stay: providers in lower case, error
// codes as numbers.
type Recorder struct {
	requests, failed *prometheus.CounterVec   // by provider and service
	requestDuration  *prometheus.HistogramVec // by provider and service
	durations        *prometheus.HistogramVec // by provider and operation
	failures         *prometheus.CounterVec   // by provider, operation and error code
}

// NewRecorder returns a Recorder whose metrics are registered on r. It panics
// when they are there already.
func NewRecorder(r prometheus.Registerer) *Recorder {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "mcm", Subsystem: "cloud_api", Name: name,
			Help: help,
		}, labels)
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "mcm", Subsystem: "cloud_api", Name: name,
			Help: help,
		}, labels)
	}
	m := &Recorder{
		requests: counter("requests_total", "Requests made to the cloud.", "provider", "service"),
		failed:   counter("requests_failed_total", "Requests to the cloud that failed.", "provider", "service"),
		requestDuration: histogram("api_request_duration_seconds", "Latency of successful requests to the cloud, in seconds.",
			"provider", "service"),
		durations: histogram("driver_request_duration_seconds", "Latency of successful driver calls, in seconds.",
			"provider", "operation"),
		failures: counter("driver_requests_failed_total", "Calls of a driver that failed.", "provider", "operation",
			"error_code"),
	}
	r.MustRegister(m.requests, m.failed, m.requestDuration, m.durations, m.failures)
	return m
}

// Middleware measures the calls of accounts. Each counts as one request to the service "driver".
func (m *Recorder) Middleware(clock Clock) cloud.Middleware {
	clock = clock.withDefaults()
	return Observe(func(info cloud.AccountInfo) Observer {
		provider := strings.ToLower(info.Driver.Name)
		return func(ctx context.Context, operation string, _ cloud.Ref) (context.Context, func(Answer)) {
			start := clock.Now()
			return ctx, func(a Answer) { m.call(provider, measuredAs(operation), clock.Now().Sub(start), a.Err) }
		}
	})
}

// measuredAs is the label of an operation; the first ones are MCM's.
func measuredAs(operation string) string {
	switch operation {
	case opCreate:
		return "create_machine"
	case OpGet:
		return "get_machine_status"
	case opDelete:
		return "delete_machine"
	case opList:
		return "list_machine"
	case opCapacity:
		return "get_capacity"
	case opReboot:
		return "reboot_machine"
	case opConsole:
		return "get_console"
	case opRegister:
		return "register_machine"
	case opDeregister:
		return "deregister_machine"
	}
	return strings.ReplaceAll(operation, " ", "_") // set_tags, record_retention, remove_boot_data
}

// call takes note of one call of a driver. Not finding a VM is no failure of
// the request; it is one of the call, as in MCM.
func (m *Recorder) call(provider, operation string, took time.Duration, err error) {
	const service = "driver"
	m.requests.WithLabelValues(provider, service).Inc()
	if err != nil && cloud.CodeOf(err) != cloud.NotFound {
		m.failed.WithLabelValues(provider, service).Inc()
	} else {
		m.requestDuration.WithLabelValues(provider, service).Observe(took.Seconds())
	}
	if err != nil {
		m.failures.WithLabelValues(provider, operation, errorCode(cloud.CodeOf(err))).Inc()
		return
	}
	m.durations.WithLabelValues(provider, operation).Observe(took.Seconds())
}

// errorCode is the number of MCM's code for the error, which is what MCM's drivers write.
// Source: MCM pkg/util/provider/machinecodes/codes.
func errorCode(code cloud.Code) string {
	const (
		invalidArgument, notFound, permissionDenied, resourceExhausted = "3", "5", "7", "8"
		aborted, internal, unavailable                                 = "10", "13", "14"
	)
	switch code {
	case cloud.NotFound:
		return notFound
	case cloud.Invalid:
		return invalidArgument
	case cloud.Denied:
		return permissionDenied
	case cloud.Exhausted:
		return resourceExhausted
	case cloud.Throttled, cloud.Unavailable:
		return unavailable
	case cloud.TokenUsed:
		return aborted
	case cloud.Unknown:
		return internal
	}
	return internal
}
