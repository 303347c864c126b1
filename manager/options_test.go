package manager

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// mcmFlags are all flags of both of MCM's binaries and what they are without
// being given; where we differ on purpose, why says so.
var mcmFlags = map[string]struct{ value, why string }{
	"port":           {"10258", ""},
	"address":        {"0.0.0.0", ""},
	"cloud-provider": {"", ""},
	"concurrent-syncs": {
		"0",
		"MCM's binaries have 10 and 50; 0 is 50 for machines and 10 for the others",
	},
	"min-resync-period":                  {"12h0m0s", ""},
	"profiling":                          {"false", ""},
	"contention-profiling":               {"false", ""},
	"target-kubeconfig":                  {"", ""},
	"control-kubeconfig":                 {"", ""},
	"namespace":                          {"default", ""},
	"kube-api-content-type":              {"application/vnd.kubernetes.protobuf", ""},
	"kube-api-qps":                       {"-1", "MCM has 20; the API server's own flow control is enough"},
	"kube-api-burst":                     {"30", ""},
	"controller-start-interval":          {"0s", ""},
	"leader-elect":                       {"true", ""},
	"leader-elect-lease-duration":        {"15s", ""},
	"leader-elect-renew-deadline":        {"10s", ""},
	"leader-elect-retry-period":          {"2s", ""},
	"leader-elect-resource-lock":         {"leases", ""},
	"v":                                  {"0", ""},
	"safety-up":                          {"2", ""},
	"safety-down":                        {"1", ""},
	"machine-safety-overshooting-period": {"1m0s", ""},
	"autoscaler-scaledown-annotation-during-rollout": {"true", ""},
	"machine-creation-timeout":                       {"20m0s", ""},
	"machine-creation-timeout-growth-percent":        {"0", ""},
	"machine-replace-cycle-count-threshold":          {"2", ""},
	"machine-health-timeout":                         {"10m0s", ""},
	"machine-drain-timeout":                          {"2h0m0s", ""},
	"machine-inplace-update-timeout":                 {"20m0s", ""},
	"machine-max-evict-retries":                      {"360", ""},
	"machine-pv-detach-timeout":                      {"2m0s", ""},
	"machine-pv-reattach-timeout":                    {"1m30s", ""},
	"machine-preserve-timeout":                       {"96h0m0s", ""},
	"machine-safety-orphan-vms-period":               {"30m0s", "MCM has 15m; its documents and Gardener say 30m"},
	"machine-safety-apiserver-statuscheck-timeout":   {"30s", ""},
	"machine-safety-apiserver-statuscheck-period":    {"1m0s", ""},
	"node-conditions": {
		"KernelDeadlock,ReadonlyFilesystem,DiskPressure,NetworkUnavailable",
		"",
	},
	"bootstrap-token-auth-extra-groups": {"", ""},
	"resource-exhausted-retry":          {"10m0s", ""},
}

// parse returns the options that args ask for.
func parse(args ...string) (*Options, error) {
	o, flags := NewOptions("test", "1"), pflag.NewFlagSet("test", pflag.ContinueOnError)
	o.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	return o, o.validate()
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	flags := NewOptions("test", "1").flags
	for name, want := range mcmFlags {
		f := flags.Lookup(name)
		if f == nil {
			t.Errorf("MCM's flag --%s is not accepted", name)
			continue
		}
		if f.DefValue != want.value {
			t.Errorf("--%s is %q without being given, want %q %s", name, f.DefValue, want.value, want.why)
		}
	}
	if err := NewOptions("test", "1").validate(); err != nil {
		t.Errorf("the defaults are not valid: %v", err)
	}
}

