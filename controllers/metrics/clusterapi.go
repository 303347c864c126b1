package metrics

import (
	"context"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// binaryOwn is the value of the label binary for kinds that MCM does not have.
const binaryOwn = "cluster-api-provider-mcm"

// ClusterAPI collects metrics about the objects of Cluster API's providers in a cache.
type ClusterAPI struct {
	reader client.Reader
	scrape Scrape
	active func() bool
	kinds  []ProviderKind

	failures *prometheus.CounterVec
}

var _ prometheus.Collector = &ClusterAPI{}

// NewClusterAPI returns a collector of the objects of these kinds that reader has in its
// cache. Nothing is collected while active returns false; nil is always true.
func NewClusterAPI(reader client.Reader, scrape Scrape, active func() bool, kinds ...ProviderKind) *ClusterAPI {
	return &ClusterAPI{
		reader: reader, scrape: scrape, active: active, kinds: kinds, failures: scrapeFailures(binaryOwn),
	}
}

// Describe sends the metrics that there always are.
func (c *ClusterAPI) Describe(ch chan<- *prometheus.Desc) {
	for _, k := range c.kinds {
		for _, d := range []*prometheus.Desc{k.info, k.done, k.deletion, k.condition} {
			ch <- d
		}
	}
	c.failures.Describe(ch)
}

// Collect reads the cache. It leaves out a kind that cannot be read, and counts the
// failure.
func (c *ClusterAPI) Collect(ch chan<- prometheus.Metric) {
	defer c.failures.Collect(ch)
	if c.active != nil && !c.active() {
		return
	}
	ctx, cancel := c.scrape()
	defer cancel()
	for _, k := range c.kinds {
		objects, err := k.read(ctx, c.reader)
		if err != nil {
			c.failures.WithLabelValues(k.name).Inc()
			continue
		}
		for _, o := range objects {
			k.send(ch, o)
		}
	}
}

// A ProviderKind is a kind of a provider of Cluster API and how its objects are shown.
type ProviderKind struct {
	name                            string
	info, done, deletion, condition *prometheus.Desc
	read                            func(ctx context.Context, r client.Reader) ([]provided, error)
}

// provided is what the metrics show of one object.
type provided struct {
	object     metav1.Object
	info       []string // values of the labels of info, after createdAt
	done       *bool    // the first step of Cluster API's contract is complete
	conditions []metav1.Condition
}

// newProviderKind describes the metrics of a kind: prefix begins their names, done ends
// that of the first step, and labels are those of info.
func newProviderKind(name, prefix, done, help string, labels ...string) ProviderKind {
	labels = append([]string{"createdAt"}, labels...)
	return ProviderKind{
		name:     name,
		info:     desc(prefix+"_info", "Information about an "+name+"; always 1.", labels...),
		done:     desc(prefix+"_"+done, help),
		deletion: desc(prefix+"_deletion_timestamp_seconds", "Unix time at which the deletion of an "+name+" was asked for."),
		condition: desc(prefix+"_status_condition",
			"Status of a condition of an "+name+": 1 True, 0 False, 2 Unknown.", "condition", "reason"),
	}
}

// send sends the metrics of one object.
func (k ProviderKind) send(ch chan<- prometheus.Metric, p provided) {
	o := p.object
	namespace, name := o.GetNamespace(), o.GetName()
	created := strconv.FormatInt(o.GetCreationTimestamp().Unix(), 10)
	ch <- gauge(k.info, 1, append([]string{namespace, name, created}, p.info...)...)
	ch <- gauge(k.done, boolean(p.done != nil && *p.done), namespace, name)
	if at := o.GetDeletionTimestamp(); at != nil {
		ch <- gauge(k.deletion, float64(at.Unix()), namespace, name)
	}
	for _, c := range p.conditions { // the API server lets no type be there twice
		ch <- gauge(k.condition, conditionValue(string(c.Status)), namespace, name, c.Type, c.Reason)
	}
}
