package manager

import (
	"time"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/capmcm/cluster-api-provider-mcm/internal/tracing"
)

// Values with a meaning of their own for --target-kubeconfig and
// --control-kubeconfig.
const (
	noTarget  = "none"
	inCluster = "inClusterConfig"
)

// How many reconciles of one kind run at a time unless --concurrent-syncs says so.
const (
	machineWorkers = 50
	otherWorkers   = 10
)

// Options are the settings of a manager: the flags of both of MCM's binaries, under
// MCM's names, and a few more. NewOptions returns the defaults; the zero value is
// not valid. Options are not safe for concurrent use.
type Options struct {
	program, version string
	commit           string         // of the source; may be empty
	flags            *pflag.FlagSet // that set the other fields

	server      serverOptions
	clusters    clusterOptions
	election    electionOptions
	safety      safetyOptions
	machines    machineOptions
	extension   extensionOptions
	logs        *logsapi.LoggingConfiguration
	controllers []string
	workers     int // 0 means the default of each kind
	cloudRates  []string

	gracefulShutdown      time.Duration
	annotateDuringRollout bool
	ignored               ignoredOptions

	handOvers handOvers       // of the terms so far
	tracer    *tracing.Tracer // while the manager runs; nil: nothing is traced
}

// serverOptions say what is served over HTTP. There is one port for each of
// MCM's two binaries.
type serverOptions struct {
	address               string
	port                  int
	machineControllerPort int    // 0 serves nothing there
	diagnostics           string // address; empty serves none
	insecureDiagnostics   bool
	profiling             bool
	contentionProfiling   bool
}

// clusterOptions say which two clusters to speak to and how.
type clusterOptions struct {
	target, control string
	namespace       string // empty means all
	watchFilter     string // empty means no filter
	qps             float32
	burst           int
	resync          time.Duration
}

// electionOptions say how the two leases are held.
type electionOptions struct {
	elect         bool
	leaseDuration time.Duration
	renewDeadline time.Duration
	retryPeriod   time.Duration
	lock          string
	namespace     string // empty means --namespace
}

// safetyOptions are the bounds of the safety loops.
type safetyOptions struct {
	up, down         int
	overshooting     time.Duration
	orphanVMs        time.Duration
	reportOnly       bool
	apiServerTimeout time.Duration
	apiServerPeriod  time.Duration
	outages          bool
	outageLimit      time.Duration
}

// machineOptions are the timeouts and limits of machines that do not set their own.
type machineOptions struct {
	creation, health, drain, inPlaceUpdate time.Duration
	preserve, pvDetach, pvReattach         time.Duration
	resourceExhaustedRetry                 time.Duration
	maxEvictRetries                        int
	maxReplacements                        string // a number or a percentage
	consoleEvidence                        bool
	creationGrowthPercent, replaceCycles   int
	pauseFailingRollouts                   bool
	nodeConditions                         string
	bootstrapTokenExtraGroups              string
}

// ignoredOptions are flags that MCM has and nothing depends on.
type ignoredOptions struct {
	cloudProvider           string
	contentType             string
	controllerStartInterval time.Duration
}

// NewOptions returns the defaults for a program of this name and version, neither
// empty. Both are in the log and, as "<program>/<version>", in the user agent of all
// requests to API servers.
func NewOptions(program, version string) *Options {
	o := defaults()
	o.program, o.version = program, version
	o.flags = o.flagSet()
	return o
}

// AddFlags adds the flags that set o to fs, which are parsed before Run. Underscores in
// the names of all flags of fs, also as given by a user, become hyphens. A flag that fs
// has already stays as it is; the setting of that name then keeps its default.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.SetNormalizeFunc(normalize)
	fs.AddFlagSet(o.flags)
}

// normalize returns the name of a flag as it is registered.
func normalize(fs *pflag.FlagSet, name string) pflag.NormalizedName {
	if name == "worker-count" || name == "worker_count" {
		name = "concurrent-syncs"
	}
	return cliflag.WordSepNormalizeFunc(fs, name)
}

// given reports whether a flag was set, even to its default.
func (o *Options) given(flag string) bool {
	f := o.flags.Lookup(flag)
	return f != nil && f.Changed
}

