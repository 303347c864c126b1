package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

const (
	pool   = "sim" // the MachineDeployment of the samples, of 3 machines
	first  = "sim-v1"
	second = "sim-v2"
)

// steps are the demo, in order.
func (d *demo) steps(ctx context.Context) error {
	for _, step := range []struct {
		title  string
		within time.Duration
		do     func(context.Context) error
	}{
		{"a manager starts and takes the lead", 2 * time.Minute, d.startManager},
		{"config/samples/sim: 3 machines, from nothing to Running with ready nodes", 2 * time.Minute, d.create},
		{"scale-out to 5", time.Minute, func(ctx context.Context) error { return d.scale(ctx, first, 5) }},
		{"rolling update to a new class: every VM is replaced", 3 * time.Minute, d.roll},
		{"a VM is killed in the cloud and replaced", 3 * time.Minute, d.kill},
		{"a VM without a machine is found and removed", 2 * time.Minute, d.orphan},
		{"scale to zero: no VM, no disk, no interface left", 2 * time.Minute, d.empty},
	} {
		d.say("── %s", step.title)
		limited, cancel := context.WithTimeout(ctx, step.within)
		err := step.do(limited)
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", step.title, err)
		}
	}
	return nil
}

func (d *demo) startManager(context.Context) error {
	m, err := d.StartManager()
	if err != nil {
		return err
	}
	d.say("   manager runs as process %d", m.PID())
	return nil
}

func (d *demo) create(ctx context.Context) error {
	if err := d.ApplySamples(ctx); err != nil {
		return err
	}
	return d.wait(ctx, first, 3)
}

func (d *demo) scale(ctx context.Context, class string, replicas int32) error {
	md := d.deployment()
	if err := d.Edit(ctx, md, func() { md.Spec.Replicas = replicas }); err != nil {
		return err
	}
	return d.wait(ctx, class, int(replicas))
}

func (d *demo) roll(ctx context.Context) error {
	before, err := d.Cloud.VMs(ctx)
	if err != nil {
		return err
	}
	md := d.deployment()
	if err := d.Edit(ctx, md, func() { md.Spec.Template.Spec.Class.Name = second }); err != nil {
		return err
	}
	if err := d.wait(ctx, second, 5); err != nil {
		return err
	}
	after, err := d.Cloud.VMs(ctx)
	if err != nil {
		return err
	}
	for name, vm := range after {
		if before[name].ID == vm.ID {
			return fmt.Errorf("VM %s (%s) was not replaced", vm.ID, name)
		}
		if vm.VM.InstanceType != "large" {
			return fmt.Errorf("VM %s is of type %s, the new class says large", vm.ID, vm.VM.InstanceType)
		}
	}
	return nil
}

func (d *demo) kill(ctx context.Context) error {
	vms, err := d.Cloud.VMs(ctx)
	if err != nil {
		return err
	}
	name := slices.Sorted(maps.Keys(vms))[0]
	if err := d.Cloud.Terminate(ctx, vms[name].ID); err != nil {
		return err
	}
	d.say("   %s, the VM of %s, was terminated in the cloud", vms[name].ID, name)
	err = stack.Until(ctx, 2*time.Minute, func(ctx context.Context) error {
		m := &machinev1.Machine{}
		if err := d.Client.Get(ctx, client.ObjectKey{Namespace: stack.Namespace, Name: name},
			m); client.IgnoreNotFound(err) != nil || err == nil {
			return errors.Join(err, fmt.Errorf("machine %s is still there, phase %s", name, m.Status.CurrentStatus.Phase))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return d.wait(ctx, second, 5)
}

func (d *demo) orphan(ctx context.Context) error {
	id, err := d.Cloud.CreateVM(ctx, "left-behind")
	if err != nil {
		return err
	}
	d.say("   %s was made behind the manager's back", id)
	err = stack.Until(ctx, 2*time.Minute, func(ctx context.Context) error {
		vms, err := d.Cloud.VMs(ctx)
		if _, there := vms["left-behind"]; err == nil && there {
			return errors.New("the VM without a machine is still there")
		}
		return err
	})
	if err != nil {
		return err
	}
	return d.wait(ctx, second, 5)
}

func (d *demo) empty(ctx context.Context) error {
	if err := d.scale(ctx, second, 0); err != nil {
		return err
	}
	return stack.Until(ctx, time.Minute, func(ctx context.Context) error {
		left, err := d.Cloud.Live(ctx, "")
		if err == nil && len(left) > 0 {
			return fmt.Errorf("%d resources are left in the cloud, the first is %s %s", len(left), left[0].Kind, left[0].ID)
		}
		return err
	})
}

// wait shows what is there until the pool has that many Running machines of the
// class, with ready nodes, a VM each, and nothing besides.
func (d *demo) wait(ctx context.Context, class string, want int) error {
	shown := ""
	return stack.Until(ctx, 3*time.Minute, func(ctx context.Context) error {
		now, err := d.picture(ctx)
		if err != nil {
			return err
		}
		if now != shown {
			shown = now
			d.say("   %s", now)
		}
		return d.Settled(ctx, pool, class, want)
	})
}

// picture is one line about machines, nodes and VMs.
func (d *demo) picture(ctx context.Context) (string, error) {
	machines, err := d.Machines(ctx, pool)
	if err != nil {
		return "", err
	}
	phases := map[string]int{}
	for i := range machines {
		phase := string(machines[i].Status.CurrentStatus.Phase)
		switch {
		case !machines[i].DeletionTimestamp.IsZero():
			phase = string(machinev1.MachineTerminating)
		case phase == "":
			phase = "Creating"
		}
		phases[phase+" "+machines[i].Spec.Class.Name]++
	}
	var parts []string
	for _, phase := range slices.Sorted(maps.Keys(phases)) {
		parts = append(parts, fmt.Sprintf("%d %s", phases[phase], phase))
	}
	nodes, ready, err := d.Nodes(ctx)
	if err != nil {
		return "", err
	}
	vms, err := d.Cloud.VMs(ctx)
	if err != nil {
		return "", err
	}
	if len(parts) == 0 {
		parts = []string{"none"}
	}
	return fmt.Sprintf("machines: %-60s nodes: %d/%d ready   VMs: %d", strings.Join(parts, ", "), ready, len(nodes),
		len(vms)), nil
}

func (d *demo) deployment() *machinev1.MachineDeployment {
	md := &machinev1.MachineDeployment{}
	md.Namespace, md.Name = stack.Namespace, pool
	return md
}
