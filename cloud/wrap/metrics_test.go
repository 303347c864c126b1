package wrap_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

// metric returns the sum of the counters, or of the numbers of observations, of
// that name whose labels are these ("name=value").
func metric(t *testing.T, reg *prometheus.Registry, name string, labels ...string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var has []string
			for _, l := range m.GetLabel() {
				has = append(has, l.GetName()+"="+l.GetValue())
			}
			if slices.ContainsFunc(labels, func(l string) bool { return !slices.Contains(has, l) }) {
				continue
			}
			sum += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	clk, reg := newClock(), prometheus.NewRegistry()
	full := cloud.Errorf(cloud.Exhausted, "run", "Full", "no capacity")
	a := wrap.NewRecorder(reg).Middleware(wrap.Clock{Now: clk.Now})(info(), &account{
		create: func(context.Context, cloud.CreateRequest) (cloud.VM, error) { return cloud.VM{}, full },
		get: func(context.Context, cloud.Ref) (cloud.VM, error) {
			clk.pass(2 * time.Second)
			return cloud.VM{}, nil
		},
		delete: func(context.Context, cloud.Ref) (cloud.Deletion, error) {
			return cloud.Deletion{}, errors.New("odd")
		},
		list: func(yield func(cloud.Resource, error) bool) { yield(cloud.Resource{}, full) },
	})
	_, _ = a.Create(t.Context(), request("1"))
	_, _ = a.Get(t.Context(), cloud.Ref{})
	_, _ = a.Delete(t.Context(), cloud.Ref{})
	_, _ = a.Capacity(t.Context(), cloud.Class{})
	_, _ = listAll(t.Context(), a, cloud.Class{})
	want := map[string]float64{
		"mcm_cloud_api_requests_total provider=fake service=driver":                                           5,
		"mcm_cloud_api_requests_failed_total provider=fake service=driver":                                    3,
		"mcm_cloud_api_api_request_duration_seconds provider=fake service=driver":                             2,
		"mcm_cloud_api_driver_request_duration_seconds provider=fake operation=get_machine_status":            1,
		"mcm_cloud_api_driver_requests_failed_total provider=fake operation=create_machine error_code=8":      1,
		"mcm_cloud_api_driver_requests_failed_total provider=fake operation=delete_machine error_code=13":     1,
		"mcm_cloud_api_driver_requests_failed_total provider=fake operation=list_machine error_code=8":        1,
		"mcm_cloud_api_driver_requests_failed_total provider=fake operation=get_machine_status error_code=13": 0,
	}
	for key, n := range want {
		words := strings.Fields(key)
		if got := metric(t, reg, words[0], words[1:]...); got != n {
			t.Errorf("%s: got %v, want %v", key, got, n)
		}
	}
}

// TestEveryCallIsMeasured: no operation is left out, and each has the name that dashboards know.
func TestEveryCallIsMeasured(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	callAll(t, wrap.NewRecorder(reg).Middleware(wrap.Clock{})(info(), &account{}))
	for _, operation := range []string{
		"create_machine", "get_machine_status", "delete_machine", "get_capacity", "list_machine", "set_tags",
		"record_retention", "reboot_machine", "get_console", "remove_boot_data", "register_machine", "deregister_machine",
	} {
		n := metric(t, reg, "mcm_cloud_api_driver_request_duration_seconds", "operation="+operation) +
			metric(t, reg, "mcm_cloud_api_driver_requests_failed_total", "operation="+operation)
		if n != 1 {
			t.Errorf("%s: measured %v calls, want 1", operation, n)
		}
	}
}
