package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// reconcileTime is controller-runtime's metric.
const reconcileTime = "controller_runtime_reconcile_time_seconds_bucket"

// quantiles of durations, in seconds.
type quantiles struct {
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	Count int     `json:"count"`
}

// quantilesOf are those of samples.
func quantilesOf(samples []float64) quantiles {
	if len(samples) == 0 {
		return quantiles{}
	}
	sorted := slices.Sorted(slices.Values(samples))
	at := func(q float64) float64 { return sorted[int(math.Ceil(q*float64(len(sorted))))-1] }
	return quantiles{P50: at(.5), P99: at(.99), Count: len(sorted)}
}

// histograms are cumulative counts by controller and by upper bound in seconds.
type histograms map[string]map[float64]float64

// since is what came on top of another look at the same histograms.
func (h histograms) since(before histograms) histograms {
	out := histograms{}
	for controller, buckets := range h {
		out[controller] = map[float64]float64{}
		for bound, n := range buckets {
			out[controller][bound] = n - before[controller][bound]
		}
	}
	return out
}

// quantiles are those of each controller that has worked. Inside a bucket values
// are taken to lie evenly.
func (h histograms) quantiles() map[string]quantiles {
	out := map[string]quantiles{}
	for controller, buckets := range h {
		if total := buckets[math.Inf(1)]; total > 0 {
			out[controller] = quantiles{P50: quantile(.5, buckets), P99: quantile(.99, buckets), Count: int(total)}
		}
	}
	return out
}

func quantile(q float64, buckets map[float64]float64) float64 {
	bounds := make([]float64, 0, len(buckets))
	for bound := range buckets {
		bounds = append(bounds, bound)
	}
	slices.Sort(bounds)
	rank := q * buckets[math.Inf(1)]
	lower, below := 0.0, 0.0
	for _, bound := range bounds {
		if n := buckets[bound]; n >= rank && n > below {
			if math.IsInf(bound, 1) {
				return lower // all that is known is that it is more
			}
			return lower + (bound-lower)*(rank-below)/(n-below)
		}
		lower, below = bound, buckets[bound]
	}
	return lower
}

// scrape reads how long the manager's reconciles have taken.
func (b *bench) scrape(ctx context.Context) (histograms, error) {
	body, err := b.ask(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return readHistograms(body)
}

// readHistograms reads the reconcile times out of a scrape, line by line: ten
// thousand machines make tens of megabytes of others.
func readHistograms(r io.Reader) (histograms, error) {
	found := histograms{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), reconcileTime+"{")
		if !ok {
			continue
		}
		labels, value, _ := strings.Cut(rest, "} ")
		controller, err := strconv.Unquote(labelOf(labels, "controller"))
		if err != nil {
			return nil, fmt.Errorf("read %q: %w", lines.Text(), err)
		}
		bound, err := strconv.ParseFloat(strings.Trim(labelOf(labels, "le"), `"`), 64)
		if err != nil {
			return nil, fmt.Errorf("read %q: %w", lines.Text(), err)
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("read %q: %w", lines.Text(), err)
		}
		if found[controller] == nil {
			found[controller] = map[float64]float64{}
		}
		found[controller][bound] += n
	}
	return found, lines.Err()
}

// labelOf returns the value of a label, in its quotes, of labels whose values have no comma.
func labelOf(labels, name string) string {
	for label := range strings.SplitSeq(labels, ",") {
		if value, ok := strings.CutPrefix(label, name+"="); ok {
			return value
		}
	}
	return ""
}

// ask gets a page of the manager.
func (b *bench) ask(ctx context.Context, path string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", b.manager.Port, path),
		nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("%s of the manager: %s", path, resp.Status)
	}
	return resp.Body, nil
}

// profile writes profiles of the manager into the folder for them: of its CPU
// time, from now on until the function that it returns is called or half a minute
// is over, and then of its memory.
func (b *bench) profile(ctx context.Context, phase string) (stop func()) {
	if b.profiles == "" {
		return func() {}
	}
	const most = 30 * time.Second
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.save(ctx, fmt.Sprintf("/debug/pprof/profile?seconds=%d", int(most.Seconds())), phase+"-cpu.pprof")
	}()
	return func() {
		<-done
		b.save(ctx, "/debug/pprof/heap?gc=1", phase+"-heap.pprof")
	}
}

// save writes a page of the manager into a file. A profile that is missing is
// told about, and no reason to end a run.
func (b *bench) save(ctx context.Context, path, name string) {
	err := os.MkdirAll(b.profiles, 0o755)
	if err == nil {
		var body io.ReadCloser
		if body, err = b.ask(ctx, path); err == nil {
			defer body.Close()
			var file *os.File
			if file, err = os.Create(filepath.Join(b.profiles, name)); err == nil {
				defer file.Close()
				_, err = io.Copy(file, body)
			}
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "no profile %s: %v\n", name, err)
	}
}
