package metrics

import (
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// NewBuildInfo returns a metric of which program this is. An empty commit is replaced by
// the one that Go has noted in the program, if any.
func NewBuildInfo(version, commit string) prometheus.Collector {
	if commit == "" {
		commit = notedCommit()
	}
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mcm_build_info", Help: "Information about the program; always 1.",
		ConstLabels: prometheus.Labels{"version": version, "go_version": runtime.Version(), "git_commit": commit},
	}, func() float64 { return 1 })
}

// notedCommit is the commit that Go has noted while it built the program; empty if it
// was told not to.
func notedCommit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}

// NewLeading returns a metric of whether this process works, by the groups of the APIs whose
// controllers it has. A standby has it, too: an alert needs to tell it from a process that
// is not there.
func NewLeading(apiGroups []string, leading func() bool) prometheus.Collector {
	return &leadership{
		desc: prometheus.NewDesc("mcm_manager_leading",
			"1 while this process runs the controllers of the API, 0 while it stands by.", []string{"api_group"}, nil),
		apiGroups: apiGroups, leading: leading,
	}
}

type leadership struct {
	desc      *prometheus.Desc
	apiGroups []string
	leading   func() bool
}

// Describe sends the metric.
func (l *leadership) Describe(ch chan<- *prometheus.Desc) { ch <- l.desc }

// Collect sends one series for each API.
func (l *leadership) Collect(ch chan<- prometheus.Metric) {
	for _, group := range l.apiGroups {
		ch <- gauge(l.desc, boolean(l.leading()), group)
	}
}