// BuiltFrom sets the commit that the program was built from, which its metrics show.
// Without it they show what Go has noted in the program.
func (o *Options) BuiltFrom(commit string) { o.commit = commit }

// userAgent is how requests to API servers name this program.
func (o *Options) userAgent() string { return o.program + "/" + o.version }

// defaults returns the defaults without flags that set them.
func defaults() *Options {
	return &Options{
		server: serverOptions{
			address: "0.0.0.0", port: managerPort, machineControllerPort: machineControllerPort,
			insecureDiagnostics: true,
		},
		clusters: clusterOptions{
			namespace: "default", qps: -1, burst: 30, resync: 12 * time.Hour,
		},
		election: electionOptions{
			elect: true, leaseDuration: 15 * time.Second, renewDeadline: 10 * time.Second,
			retryPeriod: 2 * time.Second, lock: "leases",
		},
		safety: safetyOptions{
			up: 2, down: 1, overshooting: time.Minute, orphanVMs: 30 * time.Minute,
			apiServerTimeout: 30 * time.Second, apiServerPeriod: time.Minute,
			outages: true, outageLimit: 2 * time.Hour,
		},
		machines: machineOptions{
			creation: 20 * time.Minute, health: 10 * time.Minute, drain: 2 * time.Hour, inPlaceUpdate: 20 * time.Minute,
			preserve: 96 * time.Hour, pvDetach: 2 * time.Minute, pvReattach: 90 * time.Second,
			resourceExhaustedRetry: 10 * time.Minute, maxEvictRetries: 360,
			maxReplacements: "1", replaceCycles: 2, consoleEvidence: true,
			nodeConditions: "KernelDeadlock,ReadonlyFilesystem,DiskPressure,NetworkUnavailable",
		},
		logs:             logsapi.NewLoggingConfiguration(),
		controllers:      []string{"*"},
		gracefulShutdown: 30 * time.Second, annotateDuringRollout: true,
		ignored: ignoredOptions{contentType: "application/vnd.kubernetes.protobuf"},
	}
}

// workersFor is how many reconciles of a controller run at a time.
func (o *Options) workersFor(controller string) int {
	switch {
	case o.workers > 0:
		return o.workers
	case controller == "machine", controller == "mcmmachine":
		return machineWorkers
	}
	return otherWorkers
}

// flagSet returns the flags that set o.
func (o *Options) flagSet() *pflag.FlagSet {
	fs := pflag.NewFlagSet(o.program, pflag.ContinueOnError)
	fs.SetNormalizeFunc(normalize)
	o.addServerFlags(fs)
	o.addClusterFlags(fs)
	o.addElectionFlags(fs)
	o.addSafetyFlags(fs)
	o.addMachineFlags(fs)
	o.addExtensionFlags(fs)
	o.addIgnoredFlags(fs)
	logsapi.AddFlags(o.logs, fs)
	fs.StringSliceVar(&o.controllers, "controllers", o.controllers,
		"controllers to run: names, -name to leave one out, * for all whose kinds the API server serves")
	fs.IntVar(&o.workers, "concurrent-syncs", o.workers,
		"reconciles of one kind at a time, for every kind (alias --worker-count); 0 means 50 for machines and 10 for "+
			"the others")
	fs.StringSliceVar(&o.cloudRates, "cloud-rate", o.cloudRates,
		"calls that a cloud allows an account, as <provider>.<create|get|delete|list|capacity|tags|members>=<per "+
			"second>[:<at once>], e.g. aws.create=10:50 after the limit was raised; may be repeated")
	fs.DurationVar(&o.gracefulShutdown, "graceful-shutdown-timeout", o.gracefulShutdown,
		"how long reconciles that have begun may take to finish after a request to stop; the leases are released after that")
	fs.BoolVar(&o.annotateDuringRollout, "autoscaler-scaledown-annotation-during-rollout", o.annotateDuringRollout,
		"keep cluster-autoscaler from scaling down the nodes of a machine deployment while it is rolled out")
	return fs
}

