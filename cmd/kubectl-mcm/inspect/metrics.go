package inspect

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
)

// The metrics that are shown. MCM's error code 14 is that of calls that were throttled, and of
// those that a cloud did not answer.
const (
	metricQueue  = "workqueue_depth"
	metricFailed = "mcm_cloud_api_driver_requests_failed_total"
	metricPrefix = "mcm_"
	codeThrottle = "14"
)

var errNoMetrics = errors.New("these are no metrics of a manager; it serves queues at --port, 10258 by default, " +
	"and calls to clouds at --machine-controller-port, 10259")

// addManager adds to top what the metrics of a manager at all of these URLs tell, if there are any.
func (f *flags) addManager(ctx context.Context, top *explain.Top, urls []string) error {
	if len(urls) == 0 {
		return nil
	}
	load := &explain.ManagerLoad{QueueDepth: map[string]float64{}, ThrottledCalls: map[string]float64{}}
	for _, url := range urls {
		text, err := f.deps.Fetch(ctx, url)
		if err == nil && !addLoad(load, text) {
			err = errNoMetrics
		}
		if err != nil {
			return fmt.Errorf("--metrics-url=%q: %w", url, err)
		}
	}
	top.Manager = load
	return nil
}

// sample is a line of the text format of metrics, and label a label of one.
var (
	sample = regexp.MustCompile(`^(\w+)(?:\{(.*)\})? (\S+)`)
	label  = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
)

// addLoad adds what a page of metrics tells, and reports whether it is of a manager.
func addLoad(load *explain.ManagerLoad, text []byte) (ours bool) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		found := sample.FindStringSubmatch(lines.Text())
		if found == nil || found[1] != metricQueue && !strings.HasPrefix(found[1], metricPrefix) {
			continue
		}
		ours = true
		if value, err := strconv.ParseFloat(found[3], 64); err == nil {
			addSample(load, found[1], found[2], value)
		}
	}
	return ours
}

func addSample(load *explain.ManagerLoad, name, labelled string, value float64) {
	labels := map[string]string{}
	for _, l := range label.FindAllStringSubmatch(labelled, -1) {
		labels[l[1]] = l[2]
	}
	switch {
	case name == metricQueue:
		load.QueueDepth[labels["name"]] += value // a series for each priority
	case name == metricFailed && labels["error_code"] == codeThrottle:
		load.ThrottledCalls[labels["provider"]] += value
	}
}