// TestGardenersCommandLines are the arguments that Gardener starts MCM's two
// containers with.
func TestGardenersCommandLines(t *testing.T) {
	t.Parallel()
	cases := map[string][]string{
		"machine-controller-manager": {
			"--control-kubeconfig=inClusterConfig", "--machine-safety-overshooting-period=1m", "--namespace=shoot--a--b",
			"--port=10258",
			"--safety-up=2", "--safety-down=1", "--target-kubeconfig=/var/run/kubeconfig", "--v=3",
			"--concurrent-syncs=30", "--kube-api-qps=150", "--kube-api-burst=200",
		},
		"machine-controller-manager-provider": {
			"--control-kubeconfig=inClusterConfig", "--machine-creation-timeout=20m", "--machine-drain-timeout=2h",
			"--machine-health-timeout=10m",
			"--machine-safety-apiserver-statuscheck-timeout=30s", "--machine-safety-apiserver-statuscheck-period=1m",
			"--machine-safety-orphan-vms-period=30m", "--namespace=shoot--a--b", "--port=10259",
			"--target-kubeconfig=/var/run/kubeconfig", "--v=3",
			"--kube-api-qps=100", "--kube-api-burst=200", "--machine-pv-reattach-timeout=150s",
		},
	}
	for name, args := range cases {
		if _, err := parse(args...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestValues(t *testing.T) {
	cases := map[string]struct {
		reason string
		args   []string
		got    func(*Options) any
		want   any
	}{
		"MachineWorkers": {"machines have 50 workers", nil, func(o *Options) any { return o.workersFor("machine") }, 50},
		"OtherWorkers":   {"others have 10", nil, func(o *Options) any { return o.workersFor("machineset") }, 10},
		"AllWorkers": {"a given number is for all", []string{"--concurrent-syncs=3"}, func(o *Options) any {
			return []int{o.workersFor("machine"), o.workersFor("machineset")}
		}, []int{3, 3}},
		"WorkerCount": {"the alias sets the same", []string{"--worker-count", "7"}, func(o *Options) any {
			return o.workersFor("machineset")
		}, 7},
		"Underscore": {"underscores are hyphens", []string{"--machine_drain_timeout=1h"}, func(o *Options) any {
			return o.machines.drain.String()
		}, "1h0m0s"},
		"AllNamespaces": {"an empty namespace means all", []string{"--namespace="}, func(o *Options) any {
			return o.clusters.namespace
		}, ""},
		"Leases": {"the leases are where MCM has them", []string{"--namespace=a"}, func(o *Options) any {
			return o.leaseNamespace()
		}, "a"},
		"OwnLeases": {
			"unless asked otherwise",
			[]string{"--namespace=a", "--leader-elect-resource-namespace=b"},
			func(o *Options) any { return o.leaseNamespace() }, "b",
		},
		"AllLeases": {
			"outside of a pod the leases of all namespaces are in default",
			[]string{"--namespace="},
			func(o *Options) any { return o.leaseNamespace() }, "default",
		},
		"Controllers": {"controllers are a list", []string{"--controllers=machine,machineset"}, func(o *Options) any {
			return o.controllers
		}, []string{"machine", "machineset"}},
		"NoTarget": {
			"none is no target cluster",
			[]string{"--target-kubeconfig=none", "--control-kubeconfig=/a"},
			func(o *Options) any { return o.clusters.target == noTarget }, true,
		},
		"CloudRates": {
			"limits of clouds add up",
			[]string{"--cloud-rate=aws.create=1", "--cloud-rate", "aws.get=2:3,sim.get=4"},
			func(o *Options) any { return o.cloudRates },
			[]string{"aws.create=1", "aws.get=2:3", "sim.get=4"},
		},
		"PauseFailing": {"a rollout that fails goes on, as in MCM", nil, func(o *Options) any {
			return o.machines.pauseFailingRollouts
		}, false},
		"ZeroRetry": {
			"no retry time means MCM's 10m, which the controller knows",
			[]string{"--resource-exhausted-retry=0"},
			func(o *Options) any {
				return o.machines.resourceExhaustedRetry.String()
			}, "0s",
		},
		"Conditions": {"blanks in a list do not count", []string{"--node-conditions= A, B,,"}, func(o *Options) any {
			return list(o.machines.nodeConditions)
		}, []string{"A", "B"}},
		"Groups": {
			"groups that authenticate are accepted",
			[]string{"--bootstrap-token-auth-extra-groups=system:bootstrappers:kubeadm:default-node-token, " +
				"system:bootstrappers:x"},
			func(o *Options) any { return len(list(o.machines.bootstrapTokenExtraGroups)) }, 2,
		},
		"NoElection": {
			"without election its times do not matter",
			[]string{"--leader-elect=false", "--leader-elect-renew-deadline=1h"},
			func(o *Options) any {
				return o.election.elect
			}, false,
		},
	}
	t.Setenv("POD_NAMESPACE", "")
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o, err := parse(tc.args...)
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, tc.got(o)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestInvalidValues(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		args   []string
		flag   string
	}{
		"Unknown":    {"a flag that nobody knows", []string{"--nope"}, "--nope"},
		"Misspelt":   {"a flag that is nearly MCM's", []string{"--machine-drain-time=2h"}, "--machine-drain-time"},
		"Port":       {"a port has 16 bits", []string{"--port=70000"}, "--port"},
		"NoPort":     {"the first port is always there", []string{"--port=0"}, "--port"},
		"SecondPort": {"the second port too", []string{"--machine-controller-port=-1"}, "--machine-controller-port"},
		"Address":    {"an address is an IP address", []string{"--address=localhost"}, "--address"},
		"Contention": {"contention profiles need profiles", []string{"--contention-profiling"}, "--contention-profiling"},
		"NoTarget": {
			"without target cluster the control cluster must be named",
			[]string{"--target-kubeconfig=none"},
			"--control-kubeconfig",
		},
		"NoControl": {
			"there has to be a control cluster",
			[]string{"--control-kubeconfig=none"},
			"--control-kubeconfig",
		},
		"Namespace": {"a namespace has a name", []string{"--namespace=a/b"}, "--namespace"},
		"Burst":     {"a count is not negative", []string{"--kube-api-burst=-1"}, "--kube-api-burst"},
		"Resync":    {"a period is not negative", []string{"--min-resync-period=-1s"}, "--min-resync-period"},
		"Workers":   {"workers are not negative", []string{"--concurrent-syncs=-1"}, "--concurrent-syncs"},
		"Lock": {
			"only leases can be shared with MCM",
			[]string{"--leader-elect-resource-lock=configmaps"},
			"--leader-elect-resource-lock",
		},
		"Lease": {
			"renewing ends before the lease does",
			[]string{"--leader-elect-renew-deadline=15s"},
			"--leader-elect-renew-deadline",
		},
		"ShortLease": {
			"leases count whole seconds",
			[]string{"--leader-elect-lease-duration=500ms"},
			"--leader-elect-lease-duration",
		},
		"Retry": {
			"there is time for a second attempt",
			[]string{"--leader-elect-retry-period=9s"},
			"--leader-elect-retry-period",
		},
		"LeaseNamespace": {
			"the leases' namespace has a name",
			[]string{"--leader-elect-resource-namespace=A"},
			"--leader-elect-resource-namespace",
		},
		"CloudRate":  {"a rate is of an operation", []string{"--cloud-rate=aws.boot=1"}, "--cloud-rate"},
		"SafetyUp":   {"a bound is not negative", []string{"--safety-up=-1"}, "--safety-up"},
		"SafetyDown": {"a bound is not negative", []string{"--safety-down=-1"}, "--safety-down"},
		"NoUnit": {
			"MCM's sample has a period without unit, which MCM refuses too",
			[]string{"--machine-safety-overshooting-period=1"},
			"--machine-safety-overshooting-period",
		},
		"Orphans": {
			"a period is not negative",
			[]string{"--machine-safety-orphan-vms-period=-1s"},
			"--machine-safety-orphan-vms-period",
		},
		"Check": {
			"a check ends before the next begins",
			[]string{"--machine-safety-apiserver-statuscheck-period=10s"},
			"--machine-safety-apiserver-statuscheck-period",
		},
		"CheckTimeout": {
			"a timeout is not negative",
			[]string{"--machine-safety-apiserver-statuscheck-timeout=-1s"},
			"--machine-safety-apiserver-statuscheck-timeout",
		},
		"Creation": {"a timeout is not negative", []string{"--machine-creation-timeout=-1m"}, "--machine-creation-timeout"},
		"Health":   {"a timeout is not negative", []string{"--machine-health-timeout=-1m"}, "--machine-health-timeout"},
		"Drain":    {"a timeout is not negative", []string{"--machine-drain-timeout=-1m"}, "--machine-drain-timeout"},
		"InPlace": {
			"a timeout is not negative",
			[]string{"--machine-inplace-update-timeout=-1m"},
			"--machine-inplace-update-timeout",
		},
		"Detach": {
			"a timeout is not negative",
			[]string{"--machine-pv-detach-timeout=-1m"},
			"--machine-pv-detach-timeout",
		},
		"Reattach": {
			"a timeout is not negative",
			[]string{"--machine-pv-reattach-timeout=-1m"},
			"--machine-pv-reattach-timeout",
		},
		"Preserve": {
			"a timeout is not negative",
			[]string{"--machine-preserve-timeout=-1m"},
			"--machine-preserve-timeout",
		},
		"Exhausted": {
			"a wait is not negative",
			[]string{"--resource-exhausted-retry=-1m"},
			"--resource-exhausted-retry",
		},
		"Evict": {
			"a count is not negative",
			[]string{"--machine-max-evict-retries=-1"},
			"--machine-max-evict-retries",
		},
		"HugeEvict": {
			"a count has 31 bits",
			[]string{"--machine-max-evict-retries=3000000000"},
			"--machine-max-evict-retries",
		},
		"NoReplacements": {
			"a pool in which nothing is replaced would never be repaired",
			[]string{"--machine-max-replacements=0"},
			"--machine-max-replacements",
		},
		"AllReplacements": {
			"more than all machines cannot be replaced",
			[]string{"--machine-max-replacements=101%"},
			"--machine-max-replacements",
		},
		"Groups": {
			"a group that no token may have would keep every node out",
			[]string{"--bootstrap-token-auth-extra-groups=system:masters"},
			"--bootstrap-token-auth-extra-groups",
		},
		"Shutdown": {
			"a timeout is not negative",
			[]string{"--graceful-shutdown-timeout=-1s"},
			"--graceful-shutdown-timeout",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := parse(tc.args...)
			if err == nil {
				t.Fatalf("%s: %v was accepted", tc.reason, tc.args)
			}
			if !strings.Contains(err.Error(), tc.flag) {
				t.Errorf("%s: the error does not name %s: %v", tc.reason, tc.flag, err)
			}
		})
	}
}

// Every flag that MCM accepts with 0 is accepted with 0, one at a time and together.
func TestZeroAsInMCM(t *testing.T) {
	t.Parallel()
	args := []string{"--kube-api-qps=5"}
	for _, name := range []string{
		"min-resync-period", "kube-api-burst", "controller-start-interval", "safety-up", "safety-down",
		"machine-safety-overshooting-period", "machine-safety-orphan-vms-period",
		"machine-safety-apiserver-statuscheck-timeout", "machine-safety-apiserver-statuscheck-period",
		"machine-creation-timeout", "machine-health-timeout", "machine-drain-timeout", "machine-inplace-update-timeout",
		"machine-max-evict-retries", "machine-pv-detach-timeout", "machine-pv-reattach-timeout",
		"machine-preserve-timeout", "resource-exhausted-retry", "machine-creation-timeout-growth-percent",
		"machine-replace-cycle-count-threshold",
	} {
		args = append(args, "--"+name+"=0")
	}
	o, err := parse(args...)
	if err != nil {
		t.Fatal(err)
	}
	c := o.controllerOptions()
	if c.Machine.HealthTimeout != 0 || c.Machine.DrainTimeout != 0 || c.Machine.CreationTimeout != 0 {
		t.Errorf("%+v: 0 is 0, not the default", c.Machine)
	}
	if c.Orphans.Period != time.Minute || c.Orphans.MinAge != 5*time.Minute || c.OvershootPeriod != time.Second {
		t.Errorf("%+v, overshoot period %s: 0 is often, but no busy loop", c.Orphans, c.OvershootPeriod)
	}
}
