package wrap

import (
	"context"
	"errors"
	"iter"
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
	return func(info cloud.AccountInfo, next cloud.Account) cloud.Account {
		return measured{layer{next}, m, strings.ToLower(info.Driver.Name), clock}
	}
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

type measured struct {
	layer
	m        *Recorder
	provider string
	clock    Clock
}

// done returns what takes note of a call that begins now.
func (a measured) done(operation string) func(err error) {
	start := a.clock.Now()
	return func(err error) { a.m.call(a.provider, operation, a.clock.Now().Sub(start), err) }
}

func (a measured) Create(ctx context.Context, r cloud.CreateRequest) (cloud.VM, error) {
	done := a.done("create_machine")
	vm, err := a.Account.Create(ctx, r)
	done(err)
	return vm, err
}

func (a measured) Get(ctx context.Context, r cloud.Ref) (cloud.VM, error) {
	done := a.done("get_machine_status")
	vm, err := a.Account.Get(ctx, r)
	done(err)
	return vm, err
}

func (a measured) Delete(ctx context.Context, r cloud.Ref) (cloud.Deletion, error) {
	done := a.done("delete_machine")
	d, err := a.Account.Delete(ctx, r)
	done(err)
	return d, err
}

func (a measured) Capacity(ctx context.Context, c cloud.Class) (cloud.Capacity, error) {
	done := a.done("get_capacity")
	capacity, err := a.Account.Capacity(ctx, c)
	done(err)
	return capacity, err
}

func (a measured) SetTags(ctx context.Context, r cloud.Ref, obsolete []string) error {
	done := a.done("set_tags")
	err := cloud.SetTags(ctx, a.Account, r, obsolete)
	done(err)
	return err
}

func (a measured) RecordRetention(ctx context.Context, c cloud.Class, parts []cloud.Resource) error {
	done := a.done("record_retention")
	err := cloud.RecordRetention(ctx, a.Account, c, parts)
	done(err)
	return err
}

func (a measured) Reboot(ctx context.Context, r cloud.Ref) error {
	done := a.done("reboot_machine")
	err := cloud.Reboot(ctx, a.Account, r)
	done(err)
	return err
}

func (a measured) Console(ctx context.Context, r cloud.Ref) (string, error) {
	done := a.done("get_console")
	text, err := cloud.Console(ctx, a.Account, r)
	done(err)
	return text, err
}

func (a measured) RemoveBootData(ctx context.Context, r cloud.Ref) error {
	done := a.done("remove_boot_data")
	err := cloud.RemoveBootData(ctx, a.Account, r)
	done(err)
	return err
}

func (a measured) Register(ctx context.Context, r cloud.Ref, places []string) (cloud.Registration, error) {
	done := a.done("register_machine")
	registered, err := cloud.Register(ctx, a.Account, r, places)
	done(err)
	return registered, err
}

func (a measured) Deregister(ctx context.Context, r cloud.Ref, places []string) (cloud.Registration, error) {
	done := a.done("deregister_machine")
	deregistered, err := cloud.Deregister(ctx, a.Account, r, places)
	done(err)
	return deregistered, err
}

func (a measured) List(ctx context.Context, c cloud.Class, kinds ...cloud.Kind) iter.Seq2[cloud.Resource, error] {
	return func(yield func(cloud.Resource, error) bool) {
		done := a.done("list_machine")
		var errs error
		defer func() { done(errs) }()
		for r, err := range a.Account.List(ctx, c, kinds...) {
			errs = errors.Join(errs, err)
			if !yield(r, err) {
				return
			}
		}
	}
}