func (o *Options) addServerFlags(fs *pflag.FlagSet) {
	s := &o.server
	fs.StringVar(&s.address, "address", s.address, "IP address to serve on, of both ports")
	fs.IntVar(&s.port, "port", s.port, "port of health, metrics and profiles; the one of MCM's machine-controller-manager")
	fs.IntVar(&s.machineControllerPort, "machine-controller-port", s.machineControllerPort,
		"second port, the one of MCM's machine-controller; 0 serves everything on --port. Without this flag, "+
			"--port=10258 or --port=10259 means one of MCM's two containers, which has no second port")
	fs.StringVar(&s.diagnostics, "diagnostics-address", s.diagnostics,
		"address, e.g. :8443, to serve what the plain ports serve over TLS, to those whose token the API server accepts and "+
			"who may get that path; empty serves nothing there")
	fs.BoolVar(&s.insecureDiagnostics, "insecure-diagnostics", s.insecureDiagnostics,
		"serve metrics, flags and profiles on the plain ports without authentication, too; otherwise health only")
	fs.BoolVar(&s.profiling, "profiling", s.profiling, "serve profiles at /debug/pprof/")
	fs.BoolVar(&s.contentionProfiling, "contention-profiling", s.contentionProfiling,
		"also profile lock contention; needs --profiling")
}

func (o *Options) addClusterFlags(fs *pflag.FlagSet) {
	c := &o.clusters
	fs.StringVar(&c.target, "target-kubeconfig", c.target,
		"kubeconfig of the cluster that nodes join; empty means the cluster this runs in, "+noTarget+" that there is none")
	fs.StringVar(&c.control, "control-kubeconfig", c.control,
		"kubeconfig of the cluster with the machine objects; empty means the target cluster, "+inCluster+
			" the cluster this runs in")
	fs.StringVar(&c.namespace, "namespace", c.namespace,
		"namespace of the machine objects, their Secrets and the leases; empty means all namespaces")
	fs.StringVar(&c.watchFilter, "watch-filter", c.watchFilter,
		"value of the label cluster.x-k8s.io/watch-filter of the Cluster API objects to work on; empty means all objects")
	fs.Float32Var(&c.qps, "kube-api-qps", c.qps,
		"requests per second to each API server; 0 or less means no limit but the API server's own")
	fs.IntVar(&c.burst, "kube-api-burst", c.burst,
		"requests at once to each API server; only with --kube-api-qps; 0 means 10")
	fs.DurationVar(&c.resync, "min-resync-period", c.resync,
		"how often every object is looked at although nothing changed; 0 means never")
}

func (o *Options) addElectionFlags(fs *pflag.FlagSet) {
	e := &o.election
	fs.BoolVar(&e.elect, "leader-elect", e.elect,
		"work only while holding the leases of the APIs that run, for the native API both of MCM's; without it nothing "+
			"keeps MCM or another replica from working at the same time")
	fs.DurationVar(&e.leaseDuration, "leader-elect-lease-duration", e.leaseDuration,
		"how long a lease that is not renewed is respected")
	fs.DurationVar(&e.renewDeadline, "leader-elect-renew-deadline", e.renewDeadline,
		"how long renewing may fail before this process stops; less than the lease duration")
	fs.DurationVar(&e.retryPeriod, "leader-elect-retry-period", e.retryPeriod,
		"time between attempts to take or renew the leases")
	fs.StringVar(&e.lock, "leader-elect-resource-lock", e.lock, "kind of lock; only leases")
	fs.StringVar(&e.namespace, "leader-elect-resource-namespace", e.namespace,
		"namespace of the leases; empty means --namespace, and where that is empty too the one this runs in, else default")
}

func (o *Options) addSafetyFlags(fs *pflag.FlagSet) {
	s := &o.safety
	fs.IntVar(&s.up, "safety-up", s.up, "machines beyond replicas and surge at which a machine set is frozen")
	fs.IntVar(&s.down, "safety-down", s.down, "machines below that at which it is unfrozen")
	fs.DurationVar(&s.overshooting, "machine-safety-overshooting-period", s.overshooting,
		"interval between checks for machine sets with too many machines")
	fs.DurationVar(&s.orphanVMs, "machine-safety-orphan-vms-period", s.orphanVMs,
		"interval between scans for VMs without a machine")
	fs.BoolVar(&s.reportOnly, "machine-safety-orphan-vms-report-only", s.reportOnly,
		"report VMs without a machine, but do not delete them")
	fs.DurationVar(&s.apiServerTimeout, "machine-safety-apiserver-statuscheck-timeout", s.apiServerTimeout,
		"how long an API server may be unreachable before machines are frozen")
	fs.DurationVar(&s.apiServerPeriod, "machine-safety-apiserver-statuscheck-period", s.apiServerPeriod,
		"interval between probes of the API servers; at least the timeout")
	fs.BoolVar(&s.outages, "machine-safety-outage-protection", s.outages,
		"replace no machine whose node was lost together with others of its zone or pool, unless its VM is gone")
	fs.DurationVar(&s.outageLimit, "machine-safety-outage-limit", s.outageLimit,
		"how long an outage may keep a machine from being replaced")
}

