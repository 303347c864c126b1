package manager

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/machine"
)

const maxPort = 65535

// extraGroup is what the API server's bootstrap token authenticator accepts; a
// token with any other group does not authenticate.
var extraGroup = regexp.MustCompile(`\Asystem:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]\z`)

// problems are values of flags that cannot be.
type problems []error

func (p *problems) add(flag, format string, args ...any) {
	*p = append(*p, fmt.Errorf("--%s: %s", flag, fmt.Sprintf(format, args...)))
}

func (p *problems) positive(flag string, d time.Duration) {
	if d <= 0 {
		p.add(flag, "must be positive, not %s", d)
	}
}

func (p *problems) notNegative(flag string, d time.Duration) {
	if d < 0 {
		p.add(flag, "must not be negative, is %s", d)
	}
}

func (p *problems) count(flag string, n int) {
	if n < 0 || n > math.MaxInt32 {
		p.add(flag, "must be between 0 and %d, is %d", math.MaxInt32, n)
	}
}

// validate returns one error that names every flag whose value cannot be, or nil.
func (o *Options) validate() error {
	var p problems
	o.server.validate(&p)
	o.clusters.validate(&p)
	o.election.validate(&p)
	o.safety.validate(&p)
	o.machines.validate(&p)
	o.extension.validate(&p, o)
	o.validateDiagnostics(&p)
	p.count("concurrent-syncs", o.workers)
	if _, err := wrap.ParseRates(o.cloudRates); err != nil {
		p.add("cloud-rate", "%v", err)
	}
	p.notNegative("graceful-shutdown-timeout", o.gracefulShutdown)
	return errors.Join(p...)
}

func (o *Options) validateDiagnostics(p *problems) {
	address := o.server.diagnostics
	if _, port, err := net.SplitHostPort(address); address != "" && (err != nil || port == "") {
		p.add("diagnostics-address", "must be an address with a port, e.g. :8443, is %q", address)
	}
	if !o.server.insecureDiagnostics && o.container() != allContainers {
		p.add("insecure-diagnostics", "must be true in one of MCM's two containers, which ask each other for metrics")
	}
}

func (s *serverOptions) validate(p *problems) {
	if s.port < 1 || s.port > maxPort {
		p.add("port", "must be between 1 and %d, is %d", maxPort, s.port)
	}
	if s.machineControllerPort < 0 || s.machineControllerPort > maxPort {
		p.add("machine-controller-port", "must be between 0 and %d, is %d", maxPort, s.machineControllerPort)
	}
	if _, err := netip.ParseAddr(s.address); err != nil {
		p.add("address", "must be an IP address, is %q", s.address)
	}
	if s.contentionProfiling && !s.profiling {
		p.add("contention-profiling", "needs --profiling")
	}
}

func (c *clusterOptions) validate(p *problems) {
	if c.target == noTarget && c.control == "" {
		p.add("control-kubeconfig", "must be given with --target-kubeconfig=%s", noTarget)
	}
	if c.control == noTarget {
		p.add("control-kubeconfig", "must not be %s: the machine objects have to be somewhere", noTarget)
	}
	if errs := validation.IsDNS1123Label(c.namespace); c.namespace != "" && len(errs) > 0 {
		p.add("namespace", "%q is not the name of a namespace: %s", c.namespace, errs[0])
	}
	p.count("kube-api-burst", c.burst)
	p.notNegative("min-resync-period", c.resync)
}

func (e *electionOptions) validate(p *problems) {
	if !e.elect {
		return
	}
	// The jitter of an attempt is 20 % of the retry period.
	const jitter = 1.2
	if e.lock != "leases" {
		p.add("leader-elect-resource-lock", "must be leases, is %q", e.lock)
	}
	if e.leaseDuration < time.Second {
		p.add("leader-elect-lease-duration", "must be at least 1s, is %s", e.leaseDuration)
	}
	if e.renewDeadline >= e.leaseDuration {
		p.add("leader-elect-renew-deadline", "must be less than --leader-elect-lease-duration (%s), is %s", e.leaseDuration,
			e.renewDeadline)
	}
	p.positive("leader-elect-retry-period", e.retryPeriod)
	if float64(e.renewDeadline) <= jitter*float64(e.retryPeriod) {
		p.add("leader-elect-retry-period", "1.2 times it must be less than --leader-elect-renew-deadline (%s), is %s",
			e.renewDeadline, e.retryPeriod)
	}
	if errs := validation.IsDNS1123Label(e.namespace); e.namespace != "" && len(errs) > 0 {
		p.add("leader-elect-resource-namespace", "%q is not the name of a namespace: %s", e.namespace, errs[0])
	}
}

func (s *safetyOptions) validate(p *problems) {
	p.count("safety-up", s.up)
	p.count("safety-down", s.down)
	p.notNegative("machine-safety-overshooting-period", s.overshooting)
	p.notNegative("machine-safety-orphan-vms-period", s.orphanVMs)
	p.notNegative("machine-safety-apiserver-statuscheck-timeout", s.apiServerTimeout)
	p.positive("machine-safety-outage-limit", s.outageLimit)
	if s.apiServerPeriod < s.apiServerTimeout {
		p.add("machine-safety-apiserver-statuscheck-period",
			"must be at least --machine-safety-apiserver-statuscheck-timeout (%s), is %s", s.apiServerTimeout, s.apiServerPeriod)
	}
}

func (m *machineOptions) validate(p *problems) {
	p.notNegative("machine-creation-timeout", m.creation)
	p.notNegative("machine-health-timeout", m.health)
	p.notNegative("machine-drain-timeout", m.drain)
	p.notNegative("machine-inplace-update-timeout", m.inPlaceUpdate)
	p.notNegative("machine-pv-detach-timeout", m.pvDetach)
	p.notNegative("machine-pv-reattach-timeout", m.pvReattach)
	p.notNegative("machine-preserve-timeout", m.preserve)
	p.notNegative("resource-exhausted-retry", m.resourceExhaustedRetry)
	p.count("machine-max-evict-retries", m.maxEvictRetries)
	p.count("machine-creation-timeout-growth-percent", m.creationGrowthPercent)
	p.count("machine-replace-cycle-count-threshold", m.replaceCycles)
	if m.pauseFailingRollouts && m.replaceCycles == 0 {
		p.add("machine-pause-failing-rollouts", "needs --machine-replace-cycle-count-threshold of at least 1")
	}
	if _, err := machine.ParseMaxReplacements(m.maxReplacements); err != nil {
		p.add("machine-max-replacements", "%v", err)
	}
	for _, group := range list(m.bootstrapTokenExtraGroups) {
		if !extraGroup.MatchString(group) {
			p.add("bootstrap-token-auth-extra-groups",
				"%q must start with system:bootstrappers: and go on with lower case letters, digits, colons and hyphens", group)
		}
	}
}

// list splits at commas; blanks around entries and empty entries do not count.
func list(s string) []string {
	var entries []string
	for e := range strings.SplitSeq(s, ",") {
		if e = strings.TrimSpace(e); e != "" {
			entries = append(entries, e)
		}
	}
	return entries
}
