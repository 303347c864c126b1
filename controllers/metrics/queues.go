package metrics

import (
	"cmp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// underMCMNames adds to what g gathers the metrics of the queues under MCM's
// names: workqueue_depth{controller, name, priority} is also
// mcm_workqueue_depth{name}. The controllers are called as MCM's queues are.
func underMCMNames(g prometheus.Gatherer) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := g.Gather()
		for _, f := range families {
			if strings.HasPrefix(f.GetName(), "workqueue_") {
				families = append(families, renamedQueues(f))
			}
		}
		slices.SortFunc(families, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
		return families, err
	})
}

// renamedQueues is f under MCM's name and with its one label. Series that differ
// only in other labels, such as priorities, are added up.
func renamedQueues(f *dto.MetricFamily) *dto.MetricFamily {
	byQueue := map[string]*dto.Metric{}
	var queues []string
	for _, m := range f.GetMetric() {
		queue := labelValue(m, "name")
		sum, ok := byQueue[queue]
		if !ok {
			queues = append(queues, queue)
			byQueue[queue] = &dto.Metric{
				Label: []*dto.LabelPair{{Name: new("name"), Value: new(queue)}},
				Gauge: m.GetGauge(), Counter: m.GetCounter(), Histogram: m.GetHistogram(),
			}
			continue
		}
		add(sum, m)
	}
	slices.Sort(queues)
	renamed := &dto.MetricFamily{Name: new("mcm_" + f.GetName()), Help: f.Help, Type: f.Type, Unit: f.Unit}
	for _, q := range queues {
		renamed.Metric = append(renamed.Metric, byQueue[q])
	}
	return renamed
}

// add adds the value of m to sum, whose value is replaced: it may be shared. Of
// two histograms the first stays; there is one per queue.
func add(sum, m *dto.Metric) {
	switch {
	case sum.Gauge != nil:
		sum.Gauge = &dto.Gauge{Value: new(sum.GetGauge().GetValue() + m.GetGauge().GetValue())}
	case sum.Counter != nil:
		sum.Counter = &dto.Counter{Value: new(sum.GetCounter().GetValue() + m.GetCounter().GetValue())}
	}
}

func labelValue(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}
