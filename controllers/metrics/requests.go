package metrics

import (
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
)

// shortWatch is how long a watch has to last not to be short.
const shortWatch = time.Second

// Requests measures requests to API servers: their latency, and the lists and
// watches behind the caches under the names that client-go's reflectors had
// when MCM was written.
type Requests struct {
	clock   clock.PassiveClock
	latency *prometheus.HistogramVec

	lists, watches, shortWatches *prometheus.CounterVec
	listSeconds, watchSeconds    *prometheus.SummaryVec
	version                      *prometheus.GaugeVec
}

var _ prometheus.Collector = &Requests{}

// NewRequests returns a collector that has seen no requests.
func NewRequests(c clock.PassiveClock) *Requests {
	name := []string{"name"}
	counter := func(n, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "mcm_reflector_" + n, Help: help}, name)
	}
	summary := func(n, help string) *prometheus.SummaryVec {
		return prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: "mcm_reflector_" + n, Help: help}, name)
	}
	return &Requests{
		clock: c,
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "rest_client_request_latency_seconds",
			Help:    "How long the API server took to answer; names are left out of the URL.",
			Buckets: prometheus.ExponentialBuckets(.001, 2, 12),
		}, []string{"verb", "url"}),
		lists:        counter("lists_total", "Lists of a resource."),
		listSeconds:  summary("list_duration_seconds", "How long lists took until their answer began."),
		watches:      counter("watches_total", "Watches of a resource."),
		shortWatches: counter("short_watches_total", "Watches that ended within a second."),
		watchSeconds: summary("watch_duration_seconds", "How long watches lasted."),
		version: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mcm_reflector_last_resource_version", Help: "Resource version that the last watch of a resource began at.",
		}, name),
	}
}

func (r *Requests) collectors() []prometheus.Collector {
	return []prometheus.Collector{r.latency, r.lists, r.listSeconds, r.watches, r.shortWatches, r.watchSeconds, r.version}
}

// Describe sends all metrics.
func (r *Requests) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range r.collectors() {
		c.Describe(ch)
	}
}

// Collect sends all metrics.
func (r *Requests) Collect(ch chan<- prometheus.Metric) {
	for _, c := range r.collectors() {
		c.Collect(ch)
	}
}

// Wrap measures what next sends; for rest.Config.Wrap.
func (r *Requests) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		start := r.clock.Now()
		resp, err := next.RoundTrip(req)
		r.observe(req, resp, start)
		return resp, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (r *Requests) observe(req *http.Request, resp *http.Response, start time.Time) {
	took := r.clock.Since(start)
	path, resource, collection := template(req.URL.Path)
	r.latency.WithLabelValues(req.Method, (&url.URL{
		Scheme: req.URL.Scheme,
		Host:   req.URL.Host,
	}).String()+path).Observe(took.Seconds())
	if req.Method != http.MethodGet || !collection {
		return
	}
	query := req.URL.Query()
	if watch, _ := strconv.ParseBool(query.Get("watch")); !watch {
		r.lists.WithLabelValues(resource).Inc()
		r.listSeconds.WithLabelValues(resource).Observe(took.Seconds())
		return
	}
	r.watches.WithLabelValues(resource).Inc()
	if v, err := strconv.ParseFloat(query.Get("resourceVersion"), 64); err == nil {
		r.version.WithLabelValues(resource).Set(v)
	}
	if resp != nil && resp.Body != nil {
		resp.Body = &watchBody{ReadCloser: resp.Body, done: func() { r.watchEnded(resource, r.clock.Since(start)) }}
	}
}

func (r *Requests) watchEnded(resource string, lasted time.Duration) {
	r.watchSeconds.WithLabelValues(resource).Observe(lasted.Seconds())
	if lasted < shortWatch {
		r.shortWatches.WithLabelValues(resource).Inc()
	}
}

// watchBody tells when a watch has ended.
type watchBody struct {
	io.ReadCloser
	once sync.Once
	done func()
}

// Close ends the watch.
func (b *watchBody) Close() error {
	b.once.Do(b.done)
	return b.ReadCloser.Close()
}

// template leaves the names out of an API path. resource is "<plural>.<group>",
// and collection reports whether the path is that of a list.
func template(path string) (templated, resource string, collection bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var rest []string
	group := ""
	switch {
	case len(parts) > 2 && parts[0] == "api":
		rest = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		group, rest = parts[1], parts[3:]
	default:
		return path, "", false
	}
	head := "/" + strings.Join(parts[:len(parts)-len(rest)], "/")
	if rest[0] == "namespaces" && len(rest) > 2 {
		head, rest = head+"/namespaces/{namespace}", rest[2:]
	}
	resource = rest[0]
	if group != "" {
		resource += "." + group
	}
	if len(rest) == 1 {
		return head + "/" + rest[0], resource, true
	}
	rest[1] = "{name}"
	return head + "/" + strings.Join(rest, "/"), resource, false
}
