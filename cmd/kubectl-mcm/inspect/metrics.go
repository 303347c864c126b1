package inspect

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/explain"
)

// Limits of a request for metrics.
const (
	metricsTimeout = 20 * time.Second
	metricsMax     = 64 << 20
)

// The metrics that are shown. MCM's error code 14 is that of calls that were throttled, and of
// those that a cloud did not answer.
const (
	metricQueue  = "workqueue_depth"
	metricFailed = "mcm_cloud_api_driver_requests_failed_total"
	codeThrottle = "14"
)

var errNoMetrics = errors.New("these are no metrics of a manager; name its port with --port, 10258 by default")

// manager reads what the metrics of a manager tell.
func (f *flags) manager(ctx context.Context, url string) (*explain.ManagerLoad, error) {
	text, err := f.metrics(ctx, url)
	if err != nil {
		return nil, err
	}
	load := managerLoad(text)
	if len(load.QueueDepth) == 0 {
		return nil, errNoMetrics
	}
	return load, nil
}

// metrics reads metrics from a URL, or from a path at the API server.
func (f *flags) metrics(ctx context.Context, at string) ([]byte, error) {
	server := http.DefaultClient
	if strings.HasPrefix(at, "/") {
		proxy, base, err := f.deps.APIServer()
		if err != nil {
			return nil, err
		}
		server, at = proxy, base.JoinPath(at).String()
	}
	ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := server.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %s", answer.Status)
	}
	return io.ReadAll(io.LimitReader(answer.Body, metricsMax))
}

// sample is a line of the text format of metrics, and label a label of one.
var (
	sample = regexp.MustCompile(`^(\w+)(?:\{(.*)\})? (\S+)`)
	label  = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
)

func managerLoad(text []byte) *explain.ManagerLoad {
	load := &explain.ManagerLoad{QueueDepth: map[string]float64{}, ThrottledCalls: map[string]float64{}}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		found := sample.FindStringSubmatch(lines.Text())
		if found == nil || found[1] != metricQueue && found[1] != metricFailed {
			continue
		}
		labels := map[string]string{}
		for _, l := range label.FindAllStringSubmatch(found[2], -1) {
			labels[l[1]] = l[2]
		}
		value, err := strconv.ParseFloat(found[3], 64)
		switch {
		case err != nil:
		case found[1] == metricQueue:
			load.QueueDepth[labels["name"]] = value
		case labels["error_code"] == codeThrottle:
			load.ThrottledCalls[labels["provider"]] += value
		}
	}
	return load
}
