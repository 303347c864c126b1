package capi

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// remediation: with MCMRemediation as external remediation, a worker whose kubelet is sick is
// rebooted and stays; one that stays sick is replaced.
func (p *pool) remediation(t *testing.T) {
	t.Helper()
	p.documented(t)
	p.rebootFirst(t)
	vm, machine := p.onlyWorker(t)
	p.sicken(t, vm.ID, map[string]any{"ready": false})
	p.until(t, "the VM is rebooted", p.booted(vm.ID, 1))
	p.until(t, "the MachineHealthCheck deletes the remediation", p.noRemediation)
	if now, same := p.onlyWorker(t); now.ID != vm.ID || same.UID != machine.UID {
		t.Errorf("VM %s of Machine %s became %s of %s", vm.ID, machine.UID, now.ID, same.UID)
	}

	p.sicken(t, vm.ID, map[string]any{"ready": false, "lasting": true})
	p.until(t, "the VM is rebooted again", p.booted(vm.ID, 2))
	p.until(t, "the Machine that stays sick is replaced", func(ctx context.Context) error {
		if err := p.settled(1)(ctx); err != nil {
			return err
		}
		machines, err := p.machines(ctx)
		if err == nil && machines[0].UID == machine.UID {
			err = fmt.Errorf("Machine %s is still there", machine.Name)
		}
		return err
	})
	if was, err := p.nodes.Cloud.Ledger(t.Context(), sim.KindVM); err != nil || bootsOf(was, vm.ID) != 2 {
		t.Errorf("the VM was rebooted %d times (%v), want 2", bootsOf(was, vm.ID), err)
	}
	p.until(t, "no remediation is left", p.noRemediation)
}

// documented: the API server takes the sample of docs/operations.md.
func (p *pool) documented(t *testing.T) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, sample, _ := strings.Cut(string(page), "\n## Remediation\n")
	_, sample, _ = strings.Cut(sample, "```yaml\n")
	sample, _, _ = strings.Cut(sample, "```")
	for i, o := range []client.Object{&infrav1.MCMRemediationTemplate{}, &clusterv1.MachineHealthCheck{}} {
		if err := yaml.UnmarshalStrict([]byte(strings.Split(sample, "---\n")[i]), o); err != nil {
			t.Fatal(err)
		}
		o.SetNamespace(p.namespace)
		if check, ok := o.(*clusterv1.MachineHealthCheck); ok {
			check.Spec.ClusterName = p.name
		}
		if err := p.m.cl.Create(t.Context(), o, client.DryRunAll); err != nil {
			t.Errorf("%T of docs/operations.md: %v", o, err)
		}
	}
}

// rebootFirst gives the MachineHealthCheck of the pool a template.
func (p *pool) rebootFirst(t *testing.T) {
	t.Helper()
	template := &infrav1.MCMRemediationTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "reboot"}}
	template.Spec.Template.Spec.Strategy = infrav1.RemediationStrategy{
		TimeoutSeconds: new(int32(30)), CooldownSeconds: new(int32(0)),
	}
	if err := p.m.cl.Create(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	var checks clusterv1.MachineHealthCheckList
	if err := p.m.cl.List(t.Context(), &checks, client.InNamespace(p.namespace)); err != nil || len(checks.Items) != 1 {
		t.Fatalf("%d MachineHealthChecks, %v", len(checks.Items), err)
	}
	check := &checks.Items[0]
	before := check.DeepCopy()
	check.Spec.Remediation.TemplateRef = clusterv1.MachineHealthCheckRemediationTemplateReference{
		APIVersion: infrav1.GroupVersion.String(), Kind: "MCMRemediationTemplate", Name: template.Name,
	}
	if err := p.m.cl.Patch(t.Context(), check, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// onlyWorker is the one VM that there is, and its Machine.
func (p *pool) onlyWorker(t *testing.T) (sim.Resource, clusterv1.Machine) {
	t.Helper()
	vms, err := p.nodes.Cloud.VMs(t.Context())
	if err != nil || len(vms) != 1 {
		t.Fatalf("%d VMs, %v", len(vms), err)
	}
	machines, err := p.machines(t.Context())
	if err != nil || len(machines) != 1 {
		t.Fatalf("%d Machines, %v", len(machines), err)
	}
	for _, vm := range vms {
		return vm, machines[0]
	}
	return sim.Resource{}, clusterv1.Machine{}
}

func (p *pool) sicken(t *testing.T, id string, how map[string]any) {
	t.Helper()
	if err := p.nodes.Cloud.Kubelet(t.Context(), id, how); err != nil {
		t.Fatal(err)
	}
}

// booted fails until a VM has been rebooted so often.
func (p *pool) booted(id string, times int) func(context.Context) error {
	return func(ctx context.Context) error {
		ledger, err := p.nodes.Cloud.Ledger(ctx, sim.KindVM)
		if n := bootsOf(ledger, id); err == nil && n != times {
			err = fmt.Errorf("%d reboots", n)
		}
		return err
	}
}

func bootsOf(ledger []sim.Resource, id string) int {
	for _, vm := range ledger {
		if vm.ID == id {
			return vm.VM.Boots
		}
	}
	return 0
}

// noRemediation fails while there is an MCMRemediation.
func (p *pool) noRemediation(ctx context.Context) error {
	var all infrav1.MCMRemediationList
	err := p.m.cl.List(ctx, &all, client.InNamespace(p.namespace))
	if err == nil && len(all.Items) > 0 {
		err = fmt.Errorf("%s: %+v", all.Items[0].Name, all.Items[0].Status)
	}
	return err
}