func (o *Options) addMachineFlags(fs *pflag.FlagSet) {
	m := &o.machines
	fs.DurationVar(&m.creation, "machine-creation-timeout", m.creation, "how long a machine may take to become Running")
	fs.IntVar(&m.creationGrowthPercent, "machine-creation-timeout-growth-percent", m.creationGrowthPercent,
		"by how much the creation timeout of a machine deployment grows while its machines do not join in time; 0 means "+
			"it does not")
	fs.IntVar(&m.replaceCycles, "machine-replace-cycle-count-threshold", m.replaceCycles,
		"how often machines of a machine deployment have to be replaced because they did not join until its creation "+
			"timeout grows; 0 means it does not")
	fs.BoolVar(&m.pauseFailingRollouts, "machine-pause-failing-rollouts", m.pauseFailingRollouts,
		"pause a rolling update of a machine deployment when its new machines did not join in as many cycles as "+
			"--machine-replace-cycle-count-threshold has, and none has joined")
	fs.DurationVar(&m.health, "machine-health-timeout", m.health, "how long a machine may be Unknown before it is Failed")
	fs.StringVar(&m.maxReplacements, "machine-max-replacements", m.maxReplacements,
		"how many unhealthy machines of a machine deployment are replaced at a time: a number, or a percentage of its "+
			"replicas")
	fs.BoolVar(&m.consoleEvidence, "console-evidence", m.consoleEvidence,
		"read the console of a machine that did not join before its VM is deleted, and keep its end, redacted, in a Secret "+
			"of the pool")
	fs.DurationVar(&m.drain, "machine-drain-timeout", m.drain,
		"how long a node may be drained before its pods are removed by force")
	fs.DurationVar(&m.inPlaceUpdate, "machine-inplace-update-timeout", m.inPlaceUpdate,
		"how long an update in place may take")
	fs.IntVar(&m.maxEvictRetries, "machine-max-evict-retries", m.maxEvictRetries,
		"how often the eviction of a pod is tried before it is deleted")
	fs.DurationVar(&m.pvDetach, "machine-pv-detach-timeout", m.pvDetach, "how long to wait for a volume to detach")
	fs.DurationVar(&m.pvReattach, "machine-pv-reattach-timeout", m.pvReattach,
		"how long to wait for a volume to attach to another node")
	fs.DurationVar(&m.preserve, "machine-preserve-timeout", m.preserve, "how long a preserved machine is kept")
	fs.StringVar(&m.nodeConditions, "node-conditions", m.nodeConditions,
		"node conditions that make a machine unhealthy unless they are False, separated by commas")
	fs.StringVar(&m.bootstrapTokenExtraGroups, "bootstrap-token-auth-extra-groups", m.bootstrapTokenExtraGroups,
		"extra groups of bootstrap tokens, separated by commas")
	fs.DurationVar(&m.resourceExhaustedRetry, "resource-exhausted-retry", m.resourceExhaustedRetry,
		"wait after a cloud had no capacity; 0 means 10m")
}

func (o *Options) addIgnoredFlags(fs *pflag.FlagSet) {
	i := &o.ignored
	fs.StringVar(&i.cloudProvider, "cloud-provider", i.cloudProvider, "unused: a MachineClass names its cloud")
	fs.StringVar(&i.contentType, "kube-api-content-type", i.contentType,
		"unused: the encoding is chosen for each kind")
	fs.DurationVar(&i.controllerStartInterval, "controller-start-interval", i.controllerStartInterval,
		"unused: controllers start together")
}
