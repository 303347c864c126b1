package autoscaler

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// How long the autoscaler waits for a node: --max-node-provision-time.
const (
	provisionTime = time.Minute
	soakTime      = 90 * time.Second // longer than that
	// usualProvisionTime is its default, which no test waits for.
	usualProvisionTime = 15 * time.Minute
)

// A Binary is a cluster-autoscaler, and what it is run with.
type Binary struct {
	Path                 string
	Management, Workload string // kubeconfigs
	// Discover is the value of --node-group-auto-discovery.
	Discover string
}

// Program is the cluster-autoscaler that the environment names. Where it names
// none the test is skipped, with a line that says how to give one.
func Program(t interface {
	Helper()
	Skip(args ...any)
}, api string,
) string {
	t.Helper()
	path := os.Getenv("AUTOSCALER")
	if path == "" {
		t.Skip("no cluster-autoscaler is given: make autoscaler AUTOSCALER=path API=" + api)
	}
	return path
}

// Run runs a cluster-autoscaler: pods that fit nowhere lead to nodes, idle nodes
// go, from zero and to zero, and no healthy machine is deleted for longer than
// max-node-provision-time.
func (p *Play) Run(b Binary, pods *Scheduler) {
	p.Helper()
	stop := p.start(b, provisionTime)
	two := p.load(pods, 2)
	p.registered()
	p.soak(pods, two)
	one := p.load(pods, 1)
	left := p.states(Running)
	nodes, err := p.Nodes(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	for _, n := range nodes {
		if n.Annotations[p.key("machine")] == left[0].Machine && !slices.Contains(slices.Collect(maps.Values(one)), n.Name) {
			p.Errorf("node %s is left, and the pod ran on %v", n.Name, one)
		}
	}
	p.load(pods, 0)
	p.states()
	p.empty()
	stop()
}

// RunExhausted runs a cluster-autoscaler while the cloud has no room for the VMs
// of this group: it takes back what it asked for, and uses the group spare. It
// returns how long the pod waited for its node.
func (p *Play) RunExhausted(b Binary, pods *Scheduler, spare Group) time.Duration {
	p.Helper()
	if err := p.Cloud.SetCapacity(p.Context(), "small", 0); err != nil {
		p.Fatal(err)
	}
	before := p.asked()
	stop := p.start(b, usualProvisionTime)
	begin := time.Now()
	p.load(pods, 1)
	took := time.Since(begin)
	p.states()
	other := Play{T: p.T, Group: spare, Cloud: p.Cloud}
	other.states(Running)
	// One of this group, which was refused, and the other's.
	if asked := p.asked() - before; asked < 2 {
		p.Errorf("the cloud was asked for %d VMs: the autoscaler has not tried %s", asked, p.Name)
	}
	p.load(pods, 0)
	other.states()
	p.empty()
	stop()
	return took
}

// asked is how often the cloud was asked for a VM.
func (p *Play) asked() int {
	p.Helper()
	calls, err := p.Cloud.CallsOf(p.Context(), stack.AccountID, sim.OpCreateVM)
	if err != nil {
		p.Fatal(err)
	}
	return calls
}

// start starts an autoscaler, and returns what ends it; it ends with the test, too.
func (p *Play) start(b Binary, provisionTime time.Duration) (stop func()) {
	p.Helper()
	log, err := os.Create(filepath.Join(p.TempDir(), "autoscaler.log"))
	if err != nil {
		p.Fatal(err)
	}
	cmd := p.command(b, provisionTime)
	cmd.Stdout, cmd.Stderr = log, log
	if stop, err = run(cmd); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		stop()
		if text, err := os.ReadFile(log.Name()); err == nil && p.Failed() {
			p.Logf("autoscaler:\n%s", text[max(0, len(text)-40000):])
		}
	})
	return stop
}

// command is an autoscaler that is impatient, but for nodes that do not come.
func (p *Play) command(b Binary, provisionTime time.Duration) *exec.Cmd {
	cmd := exec.Command(b.Path,
		"--cloud-provider=clusterapi", "--kubeconfig="+b.Workload, "--cloud-config="+b.Management,
		"--node-group-auto-discovery=clusterapi:"+b.Discover, "--leader-elect=false", "--scan-interval=2s",
		"--scale-down-delay-after-add=5s", "--scale-down-unneeded-time=5s", "--scale-down-delay-after-delete=1s",
		"--unremovable-node-recheck-timeout=2s", "--kube-client-qps=100", "--kube-client-burst=200",
		"--max-node-provision-time="+provisionTime.String(), "--address=127.0.0.1:0", "--v=4")
	cmd.Env = os.Environ()
	if p.API.Group == machinev1.GroupVersion.Group {
		cmd.Env = append(cmd.Env, "CAPI_GROUP="+p.API.Group) // the other API's is the default
	}
	return cmd
}

// run runs a program, at the latest until this one ends, and returns what ends it.
func run(cmd *exec.Cmd) (stop func(), err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error), make(chan struct{})
	go func() {
		// The kernel ends the program with the thread that started it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in the log
			close(ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return func() {
		_ = cmd.Process.Kill() // it may have ended by itself
		<-ended
	}, nil
}

// load wants n pods and waits until each has a node. It returns the nodes by pods.
func (p *Play) load(pods *Scheduler, n int) map[string]string {
	p.Helper()
	if err := pods.Want(p.Context(), n); err != nil {
		p.Fatal(err)
	}
	var bound map[string]string
	p.until(fmt.Sprintf("%d pods have nodes", n), func(ctx context.Context) error {
		var waiting int
		var err error
		bound, waiting, err = pods.Step(ctx)
		if err == nil && (len(bound) != n || waiting > 0) {
			err = fmt.Errorf("%d pods are bound, %d wait, want %d bound", len(bound), waiting, n)
		}
		return err
	})
	return bound
}

// soak watches for longer than max-node-provision-time that the same machines
// stay, with the same pods on their nodes.
func (p *Play) soak(pods *Scheduler, bound map[string]string) {
	p.Helper()
	before := p.names()
	ctx, cancel := context.WithTimeout(p.Context(), soakTime)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			p.Logf("machines %v stayed for %s", before, soakTime)
			return
		case <-tick.C:
			is, waiting, err := pods.Step(p.Context())
			if err == nil && (!maps.Equal(is, bound) || waiting > 0) {
				p.Fatalf("pods on %v became %v, %d waiting", bound, is, waiting)
			}
			if now := p.names(); !slices.Equal(now, before) {
				p.Fatalf("machines %v became %v although nothing was asked", before, now)
			}
		}
	}
}

func (p *Play) names() []string {
	p.Helper()
	machines, err := p.Machines(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	var names []string
	for i := range machines {
		names = append(names, machines[i].GetName())
	}
	slices.Sort(names)
	return names
}
