package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster/audit"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// await waits until everything has settled and stays so, and remembers what has
// not. No fault is injected meanwhile; managers that ended are started.
func (c *chaos) await(ctx context.Context) {
	const calm = 5 * time.Second
	began := time.Now()
	var since time.Time
	err := stack.Until(ctx, c.options.settle, func(ctx context.Context) error {
		if err := c.tend(); err != nil {
			return stack.Fatal(err)
		}
		if err := errors.Join(c.decide(ctx), c.settled(ctx)); err != nil {
			since = time.Time{}
			return err
		}
		if since.IsZero() {
			since = time.Now()
		}
		if time.Since(since) < calm {
			return fmt.Errorf("settled for less than %s", calm)
		}
		return nil
	})
	if err != nil {
		c.restless = append(c.restless, err.Error())
		c.say("not settled: %v", err)
		return
	}
	c.say("settled after %s", time.Since(began).Round(time.Second))
}

// settled says what is different from what was asked for.
func (c *chaos) settled(ctx context.Context) error {
	machines, err := c.Machines(ctx, "")
	if err != nil {
		return err
	}
	ready, err := c.readyNodes(ctx)
	if err != nil {
		return err
	}
	vms, err := c.vmsByOwner(ctx)
	if err != nil {
		return err
	}
	for i := range machines {
		if err := whole(&machines[i], ready, vms); err != nil {
			return err
		}
	}
	for _, pool := range c.pools {
		if err := c.satisfied(ctx, pool, machines); err != nil {
			return err
		}
	}
	return nil
}

func (c *chaos) readyNodes(ctx context.Context) (map[string]bool, error) {
	nodes, _, err := c.Nodes(ctx)
	ready := map[string]bool{}
	for i := range nodes {
		ready[nodes[i].Name] = readyCondition(&nodes[i]).Status == "True"
	}
	return ready, err
}

// vmsByOwner counts the VMs that run.
func (c *chaos) vmsByOwner(ctx context.Context) (map[string]int, error) {
	live, err := c.Cloud.Live(ctx, sim.KindVM)
	vms := map[string]int{}
	for _, r := range live {
		if r.VM.State != sim.StateRunning {
			continue // its node may still look ready
		}
		vms[r.Tags[machinev1.OwnerIDAnnotation]]++
	}
	return vms, err
}

// whole says what a Machine lacks.
func whole(m *machinev1.Machine, ready map[string]bool, vms map[string]int) error {
	owner := m.Annotations[machinev1.OwnerIDAnnotation]
	if owner == "" {
		owner = string(m.UID)
	}
	phase := m.Status.CurrentStatus.Phase
	if !m.DeletionTimestamp.IsZero() || phase != machinev1.MachineRunning || !ready[m.Labels[machinev1.NodeLabel]] ||
		vms[owner] != 1 {
		return fmt.Errorf("machine %s is %q (being deleted: %t), its node is ready: %t, it has %d running VMs; it says %q",
			m.Name, phase, !m.DeletionTimestamp.IsZero(), ready[m.Labels[machinev1.NodeLabel]], vms[owner],
			m.Status.LastOperation.Description)
	}
	return nil
}

// satisfied says what a pool lacks.
func (c *chaos) satisfied(ctx context.Context, pool string, machines []machinev1.Machine) error {
	want := c.last(pool)
	all, fit := 0, 0
	for i := range machines {
		if machines[i].Labels[machinev1.NameLabel] != pool {
			continue
		}
		all++
		if machines[i].Spec.Class.Name == want.class {
			fit++
		}
	}
	d := &machinev1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: stack.Namespace, Name: pool}}
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
		return err
	}
	counted := int(d.Status.AvailableReplicas) == want.replicas && int(d.Status.UpdatedReplicas) == want.replicas &&
		d.Status.ObservedGeneration == d.Generation
	if all != want.replicas || fit != want.replicas || !counted {
		return fmt.Errorf("pool %s has %d Machines, %d of class %s, and says %d available and %d updated; want %d of each",
			pool, all, fit, want.class, d.Status.AvailableReplicas, d.Status.UpdatedReplicas, want.replicas)
	}
	return nil
}

// listen notes what the managers write while nothing changes.
func (c *chaos) listen(ctx context.Context) error {
	from, err := c.Cluster.Mark(ctx)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(c.options.quiet):
	}
	to, err := c.Cluster.Mark(ctx)
	if err != nil {
		return err
	}
	entries, err := c.Cluster.Audit().Between(from, to, audit.User(managerUser),
		audit.Verb("create", "update", "patch", "delete", "deletecollection"))
	for _, e := range entries {
		if tellsOfOrphan(e) {
			continue
		}
		c.quiet = append(c.quiet, write{at: e.Received, verb: e.Verb, target: e.Target(), name: e.Name, agent: e.UserAgent})
	}
	return err
}

// tellsOfOrphan reports whether a write is an Event on a class: the collector takes
// a stray VM away minutes after it was made, whatever happens meanwhile.
func tellsOfOrphan(e audit.Entry) bool {
	for _, class := range classes {
		if e.Resource == "events" && strings.HasPrefix(e.Name, class+".") {
			return true
		}
	}
	return false
}

// panics returns the managers whose logs show a panic.
func (c *chaos) panics() ([]string, error) {
	logs, err := filepath.Glob(filepath.Join(c.options.dir, "manager-*.log"))
	if err != nil {
		return nil, err
	}
	var found []string
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			return nil, err
		}
		if strings.Contains(string(text), "panic:") || strings.Contains(string(text), "Observed a panic") {
			found = append(found, log)
		}
	}
	return found, nil
}
